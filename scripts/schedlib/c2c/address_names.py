# SPDX-License-Identifier: GPL-2.0
"""Names the addresses in samples of a real machine, from its vmlinux and a map of its objects. Nothing is guessed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from msgspec import structs

from schedlib.c2c.c2c_options import KINDS
from schedlib.c2c.kernel_map import KernelMap, Symbol, last_before
from schedlib.c2c.memory_map import MemoryMap, MemoryNames
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
_AREAS = 3
_STEP = 1 << 16
"""KASLR moves a kernel by a multiple of this, or of more."""

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
    """Read an object map from its file, or from the directory that contains the file; Refused if it is not valid."""
    return document.read_below(path, MAP_FILE, ObjectMap, "see docs/c2c.md, Beside a real machine")


class AddressNames:
    """Names addresses, or says why one has no name; see ScriptSums.

    Args:
        memory: what is needed to name slabs and per-CPU variables; None if this kernel describes its pages otherwise.
        found: the map of the objects of the machine that was measured.
        slide: how far the kernel lay from the addresses in vmlinux; None if that is not known.
        line: bytes of a cache line.
    """

    def __init__(
        self, known: KernelMap, memory: MemoryMap | None, found: ObjectMap | None, slide: int | None, line: int
    ) -> None:
        structures = {**memory.structures, **known.structures} if memory else known.structures
        self._known, self._slide, self._map = replace(known, structures=structures), slide, found
        bounds = [*known.functions[:1], *known.functions[-1:], *known.data[-1:]]
        self._low = min((symbol.address for symbol in bounds), default=0)
        self._high = max((symbol.address + max(symbol.size, 1) for symbol in bounds), default=0)
        self._resolver = Resolver(self._known, line, *self._objects(found), everything=True)
        self._memory = None
        if memory and found and len(found.areas) == _AREAS:
            raw = Raw(
                pages={each.address: each for each in found.pages},
                areas=found.areas,
                offsets=found.offsets,
                arrays={each.structure: (each.first, each.number) for each in found.arrays},
            )
            self._memory = MemoryNames(self._known, memory, raw)

    def _objects(self, found: ObjectMap | None) -> tuple[Sequence[Watch], list[Instance]]:
        """What is named without reading memory."""
        if found is None:
            return (), []
        every = watches(self._known, found.objects, found.cpus)
        strange = {each.key for each in found.instances} - {each.key for each in every}
        if strange:
            raise SchedlineError(
                f"the object map has {min(strange)}, which this kernel does not have", "make the map again"
            )
        there = ((each, self._linked(each.address)) for each in found.instances)
        return every, [
            structs.replace(each, address=each.address if linked is None else linked, epoch=1) for each, linked in there
        ]

    def _linked(self, address: int) -> int | None:
        """The address as it is in vmlinux; None if the kernel's image does not lie there."""
        linked = None if self._slide is None else address - self._slide
        return linked if linked is not None and self._low <= linked < self._high else None

    def __call__(self, address: int) -> Place | str:
        """The place of an address of the running kernel, or why it has none."""
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

    def _variable(self, address: int) -> Place | str:
        """The place of an address of vmlinux."""
        at = last_before(self._known.data, address)
        symbol = self._known.data[at] if at >= 0 else Symbol(0, 0, UNNAMED)
        if address >= symbol.address + symbol.size:
            return NOT_A_VARIABLE
        kind = None if self._map else KINDS.get(symbol.name)
        tag = kind.tag if kind and kind.symbol == symbol.name else ""
        watch = Watch(symbol.name, symbol.name, "", 0, symbol.size, tag, False, symbol.address, (), optional=False)
        return self._resolver.inside(watch, symbol.address, address)


def slide_of(known: KernelMap, instructions: Iterable[tuple[int, str]]) -> int | None:
    """How far a kernel lay from the addresses in its vmlinux, by instructions and the functions that perf saw there.

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
