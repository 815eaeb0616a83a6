# SPDX-License-Identifier: GPL-2.0
"""Reads a directory of run files (schema run-1) as the boots of one kernel, each with its runs averaged."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from schedlib.formats.document import Refused
from schedlib.formats.run_file import AGAIN, Run, runs_below

if TYPE_CHECKING:
    from schedlib.gate.imports.imported import Imported

Key = tuple[str, str]
"""Tool and metric name."""

_T = TypeVar("_T")

_PLACES = re.compile(r"^(BOOT_IMAGE|initrd)=")
_OF_A_TOOL = {"command_line", "tool_version", "settings", "order"}
_FILES = {"--json", "--out", "-o"}


@dataclass(slots=True)
class Figure:
    """One metric over the runs of one boot; runs are added one by one."""

    runs: int = 0
    total: float = 0.0
    samples: int = 0
    least: float = inf
    most: float = -inf

    def add(self, value: float, samples: int) -> None:
        """Add a run."""
        self.runs += 1
        self.total += value
        self.samples += samples
        self.least = min(self.least, value)
        self.most = max(self.most, value)

    @property
    def mean(self) -> float:
        """The mean of the runs, in the metric's unit."""
        return self.total / self.runs

    @property
    def rate(self) -> float:
        """Exceedances per million samples over all runs; NaN if nothing was sampled."""
        return 1e6 * self.total / self.samples if self.samples else nan


@dataclass(frozen=True)
class About:
    """What a metric is, the same in every run."""

    unit: str
    direction: str
    kind: str


@dataclass(slots=True)
class Boot:
    """One boot of one kernel. `started`: its first run, seconds since 1970."""

    id: str
    started: float
    runs: dict[str, int] = field(default_factory=dict)
    figures: dict[Key, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class Side:
    """All runs of one kernel.

    Attributes:
        boots: in the order of their first run.
        fingerprint: the values of each entry; command line and version have an entry for each tool.
        failed: file and reason of each failed run.
        skipped: for each tool that was skipped, the reason.
        absent: for each metric (or prefix of its name) that this machine cannot show, the reason.
    """

    name: str
    boots: tuple[Boot, ...]
    about: Mapping[Key, About]
    fingerprint: Mapping[str, frozenset[str]]
    failed: tuple[str, ...]
    skipped: Mapping[str, str]
    absent: Mapping[Key, str]

    @property
    def kernel(self) -> str:
        """The kernel's name in the runs."""
        return ", ".join(sorted(self.fingerprint.get("kernel", ()))) or "unknown kernel"

    def why_absent(self, key: Key) -> str | None:
        """The reason that the runs give for a missing metric, by its name or a prefix of it."""
        tool, name = key
        for (found, beginning), reason in self.absent.items():
            if found == tool and (name == beginning or name.startswith(f"{beginning}.")):
                return reason
        return self.skipped.get(tool)


def read_side(directory: Path | Imported, name: str) -> Side:
    """Read every run below a directory, or take those that were imported from one.

    Raises:
        SchedlineError: there are no runs, a file is not a run, or the runs do not belong together.
    """
    reader = _Reader(name)
    for path, run in runs_below(directory) if isinstance(directory, Path) else directory.runs:
        reader.add(path, run)
    return reader.side()


class _Reader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.boots: dict[str, Boot] = {}
        self.about: dict[Key, About] = {}
        self.fingerprints: dict[tuple[tuple[str, str], ...], set[str]] = {}
        self.failed: list[str] = []
        self.skipped: dict[str, str] = {}
        self.absent: dict[Key, str] = {}
        self.tool_of: dict[str, str] = {}

    def add(self, path: str, run: Run) -> None:
        """Add a run file."""
        tool = run.row
        if self.tool_of.setdefault(tool, run.tool) != run.tool:
            raise Refused(path, Run, f"{tool} is {run.tool} here and {self.tool_of[tool]} in earlier runs", AGAIN)
        self.fingerprints.setdefault(tuple(run.fingerprint.items()), set()).add(tool)
        if run.status == "SKIP":
            self.skipped[tool] = run.reason
        elif run.status == "ERROR":
            self.failed.append(f"{path}: {run.reason}")
        else:
            self._done(path, tool, run)

    def _done(self, path: str, tool: str, run: Run) -> None:
        identity, second = run.fingerprint["boot_id"], run.started.timestamp()
        boot = self.boots.setdefault(identity, Boot(identity, second))
        boot.started = min(boot.started, second)
        boot.runs[tool] = boot.runs.get(tool, 0) + 1
        for metric in run.metrics:
            key = tool, metric.name
            about = self.about.get(key)
            if about is None:
                about = self.about[key] = About(metric.unit, metric.direction, metric.kind)
            elif metric.unit != about.unit or metric.direction != about.direction or metric.kind != about.kind:
                why = f"{metric.name} has another unit, direction or kind than in earlier runs"
                raise Refused(path, Run, why, AGAIN)
            boot.figures.setdefault(key, Figure()).add(metric.value, metric.n)
        for each in run.absent:
            self.absent[tool, each.name] = each.reason

    def side(self) -> Side:
        """The side that was read. If only one row has run a program, the row has its name, whatever the suite."""
        programs = list(self.tool_of.values())
        name = {tool: program if programs.count(program) == 1 else tool for tool, program in self.tool_of.items()}

        def renamed(keyed: dict[Key, _T]) -> dict[Key, _T]:
            return {(name[tool], metric): value for (tool, metric), value in keyed.items()}

        self.about, self.absent = renamed(self.about), renamed(self.absent)
        self.skipped = {name[tool]: reason for tool, reason in self.skipped.items()}
        for boot in self.boots.values():
            boot.runs = {name[tool]: runs for tool, runs in boot.runs.items()}
            boot.figures = renamed(boot.figures)
        entries: defaultdict[str, set[str]] = defaultdict(set)
        for fingerprint, tools in self.fingerprints.items():
            for entry, value in fingerprint:
                if entry in _OF_A_TOOL:
                    for tool in tools:
                        entries[f"{entry} of {name[tool]}"].add(_without_places(value, entry))
                elif entry != "boot_id":
                    entries[entry].add(_without_places(value, entry))
        boots = sorted(self.boots.values(), key=lambda boot: (boot.started, boot.id))
        shared = {entry: frozenset(found) for entry, found in entries.items()}
        return Side(self.name, tuple(boots), self.about, shared, tuple(self.failed), self.skipped, self.absent)


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
