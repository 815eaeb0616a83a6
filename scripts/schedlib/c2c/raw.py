# SPDX-License-Identifier: GPL-2.0
"""What the plugin writes, as scripts/c2c/model.c and plugin.c define it: read whole, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import AccessKind, Counts

HEAD = "c2c-raw 2"
_KINDS: dict[str, AccessKind] = {"load": "load", "store": "store", "rmw": "rmw"}
DISTANCES = ("cluster", "llc", "node", "remote")
"""Of a CPU that answers a miss, the nearest first; see `enum c2c_distance`."""


@dataclass(frozen=True)
class Record:
    """What one instruction did to one place.

    Attributes:
        kind: load, store or rmw.
        pc: its address.
        epoch: of the object that was there; 0 where only its line was watched.
    """

    address: int
    size: int
    kind: AccessKind
    pc: int
    counts: Counts
    epoch: int = 1


@dataclass(frozen=True)
class Instance:
    """Where a watched object lay; `key` is the plan's, and an epoch above 1 that of one that was allocated later."""

    key: str
    cpu: int
    address: int
    size: int
    epoch: int


@dataclass(frozen=True)
class Raw:
    """The output of one guest.

    Attributes:
        absent: keys of which some CPU had a null pointer, and how many CPUs had.
        callbacks: accesses that the plugin was told of between the markers.
        watched: of these, those to watched lines.
    """

    cpus: int
    line: int
    quantum: int
    instances: tuple[Instance, ...]
    absent: dict[str, int]
    records: tuple[Record, ...]
    callbacks: int
    watched: int


def read_record(words: Sequence[str]) -> Record:
    """A line that begins with `record`."""
    _, address, epoch, size, kind, pc, *counts = words
    return Record(int(address, 16), int(size), _KINDS[kind], int(pc, 16), Counts(*map(int, counts)), int(epoch))


def read_raw(path: Path) -> Raw:
    """The plugin's output.

    Raises:
        SchedlineError: it is not there, or not whole.
    """
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
    except OSError as error:
        raise SchedlineError(
            "the plugin has written nothing: the stop marker of the guest's program was not reached",
            f"see {path.parent}",
        ) from error
    try:
        return _read(rows)
    except (ValueError, LookupError, TypeError) as error:
        raise SchedlineError(f"{path} is not what the plugin writes, or not whole: {error}", "run again") from error


def _read(rows: Sequence[Sequence[str]]) -> Raw:
    if " ".join(rows[0]) != HEAD or rows[1][0] != "machine" or rows[-1][0] != "end" or rows[-2][0] != "seen":
        raise ValueError("no head, or no end")
    cpus, line, _, _, _, quantum = map(int, rows[1][1:])
    instances: list[Instance] = []
    absent: dict[str, int] = {}
    records: list[Record] = []
    for row in rows[2:-2]:
        if row[0] == "object":
            _, key, cpu, address, size, epoch = row
            instances.append(Instance(key, int(cpu), int(address, 16), int(size), int(epoch)))
        elif row[0] == "absent":
            absent[row[1]] = absent.get(row[1], 0) + 1
        else:
            records.append(read_record(row))
    if len(records) != int(rows[-1][1]):
        raise ValueError(f"{len(records)} records of {rows[-1][1]}")
    callbacks, watched = map(int, rows[-2][1:])
    return Raw(cpus, line, quantum, tuple(instances), absent, tuple(records), callbacks, watched)
