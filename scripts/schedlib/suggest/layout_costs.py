# SPDX-License-Identifier: GPL-2.0
"""What a layout costs in a workload: its trace is played again with the layout, in all quanta, or a guest has run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from schedlib.c2c.c2c_options import LINES
from schedlib.c2c.moved_layout import StructureLayout, relaid_as, up
from schedlib.c2c.observed import Observed, ObservedGuest, Player, played
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import Counts, MappedField, MappedStructure
from schedlib.layout.members import Structure

_WORD = 8
_NAME = re.compile(r"\.?\w+|\[\d+\]")
"""A part of a path: a name, or the number of an element."""


@dataclass(frozen=True)
class Embedded:
    """Where a structure lies in others: the inode in a file system's own inode, the runqueue of a class in struct rq.

    A trace names the objects that were allocated. `places`: by structure around it the paths of the members, and their
    offsets.
    """

    tag: str
    size: int
    places: Mapping[str, tuple[tuple[str, int], ...]]

    def objects(self, observed: Observed, guest: ObservedGuest) -> Iterator[tuple[int, int]]:
        """Address and size of each object of the structure, by itself or inside of another one."""
        watches = {watch.key: watch for watch in observed.watches if not watch.prefix}
        for each in guest.instances:
            watch = watches.get(each.key)
            if watch and watch.tag == self.tag:
                yield each.address, each.size
            for _, offset in self.places.get(watch.tag, ()) if watch else ():
                yield each.address + offset, self.size

    def fields(self, observed: Observed) -> Sequence[MappedField]:
        """Those of the structure, of which the guests have an object."""
        known = observed.known.structures
        if self.tag in observed.tags:
            return known[self.tag].fields
        around, ((path, offset), *_) = next(each for each in self.places.items() if each[0] in observed.tags)
        return [
            structs.replace(field, offset=field.offset - offset, path=field.path.removeprefix(f"{path}."))
            for field in known[around].fields
            if field.path.startswith(f"{path}.")
        ]

    def moved(self, observed: Observed, layout: StructureLayout) -> tuple[dict[str, StructureLayout], Embedded]:
        """The layouts of the traced structures if the one inside has this one, and where it then lies in them."""
        # The trace may have objects that are nothing else.
        found = {self.tag: layout} if self.tag in observed.tags else {}
        places = {}
        for tag in observed.tags & self.places.keys():
            found[tag], places[tag] = self._around(observed.known.structures[tag], tag, layout)
        return found, Embedded(self.tag, layout.size or self.size, places)

    def _around(
        self, structure: MappedStructure, tag: str, layout: StructureLayout
    ) -> tuple[StructureLayout, tuple[tuple[str, int], ...]]:
        """The structure around it, with what follows the other one moved as far as that grows, and its new places."""
        size = layout.size or self.size
        members: dict[str, int] = {}
        places = []
        moved = at = 0
        for path, offset in self.places[tag]:
            members |= {each.path: each.offset + moved for each in _between(structure, at, offset)}
            start = up(offset + moved, layout.align)
            members |= {f"{path}.{name}": start + inside for name, inside in layout.members.items()}
            places.append((path, start))
            at = offset + self.size
            moved = up(start + size - at, _WORD)
        members |= {each.path: each.offset + moved for each in _between(structure, at, structure.size)}
        end = up(structure.size + moved, layout.align)
        return StructureLayout(members, end, layout.align), tuple(places)


def _between(structure: MappedStructure, first: int, end: int) -> Iterator[MappedField]:
    return (field for field in structure.fields if first <= field.offset < end)


def embedded(structure: Structure, traces: Sequence[Observed]) -> Embedded:
    tag = structure.type.name
    places: dict[str, tuple[tuple[str, int], ...]] = {}
    for observed in traces:
        for each in observed.tags - {tag, *places}:
            places[each] = tuple(places_in(observed.known.structures[each], structure))
    return Embedded(tag, structure.type.size, {each: rows for each, rows in sorted(places.items()) if rows})


def places_in(around: MappedStructure, structure: Structure) -> Iterator[tuple[str, int]]:
    """The paths in another structure below which all members of a structure are, each at its offset from there."""
    members = [each for each in structure.members if each.size]
    starts: dict[str, int] = {}
    for field in around.fields:
        names = _NAME.findall(field.path)
        for number in range(1, len(names) + 1):
            starts.setdefault("".join(names[:number]), field.offset)
    for path, offset in starts.items() if members else ():
        outer, begin = path.removesuffix(f".{members[0].name}"), offset - members[0].offset
        places = ((starts.get(f"{outer}.{each.name}", -1), each) for each in members)
        if outer != path and all(begin + each.offset <= at <= begin + each.last for at, each in places):
            yield outer, begin


def refuse_absent(observed: Observed, where: Embedded) -> None:
    """SchedlineError if a guest has no object of a structure."""
    if not all(any(where.objects(observed, guest)) for guest in observed.guests):
        there = {watch.owner for watch in observed.watches if watch.tag or watch.owner.startswith("slab ")}
        raise SchedlineError(
            f"in the trace of {observed.parameters.workload}, no two CPUs used a line of the same {where.tag}; they "
            f"shared {', '.join(sorted(there))}",
            f"make it with --objects {where.tag}, or all (configs/slab-types.toml names slabs), or take a workload "
            "whose CPUs share one",
        )


def on_lines_of(observed: Observed, where: Embedded) -> list[Counts]:
    """The counts on all lines that a structure has bytes on, for each quantum: also those of what lies beside it."""
    line, found = observed.parameters.line, []
    for guest in observed.guests:
        lines: set[int] = set()
        for address, size in where.objects(observed, guest):
            lines.update(range(address // line, (address + size - 1) // line + 1))
        found.append(Counts.sum(each.counts for each in guest.records if each.address // line in lines))
    return found


def replayed(
    program: Path, observed: Observed, where: Embedded, layouts: Mapping[int, StructureLayout], place: Path
) -> tuple[list[Counts], dict[str, int]]:
    """What a layout, given for each size of lines, costs in a trace that replay.c (`program`) plays.

    Returns the counts of each quantum, and the misses of the middle one by the size of longer lines.
    """
    player, own = Player(program, observed.parameters), observed.parameters.line

    def counts(guests: Observed, line: int) -> list[Counts]:
        wanted, after = where.moved(guests, layouts[line])
        return on_lines_of(played(player, relaid_as(guests, wanted, where.tag, where.tag, place), line), after)

    middle = replace(observed, guests=(observed.middle,))
    longer = {str(line): counts(middle, line)[0].misses for line in LINES if line != own}
    return counts(observed, own), longer
