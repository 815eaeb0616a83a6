# SPDX-License-Identifier: GPL-2.0
"""`schedline layout diff`: what differs between two layouts."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Moment, Strict, Word
from schedlib.verdict import Verdict


class DiffFigure(Strict, frozen=True):
    """A figure of both layouts; it is exact, the same on every machine. Null if a layout does not have it."""

    name: Word
    unit: Word
    direction: Literal["lower"]
    kind: Literal["exact"]
    n: Literal[1]
    before: Count | None
    value: Count | None


class MovedMember(Strict, frozen=True):
    """A member that begins on another line; null if a layout does not have it."""

    member: Word
    before: Count | None
    after: Count | None


class ChangedRule(Strict, frozen=True):
    """A rule whose outcome differs."""

    id: Word
    before: Literal["pass", "fail", "n/a"]
    after: Literal["pass", "fail", "n/a"]


class LayoutDiffDocument(Document, frozen=True, kw_only=True):
    """schedline layout diff: what differs between two layouts.

    Attributes:
        fingerprint: the names of both.
    """

    schema: Literal["layout-diff-1"]
    tool: Word
    started: Moment
    fingerprint: dict[str, str]
    status: Verdict
    metrics: tuple[DiffFigure, ...]
    moved: tuple[MovedMember, ...]
    rules: tuple[ChangedRule, ...]
