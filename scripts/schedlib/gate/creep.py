# SPDX-License-Identifier: GPL-2.0
"""What a history says: how often a FAIL was withdrawn, and metrics that became worse in steps too small for a gate.

The method is e-divisive (Matteson and James, Journal of the American Statistical Association 109, 2014) with the t test
and the merging of Hunter (Fleming et al., ICPE 2023), as Apache Otava has it. A history is short, so all of it is one
window. Otava's shorter windows are for thousands of points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
from otava.analysis import compute_change_points

from schedlib import TOOL
from schedlib.formats.history_document import (
    BadLine,
    HistoryDocument,
    LevelSeries,
    MetricScore,
    PastGate,
    PastKernel,
    PastMetric,
)
from schedlib.verdict import Verdict, worst

LEAST = 8
"""Fewer gates than this show no creep."""

_MOST = 500
"""How many of the latest pairs are looked at; time and memory grow with the square."""

_P = 0.001
"""Otava's own default."""


@dataclass(frozen=True)
class _Point:
    gate: PastGate
    metric: PastMetric


def history_of(gates: Sequence[PastGate], bad: Sequence[BadLine]) -> HistoryDocument:
    """Everything that is said about a history. The gates are in the order of time."""
    series = tuple(_series(points) for points in _metrics(gates).values())
    verdicts = [each.status for each in series if each.status is not Verdict.INCONCLUSIVE or len(each.levels) >= LEAST]
    if any(not each.cut for each in bad):
        verdicts.append(Verdict.INCONCLUSIVE)
    return HistoryDocument(
        schema="gate-history-1",
        tool=TOOL,
        started=datetime.now(UTC),
        status=worst(verdicts),
        gates=len(gates),
        verdicts={name.value: count for name, count in Counter(gate.verdict for gate in gates).items()},
        bad=tuple(bad),
        scores=tuple(_scores(gates)),
        series=series,
    )


def change_points(values: Sequence[float]) -> list[int]:
    """The places at which the level of a series changes; each is the first value behind the change."""
    if len(values) < LEAST or min(values) == max(values):
        return []
    found, _ = compute_change_points(np.array(values), window_len=2 * len(values), max_pvalue=_P, min_magnitude=0.0)
    return [int(point.index) for point in found]


def _id(kernel: PastKernel) -> str:
    return kernel.build_id or kernel.kernel


def _pair(gate: PastGate) -> tuple[str, str, str, str]:
    return gate.machine, gate.gates, _id(gate.base), _id(gate.candidate)


def _metrics(gates: Sequence[PastGate]) -> Mapping[tuple[str, ...], list[_Point]]:
    """For each machine and metric the last gate of each pair of kernels that has values, in the order of time."""
    found: dict[tuple[str, ...], dict[tuple[str, ...], _Point]] = {}
    for gate in gates:
        for metric in gate.metrics:
            if metric.base and metric.candidate is not None and metric.change is not None and metric.budget:
                key = gate.machine, metric.tool, metric.name, metric.unit, metric.change_unit, metric.direction
                pairs = found.setdefault(key, {})
                pairs.pop(_pair(gate), None)
                pairs[_pair(gate)] = _Point(gate, metric)
    return {key: list(pairs.values())[-_MOST:] for key, pairs in sorted(found.items())}


def _series(points: Sequence[_Point]) -> LevelSeries:
    last = points[-1].metric
    sign, percent = -1.0 if last.direction == "higher" else 1.0, last.change_unit == "%"
    same_base = len({_id(each.gate.base) for each in points}) == 1
    levels = [_level(each.metric, same_base, percent) for each in points]
    changes = change_points(levels)
    edges = [0, *changes, len(levels)]
    means = [float(np.mean(levels[start:end])) for start, end in pairwise(edges)]
    worse, best = 0.0, 0
    for place, mean in enumerate(means[:-1]):
        moved = sign * (means[-1] - mean)
        if percent:
            moved = 100 * moved / abs(mean) if mean else 0.0
        if moved > worse:
            worse, best = moved, place
    budget = last.budget or 0.0
    chained = None if same_base else _chained(points[edges[best + 1] :], sign)
    status, reason = _judged(len(levels), worse, chained, budget, last.change_unit, same_base=same_base)
    return LevelSeries(
        machine=points[-1].gate.machine,
        tool=last.tool,
        name=last.name,
        unit=last.unit if not same_base else "% of the base" if percent else f"{last.change_unit}, against the base",
        change_unit=last.change_unit,
        direction=last.direction,
        budget=budget,
        levels=tuple(levels),
        verdicts=tuple(each.metric.verdict for each in points),
        kernels=tuple(each.gate.candidate.kernel for each in points),
        times=tuple(each.gate.time for each in points),
        changes=tuple(changes),
        means=tuple(means),
        worse=worse,
        chained=chained,
        status=status,
        reason=reason,
    )


def _level(metric: PastMetric, same_base: bool, percent: bool) -> float:
    """With one base the change itself: both kernels were measured together, so the machine's drift is not in it."""
    change = metric.change or 0.0
    if same_base:
        return 100 + change if percent else change
    return metric.candidate or 0.0


def _chained(points: Sequence[_Point], sign: float) -> float | None:
    linked = all(_id(each.gate.candidate) == _id(after.gate.base) for each, after in pairwise(points))
    return sum(sign * (each.metric.change or 0.0) for each in points) if linked and points else None


def _judged(
    gates: int, worse: float, chained: float | None, budget: float, unit: str, *, same_base: bool
) -> tuple[Verdict, str]:
    if gates < LEAST:
        return Verdict.INCONCLUSIVE, f"{gates} gates; creep shows in {LEAST} or more"
    if worse <= budget:
        return Verdict.PASS, ""
    crept = f"worse by {worse:.3g} {unit}, over the budget of {budget:g}"
    if same_base or (chained is not None and chained > max(budget, worse / 2)):
        return Verdict.FAIL, f"{crept}, in steps that the gates let through"
    own = (
        "the gates do not follow each other" if chained is None else f"the gates' own changes add up to {chained:+.3g}"
    )
    return Verdict.INCONCLUSIVE, f"{crept}, but {own}: the machine may have become slower, not the kernel"


def _scores(gates: Sequence[PastGate]) -> Iterator[MetricScore]:
    judged: dict[tuple[str, str], dict[tuple[str, ...], list[Verdict]]] = {}
    budgets: dict[tuple[str, str], float | None] = {}
    for gate in gates:
        for metric in gate.metrics:
            key = metric.tool, metric.name
            judged.setdefault(key, {}).setdefault(_pair(gate), []).append(metric.verdict)
            budgets[key] = metric.budget
    for (tool, name), pairs in sorted(judged.items()):
        failed = [verdicts for verdicts in pairs.values() if Verdict.FAIL in verdicts]
        withdrawn = [verdicts for verdicts in failed if verdicts[-1] is not Verdict.FAIL]
        count = sum(map(len, pairs.values()))
        yield MetricScore(tool, name, budgets[tool, name], count, len(failed), len(withdrawn))
