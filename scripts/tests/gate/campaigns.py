# SPDX-License-Identifier: GPL-2.0
"""Campaigns as files: runs of two kernels that were booted alternately, fleets of them, and files of other tools."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from one_verb import main_of
from schedlib.errors import SchedlineError
from schedlib.gate import gate_verb
from schedlib.runs.plan import PlannedRun, RunPlan

main = main_of(gate_verb)

GATES = """\
[gate]
alpha = 0.01
looks = [10]

[[metric]]
tool = "rt_wakeup"
name = "timer.p99"
direction = "lower"
method = "rank"
budget = 3
detect = 25
"""
TO_20 = GATES.replace("[10]", "[10, 20]")

FINGERPRINT = {
    "machine_name": "0123456789abcdef",
    "machine": "x86_64 Some CPU, CPUs 0-7, 1 LLCs, 1 nodes",
    "configuration": "config.gz fnv1a 0123456789abcdef",
    "kernel_command_line": "BOOT_IMAGE=/boot/vmlinuz ro quiet",
    "clocksource": "tsc",
    "governor": "performance",
    "command_line": "./rt_wakeup --json /tmp/x.json",
    "compiler": "12.2.0",
    "libc": "2.36",
}

_SWAPPED = {1, 2, 4, 7, 8, 11, 13, 14, 16, 19}
"""Pairs of boots of which the candidate is the first."""

START = datetime(2026, 11, 1, tzinfo=UTC)

RUN_PLAN = RunPlan(
    schema="plan-1", suite="gate", rows=("rt-wakeup",), digest="x", runs=1, seed=1, machine={},
    order=(PlannedRun("rt-wakeup", 1),),
)  # fmt: skip
"""What `schedline run` writes when it begins a boot."""


def metric(value: Any, **more: Any) -> dict[str, Any]:
    """A timer.p99 metric; `more` overrides its fields."""
    plain = {"name": "timer.p99", "unit": "ns", "direction": "lower", "kind": "quantile", "value": value, "n": 1000}
    return plain | more


def minute_of(name: str, place: int) -> int:
    """When a boot of a kernel begins, in pairs of which the candidate is first in some."""
    return 10 * (2 * place + ((place in _SWAPPED) ^ (name == "candidate")))


def run(kernel: str, boot: str, minute: float, metrics: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """The content of one run file."""
    identity = {"kernel": f"7.3.4-{kernel} #1 SMP", "build_id": f"{kernel}00", "boot_id": boot}
    return {
        "schema": "run-1",
        "tool": "rt_wakeup",
        "started": (START + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "uptime_s": 60.25,
        "fingerprint": FINGERPRINT | identity,
        "status": "DONE",
        "reason": "",
        "metrics": list(metrics),
        "absent": [],
        "cpus": [],
    } | more


@dataclass
class Campaign:
    """Two directories and a gates file. The boots go in pairs, and in some pairs the candidate is first."""

    place: Path
    gates: str = GATES
    written: int = 0
    extra: Sequence[Mapping[str, Any]] = field(default_factory=list)
    unit: str = "ns"

    @property
    def base(self) -> Path:
        return self.place / "base"

    @property
    def candidate(self) -> Path:
        return self.place / "candidate"

    def words(self, *more: str) -> list[str]:
        """The command line of the gate."""
        gates = self.place / "gates.toml"
        gates.write_text(self.gates)
        return ["gate", str(self.base), str(self.candidate), "--gates", str(gates), *more]

    def told(self, *more: str) -> tuple[int | None, str]:
        """The exit code of the gate, and what it says; see told()."""
        return told(*self.words(*more))

    def save(self, side: Path, content: Any) -> Path:
        side.mkdir(parents=True, exist_ok=True)
        path = side / f"{self.written:05}.json"
        self.written += 1
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def boots(
        self,
        base: Sequence[float],
        candidate: Sequence[float],
        *,
        runs: int = 1,
        first: int = 0,
        order: str = "pairs",
        tool: str = "rt_wakeup",
        **about: Any,
    ) -> None:
        """Write one boot per value: in pairs, in turn, or in blocks, one kernel after the other.

        `about`: of the metric, instead of the fields that metric() gives it.
        """
        for name, values in (("base", base), ("candidate", candidate)):
            late = name == "candidate"
            for place, value in enumerate(values):
                slot = {"pairs": minute_of(name, place), "turns": 20 * place + 10 * late}
                begun = first + slot.get(order, 10 * (place + 1000 * late))
                for number in range(runs):
                    metrics = [metric(value * (1 + 1e-9 * number), **{"unit": self.unit} | about), *self.extra]
                    # Of each run two seconds.
                    more = {"uptime_s": 60.25 + 2 * number, "tool": tool}
                    content = run(name, f"{name}-{first}-{place}", begun + number / 30, metrics, **more)
                    self.save(self.place / name, content)


def told(*words: object) -> tuple[int | None, str]:
    """The exit code and what is said, in one line; None and the message if the words or the files are refused."""
    out, err = StringIO(), StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main(list(map(str, words)))
    except (SchedlineError, SystemExit) as error:
        said = str(error) if isinstance(error, SchedlineError) else err.getvalue()
        assert "\n  next: " in said
        return None, said
    # Only a word that is longer makes a line longer, such as a path; the table of a history is wider.
    wide = words[1] in ("history", "plan")
    lines = [line for line in out.getvalue().splitlines() if not wide and not line.startswith("page: ")]
    assert not [line for line in lines if len(line) > 72 and " " in line.strip()]
    return code, " ".join(out.getvalue().split())


def rewrite(side: Path, change: Callable[[dict[str, Any]], object], count: int = 1000) -> None:
    """Change the first run files of a kernel."""
    for path in sorted(side.iterdir())[:count]:
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))


def noise(seed: int, boots: int = 10, factor: float = 1.0) -> list[float]:
    """Log-normal noise of 5 % around 10,000."""
    lot = np.random.default_rng(seed)
    return [float(value) for value in factor * 10_000 * np.exp(0.05 * lot.standard_normal(boots))]


# ---- fleets ----

BOOTS = 10


def write_machine(
    place: Path, model: str, change: float, seed: int, *, boots: int = BOOTS, noise: float = 0.05, **more: Any
) -> None:
    """Write the runs of one machine, whose candidate is worse by a share."""
    lot = np.random.default_rng(seed)
    for side, factor in (("base", 1.0), ("candidate", 1.0 + change)):
        (place / side).mkdir(parents=True)
        for number, value in enumerate(10_000 * factor * np.exp(noise * lot.standard_normal(boots))):
            boot = f"{place.name}-{side}-{number}"
            found = run(side, boot, minute_of(side, number), [metric(float(value))], **more)
            found["fingerprint"]["machine"] = f"x86_64 {model}, CPUs 0-7, 1 LLCs"
            (place / side / f"{number}.json").write_text(json.dumps(found))


def write_fleet(place: Path, models: Mapping[str, tuple[int, float]], *, first: int = 0) -> Path:
    """A fleet: for each model the number of machines, and by which share the candidate is worse."""
    seed = first
    for model, (machines, change) in models.items():
        for number in range(machines):
            seed += 1
            write_machine(place / f"{model.lower()}{number:02}", model, change, seed)
    return place


def names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [row["name"].removeprefix("x86_64 ").partition(",")[0] for row in rows]


# ---- files as hackbench and cyclictest write them ----

HACKBENCH = """\
Running in process mode with {groups} groups using 40 file descriptors each (== 80 tasks)
Each sender will pass 100 messages of 100 bytes
Time: {seconds:.3f}
"""

CYCLICTEST = json.loads((Path(__file__).parent / "recorded/cyclictest/2.40.json").read_text())


def hackbench(place: Path, values: Sequence[float], groups: int = 2, first: int = 0) -> Path:
    """Files of hackbench, written one after the other; values in milliseconds."""
    place.mkdir(parents=True, exist_ok=True)
    for number, value in enumerate(values, first):
        path = place / f"{number:03}.txt"
        path.write_text(HACKBENCH.format(groups=groups, seconds=value / 1000))
        os.utime(path, (1.7e9 + number, 1.7e9 + number))
    return place


def cyclictest(place: Path, kernel: str, slots: Sequence[int], more: int = 0) -> Path:
    """Files of cyclictest, each from a minute of its own; `more` microseconds are added to each latency."""
    place.mkdir(parents=True, exist_ok=True)
    for number, slot in enumerate(slots):
        found = json.loads(json.dumps(CYCLICTEST))
        found["start_time"] = f"Mon, 23 Nov 2026 14:{slot:02}:00 +0000"
        found["sysinfo"]["release"] = kernel
        for thread in found["thread"].values():
            shift = more + slot % 3
            # No two runs have the same counts.
            counts = {str(int(at) + shift): count for at, count in thread["histogram"].items()}
            common = max(counts, key=lambda at: counts[at])
            thread["histogram"] = counts | {common: counts[common] + slot}
            thread["cycles"] += slot
        (place / f"{number}.json").write_text(json.dumps(found))
    return place
