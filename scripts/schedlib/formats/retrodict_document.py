# SPDX-License-Identifier: GPL-2.0
"""`schedline dev retrodict`: what a contract would have said of layout incidents."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Strict, Word


class RetrodictRow(Strict, frozen=True):
    """An incident.

    Attributes:
        commit: that of the fix.
        right: the members of which one has to be named.
        after: what was mended after the first run; then it does not count as caught.
        caught: whether the derived contract names one of them.
        silent: whether it says nothing of the fix.
        said: what it says of the bad layout.
        packs: the rules of today's contracts that the bad layout breaks and that name one of `right`.
        why: why it was not caught.
        seconds: for deriving the contract and judging it, and for today's contracts.
    """

    name: Word
    struct: Word
    kind: Literal["latent", "regression"]
    blind: bool
    commit: str
    right: tuple[Word, ...]
    after: str
    caught: bool
    silent: bool
    said: tuple[str, ...]
    packs: tuple[str, ...]
    why: str
    seconds: tuple[Amount, Amount]


class RetrodictDocument(Document, frozen=True, kw_only=True):
    """schedline dev retrodict: what a contract would have said. rules: their date; tree: where it came from."""

    schema: Literal["retrodict-1"]
    tree: Word
    compiler: Word
    rules: Word
    incidents: tuple[RetrodictRow, ...]
