# SPDX-License-Identifier: GPL-2.0
"""A trace of `schedline c2c`: the accesses of its guests, and what is needed to name them without the kernel.

A trace is a gzip file. Its content is one line of JSON, the head, and then one tape for each guest, in the order in
which the head names them. scripts/c2c/tape.h has the format of a tape.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from schedlib.formats import document
from schedlib.formats.c2c_document import MappedStructure, TrafficParameters
from schedlib.formats.document import Document, Refused
from schedlib.formats.strict import Count, Moment, Positive, Strict, Word

Address = Annotated[int, Meta(ge=0)]
"""An address of the guest."""

_PIECE = 1 << 20
_LEVEL = 6


class Symbol(Strict, frozen=True):
    """An entry of a symbol table."""

    address: Address
    size: Count
    name: Word


class Instance(Strict, frozen=True):
    """Where a watched object lay.

    Attributes:
        key: the key of its watch.
        epoch: above 1 if it was allocated later; 0 if the plugin did not watch it and it was only named afterwards.
    """

    key: Word
    cpu: Count
    address: Address
    size: Positive
    epoch: Count


class TracedWatch(Strict, frozen=True):
    """A watch of the plan, by which the tapes number them, from 0; schedlib.c2c.objects describes the fields."""

    key: Word
    owner: Word
    prefix: str
    offset: Count
    size: Positive
    tag: str
    per_cpu: bool
    address: Address
    hops: tuple[Count, ...]
    optional: bool


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
    watches: Annotated[tuple[TracedWatch, ...], Meta(min_length=1)]
    guests: Annotated[tuple[TracedGuest, ...], Meta(min_length=1)]


def write_trace(path: Path, head: TraceHead, tapes: Sequence[Path]) -> None:
    """Write a trace; equal tapes give equal files. A file that is only half written never has this name."""
    half = path.with_name(f".{path.name}.half")
    try:
        with (
            half.open("wb") as raw,
            gzip.GzipFile("", "wb", compresslevel=_LEVEL, fileobj=raw, mtime=0) as packed,
        ):
            packed.write(document.line(head))
            for tape in tapes:
                with tape.open("rb") as file:
                    while piece := file.read(_PIECE):
                        packed.write(piece)
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)


def read_trace(path: Path, place: Path) -> tuple[TraceHead, tuple[Path, ...]]:
    """Read a trace, and copy its tapes into the directory `place`.

    Raises:
        Refused: the file is not a whole trace.
    """
    next_step = "schedline c2c --trace FILE writes one"
    try:
        with gzip.open(path) as packed:
            head = document.parse(packed.readline(TraceHead.largest), TraceHead)
            tapes = tuple(place / f"quantum-{guest.quantum}.tape" for guest in head.guests)
            for guest, tape in zip(head.guests, tapes, strict=True):
                _copy(packed, tape, guest.length)
            if packed.read(1):
                raise ValueError("more follows behind its last tape")
    except EOFError as error:
        raise Refused(path, TraceHead, "it is cut off", next_step) from error
    except OSError as error:
        raise Refused(path, TraceHead, error.strerror or str(error), next_step) from error
    except (ValueError, zlib.error) as error:
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
