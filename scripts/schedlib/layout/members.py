# SPDX-License-Identifier: GPL-2.0
"""Every member of a structure, from the debug information of an object, a vmlinux or the running kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlib.contracts.contract_rules import our_rules
from schedlib.errors import SchedlineError
from schedlib.formats.strict import Count, Strict, Word
from schedlib.layout.debug_info import DAMAGE, Btf, Dwarf, Kind, RawMember, open_debug_info

_FUNCTION = "function pointer"
_QUALIFIERS = ("const", "volatile", "tag")


class Type(Strict, frozen=True):
    """A structure: size and alignment in bytes; None where it is not known."""

    name: Word
    size: Count
    align: Count | None


class Field(Strict, frozen=True):
    """A member by its path: offset, size and stride in bytes."""

    type: Word
    member: Word
    offset: Count
    size: Count
    count: Count
    stride: Count

    @property
    def last(self) -> int:
        """Offset of the last byte of the first element."""
        return self.offset + max(self.size, 1) - 1


@dataclass(frozen=True)
class Member:
    """A direct member of a structure; those of an unnamed struct or union inside of it count as direct.

    Attributes:
        name: as in C.
        type: without the brackets of an array: "struct cpupri", "atomic_t"; "function pointer" for each of these.
        offset: in bytes.
        size: in bytes; of all elements of an array.
        count: elements of an array, else 1; of an open array 1.
        align: in bytes, if an attribute of the member or of its type demands it; else 1.
        bits: the width of a bit field, else 0.
    """

    name: Word
    type: str
    offset: Count
    size: Count
    count: Count = 1
    align: Count = 1
    bits: Count = 0

    @property
    def last(self) -> int:
        """Offset of the last byte; of the first one for an empty member."""
        return self.offset + max(self.size, 1) - 1


@dataclass(frozen=True)
class Unnamed:
    """An unnamed struct or union inside of a structure.

    Attributes:
        size: in bytes, with the padding behind its last member.
        align: in bytes, if an attribute demands it; else 1.
        names: its members.
    """

    offset: Count
    size: Count
    align: Count
    names: tuple[str, ...]


@dataclass(frozen=True)
class Structure:
    """A structure with all its members, in order of their offset."""

    type: Type
    members: tuple[Member, ...]
    unnamed: tuple[Unnamed, ...] = ()

    def member(self, name: str) -> Member | None:
        """A member by name."""
        return next((member for member in self.members if member.name == name), None)


class _Reader:
    """Structures of a file, with the unnamed ones inside of them that members name, as they are met."""

    def __init__(self, info: Dwarf | Btf) -> None:
        self.info = info
        self.found: dict[str, Structure] = {}

    def read(self, tag: str, at: Any) -> int:
        """Add a structure; returns the alignment that attributes demand of it, also by its members."""
        kind = self.info.kind(at)
        members: list[Member] = []
        unnamed: list[Unnamed] = []
        align = max(kind.align, self._parts(tag, at, 0, members, unnamed))
        is_tag = "." not in tag and self.info.aligned
        ordered = sorted(members, key=lambda member: member.offset)
        self.found[tag] = Structure(Type(tag, kind.size, align if is_tag else None), tuple(ordered), tuple(unnamed))
        return align

    def _parts(self, tag: str, at: Any, base: int, members: list[Member], unnamed: list[Unnamed]) -> int:
        """Add what a structure has from a byte on, and return the alignment that this demands."""
        demanded = 1
        for part in self.info.parts(at):
            kind, at_element = self._element(part.type)
            align = part.align
            if not part.name and kind.sort in ("struct", "union"):
                first, offset = len(members), base + part.bit // 8
                align = max(align, kind.align)
                inner = self._parts(tag, at_element, offset, members, unnamed)
                unnamed.append(Unnamed(offset, kind.size, align, tuple(each.name for each in members[first:])))
                align = max(align, inner)
            elif part.name:
                inner = 1
                if kind.sort in ("struct", "union") and not kind.name:
                    align = max(align, kind.align)
                    inner = self.read(f"{tag}.{part.name}", at_element)
                members.append(self._member(part, base, align))
                align = max(align, inner)
            demanded = max(demanded, align)
        return demanded

    def _member(self, part: RawMember, base: int, align: int) -> Member:
        kind = self.info.kind(part.type)
        bit = part.bit // (8 * kind.size) * (8 * kind.size) if part.bits and kind.size else part.bit
        text, count = self._text(part.type), self._count(part.type)
        return Member(part.name, text, base + bit // 8, kind.size, count, align, part.bits)

    def _element(self, at: Any) -> tuple[Kind, Any]:
        kind = self.info.kind(at)
        while kind.sort in ("array", *_QUALIFIERS):
            at = kind.target
            kind = self.info.kind(at)
        return kind, at

    def _count(self, at: Any) -> int:
        kind = self.info.kind(at)
        return max(kind.count, 1) * self._count(kind.target) if kind.sort in ("array", *_QUALIFIERS) else 1

    def _text(self, at: Any) -> str:
        """A type as C has it, but for arrays: "struct cpupri", "atomic_t", "void *"."""
        kind = self.info.kind(at) if at else Kind("void")
        match kind.sort:
            case "array" | "tag":
                return self._text(kind.target)
            case "pointer":
                target = self._text(kind.target)
                return target if target == _FUNCTION else f"{target} *"
            case "function":
                return _FUNCTION
            case "const" | "volatile":
                target = self._text(kind.target)
                if target.endswith("*"):
                    return f"{target} {kind.sort}"
                # Both an array and its elements may be const.
                return target if target == _FUNCTION or target.startswith(kind.sort) else f"{kind.sort} {target}"
            case "restrict":
                return f"{self._text(kind.target)} restrict"
            case "struct" | "union" | "enum":
                return f"{kind.sort} {kind.name}".strip()
            case "void":
                return "void"
            case _:
                return kind.name


def read_members(
    path: Path, structures: Sequence[str] = (), paths: Iterable[tuple[str, str]] = ()
) -> dict[str, Structure]:
    """The structures of a file, or of the running kernel (/sys/kernel/btf/vmlinux), by tag.

    Args:
        structures: their tags; empty for those that have a contract.
        paths: ("tk_data", "timekeeper.tkr_mono"): the structures that they go through are read, too.

    Raises:
        SchedlineError: the file cannot be read, holds no debug information or none of the structures.
    """
    wanted = structures or our_rules().types()
    try:
        info = open_debug_info(path)
        found = _read(info, wanted, paths) if info else {}
        why = "" if info else "it has neither DWARF nor BTF"
    except OSError as error:
        raise SchedlineError(f"{path}: {error.strerror}", "check the path, and whether you may read it") from error
    except DAMAGE as error:
        found, why = {}, f"it is damaged: {error}"
    if not found:
        raise SchedlineError(
            f"{path} has no debug information for struct {wanted[0]}{f' ({why})' if why else ''}",
            "build it with CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y or CONFIG_DEBUG_INFO_BTF=y",
        )
    return found


def _read(info: Dwarf | Btf, tags: Sequence[str], paths: Iterable[tuple[str, str]]) -> dict[str, Structure]:
    found = _read_structures(info, tags)
    deep = [(tag, name) for tag, name in paths if "." in name]
    asked = set(tags)
    while wanted := {through for tag, name in deep for through, _ in _through(found, tag, name)} - asked - found.keys():
        asked |= wanted
        with suppress(*DAMAGE):
            found |= _read_structures(info, sorted(wanted))
    return found


def _read_structures(info: Dwarf | Btf, tags: Sequence[str]) -> dict[str, Structure]:
    """Structures of a file, as far as it has them, and those without a tag inside of them, as `tag.member`."""
    reader = _Reader(info)
    for tag, at in info.find(tags).items():
        reader.read(tag, at)
    return reader.found


def _through(structures: Mapping[str, Structure], tag: str, path: str) -> Iterator[tuple[str, Member]]:
    """The members that a path goes through, each with the type of it, as far as their structures are known."""
    for name in path.split(".")[:-1]:
        structure = structures.get(tag)
        member = structure.member(name.removesuffix("[0]")) if structure else None
        if member is None or not member.type.startswith(("struct", "union")):
            return
        # An unnamed one goes by the path of the member.
        tag = member.type.partition(" ")[2] or f"{tag}.{member.name}"
        yield tag, member


def root_of(path: str) -> str:
    """The direct member on a path such as `pri_to_cpu[0].mask`."""
    return path.partition(".")[0].removesuffix("[0]")


def resolve(structures: Mapping[str, Structure], tag: str, path: str) -> Field | None:
    """Find a member by its path, such as `cpupri.pri_to_cpu[0].mask`; None if it does not exist.

    `a[0].b` stands for b in every element of a, so a path through an array of arrays is none.
    """
    base, count, stride = 0, 1, 0
    *through, name = path.split(".")
    steps = list(_through(structures, tag, path))
    for step, (_, member) in zip(through, steps, strict=False):
        base += member.offset
        if step.endswith("[0]"):
            if stride:
                return None
            count, stride = member.count, member.size // max(member.count, 1)
    structure = structures.get(steps[-1][0] if steps else tag)
    last = structure.member(name) if structure and len(steps) == len(through) else None
    return Field(tag, path, base + last.offset, last.size, count, stride) if last else None
