# SPDX-License-Identifier: GPL-2.0
"""`schedline dev mutants`: which tests notice which defect."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Strict, Word


class MutantRow(Strict, frozen=True):
    """A mutant.

    Attributes:
        breaks: what it breaks, in words.
        fate: killed, survived, ...
        failed: the tests that noticed.
    """

    name: Word
    breaks: str
    fate: Word
    failed: tuple[str, ...]
    seconds: Amount


class MutantsDocument(Document, frozen=True, kw_only=True):
    """schedline dev mutants: which tests notice which defect. tree: where it came from."""

    schema: Literal["mutants-1"]
    tree: str
    mutants: tuple[MutantRow, ...]
