# SPDX-License-Identifier: GPL-2.0
"""`schedline dev bench`: the cost of the tool compared with a bare build."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Strict, Word


class BenchRow(Strict, frozen=True):
    """One measurement: our value and the reference value, and the goal for their ratio or for our value."""

    name: Word
    ours: Amount
    reference: Amount | None
    goal: Word
    unit: Word


class BenchDocument(Document, frozen=True, kw_only=True):
    """schedline dev bench: the cost of the tool compared with a bare build. conditions: machine and load."""

    schema: Literal["bench-1"]
    conditions: Word
    rows: tuple[BenchRow, ...]
