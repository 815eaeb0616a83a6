# SPDX-License-Identifier: GPL-2.0
"""Sums of the rows of a result by object, field, line and function, and numbers as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Literal, TypeVar, get_args

from schedlib.formats.c2c_document import Counts, Place, TrafficRow

CountName = Literal["false_shared", "misses", "hitm", "upgrades", "accesses"]
COUNTS: tuple[CountName, ...] = get_args(CountName)
TITLES = ("false sharing", "misses", "HITM", "upgrades", "accesses")

_K = TypeVar("_K", bound=Hashable)
_INDEX = re.compile(r"\[\d+\]")


def totals(table: Iterable[TrafficRow], key: Callable[[TrafficRow], _K]) -> dict[_K, Counts]:
    """Sum the counts of the rows that share a key, in the order in which keys first appear."""
    found: dict[_K, list[Counts]] = {}
    for row in table:
        found.setdefault(key(row), []).append(row.counts)
    return {name: Counts.sum(parts) for name, parts in found.items()}


def most_missed(groups: Mapping[_K, Counts]) -> list[_K]:
    """The keys with the most misses first."""
    return sorted(groups, key=lambda key: (-groups[key].misses, key))


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
