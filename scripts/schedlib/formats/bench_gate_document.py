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
        failed: the whole gate said FAIL.
        caught: the gate said FAIL for the metric that was changed.
        asked: the first batch asked for a confirmation.
        unclear: the gate ended INCONCLUSIVE, the confirmation included.
        rivals: by tool, campaigns in which it reports any metric worse: from the first batch alone, and from all boots.
        rivals_caught: the same for the metric that was changed.
    """

    campaigns: Positive
    failed: Amount
    caught: Amount
    asked: Amount
    unclear: Amount
    rivals: Rivals
    rivals_caught: Rivals


class ProofLine(Strict, frozen=True):
    """The result for one noise model, one change of a metric (0: none) and one order of boots."""

    model: Word
    change: Amount
    order: Word
    result: SimulationResult


class BenchGateDocument(Document, frozen=True, kw_only=True):
    """schedline dev bench --only gate: how often the gate is wrong on simulated campaigns."""

    schema: Literal["bench-gate-1"]
    lines: tuple[ProofLine, ...]
