# SPDX-License-Identifier: GPL-2.0
"""Where a running kernel has its objects: drgn reads its memory, see scripts/c2c/object_map.py."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from schedlib import TOOL
from schedlib.c2c.c2c_options import SOURCES
from schedlib.c2c.kernel_map import KernelMap
from schedlib.c2c.memory_map import MemoryMap
from schedlib.c2c.objects import PER_CPU_OFFSETS, Watch, watches
from schedlib.c2c.raw import PAGE
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_map_document import MappedArray, MappedPage, ObjectMap
from schedlib.formats.c2c_trace_document import Address, Instance
from schedlib.formats.strict import Count, Strict, Whole
from schedlib.process import must

_SCRIPT = SOURCES / "object_map.py"
_FIRST_PER_CPU = "runqueues"


class _Answer(Strict, frozen=True):
    """What scripts/c2c/object_map.py writes."""

    slide: Whole
    release: str
    offsets: tuple[Address, ...]
    areas: tuple[Address, ...]
    instances: tuple[tuple[str, Count, Address], ...]
    pages: tuple[MappedPage, ...]
    arrays: tuple[MappedArray, ...]


@dataclass(frozen=True)
class WantedObjects:
    """What to look for.

    Attributes:
        memory: what is needed to name slabs; None if this kernel describes its pages otherwise.
        objects: names, as --objects takes them.
        cpus: possible CPUs.
        pages: addresses of pages whose use is asked for.
    """

    known: KernelMap
    memory: MemoryMap | None
    objects: tuple[str, ...]
    cpus: int
    pages: tuple[int, ...]


def objects_of_kernel(drgn: Sequence[str], vmlinux: Path, wanted: WantedObjects) -> ObjectMap:
    """The map of a running kernel.

    Args:
        drgn: the program, and which kernel it is to read. It has to be that of vmlinux.

    Raises:
        SchedlineError: drgn cannot read the kernel.
    """
    looked_at = watches(wanted.known, wanted.objects, wanted.cpus)
    argv = [*drgn, "--main-symbols", "-s", str(vmlinux), str(_SCRIPT)]
    text = must(argv, stdin=json.dumps(_asked(wanted, looked_at)).encode(), next_step="schedline c2c record --help")
    try:
        answer = msgspec.json.decode(text, type=_Answer)
    except msgspec.ValidationError as error:
        raise SchedlineError(f"drgn has answered something else: {error}", "drgn --version; see docs/c2c.md") from error
    sizes = {watch.key: watch.size for watch in looked_at}
    return ObjectMap(
        schema="c2c-objects-1",
        tool=TOOL,
        made=datetime.now(UTC).replace(microsecond=0),
        build_id=wanted.known.build_id,
        release=answer.release,
        page=PAGE,
        slide=answer.slide,
        cpus=wanted.cpus,
        offsets=answer.offsets,
        areas=answer.areas,
        objects=wanted.objects,
        instances=tuple(Instance(key, cpu, address, sizes[key], 1) for key, cpu, address in answer.instances),
        pages=answer.pages,
        arrays=answer.arrays,
    )


def _asked(wanted: WantedObjects, looked_at: Iterable[Watch]) -> dict[str, Any]:
    known, memory = wanted.known, wanted.memory
    offsets, per_cpu = known.symbol(PER_CPU_OFFSETS), known.symbol(_FIRST_PER_CPU)
    if offsets is None or per_cpu is None:
        raise SchedlineError("this kernel has no per-CPU variables: it was built for one CPU", "c2c needs two")
    # Where a base is no variable, as on arm64, slabs have no names yet.
    bases = [] if memory is None else [int(base, 16) for base in memory.bases if not base.startswith("=")]
    return {
        "offsets": {"name": offsets.name, "address": offsets.address},
        "per_cpu": per_cpu.address,
        "cpus": wanted.cpus,
        "areas": bases,
        "watches": [
            {"key": each.key, "per_cpu": each.per_cpu, "address": each.address, "hops": each.hops} for each in looked_at
        ],
        "pages": wanted.pages if bases else [],
        "arrays": [(name, *places) for name, places in memory.arrays.items()] if memory and bases else [],
    }
