# SPDX-License-Identifier: GPL-2.0
"""What of a structure can be moved, and where it then lies: the compiler's rules for offsets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate

from schedlib.c2c.moved_layout import StructureLayout, up
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import MappedField
from schedlib.layout.members import Member, Structure, Unnamed
from schedlib.suggest.member_text import Body, as_one, number_moved

_WORD = 8
_SMALLEST_LINE = 64
_SCALARS = (2, 4, 8)
_ALIGNMENTS = (16, 32, 64, 128, 256, 4096)


@dataclass(frozen=True)
class MovablePart:
    """A member, or members that share memory: names, and offsets relative to the part.

    Its alignment is a line or more if a type inside starts a line.
    """

    members: tuple[tuple[str, int], ...]
    size: int
    align: int


@dataclass(frozen=True)
class MovableUnit:
    """A piece of the source that has members in this kernel.

    It moves only within its segment: marks and pinned members separate them. `can_align`: by an attribute.
    """

    piece: int
    parts: tuple[MovablePart, ...]
    segment: int
    can_align: bool = True

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name, _ in part.members)

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


@dataclass(frozen=True)
class Arrangement:
    """An order of all units, and which of them start a line by an attribute."""

    order: tuple[int, ...]
    aligned: frozenset[int]

    def changes(self, start: Arrangement) -> int:
        """What a reviewer has to look at: units that move, and attributes that come or go."""
        return number_moved(self.order) + len(self.aligned ^ start.aligned)


@dataclass(frozen=True)
class Movable:
    """A structure whose members can be moved. `line` is the kernel's, `align` the type's, `empty` has no bytes."""

    tag: str
    units: tuple[MovableUnit, ...]
    start: Arrangement
    line: int
    align: int
    empty: frozenset[str] = frozenset()

    @cached_property
    def parts(self) -> tuple[tuple[int, MovablePart], ...]:
        return tuple((number, part) for number, unit in enumerate(self.units) for part in unit.parts)

    @cached_property
    def _first(self) -> tuple[int, ...]:
        return tuple(accumulate((len(unit.parts) for unit in self.units), initial=0))

    def offsets(self, arrangement: Arrangement, line: int) -> tuple[list[int], int]:
        """The offset of each part, and the size of the structure, where lines have this size."""
        offsets = [0] * len(self.parts)
        at = 0
        for number in arrangement.order:
            is_aligned = number in arrangement.aligned
            for place, part in enumerate(self.units[number].parts, self._first[number]):
                align = line if is_aligned or part.align >= _SMALLEST_LINE else part.align
                is_aligned = False
                at = up(at, align)
                offsets[place] = at
                has_lines = part.align >= _SMALLEST_LINE and part.size > 0 and part.size % part.align == 0
                at += up(part.size, line) if has_lines else part.size
        return offsets, up(at, self.alignment(arrangement, line))

    def size(self, arrangement: Arrangement, line: int = 0) -> int:
        return self.offsets(arrangement, line or self.line)[1]

    def alignment(self, arrangement: Arrangement, line: int) -> int:
        most = max(self.align, *(part.align for _, part in self.parts))
        return line if arrangement.aligned or most >= _SMALLEST_LINE else most

    def members(self, arrangement: Arrangement, line: int) -> dict[str, int]:
        """The offset of each direct member."""
        offsets, _ = self.offsets(arrangement, line)
        return {
            name: offset + inside
            for offset, (_, part) in zip(offsets, self.parts, strict=True)
            for name, inside in part.members
        }

    def layout(self, arrangement: Arrangement, line: int) -> StructureLayout:
        """Its layout for a replay, without members that have no bytes: nobody can have accessed them."""
        every = self.members(arrangement, line)
        fields = {name: offset for name, offset in every.items() if name not in self.empty}
        return StructureLayout(fields, self.size(arrangement, line), self.alignment(arrangement, line))


def sharing_together(structure: Structure, body: Body) -> Body:
    """The body, with pieces as one that share memory: a bit field may use what other members leave of its word."""
    while True:
        before, end = -1, 0
        for number, members in _members_of_pieces(structure, body, structure.type.name):
            if before >= 0 and min(member.offset for member in members) < end:
                one = reduce(as_one, body.pieces[before : number + 1])
                body = replace(body, pieces=(*body.pieces[:before], one, *body.pieces[number + 1 :]))
                break
            before, end = number, max(member.offset + member.size for member in members)
        else:
            return body


def movable(
    structure: Structure, fields: Sequence[MappedField], body: Body, line: int, pinned: Collection[str]
) -> Movable:
    """The units of a structure. `fields`: those that have no fields inside, by which alignment is known.

    Raises SchedlineError: the source does not explain the offsets of this kernel.
    """
    tag = structure.type.name
    for name in pinned:
        if structure.member(name) is None:
            raise SchedlineError(f"configs/fixed-members.toml: {tag} has no member {name}", "correct it")
    marks = [number for number, piece in enumerate(body.pieces) if piece.fixed]
    units: list[MovableUnit] = []
    behind = 0
    for number, members in _members_of_pieces(structure, body, tag):
        piece = body.pieces[number]
        # The alignment that the attribute of the piece demands of its first member may go.
        first = min(members, key=lambda each: each.offset)
        free = [replace(each, align=1) if each is first and piece.aligned else each for each in members]
        names = {member.name for member in members}
        unnamed = [each for each in structure.unnamed if each.names and names.issuperset(each.names)]
        # What is pinned or marks a place has a segment of its own: so does an array without elements, as at the end.
        alone = piece.fixed or not names.isdisjoint(pinned)
        alone |= not any(each.size or each.type.startswith("struct ") for each in members)
        behind += alone
        segment = behind + sum(mark < number for mark in marks)
        units.append(MovableUnit(number, tuple(_parts(free, fields, unnamed)), segment, piece.can_align))
        behind += alone
    there = {member.name: member.offset for member in structure.members}
    aligned = frozenset(
        number
        for number, unit in enumerate(units)
        if body.pieces[unit.piece].aligned and there[unit.members[0]] % line == 0
    )
    start = Arrangement(tuple(range(len(units))), aligned)
    empty = frozenset(member.name for member in structure.members if not member.size)
    found = _explained(Movable(tag, tuple(units), start, line, structure.type.align or 1, empty), there)
    if (size := found.size(start)) != structure.type.size:
        raise _not_explained(tag, f"explain its size: {structure.type.size} bytes, not {size}")
    return found


def _not_explained(tag: str, what: str) -> SchedlineError:
    return SchedlineError(
        f"the source of struct {tag} does not {what}",
        "another order of its members cannot be computed; report this structure",
    )


def _explained(found: Movable, there: Mapping[str, int]) -> Movable:
    """The same, with the alignment that types get by an attribute which their fields do not show; or SchedlineError."""
    for number, (owner, part) in enumerate(found.parts):
        offsets, _ = found.offsets(found.start, found.line)
        name, inside = part.members[0]
        wanted = there[name] - inside
        if offsets[number] < wanted:
            before = found.parts[number - 1][1].size + offsets[number - 1]
            possible = _ALIGNMENTS if part.size else (*_SCALARS, *_ALIGNMENTS)
            align = next((each for each in possible if up(before, each) == wanted), part.align)
            units = list(found.units)
            parts = tuple(replace(each, align=align) if each is part else each for each in units[owner].parts)
            units[owner] = replace(units[owner], parts=parts)
            found = replace(found, units=tuple(units))
            offsets, _ = found.offsets(found.start, found.line)
        if offsets[number] != wanted:
            raise _not_explained(found.tag, f"explain why {name} is at offset {wanted}, not {offsets[number]}")
    return found


def _members_of_pieces(structure: Structure, body: Body, tag: str) -> Iterator[tuple[int, list[Member]]]:
    """The members of each piece that has any. What a macro declares belongs to the piece that names it."""
    left = list(structure.members)
    for number, piece in enumerate(body.pieces):
        words = set(piece.names)
        mine = [member for member in left if member.name in words]
        if not mine and not piece.names:
            named = set(re.findall(r"\w+", piece.code))
            mine = [member for member in left if member.name in named]
        if mine:
            left = [member for member in left if member not in mine]
            yield number, mine
    missing = [member for member in left if member.size]
    if missing:
        raise _not_explained(tag, f"show its member {missing[0].name}")


def _parts(
    members: Sequence[Member], fields: Sequence[MappedField], unnamed: Sequence[Unnamed]
) -> Iterator[MovablePart]:
    """The parts of a piece. Members that overlap share memory, and so do those beside them in the same unit of bits."""
    group: list[Member] = []
    around: list[Unnamed] = []
    end = 0
    for member in sorted(members, key=lambda each: each.offset):
        if group and member.offset >= end:
            yield _part(group, fields, around)
            group, around = [], []
        group.append(member)
        around += [each for each in unnamed if member.name in each.names and each not in around]
        end = max(end, member.offset + member.size, *(each.offset + each.size for each in around))
    yield _part(group, fields, around)


def _part(members: Sequence[Member], fields: Sequence[MappedField], around: Sequence[Unnamed]) -> MovablePart:
    every: list[Member | Unnamed] = [*members, *around]
    first = min(each.offset for each in every)
    size = max(each.offset + each.size for each in every) - first
    names = {member.name for member in members}
    leaves = [field for field in fields if re.split(r"[.\[]", field.path)[0] in names]
    unknown = _alignment(first, size) if size else 1
    align = max((_alignment(field.offset, field.size) for field in leaves), default=unknown)
    scalars = [each for each in members if not each.type.startswith(("struct ", "union "))]
    # Bits have the alignment of the word that they are in.
    align = max(align, *(_alignment(each.offset, each.size) for each in scalars if each.size), 1)
    if len(scalars) == len(members):
        # An array is aligned as its elements are.
        align = min(align, max(_alignment(0, each.size // max(each.count, 1)) for each in members))
    align = max(align, *(each.align for each in every))
    return MovablePart(tuple((member.name, member.offset - first) for member in members), size, align)


def _alignment(offset: int, size: int) -> int:
    """The most that a scalar at this offset can need."""
    both = offset | size or 1
    return min(both & -both, _WORD)
