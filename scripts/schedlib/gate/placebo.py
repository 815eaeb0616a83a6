# SPDX-License-Identifier: GPL-2.0
"""Use runs of a placebo kernel to tell how much of a change comes from the layout, and how much from the size alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlib.errors import SchedlineError
from schedlib.formats.gate_document import Method
from schedlib.gate.boots import Side
from schedlib.gate.judging import MetricRow, boots_of, values_of
from schedlib.gate.pairing import Batch, order_problem
from schedlib.gate.rules import Gate
from schedlib.gate.statistics import mean_interval, mean_shift, shift, shift_interval


@dataclass(frozen=True)
class Share:
    """The layout's share in the change of a metric. Units are those of its row: percent of the base, or absolute.

    Attributes:
        row: the gate's row of the metric.
        change: change from the base to the placebo.
        attributable: change from the placebo to the candidate, which the layout causes.
        low, high: the 95 % interval of `attributable`.
        reason: why there is no share; empty if there is one.
    """

    row: MetricRow
    change: float | None = None
    attributable: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""

    @property
    def shown(self) -> bool:
        """Whether the layout has any effect: the interval excludes 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def shares_of(gate: Gate, rows: Sequence[MetricRow], base: Side, candidate: Side, placebo: Side) -> list[Share]:
    """The share for each metric that was compared. All boots count, of the first batch and of the confirmation.

    Raises:
        SchedlineError: the placebo lacks a metric that the others have.
    """
    return [
        _share(gate, row, base, candidate, placebo)
        for row in rows
        if row.change is not None and row.base and row.rule.method is not Method.EQUAL
    ]


def _share(gate: Gate, row: MetricRow, base: Side, candidate: Side, placebo: Side) -> Share:
    rule = row.rule
    if rule.key not in placebo.about:
        raise SchedlineError(f"the placebo has no {' '.join(rule.key)}", "run the same suite with all three kernels")
    chosen = [boots_of(side, rule.tool).boots for side in (base, placebo, candidate)]
    if any(rule.key not in boot.figures for boots in chosen for boot in boots):
        return Share(row, reason="a boot lacks it")
    if len(chosen[1]) < gate.boots:
        return Share(row, reason=f"the placebo has {len(chosen[1])} boots, not {gate.boots}")
    if gate.interleaved and (problem := order_problem(Batch(chosen[1], chosen[2]))):
        return Share(row, reason=problem)
    values, padded = values_of(rule, Batch(chosen[0], chosen[1]))
    _, moved = values_of(rule, Batch(chosen[0], chosen[2]))
    scale = (1.0 if rule.absolute else 100 / abs(row.base or 1.0)) * (-1.0 if rule.direction == "higher" else 1.0)
    by_rank = rule.method is Method.RANK
    estimate, interval = (shift, shift_interval) if by_rank else (mean_shift, mean_interval)
    ends = sorted(float(end) * scale for end in interval(padded, moved))
    return Share(row, float(estimate(values, padded)) * scale, float(estimate(padded, moved)) * scale, ends[0], ends[1])
