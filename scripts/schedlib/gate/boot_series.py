# SPDX-License-Identifier: GPL-2.0
"""The value of each judged boot for one row of a comparison, in the order of the boots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from schedlib.formats.gate_document import Method
from schedlib.gate.boots import Boot
from schedlib.gate.comparison import Comparison
from schedlib.gate.judging import MetricRow, boots_of
from schedlib.gate.pairing import batches

KERNELS = ("base", "candidate", "placebo")


@dataclass(frozen=True)
class Point:
    """One boot. `value` is in the metric's unit; for Method.RATE it is exceedances per million samples."""

    kernel: str
    confirms: bool
    started: float
    value: float


def points(found: Comparison, row: MetricRow) -> list[Point]:
    """The boots from which a row was judged, and those of the placebo; none for a row without a change."""
    if row.change is None or row.rule.method is Method.EQUAL:
        return []
    base, candidate, *again = (boots_of(side, row.rule.tool) for side in found.judged_sides)
    both = batches(base, candidate, (again[0], again[1]) if again else None, found.gate.boots)
    out = _points(row, "base", False, both.first.base) + _points(row, "candidate", False, both.first.candidate)
    if both.confirm:
        out += _points(row, "base", True, both.confirm.base) + _points(row, "candidate", True, both.confirm.candidate)
    if found.placebo:
        out += _points(row, "placebo", False, boots_of(found.placebo, row.rule.tool).boots)
    return sorted(out, key=lambda point: (point.started, point.kernel))


def _points(row: MetricRow, kernel: str, confirms: bool, boots: Sequence[Boot]) -> list[Point]:
    figures = [(boot.started, boot.figures[row.rule.key]) for boot in boots if row.rule.key in boot.figures]
    rate = row.rule.method is Method.RATE
    return [Point(kernel, confirms, started, figure.rate if rate else figure.mean) for started, figure in figures]


def values_of_kernel(found: Sequence[Point], kernel: str) -> list[float]:
    """The values of a kernel, in the order of the boots."""
    return [point.value for point in found if point.kernel == kernel]


def middle(row: MetricRow, found: Sequence[Point], kernel: str) -> float | None:
    """The figure that the gate shows for a kernel: the median of its boots, or the mean for rates and means."""
    values = values_of_kernel(found, kernel)
    if not values:
        return None
    return median(values) if row.rule.method is Method.RANK else sum(values) / len(values)


def unit_of(row: MetricRow) -> str:
    """The unit of the points."""
    return "per million samples" if row.rule.method is Method.RATE else row.unit
