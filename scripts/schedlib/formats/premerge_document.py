# SPDX-License-Identifier: GPL-2.0
"""`schedline premerge`: what is known about a series before it is merged."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Moment, Strict, Word
from schedlib.verdict import Verdict


class PremergePatch(Strict, frozen=True):
    """One patch.

    Attributes:
        commit: in the cache's repository.
        subject: the first line of its message.
        patch_id: the output of `git patch-id --stable`.
        sha256: of the mail that git format-patch makes of it, without commit id and version.
    """

    commit: Word
    subject: str
    patch_id: str
    sha256: str


class PremergePart(Strict, frozen=True):
    """The result of one part. verdict: null if there was nothing to judge."""

    name: Word
    verdict: Verdict | None
    summary: str
    lines: tuple[str, ...]


class PremergeDocument(Document, frozen=True, kw_only=True):
    """schedline premerge: what is known about a series before it is merged.

    Attributes:
        tool: name and version of what wrote this file.
        started: with time zone.
        tree: where it came from.
        base, head: commits.
    """

    schema: Literal["premerge-1"]
    tool: Word
    started: Moment
    status: Verdict
    tree: str
    base: Word
    head: Word
    patches: tuple[PremergePatch, ...]
    parts: tuple[PremergePart, ...]
