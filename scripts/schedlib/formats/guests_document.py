# SPDX-License-Identifier: GPL-2.0
"""The file about the guests that premerge leaves beside their console logs, so that they can be judged again."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from schedlib.formats.document import Document
from schedlib.formats.strict import Positive, Strict, Word
from schedlib.verdict import Verdict


class GuestRow(Strict, frozen=True):
    """One guest, whose console is NAME.log.

    Attributes:
        ending: how it ended, as the program that booted it saw it.
        seen: the verdict of the program that booted it.
    """

    name: Annotated[str, Meta(pattern="^[^/]+$")]
    cpus: Positive
    ending: Literal["exited", "timed out", "killed", "died", "unknown"]
    seen: Verdict


class GuestsDocument(Document, frozen=True, kw_only=True):
    """What each guest had to run, and what only the program that booted it could see.

    Attributes:
        left_out: suites that cannot be built in the tree, and why.
        expected: changes that the tree has to have.
    """

    only_lines = True

    schema: Literal["guests-1"]
    target: Word
    left_out: dict[str, str]
    expected: tuple[str, ...]
    guests: Annotated[tuple[GuestRow, ...], Meta(min_length=1)]
