# SPDX-License-Identifier: GPL-2.0
"""A trace: the accesses of all guests of a measurement, in a file.

It is a gzip file. Its content is one line of JSON, the head, and then one tape for each guest, in the order in
which the head names them. scripts/c2c/tape.h has the format of a tape.
"""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from schedlib import TOOL
from schedlib.c2c.kernel_map import KernelMap, Symbol, last_before
from schedlib.c2c.objects import Instance, Watch
from schedlib.c2c.observed import Observed, ObservedGuest, Raw
from schedlib.cache import open_regular
from schedlib.formats import document
from schedlib.formats.c2c_document import Address, CountedDocument, MappedStructure
from schedlib.formats.document import Refused
from schedlib.formats.strict import Positive, Strict, repeated

_AROUND = 512
"""Bytes around a watched variable in which a neighbour on its lines may lie."""

_PIECE, _LEVEL = 1 << 20, 6
_MOST_PACKED = 500
"""How many bytes of a tape one byte of a trace may hold; gzip can pack a thousand zeros into one."""


class TracedGuest(Strict, frozen=True):
    """One guest; `length`: bytes of its tape. For the others see Raw."""

    quantum: Positive
    operations: Positive
    length: Positive
    instances: tuple[Instance, ...]
    absent: dict[str, Positive]
    again: tuple[Address, ...]


class TraceHead(CountedDocument, frozen=True, kw_only=True):
    """The first line of a trace of schedline c2c: the kernel, the guests, and the names of what they accessed."""

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


def keep_trace(path: Path, observed: Observed, pcs: Iterable[int]) -> None:
    """Write a trace of guests whose tapes were kept; equal tapes give equal files.

    `pcs`: the addresses of the instructions on the tapes.
    """
    tapes = [guest.tape for guest in observed.guests if guest.tape]
    guests = tuple(
        TracedGuest(
            each.quantum, each.operations, tape.stat().st_size, each.raw.instances, each.raw.absent, each.raw.again
        )
        for each, tape in zip(observed.guests, tapes, strict=True)
    )
    functions, data = observed.known.functions, observed.known.data
    last = {last_before(functions, pc) for pc in pcs}
    head = TraceHead(
        schema="c2c-trace-1",
        **observed.head(),
        structures=dict(observed.known.structures),
        functions=tuple(functions[number] for number in sorted(last) if number >= 0),
        data=tuple(data[number] for number in sorted(_beside(data, observed.watches))),
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


def _beside(symbols: Sequence[Symbol], watches: Iterable[Watch]) -> set[int]:
    """The numbers of the variables on the lines of watched variables, and of the one before each such range."""
    found: set[int] = set()
    for watch in watches:
        if not watch.hops:
            first = last_before(symbols, watch.address - _AROUND)
            found |= set(range(max(first, 0), last_before(symbols, watch.address + watch.size + _AROUND) + 1))
    return found


def traced(path: Path, place: Path) -> Observed:
    """What a trace has, with its tapes in the directory `place`. The guests have no counts yet; or Refused."""
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
        known = {EOFError: "it is cut off", zlib.error: "it is damaged"}
        why = known.get(type(error)) or getattr(error, "strerror", "") or str(error)
        raise Refused(path, TraceHead, why, "schedline c2c --trace FILE writes one") from error
    guests = tuple(
        ObservedGuest(each.quantum, each.operations, Raw(each.instances, each.absent, again=each.again), tape)
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


def _copy(packed: gzip.GzipFile, to: Path, length: int) -> None:
    with to.open("wb") as file:
        while length:
            piece = packed.read(min(length, _PIECE))
            if not piece:
                raise EOFError
            file.write(piece)
            length -= len(piece)
