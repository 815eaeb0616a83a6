# SPDX-License-Identifier: GPL-2.0
"""A result as text: hot lines as perf c2c shows them, then the totals of fields with their spread over the quanta."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedlib.c2c.document import Result
from schedlib.c2c.raw import Counts
from schedlib.c2c.table import Row, field_name, line_name, objects_of, spread, totals

_LINES, _ROWS, _FIELDS = 12, 14, 40


def grid(rows: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    """Rows in columns, as many of the first ones as `left` to the left, the others to the right."""
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(width) if number < left else cell.rjust(width)
                 for number, (cell, width) in enumerate(zip(row, widths, strict=True))]  # fmt: skip
        yield "  ".join(cells).rstrip()


def text(result: Result) -> str:
    """All of it. It holds no time and no name of a file: equal runs give equal text."""
    return "\n".join([*_head(result), "", *_objects(result), "", *_hot_lines(result), *_fields(result)]) + "\n"


def _head(result: Result) -> Iterator[str]:
    chosen = result.parameters
    shape = f" ({chosen['topology']})" if chosen["topology"] else ""
    quanta = ", ".join(str(each.quantum) for each in result.quanta)
    yield (
        f"{chosen['workload']}, {chosen['cpus']} CPUs{shape}, {chosen['rounds']} rounds, lines of {result.line} bytes, "
        f"quanta {quanta}"
    )
    yield f"changes: {', '.join(f'{name} {state}' for name, state in result.changes.items())}"
    yield "emulated CPUs with caches that never run full: counts, not times; equal kernels give equal counts"


def _objects(result: Result) -> Iterator[str]:
    tables = [objects_of(each.rows) for each in result.quanta]
    names = list(dict.fromkeys(name for table in tables for name in table))
    head = ("object", "false sharing", "misses", "HITM", "upgrades", "accesses")
    rows: list[tuple[str, ...]] = [head]
    for name in names:
        each = [table.get(name, Counts()) for table in tables]
        rows.append((name, *(spread([getattr(counts, what) for counts in each])
                             for what in ("false_shared", "misses", "hitm", "upgrades", "accesses"))))  # fmt: skip
    yield from grid(rows, 1)
    for key, number in result.absent.items():
        yield f"not there on {number} CPUs: {key}"


def _hot_lines(result: Result) -> Iterator[str]:
    """The lines of the middle quantum, those with the most misses first."""
    shown = result.quanta[len(result.quanta) // 2]
    misses = sum(row.counts.misses for row in shown.rows) or 1
    lines = totals(shown.rows, line_name)
    hottest = sorted(lines, key=lambda name: (-lines[name].misses, name))[:_LINES]
    yield f"hot lines, quantum {shown.quantum}; share of all misses, and of the line's"
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


def _line_rows(rows: Sequence[Row], line: Counts) -> Iterator[tuple[str, ...]]:
    yield ("share", "false", "HITM", "misses", "accesses", "kind", "offset", "function", "field")
    groups = totals(rows, lambda row: (row.kind, row.place.offset, row.function, field_name(row)))
    ordered = sorted(groups, key=lambda key: (-groups[key].misses, key))
    for key in ordered[:_ROWS]:
        kind, offset, function, name = key
        counts = groups[key]
        numbers = (counts.false_shared, counts.hitm, counts.misses, counts.accesses)
        share = counts.misses / line.misses if line.misses else 0.0
        yield (f"{share:.1%}", *map(str, numbers), kind, f"{offset:#x}", function, name)
    if len(ordered) > _ROWS:
        rest = Counts.sum(groups[key] for key in ordered[_ROWS:])
        numbers = (rest.false_shared, rest.hitm, rest.misses, rest.accesses)
        share = rest.misses / line.misses if line.misses else 0.0
        yield (f"{share:.1%}", *map(str, numbers), "", "", f"{len(ordered) - _ROWS} others", "")


def _fields(result: Result) -> Iterator[str]:
    tables = [totals(each.rows, field_name) for each in result.quanta]
    names = list(dict.fromkeys(name for table in tables for name in table))
    every = {name: [table.get(name, Counts()) for table in tables] for name in names}

    def middle(name: str, what: str) -> int:
        return sorted(int(getattr(counts, what)) for counts in every[name])[len(tables) // 2]

    ordered = sorted(names, key=lambda name: (-middle(name, "false_shared"), -middle(name, "misses"), name))
    yield ""
    yield "fields; the middle of the quanta, and how far they lie apart"
    rows: list[tuple[str, ...]] = [("field", "false sharing", "misses", "HITM", "upgrades", "accesses")]
    for name in ordered[:_FIELDS]:
        rows.append((name, *(spread([getattr(counts, what) for counts in every[name]])
                             for what in ("false_shared", "misses", "hitm", "upgrades", "accesses"))))  # fmt: skip
    yield from grid(rows, 1)
    if len(ordered) > _FIELDS:
        yield f"{len(ordered) - _FIELDS} other fields: the JSON has them"
