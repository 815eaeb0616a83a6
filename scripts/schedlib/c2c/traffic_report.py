# SPDX-License-Identifier: GPL-2.0
"""A result as text: the fields to blame, hot lines as perf c2c shows them, totals with their spread over the quanta."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from schedlib.c2c import weighted
from schedlib.c2c.raw import DISTANCES
from schedlib.c2c.traffic_table import (
    TITLES,
    answered,
    by_quantum,
    field_name,
    function_name,
    grid,
    hot_lines,
    middle,
    most_missed,
    object_name,
    ranked,
    spread,
    totals,
)
from schedlib.formats.c2c_document import BlamedField, Counts, TrafficResult, TrafficRow
from schedlib.progress import counted

_ROWS, _FIELDS, _FUNCTIONS = 14, 40, 20
_MOVES, _TRUE = 8, 6
_LEAST_SAVED, _LEAST_LEFT = 0.005, 0.02
"""Shares of all misses; what is less is not blamed."""


def text(result: TrafficResult) -> str:
    """The whole report. It contains no times and no file names, so equal runs give equal text."""
    parts = [*_head(result), "", *_blame(result), *_objects(result), ""]
    parts += [*_hot_lines(result), *_fields(result), *_sources(result), *weighted.lines(result)]
    return "\n".join(parts) + "\n"


def _head(result: TrafficResult) -> Iterator[str]:
    chosen = result.parameters
    shape = f" ({chosen.topology})" if chosen.topology else ""
    quanta = ", ".join(str(each.quantum) for each in result.quanta)
    config = "".join(f", {name}" for name in chosen.config)
    yield (
        f"{chosen.workload} on {chosen.on}, {chosen.cpus} CPUs{shape}, {chosen.rounds} rounds, "
        f"lines of {result.line} bytes, quanta {quanta}{config}"
    )
    yield f"changes: {', '.join(f'{name} {state}' for name, state in result.changes.items())}"
    if "layout" in result.fingerprint:
        yield f"a prediction: the accesses of another kernel with the offsets of {result.fingerprint['layout']}"
    yield "emulated CPUs with caches that never run full: counts, not times; equal kernels give equal counts"


def _objects(result: TrafficResult) -> Iterator[str]:
    yield from _spreads("object", by_quantum(result, object_name), _FIELDS)
    private = [each.private for each in result.quanta if each.private]
    if private:
        lines, accesses = (spread([getattr(each, name) for each in private]) for name in ("lines", "accesses"))
        yield f"left out: {lines} lines that one CPU alone used, with {accesses} accesses"
    again = [each.again for each in result.quanta if isinstance(each.again, int)]
    if again:
        yield f"memory used again has the name of its last use; misses on pages whose use changed: {spread(again)}"
    for watched in result.watched:
        if watched.later and not watched.prefix:
            yield f"allocated after counting began: {watched.later} of {watched.number} {watched.owner}"
    for key, number in result.absent.items():
        yield f"absent on {counted(number, 'CPU')}: {key}"


def _spreads(title: str, tables: Sequence[Mapping[str, Counts]], most: int) -> Iterator[str]:
    rows = ranked(tables)
    yield from grid([(title, *TITLES), *rows[:most]], 1)
    if len(rows) > most:
        yield f"{len(rows) - most} others: the JSON has them"


def _hot_lines(result: TrafficResult) -> Iterator[str]:
    misses = sum(row.counts.misses for row in result.middle.rows) or 1
    yield f"hot lines, quantum {result.middle.quantum}; share of all misses, and of the misses of the line"
    for (owner, prefix, number), rows, counts in hot_lines(result):
        behind = f" {prefix}" if prefix else ""
        yield ""
        yield (
            f"{owner}{behind} line {number} (+{number * result.line:#x}): {counts.misses / misses:.1%} of the misses, "
            f"{counts.false_shared} of {counts.misses} false sharing, HITM {counts.hitm}, far {counts.remote}, "
            f"upgrades {counts.upgrades}, accesses {counts.accesses}"
        )
        yield from grid(list(_line_rows(rows, counts)), 0)


def _line_rows(rows: Sequence[TrafficRow], line: Counts) -> Iterator[tuple[str, ...]]:
    yield ("share", "false", "HITM", "misses", "accesses", "kind", "offset", "function", "field")
    groups = totals(rows, lambda row: (row.kind, row.offset, row.function, field_name(row)))
    ordered = most_missed(groups)

    def row(counts: Counts, *about: str) -> tuple[str, ...]:
        numbers = (counts.false_shared, counts.hitm, counts.misses, counts.accesses)
        return (f"{counts.misses / line.misses:.1%}", *map(str, numbers), *about)

    for key in ordered[:_ROWS]:
        kind, offset, function, name = key
        yield row(groups[key], kind, f"{offset:#x}", function, name)
    if len(ordered) > _ROWS:
        rest = Counts.sum(groups[key] for key in ordered[_ROWS:])
        yield row(rest, "", "", f"{len(ordered) - _ROWS} others", "")


def _fields(result: TrafficResult) -> Iterator[str]:
    yield ""
    yield "fields; median of the quanta, and their range"
    yield from _spreads("field", by_quantum(result, field_name), _FIELDS)
    yield ""
    yield "functions"
    yield from _spreads("function", by_quantum(result, function_name), _FUNCTIONS)


def _sources(result: TrafficResult) -> Iterator[str]:
    """Where misses were answered from, if the guest has a topology."""
    if not result.parameters.topology:
        return
    objects, functions = by_quantum(result, object_name), by_quantum(result, function_name)
    hottest = most_missed(functions[len(functions) // 2])[:_FUNCTIONS]
    yield ""
    yield "where misses were answered: in the same cluster, LLC or node, or in another node; cold: in no cache"
    rows = [*answered(objects, sorted(objects[0])), *answered(functions, hottest)]
    yield from grid([("object or function", *DISTANCES, "cold"), *rows], 1)


def _blame(result: TrafficResult) -> Iterator[str]:
    """The fields that cost misses by their place, with an empty line behind them; nothing if the result has none."""
    if not result.blame:
        return
    misses = [sum(row.counts.misses for row in each.rows) for each in result.quanta]
    least = max(_LEAST_SAVED * middle(misses), 1)
    worth = [each for each in result.blame if middle(each.saved) >= least]
    yield "blame: the same accesses, counted again with one field on a line of its own"
    for number, each in enumerate(worth[:_MOVES], 1):
        yield f"{number:2}. {_sentence(each, misses)}"
        yield from _details(each)
    if not worth:
        yield f"    no field would save {_LEAST_SAVED:.1%} of the {middle(misses)} misses"
    if len(worth) > _MOVES:
        yield f"    {len(worth) - _MOVES} others save less: the JSON has them"
    if len(worth) > 1:
        yield "    each move is counted alone: do not add them up"
    few = _LEAST_LEFT * middle(misses)
    for each in result.blame:
        if middle(each.inside) >= max(few, middle(each.alone) / 2):
            yield (
                f"    false sharing inside one field: {each.field} alone has {spread(each.alone)} misses, "
                f"{spread(each.inside)} of them between its own bytes; writers: {_names(each.writers)}"
            )
    for each in sorted(result.blame, key=lambda each: (-_true(each), each.field))[:_TRUE]:
        if _true(each) >= few:
            yield (
                f"    true sharing, no layout helps: {each.field} alone has {_true(each)} misses on bytes "
                f"that another CPU wrote; writers: {_names(each.writers)}"
            )
    yield ""


def _true(blamed: BlamedField) -> int:
    """Misses that no layout saves."""
    return middle([alone - inside for alone, inside in zip(blamed.alone, blamed.inside, strict=True)])


def _sentence(blamed: BlamedField, misses: Sequence[int]) -> str:
    """What a move would save, of the misses of each guest."""
    saved = blamed.saved
    quanta = f" ({len(saved)} quanta: {min(saved)} to {max(saved)})" if len(saved) > 1 else ""
    return (
        f"move {blamed.field} off its line: {middle(saved)} fewer misses of {middle(misses)}{quanta}; "
        f"{blamed.bytes} bytes more for each of {blamed.objects} objects"
    )


def _details(blamed: BlamedField) -> Iterator[str]:
    ways = {way: f"lines of {way} bytes" if way.isdecimal() else f"{way} of lines" for way in blamed.elsewhere}
    if ways:
        yield f"    fewer misses with {', '.join(f'{ways[way]}: {blamed.elsewhere[way]}' for way in ways)}"
    upgrades = middle(blamed.saved_upgrades)
    if upgrades:
        yield f"    {abs(upgrades)} {'fewer' if upgrades > 0 else 'more'} upgrades"
    yield f"    readers: {_names(blamed.readers)}; writers: {_names(blamed.writers)}"


def _names(functions: Sequence[str]) -> str:
    return ", ".join(functions) or "none"
