# SPDX-License-Identifier: GPL-2.0
"""A trace that tests put together by hand: two CPUs, one object whose fields lie on one line."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from replayed import tape_of
from toy_results import parameters_of

from schedlib import TOOL
from schedlib.c2c.kernel_map import KernelMap, Symbol
from schedlib.c2c.objects import Watch
from schedlib.c2c.observed import Observed, ObservedGuest
from schedlib.c2c.raw import Instance, Raw
from schedlib.formats.c2c_document import MappedField, MappedStructure

FIELDS = (
    MappedField(0, 8, "left", ""),
    MappedField(8, 8, "right", ""),
    MappedField(16, 4, "one", ""),
    MappedField(16, 2, "other", ""),
    MappedField(24, 8, "quiet", ""),
)
"""one and other are a union, and a hole of four bytes follows."""

ROUNDS = 50
READER, WRITER = 0x100, 0x200
ACCESSES = (f"0 load 10008 8 {READER:x}", f"0 load 10018 8 {READER:x}", f"1 store 10000 8 {WRITER:x}")
"""One round: CPU 0 reads `right` and `quiet`, then CPU 1 writes `left`."""

BESIDE = "0 load 10048 8"
"""An access beside the object: on its line if lines have 128 bytes."""


def observed(place: Path, *, line: int = 64, size: int = 64) -> Observed:
    """Two guests, whose tapes are files of `place`. Their counts are missing."""
    guests = []
    for number, quantum in enumerate((97, 100)):
        tape = place / f"{quantum}.tape"
        tape.write_bytes(tape_of(["watch 10000 64 1", *ACCESSES * (ROUNDS + number), BESIDE]))
        instances = (Instance("root_domain+0", 0, 0x10000, 64, 1),)
        guests.append(ObservedGuest(quantum, ROUNDS + number, Raw(instances, {}, (), 0), tape))
    known = KernelMap(
        "aa",
        {"root_domain": MappedStructure(64, FIELDS)},
        (Symbol(READER, 16, "reader"), Symbol(WRITER, 16, "writer")),
        (),
    )
    watch = Watch(
        "root_domain+0", "root_domain", "", 0, size, "root_domain", per_cpu=True, address=16, hops=(0,), optional=False
    )
    return Observed(
        tool=TOOL,
        started=datetime(2026, 1, 1, tzinfo=UTC),
        fingerprint={"build_id": "aa", "emulator": "QEMU 7.2", "plugin": "p", "compiler": "gcc"},
        changes={"rd-lines": "absent"},
        parameters=parameters_of(4, line=line),
        known=known,
        watches=(watch,),
        guests=tuple(guests),
    )
