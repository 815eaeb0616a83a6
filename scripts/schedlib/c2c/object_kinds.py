# SPDX-License-Identifier: GPL-2.0
"""The objects that can be asked for by name, and where a kernel has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ObjectKind:
    """An object that can be asked for.

    Attributes:
        symbol: the variable from which it is found.
        tag: its structure, or the variable's name where the type has none.
        hops: (structure, pointer in it) to follow from the variable; an empty structure: the variable is the pointer.
        part: of its structure alone; empty for all.
        masks: what is behind its own pointers belongs to it: off-stack masks, and arrays of one element for each CPU.
    """

    symbol: str
    tag: str
    per_cpu: bool = True
    hops: tuple[tuple[str, str], ...] = ()
    part: str = ""
    masks: bool = False


_RD = (("rq", "rd"),)
_SD = (("rq", "sd"),)

KINDS = {
    "rq": ObjectKind("runqueues", "rq"),
    "root_domain": ObjectKind("runqueues", "root_domain", hops=_RD, masks=True),
    "cpupri": ObjectKind("runqueues", "root_domain", hops=_RD, part="cpupri", masks=True),
    "cpudl": ObjectKind("runqueues", "root_domain", hops=_RD, part="cpudl", masks=True),
    "def_root_domain": ObjectKind("def_root_domain", "root_domain", per_cpu=False),
    "nohz": ObjectKind("nohz", "nohz", per_cpu=False, masks=True),
    "sched_domain": ObjectKind("runqueues", "sched_domain", hops=_SD),
    "sched_domain_shared": ObjectKind("sd_llc_shared", "sched_domain_shared", hops=(("", ""),)),
    "sched_group": ObjectKind("runqueues", "sched_group", hops=(*_SD, ("sched_domain", "groups"))),
    "sched_group_capacity": ObjectKind(
        "runqueues", "sched_group_capacity", hops=(*_SD, ("sched_domain", "groups"), ("sched_group", "sgc"))
    ),
}
"""What --objects knows."""

DEFAULT = ("rq", "root_domain")

TAGS = frozenset({kind.tag for kind in KINDS.values()} | {"cpudl_item", "cpupri_leaf", "cpupri_place"})
"""The structures whose fields are needed."""
