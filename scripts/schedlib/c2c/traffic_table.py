# SPDX-License-Identifier: GPL-2.0
"""Sums of the rows of a result by object, field, line and function, and the tables that its text and its page share."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Literal, TypeVar, get_args

from schedlib.c2c.raw import DISTANCES
from schedlib.formats.c2c_document import Counts, Place, TrafficResult, TrafficRow

CountName = Literal["false_shared", "misses", "hitm", "upgrades", "accesses"]
COUNTS: tuple[CountName, ...] = get_args(CountName)
TITLES = ("false sharing", "misses", "HITM", "upgrades", "accesses")

_K = TypeVar("_K", bound=Hashable)
_INDEX = re.compile(r"\[\d+\]")
_LINES = 12


def totals(table: Iterable[TrafficRow], key: Callable[[TrafficRow], _K]) -> dict[_K, Counts]:
    """Sum the counts of the rows that share a key, in the order in which keys first appear."""
    found: dict[_K, list[Counts]] = {}
    for row in table:
        found.setdefault(key(row), []).append(row.counts)
    return {name: Counts.sum(parts) for name, parts in found.items()}


def field_name(place: Place) -> str:
    """The object and the field's path without array indices. All neighbours of an object share one name."""
    return f"{place.owner} (neighbours)" if place.neighbour else named(place.owner, place.path)


def named(owner: str, path: str) -> str:
    """The name of an object's field: without array indices, so that all elements share it."""
    return f"{owner}.{_INDEX.sub('[]', path)}" if path else owner


object_name: Callable[[TrafficRow], str] = attrgetter("owner")
"""The object."""

function_name: Callable[[TrafficRow], str] = attrgetter("function")
"""The function's symbol. Inlined code counts for the function that it was inlined into."""


def line_name(place: Place) -> tuple[str, str, int]:
    """The object, the pointer behind which the line lies (if any), and the number of the line."""
    return place.owner, _INDEX.sub("[]", place.prefix), place.line


def middle(values: Sequence[int]) -> int:
    """The upper median."""
    return sorted(values)[len(values) // 2]


def spread(values: Sequence[int]) -> str:
    """The upper median of some counts, and their range if they differ."""
    return f"{middle(values)}" + (f" ({min(values)}..{max(values)})" if min(values) < max(values) else "")


def grid(rows: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    """Format rows in columns: the first `left` columns are left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        words = (cell.ljust(width) if at < left else cell.rjust(width) for at, (cell, width) in enumerate(cells))
        yield "  ".join(words).rstrip()


def by_quantum(result: TrafficResult, key: Callable[[TrafficRow], str]) -> list[dict[str, Counts]]:
    """The totals of each quantum by object, field or function; objects are summed up without their neighbours."""
    whole = key is not object_name
    return [totals((row for row in each.rows if whole or not row.neighbour), key) for each in result.quanta]


def in_all(tables: Sequence[Mapping[str, Counts]]) -> dict[str, list[Counts]]:
    """For each name its counts in all quanta."""
    return {name: [table.get(name, Counts()) for table in tables] for table in tables for name in table}


def ranked(tables: Sequence[Mapping[str, Counts]]) -> list[tuple[str, ...]]:
    """The rows of a table with TITLES, those with the most false sharing first."""
    every = in_all(tables)

    def values(name: str, count: str) -> list[int]:
        return [getattr(counts, count) for counts in every[name]]

    names = sorted(every, key=lambda name: (*(-middle(values(name, count)) for count in COUNTS[:2]), name))
    return [(name, *(spread(values(name, count)) for count in COUNTS)) for name in names]


def answered(tables: Sequence[Mapping[str, Counts]], names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """For each name, where its misses were answered: at each of DISTANCES, and in no cache."""
    for name in names:
        every = [table.get(name, Counts()) for table in tables]
        near = (spread([counts.fetched(distance) for counts in every]) for distance in DISTANCES)
        yield (name, *near, spread([counts.cold for counts in every]))


def most_missed(groups: Mapping[_K, Counts]) -> list[_K]:
    """The keys with the most misses first."""
    return sorted(groups, key=lambda key: (-groups[key].misses, key))


def hot_lines(result: TrafficResult) -> Iterator[tuple[tuple[str, str, int], list[TrafficRow], Counts]]:
    """The lines with the most misses in the middle quantum: their names, rows and counts."""
    by_line: dict[tuple[str, str, int], list[TrafficRow]] = {}
    for row in result.middle.rows:
        by_line.setdefault(line_name(row), []).append(row)
    lines = {name: Counts.sum(row.counts for row in rows) for name, rows in by_line.items()}
    for name in most_missed(lines)[:_LINES]:
        if lines[name].misses:
            yield name, by_line[name], lines[name]
