# SPDX-License-Identifier: GPL-2.0
"""Directories of run JSON (schema run-1) -> the boots of one kernel, each with its runs averaged."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any, TypeVar

from schedlib.errors import SchedlineError

Key = tuple[str, str]
"""Tool and metric name."""

_T = TypeVar("_T")

_SCHEMA = "run-1"
_PLACES = re.compile(r"^(BOOT_IMAGE|initrd)=")
_OF_A_TOOL = {"command_line", "tool_version"}
_FILES = {"--json", "--out", "-o"}


@dataclass(slots=True)
class Figure:
    """What the runs of one boot say of one metric; built up run by run."""

    runs: int = 0
    total: float = 0.0
    samples: int = 0
    least: float = inf
    most: float = -inf

    def add(self, value: float, samples: int) -> None:
        """One run more."""
        self.runs += 1
        self.total += value
        self.samples += samples
        self.least = min(self.least, value)
        self.most = max(self.most, value)

    @property
    def mean(self) -> float:
        """Of the runs, in the metric's unit."""
        return self.total / self.runs

    @property
    def rate(self) -> float:
        """Exceedances in a million samples of all runs; NaN when nothing was sampled."""
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
        fingerprint: by entry, the values seen; the command line and the version by tool.
        failed: runs that came to nothing: file and reason.
        skipped: by tool, why nothing can be measured.
        absent: by metric (or what its name begins with), why this machine cannot show it.
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
        """As the runs name it."""
        return ", ".join(sorted(self.fingerprint.get("kernel", ()))) or "unknown kernel"

    def why_absent(self, key: Key) -> str | None:
        """The reason that the runs gave for a metric or for all that its name begins with."""
        tool, name = key
        for (found, beginning), reason in self.absent.items():
            if found == tool and (name == beginning or name.startswith(f"{beginning}.")):
                return reason
        return self.skipped.get(tool)


def read_side(directory: Path, name: str) -> Side:
    """Read every *.json below a directory.

    Raises:
        SchedlineError: nothing there, or a file that is no whole run, or one run twice.
    """
    reader = _Reader(name)
    for path, content in _contents(_files(directory)):
        reader.add(path, content)
    return reader.side(directory)


def _files(directory: Path) -> list[str]:
    if not directory.is_dir():
        raise SchedlineError(f"{directory} is no directory", "name a directory of run files: one run, one JSON")
    waiting = [str(directory)]
    found: list[str] = []
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    waiting.append(entry.path)
                elif entry.name.endswith(".json"):
                    found.append(entry.path)
    return sorted(found)


class _Bad(Exception):
    """A file that cannot be read as a run: what was seen, what to do."""


def _no_number(text: str) -> float:
    raise _Bad(f"it holds {text}, which is no measurement")


_DECODER = json.JSONDecoder(parse_constant=_no_number)

_BLOCK = 1 << 16


_AHEAD = 2000


def _contents(paths: list[str]) -> Iterator[tuple[str, bytes | OSError]]:
    """Each file with its content; the next 2000 are read while those before are taken apart."""
    parts = [paths[place : place + _AHEAD] for place in range(0, len(paths), _AHEAD)]
    with ThreadPoolExecutor(1) as reader:
        waiting = [reader.submit(_read_all, part) for part in parts[:1]]
        for place, part in enumerate(parts):
            contents = waiting.pop().result()
            waiting += [reader.submit(_read_all, each) for each in parts[place + 1 : place + 2]]
            yield from zip(part, contents, strict=True)


def _read_all(paths: list[str]) -> list[bytes | OSError]:
    return [_read(path) for path in paths]


def _read(path: str) -> bytes | OSError:
    """A whole file by as few calls as can be: there may be a million."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return error
    try:
        content = os.read(file, _BLOCK)
        if len(content) == _BLOCK:
            while more := os.read(file, 16 * _BLOCK):
                content += more
        return content
    except OSError as error:
        return error
    finally:
        os.close(file)


class _Reader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.boots: dict[str, Boot] = {}
        self.about: dict[Key, About] = {}
        self.fingerprints: dict[tuple[tuple[str, str], ...], set[str]] = {}
        self.seen: set[int] = set()
        self.failed: list[str] = []
        self.skipped: dict[str, str] = {}
        self.absent: dict[Key, str] = {}
        self.files = 0
        self.tool_of: dict[str, str] = {}

    def add(self, path: str, content: bytes | OSError) -> None:
        """One file."""
        self.files += 1
        try:
            if isinstance(content, OSError):
                raise content
            self._run(path, _DECODER.decode(content.decode()))
        except OSError as error:
            raise SchedlineError(f"{path} cannot be read: {error.strerror}", f"ls -l {path}") from error
        except (ValueError, RecursionError) as error:
            raise SchedlineError(
                f"{path} is no whole JSON document (cut off?): {error}", "do that run again, or remove the file"
            ) from error
        except _Bad as error:
            raise SchedlineError(f"{path}: {error}", "do that run again, or remove the file") from error

    def _run(self, path: str, content: object) -> None:
        if not isinstance(content, dict):
            raise _Bad("it is no run: the outermost value is no object")
        schema = content.get("schema")
        if schema != _SCHEMA:
            newer = isinstance(schema, str) and re.fullmatch(r"run-[0-9]+", schema)
            why = "; a newer schedline reads it" if newer else "; only run files belong into the directory"
            raise _Bad(f"its schema is {schema!r}, and this reads {_SCHEMA!r}{why}")
        program, status = _text(content, "tool"), _text(content, "status")
        plan = content.get("plan")
        # A suite may run one program in several ways: each is a tool of its own.
        tool = _text(plan, "row") if isinstance(plan, dict) else program
        if self.tool_of.setdefault(tool, program) != program:
            raise _Bad(f"{tool} is {program} here and {self.tool_of[tool]} in the runs before")
        fingerprint = content.get("fingerprint")
        if not isinstance(fingerprint, dict):
            raise _Bad("it has no fingerprint: nobody knows what was measured")
        identity, started = fingerprint.get("boot_id"), _text(content, "started")
        if not identity:
            raise _Bad("its fingerprint has no boot_id, and the unit of a comparison is a boot")
        try:
            second = datetime.fromisoformat(started).timestamp()
        except (ValueError, OverflowError, OSError):
            raise _Bad(f"started is {started!r}, no time") from None
        self.fingerprints.setdefault(_entries(fingerprint), set()).add(tool)
        run = hash((tool, identity, started, str(content.get("uptime_s"))))
        if run in self.seen:
            raise _Bad(f"this run of {tool} (boot {identity}, {started}) is there twice")
        self.seen.add(run)
        if status == "SKIP":
            self.skipped[tool] = str(content.get("reason", "")) or "no reason given"
            return
        if status != "DONE":
            self.failed.append(f"{path}: {content.get('reason') or status}")
            return
        boot = self.boots.get(identity)
        if boot is None:
            boot = self.boots[identity] = Boot(identity, second)
        boot.started = min(boot.started, second)
        boot.runs[tool] = boot.runs.get(tool, 0) + 1
        self._metrics(tool, boot, content)
        for each in _list(content, "absent"):
            self.absent[tool, _text(each, "name")] = str(each.get("reason", "")) or "no reason given"

    def _metrics(self, tool: str, boot: Boot, content: Mapping[str, Any]) -> None:
        metrics = _list(content, "metrics")
        if not metrics:
            raise _Bad("it is DONE and has no metrics")
        names = set()
        for metric in metrics:
            name, value, samples = metric.get("name"), metric.get("value", nan), metric.get("n", -1)
            if not isinstance(name, str) or name in names:
                raise _Bad(f"a metric has no name of its own: {name!r}")
            names.add(name)
            if not _is_number(value) or not -1e300 < value < 1e300 or not isfinite(value):
                raise _Bad(f"{name} is {str(value)[:40]}, which is no measurement")
            if type(samples) is not int or samples < 0:
                raise _Bad(f"{name} has n = {str(samples)[:40]}, which is no number of samples")
            key = tool, name
            about = self.about.get(key)
            if about is None:
                about = self.about[key] = About(
                    _text(metric, "unit"), _text(metric, "direction"), _text(metric, "kind")
                )
            elif (metric.get("unit"), metric.get("direction"), metric.get("kind")) != (
                about.unit,
                about.direction,
                about.kind,
            ):
                raise _Bad(f"{name} has another unit, direction or kind than in the runs before")
            figure = boot.figures.get(key)
            if figure is None:
                figure = boot.figures[key] = Figure()
            figure.add(value, samples)

    def _name_by_program(self) -> None:
        """A row that alone has run a program is called by the program's name, whatever the suite."""
        programs = list(self.tool_of.values())
        name = {tool: program if programs.count(program) == 1 else tool for tool, program in self.tool_of.items()}

        def renamed(keyed: dict[Key, _T]) -> dict[Key, _T]:
            return {(name[tool], metric): value for (tool, metric), value in keyed.items()}

        self.about, self.absent = renamed(self.about), renamed(self.absent)
        self.skipped = {name[tool]: reason for tool, reason in self.skipped.items()}
        for boot in self.boots.values():
            boot.runs = {name[tool]: runs for tool, runs in boot.runs.items()}
            boot.figures = renamed(boot.figures)
        self.fingerprints = {entries: {name[tool] for tool in tools} for entries, tools in self.fingerprints.items()}

    def side(self, directory: Path) -> Side:
        """What was read."""
        if not self.boots and not self.failed and not self.skipped:
            raise SchedlineError(
                f"{directory} holds no run: {self.files} files end in .json"
                if self.files
                else f"{directory} holds no run file",
                "run a workload with --json FILE in that directory",
            )
        self._name_by_program()
        entries: dict[str, set[str]] = {}
        for fingerprint, tools in self.fingerprints.items():
            for name, value in fingerprint:
                if name == "boot_id":
                    continue
                if name in _OF_A_TOOL:
                    for tool in tools:
                        entries.setdefault(f"{name} of {tool}", set()).add(
                            _without_places(value) if name == "command_line" else value
                        )
                else:
                    entries.setdefault(name, set()).add(_same_kernel_words(name, value))
        boots = sorted(self.boots.values(), key=lambda boot: (boot.started, boot.id))
        return Side(
            self.name,
            tuple(boots),
            self.about,
            {name: frozenset(found) for name, found in entries.items()},
            tuple(self.failed),
            self.skipped,
            self.absent,
        )


def _entries(fingerprint: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    entries = tuple(fingerprint.items())
    if not all(type(value) is str for _, value in entries):
        raise _Bad("its fingerprint has an entry that is no text")
    return entries


def _is_number(value: object) -> bool:
    return type(value) in (int, float)  # a truth value is an int, and no measurement


def _text(table: Mapping[str, Any], name: str) -> str:
    found = table.get(name)
    if not isinstance(found, str) or not found:
        raise _Bad(f"{name} is missing or no text")
    return found


def _list(table: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = table.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise _Bad(f"{name} is no list of objects")
    return found


def _without_places(command: str) -> str:
    """A command line without where the program lies and which file the result goes to."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    kept, skip = [Path(word).name for word in words[:1]], False
    for word in words[1:]:
        if skip or word in _FILES:
            skip = not skip
        elif word.split("=")[0] not in _FILES:
            kept.append(word)
    return " ".join(kept)


def _same_kernel_words(name: str, value: str) -> str:
    """The kernel's command line without the names of the files that it was loaded from."""
    if name != "kernel_command_line":
        return value
    return " ".join(word for word in value.split() if not _PLACES.match(word))
