# SPDX-License-Identifier: GPL-2.0
"""Names the addresses in samples of a real machine, from its vmlinux and a map of its objects. Nothing is guessed."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from msgspec import structs

from schedlib.c2c.c2c_options import KINDS, TAGS
from schedlib.c2c.kernel_map import KernelMap, Symbol, kernel_map
from schedlib.c2c.memory_map import MemoryMap, MemoryNames, memory_map_if_known
from schedlib.c2c.objects import UNNAMED, Instance, Resolver, Watch, watches
from schedlib.c2c.observed import MemoryPage, Raw
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import Address, Place
from schedlib.formats.document import Document
from schedlib.formats.strict import Moment, Positive, Strict, Whole, Word

MAP_FILE = "objects.json"


NO_MAP = "no object map: per-CPU variables and allocated memory have no name"
NOT_MAPPED = "memory that the object map does not name"
NO_SLIDE = "it is not known where the kernel lay (KASLR)"
NOT_A_VARIABLE = "between the variables of vmlinux"
_STEP = 1 << 16
"""KASLR moves a kernel by a multiple of this, or of more."""

_AREAS = 3
_LEAST_VOTES, _AGREED = 5, 0.9


class MappedArray(Strict, frozen=True):
    """An array of structures: its first element, and how many it has."""

    structure: Word
    first: Address
    number: Positive


class ObjectMap(Document, frozen=True, kw_only=True):
    """Where a running kernel has its objects: the map that schedline c2c import reads.

    All addresses are those of the running kernel.

    Attributes:
        tool: name and version of what wrote this file.
        made: with time zone.
        release: of the kernel, as `uname -r` prints it.
        page: bytes of a page.
        slide: how far the kernel lies from the addresses in its vmlinux.
        cpus: possible CPUs.
        offsets: for each of them, what to add to the address that a per-CPU variable has in vmlinux.
        areas: where page descriptors, the direct map and vmalloc begin; empty if that is not known.
        objects: names of the watched objects, as --objects takes them.
        instances: where they lie; keys are those of schedline c2c for such a kernel and so many CPUs.
        pages: the pages on which samples lie.
        arrays: arrays of structures behind a pointer.
    """

    only_lines = True

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


def read_objects(path: Path) -> ObjectMap:
    """Read an object map from its file, or from the directory that contains the file.

    Raises Refused: the file is not a valid map.
    """
    return document.read_below(path, MAP_FILE, ObjectMap, "see docs/c2c.md, Beside a real machine")


class AddressNames:
    """Names addresses; see schedlib.c2c.perf_script.Names.

    Args:
        memory: what is needed to name slabs and per-CPU variables; None if this kernel describes its pages otherwise.
        found: the map of the objects of the machine that was measured.
        line: bytes of a cache line.
    """

    def __init__(self, known: KernelMap, memory: MemoryMap | None, found: ObjectMap | None, line: int) -> None:
        structures = {**memory.structures, **known.structures} if memory else known.structures
        self._known = KernelMap(known.build_id, structures, known.functions, known.data)
        self._slide = found.slide if found else None
        self._map = found
        self._starts = [symbol.address for symbol in known.data]
        bounds = [*known.functions[:1], *known.functions[-1:], *known.data[-1:]]
        self._low = min((symbol.address for symbol in bounds), default=0)
        self._high = max((symbol.address + max(symbol.size, 1) for symbol in bounds), default=0)
        self._resolver = Resolver(self._known, line, *self._objects(found), everything=True)
        usable = memory and found and len(found.areas) == _AREAS
        self._memory = MemoryNames(self._known, memory, self._raw(found)) if memory and usable else None

    def moved(self, slide: int | None) -> None:
        """Say how far the kernel lay from the addresses in vmlinux, if there is no map that does; None: not known."""
        self._slide = slide

    def __call__(self, address: int) -> Place | str:
        """The place of an address of the running kernel, or why it has none."""
        if self._slide is not None and self._in_image(address - self._slide):
            return self._in_vmlinux(address - self._slide)
        if self._slide is None and self._in_image(address):
            return NO_SLIDE
        return self._outside(address)

    def _in_vmlinux(self, address: int) -> Place | str:
        """The place of an address as it is in vmlinux."""
        place = self._resolver.place(address)
        if place.owner != UNNAMED:
            return place
        at = bisect_right(self._starts, address) - 1
        symbol = self._known.data[at] if at >= 0 else Symbol(0, 0, UNNAMED)
        if address >= symbol.address + symbol.size:
            return NOT_A_VARIABLE
        watch = Watch(symbol.name, symbol.name, "", 0, symbol.size, "", False, symbol.address, (), optional=False)
        return self._resolver.inside(watch, symbol.address, address)

    def _outside(self, address: int) -> Place | str:
        if self._map is None:
            return NO_MAP
        place = self._resolver.place(address)
        if place.owner != UNNAMED:
            return place
        # Where vmlinux has its variables, nothing of it lies once the kernel has moved.
        if self._memory is None or self._in_image(address):
            return NOT_MAPPED
        watch, _, start = self._memory.object_at(address)
        return NOT_MAPPED if watch.owner == UNNAMED else self._resolver.inside(watch, start, address)

    def _in_image(self, address: int) -> bool:
        return self._low <= address < self._high

    def _objects(self, found: ObjectMap | None) -> tuple[list[Watch], list[Instance]]:
        """What is named without reading memory. Without a map these are variables whose address is in vmlinux."""
        if found is None:
            names = [name for name, kind in KINDS.items() if not kind.per_cpu and not kind.hops]
            there = [each for name in names for each in self._watches((name,), 1) if not each.hops]
            return there, [Instance(each.key, 0, each.address, each.size, 1) for each in there]
        every = list(watches(self._known, found.objects, found.cpus))
        strange = {each.key for each in found.instances} - {each.key for each in every}
        if strange:
            raise SchedlineError(
                f"the object map has {min(strange)}, which this kernel does not have", "make the map again"
            )
        return every, [structs.replace(each, address=self._linked(each.address), epoch=1) for each in found.instances]

    def _watches(self, names: tuple[str, ...], cpus: int) -> Iterable[Watch]:
        try:
            return watches(self._known, names, cpus)
        except SchedlineError:  # a kernel may lack some
            return ()

    def _linked(self, address: int) -> int:
        slide = self._slide or 0
        return address - slide if self._in_image(address - slide) else address

    @staticmethod
    def _raw(found: ObjectMap | None) -> Raw:
        if found is None:
            return Raw((), {}, (), 0)
        pages = {each.address: each for each in found.pages}
        arrays = {each.structure: (each.first, each.number) for each in found.arrays}
        return Raw((), {}, (), 0, pages, found.areas, found.offsets, arrays=arrays)


def names_of(vmlinux: Path, cache: Path, found: ObjectMap | None, line: int) -> tuple[KernelMap, AddressNames]:
    """The kernel in a vmlinux, and the names of its addresses; SchedlineError if it is not the kernel of the map."""
    known = kernel_map(vmlinux, cache / "c2c", TAGS)
    if found and found.build_id != known.build_id:
        raise SchedlineError(
            f"{vmlinux} is another kernel: its build-id is {known.build_id[:16]}, that of the object map "
            f"{found.build_id[:16]}",
            "give the vmlinux of the kernel that ran: perf buildid-list -i perf.data | grep kernel",
        )
    memory = memory_map_if_known(vmlinux, cache / "c2c", known) if found else None
    return known, AddressNames(known, memory, found, line)


def slide_of(known: KernelMap, instructions: Iterable[tuple[int, str]]) -> int | None:
    """How far a kernel lay from the addresses in its vmlinux, from instructions and the functions that perf saw there.

    Returns:
        None if the instructions are too few, or do not agree.
    """
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
