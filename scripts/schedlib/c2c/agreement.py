# SPDX-License-Identifier: GPL-2.0
"""Holds samples of a real machine against emulated counts, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import UNSET

from schedlib import TOOL
from schedlib.c2c.objects import UNNAMED
from schedlib.c2c.sample_shares import ranks, spearman, wilson
from schedlib.c2c.traffic_report import grid
from schedlib.c2c.traffic_table import field_name, totals
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_compare_document import ComparedField, CompareDocument, RankCorrelation
from schedlib.formats.c2c_document import TrafficResult, TrafficRow
from schedlib.formats.c2c_measured_document import NOTHING, MeasuredDocument, Metric, Sampled
from schedlib.formats.published_file import Published

_HOT = 0.01
"""A field with this share is hot enough to disturb the other line of its pair."""

_MOST = 60

WORKLOAD = "the emulated workload does not take it from another CPU: another workload or configuration"
NOT_SAMPLED = "no sample fell on it"
TIMING = "timing: a real CPU waits and spins where an emulated one has its next turn"
LATENCY = "the load latency event sees only loads slower than ldlat, and a load that waits for long is seen more often"
FORWARDS = "Intel's CPUs since Ice Lake report a line that another core hands over unmodified as HITM, too"
CAPACITY = "all samples are compared: caches run full on a real machine, and hits are sampled, too"
PAIR = "prefetch: a hot field is on the other line of its pair, and some CPUs fetch both"
PREFETCH = "prefetch and overlap: the line may be there, or under way, before the load"
SMT = "SMT siblings share a cache: no sample tells of a transfer between them"


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


def compare(measured: MeasuredDocument, emulated: TrafficResult, published: Published | None) -> CompareDocument:
    """The table; SchedlineError if both sides have no object in common."""
    metric = measured.metric
    owners = {row.owner for each in emulated.quanta for row in each.rows if not row.neighbour} - {UNNAMED}
    sampled: dict[str, Sampled] = {}
    lines: dict[str, set[tuple[str, str, int]]] = {}
    for row in measured.rows:
        if row.owner in owners and not row.neighbour:
            name = field_name(row)
            sampled[name] = sampled.get(name, NOTHING) + row.sampled
            lines.setdefault(name, set()).add((row.owner, row.prefix, row.line))
    part = sum(each.amount(metric) for each in sampled.values())
    whole = measured.kernel.amount(metric)
    if not part:
        raise SchedlineError(
            f"no sample lies in what was emulated ({', '.join(sorted(owners)[:5])})",
            "emulate more: schedline c2c --objects all; or import with --map, which finds allocated objects",
        )
    number = measured.effective * part / whole
    shares = {name: each.amount(metric) / part for name, each in sampled.items()}
    tables = [_shares(each) for each in emulated_amounts(emulated, metric)]
    mail = _shares(published.hitm()) if published else {}
    names = sorted(shares.keys() | {name for table in tables for name in table if any(t.get(name) for t in tables)})
    ranged = {name: sorted(table.get(name, 0.0) for table in tables) for name in names}
    medians = {name: values[len(values) // 2] for name, values in ranged.items()}
    order = [_ranked(names, side) for side in (shares, medians, mail)]
    fields = []
    for name in names:
        share = shares.get(name, 0.0)
        low, high = wilson(share, number)
        least, most = ranged[name][0], ranged[name][-1]
        agrees = low <= most and least <= high
        fields.append(
            ComparedField(
                name=name,
                samples=sampled.get(name, NOTHING).samples,
                measured_rank=order[0][name],
                measured=share,
                low=low,
                high=high,
                emulated_rank=order[1][name],
                emulated=medians[name],
                least=least,
                most=most,
                published_rank=order[2][name] if name in mail else UNSET,
                published=mail.get(name, UNSET),
                agrees=agrees,
                reasons=() if agrees else tuple(_reasons(measured, name, share, medians[name], shares, lines)),
            )
        )
    correlation = spearman(shares, medians)
    return CompareDocument(
        schema="c2c-compare-1",
        tool=TOOL,
        metric=metric,
        count="hitm of loads and rmw" if metric == "taken" else "misses",
        compared=tuple(sorted({row.owner for row in measured.rows} & owners)),
        outside=max(0.0, 1 - part / whole),
        same_kernel=bool(measured.build_id) and measured.build_id == emulated.fingerprint.get("build_id"),
        correlation=RankCorrelation(*correlation) if correlation else UNSET,
        published=published.name if published else UNSET,
        fields=tuple(sorted(fields, key=lambda each: (each.agrees, -_difference(each), each.name))),
    )


def _shares(amounts: Mapping[str, float]) -> dict[str, float]:
    whole = sum(amounts.values())
    return {name: amount / whole for name, amount in amounts.items()} if whole else {}


def _ranked(names: Sequence[str], side: Mapping[str, float]) -> dict[str, float]:
    return dict(zip(names, ranks([side.get(name, 0.0) for name in names]), strict=True))


def _difference(field: ComparedField) -> float:
    return abs(field.measured - field.emulated) if not field.agrees else max(field.measured, field.emulated)


def _reasons(
    measured: MeasuredDocument,
    name: str,
    share: float,
    count: float,
    shares: Mapping[str, float],
    lines: Mapping[str, set[tuple[str, str, int]]],
) -> Iterator[str]:
    """Known reasons for a difference of this kind."""
    if share > count:
        if not count:
            yield WORKLOAD
        if "lock" in name:
            yield TIMING
        if any("ldlat" in event for event in measured.source.events):
            yield LATENCY
            if measured.metric == "taken":
                yield FORWARDS
        if measured.metric == "samples":
            yield CAPACITY
        pairs = {(owner, prefix, line ^ 1) for owner, prefix, line in lines.get(name, ())}
        if any(share >= _HOT and pairs & lines.get(other, set()) for other, share in shares.items()):
            yield PAIR
    else:
        if not share:
            yield NOT_SAMPLED
        yield SMT
        yield PREFETCH


def compare_text(found: CompareDocument) -> str:
    """The table as text."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: CompareDocument) -> Iterator[str]:
    what = "samples of taken lines" if found.metric == "taken" else "all samples"
    yield f"measured: share of {what}; emulated: share of {found.count}"
    yield f"objects: {', '.join(found.compared)}; {found.outside:.1%} of the samples belong to others, or to no field"
    if not found.same_kernel:
        yield "the kernels are not the same, or a build-id is not known: fields are matched by name"
    if found.correlation:
        rank = found.correlation
        yield f"rank correlation (Spearman): {rank.value:.2f}, from {rank.low:.2f} to {rank.high:.2f}"
    else:
        yield "rank correlation: too few fields"
    differing = sum(not each.agrees for each in found.fields)
    yield f"{differing} of {len(found.fields)} fields do not agree within sampling error and quanta; they come first"
    yield ""
    titles = ("field", "measured", "from", "to", "rank", "emulated", "from", "to", "rank")
    mail = ("published", "rank") if found.published else ()
    rows: list[tuple[str, ...]] = [(*titles, *mail)]
    for each in found.fields[:_MOST]:
        numbers = (each.measured, each.low, each.high), (each.emulated, each.least, each.most)
        cells = [
            each.name,
            *(f"{number:.1%}" for number in numbers[0]),
            f"{each.measured_rank:g}",
            *(f"{number:.1%}" for number in numbers[1]),
            f"{each.emulated_rank:g}",
        ]
        if found.published:
            cells += ["", ""] if each.published is UNSET else [f"{each.published:.1%}", f"{each.published_rank:g}"]
        rows.append(tuple(cells))
    yield from grid(rows, 1)
    if len(found.fields) > _MOST:
        yield f"{len(found.fields) - _MOST} others: the JSON has them"
    explained = [each for each in found.fields if each.reasons][:_MOST]
    if explained:
        yield ""
        yield "known reasons for a difference of this kind; none of them is proven here"
    for each in explained:
        yield f"{each.name}: {'; '.join(each.reasons)}"


_BRIEF, _NAME = 12, 28


def brief(found: CompareDocument) -> Iterator[str]:
    """The fields with the most samples, in 70 columns."""
    shown = sorted(found.fields, key=lambda each: (each.measured_rank, each.name))[:_BRIEF]
    agree = sum(each.agrees for each in found.fields)
    rank = f", rank correlation {found.correlation.value:.2f}" if found.correlation else ""
    yield f"measured on a machine: {agree} of {len(found.fields)} fields agree{rank}"
    yield f"{'':{_NAME}}measured   from     to rank  emulated rank"
    for each in shown:
        if len(each.name) >= _NAME:
            yield each.name
        numbers = f"{each.measured:8.1%} {each.low:6.1%} {each.high:6.1%} {each.measured_rank:4g}"
        name = each.name if len(each.name) < _NAME else ""
        yield f"{name:{_NAME}}{numbers}  {each.emulated:8.1%} {each.emulated_rank:4g}"


def top(amounts: Mapping[str, float], number: int = 3) -> tuple[str, ...]:
    """The names with the largest amounts, without those that have nothing."""
    return tuple(sorted((name for name in amounts if amounts[name]), key=lambda name: (-amounts[name], name))[:number])
