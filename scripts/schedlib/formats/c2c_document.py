# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c`: accesses to objects of the scheduler in a guest with emulated caches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schedlib.formats import document
from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Moment, Positive, Strict, Whole, Word

C2C_FILE = "c2c.json"

AccessKind = Literal["load", "store", "rmw"]


class Counts(Strict, frozen=True, omit_defaults=True):
    """Events of one kind of access; see `struct c2c_counts`. A file has those that are not zero.

    Attributes:
        hits: accesses that found the line here.
        hitm_cluster: misses on a line that another CPU of the same cluster has modified.
        hitm_llc: the same, of another cluster of the LLC; or of the LLC, where there are no clusters.
        hitm_node: the same, of another LLC of the node.
        hitm_remote: the same, of another node.
        clean_cluster: misses on a line that others have, unmodified, the nearest in the same cluster.
        clean_llc: the same, in another cluster of the LLC.
        clean_node: the same, in another LLC of the node.
        clean_remote: the same, in another node.
        cold: misses on a line that no cache has.
        upgrades: writes to a line that is here and elsewhere.
        invalidated: copies that writes took from other CPUs.
        essential: misses that brought what the CPU used, or were its first on the line.
        false_shared: misses that brought nothing: pure false sharing.
    """

    accesses: Positive = 0
    hits: Positive = 0
    hitm_cluster: Positive = 0
    hitm_llc: Positive = 0
    hitm_node: Positive = 0
    hitm_remote: Positive = 0
    clean_cluster: Positive = 0
    clean_llc: Positive = 0
    clean_node: Positive = 0
    clean_remote: Positive = 0
    cold: Positive = 0
    upgrades: Positive = 0
    invalidated: Positive = 0
    essential: Positive = 0
    false_shared: Positive = 0

    @property
    def hitm(self) -> int:
        """Misses on a modified line, near and far."""
        return self.hitm_cluster + self.hitm_llc + self.hitm_node + self.hitm_remote

    @property
    def misses(self) -> int:
        """All that fetched a line."""
        return self.essential + self.false_shared

    @property
    def remote(self) -> int:
        """Misses that another node answered."""
        return self.fetched("remote")

    def fetched(self, distance: str) -> int:
        """Misses that a CPU at this distance answered: cluster, llc, node or remote."""
        return int(getattr(self, f"hitm_{distance}") + getattr(self, f"clean_{distance}"))

    @classmethod
    def sum(cls, parts: Iterable[Counts]) -> Counts:
        """All of them together."""
        rows = [msgspec.structs.astuple(part) for part in parts]
        return cls(*(sum(column) for column in zip(*rows, strict=True))) if rows else cls()


class Place(Strict, frozen=True, order=True):
    """What an address is.

    Attributes:
        owner: the object; where the address belongs to none, the one whose edge line it is on.
        prefix: of what is behind its pointers, such as *rto_mask; else empty.
        line: number of the line, counted from the object's first.
        offset: in the object, or behind the pointer; negative before a neighbour's object.
        path: the field; a neighbour's name where it has one.
        neighbour: it lies beside the object, on a line that both use.
    """

    owner: Word
    prefix: str
    line: Whole
    offset: Whole
    path: str
    neighbour: bool


class TrafficRow(Place, frozen=True):
    """What one function did to one place, in one way.

    Attributes:
        size: bytes of an access.
    """

    size: Positive
    kind: AccessKind
    function: Word
    counts: Counts


class MappedField(Strict, frozen=True):
    """A field that has none below it.

    Attributes:
        offset: in bytes, from the start of the structure.
        path: as C would write it.
        pointee: what it points to; empty where it is no pointer.
    """

    offset: Count
    size: Positive
    path: Word
    pointee: str


class Watched(Strict, frozen=True):
    """An object of the result.

    Attributes:
        prefix: of a mask and the like behind its pointers; empty for itself.
        size: in bytes.
        number: how many of it there were.
        later: how many of these were allocated between the markers.
        skews: where on a line they began, in bytes; one number where all were alike.
        fields: of a structure.
    """

    owner: Word
    prefix: str
    size: Positive
    number: Positive
    later: Count
    skews: Annotated[tuple[Count, ...], Meta(min_length=1)]
    fields: tuple[MappedField, ...]


class Quantum(Strict, frozen=True):
    """One guest.

    Attributes:
        quantum: blocks of code of a CPU's turn.
        operations: what its program did.
        watched: accesses to watched lines.
    """

    quantum: Positive
    operations: Positive
    watched: Count
    rows: tuple[TrafficRow, ...]


class TrafficParameters(Strict, frozen=True, kw_only=True):
    """The guests, and what they ran.

    Attributes:
        on: emulator and architecture.
        line: bytes of a cache line in the model.
        topology: empty for so many CPUs below one LLC.
        per_cluster: CPUs of a cluster; 1 where there are none.
        per_llc: CPUs that share an LLC.
        per_node: CPUs of a node.
        shift: an instruction takes 2^shift ns of the guest's time.
        config: fragments on top.
    """

    on: Word
    workload: Word
    cpus: Annotated[int, Meta(ge=2)]
    rounds: Positive
    line: Positive
    topology: str
    per_cluster: Positive
    per_llc: Positive
    per_node: Positive
    shift: Whole
    config: tuple[str, ...]
    objects: Annotated[tuple[str, ...], Meta(min_length=1)]


class TrafficResult(Document, frozen=True, kw_only=True):
    """schedline c2c: accesses to objects of the scheduler in a guest with emulated caches; one guest for each quantum.

    Attributes:
        tool: name and version of what wrote this file.
        started: with time zone.
        fingerprint: of the kernel and what it was built from; of compiler and emulator; hash of plugin and program.
        changes: state of each, by id.
        absent: on how many CPUs the pointer to it was null, by watch.
    """

    only_lines = True

    schema: Literal["c2c-1"]
    tool: Word
    started: Moment
    fingerprint: Annotated[dict[str, str], Meta(extra_json_schema={"required": ["build_id", "emulator", "plugin"]})]
    changes: dict[str, str]
    parameters: TrafficParameters
    watched: Annotated[tuple[Watched, ...], Meta(min_length=1)] = msgspec.field(name="objects")
    absent: dict[str, Positive]
    quanta: Annotated[tuple[Quantum, ...], Meta(min_length=1)] = msgspec.field(name="runs")

    @property
    def line(self) -> int:
        """Bytes of a cache line."""
        return self.parameters.line

    def __post_init__(self) -> None:
        for name in ("build_id", "emulator", "plugin"):
            if name not in self.fingerprint:
                raise ValueError(f"its fingerprint lacks {name}")


def read_result(path: Path) -> TrafficResult:
    """A result from its file, or from the directory that it lies in.

    Raises:
        Refused: it is none.
    """
    file = path / C2C_FILE if path.is_dir() else path
    return document.read(file, TrafficResult, "schedline c2c --out DIR writes one")
