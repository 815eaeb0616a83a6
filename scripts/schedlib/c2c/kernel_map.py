# SPDX-License-Identifier: GPL-2.0
"""The symbols and structure layouts of a vmlinux, read once and cached by build-id."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import msgspec
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

from schedlib.cache import cached
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import Address, MappedField, MappedStructure
from schedlib.formats.strict import Count, Strict, Word
from schedlib.kernel.machine import build_id_of
from schedlib.layout.debug_info import Dwarf, symbols_in

VERSION = 2
"""Version of the cached map. A map of another version is not used."""

UNIT = "kernel/sched/fair.c"
"""The unit whose types are read: it includes all of the scheduler's headers, and defines `nohz`."""

_NUMBERS = {"atomic_t", "atomic64_t", "atomic_long_t", "refcount_t", "cpumask"}
_LOCKS = {"raw_spinlock_t", "spinlock_t", "seqcount_t"}
_LINKS = {"list_head", "hlist_node", "callback_head", "rb_node", "llist_node", "llist_head"}
WHOLE = frozenset(_NUMBERS | _LOCKS | _LINKS)
"""Types that count as one field, whatever they contain."""

_T = TypeVar("_T")
_MOST_ELEMENTS = 512
_FUNCTION, _DATA = 2, 1


class Symbol(Strict, frozen=True):
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
        return next((symbol for symbol in self.data if symbol.name == name), None)


def last_before(symbols: Sequence[Symbol], address: int) -> int:
    """The number of the symbol that begins last at an address or before it, of symbols by address; -1 if none does."""
    return bisect_right(symbols, address, key=attrgetter("address")) - 1


def cached_as(kind: type[_T], place: Path, parts: Sequence[object], make: Callable[[], _T]) -> _T:
    """A value of a type that msgspec knows, from the cache if possible; see cached()."""
    return msgspec.convert(cached(place, parts, lambda: msgspec.to_builtins(make())), kind)


def kernel_map(vmlinux: Path, kept: Path, tags: frozenset[str]) -> KernelMap:
    """The map of a vmlinux, with these structures, or variables whose type has no name; maps are in `kept`."""
    try:
        with vmlinux.open("rb") as file:
            elf = ELFFile(file)
            build_id = build_id_of(elf)
            if not build_id:
                raise SchedlineError("this vmlinux has no build-id", "build it with --build-id, as the kernel does")

            def read() -> KernelMap:
                functions, data = _symbols(elf)
                if not functions or not data:
                    raise _lacks(vmlinux, "symbols")
                return KernelMap(build_id, Units(elf, vmlinux).structures(UNIT, tags), functions, data)

            return cached_as(KernelMap, kept, ("map", VERSION, build_id, tags), read)
    except SchedlineError:
        raise
    except Exception as error:  # a damaged file makes pyelftools raise anything
        next_step = "build the kernel again"
        raise SchedlineError(f"{vmlinux} is no vmlinux, or a damaged one: {error!r}", next_step) from error


def _lacks(vmlinux: Path, what: str, why: str = ": it was stripped, or built without") -> SchedlineError:
    return SchedlineError(f"{vmlinux} has no {what}{why}", "build with configs/kernel/c2c.config")


def _symbols(elf: ELFFile) -> tuple[tuple[Symbol, ...], ...]:
    found: dict[int, list[Symbol]] = {_FUNCTION: [], _DATA: []}
    for name, kind, section, address, size in symbols_in(elf):
        if section and kind in found:
            found[kind].append(Symbol(address, size, name))
    return tuple(tuple(sorted(each, key=attrgetter("address", "name"))) for each in found.values())


class Units:
    """What the source files of a kernel have seen, by its debug information."""

    def __init__(self, elf: ELFFile, vmlinux: Path) -> None:
        if elf.get_section_by_name(".debug_info") is None:
            raise _lacks(vmlinux, "debug information")
        self._vmlinux, self._info = vmlinux, elf.get_dwarf_info(relocate_dwarf_sections=False)
        self._types = Dwarf(self._info)
        self._seen: dict[str, CompileUnit] = {}
        self._rest = self._info.iter_CUs()

    def find(self, file: str) -> CompileUnit | None:
        """A source file, by the end of its path; a kernel may lack it."""
        for name, unit in self._seen.items():
            if name.endswith(file):
                return unit
        for unit in self._rest:
            name = _name(unit.get_top_DIE())
            self._seen[name] = unit
            if name.endswith(file):
                return unit
        return None

    def _entries(self, file: str) -> Iterator[DIE]:
        unit = self.find(file)
        if unit is None:
            raise _lacks(self._vmlinux, f"debug information of {file}", "")
        yield from unit.iter_DIE_children(unit.get_top_DIE())

    def enumerators(self, file: str, names: frozenset[str]) -> dict[str, int]:
        """Enumerators that a source file sees; SchedlineError if the kernel lacks the file."""
        return {
            _name(each): int(each.attributes["DW_AT_const_value"].value)
            for die in self._entries(file)
            if die.tag == "DW_TAG_enumeration_type"
            for each in die.iter_children()
            if _name(each) in names
        }

    def structures(self, file: str, tags: frozenset[str]) -> dict[str, MappedStructure]:
        """The structures of these names, and of variables of these names whose type has none; see enumerators()."""
        found: dict[str, MappedStructure] = {}
        for die in self._entries(file):
            name = _name(die)
            if name not in tags or name in found or "DW_AT_declaration" in die.attributes:
                continue
            at = die if die.tag == "DW_TAG_structure_type" else None
            if die.tag == "DW_TAG_variable" and "DW_AT_type" in die.attributes:
                at = self._plain(die.get_DIE_from_attribute("DW_AT_type"))
            if at is not None and self._types.kind(at).sort == "struct":
                fields = sorted(self._fields(at, 0, ""), key=lambda field: field.offset)
                found[name] = MappedStructure(self._types.kind(at).size, tuple(fields))
        return found

    def _plain(self, at: DIE) -> DIE:
        """Strip typedefs and qualifiers from a type, but stop at a name in WHOLE."""
        while (kind := self._types.kind(at)).sort in ("typedef", "const", "volatile") and kind.name not in WHOLE:
            if kind.target is None:
                break
            at = kind.target
        return at

    def _fields(self, at: DIE, start: int, path: str) -> Iterator[MappedField]:
        """The fields of a type at the offset `start`; their names begin with `path`."""
        at = self._plain(at)
        kind = self._types.kind(at)
        if kind.name not in WHOLE and kind.sort in ("struct", "union"):
            for part in self._types.parts(at):
                below = f"{path}.{part.name}" if path and part.name else path or part.name
                first, last = part.bit // 8, (part.bit + part.bits - 1) // 8
                if part.bits:
                    yield MappedField(start + first, last - first + 1, below, "")
                else:
                    yield from self._fields(part.type, start + first, below)
            return
        if kind.sort == "array" and kind.count <= _MOST_ELEMENTS:
            element = self._types.kind(self._plain(kind.target))
            if element.sort in ("struct", "pointer", "union"):
                for index in range(kind.count):
                    yield from self._fields(kind.target, start + index * element.size, f"{path}[{index}]")
                return
        pointee = ""
        if kind.sort == "pointer":
            pointee = self._types.kind(self._plain(kind.target)).name if kind.target else "void"
        if kind.size:
            yield MappedField(start, kind.size, path, pointee)


def _name(die: DIE) -> str:
    name = die.attributes.get("DW_AT_name")
    return name.value.decode(errors="replace") if name is not None else ""
