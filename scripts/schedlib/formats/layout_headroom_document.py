# SPDX-License-Identifier: GPL-2.0
"""`schedline layout headroom`: how much may still be added to the guarded lines."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Strict, Whole, Word


class GuardedLine(Strict, frozen=True):
    """A line on which rules keep some members.

    Attributes:
        type: tag of the structure.
        left: bytes that can be added among the members before the last one crosses the end of the line.
        free: bytes of the line that no member uses.
        full: whether one more pointer breaks a rule.
    """

    column: Word
    type: Word
    line: Count
    rules: tuple[Word, ...]
    left: Whole
    free: Count
    full: bool


class Drift(Strict, frozen=True):
    """A member that a function touches off the line of its group, and the columns in which it does."""

    what: Word
    where: tuple[Word, ...]


class LayoutHeadroomDocument(Document, frozen=True, kw_only=True):
    """schedline layout headroom: how much may still be added to the guarded lines.

    Attributes:
        drift: members that functions touch off the line of their group and that no rule catches.
    """

    schema: Literal["layout-headroom-1"]
    tool: Word
    lines: tuple[GuardedLine, ...]
    drift: tuple[Drift, ...]
