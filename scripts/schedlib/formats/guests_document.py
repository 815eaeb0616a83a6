# SPDX-License-Identifier: GPL-2.0
"""What a premerge leaves of the guests: beside their consoles, from which they are judged again."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from schedlib.formats.document import Document
from schedlib.formats.strict import Positive, Strict, Word
from schedlib.verdict import Verdict


class GuestRow(Strict, frozen=True):
    """One guest, whose console is NAME.log.

    Attributes:
        ending: as whoever booted it saw it.
        seen: the verdict of whoever booted it.
    """

    name: Annotated[str, Meta(pattern="^[^/]+$")]
    cpus: Positive
    ending: Literal["exited", "timed out", "killed", "died", "unknown"]
    seen: Verdict


class GuestsDocument(Document, frozen=True, kw_only=True):
    """What each guest had to run, and what only the one who booted it could see.

    Attributes:
        left_out: suites that the tree cannot have, and why.
        expected: changes that have to be there.
    """

    only_lines = True

    schema: Literal["guests-1"]
    target: Word
    left_out: dict[str, str]
    expected: tuple[str, ...]
    guests: Annotated[tuple[GuestRow, ...], Meta(min_length=1)]
