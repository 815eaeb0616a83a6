# SPDX-License-Identifier: GPL-2.0
"""The planned runs of a boot and their order, in a file beside the runs, so that interrupted work can be resumed.

Each boot has a directory of its own below --out, with a plan of its own.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from schedlib.cache import write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.document import Document, Refused
from schedlib.formats.run_file import PlanPart, Run, read_run
from schedlib.formats.strict import Positive, Strict, Whole, Word
from schedlib.paths import PLAN

if TYPE_CHECKING:  # the gate reads plans, and runs nothing
    from schedlib.runs.workload_suites import Suite

_OTHER = "name another directory with --out"

SAME = ("machine_name", "kernel", "build_id")
"""The runs of one plan must agree in these: figures of two kernels are not mixed."""


class PlannedRun(Strict, frozen=True, array_like=True):
    """The Nth run of a row, counted from 1."""

    row: Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
    number: Positive

    @property
    def name(self) -> str:
        return f"{self.row}-{self.number}"

    @property
    def file(self) -> str:
        return f"{self.name}.json"


class RunPlan(Document, frozen=True, kw_only=True):
    """All runs of a directory in their order, and what they have in common.

    digest: of the suite's rows and their arguments. runs: of each row. machine: see SAME.
    """

    no_control_chars = True

    schema: Literal["plan-1"]
    suite: Word
    rows: tuple[Word, ...]
    digest: str
    runs: Positive
    seed: Whole
    machine: dict[str, str]
    order: tuple[PlannedRun, ...]

    def part(self, run: PlannedRun) -> PlanPart:
        return PlanPart(self.suite, self.digest, run.row, run.number, self.seed)

    def keep(self, out: Path, planned: PlannedRun, run: Run, log: str) -> None:
        write_atomic(out / f"{planned.name}.log", log)
        document.write(out / planned.file, replace(run, plan=self.part(planned)))


def shuffled(rows: Sequence[str], runs: int, seed: int) -> tuple[PlannedRun, ...]:
    """Rounds in which each row occurs once, each round in a new random order."""
    source = random.Random(seed)  # noqa: S311 - an order, no secret
    order: list[PlannedRun] = []
    for number in range(1, runs + 1):
        once = [PlannedRun(row, number) for row in rows]
        source.shuffle(once)
        order += once
    return tuple(order)


def new_plan(suite: Suite, runs: int, seed: int, fingerprint: Mapping[str, str]) -> RunPlan:
    return RunPlan(
        schema="plan-1",
        suite=suite.name,
        rows=tuple(suite.rows),
        digest=suite.digest(),
        runs=runs,
        seed=seed,
        machine={name: fingerprint[name] for name in SAME},
        order=shuffled([*suite.rows], runs, seed),
    )


def read_plan(path: Path) -> RunPlan:
    return document.read(path, RunPlan, _OTHER)


def boots_in(out: Path) -> list[tuple[Path, RunPlan]]:
    """The boots that have runs in a directory, each with its plan, oldest first."""
    if (out / PLAN).exists():
        raise SchedlineError(
            f"{out} has a plan beside its runs, and each boot now has a directory of its own",
            f"mkdir {out}/first && mv {out}/plan {out}/*.json {out}/*.log {out}/first/, or {_OTHER}",
        )
    found = sorted(out.glob(f"*/{PLAN}"), key=lambda path: (path.stat().st_mtime, path))
    return [(path.parent, read_plan(path)) for path in found]


def runs_wanted(said: int | None, boots: Sequence[tuple[Path, RunPlan]]) -> int:
    """How many runs of each row a boot makes: what the user said, or as many as the newest boot."""
    return said or (boots[-1][1].runs if boots else 1)


def refuse_another(plan: RunPlan, wanted: RunPlan, out: Path) -> None:
    """Reject a directory that belongs to another plan."""
    if (plan.suite, plan.rows) != (wanted.suite, wanted.rows):
        raise SchedlineError(f"{out} has runs of the suite {plan.suite}: {', '.join(plan.rows)}", _OTHER)
    if plan.digest != wanted.digest:
        raise SchedlineError(f"the rows of {plan.suite} or the CPUs have changed since {out} was started", _OTHER)
    if plan.runs != wanted.runs:
        raise SchedlineError(f"{out} was started with --runs {plan.runs}, not {wanted.runs}", _OTHER)
    for name in SAME:
        if plan.machine.get(name) != wanted.machine[name]:
            raise SchedlineError(
                f"{out} was started with another {name.replace('_', ' ')}: {plan.machine.get(name)}, "
                f"here it is {wanted.machine[name]}; their figures must not be mixed",
                _OTHER,
            )


def why_not_kept(plan: RunPlan, run: PlannedRun, out: Path) -> str | None:
    """Why a run has to be made (again); None if its file is valid and has a measurement."""
    try:
        found = read_run(out / run.file)
    except Refused as refused:
        return refused.why
    if found.plan != plan.part(run):
        return "it belongs to another plan"
    return None if found.status == "DONE" else f"it was {found.status}: {found.reason}"
