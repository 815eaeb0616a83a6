# SPDX-License-Identifier: GPL-2.0
"""Results and traces that tests put together by hand: a root_domain whose fields lie on one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import structs
from replayed import tape_of

from schedlib import TOOL
from schedlib.c2c import plugin_guest
from schedlib.c2c.kernel_map import KernelMap, Symbol
from schedlib.c2c.objects import Instance, Watch
from schedlib.c2c.observed import Observed, ObservedGuest, Record
from schedlib.c2c.plugin_guest import Measurement
from schedlib.c2c.samples import Key, MeasuredDocument, Sampled, ScriptSums
from schedlib.c2c.samples_job import measured_of
from schedlib.formats.c2c_document import (
    Counts,
    FieldRef,
    MappedField,
    MappedStructure,
    Quantum,
    TrafficParameters,
    TrafficResult,
    TrafficRow,
    Watched,
)
from schedlib.kernel.topology import Topology, flat

STARTED = datetime(2026, 1, 1, tzinfo=UTC)
FINGERPRINT = {"build_id": "aa", "emulator": "QEMU 7.2", "plugin": "p", "compiler": "gcc"}


def parameters_of(shape: Topology | int, **others: Any) -> TrafficParameters:
    """What guests of a shape, or with so many CPUs, have run."""
    known = plugin_guest.sharing(flat(shape) if isinstance(shape, int) else shape)
    known |= {"on": "qemu-x86_64", "workload": "rt", "rounds": 10, "objects": ("root_domain",)}
    return TrafficParameters(**known | {"line": 64, "shift": 2, "config": ()} | others)


def measurement(shape: Topology | int, timeout: float = 120.0, **others: Any) -> Measurement:
    """One guest of a shape."""
    return Measurement(parameters_of(shape, **others), (100,), timeout)


# Results.

FIELDS = (
    MappedField(0, 4, "rto_count", ""),
    MappedField(40, 1, "overloaded", ""),
    MappedField(64, 8, "rto_mask", "cpumask"),
)


def row(path: str, offset: int, false: int, essential: int, **others: Any) -> TrafficRow:
    """The row for one field of root_domain."""
    misses = false + essential
    counts = Counts(accesses=2 * misses, hits=misses, hitm_llc=misses, essential=essential, false_shared=false)
    plain = TrafficRow("root_domain", "", offset // 64, offset, path, False, 4, "load", "pull_rt_task", counts)
    return structs.replace(plain, **others)


def result(*rows_of_quanta: tuple[TrafficRow, ...], build_id: str = "aa") -> TrafficResult:
    """A result with one guest for each tuple of rows."""
    return TrafficResult(
        schema="c2c-1",
        tool="tests",
        started=STARTED,
        fingerprint=FINGERPRINT | {"build_id": build_id},
        changes={"rd-lines": "applied"},
        parameters=parameters_of(8),
        watched=(
            Watched("root_domain", "", 128, 1, 0, (0,), FIELDS),
            Watched("root_domain", "*rto_mask", 8, 1, 0, (0,), ()),
        ),
        absent={"x": 1},
        quanta=tuple(Quantum(97 + 3 * number, 160, 1000, rows) for number, rows in enumerate(rows_of_quanta)),
    )


def by_place(records: Iterable[Record], start: int) -> dict[tuple[int, str], Counts]:
    """The counts by offset from an address, and kind."""
    got: dict[tuple[int, str], Counts] = {}
    for each in records:
        key = (each.address - start, each.kind)
        got[key] = Counts.sum([got.get(key, Counts()), each.counts])
    return got


def in_turns(n: int) -> tuple[Counts, ...]:
    """What two CPUs count that use a line in turns, n times each.

    Two packed counters, where all misses but the first of each CPU are false sharing; an atomic one, which is true
    sharing; a field that is read beside one that is written.
    """
    return (
        Counts(accesses=n, hitm_llc=n - 1, cold=1, invalidated=n - 1, essential=1, false_shared=n - 1),
        Counts(accesses=n, hitm_llc=n, invalidated=n, essential=1, false_shared=n - 1),
        Counts(accesses=2 * n, hitm_llc=2 * n - 1, cold=1, invalidated=2 * n - 1, essential=2 * n),
        Counts(accesses=n, hitm_llc=n - 1, cold=1, essential=1, false_shared=n - 1),
        Counts(accesses=n, clean_llc=1, upgrades=n - 1, invalidated=n, essential=1),
    )


def measured(owner: str = "root_domain", /, **taken: int) -> MeasuredDocument:
    """An import in which each field has so many samples, all of them taken."""
    sums = ScriptSums(str)
    for number, (path, count) in enumerate(taken.items()):
        key: Key = (FieldRef(owner, "", number, 64 * number, path, neighbour=False), "load", "reader")
        sums.rows[key] = Sampled(count, 1000 * count, count, 1000 * count, 0, 0)
    sums.taken_squares = sums.squares = 1_000_000 * sum(taken.values())
    return measured_of(sums, [Path(__file__).parent / "perf/samples.txt"], "aa", 64)


# Traces.

AT = 0x10000
TRACED = (
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


def observed(
    place: Path,
    accesses: Iterable[str] = (),
    *,
    line: int = 64,
    size: int = 64,
    tag: str = "root_domain",
    fields: Sequence[MappedField] = TRACED,
    at: Sequence[int] = (AT,),
    everything: bool = False,
) -> Observed:
    """A guest with these accesses, else two with rounds of ACCESSES. Their tapes are in `place`, counts are missing.

    Args:
        size: of what is watched of each object.
        at: where the objects lie.
        everything: all memory is watched, so the objects got their names afterwards.
    """
    key, tapes = f"{tag}+0", [list(accesses)]
    if not tapes[0]:
        tapes = [[*ACCESSES * (ROUNDS + number), BESIDE] for number in (0, 1)]
    guests = []
    for number, entries in enumerate(tapes):
        tape = place / f"{97 + 3 * number}.tape"
        watches = [] if everything else [f"watch {each:x} {size} 1" for each in at]
        tape.write_bytes(tape_of([*watches, *entries]))
        instances = tuple(Instance(key, 0, each, size, 0 if everything else 1) for each in at)
        guests.append(ObservedGuest(97 + 3 * number, ROUNDS + number, instances, tape=tape))
    known = KernelMap(
        "aa",
        {tag: MappedStructure(max(64, *(each.offset + each.size for each in fields)), tuple(fields))},
        (Symbol(READER, 16, "reader"), Symbol(WRITER, 16, "writer")),
        (),
    )
    return Observed(
        tool=TOOL,
        started=STARTED,
        fingerprint=FINGERPRINT,
        changes={"rd-lines": "absent"},
        parameters=parameters_of(4, line=line, objects=("all",) if everything else ("root_domain",)),
        known=known,
        watches=(Watch(key, tag, "", 0, size, tag, per_cpu=True, address=16, hops=(0,), optional=everything),),
        guests=tuple(guests),
    )
