# SPDX-License-Identifier: GPL-2.0
"""Reads a directory of run files (schema run-1) as the boots of one kernel, each with its runs averaged."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import inf, nan
from pathlib import Path
from typing import NamedTuple, TypeVar

from schedlib.formats.document import Refused
from schedlib.formats.gate_document import Method
from schedlib.formats.run_file import AGAIN, BY_START, Direction, Run, runs_below

Key = tuple[str, str]
"""Tool and metric name."""

_T = TypeVar("_T")

_PLACES = re.compile(r"^(BOOT_IMAGE|initrd|schedline\.job)=")
_CPU_LIST = re.compile(r"CPUs ([0-9,-]{1,256})")
_CPU_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_OF_A_BOOT = {"boot_id", "machine_id"}
_OF_A_TOOL = {"command_line", "tool_version", "settings", "order"}
_FILES = {"--json", "--out", "-o"}

UNRECORDED = "(not recorded)"
"""Stands for an entry that other runs of the same tool have."""

_OLDEST = datetime(2010, 1, 1, tzinfo=UTC)
_AHEAD = timedelta(days=1)
"""A clock that says less or more was not set. Then nobody knows the order of the boots."""

STEAL, THROTTLED, FOREIGN = "steal", "throttling", "other work"
LIMITS = {STEAL: 1.0, THROTTLED: 0.0, FOREIGN: 10.0}
"""Above these a run is disturbed: stolen time in percent of the CPUs' time, times that a CPU was throttled, CPU time of
others in percent of one CPU."""


@dataclass(slots=True)
class Figure:
    """One metric over the runs of one boot. fewest, most: samples of a run."""

    values: list[float] = field(default_factory=list)
    samples: int = 0
    fewest: int = 1 << 62
    most: int = 0

    def of(self, method: Method) -> float:
        """The value of the boot: the mean of its runs, or their exceedances in a million samples (NaN of none)."""
        if method is Method.RATE:
            return 1e6 * sum(self.values) / self.samples if self.samples else nan
        return sum(self.values) / len(self.values)


class About(NamedTuple):
    """What a metric is, the same in every run."""

    unit: str
    direction: Direction
    kind: str


@dataclass(slots=True)
class Boot:
    """One boot of one kernel.

    Attributes:
        started, ended: its first and its last run, seconds since 1970.
        begun: when the kernel came up, by the clock of each run and how long it was up. Other tools' files tell their
            first run at most; inf if nothing tells.
        disturbance: for each tool, the worst of its runs in each entry of LIMITS.
    """

    id: str
    started: float = inf
    runs: Counter[str] = field(default_factory=Counter)
    figures: dict[Key, Figure] = field(default_factory=dict)
    disturbance: dict[str, dict[str, float]] = field(default_factory=dict)
    ended: float = -inf
    begun: float = inf

    def add(self, run: Run) -> None:
        """Add a run. The boot of one that only skipped is there without values: what others measured is lacking."""
        second = run.started.timestamp()
        self.started, self.ended = min(self.started, second), max(self.ended, second)
        if "unit" not in run.fingerprint:
            self.begun = min(self.begun, second - run.uptime_s)
        elif (run.fingerprint["unit"], run.fingerprint.get("order")) == ("boot", BY_START):
            self.begun = self.started
        if run.status == "SKIP":
            return
        self.runs[run.row] += 1
        if run.noise or run.disturbance:
            worst, here = self.disturbance.get(run.row, dict.fromkeys(LIMITS, 0.0)), _disturbance(run)
            self.disturbance[run.row] = {kind: max(worst[kind], here[kind]) for kind in LIMITS}
        for metric in run.metrics:
            figure = self.figures.setdefault((run.row, metric.name), Figure())
            figure.values.append(metric.value)
            figure.samples += metric.n
            figure.fewest, figure.most = min(figure.fewest, metric.n), max(figure.most, metric.n)

    def values(self, key: Key) -> list[float]:
        return self.figures[key].values if key in self.figures else []


@dataclass
class Side:
    """All runs of one kernel.

    Attributes:
        boots: in the order of their first run.
        fingerprint: the values of each entry; command line and version have an entry for each tool.
        failed: file and reason of each failed run.
        skipped: for each tool that was skipped, the reason.
        absent: for each metric (or prefix of its name) that this machine cannot show, the reason.
        contents: for refuse_copies(): the content() and the path of each run that tells itself.
        machines: their machine_id, if runs tell it. Without a disk it is another one in each boot.
        lost: how many other boots are known to be lacking.
    """

    name: str
    boots: tuple[Boot, ...] = ()
    about: dict[Key, About] = field(default_factory=dict)
    fingerprint: Mapping[str, frozenset[str]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    absent: dict[Key, str] = field(default_factory=dict)
    contents: list[tuple[int, str]] = field(default_factory=list)
    machines: set[str] = field(default_factory=set)
    lost: int = 0

    @property
    def kernel(self) -> str:
        return ", ".join(sorted(self.fingerprint.get("kernel", ()))) or "unknown kernel"

    def with_tool(self, tool: str) -> Side:
        boots = tuple(boot for boot in self.boots if tool in boot.runs)
        return replace(self, boots=boots, lost=self.lost + len(self.boots) - len(boots))

    def first(self, boots: int | None) -> Side:
        return replace(self, boots=self.boots[:boots])

    def why_absent(self, key: Key) -> str | None:
        """The reason that the runs give for a missing metric, by its name or a prefix of it."""
        tool, name = key
        for (found, beginning), reason in self.absent.items():
            if found == tool and (name == beginning or name.startswith(f"{beginning}.")):
                return reason
        return self.skipped.get(tool)


def read_side(runs: Path | Iterable[tuple[str, Run]], name: str) -> Side:
    """Read every run below a directory, or take runs with the names of their files."""
    side, boots, programs = Side(name), dict[str, Boot](), dict[str, str]()
    # For each fingerprint the rows that have it, and whether one of their runs measured something.
    fingerprints: defaultdict[tuple[tuple[str, str], ...], dict[str, bool]] = defaultdict(dict)
    for path, run in runs_below(runs) if isinstance(runs, Path) else runs:
        row = run.row
        if programs.setdefault(row, run.tool) != run.tool:
            raise Refused(path, Run, f"{row} is {run.tool} here and {programs[row]} in earlier runs", AGAIN)
        rows = fingerprints[tuple(run.fingerprint.items())]
        rows[row] = rows.get(row, False) or run.status == "DONE"
        if run.status == "ERROR" or (run.status == "DONE" and run.trouble):
            side.failed.append(f"{path}: {run.reason or run.trouble}")
            continue
        if not _OLDEST <= run.started <= datetime.now(UTC) + _AHEAD:
            why = f"it was started {run.started:%FT%TZ}: that clock was not set, and the order of the boots is unknown"
            raise Refused(path, Run, why, AGAIN)
        boot = boots.setdefault(run.fingerprint["boot_id"], Boot(run.fingerprint["boot_id"]))
        boot.add(run)
        side.machines |= {run.fingerprint.get("machine_id", "")} - {""}
        if run.status == "SKIP":
            side.skipped[row] = run.reason
            continue
        if run.tells_itself():
            side.contents.append((run.content(), path))
        for metric in run.metrics:
            about = About(metric.unit, metric.direction, metric.kind)
            if side.about.setdefault((row, metric.name), about) != about:
                why = f"{metric.name} has another unit, direction or kind than in earlier runs"
                raise Refused(path, Run, why, AGAIN)
        side.absent |= {(row, each.name): each.reason for each in run.absent}
    # A row has its program's name if no other row runs it, or if it is named after it.
    counts, tool = Counter(programs.values()), dict[str, str]()
    for row, program in programs.items():
        own = counts[program] == 1 or row.replace("-", "_") == program.replace("-", "_")
        tool[row] = program if own else row

    def by_tool(keyed: Mapping[Key, _T]) -> dict[Key, _T]:
        return {(tool[row], metric): value for (row, metric), value in keyed.items()}

    for boot in boots.values():
        boot.runs = Counter({tool[row]: runs for row, runs in boot.runs.items()})
        boot.disturbance = {tool[row]: found for row, found in boot.disturbance.items()}
        boot.figures = by_tool(boot.figures)
    side.boots = tuple(sorted(boots.values(), key=lambda boot: (boot.started, boot.id)))
    side.about, side.absent = by_tool(side.about), by_tool(side.absent)
    side.skipped = {tool[row]: reason for row, reason in side.skipped.items()}
    side.fingerprint = _entries(fingerprints, tool)
    return side


def _entries(
    fingerprints: Mapping[tuple[tuple[str, str], ...], Mapping[str, bool]], tool: Mapping[str, str]
) -> dict[str, frozenset[str]]:
    """The values of each entry of the fingerprints. That a run lacks an entry that others have is a value, too."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for fingerprint, rows in fingerprints.items():
        for entry, value in fingerprint:
            names = [f"{entry} of {tool[row]}" for row in rows] if entry in _OF_A_TOOL else [entry]
            for name in names if entry not in _OF_A_BOOT else ():
                found[name].add(_without_places(value, entry))
    for row in tool:
        # Of runs that measured something: without its program a tool has no version.
        recorded = [{entry for entry, _ in each} for each, rows in fingerprints.items() if rows.get(row)]
        for entry in set[str]().union(*recorded) - set[str].intersection(*recorded or [set()]) - _OF_A_BOOT:
            found[f"{entry} of {tool[row]}" if entry in _OF_A_TOOL else entry].add(UNRECORDED)
    return {entry: frozenset(values) for entry, values in found.items()}


def _disturbance(run: Run) -> dict[str, float]:
    """What happened beside a run, by the entries of LIMITS. The program and `schedline run` may both have seen it."""
    found = dict.fromkeys(LIMITS, 0.0)
    if run.noise and run.noise.seconds > 0:
        percent = 100 / run.noise.seconds
        found[STEAL] = run.noise.steal_s * percent / _cpus(run.fingerprint["machine"])
        found[FOREIGN] = run.noise.foreign_cpu_s * percent
        found[THROTTLED] = float((run.noise.thermal_throttles or 0) + (run.noise.cgroup_throttles or 0))
    if own := run.disturbance:
        cpus = len({row.cpu for row in run.cpus}) or 1
        found[STEAL] = max(found[STEAL], own.steal_percent)
        found[FOREIGN] = max(found[FOREIGN], own.others_percent * cpus, own.realtime_percent)
        found[THROTTLED] = max(found[THROTTLED], float(own.throttled))
    return found


def _cpus(machine: str) -> int:
    """The number of CPUs in a fingerprint's "CPUs 0-3,8"; 1 if it names none."""
    listed = _CPU_LIST.search(machine)
    ranges = _CPU_RANGE.findall(listed[1]) if listed else []
    return max(1, sum(int(last or first) - int(first) + 1 for first, last in ranges))


def _without_places(value: str, entry: str) -> str:
    """A command line without the program's directory and the file for the result, or a kernel's without boot files."""
    if entry == "kernel_command_line":
        return " ".join(word for word in value.split() if not _PLACES.match(word))
    try:
        words = shlex.split(value) if entry == "command_line" else []
    except ValueError:
        words = []
    if not words:
        return value
    kept, skip = [Path(word).name for word in words[:1]], False
    for word in words[1:]:
        if skip or word in _FILES:
            skip = not skip
        elif word.split("=")[0] not in _FILES:
            kept.append(word)
    return " ".join(kept)
