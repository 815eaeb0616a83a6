# SPDX-License-Identifier: GPL-2.0
"""`schedline dev mutants --generated`: how each mutant ended."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Positive, Strict, Whole, Word


class GeneratedMutant(Strict, frozen=True):
    """A mutant.

    Attributes:
        old, new: the changed lines, before and after.
        end: assertion, crash, hang or warning; survived; same code or equivalent; or not tried.
        on: the configuration whose guest noticed it; empty if none did.
        failed: the tests that noticed, or what the log said.
    """

    file: Word
    function: Word
    line: Positive
    operator: Word
    old: str
    new: str
    end: Literal["assertion", "crash", "hang", "warning", "survived", "same code", "equivalent", "not tried"]
    on: str
    failed: tuple[str, ...]


class GeneratedMutantsDocument(Document, frozen=True, kw_only=True):
    """schedline dev mutants --generated: how each mutant ended.

    Attributes:
        sample, seed: how the mutants were drawn; null: all.
        unreached: the statements that no guest executed.
        wrong: what is wrong with the list of equivalent mutants.
    """

    schema: Literal["generated-mutants-1"]
    tree: str
    sample: Positive | None
    seed: Whole
    mutants: tuple[GeneratedMutant, ...]
    unreached: tuple[str, ...]
    wrong: tuple[str, ...]
