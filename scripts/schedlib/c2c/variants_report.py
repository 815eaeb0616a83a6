# SPDX-License-Identifier: GPL-2.0
"""The designs of `schedline c2c variants` as a table: one column for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedlib.c2c.traffic_report import grid
from schedlib.c2c.traffic_table import middle
from schedlib.formats.variants_document import DesignTraffic, MeasuredDesign, VariantsDocument

_FIELDS = 12
_SAME, _NONE = "=", "-"

Numbers = tuple[int, ...]
"""A count: one number for each quantum."""

Table = list[tuple[str, ...]]
"""Rows of equal length; the first one has the titles."""


def text(found: VariantsDocument) -> str:
    """The whole report. It contains no times and no file names, so equal runs give equal text."""
    rows = list(head(found))
    for each in tables(found):
        rows += ["", *grid(each, 1)]
    return "\n".join(rows) + "\n"


def tables(found: VariantsDocument) -> list[Table]:
    """The bytes of each kind of object, then what happened in each workload."""
    return [*_bytes(found), *_traffic_tables(found)]


def head(found: VariantsDocument) -> Iterator[str]:
    """What was compared, and how to read the tables."""
    shape = f" ({found.topology})" if found.topology else ""
    quanta = ", ".join(map(str, found.quanta))
    first = found.designs[0].name
    workloads = ", ".join(found.workloads)
    yield f"{len(found.designs)} designs, {found.cpus} CPUs{shape}, workloads {workloads}, quanta {quanta}"
    yield f"{found.tree}, {found.emulator}, {found.compiler}"
    for each in found.designs:
        if each.kind == "layout":
            yield f"{each.name}: a prediction: the accesses of {each.of} with other offsets"
    yield f"A number is the median of the quanta, a percentage is against {first}. {_SAME} stands where the quanta"
    yield f"overlap with those of {first} and of the placebo, which is its kernel with a page of constants more."
    yield "Emulated CPUs with caches that never run full: counts, not times."


def _bytes(found: VariantsDocument) -> Iterator[Table]:
    first = found.designs[0]
    for number, kind in enumerate(first.bytes):
        every = [each.bytes[number] for each in found.designs]
        rows = [(f"{kind.object}, bytes", *(each.name for each in found.designs))]
        rows.append(("itself", *(str(each.own) for each in every)))
        rows.append(("with what its pointers refer to", *(str(each.own + each.behind) for each in every)))
        all_of = f"{found.cpus} of them: one for each CPU, or partition"
        rows.append((all_of, *(str(found.cpus * (each.own + each.behind)) for each in every)))
        yield rows


def _traffic_tables(found: VariantsDocument) -> Iterator[Table]:
    for workload in found.workloads:
        for kind in found.designs[0].bytes:
            rows = [(f"{workload}: {kind.object}", *(each.name for each in found.designs))]
            far = ("from another LLC", "from another node") if found.topology else ()
            for title in ("misses", *far, "HITM", "false sharing", "upgrades", "lines touched"):
                for line in found.lines:
                    columns = [_numbers(_traffic(each, workload, line, kind.object), title) for each in found.designs]
                    rows.append((f"{title}, lines of {line}", *_cells(columns, found)))
            rows += _fields(found, workload, kind.object)
            yield rows


def _traffic(design: MeasuredDesign, workload: str, line: int, name: str) -> DesignTraffic:
    return next(each for each in design.traffic if (each.workload, each.line, each.object) == (workload, line, name))


def _numbers(traffic: DesignTraffic, title: str) -> Numbers:
    total = traffic.total
    return {
        "misses": total.misses,
        "from another LLC": total.other_llc,
        "from another node": total.other_node,
        "HITM": total.hitm,
        "false sharing": total.false_shared,
        "upgrades": total.upgrades,
        "lines touched": traffic.lines_touched,
    }[title]


def _fields(found: VariantsDocument, workload: str, name: str) -> Iterator[tuple[str, ...]]:
    """The fields with the most misses in any design, with the shortest lines."""
    tables = [_traffic(each, workload, found.lines[0], name).fields for each in found.designs]
    most: dict[str, int] = {}
    for table in tables:
        for field, events in table.items():
            most[field] = max(most.get(field, 0), middle(events.misses))
    for field in sorted(most, key=lambda each: (-most[each], each))[:_FIELDS]:
        if most[field]:
            columns = [table[field].misses if field in table else () for table in tables]
            yield (f"  misses, {field.partition('.')[2] or field}", *_cells(columns, found))


def _cells(columns: Sequence[Numbers], found: VariantsDocument) -> Iterator[str]:
    """A cell for each design: its median, and how it differs from the first one, beyond what the placebo does."""
    chance = [
        number
        for column, each in zip(columns, found.designs, strict=True)
        if _is_chance(found, each)
        for number in column
    ]
    first = columns[0]
    for number, column in enumerate(columns):
        if not column:
            yield _NONE
        elif not number or not first or found.designs[number].kind == "placebo":
            yield f"{middle(column)}"
        elif max(column) < min(chance) or min(column) > max(chance):
            one, other = middle(first), middle(column)
            yield f"{other} " + (f"{100 * (other - one) / one:+.0f} %" if one else "new")
        else:
            yield f"{middle(column)} {_SAME}"


def _is_chance(found: VariantsDocument, design: MeasuredDesign) -> bool:
    return design is found.designs[0] or design.kind == "placebo"
