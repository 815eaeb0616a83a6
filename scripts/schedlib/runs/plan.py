# SPDX-License-Identifier: GPL-2.0
"""Which runs there are, and in which order: a file beside the runs, so that a run that was ended goes on."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlib.cache import read_json, write_json
from schedlib.errors import SchedlineError
from schedlib.formats.run_file import defect
from schedlib.runs.workload_suites import Suite

PLAN = "plan"
"""No .json: these are runs, and nothing else, for whoever reads a directory of them."""

_SAME = ("machine_name", "kernel", "build_id")
"""What the runs of one plan have in common: figures of two kernels are not mixed."""


@dataclass(frozen=True)
class Run:
    """The so manieth run of a row, counted from 1."""

    row: str
    number: int

    @property
    def file(self) -> str:
        return f"{self.row}-{self.number}.json"

    @property
    def log(self) -> str:
        return f"{self.row}-{self.number}.log"


@dataclass(frozen=True)
class Plan:
    """All runs in their order, and what they belong to."""

    suite: str
    rows: tuple[str, ...]
    digest: str
    runs: int
    seed: int
    machine: Mapping[str, str]
    order: tuple[Run, ...]

    def part(self, run: Run) -> dict[str, str | int]:
        """What a run's file says of the plan."""
        return {"suite": self.suite, "digest": self.digest, "row": run.row, "run": run.number, "seed": self.seed}


def shuffled(rows: Sequence[str], runs: int, seed: int) -> tuple[Run, ...]:
    """Each row once, in random order, then each once more: no row comes all before another."""
    source = random.Random(seed)  # noqa: S311 - an order, no secret
    order: list[Run] = []
    for number in range(1, runs + 1):
        once = [Run(row, number) for row in rows]
        source.shuffle(once)
        order += once
    return tuple(order)


def new_plan(suite: Suite, runs: int, seed: int, fingerprint: Mapping[str, str]) -> Plan:
    """A plan for this machine and kernel."""
    rows = tuple(row.name for row in suite.rows)
    machine = {name: fingerprint[name] for name in _SAME}
    return Plan(suite.name, rows, suite.digest(), runs, seed, machine, shuffled(rows, runs, seed))


def save_plan(plan: Plan, out: Path) -> None:
    """Before the first run."""
    value: dict[str, Any] = {
        "schema": "plan-1",
        "suite": plan.suite,
        "rows": list(plan.rows),
        "digest": plan.digest,
        "runs": plan.runs,
        "seed": plan.seed,
        "machine": dict(plan.machine),
        "order": [[run.row, run.number] for run in plan.order],
    }
    write_json(out / PLAN, value)


def saved_plan(out: Path) -> Plan | None:
    """The plan of a directory; None where there is none.

    Raises:
        SchedlineError: there is a file of that name that is no plan.
    """
    if not (out / PLAN).exists():
        return None
    found = read_json(out / PLAN) or {}
    try:
        if found["schema"] != "plan-1":
            raise ValueError
        return Plan(
            found["suite"],
            tuple(found["rows"]),
            found["digest"],
            int(found["runs"]),
            int(found["seed"]),
            dict(found["machine"]),
            tuple(Run(str(row), int(number)) for row, number in found["order"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SchedlineError(f"{out / PLAN} is no plan of this version", "name another directory with --out") from error


def refuse_another(plan: Plan, wanted: Plan, out: Path) -> None:
    """A directory belongs to one plan.

    Raises:
        SchedlineError: what is there is of another suite, machine or kernel.
    """
    next_step = "name another directory with --out"
    if (plan.suite, plan.rows) != (wanted.suite, wanted.rows):
        raise SchedlineError(f"{out} has runs of the suite {plan.suite}: {', '.join(plan.rows)}", next_step)
    if plan.digest != wanted.digest:
        raise SchedlineError(f"the rows of {plan.suite}, or the CPUs, are others than when {out} was begun", next_step)
    if plan.runs != wanted.runs:
        raise SchedlineError(f"{out} was begun with --runs {plan.runs}, not {wanted.runs}", next_step)
    for name in _SAME:
        if plan.machine.get(name) != wanted.machine[name]:
            raise SchedlineError(
                f"{out} was begun with another {name.replace('_', ' ')}: {plan.machine.get(name)}, "
                f"here it is {wanted.machine[name]}; their figures are not mixed",
                next_step,
            )


def why_not_kept(plan: Plan, run: Run, out: Path) -> str | None:
    """Why a run has to be made, again perhaps; None where its file is valid and has a measurement."""
    if not (out / run.file).exists():
        return "not there"
    found = read_json(out / run.file)
    wrong = defect(found)
    if wrong or found is None:
        return wrong
    if found.get("plan") != plan.part(run):
        return "of another plan"
    return None if found["status"] == "DONE" else f"it was {found['status']}: {found['reason']}"
