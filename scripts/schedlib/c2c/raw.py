# SPDX-License-Identifier: GPL-2.0
"""Reads the plugin's output; scripts/c2c/plugin.c, objects.c and records.c write it. Incomplete output is rejected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import AccessKind, Address, Counts, PrivateLines
from schedlib.formats.strict import Count, Positive, Strict, Word

HEAD = "c2c-raw 2"
PAGE = 4096
"""Bytes of a page of the guest."""
_KINDS: dict[str, AccessKind] = {"load": "load", "store": "store", "rmw": "rmw"}
DISTANCES = ("cluster", "llc", "node", "remote")
"""Where a miss is answered from, the nearest first; see `enum c2c_distance`."""


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


@dataclass(frozen=True)
class Record:
    """What one instruction did to one address; the epoch is that of the object there, 0 if only the line is watched."""

    address: int
    size: int
    kind: AccessKind
    pc: int
    counts: Counts
    epoch: int = 1


class MemoryPage(Strict, frozen=True):
    """What a page is used for; see scripts/c2c/memory.h.

    Attributes:
        cache: for a slab the name of its cache, else empty.
        first: where the slab begins.
        size: from one object of the slab to the next.
        object_size: bytes of an object.
    """

    address: Address
    kind: Literal["slab", "table", "large", "stack", "other"]
    cache: str
    first: Address
    size: Count
    object_size: Count


@dataclass(frozen=True)
class Raw:
    """The output of one guest. What stands from `pages` on is there if all of the kernel's memory was watched.

    Attributes:
        absent: for each key, the number of CPUs that never had the object because a pointer to it was null.
        watched: accesses to watched lines.
        pages: those with lines that several CPUs used, by address.
        areas: where page descriptors, the direct map and vmalloc begin.
        offsets: of the per-CPU variables of each CPU.
        private: what was left out because only one CPU used it.
        arrays: for each structure of an array, the address of its first element, and how many it has.
        callers: the functions that allocated objects of kmalloc, by the object's address, if the kernel knows them.
        again: pages that something else used when counting began.
    """

    instances: tuple[Instance, ...]
    absent: dict[str, int]
    records: tuple[Record, ...]
    watched: int
    pages: dict[int, MemoryPage] = field(default_factory=dict)
    areas: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()
    private: PrivateLines | UnsetType = UNSET
    arrays: dict[str, tuple[int, int]] = field(default_factory=dict)
    callers: dict[int, str] = field(default_factory=dict)
    again: tuple[int, ...] = ()


def read_record(words: Sequence[str]) -> Record:
    """Parse a line that begins with `record`."""
    _, address, epoch, size, kind, pc, *counts = words
    return Record(int(address, 16), int(size), _KINDS[kind], int(pc, 16), Counts(*map(int, counts)), int(epoch))


def read_raw(path: Path) -> Raw:
    """Read the plugin's output; SchedlineError if the file is missing or incomplete."""
    try:
        text = path.read_text()
    except OSError as error:
        observed = "the plugin has written nothing: the stop marker of the guest's program was not reached"
        raise SchedlineError(observed, f"see {path.parent}") from error
    return parse_raw(text, str(path))


def parse_raw(text: str, name: str) -> Raw:
    """Read the plugin's output, or that of scripts/c2c/replay.c; SchedlineError if it is incomplete."""
    try:
        return _read([line.split() for line in text.splitlines()])
    except (ValueError, LookupError, TypeError) as error:
        raise SchedlineError(f"{name} is not a file of the plugin, or is incomplete: {error}", "run again") from error


def _read(rows: Sequence[Sequence[str]]) -> Raw:
    if " ".join(rows[0]) != HEAD or rows[1][0] != "machine" or rows[-1][0] != "end" or rows[-2][0] != "seen":
        raise ValueError("no head, or no end")
    found = Raw((), {}, (), int(rows[-2][2]))
    instances, records, offsets, again = list[Instance](), list[Record](), list[int](), list[int]()
    areas: tuple[int, ...] = ()
    private: PrivateLines | UnsetType = UNSET
    for row in rows[2:-2]:
        if row[0] == "record":  # by far the most
            records.append(read_record(row))
        elif row[0] == "object":
            _, key, cpu, address, size, epoch = row
            instances.append(Instance(key, int(cpu), int(address, 16), int(size), int(epoch)))
        elif row[0] == "absent":
            found.absent[row[1]] = found.absent.get(row[1], 0) + 1
        elif row[0] == "page":
            page = _page(*row[1:])
            found.pages[page.address] = page
        elif row[0] == "areas":
            areas = tuple(int(word, 16) for word in row[1:])
        elif row[0] == "percpu":
            offsets.append(int(row[2], 16))
        elif row[0] == "array":
            found.arrays[row[1]] = int(row[2], 16), int(row[3])
        elif row[0] == "caller":
            found.callers[int(row[1], 16)] = row[2]
        elif row[0] == "again":
            again.append(int(row[1], 16))
        elif row[0] == "private":
            private = PrivateLines(*map(int, row[1:]))
        else:
            raise ValueError(f"a line begins with {row[0]}")
    if len(records) != int(rows[-1][1]):
        raise ValueError(f"{len(records)} records of {rows[-1][1]}")
    places = found.pages, areas, tuple(offsets), private, found.arrays, found.callers, tuple(again)
    return Raw(tuple(instances), found.absent, tuple(records), found.watched, *places)


def _page(
    address: str, kind: str, cache: str = "", first: str = "0", size: str = "0", objects: str = "0"
) -> MemoryPage:
    words = (int(address, 16), kind, cache, int(first, 16), int(size), int(objects))
    return msgspec.convert(dict(zip(MemoryPage.__struct_fields__, words, strict=True)), MemoryPage)
