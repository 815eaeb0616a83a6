# SPDX-License-Identifier: GPL-2.0
"""Results that tests put together by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from schedlib.formats.c2c_document import (
    AccessKind,
    Counts,
    MappedField,
    Quantum,
    TrafficParameters,
    TrafficResult,
    TrafficRow,
    Watched,
)

FIELDS = (
    MappedField(0, 4, "rto_count", ""),
    MappedField(40, 1, "overloaded", ""),
    MappedField(64, 8, "rto_mask", "cpumask"),
)


def row(
    path: str, offset: int, false: int, essential: int, *, neighbour: bool = False, kind: AccessKind = "load"
) -> TrafficRow:
    """The row for one field of root_domain."""
    misses = false + essential
    counts = Counts(accesses=2 * misses, hits=misses, hitm_llc=misses, essential=essential, false_shared=false)
    return TrafficRow("root_domain", "", offset // 64, offset, path, neighbour, 4, kind, "pull_rt_task", counts)


def parameters_of(cpus: int, **others: Any) -> TrafficParameters:
    """What guests with so many CPUs have run, all of which share an LLC."""
    chosen: dict[str, Any] = {"on": "qemu-x86_64", "workload": "rt", "rounds": 10, "line": 64, "topology": ""}
    chosen |= {"cpus": cpus, "per_cluster": 1, "per_llc": cpus, "per_node": cpus, "shift": 2, "config": ()}
    return TrafficParameters(**chosen | {"objects": ("root_domain",)} | others)


def result(*rows_of_quanta: tuple[TrafficRow, ...], state: str = "applied", build_id: str = "aa") -> TrafficResult:
    """A result with one guest for each tuple of rows."""
    parameters = parameters_of(8)
    fingerprint = {"build_id": build_id, "emulator": "QEMU 7.2", "plugin": "p", "compiler": "gcc", "configuration": "c"}
    quanta = tuple(Quantum(97 + 3 * number, 160, 1000, rows) for number, rows in enumerate(rows_of_quanta))
    watched = (
        Watched("root_domain", "", 128, 1, 0, (0,), FIELDS),
        Watched("root_domain", "*rto_mask", 8, 1, 0, (0,), ()),
    )
    return TrafficResult(
        schema="c2c-1",
        tool="tests",
        started=datetime(2026, 1, 1, tzinfo=UTC),
        fingerprint=fingerprint,
        changes={"rd-lines": state},
        parameters=parameters,
        watched=watched,
        absent={"x": 1},
        quanta=quanta,
    )
