# SPDX-License-Identifier: GPL-2.0
"""Group accesses into rows of object, field and function, and sum them. Independent of QEMU."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import TypeVar

from msgspec.structs import asdict

from schedlib.c2c.objects import Resolver
from schedlib.c2c.raw import Record
from schedlib.formats.c2c_document import AccessKind, Counts, Place, TrafficRow

_K = TypeVar("_K", bound=Hashable)
_INDEX = re.compile(r"\[\d+\]")


def rows(resolver: Resolver, records: Iterable[Record]) -> tuple[TrafficRow, ...]:
    """Merge records into rows, sorted by place. All objects of one kind share their rows."""
    # An address has a record for each instruction that used it, and an instruction one for each address.
    place_of, function_of = cache(resolver.place), cache(resolver.function)
    found: dict[tuple[Place, int, AccessKind, str], list[Counts]] = {}
    for record in records:
        key = (place_of(record.address, record.epoch), record.size, record.kind, function_of(record.pc))
        found.setdefault(key, []).append(record.counts)
    return tuple(
        TrafficRow(**asdict(place), size=size, kind=kind, function=function, counts=Counts.sum(parts))
        for (place, size, kind, function), parts in sorted(found.items())
    )


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


def objects_of(table: Iterable[TrafficRow]) -> Mapping[str, Counts]:
    """Totals of each object without its neighbours."""
    return totals((row for row in table if not row.neighbour), object_name)
