# SPDX-License-Identifier: GPL-2.0
"""What was observed in the guests of a measurement: its result, its trace, and the program that plays a trace again.

A trace is a gzip file. Its content is one line of JSON, the head, and then one tape for each guest, in the order in
which the head names them. scripts/c2c/tape.h has the format of a tape.
"""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from msgspec import UNSET, Meta, structs

from schedlib import TOOL
from schedlib.c2c.c2c_options import ALL, LINES
from schedlib.c2c.kernel_map import KernelMap, Symbol
from schedlib.c2c.objects import Located, Resolver, Watch
from schedlib.c2c.raw import PAGE, Instance, Raw, Record, parse_raw
from schedlib.cache import open_regular
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import (
    AccessKind,
    Address,
    Counts,
    MappedStructure,
    Place,
    Quantum,
    TrafficParameters,
    TrafficResult,
    TrafficRow,
    require_fingerprint,
)
from schedlib.formats.document import Document, Refused
from schedlib.formats.strict import Moment, Positive, Strict, Word, repeated
from schedlib.process import must

_AROUND = 512
"""Bytes around a watched variable in which a neighbour on its lines may lie."""

_PIECE, _LEVEL = 1 << 20, 6
_MOST_PACKED = 500
"""How many bytes of a tape one byte of a trace may hold; gzip can pack a thousand zeros into one."""
_MAKE_AGAIN = "make the trace again: schedline c2c --trace FILE"


class TracedGuest(Strict, frozen=True):
    """One guest.

    Attributes:
        length: bytes of its tape.
        absent: for each key of a watch, the number of CPUs on which a pointer to the object was null.
        again: pages that something else used when counting began, if all of the kernel's memory was watched.
    """

    quantum: Positive
    operations: Positive
    length: Positive
    instances: tuple[Instance, ...]
    absent: dict[str, Positive]
    again: tuple[Address, ...]


class TraceHead(Document, frozen=True, kw_only=True):
    """The first line of a trace of schedline c2c: the kernel, the guests, and the names of what they accessed.

    Attributes:
        tool: name and version of what wrote this file.
        started: with time zone.
        fingerprint: the kernel and its source; compiler and emulator; hashes of plugin and program.
        changes: state of each change, by id.
        structures: the structures of the watched objects, by name.
        functions: those that accessed a watched line.
        data: variables beside watched variables.
    """

    only_lines = True

    schema: Literal["c2c-trace-1"]
    tool: Word
    started: Moment
    fingerprint: dict[str, str]
    changes: dict[str, str]
    parameters: TrafficParameters
    structures: dict[str, MappedStructure]
    functions: tuple[Symbol, ...]
    data: tuple[Symbol, ...]
    watches: Annotated[tuple[Watch, ...], Meta(min_length=1)]
    guests: Annotated[tuple[TracedGuest, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        require_fingerprint(self.fingerprint)
        if twice := repeated(str(guest.quantum) for guest in self.guests):
            raise ValueError(f"the quantum {twice} appears twice")
        keys = {watch.key for watch in self.watches}
        if unknown := {each.key for guest in self.guests for each in guest.instances} - keys:
            raise ValueError(f"no watch has the key {min(unknown)}")


@dataclass(frozen=True)
class ObservedGuest:
    """One guest.

    Attributes:
        operations: number of operations of its program.
        tape: its accesses, if they were kept.
        moves: where objects and their fields are to lie when the tape is played, see scripts/c2c/moves.h.
    """

    quantum: int
    operations: int
    raw: Raw
    tape: Path | None = None
    moves: Path | None = None


@dataclass(frozen=True)
class Observed:
    """The guests of one measurement, and what they have in common. `watches` are in the order of the plan."""

    tool: str
    started: datetime
    fingerprint: Mapping[str, str]
    changes: Mapping[str, str]
    parameters: TrafficParameters
    known: KernelMap
    watches: tuple[Watch, ...]
    guests: tuple[ObservedGuest, ...]

    @property
    def middle(self) -> ObservedGuest:
        """The guest of the middle quantum."""
        return self.guests[len(self.guests) // 2]

    @property
    def everything(self) -> bool:
        """Whether all of the kernel's memory was watched."""
        return ALL in self.parameters.objects

    @property
    def tags(self) -> set[str]:
        """The structures whose objects were watched, in whole or in part."""
        return {watch.tag for watch in self.watches if watch.tag and not watch.prefix}

    def objects_of(self, tag: str) -> dict[str, Watch]:
        """The watches of a structure's objects, by key; without the memory behind their pointers."""
        return {watch.key: watch for watch in self.watches if watch.tag == tag and not watch.prefix}

    def resolver(self, guest: ObservedGuest, line: int) -> Resolver:
        """Names the addresses of a guest; SchedlineError if it had no object of some kind."""
        return Resolver(self.known, line, located(self.watches, guest.raw), everything=self.everything)


def located(watches: Sequence[Watch], raw: Raw) -> tuple[Located, ...]:
    """Where a guest had its objects; SchedlineError if it had none of some kind."""
    by_key = {watch.key: watch for watch in watches}
    found = tuple(Located(by_key[each.key], each.cpu, each.address, each.epoch) for each in raw.instances)
    there = {each.watch.key for each in found}
    nowhere = [watch for watch in watches if watch.key not in there and not watch.optional]
    if nowhere and not nowhere[0].prefix:
        observed = f"--objects: no CPU of this guest has a {nowhere[0].owner}: the pointer to it is NULL on all CPUs"
        raise SchedlineError(observed, "leave it out, or give the guest a --topology in which it has one")
    return found


def result_of(observed: Observed) -> TrafficResult:
    """The counts by object, field and function; SchedlineError if a guest had no object of some kind."""
    line = observed.parameters.line
    quanta = []
    absent: dict[str, int] = {}
    optional = {watch.key for watch in observed.watches if watch.optional}
    for guest in observed.guests:
        absent |= {key: number for key, number in guest.raw.absent.items() if key not in optional}
        resolver = observed.resolver(guest, line)
        raw = guest.raw
        again = _again(raw) if observed.everything else UNSET
        counted = rows(resolver, raw.records)
        quanta.append(Quantum(guest.quantum, guest.operations, raw.watched, counted, raw.private, again))
    return TrafficResult(
        schema="c2c-1",
        tool=observed.tool,
        started=observed.started,
        fingerprint=dict(observed.fingerprint),
        changes=dict(observed.changes),
        parameters=observed.parameters,
        watched=resolver.watched(observed.watches),
        absent=dict(sorted(absent.items())),
        quanta=tuple(quanta),
    )


def _again(raw: Raw) -> int:
    """The misses on pages that something else used when counting began."""
    pages = set(raw.again)
    return sum(each.counts.misses for each in raw.records if not each.epoch and each.address & -PAGE in pages)


def rows(resolver: Resolver, records: Iterable[Record]) -> tuple[TrafficRow, ...]:
    """Merge records into rows, sorted by place. All objects of one kind share their rows."""
    # An address has a record for each instruction that used it, and an instruction one for each address.
    place_of, function_of = cache(resolver.place), cache(resolver.function)
    found: dict[tuple[Place, int, AccessKind, str], list[Counts]] = {}
    for record in records:
        key = (place_of(record.address, record.epoch), record.size, record.kind, function_of(record.pc))
        found.setdefault(key, []).append(record.counts)
    return tuple(
        TrafficRow(**structs.asdict(place), size=size, kind=kind, function=function, counts=Counts.sum(parts))
        for (place, size, kind, function), parts in sorted(found.items())
    )


def keep_trace(path: Path, observed: Observed, pcs: Iterable[int]) -> None:
    """Write a trace of guests whose tapes were kept; equal tapes give equal files.

    Args:
        pcs: the addresses of the instructions on the tapes.
    """
    tapes = [guest.tape for guest in observed.guests if guest.tape]
    guests = tuple(
        TracedGuest(
            guest.quantum,
            guest.operations,
            tape.stat().st_size,
            guest.raw.instances,
            guest.raw.absent,
            guest.raw.again,
        )
        for guest, tape in zip(observed.guests, tapes, strict=True)
    )
    head = TraceHead(
        schema="c2c-trace-1",
        tool=observed.tool,
        started=observed.started,
        fingerprint=dict(observed.fingerprint),
        changes=dict(observed.changes),
        parameters=observed.parameters,
        structures=dict(observed.known.structures),
        functions=_at_or_before(observed.known.functions, pcs),
        data=_beside(observed.known.data, observed.watches),
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


def _at_or_before(symbols: Sequence[Symbol], addresses: Iterable[int]) -> tuple[Symbol, ...]:
    """For each address, the symbol that begins last before it."""
    starts = [symbol.address for symbol in symbols]
    found = {bisect_right(starts, address) - 1 for address in addresses}
    return tuple(symbols[number] for number in sorted(found) if number >= 0)


def _beside(symbols: Sequence[Symbol], watches: Iterable[Watch]) -> tuple[Symbol, ...]:
    """The variables on the lines of watched variables, and the one before each such range."""
    starts = [symbol.address for symbol in symbols]
    found: set[int] = set()
    for watch in watches:
        if not watch.hops:
            first = bisect_right(starts, watch.address - _AROUND) - 1
            last = bisect_right(starts, watch.address + watch.size + _AROUND)
            found |= set(range(max(first, 0), last))
    return tuple(symbols[number] for number in sorted(found))


def traced(path: Path, place: Path) -> Observed:
    """What a trace has, with its tapes in the directory `place`. The guests have no counts yet; or Refused."""
    head, tapes = _read_trace(path, place)
    guests = tuple(
        ObservedGuest(each.quantum, each.operations, Raw(each.instances, each.absent, (), 0, again=each.again), tape)
        for each, tape in zip(head.guests, tapes, strict=True)
    )
    return Observed(
        tool=TOOL,
        started=head.started,
        fingerprint=head.fingerprint,
        changes=head.changes,
        parameters=head.parameters,
        known=KernelMap(head.fingerprint.get("build_id", ""), head.structures, head.functions, head.data),
        watches=head.watches,
        guests=guests,
    )


def _read_trace(path: Path, place: Path) -> tuple[TraceHead, tuple[Path, ...]]:
    next_step = "schedline c2c --trace FILE writes one"
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
    except EOFError as error:
        raise Refused(path, TraceHead, "it is cut off", next_step) from error
    except OSError as error:
        raise Refused(path, TraceHead, error.strerror or str(error), next_step) from error
    except zlib.error as error:
        raise Refused(path, TraceHead, "it is damaged", next_step) from error
    except ValueError as error:
        raise Refused(path, TraceHead, str(error), next_step) from error
    return head, tapes


def _copy(packed: gzip.GzipFile, to: Path, length: int) -> None:
    with to.open("wb") as file:
        while length:
            piece = packed.read(min(length, _PIECE))
            if not piece:
                raise EOFError
            file.write(piece)
            length -= len(piece)


@dataclass(frozen=True)
class Player:
    """A program that plays tapes, see scripts/c2c/replay.c; CPUs that share caches as in the guests."""

    program: Path
    parameters: TrafficParameters

    def _said(self, guest: ObservedGuest, line: int, pairs: bool, *files: Path) -> str:
        if guest.tape is None:
            raise ValueError("the guest's accesses were not kept")
        chosen = self.parameters
        shape = (chosen.cpus, line, chosen.per_cluster, chosen.per_llc, chosen.per_node)
        ways = ("pair" if pairs else "one", "all" if ALL in chosen.objects else "some")
        return must(
            [self.program, guest.tape, *map(str, shape), *ways, guest.moves or "-", *files], next_step=_MAKE_AGAIN
        )

    def counts(self, guest: ObservedGuest, line: int, *, pairs: bool = False) -> ObservedGuest:
        """A guest with the counts for lines of this size, which are fetched in pairs if `pairs` is true.

        Raises:
            SchedlineError: its tape is damaged.
        """
        raw = parse_raw(self._said(guest, line, pairs), str(guest.tape))
        return replace(guest, raw=replace(guest.raw, records=raw.records, watched=raw.watched, private=raw.private))

    def groups(self, guest: ObservedGuest, line: int, fields: Path, *, pairs: bool = False) -> list[list[int]]:
        """The seven numbers of each group of fields, see scripts/c2c/blame.h; SchedlineError if the tape is damaged."""
        *rows, end = self._said(guest, line, pairs, fields).splitlines()
        if end != "end 0":
            raise SchedlineError(f"{guest.tape} was not played to its end", _MAKE_AGAIN)
        return [[int(word) for word in row.split()[2:]] for row in rows]


def played(player: Player, observed: Observed, line: int) -> Observed:
    """The same guests, with counts for lines of this size; SchedlineError if a tape is damaged."""
    guests = tuple(player.counts(guest, line) for guest in observed.guests)
    return replace(observed, guests=guests, parameters=structs.replace(observed.parameters, line=line))


def pcs_of(player: Player, observed: Observed) -> set[int]:
    """The addresses of all instructions that a replay may name, whatever its lines."""
    return {record.pc for guest in observed.guests for record in player.counts(guest, max(LINES)).raw.records}
