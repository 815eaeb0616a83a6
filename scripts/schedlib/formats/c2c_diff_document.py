# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c diff`: two results of c2c against budgets."""

from __future__ import annotations

from typing import Literal, get_args

from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Count, Strict, Word
from schedlib.verdict import Verdict

CountName = Literal["false_shared", "misses", "hitm", "upgrades", "accesses"]
COUNTS: tuple[CountName, ...] = get_args(CountName)


class TrafficMetric(Strict, frozen=True):
    """What is compared, and how much it may rise.

    Attributes:
        of: an object, or a field with its object; `*` for each object, `*.*` for each field.
        count: one of COUNTS.
        budget: percent that it may rise.
        floor: number of events that it may rise in addition.
    """

    of: Word
    count: CountName
    budget: Amount
    floor: Count


class JudgedTraffic(TrafficMetric, frozen=True):
    """A metric, judged for one object or field.

    Attributes:
        name: the object or field.
        base, candidate: one number for each quantum.
    """

    name: Word
    base: tuple[Count, ...]
    candidate: tuple[Count, ...]
    verdict: Verdict


class TrafficDiffDocument(Document, frozen=True, kw_only=True):
    """schedline c2c diff: two results of c2c against budgets."""

    schema: Literal["c2c-diff-1"]
    tool: Word
    status: Verdict
    metrics: tuple[JudgedTraffic, ...]
