# SPDX-License-Identifier: GPL-2.0
"""`schedline dev bench --only gate`: how often the gate is wrong on simulated campaigns."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Positive, Strict, Word

Rivals = dict[str, tuple[Amount, Amount]]


class SimulationResult(Strict, frozen=True):
    """Shares of campaigns, in percent.

    Attributes:
        failed, passed: the whole gate said FAIL, or PASS; the rest stayed INCONCLUSIVE up to the last look.
        caught: the gate said FAIL for the metric that was changed.
        boots: the mean number of boots of each kernel until the gate ended.
        rivals: by tool, campaigns in which it reports any metric worse: from 10 boots of each kernel, and from all 20.
            The others judge the first 1,000 campaigns.
        rivals_caught: the same for the metric that was changed.
    """

    campaigns: Positive
    failed: Amount
    passed: Amount
    caught: Amount
    boots: Amount
    rivals: Rivals
    rivals_caught: Rivals


class ProofLine(Strict, frozen=True):
    """The result of one case. part: no change, at detect, found, bad boots, no promise, order."""

    part: Word
    name: Word
    change: Amount
    result: SimulationResult


class BenchGateDocument(Document, frozen=True, kw_only=True):
    """schedline dev bench --only gate: how often the gate is wrong on simulated campaigns."""

    schema: Literal["bench-gate-1"]
    lines: tuple[ProofLine, ...]
