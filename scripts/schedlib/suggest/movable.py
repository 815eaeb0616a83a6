# SPDX-License-Identifier: GPL-2.0
"""What of a structure can be moved, and where it then lies: the compiler's rules for offsets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import MappedField
from schedlib.layout.members import Member, Structure
from schedlib.suggest.member_text import Body, number_moved

_WORD = 8
_SMALLEST_LINE = 64


@dataclass(frozen=True)
class MovableUnit:
    """A piece of the source that has members in this kernel.

    Attributes:
        piece: its number in the source.
        members: its members, the offset of each relative to the unit.
        size: in bytes.
        align: in bytes; a line or more if a type inside starts a line.
        segment: it can only move among the units of its own; marks and pinned members separate them.
    """

    piece: int
    members: tuple[tuple[str, int], ...]
    size: int
    align: int
    segment: int

    @property
    def name(self) -> str:
        """For people: the first member, and whether there are others."""
        first, others = self.members[0][0], len(self.members) - 1
        return f"{first} and {others} more" if others else first


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
    """A structure whose members can be moved.

    Attributes:
        units: in the order of the source.
        start: the arrangement of the source.
        line: bytes of the kernel's lines.
        align: of the type, whatever its members need.
    """

    tag: str
    units: tuple[MovableUnit, ...]
    start: Arrangement
    line: int
    align: int

    def offsets(self, arrangement: Arrangement, line: int) -> tuple[list[int], int]:
        """The offset of each unit, and the size of the structure, where lines have this size."""
        offsets = [0] * len(self.units)
        at = 0
        for number in arrangement.order:
            unit = self.units[number]
            align = line if number in arrangement.aligned or unit.align >= _SMALLEST_LINE else unit.align
            at = -(-at // align) * align
            offsets[number] = at
            at += unit.size
        most = self.alignment(arrangement, line)
        return offsets, -(-at // most) * most

    def alignment(self, arrangement: Arrangement, line: int) -> int:
        """The alignment of the structure, in bytes."""
        most = max(self.align, *(unit.align for unit in self.units))
        return line if arrangement.aligned or most >= _SMALLEST_LINE else most

    def members(self, arrangement: Arrangement, line: int) -> dict[str, int]:
        """The offset of each direct member."""
        offsets, _ = self.offsets(arrangement, line)
        return {
            name: offsets[number] + inside for number, unit in enumerate(self.units) for name, inside in unit.members
        }


def movable(
    structure: Structure, fields: Sequence[MappedField], body: Body, line: int, pinned: Collection[str]
) -> Movable:
    """The units of a structure.

    Args:
        structure: from the kernel's debug information.
        fields: those that have no fields inside, by which alignment is known.
        pinned: members that have to stay where they are.

    Raises:
        SchedlineError: the source does not explain the offsets of this kernel.
    """
    tag = structure.type.name
    for name in pinned:
        if structure.member(name) is None:
            raise SchedlineError(f"configs/fixed-members.toml: {tag} has no member {name}", "correct it")
    units = [_unit(number, members, fields) for number, members in _members_of_pieces(structure, body, tag)]
    units = list(_with_segments(units, body, pinned))
    aligned = frozenset(number for number, unit in enumerate(units) if body.pieces[unit.piece].aligned)
    start = Arrangement(tuple(range(len(units))), aligned)
    first = [min(structure_offset(structure, unit)) for unit in units]
    found = Movable(tag, tuple(units), start, line, structure.type.align or 1)
    for number, wanted in enumerate(first):
        offset = found.offsets(start, line)[0][number]
        if offset < wanted:
            # A type inside is aligned by an attribute that its fields do not show.
            align = next((a for a in (16, 32, 64, 128, 256, 4096) if -(-offset // a) * a == wanted), 0)
            units[number] = replace(units[number], align=align or 1)
            found = replace(found, units=tuple(units))
            offset = found.offsets(start, line)[0][number]
        if offset != wanted:
            raise SchedlineError(
                f"the source of struct {tag} does not explain why {units[number].name} is at offset {wanted}, "
                f"not {offset}",
                "another order of its members cannot be computed; report this structure",
            )
    size = found.offsets(start, line)[1]
    if size != structure.type.size:
        raise SchedlineError(
            f"the source of struct {tag} does not explain its size: {structure.type.size} bytes, not {size}",
            "another order of its members cannot be computed; report this structure",
        )
    return found


def structure_offset(structure: Structure, unit: MovableUnit) -> list[int]:
    """The offsets of a unit's members in the kernel."""
    return [member.offset for name, _ in unit.members if (member := structure.member(name))]


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
        raise SchedlineError(
            f"the source of struct {tag} does not show its member {missing[0].name}",
            "another order of its members cannot be computed; report this structure",
        )


def _unit(piece: int, members: Sequence[Member], fields: Sequence[MappedField]) -> MovableUnit:
    first = min(member.offset for member in members)
    end = max(member.offset + member.size for member in members)
    names = {member.name for member in members}
    leaves = [field for field in fields if re.split(r"[.\[]", field.path)[0] in names]
    align = max((_alignment(field.offset, field.size) for field in leaves), default=_alignment(first, end - first))
    if first % _SMALLEST_LINE == 0 and end - first >= _SMALLEST_LINE and (end - first) % _SMALLEST_LINE == 0:
        align = _SMALLEST_LINE
    inside = tuple((member.name, member.offset - first) for member in members)
    return MovableUnit(piece, inside, end - first, align, 0)


def _alignment(offset: int, size: int) -> int:
    """The most that a scalar at this offset can need."""
    both = offset | size or 1
    return min(both & -both, _WORD)


def _with_segments(units: Sequence[MovableUnit], body: Body, pinned: Collection[str]) -> Iterator[MovableUnit]:
    """The units with their segments. What is pinned has one of its own, and so has an open array at the end."""
    marks = [number for number, piece in enumerate(body.pieces) if piece.fixed]
    behind = 0
    for unit in units:
        alone = not unit.size or any(name in pinned for name, _ in unit.members)
        behind += alone
        yield replace(unit, segment=behind + sum(mark < unit.piece for mark in marks))
        behind += alone
