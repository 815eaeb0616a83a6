# SPDX-License-Identifier: GPL-2.0
"""All of a kernel's memory by name: variables, per-CPU variables, objects of slabs, page tables, stacks."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from elftools.elf.elffile import ELFFile

from schedlib.c2c.kernel_map import KernelMap, Symbol, Units, cached_as, last_before
from schedlib.c2c.objects import UNNAMED, Instance, Watch
from schedlib.c2c.observed import PAGE, MemoryPage, Raw
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import MappedStructure
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Strict
from schedlib.paths import CONFIGS

VERSION = 6

_SLABS, _TASKS = "mm/slub.c", "kernel/fork.c"
"""The units that know slabs, and many of the structures that have slabs of their own."""

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

_PAGES = {"table": "page tables", "large": "large kmalloc", "stack": "stacks", "other": "pages"}


class SlabCache(Strict, frozen=True):
    """What a slab's objects are.

    Attributes:
        larger: the objects may be larger.
        unit: a source file that uses the structure.
    """

    structure: str
    larger: bool = False
    unit: str = _TASKS


class ObjectArray(Strict, frozen=True):
    """An array whose elements are structures, or a single object.

    Attributes:
        unit: a source file that defines the structure.
        pointer: the variable that points to the first element, or to the object. Its value may be a constant of the
            kernel's code that is set when it boots; see include/asm-generic/runtime-const.h.
        last: a variable of 32 bits with the number of the last element; empty for a single object.
    """

    unit: str
    pointer: str
    last: str = ""


class SlabTypes(Strict, frozen=True):
    """configs/slab-types.toml: slab caches by name, and arrays by the structure of their elements."""

    cache: dict[str, SlabCache]
    array: dict[str, ObjectArray]


@dataclass(frozen=True)
class MemoryMap:
    """What is needed to name the memory of a kernel.

    Attributes:
        offsets: the fields in _OFFSETS.
        types: the kinds of pages in _TYPES.
        page: bytes of struct page.
        first, last: of the per-CPU variables in vmlinux.
        structures: those of slabs and arrays, and struct page.
        arrays: for each structure of an array, the addresses of `pointer` and `last`; 0 if there is no `last`.
        bases: where page descriptors, the direct map and vmalloc begin, as scripts/c2c/memory.h describes it.
    """

    offsets: tuple[int, ...]
    types: tuple[int, ...]
    page: int
    first: int
    last: int
    structures: Mapping[str, MappedStructure]
    arrays: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    bases: tuple[str, ...] = ()


def slab_types(path: Path = CONFIGS / "slab-types.toml") -> SlabTypes:
    """The table; SchedlineError if the file is none."""
    return read_toml(path, SlabTypes)


def memory_map(vmlinux: Path, kept: Path, known: KernelMap) -> MemoryMap:
    """The map of a vmlinux, from the cache if it is there; SchedlineError if its slabs or pages are of another kind."""
    types_of = slab_types()
    parts = ("memory", VERSION, known.build_id, types_of)
    return cached_as(MemoryMap, kept, parts, lambda: _read(vmlinux, types_of, known))


def _read(vmlinux: Path, types_of: SlabTypes, known: KernelMap) -> MemoryMap:
    tags = {_TASKS: {"page"}}
    for each in types_of.cache.values():
        tags.setdefault(each.unit, set()).add(each.structure)
    with vmlinux.open("rb") as file:
        elf = ELFFile(file)
        section, units = elf.get_section_by_name(_PER_CPU), Units(elf, vmlinux)
        slub = units.need(_SLABS)
        slabs = slub.structures(frozenset({"page", "slab", "kmem_cache"}))
        types = slub.enumerators(frozenset(_TYPES))
        structures: dict[str, MappedStructure] = {}
        for name, wanted in tags.items():
            if unit := units.find(name):
                structures |= unit.structures(frozenset(wanted))
        arrays = {}
        for tag, array in types_of.array.items():
            pointer, number = _pointer(elf, known, array.pointer), known.symbol(array.last)
            if pointer and (number or not array.last):
                arrays[tag] = pointer, number.address if number else 0
                structures |= units.need(array.unit).structures(frozenset({tag}))
    fields = {(tag, path): slabs[tag].find(path) if tag in slabs else None for tag, path in _OFFSETS}
    offsets = [entry.offset for entry in fields.values() if entry]
    lacking = [".".join(name) for name, entry in fields.items() if entry is None]
    lacking += [name for name in _TYPES if name not in types]
    if section is None or lacking:
        raise SchedlineError(
            f"--objects all: this kernel describes its pages in another way: it has no {(lacking or [_PER_CPU])[0]}",
            "name the objects: schedline c2c --objects rq,root_domain",
        )
    start, size = int(section["sh_addr"]), int(section["sh_size"])
    return MemoryMap(
        tuple(offsets),
        tuple(types[name] for name in _TYPES),
        slabs["page"].size,
        start,
        start + size,
        structures,
        arrays,
        bases_of(known, vmlinux.with_name(".config"), slabs["page"].size),
    )


def memory_map_if_known(vmlinux: Path, kept: Path, known: KernelMap) -> MemoryMap | None:
    """The same; None if this kernel describes its pages otherwise: then slabs have no names."""
    try:
        return memory_map(vmlinux, kept, known)
    except SchedlineError:
        return None


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
    """Where page descriptors, the direct map and vmalloc begin; empty if that is not known.

    The configuration says how an arm64 kernel divides its addresses; `page` is the size of struct page.
    """
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
    head, kind, users, cache, name, size, object_size = memory.offsets
    slab, table, large = memory.types
    numbers = (memory.page, head, kind, users, slab, table, large, cache, name, size, object_size)
    lines = [" ".join(["memory", *memory.bases, *map(str, numbers)])]
    lines += [f"array {tag} {pointer:x} {last:x}" for tag, (pointer, last) in memory.arrays.items()]
    return "".join(f"{line}\n" for line in lines)


def named(known: KernelMap, memory: MemoryMap, raw: Raw) -> tuple[tuple[Watch, ...], tuple[Instance, ...]]:
    """An object for each address that was counted outside of watched objects; their epoch is 0."""
    namer = MemoryNames(known, memory, raw)
    watches: dict[str, Watch] = {}
    instances: dict[tuple[str, int], Instance] = {}
    for address in sorted({record.address for record in raw.records if not record.epoch}):
        watch, cpu, start = namer.object_at(address)
        watches.setdefault(watch.key, watch)
        instances.setdefault((watch.key, start), Instance(watch.key, cpu, start, watch.size, 0))
    return tuple(watches.values()), tuple(instances.values())


class MemoryNames:
    """Names any address of a kernel that is outside of watched objects, from what was read of its memory."""

    def __init__(self, known: KernelMap, memory: MemoryMap, raw: Raw) -> None:
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
            return _watch(f"per-CPU {symbol.name}", symbol.size, per_cpu=True), cpu, start - memory.first + first
        for tag, (first, number) in self._arrays.items():
            size = memory.structures[tag].size
            if first <= address < first + number * size:
                return _watch(tag, size, tag=tag), 0, address - (address - first) % size
        if page := self._pages.get(begin):
            return self._of_page(address, page)
        # That of arm64 lies in the area of vmalloc.
        if address in self._image:
            symbol, start = self._symbol(address, 1 << 64)
            return _watch(symbol.name, symbol.size), 0, start
        pages, _, vmalloc = self._areas
        area = "cpu_entry_area" if address in _ENTRY_AREA else "vmalloc" if vmalloc <= address < pages else ""
        if area:
            return _watch(area, PAGE), 0, begin
        if pages <= address < _ENTRY_AREA.start:
            return _watch("struct page", memory.page, tag="page"), 0, address - (address - pages) % memory.page
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
