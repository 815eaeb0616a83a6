# SPDX-License-Identifier: GPL-2.0
"""Suites are data: configs/workloads/*.toml. Each row is one workload with its exact arguments."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Annotated

import msgspec

from schedlib.errors import SchedlineError
from schedlib.formats.data_file import nearest, read_toml, refuse
from schedlib.formats.strict import MetricName, Strict, Word, Wrong
from schedlib.paths import CONFIGS
from schedlib.runs.tools import TOOLS
from schedlib.tree.selftest_programs import program_sources

SUITES = CONFIGS / "workloads"


class WorkloadRow(Strict, frozen=True, kw_only=True):
    """A workload of a suite.

    Attributes:
        tool: a wrapped tool; empty if `program` is given.
        program: a program of selftests/sched_latency/; empty if `tool` is given.
        arguments: {cpus} is replaced by the number of CPUs that may be used, {half_cpus} by half of it, at least 1.
        seconds: its approximate duration.
        work: the metric that is 0 if no work was done.
        metrics: the metrics that a run must report, with their units.
        required: whether it is an ERROR if the tool or program is missing; by default, only programs are required.
        realtime: needs SCHED_FIFO.
    """

    name: Annotated[str, msgspec.Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
    tool: str = ""
    program: str = ""
    arguments: tuple[Word, ...] = ()
    seconds: Annotated[float, msgspec.Meta(gt=0, le=1e6)]
    work: Word
    metrics: Annotated[dict[MetricName, Word], msgspec.Meta(min_length=1)]
    required: bool | None = None
    realtime: bool = False

    def __post_init__(self) -> None:
        if bool(self.tool) == bool(self.program):
            raise Wrong("must name either a tool or a program", "write tool or program, one of them")
        if self.tool and self.tool not in TOOLS:
            raise Wrong(f"names an unknown tool: {self.tool}", nearest(self.tool, TOOLS))
        programs = [*program_sources()]
        if self.program and self.program not in programs:
            raise Wrong(f"names an unknown program: {self.program}", nearest(self.program, programs))
        if self.work not in self.metrics:
            raise Wrong(f"has a work that is not one of its metrics: {self.work}", nearest(self.work, self.metrics))
        try:
            self.to_argv(1)
        except (LookupError, ValueError) as error:
            why = f"has an argument with an unknown name in braces: {error}"
            raise Wrong(why, "write {cpus} or {half_cpus}") from error
        if self.required is None:
            msgspec.structs.force_setattr(self, "required", bool(self.program))

    def to_argv(self, cpus: int | None = None) -> list[str]:
        """The arguments for this number of CPUs, by default the CPUs of this machine."""
        cpus = cpus or len(os.sched_getaffinity(0))
        return [word.format(cpus=cpus, half_cpus=max(1, cpus // 2)) for word in self.arguments]


class Suite(Strict, frozen=True, kw_only=True):
    """A file of configs/workloads/: rows by name, and what they are for.

    Attributes:
        include: suites whose rows are added.
        gates: the gates files of configs/gates/ whose every metric the rows measure.
    """

    name: str
    about: Word
    include: tuple[Word, ...] = ()
    gates: tuple[Word, ...] = ()
    rows: dict[str, WorkloadRow] = msgspec.field(default_factory=dict)

    def digest(self) -> str:
        rows = [[msgspec.structs.asdict(row), row.to_argv()] for row in self.rows.values()]
        return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:16]


def suite_names() -> list[str]:
    return sorted(path.stem for path in SUITES.glob("*.toml"))


def load_suite(name: str) -> Suite:
    """A suite with the rows of those that it includes."""
    path = SUITES / f"{name}.toml"
    if name not in suite_names():
        raise SchedlineError(f"no suite {name!r}", nearest(name, suite_names()))
    found = read_toml(path, Suite, stem="name", keys="name", below=("rows",))
    rows: dict[str, WorkloadRow] = {}
    for number, other in enumerate(found.include):
        if other not in suite_names():
            refuse(path, ("include", number), f"names an unknown suite: {other}", nearest(other, suite_names()))
        for key, row in load_suite(other).rows.items():
            if rows.setdefault(key, row) != row:
                refuse(path, ("include", number), f"has a second row {key}", "rename one of them")
    if twice := sorted(rows.keys() & found.rows.keys()):
        refuse(path, ("rows", twice[0]), "is a row of a suite that it includes", "rename one of them")
    rows |= found.rows
    if not rows:
        refuse(path, (), "has no rows", "CONTRIBUTING.md says what a row needs")
    return msgspec.structs.replace(found, rows=rows)


def chosen(suite: Suite, only: Sequence[str]) -> Suite:
    if unknown := [name for name in only if name not in suite.rows]:
        raise SchedlineError(f"{suite.name} has no row {unknown[0]!r}", f"choose among {', '.join(suite.rows)}")
    rows = {name: row for name, row in suite.rows.items() if not only or name in only}
    return msgspec.structs.replace(suite, rows=rows)
