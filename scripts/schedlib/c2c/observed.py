# SPDX-License-Identifier: GPL-2.0
"""What was observed in the guests of a measurement: what the plugin has written, the result of it, and traces.

scripts/c2c/plugin.c, objects.c and records.c write the plugin's output. Incomplete output is rejected. A trace is a
gzip file: one line of JSON, the head, and then one tape for each guest in its order; scripts/c2c/tape.h has the format
of a tape.
"""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, structs

from schedlib import TOOL
from schedlib.c2c.c2c_options import ALL
from schedlib.c2c.kernel_map import KernelMap, Symbol
from schedlib.c2c.objects import Instance, Resolver, Watch
from schedlib.cache import open_regular
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import (
    AccessKind,
    Address,
    CountedDocument,
    Counts,
    FieldRef,
    MappedStructure,
    PrivateLines,
    Quantum,
    TrafficParameters,
    TrafficResult,
    TrafficRow,
    UsedVariable,
)
from schedlib.formats.document import Refused
from schedlib.formats.strict import Count, Positive, Strict, repeated
from schedlib.process import must

HEAD = "c2c-raw 3"
PAGE = 4096
"""Bytes of a page of the guest."""
_WORDS = ("record", "object", "absent", "page", "areas", "percpu", "array", "again", "private")
MAKE_AGAIN = "make the trace again: schedline c2c --trace FILE"
_PIECE, _LEVEL = 1 << 20, 6
_MOST_PACKED = 500
"""How many bytes of a tape one byte of a trace may hold; gzip can pack a thousand zeros into one."""


@dataclass(frozen=True)
class Record:
    """What one instruction did to one address; the epoch is that of the object there, 0 if only the line is watched.

    `cpus`: a bit for each CPU that did it.
    """

    address: int
    size: int
    kind: AccessKind
    pc: int
    counts: Counts
    epoch: int = 1
    cpus: int = 0


class MemoryPage(Strict, frozen=True):
    """What a page is used for, see scripts/c2c/memory.h; for a slab: its cache, where it begins, from one object to the
    next `size` bytes, of which the object has object_size.
    """

    address: Address
    kind: Literal["slab", "table", "large", "stack", "other"]
    cache: str
    first: Address
    size: Count
    object_size: Count


@dataclass(frozen=True)
class ObservedGuest:
    """One guest; what stands from `pages` to `again` is there if all of the kernel's memory was watched.

    Attributes:
        operations: of its program.
        absent: for each key, the number of CPUs that never had the object because a pointer to it was null.
        watched: accesses to watched lines.
        pages: those with lines that several CPUs used, by address.
        areas: where page descriptors, the direct map and vmalloc begin.
        private: what was left out because only one CPU used it.
        arrays: for each structure of an array, the address of its first element, and how many it has.
        again: pages that something else used when counting began.
        tape: its accesses, if they were kept.
        moves: where objects and their fields are to lie when the tape is played, see scripts/c2c/moves.h.
    """

    quantum: int = 0
    operations: int = 0
    instances: tuple[Instance, ...] = ()
    absent: dict[str, int] = field(default_factory=dict)
    records: tuple[Record, ...] = ()
    watched: int = 0
    pages: dict[int, MemoryPage] = field(default_factory=dict)
    areas: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()
    private: PrivateLines | UnsetType = UNSET
    arrays: dict[str, tuple[int, int]] = field(default_factory=dict)
    again: tuple[int, ...] = ()
    tape: Path | None = None
    moves: Path | None = None


def read_raw(path: Path) -> ObservedGuest:
    """Read the plugin's output; SchedlineError if the file is missing or incomplete."""
    if not path.is_file():
        observed = "the plugin has written nothing: the stop marker of the guest's program was not reached"
        raise SchedlineError(observed, f"see {path.parent}")
    return parse_raw(path.read_text(), str(path))


def parse_raw(text: str, name: str) -> ObservedGuest:
    """Read the plugin's output, or that of scripts/c2c/replay.c; SchedlineError if it is incomplete."""
    try:
        return _read([line.split() for line in text.splitlines()])
    except (ValueError, LookupError, TypeError) as error:
        raise SchedlineError(f"{name} is not a file of the plugin, or is incomplete: {error}", "run again") from error


def _read(rows: Sequence[Sequence[str]]) -> ObservedGuest:
    if " ".join(rows[0]) != HEAD or rows[1][0] != "machine" or rows[-1][0] != "end" or rows[-2][0] != "seen":
        raise ValueError("no head, or no end")
    by_word: dict[str, list[Sequence[str]]] = {word: [] for word in _WORDS}
    for word, *rest in rows[2:-2]:
        by_word[word].append(rest)
    records = tuple(map(read_record, by_word["record"]))
    if len(records) != int(rows[-1][1]):
        raise ValueError(f"{len(records)} records of {rows[-1][1]}")
    return ObservedGuest(
        instances=tuple(
            Instance(key, int(cpu), int(address, 16), *map(int, sizes))
            for key, cpu, address, *sizes in by_word["object"]
        ),
        absent=dict(Counter(key for key, _ in by_word["absent"])),
        records=records,
        watched=int(rows[-2][2]),
        pages={page.address: page for page in (_page(*row) for row in by_word["page"])},
        areas=tuple(int(word, 16) for row in by_word["areas"] for word in row),
        offsets=tuple(int(offset, 16) for _, offset in by_word["percpu"]),
        private=next((PrivateLines(*map(int, row)) for row in by_word["private"]), UNSET),
        arrays={name: (int(first, 16), int(number)) for name, first, number in by_word["array"]},
        again=tuple(int(address, 16) for (address,) in by_word["again"]),
    )


def read_record(words: Sequence[Any]) -> Record:
    """Parse a line that begins with `record`, without this word."""
    address, epoch, size, kind, pc, *counts, cpus = words
    found = Counts(*map(int, counts))
    return Record(int(address, 16), int(size), kind, int(pc, 16), found, int(epoch), int(cpus, 16))


def _page(address: str, kind: Any, cache: str = "", *numbers: str) -> MemoryPage:
    first, size, object_size = numbers or ("0", "0", "0")
    return MemoryPage(int(address, 16), kind, cache, int(first, 16), int(size), int(object_size))


@dataclass(frozen=True)
class Observed:
    """The guests of one measurement, and what they have in common. `watches` are in the order of the plan."""

    tool: str
    started: datetime
    fingerprint: dict[str, str]
    changes: dict[str, str]
    parameters: TrafficParameters
    known: KernelMap
    watches: tuple[Watch, ...]
    guests: tuple[ObservedGuest, ...]

    @property
    def middle(self) -> ObservedGuest:
        return self.guests[len(self.guests) // 2]

    @property
    def everything(self) -> bool:
        return ALL in self.parameters.objects

    @property
    def tags(self) -> set[str]:
        """The structures whose objects were watched."""
        return {watch.tag for watch in self.watches if watch.tag and not watch.prefix}

    def resolver(self, guest: ObservedGuest, line: int) -> Resolver:
        return Resolver(self.known, line, self.watches, guest.instances, everything=self.everything)


def _head(of: Observed | CountedDocument) -> dict[str, Any]:
    """The fields of a CountedDocument."""
    return {name: getattr(of, name) for name in CountedDocument.__struct_fields__}


def result_of(observed: Observed) -> TrafficResult:
    """The counts by object, field and function."""
    quanta = []
    absent: dict[str, int] = {}
    optional = {watch.key for watch in observed.watches if watch.optional}
    for guest in observed.guests:
        pages = set(guest.again)
        absent |= {key: number for key, number in guest.absent.items() if key not in optional}
        resolver = observed.resolver(guest, observed.parameters.line)
        counted = rows(resolver, guest.records)
        reused = (each.counts.misses for each in guest.records if not each.epoch and each.address & -PAGE in pages)
        again = sum(reused) if observed.everything else UNSET
        used = variables(observed, resolver, guest.records) if observed.everything else UNSET
        quanta.append(Quantum(guest.quantum, guest.operations, guest.watched, counted, guest.private, again, used))
    return TrafficResult(
        schema="c2c-1",
        **_head(observed),
        watched=resolver.watched(),
        absent=dict(sorted(absent.items())),
        quanta=tuple(quanta),
    )


def variables(observed: Observed, resolver: Resolver, records: Iterable[Record]) -> tuple[UsedVariable, ...]:
    """How many CPUs read and write each variable, by name."""
    owners = {watch.owner: watch.per_cpu for watch in observed.watches if not (watch.hops or watch.prefix)}
    place_of = cache(resolver.place)
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for record in records:
        place = place_of(record.address, record.epoch)
        if place.owner in owners and not place.prefix:
            copies, begin = found.setdefault(place.owner, {}), record.address - place.offset
            readers, writers = copies.get(begin, (0, 0))
            readers |= record.cpus if record.kind != "store" else 0
            writers |= record.cpus if record.kind != "load" else 0
            copies[begin] = readers, writers
    return tuple(
        UsedVariable(name, owners[name], *(max(each[way].bit_count() for each in copies.values()) for way in (0, 1)))
        for name, copies in sorted(found.items())
    )


def rows(resolver: Resolver, records: Iterable[Record]) -> tuple[TrafficRow, ...]:
    """Merge records into rows, sorted by place. All objects of one kind share their rows."""
    # An address has a record for each instruction that used it, and an instruction one for each address.
    place_of, function_of = cache(resolver.place), cache(resolver.function)
    found: dict[tuple[FieldRef, int, AccessKind, str], list[Counts]] = {}
    for record in records:
        key = (place_of(record.address, record.epoch), record.size, record.kind, function_of(record.pc))
        found.setdefault(key, []).append(record.counts)
    return tuple(
        TrafficRow(**structs.asdict(place), size=size, kind=kind, function=function, counts=Counts.sum(parts))
        for (place, size, kind, function), parts in sorted(found.items())
    )


@dataclass(frozen=True)
class Player:
    """A program that plays tapes, see scripts/c2c/replay.c; CPUs that share caches as in the guests.

    Its methods raise SchedlineError: a tape is damaged.
    """

    program: Path
    parameters: TrafficParameters

    def _said(self, guest: ObservedGuest, line: int, pairs: bool, *files: Path) -> str:
        chosen = self.parameters
        shape = (chosen.cpus, line, chosen.per_cluster, chosen.per_llc, chosen.per_node)
        ways = ("pair" if pairs else "one", "all" if ALL in chosen.objects else "some")
        words = [self.program, str(guest.tape), *map(str, shape), *ways, guest.moves or "-", *files]
        return must(words, next_step=MAKE_AGAIN)

    def counts(self, guest: ObservedGuest, line: int, *, pairs: bool = False) -> ObservedGuest:
        """A guest with the counts for lines of this size, or pairs of them."""
        raw = parse_raw(self._said(guest, line, pairs), str(guest.tape))
        return replace(guest, records=raw.records, watched=raw.watched, private=raw.private)

    def groups(self, guest: ObservedGuest, line: int, fields: Path, *, pairs: bool = False) -> list[list[int]]:
        """The seven numbers of each group of fields, see scripts/c2c/blame.h."""
        *rows, end = self._said(guest, line, pairs, fields).splitlines()
        if end != "end 0":
            raise SchedlineError(f"{guest.tape} was not played to its end", MAKE_AGAIN)
        return [[int(word) for word in row.split()[2:]] for row in rows]


def played(player: Player, observed: Observed, line: int) -> Observed:
    """The same guests, with counts for lines of this size; SchedlineError if a tape is damaged."""
    guests = tuple(player.counts(guest, line) for guest in observed.guests)
    return replace(observed, guests=guests, parameters=structs.replace(observed.parameters, line=line))


class TracedGuest(Strict, frozen=True):
    """One guest; `length`: bytes of its tape. For the others see ObservedGuest."""

    quantum: Positive
    operations: Positive
    length: Positive
    instances: tuple[Instance, ...]
    absent: dict[str, Positive]
    again: tuple[Address, ...]


class TraceHead(CountedDocument, frozen=True, kw_only=True):
    """The first line of a trace of schedline c2c: the kernel, its symbols, and the guests."""

    schema: Literal["c2c-trace-1"]
    structures: dict[str, MappedStructure]
    functions: tuple[Symbol, ...]
    data: tuple[Symbol, ...]
    watches: Annotated[tuple[Watch, ...], Meta(min_length=1)]
    guests: Annotated[tuple[TracedGuest, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if twice := repeated(str(guest.quantum) for guest in self.guests):
            raise ValueError(f"the quantum {twice} appears twice")
        keys = {watch.key for watch in self.watches}
        if unknown := {each.key for guest in self.guests for each in guest.instances} - keys:
            raise ValueError(f"no watch has the key {min(unknown)}")


def keep_trace(path: Path, observed: Observed) -> None:
    """Write a trace of guests whose tapes were kept; equal tapes give equal files."""
    tapes = [guest.tape for guest in observed.guests if guest.tape]
    guests = tuple(
        TracedGuest(each.quantum, each.operations, tape.stat().st_size, each.instances, each.absent, each.again)
        for each, tape in zip(observed.guests, tapes, strict=True)
    )
    head = TraceHead(
        schema="c2c-trace-1",
        **_head(observed),
        structures=dict(observed.known.structures),
        functions=observed.known.functions,
        data=observed.known.data,
        watches=observed.watches,
        guests=guests,
    )
    # A file that is only half written never has this name.
    half = path.with_name(f".{path.name}.half")
    try:
        with half.open("wb") as raw, gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as packed:
            packed.write(document.line(head))
            for tape in tapes:
                with tape.open("rb") as file:
                    shutil.copyfileobj(file, packed, _PIECE)
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)


def traced(path: Path, place: Path) -> Observed:
    """What a trace has, with its tapes in the directory `place`, and no counts; or Refused."""
    try:
        with open_regular(path) as raw, gzip.open(raw) as packed:
            head = document.parse(packed.readline(TraceHead.largest), TraceHead)
            if sum(guest.length for guest in head.guests) > _MOST_PACKED * (os.fstat(raw.fileno()).st_size + _PIECE):
                raise ValueError("its tapes would be far larger than the file")
            tapes = tuple(place / f"quantum-{guest.quantum}.tape" for guest in head.guests)
            for guest, tape in zip(head.guests, tapes, strict=True):
                _copy(packed, tape, guest.length)
            if packed.read(1):
                raise ValueError("more follows behind its last tape")
    except (EOFError, OSError, ValueError, zlib.error) as error:
        words = {EOFError: "it is cut off", zlib.error: "it is damaged"}
        why = words.get(type(error)) or getattr(error, "strerror", "") or str(error)
        raise Refused(path, TraceHead, why, "schedline c2c --trace FILE writes one") from error
    guests = tuple(
        ObservedGuest(each.quantum, each.operations, each.instances, each.absent, again=each.again, tape=tape)
        for each, tape in zip(head.guests, tapes, strict=True)
    )
    known = KernelMap(head.fingerprint.get("build_id", ""), head.structures, head.functions, head.data)
    return Observed(**_head(head) | {"tool": TOOL}, known=known, watches=head.watches, guests=guests)


def _copy(packed: gzip.GzipFile, to: Path, length: int) -> None:
    with to.open("wb") as file:
        while length:
            piece = packed.read(min(length, _PIECE))
            if not piece:
                raise EOFError
            file.write(piece)
            length -= len(piece)
