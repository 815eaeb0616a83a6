# SPDX-License-Identifier: GPL-2.0
"""Holds samples of a real machine against emulated counts, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schedlib.c2c.objects import UNNAMED
from schedlib.c2c.samples import NOTHING, MeasuredDocument, Metric, Sampled, ranks, spearman, wilson
from schedlib.c2c.traffic_table import field_name, totals
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import TrafficResult, TrafficRow


def emulated_amounts(result: TrafficResult, metric: Metric) -> list[dict[str, int]]:
    """For each quantum and field what is compared: HITM of loads and atomic operations, or all misses."""

    def table(rows: Sequence[TrafficRow]) -> dict[str, int]:
        kept = (row for row in rows if not row.neighbour and row.owner != UNNAMED)
        if metric == "taken":
            kept = (row for row in kept if row.kind != "store")
        return {
            name: counts.hitm if metric == "taken" else counts.misses
            for name, counts in totals(kept, field_name).items()
        }

    return [table(each.rows) for each in result.quanta]


@dataclass(frozen=True)
class ComparedField:
    """A field: its share and rank of the samples, with the 95 % interval, and of the counts."""

    name: str
    measured_rank: float
    measured: float
    low: float
    high: float
    emulated_rank: float
    emulated: float
    agrees: bool


@dataclass(frozen=True)
class Agreement:
    """Samples beside counts. correlation: Spearman's, with its interval; None for fewer than four fields."""

    correlation: tuple[float, float, float] | None
    fields: tuple[ComparedField, ...]


def compare(measured: MeasuredDocument, emulated: TrafficResult) -> Agreement:
    """Both sides by field; SchedlineError if they have no object in common."""
    metric = measured.metric
    owners = {row.owner for each in emulated.quanta for row in each.rows if not row.neighbour} - {UNNAMED}
    sampled: dict[str, Sampled] = {}
    for row in measured.rows:
        if row.owner in owners and not row.neighbour:
            name = field_name(row)
            sampled[name] = sampled.get(name, NOTHING) + row.sampled
    part = sum(each.amount(metric) for each in sampled.values())
    if not part:
        raise SchedlineError(
            f"no sample lies in what was emulated ({', '.join(sorted(owners)[:5])})",
            "emulate more: schedline c2c --objects all; or import with --map, which finds allocated objects",
        )
    number = measured.effective * part / measured.kernel.amount(metric)
    shares = {name: each.amount(metric) / part for name, each in sampled.items()}
    tables = [_shares(each) for each in emulated_amounts(emulated, metric)]
    names = sorted(shares.keys() | {name for table in tables for name in table if any(t.get(name) for t in tables)})
    ranged = {name: sorted(table.get(name, 0.0) for table in tables) for name in names}
    medians = {name: values[len(values) // 2] for name, values in ranged.items()}
    order = [_ranked(names, side) for side in (shares, medians)]
    fields = []
    for name in names:
        share = shares.get(name, 0.0)
        low, high = wilson(share, number)
        agrees = low <= ranged[name][-1] and ranged[name][0] <= high
        fields.append(ComparedField(name, order[0][name], share, low, high, order[1][name], medians[name], agrees))
    return Agreement(spearman(shares, medians), tuple(fields))


def _shares(amounts: Mapping[str, float]) -> dict[str, float]:
    whole = sum(amounts.values())
    return {name: amount / whole for name, amount in amounts.items()} if whole else {}


def _ranked(names: Sequence[str], side: Mapping[str, float]) -> dict[str, float]:
    return dict(zip(names, ranks([side.get(name, 0.0) for name in names]), strict=True))


_BRIEF, _NAME = 12, 28


def brief(found: Agreement) -> Iterator[str]:
    """The fields with the most samples, in 70 columns."""
    shown = sorted(found.fields, key=lambda each: (each.measured_rank, each.name))[:_BRIEF]
    agree = sum(each.agrees for each in found.fields)
    rank = f", rank correlation {found.correlation[0]:.2f}" if found.correlation else ""
    yield f"measured on a machine: {agree} of {len(found.fields)} fields agree{rank}"
    yield f"{'':{_NAME}}measured   from     to rank  emulated rank"
    for each in shown:
        if len(each.name) >= _NAME:
            yield each.name
        numbers = f"{each.measured:8.1%} {each.low:6.1%} {each.high:6.1%} {each.measured_rank:4g}"
        name = each.name if len(each.name) < _NAME else ""
        yield f"{name:{_NAME}}{numbers}  {each.emulated:8.1%} {each.emulated_rank:4g}"
