# SPDX-License-Identifier: GPL-2.0
"""`schedline run --json`: the results of the runs of a plan."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Moment, Positive, Strict, Whole, Word
from schedlib.verdict import Verdict


class RunsPlan(Strict, frozen=True):
    """The plan of the runs. runs: number of runs of each row."""

    suite: Word
    digest: str
    runs: Positive
    seed: Whole


class RunsRow(Strict, frozen=True):
    """One run.

    Attributes:
        verdict: INCONCLUSIVE: skipped.
        file: the run, below the directory of --out: the boot id, and the name.
    """

    row: Word
    run: Positive
    verdict: Verdict
    reason: str
    seconds: Amount
    file: Word


class RunsDocument(Document, frozen=True, kw_only=True):
    """schedline run --json: the results of the runs of a plan.

    Attributes:
        fingerprint: of the machine and the kernel.
    """

    schema: Literal["runs-1"]
    tool: Word
    started: Moment
    fingerprint: dict[str, str]
    status: Verdict
    plan: RunsPlan
    runs: Annotated[tuple[RunsRow, ...], Meta(min_length=1)]
