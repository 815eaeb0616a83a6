# SPDX-License-Identifier: GPL-2.0
"""Results that tests put together by hand."""

from __future__ import annotations

from schedlib.c2c.document import Quantum, Result, Watched
from schedlib.c2c.kernel_map import Field
from schedlib.c2c.objects import Place
from schedlib.c2c.raw import Counts
from schedlib.c2c.traffic_table import Row

FIELDS = (Field(0, 4, "rto_count"), Field(40, 1, "overloaded"), Field(64, 8, "rto_mask", "cpumask"))


def row(path: str, offset: int, false: int, essential: int, *, neighbour: bool = False, kind: str = "load") -> Row:
    """One place of root_domain."""
    place = Place("root_domain", "", offset // 64, offset, path, neighbour)
    misses = false + essential
    counts = Counts(accesses=2 * misses, hits=misses, hitm_llc=misses, essential=essential, false_shared=false)
    return Row(place, 4, kind, "pull_rt_task", counts)


def result(*rows_of_quanta: tuple[Row, ...], state: str = "applied", build_id: str = "aa") -> Result:
    """A result with a guest for each row of rows."""
    parameters = {
        "on": "qemu-x86_64",
        "workload": "rt",
        "cpus": 8,
        "rounds": 10,
        "line": 64,
        "topology": "",
        "per_cluster": 1,
        "per_llc": 8,
        "per_node": 8,
        "shift": 2,
        "config": [],
        "objects": ["root_domain"],
    }
    fingerprint = {"build_id": build_id, "emulator": "QEMU 7.2", "plugin": "p", "compiler": "gcc", "configuration": "c"}
    quanta = tuple(Quantum(97 + 3 * number, 160, 1000, rows) for number, rows in enumerate(rows_of_quanta))
    watched = (Watched("root_domain", "", 128, 1, 0, (0,), FIELDS), Watched("root_domain", "*rto_mask", 8, 1, 0, (0,)))
    return Result("2026-01-01T00:00:00+00:00", fingerprint, {"rd-lines": state}, parameters, watched, {"x": 1}, quanta)
