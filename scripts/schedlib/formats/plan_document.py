# SPDX-License-Identifier: GPL-2.0
"""The plan of a directory of runs: which runs it has, and their order."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from schedlib.formats.document import Document
from schedlib.formats.run_file import PlanPart
from schedlib.formats.strict import Positive, Strict, Whole, Word


class PlannedRun(Strict, frozen=True, array_like=True):
    """The Nth run of a row, counted from 1."""

    row: Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
    number: Positive

    @property
    def file(self) -> str:
        return f"{self.row}-{self.number}.json"

    @property
    def log(self) -> str:
        return f"{self.row}-{self.number}.log"


class RunPlan(Document, frozen=True, kw_only=True):
    """All runs of a directory in their order, and what they have in common.

    Attributes:
        digest: of the suite's rows and their arguments.
        runs: number of runs of each row.
        machine: name of the machine, kernel and build-id; they are the same for all runs.
    """

    only_lines = True

    schema: Literal["plan-1"]
    suite: Word
    rows: tuple[Word, ...]
    digest: str
    runs: Positive
    seed: Whole
    machine: dict[str, str]
    order: tuple[PlannedRun, ...]

    def part(self, run: PlannedRun) -> PlanPart:
        """The part of the plan that a run's file records."""
        return PlanPart(self.suite, self.digest, run.row, run.number, self.seed)
