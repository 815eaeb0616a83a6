# SPDX-License-Identifier: GPL-2.0
"""Reads a directory of run files (schema run-1) as the boots of one kernel, each with its runs averaged."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import inf, nan
from pathlib import Path
from typing import NamedTuple, TypeVar

from schedlib.formats.document import Refused
from schedlib.formats.gate_document import Method
from schedlib.formats.run_file import AGAIN, Direction, Run, runs_below

Key = tuple[str, str]
"""Tool and metric name."""

_T = TypeVar("_T")

_PLACES = re.compile(r"^(BOOT_IMAGE|initrd|schedline\.job)=")
_CPU_LIST = re.compile(r"CPUs ([0-9,-]{1,256})")
_CPU_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_OF_A_TOOL = {"command_line", "tool_version", "settings", "order"}
_FILES = {"--json", "--out", "-o"}

_UNRECORDED = "(not recorded)"
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
    """One metric over the runs of one boot; runs are added one by one."""

    values: list[float] = field(default_factory=list)
    samples: int = 0

    def add(self, value: float, samples: int) -> None:
        self.values.append(value)
        self.samples += samples

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
        begun: when the kernel came up, by the clock of each run and how long it was up; inf if no run tells.
        disturbance: for each tool, the worst of its runs in each entry of LIMITS.
    """

    id: str
    started: float
    runs: dict[str, int] = field(default_factory=dict)
    figures: dict[Key, Figure] = field(default_factory=dict)
    disturbance: dict[str, dict[str, float]] = field(default_factory=dict)
    ended: float = -inf
    begun: float = inf


@dataclass(frozen=True)
class Side:
    """All runs of one kernel.

    Attributes:
        boots: in the order of their first run.
        fingerprint: the values of each entry; command line and version have an entry for each tool.
        failed: file and reason of each failed run.
        skipped: for each tool that was skipped, the reason.
        absent: for each metric (or prefix of its name) that this machine cannot show, the reason.
        contents: for refuse_copies(): the content() and the path of each run that tells itself.
    """

    name: str
    boots: tuple[Boot, ...]
    about: Mapping[Key, About]
    fingerprint: Mapping[str, frozenset[str]]
    failed: tuple[str, ...]
    skipped: Mapping[str, str]
    absent: Mapping[Key, str]
    contents: Sequence[tuple[int, str]] = ()

    @property
    def kernel(self) -> str:
        """The kernel's name in the runs."""
        return ", ".join(sorted(self.fingerprint.get("kernel", ()))) or "unknown kernel"

    def with_tool(self, tool: str) -> Side:
        return replace(self, boots=tuple(boot for boot in self.boots if tool in boot.runs))

    def first(self, boots: int) -> Side:
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
    reader = _Reader(name)
    for path, run in runs_below(runs) if isinstance(runs, Path) else runs:
        reader.add(path, run)
    return reader.side()


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
    parts = _CPU_RANGE.findall(listed[1]) if listed else []
    return max(1, sum(int(last or first) - int(first) + 1 for first, last in parts))


def _tool_name(row: str, program: str, rows: int) -> str:
    """The tool that a row's figures belong to: its program, if no other row runs it or the row is named after it."""
    return program if rows == 1 or row.replace("-", "_") == program.replace("-", "_") else row


class _Reader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.boots: dict[str, Boot] = {}
        self.about: dict[Key, About] = {}
        self.fingerprints: dict[tuple[tuple[str, str], ...], dict[str, bool]] = {}
        self.contents: list[tuple[int, str]] = []
        self.failed: list[str] = []
        self.skipped: dict[str, str] = {}
        self.absent: dict[Key, str] = {}
        self.tool_of: dict[str, str] = {}

    def add(self, path: str, run: Run) -> None:
        tool = run.row
        if self.tool_of.setdefault(tool, run.tool) != run.tool:
            raise Refused(path, Run, f"{tool} is {run.tool} here and {self.tool_of[tool]} in earlier runs", AGAIN)
        tools = self.fingerprints.setdefault(tuple(run.fingerprint.items()), {})
        tools[tool] = tools.get(tool, False) or run.status == "DONE"
        if run.status == "SKIP":
            self.skipped[tool] = run.reason
            self._boot(path, run)
        elif run.status == "ERROR" or run.trouble:
            self.failed.append(f"{path}: {run.reason or run.trouble}")
        else:
            self._done(path, tool, run)

    def _boot(self, path: str, run: Run) -> Boot:
        """The boot of a run. One that only skipped is a boot, too: what others measured is lacking there."""
        if not _OLDEST <= run.started <= datetime.now(UTC) + _AHEAD:
            why = f"it was started {run.started:%FT%TZ}: that clock was not set, and the order of the boots is unknown"
            raise Refused(path, Run, why, AGAIN)
        identity, second = run.fingerprint["boot_id"], run.started.timestamp()
        boot = self.boots.setdefault(identity, Boot(identity, second))
        boot.started, boot.ended = min(boot.started, second), max(boot.ended, second)
        if "unit" not in run.fingerprint:
            boot.begun = min(boot.begun, second - run.uptime_s)
        return boot

    def _done(self, path: str, tool: str, run: Run) -> None:
        if run.tells_itself():
            self.contents.append((run.content(), path))
        boot = self._boot(path, run)
        boot.runs[tool] = boot.runs.get(tool, 0) + 1
        if run.noise or run.disturbance:
            found, worst = _disturbance(run), boot.disturbance.setdefault(tool, {})
            boot.disturbance[tool] = {kind: max(amount, worst.get(kind, 0.0)) for kind, amount in found.items()}
        for metric in run.metrics:
            key, about = (tool, metric.name), About(metric.unit, metric.direction, metric.kind)
            if self.about.setdefault(key, about) != about:
                why = f"{metric.name} has another unit, direction or kind than in earlier runs"
                raise Refused(path, Run, why, AGAIN)
            boot.figures.setdefault(key, Figure()).add(metric.value, metric.n)
        for each in run.absent:
            self.absent[tool, each.name] = each.reason

    def side(self) -> Side:
        """The side that was read. Its tools are programs where that is clear: see _tool_name()."""
        programs = list(self.tool_of.values())
        name = {row: _tool_name(row, program, programs.count(program)) for row, program in self.tool_of.items()}

        def renamed(keyed: dict[Key, _T]) -> dict[Key, _T]:
            return {(name[tool], metric): value for (tool, metric), value in keyed.items()}

        self.about, self.absent = renamed(self.about), renamed(self.absent)
        self.skipped = {name[tool]: reason for tool, reason in self.skipped.items()}
        for boot in self.boots.values():
            boot.runs = {name[tool]: runs for tool, runs in boot.runs.items()}
            boot.figures = renamed(boot.figures)
            boot.disturbance = {name[tool]: found for tool, found in boot.disturbance.items()}
        entries: defaultdict[str, set[str]] = defaultdict(set)
        for fingerprint, tools in self.fingerprints.items():
            for entry, value in fingerprint:
                if entry in _OF_A_TOOL:
                    for tool in tools:
                        entries[f"{entry} of {name[tool]}"].add(_without_places(value, entry))
                elif entry != "boot_id":
                    entries[entry].add(_without_places(value, entry))
        for tool in name:
            # Of runs that measured something: without its program a tool has no version.
            recorded = [frozenset(dict(found)) for found, tools in self.fingerprints.items() if tools.get(tool)]
            for entry in frozenset[str]().union(*recorded):
                if all(entry in names for names in recorded):
                    continue
                entries[f"{entry} of {name[tool]}" if entry in _OF_A_TOOL else entry].add(_UNRECORDED)
        boots = sorted(self.boots.values(), key=lambda boot: (boot.started, boot.id))
        shared = {entry: frozenset(found) for entry, found in entries.items()}
        failed = tuple(self.failed)
        return Side(self.name, tuple(boots), self.about, shared, failed, self.skipped, self.absent, self.contents)


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
