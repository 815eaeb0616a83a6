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
        hitm_*: misses on a line that another CPU has modified: of this cluster, of this LLC, of this node, or another.
        clean_*: the same if others have it unmodified, by the nearest.
        cold: misses on a line that no cache has.
        upgrades: writes to a line that the CPU's own cache shares with others.
        invalidated: copies in other CPUs' caches that writes invalidated.
        essential: misses that fetched bytes that another CPU had written and this CPU used, or that were this CPU's
            first on the line. All others are false_shared: pure false sharing.
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
        return self.hitm_cluster + self.hitm_llc + self.hitm_node + self.hitm_remote

    @property
    def misses(self) -> int:
        return self.essential + self.false_shared

    @property
    def remote(self) -> int:
        return self.fetched("remote")

    def fetched(self, distance: str) -> int:
        """Misses that a CPU at one of DISTANCES answered."""
        return int(getattr(self, f"hitm_{distance}") + getattr(self, f"clean_{distance}"))

    @classmethod
    def sum(cls, parts: Iterable[Counts]) -> Counts:
        rows = [msgspec.structs.astuple(part) for part in parts]
        return cls(*(sum(column) for column in zip(*rows, strict=True))) if rows else cls()


class FieldRef(Strict, frozen=True, order=True):
    """The object and field that an address belongs to.

    Attributes:
        prefix: path of the pointer through which the object refers to the address, such as *rto_mask; else empty.
        line: counted from the object's first.
        offset: in the object, or in the memory that the pointer refers to.
        path: the field; for a neighbour its name, if it has one.
        neighbour: the address is outside of the object, on its first or last line.
    """

    owner: Word
    prefix: str
    line: Whole
    offset: Whole
    path: str
    neighbour: bool


class TrafficRow(FieldRef, frozen=True):
    """The accesses of one function to one place, of one kind and of so many bytes."""

    size: Positive
    kind: AccessKind
    function: Word
    counts: Counts


class MappedField(Strict, frozen=True):
    """A field that has no fields inside; `pointee` is empty if it is no pointer."""

    offset: Count
    size: Positive
    path: Word
    pointee: str


class MappedStructure(Strict, frozen=True):
    """A structure's size in bytes, and its fields in the order of their offsets."""

    size: Count
    fields: tuple[MappedField, ...]

    def find(self, path: str) -> MappedField | None:
        return next((field for field in self.fields if field.path == path), None)


class Watched(Strict, frozen=True):
    """A watched object, or (with a prefix) what a pointer in it leads to.

    Attributes:
        number: how many there were; `later`: of these, allocated between the markers.
        skews: the different offsets on a cache line at which they began, in bytes.
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


class UsedVariable(Strict, frozen=True):
    """How many CPUs loaded a variable, and stored to it; of a per-CPU variable, the copy that the most used."""

    name: Word
    per_cpu: bool
    readers: Count
    writers: Count


class Quantum(Strict, frozen=True):
    """One guest.

    Attributes:
        quantum: code blocks that a CPU executes before the next CPU's turn.
        operations: those of its program.
        watched: accesses to watched lines.
        private, again, variables: if all of the kernel's memory was watched: what the rows leave out, misses on pages
            that something else used when counting began (the rows have the name of the last use), and who used what.
    """

    quantum: Positive
    operations: Positive
    watched: Count
    rows: tuple[TrafficRow, ...]
    private: PrivateLines | UnsetType = UNSET
    again: Count | UnsetType = UNSET
    variables: tuple[UsedVariable, ...] | UnsetType = UNSET


class BlamedField(Strict, frozen=True, kw_only=True):
    """What a field costs by its place: the same accesses, counted again with this field on a line of its own.

    Each element of an array gets a line of its own.

    Attributes:
        saved, saved_upgrades: misses and upgrades that this saves, for each guest; negative if it costs some.
        alone: misses that are left on the field.
        inside: of these, false sharing between bytes of the field; no layout saves the others.
        elsewhere: misses saved in the middle guest with lines of other sizes, or fetched in `pairs`.
        bytes: how much larger each of `objects` becomes.
        readers, writers: functions that only load it, and that store to it, the most frequent first.
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
        line: bytes of a cache line.
        topology: empty if all CPUs share one LLC.
        per_cluster, per_llc, per_node: numbers of CPUs; 1 to a cluster if there are none.
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

    no_control_chars = True

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
        blame: what moving a field would save, the most first; missing if no accesses were kept.
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
        return self.parameters.line

    @property
    def middle(self) -> Quantum:
        return self.quanta[len(self.quanta) // 2]


def read_result(path: Path) -> TrafficResult:
    """Read a result from its file, or from the directory that contains the file."""
    return document.read_below(path, C2C_FILE, TrafficResult, "schedline c2c --out DIR writes one")
