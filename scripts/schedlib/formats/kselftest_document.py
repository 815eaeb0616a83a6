# SPDX-License-Identifier: GPL-2.0
"""`schedline dev kselftest`: the workloads in a plain kernel tree."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Strict, Word
from schedlib.verdict import Verdict


class KselftestStep(Strict, frozen=True):
    """One step in the tree, its verdict and its output."""

    step: Word
    verdict: Verdict
    said: str


class KselftestDocument(Document, frozen=True, kw_only=True):
    """schedline dev kselftest: the workloads in a plain kernel tree. tree: where it came from."""

    schema: Literal["kselftest-1"]
    tree: str
    steps: tuple[KselftestStep, ...]
