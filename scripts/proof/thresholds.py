# SPDX-License-Identifier: GPL-2.0
"""Which regressions the kselftests catch on this machine, and how often they are wrong: docs/results/gate.md.

Each workload records a baseline of its own in three sessions. Between them it is run again and again unchanged, and
afterwards with a delay that is injected into every wake-up, beside a SCHED_FIFO hog, with a coarse timer slack, and
under load. What counts is its exit status and its tests against the baseline.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from schedlib import doctor
from schedlib.cache import cache_dir
from schedlib.errors import SchedlineError
from schedlib.formats.run_file import read_run
from schedlib.formats.tables import table
from schedlib.process import dying_with_us
from schedlib.progress import say, step
from schedlib.runs.programs import compiled

TOOLS: Mapping[str, str] = {
    "rt_wakeup": "timer.p50",
    "wakeup_pingpong": "futex_same_llc.p50",
    "rt_push_pull": "overload.late.p50",
    "sleep_storm": "oversleep.p50",
}
"""The workloads, and the median of which the injected delay is a percentage; a PASS has judged it."""

UNCHANGED = 50
"""Batches in each of three rows."""

CHANGED = 5

RECORDINGS = 5
"""A baseline is tried so often: somebody may use the machine for a second."""

SESSION_MINUTES = 11
"""A workload takes what is recorded ten minutes later for another session."""

_HOG = """
import os, sys, time
cpu, share, period = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(85))
print(flush=True)
due = time.monotonic()
while True:
    due += period
    until = due - period * (1 - share)
    while time.monotonic() < until:
        pass
    time.sleep(max(0.0, due - time.monotonic()))
"""
"""Takes a share of a CPU, once in each period."""

_SLACK = """
import ctypes, os, sys
if ctypes.CDLL(None).prctl(29, int(sys.argv[1]), 0, 0, 0):
    sys.exit("prctl failed")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Sets the timer slack (PR_SET_TIMERSLACK, in ns) and becomes a program."""

Outcome = Literal["FAIL", "PASS", "SKIP", "ERROR"]
_UNCLEAR: tuple[Outcome, ...] = ("SKIP", "ERROR")
_TEST = re.compile(r"^(not ok|ok) \d+ (\w+)(.*)$", re.M)


@dataclass(frozen=True)
class Case:
    """A disturbance that the workloads have to notice, or not.

    Attributes:
        delay: injected, in percent of the median.
        hog: the share of CPU 0 that a SCHED_FIFO task takes, and its period in seconds.
        slack: the timer slack in ns.
        load: a command that keeps the machine busy.
        records: a further session of the baseline is recorded before.
        goal: percent of the batches that have to fail, for each tool; a negative one is the most that may fail.
    """

    name: str
    batches: int
    delay: float = 0
    hog: tuple[float, float] | None = None
    slack: int = 0
    load: tuple[str, ...] = ()
    records: bool = False
    goal: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Detection:
    """The batches of one workload in one case: how many ended how, and how often each test failed."""

    case: Case
    tool: str
    outcomes: Counter[Outcome]
    tests: Counter[str]

    @property
    def met(self) -> bool:
        """Whether enough of the batches failed, or few enough."""
        goal, share = self.case.goal.get(self.tool), 100 * self.outcomes["FAIL"] / self.case.batches
        return goal is None or (share <= -goal if goal < 0 else share >= goal)


def cases(unchanged: int, changed: int) -> list[Case]:
    """The columns of the table, with their numbers of batches."""
    everywhere, goal = dict.fromkeys(TOOLS, 100.0), dict.fromkeys(TOOLS, -2.0)
    return [
        # One in fifty is no more than chance, at 1 %.
        *(
            Case(f"same, {sessions} session{'s' * (sessions > 1)}", unchanged, records=True, goal=goal)
            for sessions in (1, 2, 3)
        ),
        Case("+5 %", changed, delay=5),
        Case("+10 %", changed, delay=10),
        Case("+20 %", 2 * changed, delay=20, goal=dict.fromkeys(TOOLS, 90.0)),
        Case("+50 %", changed, delay=50, goal=everywhere),
        Case("hog 50 %", changed, hog=(0.5, 0.01), goal=everywhere),
        Case("hog 10 %", changed, hog=(0.1, 0.01), goal=dict.fromkeys(TOOLS, 80.0)),
        Case("hog 50 %, 0.1 s", changed, hog=(0.5, 0.1)),
        Case("slack 500 us", changed, slack=500_000, goal={"sleep_storm": 100.0}),
        # A batch of wakeup_pingpong takes minutes there.
        Case("--switch", 2, load=("stress-ng", "--switch", "2", "--quiet")),
        Case("--timer", 2, load=("stress-ng", "--timer", "2", "--quiet")),
    ]


def outcome(said: str, metric: str) -> tuple[Outcome, list[str]]:
    """The outcome of a batch from its KTAP, and the tests that failed.

    SKIP: no test failed, and a regression of the metric could have been missed, whatever other tests have judged.
    """
    tests = [(word, name, rest) for word, name, rest in _TEST.findall(said)]
    if not tests or "Bail out!" in said:
        return "ERROR", []
    if failed := [name for word, name, _ in tests if word == "not ok"]:
        return "FAIL", failed
    limit = rf"{re.escape(metric)} [^;]*; at \w+ [^;]* sessions(?!; sessions differ|; reference)"
    judged = re.search(rf"^ok \d+ \w+_within_baseline # (?!SKIP)(?:.*; )?{limit}", said, re.M)
    return ("PASS" if judged else "SKIP"), []


@contextmanager
def _running(argv: Sequence[str], waits: bool = False) -> Iterator[None]:
    """A process that runs meanwhile. `waits`: until its first line."""
    process = subprocess.Popen(
        dying_with_us(argv),
        stdout=subprocess.PIPE if waits else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        if process.stdout:
            process.stdout.readline()
        yield
        if process.poll() is not None:
            raise SchedlineError(f"{argv[0]} ended early: {process.returncode}", "run it by hand as root")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()


@contextmanager
def _disturbed(case: Case) -> Iterator[None]:
    if case.hog:
        share, period = case.hog
        with _running([sys.executable, "-c", _HOG, str(min(os.sched_getaffinity(0))), str(share), str(period)], True):
            yield
    elif case.load:
        with _running(case.load):
            # Its processes have to be there before the first run begins.
            time.sleep(0.5)
            yield
    else:
        yield


class _Bench:
    """A workload with its baseline."""

    def __init__(self, programs: Path, place: Path, tool: str) -> None:
        self.program, self.place, self.tool = programs / tool, place, tool
        self.environment = os.environ | {"SCHED_LATENCY_LIMITS": str(place / "limits")}

    def _said(self, argv: Sequence[str]) -> str:
        done = subprocess.run(
            dying_with_us(argv), env=self.environment, check=False, capture_output=True, text=True, timeout=600
        )
        return done.stdout

    def record(self) -> float:
        """Record a baseline, and return the median in us to which delays are relative."""
        for _ in range(RECORDINGS):
            said = self._said([str(self.program), "--record", "--json", str(self.place / "run.json")])
            if "most runs are disturbed" not in said:
                break
        if "# the baseline has " not in said:
            raise SchedlineError(f"{self.tool} recorded no baseline: {said[-300:]}", "run it by hand as root")
        found = read_run(self.place / "run.json").value(TOOLS[self.tool])
        if not found:
            raise SchedlineError(f"{self.tool} measured no {TOOLS[self.tool]}", "use a machine with two CPUs or more")
        return found / 1000

    def batch(self, case: Case, median_us: float) -> str:
        """The KTAP of one batch."""
        words = [str(self.program)]
        if case.delay:
            words += ["--inject-delay-us", f"{median_us * case.delay / 100:.4g}"]
        if case.slack:
            words = [sys.executable, "-c", _SLACK, str(case.slack), *words]
        return self._said(words)


def measure(programs: Path, place: Path, wanted: Sequence[Case]) -> Iterator[list[Detection]]:
    """Record baselines and run all batches of all cases. Yields the rows of each case.

    The batches of all workloads take turns, so that a drift of the machine meets all of them.
    """
    benches = {tool: _Bench(programs, place, tool) for tool in TOOLS}
    medians: dict[str, float] = {}
    recorded: float | None = None
    for case in wanted:
        if case.records:
            if recorded and (left := recorded + 60 * SESSION_MINUTES - time.monotonic()) > 0:
                with step(f"waiting {left:.0f} s, for another session of the baselines"):
                    time.sleep(left)
            recorded = time.monotonic()
            for tool, bench in benches.items():
                with step(f"recording {tool}"):
                    # Later sessions have the first one's delays: what is injected stays the same.
                    medians.setdefault(tool, bench.record())
        if case.load and not shutil.which(case.load[0]):
            continue
        counts = {tool: Counter[Outcome]() for tool in TOOLS}
        failed = {tool: Counter[str]() for tool in TOOLS}
        with step(f"{case.name}: {case.batches} batches"), _disturbed(case):
            for _ in range(case.batches):
                for tool, bench in benches.items():
                    result, names = outcome(bench.batch(case, medians[tool]), TOOLS[tool])
                    counts[tool][result] += 1
                    failed[tool].update(names)
        yield [Detection(case, tool, counts[tool], failed[tool]) for tool in TOOLS]


def _cell(row: Detection) -> str:
    extra = [f"{row.outcomes[word]} {word.lower()}" for word in _UNCLEAR if row.outcomes[word]]
    shown = f"{row.outcomes['FAIL']}/{row.case.batches}" + (f" ({', '.join(extra)})" if extra else "")
    return shown + ("" if row.met else " !")


def text(rows: Sequence[Detection]) -> str:
    """The table: batches that failed / batches. "!" marks a missed goal."""
    names = list(dict.fromkeys(row.case.name for row in rows))
    cells = {(row.case.name, row.tool): _cell(row) for row in rows}
    of_tools = [[name, *(cells[name, tool] for tool in TOOLS)] for name in names]
    out = table([["batches that FAIL", *TOOLS], *of_tools], "<18  >")
    for row in rows:
        if not row.met:
            tests = ", ".join(f"{count} {name}" for name, count in sorted(row.tests.items()))
            out.append(f"{row.case.name}, {row.tool}: {tests or 'no test'} failed")
    return "\n".join(out)


def main() -> int:
    """Make the table on this machine, as root; an hour."""
    doctor.require(["compile"])
    programs = compiled(cache_dir(), list(TOOLS))
    rows: list[Detection] = []
    with tempfile.TemporaryDirectory(prefix="schedline-") as name:
        for more in measure(programs, Path(name), cases(UNCHANGED, CHANGED)):
            rows += more
            say(text(more))
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {platform.release()}")
    print(text(rows))
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
