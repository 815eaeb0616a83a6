# SPDX-License-Identifier: GPL-2.0
"""Suites are data: configs/workloads/*.toml. Each row is one workload with its exact arguments."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from schedlib.errors import SchedlineError
from schedlib.paths import CONFIGS, SELFTESTS
from schedlib.runs.tools.tool_table import TOOLS

SUITES = CONFIGS / "workloads"
OWN = SELFTESTS / "sched_latency"

_KEYS = {"tool", "program", "arguments", "seconds", "work", "metrics", "required", "realtime", "unless"}


@dataclass(frozen=True)
class Row:
    """A workload of a suite.

    Attributes:
        tool: a wrapped tool, or
        program: one of selftests/sched_latency/.
        arguments: with {cpus} and {half_cpus}, the CPUs that may be used and half of them, 1 at least.
        seconds: how long it takes, about.
        work: the metric that is 0 where nothing was done.
        metrics: what a run has to tell, and in which unit.
        required: without it the suite is not run.
        realtime: needs SCHED_FIFO.
        unless: not where this program is installed, in whose place it stands.
    """

    name: str
    tool: str
    program: str
    arguments: tuple[str, ...]
    seconds: float
    work: str
    metrics: Mapping[str, str]
    required: bool
    realtime: bool
    unless: str

    def words(self, cpus: int | None = None) -> list[str]:
        """The arguments for so many CPUs, or for those of this machine."""
        cpus = cpus or len(os.sched_getaffinity(0))
        return [word.format(cpus=cpus, half_cpus=max(1, cpus // 2)) for word in self.arguments]


@dataclass(frozen=True)
class Suite:
    """Rows, and what they are for."""

    name: str
    about: str
    rows: tuple[Row, ...]

    def digest(self) -> str:
        """A name for exactly these rows with these arguments."""
        text = json.dumps([[asdict(row), row.words()] for row in self.rows], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _row(path: Path, name: str, found: Mapping[str, Any]) -> Row:
    unknown = sorted(set(found) - _KEYS)
    tool, program = found.get("tool", ""), found.get("program", "")
    wrong = (
        f"unknown: {', '.join(unknown)}"
        if unknown
        else "names a tool or a program"
        if bool(tool) == bool(program)
        else f"no tool {tool}; there are {', '.join(TOOLS)}"
        if tool and tool not in TOOLS
        else f"no {program}.c in selftests/sched_latency"
        if program and not (OWN / f"{program}.c").exists()
        else "lacks metrics"
        if not found.get("metrics")
        else f"its work, {found.get('work')}, is none of its metrics"
        if found.get("work") not in found["metrics"]
        else ""
    )
    if wrong:
        raise SchedlineError(f"{path.name}: {name}: {wrong}", "CONTRIBUTING.md says what a row has")
    return Row(
        name,
        tool,
        program,
        tuple(found.get("arguments", ())),
        float(found["seconds"]),
        found["work"],
        dict(found["metrics"]),
        found.get("required", bool(program)),
        found.get("realtime", False),
        found.get("unless", ""),
    )


def suite_names() -> list[str]:
    """Those that there are."""
    return sorted(path.stem for path in SUITES.glob("*.toml"))


def load_suite(name: str) -> Suite:
    """A suite with the rows of those that it includes.

    Raises:
        SchedlineError: there is none, or its file is wrong.
    """
    path = SUITES / f"{name}.toml"
    if name not in suite_names():
        raise SchedlineError(f"no suite {name!r}", f"choose one of {', '.join(suite_names())}")
    try:
        found = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise SchedlineError(f"{path.name}: {error}", "correct the file") from error
    rows: dict[str, Row] = {}
    for other in found.get("include", ()):
        for row in load_suite(other).rows:
            if rows.setdefault(row.name, row) != row:
                raise SchedlineError(f"{path.name}: two rows are called {row.name}", "rename one of them")
    for key, value in found.get("rows", {}).items():
        if key in rows:
            raise SchedlineError(f"{path.name}: {key} is a row of a suite that it includes", "rename one of them")
        rows[key] = _row(path, key, value)
    if not rows:
        raise SchedlineError(f"{path.name} has no rows", "CONTRIBUTING.md says what a row has")
    return Suite(name, found["about"], tuple(rows.values()))


def chosen(suite: Suite, only: Sequence[str]) -> Suite:
    """Some of the rows; all of them where none is named.

    Raises:
        SchedlineError: there is no such row.
    """
    names = [row.name for row in suite.rows]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise SchedlineError(f"{suite.name} has no row {unknown[0]!r}", f"choose among {', '.join(names)}")
    return Suite(suite.name, suite.about, tuple(row for row in suite.rows if not only or row.name in only))
