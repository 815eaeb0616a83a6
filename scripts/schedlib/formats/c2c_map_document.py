# SPDX-License-Identifier: GPL-2.0
"""Where a running kernel has its objects: the map that `schedline c2c import` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from schedlib.formats import document
from schedlib.formats.c2c_trace_document import Address, Instance
from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Moment, Positive, Strict, Whole, Word

MAP_FILE = "objects.json"


class MappedPage(Strict, frozen=True):
    """What a page is used for.

    Attributes:
        kind: slab, table, large, stack or other; see scripts/c2c/memory.h.
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


class MappedArray(Strict, frozen=True):
    """An array of structures: its first element, and how many it has."""

    structure: Word
    first: Address
    number: Positive


class ObjectMap(Document, frozen=True, kw_only=True):
    """Where a running kernel has its objects: the map that schedline c2c import reads.

    All addresses are those of the running kernel.

    Attributes:
        tool: name and version of what wrote this file.
        made: with time zone.
        release: of the kernel, as `uname -r` prints it.
        page: bytes of a page.
        slide: how far the kernel lies from the addresses in its vmlinux.
        cpus: possible CPUs.
        offsets: for each of them, what to add to the address that a per-CPU variable has in vmlinux.
        areas: where page descriptors, the direct map and vmalloc begin; empty if that is not known.
        objects: names of the watched objects, as --objects takes them.
        instances: where they lie; keys are those of schedline c2c for such a kernel and so many CPUs.
        pages: the pages on which samples lie.
        arrays: arrays of structures behind a pointer.
    """

    only_lines = True

    schema: Literal["c2c-objects-1"]
    tool: Word
    made: Moment
    build_id: Word
    release: Word
    page: Positive
    slide: Whole
    cpus: Positive
    offsets: tuple[Address, ...]
    areas: tuple[Address, ...]
    objects: tuple[Word, ...]
    instances: tuple[Instance, ...]
    pages: tuple[MappedPage, ...]
    arrays: tuple[MappedArray, ...]


def read_objects(path: Path) -> ObjectMap:
    """Read an object map from its file, or from the directory that contains the file.

    Raises:
        Refused: the file is not a valid map.
    """
    return document.read_below(path, MAP_FILE, ObjectMap, "see docs/c2c.md, Beside a real machine")
