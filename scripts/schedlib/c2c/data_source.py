# SPDX-License-Identifier: GPL-2.0
"""What the data source of a sample says: `union perf_mem_data_src` of include/uapi/linux/perf_event.h.

perf prints the number before its own words for it. The words differ between versions and are cut off at 100 characters,
so the number is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from schedlib.formats.c2c_measured_document import SampleKind

_LOAD, _STORE = 0x2, 0x4
_LEVEL, _SNOOP, _LOCK, _REMOTE, _SNOOPX, _HOPS = 5, 19, 24, 37, 38, 43
_REMOTE_CACHE = 0x400 | 0x800
_HITM, _PEER, _LOCKED = 0x10, 0x2, 0x2


@dataclass(frozen=True)
class DataSource:
    """What a sample did.

    Attributes:
        taken: the line came from a cache that had modified it, or from a peer.
        remote: it came from another node.
    """

    kind: SampleKind
    taken: bool
    remote: bool


def data_source(value: int) -> DataSource | None:
    """What the number says; None if it is neither a load nor a store."""
    operation = value & 0x1F
    if not operation & (_LOAD | _STORE):
        return None
    locked = bool(value >> _LOCK & 0x3 & _LOCKED)
    kind: SampleKind = "store" if operation & _STORE else "rmw" if locked else "load"
    # perf counts HITM for loads alone; see c2c_decode_stats() of tools/perf/util/mem-events.c.
    snooped = value >> _SNOOP & 0x1F & _HITM or value >> _SNOOPX & 0x3 & _PEER
    taken = bool(operation & _LOAD and snooped)
    # With hops, POWER uses the bit for another core of the same node.
    remote = bool(value >> _LEVEL & 0x3FFF & _REMOTE_CACHE or (value >> _REMOTE & 1 and not value >> _HOPS & 0x7))
    return DataSource(kind, taken, taken and remote)
