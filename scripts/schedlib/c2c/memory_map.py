# SPDX-License-Identifier: GPL-2.0
"""All of a kernel's memory by name, emulated or real: variables, per-CPU variables, slabs, page tables, stacks."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from elftools.elf.elffile import ELFFile
from msgspec import structs

from schedlib.c2c.c2c_options import KINDS
from schedlib.c2c.kernel_map import KernelMap, Symbol, Units, cached_as, last_before
from schedlib.c2c.objects import UNNAMED, Instance, Resolver, Watch, watches
from schedlib.c2c.observed import PAGE, MemoryPage, ObservedGuest
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import Address, FieldRef, MappedStructure
from schedlib.formats.data_file import read_toml
from schedlib.formats.document import Document
from schedlib.formats.strict import Moment, Positive, Strict, Whole, Word
from schedlib.paths import CONFIGS

VERSION = 7

_SLABS, _TASKS = "mm/slub.c", "kernel/fork.c"
"""The source files that know slabs, and many of the structures that have slabs of their own."""

_OFFSETS = (
    ("page", "compound_info"),
    ("page", "page_type"),
    ("page", "_refcount"),
    ("slab", "slab_cache"),
    ("kmem_cache", "name"),
    ("kmem_cache", "size"),
    ("kmem_cache", "object_size"),
)
_TYPES = ("PGTY_slab", "PGTY_table", "PGTY_large_kmalloc")
_BASES = ("vmemmap_base", "page_offset_base", "vmalloc_base")
"""Variables of x86-64: where page descriptors, the direct map and vmalloc begin."""
_ADDRESS_BITS = re.compile(r"^CONFIG_ARM64_VA_BITS=(\d+)$", re.M)
_PER_CPU = ".data..percpu"

_ENTRY_AREA = range(0xFFFFFE0000000000, 0xFFFFFE8000000000)
"""The stacks and tables with which an x86-64 CPU enters the kernel, see Documentation/arch/x86/x86_64/mm.rst."""

MAP_FILE = "objects.json"

NO_MAP = "no object map: per-CPU variables and allocated memory have no name"
NOT_MAPPED = "memory that the object map does not name"
NO_SLIDE = "it is not known where the kernel lay (KASLR)"
NOT_A_VARIABLE = "between the variables of vmlinux"
_STEP = 1 << 16
"""KASLR moves a kernel by a multiple of this, or of more."""

_LEAST_VOTES, _AGREED = 5, 0.9

_PAGES = {"table": "page tables", "large": "large kmalloc", "stack": "stacks", "other": "pages"}


class SlabCache(Strict, frozen=True):
    """What a slab's objects are; they may be `larger`. `unit`: a source file that uses the structure."""

    structure: str
    larger: bool = False
    unit: str = _TASKS


class ObjectArray(Strict, frozen=True):
    """An array whose elements are structures, or a single object; `unit`: a source file that defines the structure.

    Attributes:
        pointer: the variable that points to the first element. Its value may be a constant of the kernel's code that
            is set when it boots; see include/asm-generic/runtime-const.h.
        last: a variable of 32 bits with the number of the last element; empty for a single object.
    """

    unit: str
    pointer: str
    last: str = ""


class SlabTypes(Strict, frozen=True):
    """configs/slab-types.toml: slab caches by name, and arrays by structure."""

    cache: dict[str, SlabCache]
    array: dict[str, ObjectArray]


@dataclass(frozen=True)
class MemoryMap:
    """What is needed to name the memory of a kernel.

    Attributes:
        numbers: bytes of struct page, the fields in _OFFSETS, and the kinds of pages in _TYPES, in the plan's order.
        first, last: of the per-CPU variables in vmlinux.
        structures: those of slabs and arrays, and struct page.
        arrays: for each structure of an array, the addresses of `pointer` and `last`; 0 if there is no `last`.
        bases: where page descriptors, the direct map and vmalloc begin, as scripts/c2c/memory.h describes it.
    """

    numbers: tuple[int, ...]
    first: int
    last: int
    structures: Mapping[str, MappedStructure]
    arrays: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    bases: tuple[str, ...] = ()


def slab_types(path: Path = CONFIGS / "slab-types.toml") -> SlabTypes:
    return read_toml(path, SlabTypes)


def memory_map(vmlinux: Path, kept: Path, known: KernelMap) -> MemoryMap:
    """The map of a vmlinux, from the cache if it is there; SchedlineError if its slabs or pages are of another kind."""
    types = slab_types()
    parts = ("memory", VERSION, known.build_id, types)
    return cached_as(MemoryMap, kept, parts, lambda: _read(vmlinux, types, known))


def _read(vmlinux: Path, types_of: SlabTypes, known: KernelMap) -> MemoryMap:
    tags = {_TASKS: {"page"}}
    for each in types_of.cache.values():
        tags.setdefault(each.unit, set()).add(each.structure)
    with vmlinux.open("rb") as file:
        elf = ELFFile(file)
        section, units = elf.get_section_by_name(_PER_CPU), Units(elf, vmlinux)
        slabs = units.structures(_SLABS, frozenset({"page", "slab", "kmem_cache"}))
        types = units.enumerators(_SLABS, frozenset(_TYPES))
        structures: dict[str, MappedStructure] = {}
        for name, wanted in tags.items():
            if units.find(name):
                structures |= units.structures(name, frozenset(wanted))
        arrays = {}
        for tag, array in types_of.array.items():
            pointer, number = _pointer(elf, known, array.pointer), known.symbol(array.last)
            if pointer and (number or not array.last):
                arrays[tag] = pointer, number.address if number else 0
                structures |= units.structures(array.unit, frozenset({tag}))
    fields = {(tag, path): slabs[tag].find(path) if tag in slabs else None for tag, path in _OFFSETS}
    lacking = [".".join(name) for name, entry in fields.items() if entry is None]
    lacking += [name for name in _TYPES if name not in types]
    if section is None or lacking:
        raise SchedlineError(
            f"--objects all: this kernel describes its pages in another way: it has no {(lacking or [_PER_CPU])[0]}",
            "name the objects: schedline c2c --objects rq,root_domain",
        )
    start, size = int(section["sh_addr"]), int(section["sh_size"])
    page, offsets = slabs["page"].size, [entry.offset for entry in fields.values() if entry]
    numbers = (page, *offsets[:3], *(types[name] for name in _TYPES), *offsets[3:])
    bases = bases_of(known, vmlinux.with_name(".config"), page)
    return MemoryMap(numbers, start, start + size, structures, arrays, bases)


def _pointer(elf: ELFFile, known: KernelMap, name: str) -> int:
    """Where a guest has the value of a pointer: its variable, or an instruction of x86-64; 0 if it has neither."""
    variable = known.symbol(name)
    constants, text = elf.get_section_by_name(f"runtime_ptr_{name}"), elf.get_section_by_name(".text")
    if variable or constants is None or text is None or elf["e_machine"] != "EM_X86_64":
        return variable.address if variable else 0
    first = int(constants["sh_addr"])
    for at, (distance,) in enumerate(struct.iter_unpack("<i", constants.data())):
        # How far the constant is from this entry. Some are in code that is freed after boot.
        found = int(first + 4 * at + distance) % (1 << 64)
        if int(text["sh_addr"]) <= found < int(text["sh_addr"]) + int(text["sh_size"]):
            return found
    return 0


def bases_of(known: KernelMap, config: Path, page: int) -> tuple[str, ...]:
    """Where page descriptors, of `page` bytes, the direct map and vmalloc begin; empty if that is not known."""
    variables = [f"{symbol.address:x}" for name in _BASES if (symbol := known.symbol(name))]
    if len(variables) == len(_BASES):
        return tuple(variables)
    text = config.read_text() if config.is_file() else ""
    bits = _ADDRESS_BITS.search(text)
    if not bits or "CONFIG_ARM64_4K_PAGES=y\n" not in text:
        return ()
    # See arch/arm64/include/asm/memory.h: PAGE_OFFSET, VA_BITS_MIN, MODULES_END and VMEMMAP_START.
    direct, end = -(1 << int(bits.group(1))), -(1 << (min(int(bits.group(1)), 48) - 1))
    pages = -(1 << 30) - (end - direct) // PAGE * page
    return tuple(f"={place % (1 << 64):x}" for place in (pages, direct, end + (2 << 30)))


def plan_lines(memory: MemoryMap) -> str:
    """The lines of the plan for scripts/c2c/memory.h; SchedlineError if it is not known where memory is mapped."""
    if not memory.bases:
        raise SchedlineError(
            "--objects all: this kernel does not say where its memory is mapped: it has no page_offset_base",
            "--objects all is for x86-64, and arm64 with pages of 4 KiB; name the objects: schedline c2c --objects "
            "rq,root_domain",
        )
    lines = [" ".join(["memory", *memory.bases, *map(str, memory.numbers)])]
    lines += [f"array {tag} {pointer:x} {last:x}" for tag, (pointer, last) in memory.arrays.items()]
    return "".join(f"{line}\n" for line in lines)


def named(known: KernelMap, memory: MemoryMap, raw: ObservedGuest) -> tuple[tuple[Watch, ...], tuple[Instance, ...]]:
    """An object for each address that was counted outside of watched objects; their epoch is 0."""
    namer = MemoryNames(known, memory, raw)
    there: dict[str, Watch] = {}
    instances: dict[tuple[str, int], Instance] = {}
    for address in sorted({record.address for record in raw.records if not record.epoch}):
        watch, cpu, start = namer.object_at(address)
        there.setdefault(watch.key, watch)
        instances.setdefault((watch.key, start), Instance(watch.key, cpu, start, watch.size, 0))
    return tuple(there.values()), tuple(instances.values())


class MemoryNames:
    """Names any address of a kernel that is outside of watched objects, from what was read of its memory."""

    def __init__(self, known: KernelMap, memory: MemoryMap, raw: ObservedGuest) -> None:
        self._known, self._memory = known, memory
        self._pages, self._areas = raw.pages, raw.areas
        # Where each CPU has its per-CPU variables, sorted: there may be hundreds of CPUs.
        self._cpus = sorted(((offset + memory.first) % (1 << 64), cpu) for cpu, offset in enumerate(raw.offsets))
        # Some kernels have their per-CPU variables at 0.
        image = [symbol for symbol in known.data if symbol.address >> 63]
        self._image = range(image[0].address, image[-1].address + image[-1].size) if image else range(0)
        self._types = slab_types().cache
        self._arrays = raw.arrays

    def object_at(self, address: int) -> tuple[Watch, int, int]:
        """The object at an address: its watch, its CPU, and where it begins."""
        memory, begin = self._memory, address // PAGE * PAGE
        at = bisect_right(self._cpus, (address, len(self._cpus))) - 1
        first, cpu = self._cpus[at] if at >= 0 else (address, 0)
        if at >= 0 and address - first < memory.last - memory.first:
            symbol, start = self._symbol(address - first + memory.first, memory.last)
            return _variable(symbol, f"per-CPU {symbol.name}", per_cpu=True), cpu, start - memory.first + first
        for tag, (first, number) in self._arrays.items():
            size = memory.structures[tag].size
            if first <= address < first + number * size:
                return _watch(tag, size, tag=tag), 0, address - (address - first) % size
        if page := self._pages.get(begin):
            return self._of_page(address, page)
        # That of arm64 lies in the area of vmalloc.
        if address in self._image:
            symbol, start = self._symbol(address, 1 << 64)
            return _variable(symbol, symbol.name), 0, start
        pages, _, vmalloc = self._areas
        area = "cpu_entry_area" if address in _ENTRY_AREA else "vmalloc" if vmalloc <= address < pages else ""
        if area:
            return _watch(area, PAGE), 0, begin
        if pages <= address < _ENTRY_AREA.start:
            size = memory.numbers[0]
            return _watch("struct page", size, tag="page"), 0, address - (address - pages) % size
        return self._rest_of_page(UNNAMED, address)

    def _rest_of_page(self, owner: str, address: int) -> tuple[Watch, int, int]:
        """The page of an address, as far as no array lies there."""
        begin = address // PAGE * PAGE
        end = begin + PAGE
        for tag, (first, number) in self._arrays.items():
            behind = first + number * self._memory.structures[tag].size
            if first <= address:
                begin = max(begin, min(behind, address))
            else:
                end = min(end, first)
        return _watch(owner, end - begin), 0, begin

    def _symbol(self, address: int, end: int) -> tuple[Symbol, int]:
        """The variable at an address of vmlinux; else what lies between two variables."""
        data, at = self._known.data, last_before(self._known.data, address)
        symbol = data[at] if at >= 0 else None
        if symbol and address < symbol.address + symbol.size:
            return symbol, symbol.address
        start = symbol.address + symbol.size if symbol else address
        after = data[at + 1].address if at + 1 < len(data) else end
        first = max(start, address // PAGE * PAGE)
        return Symbol(first, max(min(after, first + PAGE) - first, 1), UNNAMED), first

    def _of_page(self, address: int, page: MemoryPage) -> tuple[Watch, int, int]:
        if page.kind != "slab":
            return self._rest_of_page(_PAGES[page.kind], address)
        start = address - (address - page.first) % page.size
        known = self._types.get(page.cache)
        structure = self._memory.structures.get(known.structure) if known else None
        if known is None or structure is None:
            return _watch(f"slab {page.cache}", page.object_size), 0, start
        if structure.size > page.object_size or (structure.size < page.object_size and not known.larger):
            raise SchedlineError(
                f"configs/slab-types.toml: objects of the slab {page.cache} have {page.object_size} bytes, but "
                f"struct {known.structure} has {structure.size}",
                "correct the table for this kernel",
            )
        behind = start + structure.size
        if address >= behind:
            return _watch(f"behind {known.structure}", max(page.size - structure.size, 1)), 0, behind
        return _watch(known.structure, structure.size, tag=known.structure), 0, start


def _watch(owner: str, size: int, *, tag: str = "", per_cpu: bool = False) -> Watch:
    return Watch(f"{owner}:{size}", owner, "", 0, size, tag, per_cpu, 0, (0,), optional=True)


def _variable(symbol: Symbol, owner: str, *, per_cpu: bool = False) -> Watch:
    """A variable, which no pointer leads to; or what lies between two."""
    found = _watch(owner, symbol.size, per_cpu=per_cpu)
    return found if symbol.name == UNNAMED else structs.replace(found, address=symbol.address, hops=())


class MappedArray(Strict, frozen=True):
    structure: Word
    first: Address
    number: Positive


class ObjectMap(Document, frozen=True, kw_only=True):
    """Where a running kernel has its objects: the map that schedline c2c import reads.

    Attributes:
        slide: how far the kernel lies from the addresses in its vmlinux.
        offsets: for each CPU, what to add to the address that a per-CPU variable has in vmlinux.
        areas: where page descriptors, the direct map and vmalloc begin; empty if that is not known.
        pages: those on which samples lie.
    """

    no_control_chars = True

    schema: Literal["c2c-objects-1"]
    tool: Word
    made: Moment
    build_id: Word
    release: Word
    page: Positive
    slide: Whole
    cpus: Positive
    offsets: tuple[Address, ...]
    areas: tuple[Address, ...]
    objects: tuple[Word, ...]
    instances: tuple[Instance, ...]
    pages: tuple[MemoryPage, ...]
    arrays: tuple[MappedArray, ...]


class AddressNames:
    """Names addresses of a running kernel, or says why one has no name; see ScriptSums.

    Without `memory`, slabs have no names. `slide`: how far the kernel lay from vmlinux; None if that is not known.
    """

    def __init__(
        self, known: KernelMap, memory: MemoryMap | None, found: ObjectMap | None, slide: int | None, line: int
    ) -> None:
        if memory:
            known = replace(known, structures={**memory.structures, **known.structures})
        self._known, self._slide, self._map = known, slide, found
        bounds = [*known.functions[:1], *known.functions[-1:], *known.data[-1:]]
        self._low = min((symbol.address for symbol in bounds), default=0)
        self._high = max((symbol.address + max(symbol.size, 1) for symbol in bounds), default=0)
        every = watches(known, found.objects, found.cpus) if found else ()
        instances = [self._named(each) for each in found.instances] if found else []
        strange = {each.key for each in instances} - {each.key for each in every}
        if strange:
            raise SchedlineError(
                f"the object map has {min(strange)}, which this kernel does not have", "make the map again"
            )
        self._resolver = Resolver(known, line, every, instances, everything=True)
        self._memory = None
        if memory and found and len(found.areas) == len(_BASES):
            raw = ObservedGuest(
                pages={each.address: each for each in found.pages},
                areas=found.areas,
                offsets=found.offsets,
                arrays={each.structure: (each.first, each.number) for each in found.arrays},
            )
            self._memory = MemoryNames(known, memory, raw)

    def _named(self, each: Instance) -> Instance:
        linked = self._linked(each.address)
        return structs.replace(each, address=each.address if linked is None else linked, epoch=1)

    def _linked(self, address: int) -> int | None:
        """The address as it is in vmlinux; None if the kernel's image does not lie there."""
        linked = None if self._slide is None else address - self._slide
        return linked if linked is not None and self._low <= linked < self._high else None

    def __call__(self, address: int) -> FieldRef | str:
        linked, in_image = self._linked(address), self._low <= address < self._high
        if linked is None and self._map is None:
            return NO_SLIDE if self._slide is None and in_image else NO_MAP
        place = self._resolver.place(address if linked is None else linked)
        if place.owner != UNNAMED:
            return place
        if linked is not None:
            return self._variable(linked)
        # Where vmlinux has its variables, nothing of it lies once the kernel has moved.
        if self._memory is None or in_image:
            return NOT_MAPPED
        watch, _, start = self._memory.object_at(address)
        return NOT_MAPPED if watch.owner == UNNAMED else self._resolver.inside(watch, start, address)

    def _variable(self, address: int) -> FieldRef | str:
        at = last_before(self._known.data, address)
        symbol = self._known.data[at] if at >= 0 else Symbol(0, 0, UNNAMED)
        if address >= symbol.address + symbol.size:
            return NOT_A_VARIABLE
        kind = None if self._map else KINDS.get(symbol.name)
        tag = kind.tag if kind and kind.symbol == symbol.name else ""
        watch = Watch(symbol.name, symbol.name, "", 0, symbol.size, tag, False, symbol.address, (), optional=False)
        return self._resolver.inside(watch, symbol.address, address)


def slide_of(known: KernelMap, instructions: Iterable[tuple[int, str]]) -> int | None:
    """How far a kernel lay from its vmlinux, by functions that perf saw; None if they are too few or do not agree."""
    named = Counter(symbol.name for symbol in known.functions)
    ranges = {symbol.name: symbol for symbol in known.functions if named[symbol.name] == 1 and 0 < symbol.size < _STEP}
    votes: Counter[int] = Counter()
    for address, name in instructions:
        symbol = ranges.get(name)
        if symbol:
            # The only multiple of _STEP that puts the address into the function, if there is one.
            slide = (address - symbol.address) // _STEP * _STEP
            if symbol.address + slide <= address < symbol.address + symbol.size + slide:
                votes[slide] += 1
    if votes.total() < _LEAST_VOTES:
        return None
    slide, agreed = votes.most_common(1)[0]
    return slide if agreed >= _AGREED * votes.total() else None
