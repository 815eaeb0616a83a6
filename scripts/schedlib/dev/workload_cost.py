# SPDX-License-Identifier: GPL-2.0
"""The cost of the workloads: rt_wakeup against cyclictest, in turn, and the start of the mail's sleep_storm."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from schedlib.errors import SchedlineError
from schedlib.formats.run_file import read_run
from schedlib.progress import step
from schedlib.runs.tool_process import Finished, run_guarded

_ROUNDS = 9
_CYCLES = 10000
_CHILDREN = 4800

_WIDTH = 400
"""Width of cyclictest's histogram in microseconds."""

_CYCLICTEST = f"cyclictest -t -a -i200 -d0 -h {_WIDTH} -m -p 95 -q --json=out.json -l"
_RT_WAKEUP = ("--interval-us", "200", "--distance-us", "0", "--priority", "95", "--warm-up", "0", "--cycles")


@dataclass(frozen=True)
class Timers:
    """One run of SCHED_FIFO timers on all CPUs; all in seconds."""

    cpu_per_sample: float
    p50: float
    p99: float


@dataclass(frozen=True)
class Round:
    """cyclictest, rt_wakeup and cyclictest again."""

    before: Timers
    ours: Timers
    after: Timers


def quantile(histogram: Mapping[int, int], n: int, share: float) -> float:
    """A quantile in seconds, interpolated in its bucket of one microsecond; the width if it is beyond the histogram."""
    before = 0
    for bucket in sorted(histogram):
        if before + histogram[bucket] >= share * n:
            return (bucket + (share * n - before) / histogram[bucket]) / 1e6
        before += histogram[bucket]
    return _WIDTH / 1e6


def _run(argv: Sequence[str], place: Path) -> Finished:
    done = run_guarded(argv, place, 300)
    if done.exit_status != 0 or done.problem:
        said = " ".join((done.problem or done.stdout + done.stderr).strip().splitlines()[-1:])
        raise SchedlineError(f"{Path(argv[0]).name} ended with {done.exit_status}: {said}", "run it by hand as root")
    return done


def _cyclictest() -> Timers:
    with tempfile.TemporaryDirectory() as directory:
        done = _run([*_CYCLICTEST.split(), str(_CYCLES)], Path(directory))
        threads = json.loads(Path(directory, "out.json").read_text())["thread"].values()
    histogram = Counter[int]()
    for thread in threads:
        histogram.update({int(bucket): count for bucket, count in thread["histogram"].items()})
    n = sum(thread["cycles"] for thread in threads)
    return Timers(done.cpu_s / n, quantile(histogram, n, 0.5), quantile(histogram, n, 0.99))


def _own(program: Path, words: Sequence[str]) -> tuple[Finished, dict[str, float]]:
    with tempfile.TemporaryDirectory() as directory:
        done = _run([str(program), *words, "--runs", "1", "--json", "run.json"], Path(directory))
        found = read_run(Path(directory, "run.json"))
    return done, {metric.name: metric.value for metric in found.metrics}


def _rt_wakeup(programs: Path) -> Timers:
    done, found = _own(programs / "rt_wakeup", (*_RT_WAKEUP, str(_CYCLES)))
    return Timers(done.cpu_s / found["timer.samples"], found["timer.p50"] / 1e9, found["timer.p99"] / 1e9)


def beside_cyclictest(programs: Path) -> list[Round]:
    """Run rounds of cyclictest, rt_wakeup and cyclictest. A change of the machine affects all three of a round."""
    rounds = []
    for number in range(1, _ROUNDS + 1):
        with step(f"cyclictest, rt_wakeup, cyclictest: {number} of {_ROUNDS}"):
            rounds.append(Round(_cyclictest(), _rt_wakeup(programs), _cyclictest()))
    return rounds


def apart(rounds: Sequence[Round], value: Callable[[Timers], float]) -> tuple[float, float]:
    """How far rt_wakeup is from cyclictest, and cyclictest from itself: medians over the rounds."""
    ours = median(value(each.ours) - (value(each.before) + value(each.after)) / 2 for each in rounds)
    return abs(ours), median(abs(value(each.after) - value(each.before)) for each in rounds)


def start_of_storm(programs: Path) -> dict[str, float]:
    """Start the mail's number of children, each of which sleeps only once. Returns the metrics.

    memory_per_child, in kB, is absent if other work freed more memory than the children took.
    """
    words = ("--children", str(_CHILDREN), "--log-loops", "0")
    with step(f"sleep_storm with {_CHILDREN} children"):
        return _own(programs / "sleep_storm", words)[1]
