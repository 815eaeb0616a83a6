# SPDX-License-Identifier: GPL-2.0
"""`schedline dev bench`: what the tool costs beside a bare build."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Strict, Word


class BenchRow(Strict, frozen=True):
    """One measurement: ours and the reference, and the goal for their ratio or for ours."""

    name: Word
    ours: Amount
    reference: Amount | None
    goal: Word
    unit: Word


class BenchDocument(Document, frozen=True, kw_only=True):
    """schedline dev bench: what the tool costs beside a bare build. conditions: machine and load."""

    schema: Literal["bench-1"]
    conditions: Word
    rows: tuple[BenchRow, ...]
