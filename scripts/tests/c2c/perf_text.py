# SPDX-License-Identifier: GPL-2.0
"""Writes the accesses of a trace as perf script would print samples of them, and the map of their objects.

So the way from samples to fields can be tried on a machine without such counters: the import has to give the counts of
the guest back, within the error of sampling.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path

from schedlib import TOOL
from schedlib.c2c.address_names import MAP_FILE, ObjectMap
from schedlib.c2c.c2c_options import DEFAULT
from schedlib.c2c.observed import PAGE, Observed, ObservedGuest, Record
from schedlib.cache import write_atomic
from schedlib.formats import document

TEXT_FILE = "samples.txt"

# union perf_mem_data_src, as an Intel CPU fills it, and the words of perf 6.x for it.
_HIT = {"load": 0x10268100142, "rmw": 0x1026A100142, "store": 0x10268100144}
_HITM = {"load": 0x10668800842, "rmw": 0x1066A800842, "store": 0x10268100144}
_WORDS = {
    "load": "|OP LOAD|LVL {}|TLB L1 or L2 hit|LCK No|BLK  N/A",
    "rmw": "|OP LOAD|LVL {}|TLB L1 or L2 hit|LCK Yes|BLK  N/A",
    "store": "|OP STORE|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A",
}
_EVENTS = {"load": "cpu/mem-loads,ldlat=30/P", "rmw": "cpu/mem-loads,ldlat=30/P", "store": "cpu/mem-stores/P"}


def sampled(records: Sequence[Record], period: int, seed: int) -> Iterator[tuple[Record, bool]]:
    """A random sample of all accesses, each with the probability 1/period: the record, and whether it was HITM."""
    draw = random.Random(seed)  # noqa: S311  not for security
    # Accesses to skip until the next sample: geometric.
    scale = log(1 - 1 / period) if period > 1 else 0.0

    def skip() -> int:
        return int(log(1 - draw.random()) / scale) if scale else 0

    rest = skip()
    for record in records:
        place = rest
        while place < record.counts.accesses:
            yield record, place < record.counts.hitm
            place += skip() + 1
        rest = place - record.counts.accesses


def script_lines(
    samples: Iterator[tuple[Record, bool]], period: int, functions: Sequence[tuple[int, str]], slide: int = 0
) -> Iterator[str]:
    """The lines of perf script -F comm,tid,cpu,time,period,event,addr,data_src,weight,ip,sym,symoff.

    Args:
        functions: for each instruction of the records, in their order, the start and the name of its function.
        slide: added to the addresses of instructions.
    """
    names = dict(functions)
    for number, (record, is_hitm) in enumerate(samples):
        source = (_HITM if is_hitm else _HIT)[record.kind]
        words = _WORDS[record.kind].format("L3 or L3 hit|SNP HitM" if is_hitm else "L1 or L1 hit|SNP None")
        said = f"{source:16x} {words}"[:99]
        yield (
            f"{'guest':>16} {100:7d} [{number % 4:03d}] {number // 1000:5d}.{number % 1000:03d}000: {period:10d} "
            f"{_EVENTS[record.kind]:>24}: {record.address:16x}{said:<99}{300 if is_hitm else 40:16d} "
            f"{record.pc + slide:16x} {names.get(record.pc, '[unknown]')}+0x1\n"
        )


def objects_of(observed: Observed, guest: ObservedGuest) -> ObjectMap:
    """The map of a guest's watched objects, as schedline c2c import reads it."""
    watched = {watch.key for watch in observed.watches}
    return ObjectMap(
        schema="c2c-objects-1",
        tool=TOOL,
        made=observed.started,
        build_id=observed.known.build_id,
        release="a guest",
        page=PAGE,
        slide=0,
        cpus=observed.parameters.cpus,
        offsets=(),
        areas=(),
        objects=tuple(name for name in observed.parameters.objects if name != "all") or DEFAULT,
        instances=tuple(each for each in guest.raw.instances if each.epoch == 1 and each.key in watched),
        pages=(),
        arrays=(),
    )


def write_text(observed: Observed, guest: ObservedGuest, directory: Path, period: int, seed: int) -> None:
    """Write the samples and the map of a guest whose accesses were counted."""
    resolver = observed.resolver(guest, observed.parameters.line)
    functions = [(record.pc, resolver.function(record.pc)) for record in guest.raw.records]
    lines = script_lines(sampled(guest.raw.records, period, seed), period, functions)
    write_atomic(directory / TEXT_FILE, "".join(lines))
    document.write(directory / MAP_FILE, objects_of(observed, guest))
