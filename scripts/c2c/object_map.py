# SPDX-License-Identifier: GPL-2.0
"""Where a kernel has its objects: run by drgn, which has the kernel as `prog`, for `schedline c2c record`.

Standard input is what schedlib.c2c.samples_job asks for, as JSON, with addresses as they are in vmlinux. Standard
output is the answer. What cannot be read is left out, so it has no name later: nothing is guessed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from drgn import FaultError, Program, ProgramFlags, cast
from drgn.helpers.linux.mm import compound_head, in_direct_map, page_to_virt, virt_to_page
from drgn.helpers.linux.slab import slab_object_info

_PAGE_TYPES = (("table", "PGTY_table"), ("large", "PGTY_large_kmalloc"))
_LOST = (AttributeError, FaultError, LookupError, OverflowError, TypeError, ValueError)
"""What drgn raises for memory that is gone, and for a kernel that keeps its pages otherwise than it knows."""


def answered(prog: Program, asked: dict[str, Any]) -> dict[str, Any]:
    """The answer; LookupError if drgn found no debug information of this kernel."""
    offsets_of = prog[asked["offsets"]["name"]]
    slide = (offsets_of.address_ or 0) - asked["offsets"]["address"]
    offsets = [int(offsets_of[cpu]) for cpu in range(asked["cpus"])]

    def moved(address: int) -> int:
        # Where per-CPU variables are linked at 0, KASLR does not move them.
        return (address + slide) % (1 << 64) if address >> 63 else address

    return {
        "slide": slide,
        "release": prog["init_uts_ns"].name.release.string_().decode(),
        "offsets": [(offset + moved(asked["per_cpu"]) - asked["per_cpu"]) % (1 << 64) for offset in offsets],
        "areas": [prog.read_u64(moved(address)) for address in asked["areas"]],
        "instances": [[key, cpu, address] for (key, address), cpu in _instances(prog, asked, offsets, moved).items()],
        "pages": [page for address in asked["pages"] if (page := _page(prog, address))],
        "arrays": [
            {
                "structure": name,
                "first": prog.read_u64(prog.read_u64(moved(pointer)) if last else moved(pointer)),
                "number": prog.read_u32(moved(last)) + 1 if last else 1,
            }
            for name, pointer, last in asked["arrays"]
        ],
    }


def _instances(
    prog: Program, asked: dict[str, Any], offsets: list[int], moved: Callable[[int], int]
) -> dict[tuple[str, int], int]:
    """The objects that were found, each once even if several CPUs lead to it, and the first of these."""
    found: dict[tuple[str, int], int] = {}
    for watch in asked["watches"]:
        start = moved(watch["address"])
        for cpu in range(asked["cpus"]) if watch["per_cpu"] else (0,):
            before, behind = (0, offsets[cpu]) if watch["allocated"] else (offsets[cpu] if watch["per_cpu"] else 0, 0)
            if address := _found(prog, start + before, watch):
                found.setdefault((watch["key"], (address + behind) % (1 << 64)), cpu)
    return found


def _found(prog: Program, address: int, watch: dict[str, Any]) -> int:
    """Where a watched object lies; 0 if a pointer to it is null or an empty list, or its memory cannot be read."""
    address %= 1 << 64
    for hop in watch["hops"]:
        try:
            pointer = prog.read_u64(address)
        except FaultError:
            return 0
        if pointer in (0, address):
            return 0
        address = (pointer + hop) % (1 << 64)
    return address


def _page(prog: Program, address: int) -> dict[str, Any] | None:
    """What a page is used for, as the map describes it."""
    try:
        if not in_direct_map(prog, address):
            return None
        head = compound_head(virt_to_page(prog, address))
        first = page_to_virt(head).value_()
        inside = slab_object_info(prog, address)
        if inside:
            cache = inside.slab_cache
            size, object_size = cache.size.value_(), cache.object_size.value_()
            first += (inside.address - first) % size
            return _use(address, "slab", _name(cache), first, size, object_size)
        kind = next((kind for kind, name in _PAGE_TYPES if _is_of_type(prog, head, name)), "other")
    except _LOST:
        return None
    return _use(address, kind)


def _name(cache: Any) -> str:
    """A slab cache's name. It may also hold the objects of others, merged into it: then it tells no type."""
    name: str = cache.name.string_().decode()
    return f"{name}-merged" if cache.refcount.value_() > 1 else name


def _use(address: int, kind: str, *slab: Any) -> dict[str, Any]:
    keys = ("address", "kind", "cache", "first", "size", "object_size")
    return dict(zip(keys, (address, kind, *(slab or ("", 0, 0, 0))), strict=True))


def _is_of_type(prog: Program, page: Any, name: str) -> bool:
    """Whether a page has a type of this name, as kernels since 6.12 keep it: in the upper byte."""
    try:
        return bool(int(cast("unsigned int", page.page_type)) >> 24 == prog.constant(name).value_())
    except LookupError:
        return False


def main(prog: Program) -> None:
    """See above."""
    if not prog.flags & ProgramFlags.IS_LINUX_KERNEL:
        sys.exit("this is no Linux kernel")
    try:
        answer = answered(prog, json.load(sys.stdin))
    except LookupError as error:
        sys.exit(f"the vmlinux has no debug information for this kernel: {error}")
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(globals()["prog"])
