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
from schedlib.c2c.objects import Instance, Watch
from schedlib.c2c.observed import Observed, ObservedGuest, Player, played
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import Counts, MappedField, MappedStructure
from schedlib.layout.members import Structure
from schedlib.suggest.suggest_report import LayoutCosts

_WORD = 8
_NAME = re.compile(r"\.?\w+|\[\d+\]")
"""A part of a path: a name, or the number of an element."""

_OTHER_SLAB = ("slab ", "kmalloc-")


@dataclass(frozen=True)
class Embedded:
    """Where a structure lies in others: the inode in a file system's own inode, the runqueue of a class in struct rq.

    A trace names the objects that were allocated. Here they are divided, so that the structure inside is an object of
    its own, and its layouts become those of the structures around it. `places`: by structure around it the paths of the
    members, and their offsets.
    """

    tag: str
    size: int
    places: Mapping[str, tuple[tuple[str, int], ...]]

    def named(self, observed: Observed) -> Observed:
        """The same guests, with the structures inside as objects of their own."""
        around = {watch.key: watch for watch in observed.watches if self._is_around(watch)}
        if not around:
            return observed
        known = observed.known.structures
        if self.tag not in observed.tags:
            known = {**known, self.tag: self._structure(known)}
        pieces = {key: list(self._pieces(watch)) for key, watch in around.items()}
        watches = [watch for watch in observed.watches if watch.key not in around]
        watches += [piece for row in pieces.values() for piece, _ in row]
        return replace(
            observed,
            known=replace(observed.known, structures=known),
            watches=tuple(watches),
            guests=tuple(_divided(guest, pieces) for guest in observed.guests),
        )

    def moved(self, observed: Observed, layout: StructureLayout) -> tuple[dict[str, StructureLayout], Embedded]:
        """The layouts of the traced structures if the one inside has this one, and where it then lies in them."""
        # The trace may have objects that are nothing else.
        found = {self.tag: layout} if self.tag in observed.tags else {}
        places = {}
        for tag in {watch.tag for watch in observed.watches if self._is_around(watch)}:
            found[tag], places[tag] = self._around(observed.known.structures[tag], tag, layout)
        return found, Embedded(self.tag, layout.size or self.size, places)

    def _is_around(self, watch: Watch) -> bool:
        return watch.tag in self.places and not watch.prefix and not watch.offset and watch.tag != self.tag

    def _structure(self, known: Mapping[str, MappedStructure]) -> MappedStructure:
        tag, rows = next((tag, rows) for tag, rows in self.places.items() if tag in known)
        path, offset = rows[0]
        fields = tuple(
            MappedField(field.offset - offset, field.size, field.path[len(path) + 1 :], field.pointee)
            for field in known[tag].fields
            if field.path.startswith(f"{path}.")
        )
        return MappedStructure(self.size, fields)

    def _pieces(self, watch: Watch) -> Iterator[tuple[Watch, int]]:
        """The parts of an object, and their offsets: what is inside, and what is around it."""
        at = 0
        for _, offset in (*self.places[watch.tag], ("", watch.size)):
            if offset > at:
                part = structs.replace(watch, key=f"{watch.key}+{at}", offset=at, size=offset - at, optional=True)
                yield structs.replace(part, address=watch.address + (0 if watch.hops else at)), at
            if offset < watch.size:
                inside = structs.replace(
                    watch, key=f"{self.tag}@{watch.key}+{offset}", owner=self.tag, tag=self.tag, offset=0
                )
                yield structs.replace(inside, size=self.size, optional=True), offset
            at = offset + self.size

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


def _divided(guest: ObservedGuest, pieces: Mapping[str, list[tuple[Watch, int]]]) -> ObservedGuest:
    instances = []
    for each in guest.raw.instances:
        rows = [(watch.key, offset, watch.size) for watch, offset in pieces.get(each.key, [])]
        for key, offset, size in rows or [(each.key, 0, each.size)]:
            instances.append(Instance(key, each.cpu, each.address + offset, size, each.epoch))
    return replace(guest, raw=replace(guest.raw, instances=tuple(instances)))


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


def refuse_absent(observed: Observed, tag: str) -> None:
    """SchedlineError, with the reason, if a guest has no object of a structure; the trace has its objects divided."""
    keys = observed.objects_of(tag)
    if all(any(each.key in keys for each in guest.raw.instances) for guest in observed.guests):
        return
    workload = observed.parameters.workload
    there = ", ".join(sorted(observed.tags))
    if not observed.everything:
        raise SchedlineError(
            f"a trace of {workload} has no {tag}, only {there}", f"make it with --objects {tag}, or --objects all"
        )
    if tag in observed.known.structures:
        raise SchedlineError(
            f"in the trace of {workload}, no two CPUs used a line of the same {tag}; they shared {there}",
            "take a workload whose CPUs share one: what only one CPU uses takes no line from another",
        )
    unknown = sorted({watch.owner for watch in observed.watches if watch.owner.startswith(_OTHER_SLAB)})
    raise SchedlineError(
        f"the trace of {workload} has memory in which a {tag} may lie, but does not know where: {', '.join(unknown)}",
        "name its slab cache in configs/slab-types.toml, and make the trace again",
    )


def starts(observed: Observed, tag: str) -> Iterator[int]:
    """Where the objects of a structure begin in the guest of the middle quantum."""
    objects = observed.objects_of(tag)
    for each in observed.middle.raw.instances:
        if each.key in objects:
            yield each.address - objects[each.key].offset


@dataclass(frozen=True)
class TracedWorkload:
    """A trace, and whether the search may not see it."""

    observed: Observed
    held_out: bool

    @property
    def name(self) -> str:
        chosen = self.observed.parameters
        return f"{chosen.workload}, {chosen.cpus} CPUs" + (f", {chosen.topology}" if chosen.topology else "")


def on_lines_of(observed: Observed, tag: str) -> list[Counts]:
    """The counts on all lines that a structure has bytes on, for each quantum: also those of what lies beside it."""
    keys, line = observed.objects_of(tag), observed.parameters.line
    found = []
    for guest in observed.guests:
        lines: set[int] = set()
        for each in guest.raw.instances:
            if each.key in keys:
                lines.update(range(each.address // line, (each.address + each.size - 1) // line + 1))
        found.append(Counts.sum(each.counts for each in guest.raw.records if each.address // line in lines))
    return found


def replayed(
    program: Path,
    workload: TracedWorkload,
    where: Embedded,
    name: str,
    layouts: Mapping[int, StructureLayout],
    place: Path,
) -> LayoutCosts:
    """The costs of a layout, which is given for each size of lines, by playing a trace with replay.c (`program`)."""
    observed, player = workload.observed, Player(program, workload.observed.parameters)
    own = observed.parameters.line

    def counts(guests: Observed, line: int) -> list[Counts]:
        wanted, after = where.moved(guests, layouts[line])
        moved = played(player, relaid_as(guests, wanted, name, name, place), line)
        return on_lines_of(after.named(moved), where.tag)

    middle = replace(observed, guests=(observed.middle,))
    longer = {str(line): counts(middle, line)[0].misses for line in LINES if line != own}
    return costs_of(name, workload, counts(observed, own), longer, measured=False)


def costs_of(
    name: str, workload: TracedWorkload, counts: Sequence[Counts], longer: dict[str, int], *, measured: bool
) -> LayoutCosts:
    return LayoutCosts(
        layout=name,
        workload=workload.name,
        held_out=workload.held_out,
        measured=measured,
        misses=tuple(each.misses for each in counts),
        upgrades=tuple(each.upgrades for each in counts),
        false_shared=tuple(each.false_shared for each in counts),
        longer_lines=longer,
    )
