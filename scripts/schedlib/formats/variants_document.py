# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c variants`: the cache-line traffic of several designs, beside each other."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Moment, Positive, Strict, Word


class DesignEvents(Strict, frozen=True, kw_only=True):
    """What happened on some lines: one number for each quantum.

    Attributes:
        other_llc: misses that a CPU of another LLC of the same node answered.
        other_node: misses that a CPU of another node answered.
    """

    misses: tuple[Count, ...]
    other_llc: tuple[Count, ...]
    other_node: tuple[Count, ...]
    false_shared: tuple[Count, ...]
    hitm: tuple[Count, ...]
    upgrades: tuple[Count, ...]
    accesses: tuple[Count, ...]


class DesignTraffic(Strict, frozen=True, kw_only=True):
    """What happened to one kind of object in one workload.

    Attributes:
        line: bytes of a cache line.
        lines_touched: how many lines of an object, with the memory behind its pointers, were accessed, for each
            quantum.
        total: all lines of these objects.
        fields: the same by field; an array counts as one field.
    """

    workload: Word
    line: Positive
    object: Word
    lines_touched: tuple[Count, ...]
    total: DesignEvents
    fields: dict[str, DesignEvents]


class DesignBytes(Strict, frozen=True, kw_only=True):
    """What one kind of object takes.

    Attributes:
        objects: how many there were in the first workload.
        own: bytes of each.
        behind: bytes behind the pointers of each, such as masks; without what an allocator adds.
    """

    object: Word
    objects: Positive
    own: Positive
    behind: Count


class MeasuredDesign(Strict, frozen=True, kw_only=True):
    """One column of the table.

    Attributes:
        kind: `kernel`: one that was built and run; `layout`: the accesses of the kernel `of`, with other offsets;
            `placebo`: the first kernel with a page of constants more, which changes no structure.
        changes: state of each change, by id.
    """

    name: Word
    kind: Literal["kernel", "layout", "placebo"]
    of: str
    build_id: Word
    commit: Word
    configuration: Word
    changes: dict[str, str]
    bytes: tuple[DesignBytes, ...]
    traffic: tuple[DesignTraffic, ...]


class VariantsDocument(Document, frozen=True, kw_only=True):
    """schedline c2c variants: several designs under the same workloads.

    Attributes:
        tool: name and version of what wrote this file.
        tree: where the kernel's source comes from.
        emulator, compiler: as they name themselves.
        topology: its name; empty if all CPUs share one LLC.
        quanta: lengths of a CPU's turn in blocks of code, in the order of the numbers.
        designs: the first one is what the others are compared with.
    """

    only_lines = True

    schema: Literal["c2c-variants-1"]
    tool: Word
    started: Moment
    tree: Word
    emulator: Word
    compiler: Word
    cpus: Annotated[int, Meta(ge=2)]
    topology: str
    workloads: Annotated[tuple[Word, ...], Meta(min_length=1)]
    quanta: Annotated[tuple[Positive, ...], Meta(min_length=1)]
    lines: Annotated[tuple[Positive, ...], Meta(min_length=1)]
    designs: Annotated[tuple[MeasuredDesign, ...], Meta(min_length=2)] = msgspec.field(name="variants")
