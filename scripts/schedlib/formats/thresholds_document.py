# SPDX-License-Identifier: GPL-2.0
"""`schedline dev bench --only thresholds`: which regressions the kselftests catch."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Number, Positive, Strict, Word


class Detection(Strict, frozen=True):
    """The batches of one workload in one case.

    Attributes:
        failed: batches of which a test failed.
        skipped: batches of which none failed, and in which a regression of the median could have been missed.
        tests: how often each test failed.
        goal: percent of the batches that have to fail; a negative one is the most that may fail.
    """

    case: Word
    tool: Word
    batches: Positive
    failed: Count
    skipped: Count
    errors: Count
    tests: dict[str, int]
    goal: Number | None
    met: bool


class ThresholdsDocument(Document, frozen=True, kw_only=True):
    """schedline dev bench --only thresholds. conditions: machine and load."""

    schema: Literal["thresholds-1"]
    conditions: Word
    rows: tuple[Detection, ...]
