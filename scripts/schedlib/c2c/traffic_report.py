# SPDX-License-Identifier: GPL-2.0
"""A result as text: hot lines as perf c2c shows them, then the totals of fields with their spread over the quanta."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from schedlib.c2c.blame_report import blame_text
from schedlib.c2c.raw import DISTANCES
from schedlib.c2c.traffic_table import field_name, function_name, line_name, middle, objects_of, spread, totals
from schedlib.formats.c2c_diff_document import COUNTS
from schedlib.formats.c2c_document import Counts, TrafficResult, TrafficRow

_LINES, _ROWS, _FIELDS, _FUNCTIONS = 12, 14, 40, 20
TITLES = ("false sharing", "misses", "HITM", "upgrades", "accesses")


def grid(rows: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    """Format rows in columns: the first `left` columns are left-aligned, the others right-aligned."""
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def text(result: TrafficResult) -> str:
    """The whole report. It contains no times and no file names, so equal runs give equal text."""
    parts = [*_head(result), "", *blame_text(result), *_objects(result), ""]
    parts += [*_hot_lines(result), *_fields(result), *_sources(result)]
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
    yield from _spreads("object", [objects_of(each.rows) for each in result.quanta], _FIELDS)
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
        yield f"absent on {number} CPUs: {key}"


def _spreads(title: str, tables: Sequence[Mapping[str, Counts]], most: int = 1000) -> Iterator[str]:
    """The totals of all quanta, those with the most false sharing first."""
    every = {name: [table.get(name, Counts()) for table in tables] for table in tables for name in table}

    def order(name: str) -> tuple[int, int, str]:
        false, misses = (middle([getattr(counts, what) for counts in every[name]]) for what in COUNTS[:2])
        return -false, -misses, name

    names = sorted(every, key=order)
    rows: list[tuple[str, ...]] = [(title, *TITLES)]
    for name in names[:most]:
        rows.append((name, *(spread([getattr(counts, what) for counts in every[name]]) for what in COUNTS)))
    yield from grid(rows, 1)
    if len(names) > most:
        yield f"{len(names) - most} others: the JSON has them"


def _hot_lines(result: TrafficResult) -> Iterator[str]:
    """The lines of the middle quantum, those with the most misses first."""
    shown = result.quanta[len(result.quanta) // 2]
    misses = sum(row.counts.misses for row in shown.rows) or 1
    lines = totals(shown.rows, line_name)
    hottest = sorted(lines, key=lambda name: (-lines[name].misses, name))[:_LINES]
    yield f"hot lines, quantum {shown.quantum}; share of all misses, and of the misses of the line"
    for name in hottest:
        counts = lines[name]
        if not counts.misses:
            continue
        owner, prefix, number = name
        behind = f" {prefix}" if prefix else ""
        yield ""
        yield (
            f"{owner}{behind} line {number} (+{number * result.line:#x}): {counts.misses / misses:.1%} of the misses, "
            f"{counts.false_shared} of {counts.misses} false sharing, HITM {counts.hitm}, far {counts.remote}, "
            f"upgrades {counts.upgrades}, accesses {counts.accesses}"
        )
        yield from grid(list(_line_rows([row for row in shown.rows if line_name(row) == name], counts)), 0)


def _line_rows(rows: Sequence[TrafficRow], line: Counts) -> Iterator[tuple[str, ...]]:
    yield ("share", "false", "HITM", "misses", "accesses", "kind", "offset", "function", "field")
    groups = totals(rows, lambda row: (row.kind, row.offset, row.function, field_name(row)))
    ordered = sorted(groups, key=lambda key: (-groups[key].misses, key))

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
    yield from _spreads("field", [totals(each.rows, field_name) for each in result.quanta], _FIELDS)
    yield ""
    yield "functions"
    tables = [totals(each.rows, function_name) for each in result.quanta]
    yield from _spreads("function", tables, _FUNCTIONS)


def _sources(result: TrafficResult) -> Iterator[str]:
    """Where misses were answered from, if the guest has a topology."""
    if not result.parameters.topology:
        return
    tables: list[Mapping[str, Counts]] = [objects_of(each.rows) for each in result.quanta]
    functions = [totals(each.rows, function_name) for each in result.quanta]
    hottest = sorted(functions[len(functions) // 2].items(), key=lambda item: (-item[1].misses, item[0]))[:_FUNCTIONS]
    yield ""
    yield "where misses were answered: in the same cluster, LLC or node, or in another node; cold: in no cache"
    rows: list[tuple[str, ...]] = [("object or function", *DISTANCES, "cold")]
    for names, found in ((sorted(tables[0]), tables), ([name for name, _ in hottest], functions)):
        for name in names:
            every = [table.get(name, Counts()) for table in found]
            near = (spread([counts.fetched(distance) for counts in every]) for distance in DISTANCES)
            rows.append((name, *near, spread([counts.cold for counts in every])))
    yield from grid(rows, 1)
