# SPDX-License-Identifier: GPL-2.0
"""All of a kernel's memory by name: variables, per-CPU variables, objects of slabs, page tables, stacks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from elftools.elf.elffile import ELFFile

from schedlib.c2c.kernel_map import KernelMap, enumerators, structures_of
from schedlib.c2c.objects import UNNAMED, Watch
from schedlib.c2c.raw import Page, Raw
from schedlib.cache import read_json, write_json
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import MappedStructure
from schedlib.formats.c2c_trace_document import Instance, Symbol
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Strict
from schedlib.paths import CONFIGS

VERSION = 1

_SLABS, _TASKS = "mm/slub.c", "kernel/fork.c"
"""The units that know slabs, and most of the structures that have slabs of their own."""

_OFFSETS = (
    ("page", "compound_info"),
    ("page", "page_type"),
    ("slab", "slab_cache"),
    ("kmem_cache", "name"),
    ("kmem_cache", "size"),
    ("kmem_cache", "object_size"),
)
_TYPES = ("PGTY_slab", "PGTY_table", "PGTY_large_kmalloc")
_BASES = ("vmemmap_base", "page_offset_base", "vmalloc_base")
_PER_CPU = ".data..percpu"

_PAGE = 4096
_ENTRY_AREA = range(0xFFFFFE0000000000, 0xFFFFFE8000000000)
"""The stacks and tables with which an x86-64 CPU enters the kernel, see Documentation/arch/x86/x86_64/mm.rst."""

_PAGES = {"table": "page tables", "large": "large kmalloc", "stack": "stacks", "other": "pages"}


class SlabCache(Strict, frozen=True):
    """The structure of a slab's objects; `larger`: the objects may be larger."""

    structure: str
    larger: bool = False


class SlabTypes(Strict, frozen=True):
    """configs/slab-types.toml: slab caches by name."""

    cache: dict[str, SlabCache]


@dataclass(frozen=True)
class MemoryMap:
    """What is needed to name the memory of a kernel.

    Attributes:
        offsets: the fields in _OFFSETS.
        types: the kinds of pages in _TYPES.
        page: bytes of struct page.
        first, last: of the per-CPU variables in vmlinux.
        structures: those of slabs, and struct page.
    """

    offsets: tuple[int, ...]
    types: tuple[int, ...]
    page: int
    first: int
    last: int
    structures: Mapping[str, MappedStructure]


def slab_types(path: Path = CONFIGS / "slab-types.toml") -> dict[str, SlabCache]:
    """The structure of each slab's objects, by the cache's name; SchedlineError if the file is no such table."""
    return read_toml(path, SlabTypes).cache


def memory_map(vmlinux: Path, kept: Path, build_id: str) -> MemoryMap:
    """The map of a vmlinux, from the cache if it is there; SchedlineError if its slabs or pages are of another kind."""
    tags = sorted({"page", *(each.structure for each in slab_types().values())})
    place, wanted = kept / f"memory-{build_id}.json", {"version": VERSION, "tags": tags}
    found = read_json(place)
    if found and {name: found.get(name) for name in wanted} == wanted:
        return msgspec.convert(found, MemoryMap)
    with vmlinux.open("rb") as file:
        elf = ELFFile(file)
        section = elf.get_section_by_name(_PER_CPU)
        slabs = structures_of(elf, vmlinux, _SLABS, frozenset({"page", "slab", "kmem_cache"}))
        types = enumerators(elf, vmlinux, _SLABS, frozenset(_TYPES))
        structures = structures_of(elf, vmlinux, _TASKS, frozenset(tags))
    fields = [slabs[tag].find(path) if tag in slabs else None for tag, path in _OFFSETS]
    lacking = [".".join(name) for name, field in zip(_OFFSETS, fields, strict=True) if field is None]
    lacking += [name for name in _TYPES if name not in types]
    if section is None or lacking:
        raise SchedlineError(
            f"--objects all: this kernel describes its pages in another way: it has no {(lacking or [_PER_CPU])[0]}",
            "name the objects: schedline c2c --objects rq,root_domain",
        )
    start, size = int(section["sh_addr"]), int(section["sh_size"])
    read = MemoryMap(
        tuple(field.offset for field in fields if field),
        tuple(types[name] for name in _TYPES),
        slabs["page"].size,
        start,
        start + size,
        structures,
    )
    write_json(place, wanted | msgspec.to_builtins(read))
    return read


def plan_line(known: KernelMap, memory: MemoryMap) -> str:
    """The line of the plan for scripts/c2c/memory.h; SchedlineError if the kernel lacks a variable."""
    symbols = [known.symbol(name) for name in _BASES]
    if None in symbols:
        raise SchedlineError(
            "--objects all: this kernel has no page_offset_base, which says where its memory is mapped",
            "--objects all is for x86-64; name the objects: schedline c2c --objects rq,root_domain",
        )
    head, kind, cache, name, size, object_size = memory.offsets
    slab, table, large = memory.types
    numbers = (memory.page, head, kind, slab, table, large, cache, name, size, object_size)
    return " ".join(["memory", *(f"{each.address:x}" for each in symbols if each), *map(str, numbers)]) + "\n"


def named(known: KernelMap, memory: MemoryMap, raw: Raw) -> tuple[tuple[Watch, ...], tuple[Instance, ...]]:
    """An object for each address that was counted outside of watched objects; their epoch is 0."""
    namer = _Namer(known, memory, raw)
    watches: dict[str, Watch] = {}
    instances: dict[tuple[str, int], Instance] = {}
    for address in sorted({record.address for record in raw.records if not record.epoch}):
        watch, cpu, start = namer.object_at(address)
        watches.setdefault(watch.key, watch)
        instances.setdefault((watch.key, start), Instance(watch.key, cpu, start, watch.size, 0))
    return tuple(watches.values()), tuple(instances.values())


class _Namer:
    def __init__(self, known: KernelMap, memory: MemoryMap, raw: Raw) -> None:
        self._known, self._memory = known, memory
        self._pages, self._areas, self._offsets = raw.pages, raw.areas, raw.offsets
        self._starts = [symbol.address for symbol in known.data]
        self._types = slab_types()

    def object_at(self, address: int) -> tuple[Watch, int, int]:
        """The object at an address: its watch, its CPU, and where it begins."""
        memory = self._memory
        for cpu, offset in enumerate(self._offsets):
            at = (address - offset) % (1 << 64)
            if memory.first <= at < memory.last:
                symbol, start = self._symbol(at, memory.last)
                return _watch(f"per-CPU {symbol.name}", symbol.size, per_cpu=True), cpu, (start + offset) % (1 << 64)
        page = self._pages.get(address // _PAGE * _PAGE)
        if page is not None:
            return self._of_page(address, page)
        pages, _, vmalloc = self._areas
        area = "cpu_entry_area" if address in _ENTRY_AREA else "vmalloc" if vmalloc <= address < pages else ""
        if area:
            return _watch(area, _PAGE), 0, address // _PAGE * _PAGE
        if pages <= address < _ENTRY_AREA.start:
            return _watch("struct page", memory.page, tag="page"), 0, address - (address - pages) % memory.page
        if self._starts and self._starts[0] <= address:
            symbol, start = self._symbol(address, 1 << 64)
            return _watch(symbol.name, symbol.size), 0, start
        return _watch(UNNAMED, _PAGE), 0, address // _PAGE * _PAGE

    def _symbol(self, address: int, end: int) -> tuple[Symbol, int]:
        """The variable at an address of vmlinux; else what lies between two variables."""
        at = bisect_right(self._starts, address) - 1
        symbol = self._known.data[at] if at >= 0 else None
        if symbol and address < symbol.address + symbol.size:
            return symbol, symbol.address
        start = symbol.address + symbol.size if symbol else address
        after = self._starts[at + 1] if at + 1 < len(self._starts) else end
        first = max(start, address // _PAGE * _PAGE)
        return Symbol(first, max(min(after, first + _PAGE) - first, 1), UNNAMED), first

    def _of_page(self, address: int, page: Page) -> tuple[Watch, int, int]:
        if page.kind != "slab":
            return _watch(_PAGES[page.kind], _PAGE), 0, address // _PAGE * _PAGE
        start = address - (address - page.first) % page.size
        known = self._types.get(page.cache)
        structure = self._memory.structures.get(known.structure) if known else None
        if known and structure:
            fits = structure.size <= page.object_size if known.larger else structure.size == page.object_size
            if not fits:
                raise SchedlineError(
                    f"configs/slab-types.toml: objects of the slab {page.cache} have {page.object_size} bytes, but "
                    f"struct {known.structure} has {structure.size}",
                    "correct the table for this kernel",
                )
            behind = start + structure.size
            if address >= behind:
                return _watch(f"behind {known.structure}", max(page.size - structure.size, 1)), 0, behind
            return _watch(known.structure, structure.size, tag=known.structure), 0, start
        return _watch(f"slab {page.cache}", page.object_size), 0, start


def _watch(owner: str, size: int, *, tag: str = "", per_cpu: bool = False) -> Watch:
    return Watch(f"{owner}:{size}", owner, "", 0, size, tag, per_cpu, 0, (0,), optional=True)
