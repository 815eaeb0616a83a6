# SPDX-License-Identifier: GPL-2.0
"""The objects that --objects accepts, and where a kernel has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ObjectKind:
    """An object that --objects accepts.

    Attributes:
        symbol: the variable from which it is found.
        tag: its structure, or the variable's name where the type has none.
        hops: pointers to follow from the variable, each as (structure, pointer in it); an empty structure means that
            the variable itself is the pointer.
        part: the only member of its structure to watch; empty for the whole structure.
        masks: also watch the memory behind its pointers: off-stack masks, and arrays of one element for each CPU.
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
"""The objects by name."""

DEFAULT = ("rq", "root_domain")

TAGS = frozenset({kind.tag for kind in KINDS.values()} | {"cpudl_item", "cpupri_leaf", "cpupri_place"})
"""The structures whose fields are needed."""
