# SPDX-License-Identifier: GPL-2.0
"""`schedline layout`: the layout rules on one or more kernels."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Moment, Positive, Strict, Word
from schedlib.verdict import Verdict

PresenceName = Literal["present", "partial", "absent", "n/a"]


class LayoutType(Strict, frozen=True):
    """A structure. align: null if it is not recorded."""

    size: Count
    align: Positive | None


class LayoutRule(Strict, frozen=True):
    """The outcome of a rule."""

    id: Word
    outcome: Literal["pass", "fail", "n/a"]
    reason: str


class LayoutField(Strict, frozen=True):
    """A member.

    Attributes:
        type: tag of the structure.
        member: its path; a[0].b is b in every element of a.
    """

    type: Word
    member: Word
    offset: Count
    size: Count


class LayoutColumn(Strict, frozen=True):
    """One kernel.

    Attributes:
        absent: why this kernel cannot be built; then line is null and the rest empty.
        line: bytes in a cache line.
        assumed: why the line size is assumed; empty when it is known.
        presence: whether the kernel has each change, by its id.
        types: structures, by tag.
    """

    name: Word
    absent: str
    line: Positive | None
    assumed: str
    presence: dict[str, PresenceName]
    types: dict[str, LayoutType]
    rules: tuple[LayoutRule, ...]
    fields: tuple[LayoutField, ...]


class LayoutDocument(Document, frozen=True, kw_only=True):
    """schedline layout: the layout rules on one or more kernels.

    Attributes:
        tool: name and version of what wrote this file.
        started: with time zone.
        fingerprint: tree and commit, or kernel; machine; compilers.
    """

    schema: Literal["layout-1"]
    tool: Word
    started: Moment
    fingerprint: dict[str, str]
    status: Verdict
    columns: tuple[LayoutColumn, ...]
