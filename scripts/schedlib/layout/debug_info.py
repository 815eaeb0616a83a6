# SPDX-License-Identifier: GPL-2.0
"""Types as a compiler recorded them: from DWARF, by pyelftools, and from BTF (Documentation/bpf/btf.rst of the kernel).

Nothing is read but what is asked for: a vmlinux has 300 MB of DWARF.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, Literal

from elftools.common.exceptions import ELFError
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from schedlib.errors import SchedlineError

DAMAGE = (
    ELFError,
    OSError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    MemoryError,
)
"""What pyelftools raises when it reads a damaged file."""


@dataclass(frozen=True)
class Kind:
    """A type, with its tag or name if it has one; sizes are bytes.

    Attributes:
        sort: struct, union, enum, base, pointer, array, typedef, const, volatile, restrict, function or void.
        target: what it points to, is an array of, or is another name for.
        count: elements of an array; 0 if it is open.
        align: if an attribute demands it; else 1.
    """

    sort: str
    name: str = ""
    size: int = 0
    target: Any = None
    count: int = 1
    align: int = 1


@dataclass(frozen=True)
class RawMember:
    """A member of a structure or union; an unnamed one has no name.

    Attributes:
        type: for kind() of Dwarf or Btf.
        bit: its first bit, from the beginning of the structure.
        bits: the width of a bit field, else 0.
        align: in bytes, if an attribute demands it; else 1.
    """

    name: str
    type: Any
    bit: int
    bits: int = 0
    align: int = 1


def open_debug_info(path: Path) -> Dwarf | Btf | None:
    """The types of a file; None if it has none. Raises OSError, SchedlineError, or one of DAMAGE."""
    with path.open("rb") as file:
        head = file.read(4)
        if head[:2] in (b"\x9f\xeb", b"\xeb\x9f"):
            return Btf(head + file.read())
        if head != b"\x7fELF":
            advice = "give a vmlinux (not a bzImage), or /sys/kernel/btf/vmlinux"
            raise SchedlineError(f"{path} is neither an ELF file nor BTF", advice)
        elf = ELFFile(file)
        if elf.get_section_by_name(".debug_info"):
            is_riscv = elf.header["e_machine"] == "EM_RISCV"
            return Dwarf(_relocated_riscv(elf) if is_riscv else elf.get_dwarf_info())
        section = elf.get_section_by_name(".BTF")
        return Btf(section.data()) if section else None


def symbols_in(elf: ELFFile) -> list[tuple[str, int, int, int, int]]:
    """Name, type, section, address and size of each symbol. pyelftools takes seconds for those of a kernel."""
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return []
    texts, order = table.stringtable.data(), "<" if elf.little_endian else ">"
    found = []
    for row in struct.iter_unpack(f"{order}IBBHQQ" if elf.elfclass == 64 else f"{order}IIIBBH", table.data()):
        at, info, section, address, size = (
            (row[0], row[1], *row[3:]) if elf.elfclass == 64 else (row[0], row[3], row[5], row[1], row[2])
        )
        found.append((texts[at : texts.index(0, at)].decode(errors="replace"), info & 0xF, section, address, size))
    return found


_RISCV_BYTES = {1: 4, 2: 8}
"""Bytes that R_RISCV_32 and R_RISCV_64 fill. Those that add and subtract are about code, not about types."""


def _relocated_riscv(elf: ELFFile) -> DWARFInfo:
    """The DWARF of a file for riscv64, whose relocations pyelftools does not know."""
    info = elf.get_dwarf_info(relocate_dwarf_sections=False)
    relocations, symbols = (elf.get_section_by_name(name) for name in (".rela.debug_info", ".symtab"))
    section = info.debug_info_sec
    if not relocations or not symbols or not section:
        return info
    values = [row[0] for row in struct.iter_unpack("<8xQ8x", symbols.data())]
    section.stream.seek(0)
    data = bytearray(section.stream.read())
    for at, kind, addend in struct.iter_unpack("<QQq", relocations.data()):
        if size := _RISCV_BYTES.get(kind & 0xFFFFFFFF):
            value = (values[kind >> 32] + addend) % (1 << 8 * size)
            data[at : at + size] = value.to_bytes(size, "little")
    info.debug_info_sec = section._replace(stream=BytesIO(data))
    return info


_SORTS = {
    f"DW_TAG_{sort}_type": sort for sort in ("union", "base", "pointer", "array", "const", "volatile", "restrict")
}
_SORTS |= {
    "DW_TAG_structure_type": "struct",
    "DW_TAG_enumeration_type": "enum",
    "DW_TAG_subroutine_type": "function",
    "DW_TAG_typedef": "typedef",
}

_STRUCTURES = ("DW_TAG_structure_type", "DW_TAG_union_type")

FACTS = "schedline_facts"
"""The structure of our units that points to others, and tells the line size and which conditions hold."""


def pointer_to(tag: str) -> str:
    """Its member that points to a structure; for tags see StructText in contracts/struct_source.py."""
    return f"to_{tag.replace(' ', '_')}"


def _value(die: DIE, name: str, default: int = 0) -> int:
    """A number among the attributes of an entry. An expression instead of it, or an unknown bound, is the default."""
    found = die.attributes.get(f"DW_AT_{name}")
    return found.value if found and isinstance(found.value, int) else default


def _name(die: DIE) -> str:
    found = die.attributes.get("DW_AT_name")
    return found.value.decode(errors="replace") if found else ""


_STRUCTURE, _NAME, _DECLARATION, _STRING, _STRP, _IMPLICIT = 0x13, 0x03, 0x3C, 0x08, 0x0E, 0x21
"""Numbers of DWARF: DW_TAG_structure_type, DW_AT_name and _declaration, DW_FORM_string, _strp and _implicit_const."""


class Dwarf:
    """The DWARF of an ELF file. How it refers to a type is its own affair.

    Attributes:
        aligned: whether alignment is recorded.
    """

    aligned = True

    def __init__(self, info: DWARFInfo) -> None:
        self._info = info
        self._strings, self._abbreviations = (
            section.stream.read() if section and not section.stream.seek(0) else b""
            for section in (info.debug_str_sec, info.debug_abbrev_sec)
        )
        self._kinds: dict[int, Kind] = {}

    def find(self, tags: Collection[str]) -> dict[str, Any]:
        """The structures with some tags, as far as there are any."""
        found = {tag: die for tag in tags if " " in tag and (die := self._without_tag(tag))}
        left = {tag: frozenset(self._places(tag)) for tag in tags}
        for unit in self._info.iter_CUs():
            left = {tag: places for tag, places in left.items() if tag not in found}
            if not left:
                break
            for die in self._structures(unit, left):
                found.setdefault(_name(die), die)
        return {tag: found[tag] for tag in tags if tag in found}

    def _without_tag(self, tag: str) -> DIE | None:
        """A union, or the structure of a typedef or a variable: what our unit points to."""
        for unit in self._info.iter_CUs():
            facts = (each for each in unit.get_top_DIE().iter_children() if _name(each) == FACTS)
            for die in (each for fact in facts for each in fact.iter_children() if _name(each) == pointer_to(tag)):
                while die.tag not in _STRUCTURES and "DW_AT_type" in die.attributes:
                    die = die.get_DIE_from_attribute("DW_AT_type")
                if die.tag in _STRUCTURES and "DW_AT_declaration" not in die.attributes:
                    return die
        return None

    def _places(self, text: str) -> Iterator[int]:
        """Where a text is in the strings: a linker lets it be the end of another one."""
        wanted, at = f"{text}\0".encode(), -1
        while (at := self._strings.find(wanted, at + 1)) >= 0:
            yield at

    def _structures(self, unit: CompileUnit, tags: Mapping[str, frozenset[int]]) -> Iterator[DIE]:
        """The structures with some tags that a unit defines; with each tag, where it is in the strings.

        To parse all entries of a unit takes a tenth of a second, and a vmlinux has thousands of units. So the bytes
        that begin such an entry are searched first: a number that says what it has, then its name.
        """
        section = self._info.debug_info_sec
        if section and not self._info.debug_str_offsets_sec:  # else a name is a number in a table
            section.stream.seek(unit.cu_offset)
            data = section.stream.read(unit.size)
            names = [(form, name) for form, name in self._spelled(data, tags) if name in data]
            begins = self._named_structures(unit) if names else {}
            if not any(of == form and code + name in data for code, of in begins.items() for form, name in names):
                return
        for die in unit.get_top_DIE().iter_children():
            is_defined = die.tag == "DW_TAG_structure_type" and "DW_AT_declaration" not in die.attributes
            if is_defined and _name(die) in tags:
                yield die

    def _named_structures(self, unit: CompileUnit) -> dict[bytes, int]:
        """How an entry of a unit begins that defines a structure, and how its name is spelled, if that comes first."""
        # pyelftools takes ten times as long for it.
        words = _ulebs(memoryview(self._abbreviations)[unit["debug_abbrev_offset"] :])
        found = {}
        while code := next(words):
            tag, _ = next(words), next(words)
            pairs = []
            while (pair := (next(words), next(words))) != (0, 0):
                pairs.append(pair)
                if pair[1] == _IMPLICIT:
                    next(words)
            if tag == _STRUCTURE and pairs and pairs[0][0] == _NAME and _DECLARATION not in dict(pairs):
                found[_uleb(code)] = pairs[0][1]
        return found

    def _spelled(self, data: bytes, tags: Mapping[str, frozenset[int]]) -> Iterator[tuple[int, bytes]]:
        """How some names may be spelled in the bytes of a unit: as they are, or by their place among the strings."""
        for tag in tags:
            yield _STRING, f"{tag}\0".encode()
        order: Literal["little", "big"] = "little" if self._info.config.little_endian else "big"
        wanted = frozenset[int]().union(*tags.values())
        for shift in range(4):
            numbers = array("I", data[shift : shift + (len(data) - shift) // 4 * 4])
            if order != sys.byteorder:
                numbers.byteswap()
            yield from ((_STRP, place.to_bytes(4, order)) for place in wanted.intersection(numbers))

    def kind(self, at: Any) -> Kind:
        """A type."""
        if at.offset not in self._kinds:
            self._kinds[at.offset] = self._kind(at)
        return self._kinds[at.offset]

    def _kind(self, at: DIE) -> Kind:
        sort = _SORTS.get(str(at.tag), "other")
        target = at.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in at.attributes else None
        size, count = _value(at, "byte_size"), 1
        if sort == "array":
            bounds = [each for each in at.iter_children() if each.tag == "DW_TAG_subrange_type"]
            ends = [_value(each, "count", _value(each, "upper_bound", -1) + 1) for each in bounds]
            count = prod(ends)
            size = count * self.kind(target).size if target else 0
        elif sort == "pointer":
            size = size or at.cu["address_size"]
        elif target and sort != "enum":
            size = self.kind(target).size
        return Kind(sort, _name(at), size, target, count, _value(at, "alignment", 1))

    def parts(self, at: Any) -> list[RawMember]:
        """The members of a structure or union."""
        found = []
        for each in at.iter_children():
            if each.tag == "DW_TAG_member":
                target = each.get_DIE_from_attribute("DW_AT_type")
                bit, bits = 8 * _value(each, "data_member_location"), _value(each, "bit_size")
                bit += _value(each, "data_bit_offset")
                if "DW_AT_bit_offset" in each.attributes:  # DWARF 3, from the end of the unit that holds it
                    size = 8 * (_value(each, "byte_size") or self.kind(target).size)
                    from_end = _value(each, "bit_offset")
                    bit += size - from_end - bits if self._info.config.little_endian else from_end
                found.append(RawMember(_name(each), target, bit, bits, _value(each, "alignment", 1)))
        return found


def _ulebs(data: memoryview) -> Iterator[int]:
    """Numbers in DWARF's variable length, as they stand one behind the other."""
    number, shift = 0, 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number, shift = 0, 0


def _uleb(number: int) -> bytes:
    """A number in DWARF's variable length."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


_INT, _PTR, _ARRAY, _STRUCT, _UNION, _ENUM, _FWD, _TYPEDEF, _VOLATILE, _CONST, _RESTRICT = range(1, 12)
_FUNC, _FUNC_PROTO, _VAR, _DATASEC, _FLOAT, _DECL_TAG, _TYPE_TAG, _ENUM64 = range(12, 20)
_BTF_SORTS = ["other", "base", "pointer", "array", "struct", "union", "enum", "struct", "typedef", "volatile", "const"]
_BTF_SORTS += ["restrict", "other", "function", "other", "other", "base", "other", "tag", "enum"]
"""The sorts of these kinds; that of a forward declaration, if it is no union's."""
_BEHIND = {_INT: 4, _ARRAY: 12, _VAR: 4, _DECL_TAG: 4}
_EACH = {_STRUCT: 12, _UNION: 12, _ENUM: 8, _FUNC_PROTO: 8, _DATASEC: 12, _ENUM64: 12}
"""Bytes behind the head of a type: so many, or so many for each of its parts."""


_LONG = ("long unsigned int", "unsigned long")
"""As gcc and clang call it."""


class Btf:
    """BTF of a whole kernel, read as Dwarf is. Types refer to each other by number; 0 is void."""

    aligned = False

    def __init__(self, data: bytes) -> None:
        self._order = "<" if data[:2] == b"\x9f\xeb" else ">"
        _, _, _, header, start, size, names, _ = struct.unpack_from(f"{self._order}HBBIIIII", data)
        self._data, self._names, at = data, header + names, header + start
        self._at, end = [0], at + size
        while at < end:
            self._at.append(at)
            _, info, _ = self._three(at)
            kind = info >> 24 & 0x1F
            at += 12 + _BEHIND.get(kind, 0) + _EACH.get(kind, 0) * (info & 0xFFFF)
        # Without pointers a size is known from the header of an array of longs alone.
        self._pointer = next((self.kind(n).size for n in range(1, len(self._at)) if self._is_long(n)), 8)

    def _three(self, at: int) -> tuple[int, int, int]:
        """Three words. A type begins with its name; kind, flag and number of parts; its size, or what it refers to."""
        one, two, three = struct.unpack_from(f"{self._order}III", self._data, at)
        return one, two, three

    def _is_long(self, number: int) -> bool:
        name, info, _ = self._three(self._at[number])
        return info >> 24 & 0x1F == _INT and self._text(name) in _LONG

    def _text(self, at: int) -> str:
        start = self._names + at
        return self._data[start : self._data.index(0, start)].decode(errors="replace")

    def find(self, tags: Collection[str]) -> dict[str, Any]:
        found: dict[str, int] = {}
        for number, at in enumerate(self._at[1:], 1):
            name, info, _ = self._three(at)
            if info >> 24 & 0x1F == _STRUCT and (tag := self._text(name)) in tags:
                found.setdefault(tag, number)
        return {tag: found[tag] for tag in tags if tag in found}

    def kind(self, at: Any) -> Kind:
        if not at:
            return Kind("void")
        name, info, size = self._three(self._at[at])
        kind = info >> 24 & 0x1F
        sort = _BTF_SORTS[kind] if kind <= _ENUM64 else "other"
        if kind == _ARRAY:
            target, _, count_ = self._three(self._at[at] + 12)
            return Kind(sort, "", count_ * self.kind(target).size, target, count_)
        if kind == _FWD:
            return Kind("union" if info >> 31 else sort, self._text(name))
        if kind in (_INT, _STRUCT, _UNION, _ENUM, _ENUM64, _FLOAT):
            return Kind(sort, self._text(name), size)
        if kind == _PTR:
            return Kind(sort, "", self._pointer, size)
        if sort in ("other", "function"):
            return Kind(sort, self._text(name))
        return Kind(sort, self._text(name), self.kind(size).size, size)

    def parts(self, at: Any) -> list[RawMember]:
        _, info, _ = self._three(self._at[at])
        found = []
        for number in range(info & 0xFFFF):
            name, target, place = self._three(self._at[at] + 12 + 12 * number)
            bits, bit = (place >> 24, place & 0xFFFFFF) if info >> 31 else (0, place)
            found.append(RawMember(self._text(name), target, bit, bits))
        return found
