# SPDX-License-Identifier: GPL-2.0
"""Accesses, wherever they were seen, as rows of object, field and function; and their totals. Knows nothing of QEMU."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from schedlib.c2c.objects import Place, Resolver
from schedlib.c2c.raw import Counts, Record

_K = TypeVar("_K", bound=Hashable)
_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True)
class Row:
    """What one function did to one place, in one way.

    Attributes:
        size: bytes of an access.
        kind: load, store or rmw.
    """

    place: Place
    size: int
    kind: str
    function: str
    counts: Counts


def rows(resolver: Resolver, records: Iterable[Record]) -> tuple[Row, ...]:
    """Records by what they are, in the order of their places; objects of one kind are one."""
    found: dict[tuple[Place, int, str, str], list[Counts]] = {}
    for record in records:
        key = (resolver.place(record.address, record.epoch), record.size, record.kind, resolver.function(record.pc))
        found.setdefault(key, []).append(record.counts)
    return tuple(Row(*key, Counts.sum(parts)) for key, parts in sorted(found.items()))


def totals(table: Iterable[Row], key: Callable[[Row], _K]) -> dict[_K, Counts]:
    """The counts of the rows that share a key, in the order in which keys appear."""
    found: dict[_K, list[Counts]] = {}
    for row in table:
        found.setdefault(key(row), []).append(row.counts)
    return {name: Counts.sum(parts) for name, parts in found.items()}


def field_name(row: Row) -> str:
    """The path of a field for all elements of an array, with its object; the neighbours of an object are one."""
    if row.place.neighbour:
        return f"{row.place.owner} (neighbours)"
    return f"{row.place.owner}.{_INDEX.sub('[]', row.place.path)}"


def object_name(row: Row) -> str:
    """The object."""
    return row.place.owner


def function_name(row: Row) -> str:
    """The function, as the compiler left it: what was inlined belongs to the one that it was inlined into."""
    return row.function


def line_name(row: Row) -> tuple[str, str, int]:
    """Object, what of it is behind a pointer, and the number of the line there."""
    return row.place.owner, _INDEX.sub("[]", row.place.prefix), row.place.line


def middle(values: Sequence[int]) -> int:
    """The one of which as many are smaller as greater; of an even number the upper one."""
    return sorted(values)[len(values) // 2]


def spread(values: Sequence[int]) -> str:
    """The middle of some counts, and how far they lie apart."""
    return f"{middle(values)}" + (f" ({min(values)}..{max(values)})" if min(values) < max(values) else "")


def objects_of(table: Iterable[Row]) -> Mapping[str, Counts]:
    """Totals of each object without its neighbours."""
    return totals((row for row in table if not row.place.neighbour), object_name)
