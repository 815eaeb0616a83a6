# SPDX-License-Identifier: GPL-2.0
"""One run of one workload: what it measured, and on what. selftests/sched_latency/run_file.h writes it, too."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.document import Document, Refused
from schedlib.formats.strict import METRIC, Amount, Count, Moment, Number, Positive, Strict, Whole, Word, repeated
from schedlib.progress import printable

Direction = Literal["lower", "higher", "neither"]
Kind = Literal["exact", "quantile", "rate", "exceedance"]

NOT_RECORDED = "not recorded"
"""The value of a fingerprint entry that nobody wrote down. The gate does not judge such runs unless it is told to."""

BY_FILE_TIME = "times of the files"
BY_START = "start times in the files"
"""Values of the fingerprint entry `order`: where the order of the runs comes from."""

BEYOND = "beyond the histogram"
"""In the reason of an absent quantile that was measured, and is larger than a histogram shows."""

AGAIN = "do that run again, or move the file elsewhere"

_is_name = lru_cache(10_000)(re.compile(METRIC).match)
_Name = Annotated[str, Meta(extra_json_schema={"pattern": METRIC})]
"""Run checks the pattern, with a cache: searching for it in each name of a million runs takes too long."""

_KNOWN = {"machine_name", "machine", "kernel", "build_id", "configuration", "boot_id", "command_line"}


_BY_STATUS: dict[str, object] = {
    "if": {"properties": {"status": {"const": "DONE"}}},
    "then": {"properties": {"reason": {"const": ""}, "metrics": {"minItems": 1}}},
    "else": {"properties": {"reason": {"minLength": 1}}},
}


DIFFERENCES = "cpumask_contention"
"""The tool whose metrics are costs above that of an empty loop: noise can put them below 0."""


class Metric(Strict, frozen=True):
    """A number with its unit, no judgement.

    Attributes:
        direction: which values are better.
        n: number of samples that it is computed from.
        rounds: the value of each slice of the run.
    """

    name: _Name
    unit: Word
    direction: Direction
    kind: Kind
    value: Annotated[float, Meta(ge=-1e300, le=1e300)]
    n: Count
    rounds: Annotated[tuple[Number, ...], Meta(min_length=1)] | UnsetType = UNSET


class Absent(Strict, frozen=True):
    """Metrics that this machine cannot measure: those whose name begins with this name."""

    name: Word
    reason: Word


class CpuRow(Strict, frozen=True):
    """The latencies of one CPU."""

    group: Word
    cpu: Count
    n: Positive
    p50_ns: Amount
    p99_ns: Amount
    max_ns: Amount
    missed_percent: Amount | UnsetType = UNSET


class Disturbance(Strict, frozen=True):
    """Written by the workloads of selftests/: what else happened on their CPUs, in percent of the time of all of them.

    Attributes:
        realtime_percent: of one CPU, taken by RT tasks of others.
        throttled: how often a CPU was too hot.
        why: why the run does not count; empty if it does.
    """

    steal_percent: Number
    interrupts_percent: Number
    realtime_percent: Number
    throttled: Whole
    why: str
    others_percent: Number


class RunProcess(Strict, frozen=True):
    """Written by schedline run: how the workload was called, and how its process ended.

    Attributes:
        exit_status: negative for a signal; null if it was not started, or was ended by us.
        reported: the status that the tool itself reports; 0 is good.
        missing: whether a program is not installed.
    """

    argv: Annotated[tuple[str, ...], Meta(min_length=1)]
    exit_status: Whole | None
    timed_out: bool
    reported: Whole | None
    seconds: Amount
    missing: bool


class Noise(Strict, frozen=True):
    """Written by schedline run: other activity on the machine during the run.

    Attributes:
        steal_s: time that the hypervisor stole, summed over all CPUs.
        foreign_cpu_s: CPU time of everything but the workload; an upper bound.
        foreign_switches: context switches of tasks that were not the workload's.
        runnable_before: number of other runnable tasks before the start.
        thermal_throttles: sum over CPUs; null if they are not counted.
        cgroup_throttles: how often the CPU quota throttled the run; null if there is no quota.
        clock_step_s: how far the system clock jumped during the run.
    """

    seconds: Amount
    steal_s: Amount
    foreign_cpu_s: Amount
    foreign_switches: Whole
    runnable_before: Count
    thermal_throttles: Whole | None
    cgroup_throttles: Whole | None
    clock_step_s: Number | UnsetType = UNSET


class PlanPart(Strict, frozen=True):
    """Written by schedline run: which run of the plan this is.

    Attributes:
        digest: of the suite's rows and their arguments.
    """

    suite: Word
    digest: str
    row: Word
    run: Positive
    seed: Whole


class Run(Document, frozen=True, kw_only=True):
    """One run of one workload: what it measured, and on what; no judgement.

    Attributes:
        tool: name of what wrote this file.
        started: with time zone.
        uptime_s: the same time by CLOCK_BOOTTIME, which nobody can set.
        fingerprint: machine, kernel, build-id, configuration, command line, boot id, tool versions.
        status: SKIP: nothing can be measured here; ERROR: the run failed.
        reason: for SKIP and ERROR.
        histograms: of each group the buckets that counted something: where they begin, in ns, and their counts.
    """

    no_control_chars = True
    more_schema = _BY_STATUS

    schema: Literal["run-1"]
    tool: Word
    started: Moment
    uptime_s: Amount
    fingerprint: Annotated[dict[str, str], Meta(extra_json_schema={"required": sorted(_KNOWN)})]
    status: Literal["DONE", "SKIP", "ERROR"]
    reason: str
    metrics: tuple[Metric, ...]
    absent: tuple[Absent, ...]
    cpus: tuple[CpuRow, ...]
    histograms: dict[str, tuple[tuple[Count, Count], ...]] | UnsetType = UNSET
    disturbance: Disturbance | UnsetType = UNSET
    process: RunProcess | UnsetType = UNSET
    noise: Noise | UnsetType = UNSET
    plan: PlanPart | UnsetType = UNSET

    def __post_init__(self) -> None:
        done = self.status == "DONE"
        if done != (self.reason == "") or (done and not self.metrics):
            raise ValueError(f"it is {self.status} with {len(self.metrics)} metrics and the reason {self.reason!r}")
        if not self.fingerprint.keys() >= _KNOWN:
            raise ValueError(f"its fingerprint lacks {min(_KNOWN - self.fingerprint.keys())}")
        if not self.fingerprint["boot_id"]:
            raise ValueError("its fingerprint has no boot_id, and the unit of a comparison is a boot")
        if twice := repeated(metric.name for metric in self.metrics):
            raise ValueError(f"the metric {twice} appears twice")
        below = next((metric.name for metric in self.metrics if metric.value < 0), None)
        if below and self.tool != DIFFERENCES:
            raise ValueError(f"the metric {below} is below 0")
        for metric in self.metrics:
            if not _is_name(metric.name):
                raise ValueError(f"{metric.name!r} is not a name for a metric")
            if why := _impossible(metric):
                raise ValueError(f"the metric {metric.name} {why}")
        if done and self.process and (self.process.timed_out or (self.process.exit_status or 0) < 0):
            raise ValueError("it is DONE, but its process was killed")

    @property
    def seconds(self) -> float:
        """How long its process took; 0 if that is not known."""
        return self.process.seconds if self.process else 0.0

    @property
    def row(self) -> str:
        """The name that its figures belong to. A suite may run one program in several ways; each counts as a tool."""
        return self.plan.row if self.plan else self.tool

    @property
    def trouble(self) -> str:
        """Why its figures prove nothing although it is DONE; empty if they do."""
        if self.process and self.process.reported:
            return f"it reports the status {self.process.reported}"
        idle = any(each.value for each in self.metrics if each.name.endswith((".idle_threads", ".idle_groups")))
        return "not every thread ran" if idle else ""

    def content(self) -> int:
        """A hash of everything that was measured. It does not depend on when, where and in which boot."""
        metrics = tuple((each.name, each.value, each.n, each.rounds) for each in self.metrics if each.kind != "exact")
        bars = tuple(self.histograms.items()) if self.histograms else ()
        return hash((self.row, metrics, self.cpus, bars, self.disturbance, self.noise, self.seconds))

    def tells_itself(self) -> bool:
        """Whether its figures have so many digits that another run hardly has the same, as on a coarse clock."""
        figures: Iterator[float] = itertools.chain(
            (self.seconds,),
            (each.value for each in self.metrics if each.kind != "exact"),
            (each for metric in self.metrics for each in metric.rounds or () if metric.kind != "exact"),
            (each for row in self.cpus for each in (row.p50_ns, row.p99_ns, row.max_ns)),
            (float(count) for bars in (self.histograms or {}).values() for _, count in bars),
            (self.noise.foreign_cpu_s, float(self.noise.foreign_switches)) if self.noise else (),
        )
        # The first digit of a figure is the same in most runs.
        digits = itertools.accumulate(max(0, _digits(abs(each)) - 1) for each in figures)
        return any(each >= _TELLING for each in digits)

    def value(self, name: str) -> float | None:
        return next((metric.value for metric in self.metrics if metric.name == name), None)

    def why_absent(self, name: str) -> str | None:
        """The recorded reason why a metric is absent, or a group of metrics that its name begins with."""
        return next((row.reason for row in self.absent if name == row.name or name.startswith(f"{row.name}.")), None)


def _impossible(metric: Metric) -> str:
    """Why no measurement can have this result; empty if one can."""
    if metric.kind == "quantile" and metric.n == 0:
        return "is a quantile of no samples"
    if metric.kind == "exceedance" and metric.value > metric.n:
        return f"counts {metric.value:g} of {metric.n} samples"
    return ""


@dataclass(frozen=True)
class Reading:
    """What the output of a tool says.

    Attributes:
        reported: the status that the tool itself reports, apart from that of its process; 0 is good.
        error: why the run failed.
        cannot: why this machine cannot do it.
    """

    metrics: tuple[Metric, ...] = ()
    absent: tuple[Absent, ...] = ()
    cpus: tuple[CpuRow, ...] = ()
    reported: int | None = None
    error: str = ""
    cannot: str = ""


@dataclass(frozen=True)
class Head:
    """What is known of a run before it starts."""

    tool: str
    started: str
    uptime_s: float
    fingerprint: Mapping[str, str] = field(default_factory=dict)


def run_of(head: Head, reading: Reading) -> Run:
    """Make a run of a reading. A metric that is negative, not finite or impossible makes it an ERROR."""
    error = reading.error
    for each in () if error else reading.metrics:
        bad = "" if math.isfinite(each.value) and each.value >= 0 else "is negative or not finite"
        if bad := bad or _impossible(each):
            error = f"{each.name} {bad}"
            break
    if not (error or reading.cannot or reading.metrics):
        error = "nothing was measured"
    status: Literal["DONE", "SKIP", "ERROR"] = "ERROR" if error else "SKIP" if reading.cannot else "DONE"
    kept = reading if status == "DONE" else Reading()
    return Run(
        schema="run-1",
        tool=head.tool,
        started=datetime.fromisoformat(head.started),
        uptime_s=head.uptime_s,
        fingerprint={name: printable(value) for name, value in head.fingerprint.items()},
        status=status,
        reason=printable(error or reading.cannot),
        metrics=kept.metrics,
        absent=kept.absent,
        cpus=kept.cpus,
    )


def read_run(path: Path) -> Run:
    return document.read(path, Run, AGAIN)


def runs_below(directory: Path) -> Iterator[tuple[str, Run]]:
    seen: set[int] = set()
    contents: dict[int, str] = {}
    paths = _paths(directory) if directory.is_dir() else None
    if not paths:
        what = "is no directory" if paths is None else "holds no run file"
        raise SchedlineError(f"{directory} {what}", "name a directory of run files: one JSON file for each run")
    for path in paths:
        run = read_run(Path(path))
        same = hash((run.row, run.fingerprint["boot_id"], run.started, run.uptime_s))
        if same in seen:
            why = f"it is a copy: this run of {run.row}, {run.started:%FT%TZ}, appears twice"
            raise Refused(path, Run, why, AGAIN)
        if run.status == "DONE":
            first = contents.setdefault(run.content(), path)
            if first is not path and run.tells_itself():
                why = f"it is a copy: {first} has the same figures, to the last digit, at another time"
                raise Refused(path, Run, why, AGAIN)
        seen.add(same)
        yield path, run


def _digits(figure: float) -> int:
    """How many digits the figure was measured with: 24842 / 3 has sixteen, and tells no more than 24842."""
    shown = len(repr(figure).partition("e")[0].replace(".", "").strip("0"))
    quotient = Fraction(figure).limit_denominator(1000)
    return min(shown, len(str(quotient.numerator))) if float(quotient) == figure else shown


_TELLING = 12
"""How many digits make equal figures a copy. Of a hundred thousand runs, 5 * 10^9 pairs, less than one in a hundred
directories has two that agree in so many by chance."""


def refuse_copies(directories: Iterable[Iterable[tuple[int, str]]]) -> None:
    """Reject a run whose figures are those of a run in another directory.

    directories: of each the content() and the path of its runs, if they tell themselves.
    """
    seen: dict[int, str] = {}
    for found in map(dict, directories):
        if (content := min(found.keys() & seen.keys(), default=None)) is not None:
            why = f"it is a copy: {seen[content]} has the same figures, to the last digit, in another directory"
            raise Refused(found[content], Run, why, AGAIN)
        seen |= found


def _paths(directory: Path) -> list[str]:
    def refuse(error: OSError) -> None:
        here = error.filename
        raise SchedlineError(f"the directory {here} cannot be read: {error.strerror}", f"ls -l {here}") from error

    found: list[str] = []
    seen: set[tuple[int, int]] = set()
    for here, below, names in os.walk(directory, onerror=refuse, followlinks=True):
        place = Path(here).stat()
        if (place.st_dev, place.st_ino) in seen:
            # A symbolic link leads back to a directory that was read already.
            below.clear()
            continue
        seen.add((place.st_dev, place.st_ino))
        found += [f"{here}/{name}" for name in names if name.endswith(".json")]
    return sorted(found)
