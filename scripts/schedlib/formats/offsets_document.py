# SPDX-License-Identifier: GPL-2.0
"""The file about layouts that premerge leaves: offsets of base and head, so that the rules can be judged again."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Positive, Strict, Word


class OffsetsType(Strict, frozen=True):
    """A structure: size and alignment in bytes; align is null if it is not known."""

    name: Word
    size: Count
    align: Count | None


class OffsetsField(Strict, frozen=True):
    """A member: offset, size and stride in bytes."""

    type: Word
    member: Word
    offset: Count
    size: Count
    count: Count
    stride: Count


class Offsets(Strict, frozen=True):
    """One kernel.

    Attributes:
        line: bytes in a cache line.
        holds: whether each condition of the contracts is true.
    """

    line: Positive
    holds: dict[Word, bool]
    types: tuple[OffsetsType, ...]
    fields: tuple[OffsetsField, ...]


class OffsetsDocument(Document, frozen=True, kw_only=True):
    """The offsets of base and head, by column; null for a column that the tree cannot have."""

    only_lines = True

    schema: Literal["offsets-2"]
    columns: dict[str, tuple[Offsets, Offsets] | None]
