# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c`: accesses to objects of the scheduler in a guest with emulated caches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schedlib.formats import document
from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Moment, Positive, Strict, Whole, Word

C2C_FILE = "c2c.json"

AccessKind = Literal["load", "store", "rmw"]

DISTANCES = ("cluster", "llc", "node", "remote")
"""Where a miss is answered from, the nearest first; see `enum c2c_distance`."""

Address = Annotated[int, Meta(ge=0)]
"""An address of the guest, or of the machine that was sampled."""


class Counts(Strict, frozen=True, omit_defaults=True):
    """Events of one kind of access; see `struct c2c_counts`. A file has those that are not zero.

    Attributes:
        hits: accesses that found the line in the CPU's own cache.
        hitm_cluster, hitm_llc, hitm_node, hitm_remote: misses on a line that another CPU has modified: one of the same
            cluster, of another cluster of the LLC (without clusters any of the LLC), of another LLC of the node, of
            another node.
        clean_cluster, clean_llc, clean_node, clean_remote: the same if others have it unmodified, by the nearest.
        cold: misses on a line that no cache has.
        upgrades: writes to a line that the CPU's own cache shares with others.
        invalidated: copies in other CPUs' caches that writes invalidated.
        essential: misses that fetched bytes that another CPU had written and this CPU used, or that were this CPU's
            first on the line.
        false_shared: all other misses: pure false sharing.
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
        """Misses on a modified line, at any distance."""
        return self.hitm_cluster + self.hitm_llc + self.hitm_node + self.hitm_remote

    @property
    def misses(self) -> int:
        """All misses."""
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
        """The sum of several counts."""
        rows = [msgspec.structs.astuple(part) for part in parts]
        return cls(*(sum(column) for column in zip(*rows, strict=True))) if rows else cls()


class Place(Strict, frozen=True, order=True):
    """The object and field that an address belongs to.

    Attributes:
        owner: the object; for an address outside of all objects, the object whose first or last line it is on.
        prefix: path of the pointer through which the object refers to the address, such as *rto_mask; else empty.
        line: number of the line, counted from the object's first.
        offset: offset in the object, or in the memory that the pointer refers to; negative before the object.
        path: the field; for a neighbour its name, if it has one.
        neighbour: whether the address is outside of the object, on a line that both use.
    """

    owner: Word
    prefix: str
    line: Whole
    offset: Whole
    path: str
    neighbour: bool


class TrafficRow(Place, frozen=True):
    """The accesses of one function to one place, of one kind and of so many bytes."""

    size: Positive
    kind: AccessKind
    function: Word
    counts: Counts


class MappedField(Strict, frozen=True):
    """A field that has no fields inside.

    Attributes:
        path: as C would write it.
        pointee: what it points to; empty if it is not a pointer.
    """

    offset: Count
    size: Positive
    path: Word
    pointee: str


class MappedStructure(Strict, frozen=True):
    """A structure's size in bytes, and its fields in the order of their offsets."""

    size: Count
    fields: tuple[MappedField, ...]

    def find(self, path: str) -> MappedField | None:
        """The field of that name."""
        return next((field for field in self.fields if field.path == path), None)


class Watched(Strict, frozen=True):
    """A watched object.

    Attributes:
        prefix: path of the pointer to watched memory such as a mask; empty for the object itself.
        number: how many such objects existed.
        later: how many of these were allocated between the markers.
        skews: the offsets on a cache line at which they began, in bytes; one number if all were equal.
    """

    owner: Word
    prefix: str
    size: Positive
    number: Positive
    later: Count
    skews: Annotated[tuple[Count, ...], Meta(min_length=1)]
    fields: tuple[MappedField, ...]


class PrivateLines(Strict, frozen=True):
    """The lines that only one CPU has used; their misses are cold ones."""

    lines: Count
    accesses: Count
    misses: Count


class Quantum(Strict, frozen=True):
    """One guest.

    Attributes:
        quantum: number of code blocks that a CPU executes before the next CPU's turn.
        operations: those of its program.
        watched: accesses to watched lines.
        private: what the rows leave out, if all of the kernel's memory was watched.
        again: misses on pages that something else used when counting began; the rows have the name of the last use.
    """

    quantum: Positive
    operations: Positive
    watched: Count
    rows: tuple[TrafficRow, ...]
    private: PrivateLines | UnsetType = UNSET
    again: Count | UnsetType = UNSET


class BlamedField(Strict, frozen=True, kw_only=True):
    """What a field costs by its place: the same accesses, counted again with this field on a line of its own.

    For an array, each element has a line of its own.

    Attributes:
        saved: misses that this saves, for each guest; negative if it costs some.
        saved_upgrades: the same for upgrades.
        alone: misses on the field when it is on a line of its own.
        inside: how many of these are false sharing between bytes of the field; no layout saves the others.
        elsewhere: misses saved in the middle guest, with lines of other sizes; `pairs` are lines that are fetched
            two at a time.
        bytes: how much larger each object becomes.
        objects: how many of these there were.
        readers: functions that only load it, the most frequent first.
        writers: functions that store to it, the most frequent first.
    """

    field: Word
    saved: tuple[Whole, ...]
    saved_upgrades: tuple[Whole, ...]
    alone: tuple[Count, ...]
    inside: tuple[Count, ...]
    elsewhere: dict[str, Whole]
    bytes: Count
    objects: Count
    readers: tuple[str, ...]
    writers: tuple[str, ...]


class TrafficParameters(Strict, frozen=True, kw_only=True):
    """The guests, and what they ran.

    Attributes:
        on: emulator and architecture.
        line: bytes of a cache line in the model.
        topology: its name; empty if all CPUs share one LLC.
        per_cluster: CPUs of a cluster; 1 if there are no clusters.
        per_llc: CPUs that share an LLC.
        per_node: CPUs of a node.
        shift: an instruction takes 2^shift ns of the guest's time.
        config: additional fragments of the kernel configuration.
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


class CountedDocument(Document, frozen=True, kw_only=True):
    """What a result and a trace say of their guests.

    Attributes:
        fingerprint: the kernel and its source; compiler and emulator; hashes of plugin and program.
        changes: state of each change, by id.
    """

    only_lines = True

    tool: Word
    started: Moment
    fingerprint: Annotated[dict[str, str], Meta(extra_json_schema={"required": ["build_id", "emulator", "plugin"]})]
    changes: dict[str, str]
    parameters: TrafficParameters

    def __post_init__(self) -> None:
        for name in ("build_id", "emulator", "plugin"):
            if name not in self.fingerprint:
                raise ValueError(f"its fingerprint lacks {name}")


class TrafficResult(CountedDocument, frozen=True, kw_only=True):
    """schedline c2c: accesses to objects of the scheduler in a guest with emulated caches; one guest for each quantum.

    Attributes:
        absent: number of CPUs on which the pointer to a watched object was null, by the object.
        blame: what moving a field would save, the most first; missing if nothing was kept to count again.
    """

    # With all objects of the kernel, 16 CPUs and three quanta it can have 76 million bytes.
    largest = 1 << 30

    schema: Literal["c2c-1"]
    watched: Annotated[tuple[Watched, ...], Meta(min_length=1)] = msgspec.field(name="objects")
    absent: dict[str, Positive]
    quanta: Annotated[tuple[Quantum, ...], Meta(min_length=1)] = msgspec.field(name="runs")
    blame: tuple[BlamedField, ...] | UnsetType = UNSET

    @property
    def line(self) -> int:
        """Bytes of a cache line."""
        return self.parameters.line

    @property
    def middle(self) -> Quantum:
        """The guest of the middle quantum."""
        return self.quanta[len(self.quanta) // 2]


def read_result(path: Path) -> TrafficResult:
    """Read a result from its file, or from the directory that contains the file."""
    return document.read_below(path, C2C_FILE, TrafficResult, "schedline c2c --out DIR writes one")
