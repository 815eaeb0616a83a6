# SPDX-License-Identifier: GPL-2.0
"""The symbols and structure layouts of a vmlinux, read once and cached by build-id."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import msgspec
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

from schedlib.cache import read_json, write_json
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import Address, MappedField, MappedStructure
from schedlib.formats.strict import Count, Strict, Word
from schedlib.kernel.machine import build_id_of

VERSION = 1
"""Version of the cached map. A map of another version is not used."""

UNIT = "kernel/sched/fair.c"
"""The unit whose types are read: it includes all of the scheduler's headers, and defines `nohz`."""

_NUMBERS = {"atomic_t", "atomic64_t", "atomic_long_t", "refcount_t", "cpumask"}
_LOCKS = {"raw_spinlock_t", "spinlock_t", "seqcount_t"}
_LINKS = {"list_head", "hlist_node", "callback_head", "rb_node", "llist_node", "llist_head"}
WHOLE = frozenset(_NUMBERS | _LOCKS | _LINKS)
"""Types that count as one field, whatever they contain."""

_MOST_ELEMENTS = 512
_FUNCTION, _DATA = 2, 1


class Symbol(Strict, frozen=True):
    """An entry of a symbol table."""

    address: Address
    size: Count
    name: Word


@dataclass(frozen=True)
class KernelMap:
    """The symbols and structures of a kernel; functions and data are sorted by address."""

    build_id: str
    structures: Mapping[str, MappedStructure]
    functions: tuple[Symbol, ...]
    data: tuple[Symbol, ...]

    def symbol(self, name: str) -> Symbol | None:
        """The variable of this name."""
        return next((symbol for symbol in self.data if symbol.name == name), None)


def kernel_map(vmlinux: Path, kept: Path, tags: frozenset[str]) -> KernelMap:
    """The map of a vmlinux, from the cache if it has a map of this build-id.

    Args:
        kept: the directory of cached maps.
        tags: structures to read, or variables whose type has no name.

    Raises:
        SchedlineError: the file is no vmlinux, or was stripped.
    """
    try:
        with vmlinux.open("rb") as file:
            elf = ELFFile(file)
            build_id = build_id_of(elf)
            if not build_id:
                next_step = "build it with --build-id, as the kernel's Makefile does"
                raise SchedlineError("this vmlinux has no build-id", next_step)
            place = kept / f"map-{build_id}.json"
            found = read_json(place)
            wanted = {"version": VERSION, "tags": sorted(tags)}
            if found and {name: found.get(name) for name in wanted} == wanted:
                return msgspec.convert(found, KernelMap)
            functions, data = _symbols(elf)
            if not functions or not data:
                raise _stripped(vmlinux, "symbols")
            read = KernelMap(build_id, structures_of(elf, vmlinux, UNIT, tags), functions, data)
    except OSError as error:
        raise SchedlineError(f"{vmlinux}: {error.strerror}", "build the kernel again") from error
    except SchedlineError:
        raise
    except Exception as error:  # a damaged file makes pyelftools raise anything
        raise SchedlineError(
            f"{vmlinux} is no vmlinux, or a damaged one: {error!r}", "build the kernel again"
        ) from error
    write_json(place, wanted | msgspec.to_builtins(read))
    return read


def _stripped(vmlinux: Path, what: str) -> SchedlineError:
    return SchedlineError(
        f"{vmlinux} has no {what}: it was stripped, or built without", "build with configs/kernel/c2c.config"
    )


def _symbols(elf: ELFFile) -> tuple[tuple[Symbol, ...], tuple[Symbol, ...]]:
    """Functions and variables, each sorted by address."""
    table, names = elf.get_section_by_name(".symtab"), elf.get_section_by_name(".strtab")
    if table is None or names is None:
        return (), ()
    text = names.data()
    found: tuple[list[Symbol], list[Symbol]] = ([], [])
    for name, info, _, section, address, size in struct.iter_unpack("<IBBHQQ", table.data()):
        if section and info & 15 in (_FUNCTION, _DATA):
            word = text[name : text.index(b"\0", name)].decode(errors="replace")
            found[info & 15 == _DATA].append(Symbol(address, size, word))
    functions, data = (tuple(sorted(each, key=attrgetter("address", "name"))) for each in found)
    return functions, data


def structures_of(elf: ELFFile, vmlinux: Path, unit: str, tags: frozenset[str]) -> dict[str, MappedStructure]:
    """The structures of these names that a source file sees; SchedlineError if there is no such debug information."""
    return _of_unit(_unit(elf, vmlinux, unit), tags)


def structures_of_units(
    elf: ELFFile, vmlinux: Path, wanted: Mapping[str, frozenset[str]]
) -> dict[str, MappedStructure]:
    """The structures of these names, by the source file that sees them; a kernel may lack some files.

    Raises:
        SchedlineError: there is no debug information.
    """
    found: dict[str, MappedStructure] = {}
    left = set(wanted)
    for name, unit in _units(elf, vmlinux):
        for each in [each for each in left if name.endswith(each)]:
            found |= _of_unit(unit, wanted[each])
            left.remove(each)
    return found


def enumerators(elf: ELFFile, vmlinux: Path, unit: str, names: frozenset[str]) -> dict[str, int]:
    """The values of these enumerators that a source file sees; SchedlineError as for structures_of()."""
    found: dict[str, int] = {}
    compiled = _unit(elf, vmlinux, unit)
    for die in compiled.iter_DIE_children(compiled.get_top_DIE()):
        if die.tag == "DW_TAG_enumeration_type":
            for each in die.iter_children():
                if _name(each) in names:
                    found[_name(each)] = int(each.attributes["DW_AT_const_value"].value)
    return found


def _units(elf: ELFFile, vmlinux: Path) -> Iterator[tuple[str, CompileUnit]]:
    if elf.get_section_by_name(".debug_info") is None:
        raise _stripped(vmlinux, "debug information")
    dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
    for unit in dwarf.iter_CUs():
        name = unit.get_top_DIE().attributes.get("DW_AT_name")
        if name is not None:
            yield name.value.decode(errors="replace"), unit


def _unit(elf: ELFFile, vmlinux: Path, wanted: str) -> CompileUnit:
    for name, unit in _units(elf, vmlinux):
        if name.endswith(wanted):
            return unit
    raise SchedlineError(f"{vmlinux} has no debug information of {wanted}", "build with configs/kernel/c2c.config")


def _of_unit(unit: CompileUnit, tags: frozenset[str]) -> dict[str, MappedStructure]:
    found: dict[str, MappedStructure] = {}
    for die in unit.iter_DIE_children(unit.get_top_DIE()):
        name = _name(die)
        if name not in tags or name in found or "DW_AT_declaration" in die.attributes:
            continue
        kind = die if die.tag == "DW_TAG_structure_type" else None
        if die.tag == "DW_TAG_variable" and "DW_AT_type" in die.attributes:
            kind = _plain(_type(die))
        if kind is not None and kind.tag == "DW_TAG_structure_type":
            fields = sorted(_fields(kind, 0, ""), key=lambda field: field.offset)
            found[name] = MappedStructure(_size(kind), tuple(fields))
    return found


def _name(die: DIE) -> str:
    name = die.attributes.get("DW_AT_name")
    return name.value.decode(errors="replace") if name is not None else ""


def _type(die: DIE) -> DIE:
    return die.get_DIE_from_attribute("DW_AT_type")


def _plain(die: DIE) -> DIE:
    """Strip typedefs and qualifiers from a type, but stop at a name in WHOLE."""
    while die.tag in ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type") and _name(die) not in WHOLE:
        if "DW_AT_type" not in die.attributes:
            break
        die = _type(die)
    return die


def _size(die: DIE) -> int:
    """The size of a type in bytes; 0 if it has none, such as a flexible array."""
    if "DW_AT_byte_size" in die.attributes:
        return int(die.attributes["DW_AT_byte_size"].value)
    if "DW_AT_type" not in die.attributes:
        return 0
    number = _elements(die) if die.tag == "DW_TAG_array_type" else 1
    return number * _size(_type(die))


def _elements(array: DIE) -> int:
    number = 1
    for child in array.iter_children():
        if child.tag == "DW_TAG_subrange_type":
            bounds = child.attributes
            if "DW_AT_count" in bounds:
                number *= int(bounds["DW_AT_count"].value)
            else:
                number *= int(bounds["DW_AT_upper_bound"].value) + 1 if "DW_AT_upper_bound" in bounds else 0
    return number


def _fields(die: DIE, start: int, path: str) -> Iterator[MappedField]:
    """The fields of a type at the offset `start`; their names begin with `path`."""
    kind = _plain(die)
    if _name(kind) not in WHOLE and kind.tag in ("DW_TAG_structure_type", "DW_TAG_union_type"):
        for member in kind.iter_children():
            if member.tag == "DW_TAG_member":
                yield from _member(member, start, path)
        return
    if kind.tag == "DW_TAG_array_type":
        element = _plain(_type(kind))
        number = _elements(kind)
        if number <= _MOST_ELEMENTS and (
            element.tag in ("DW_TAG_structure_type", "DW_TAG_pointer_type", "DW_TAG_union_type")
        ):
            for index in range(number):
                yield from _fields(element, start + index * _size(element), f"{path}[{index}]")
            return
    pointee = ""
    if kind.tag == "DW_TAG_pointer_type":
        pointee = _name(_plain(_type(kind))) if "DW_AT_type" in kind.attributes else "void"
    if size := _size(kind):
        yield MappedField(start, size, path, pointee)


def _member(member: DIE, start: int, path: str) -> Iterator[MappedField]:
    name = _name(member)
    below = f"{path}.{name}" if path and name else path or name
    bits = member.attributes.get("DW_AT_data_bit_offset")
    if bits is not None:
        first, last = bits.value, bits.value + member.attributes["DW_AT_bit_size"].value - 1
        yield MappedField(start + first // 8, last // 8 - first // 8 + 1, below, "")
        return
    place = member.attributes.get("DW_AT_data_member_location")
    yield from _fields(_type(member), start + (place.value if place is not None else 0), below)
