# SPDX-License-Identifier: GPL-2.0
"""Samples beside emulated counts; and the round trip: a guest's accesses as perf's samples, imported again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import toy_results
from msgspec import structs
from perf_text import TEXT_FILE, sampled, write_text

from schedlib.c2c.address_names import MAP_FILE, AddressNames, read_objects
from schedlib.c2c.kernel_map import Symbol
from schedlib.c2c.observed import Record, result_of
from schedlib.c2c.perf_script import Key, ScriptSums, read_script
from schedlib.c2c.samples import MeasuredDocument, Sampled, brief, compare, emulated_amounts
from schedlib.c2c.samples_job import measured_of
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import Counts, MappedField, MappedStructure, Place

FILE = Path(__file__).parent / "perf/samples.txt"


def measured(*, owner: str = "root_domain", **taken: int) -> MeasuredDocument:
    """An import in which each field has so many samples, all of them taken."""
    sums = ScriptSums()
    for number, (path, count) in enumerate(taken.items()):
        key: Key = (Place(owner, "", number, 64 * number, path, neighbour=False), "load", "reader")
        sums.rows[key] = Sampled(count, 1000 * count, count, 1000 * count, 0, 0)
    sums.taken_squares = sums.squares = 1e6 * sum(taken.values())
    return measured_of(sums, [FILE], "aa", 64)


EMULATED = toy_results.result(
    (
        toy_results.row("rto_count", 0, 0, 300),
        toy_results.row("overloaded", 40, 0, 100),
        toy_results.row("rto_mask", 64, 0, 0),
    ),
    (
        toy_results.row("rto_count", 0, 0, 310),
        toy_results.row("overloaded", 40, 0, 90),
        toy_results.row("rto_mask", 64, 0, 0),
    ),
)


def test_fields_agree_within_sampling_error_and_quanta() -> None:
    found = compare(measured(rto_count=765, overloaded=235), EMULATED)
    assert {each.name: each.agrees for each in found.fields} == {
        "root_domain.rto_count": True,
        "root_domain.overloaded": True,
    }
    assert next(brief(found)) == "measured on a machine: 2 of 2 fields agree"
    found = compare(measured(rto_count=600, overloaded=200, __lock=500), EMULATED)
    assert not next(each for each in found.fields if each.name == "root_domain.__lock").agrees


def test_few_samples_agree_with_much() -> None:
    assert all(each.agrees for each in compare(measured(rto_count=2, overloaded=2), EMULATED).fields)


def test_nothing_in_common_is_an_error() -> None:
    with pytest.raises(SchedlineError, match="no sample lies in what was emulated"):
        compare(measured(owner="dentry", d_flags=5), EMULATED)


# The round trip.

BASE = 0xFFFF888000000000
"""The toy's object lies in the lower half of all addresses, where perf's samples are of user memory."""


def record(address: int, pc: int, accesses: int, hitm: int, kind: str = "load") -> Record:
    counts = Counts(accesses=accesses, hits=accesses - hitm, hitm_llc=hitm, essential=hitm)
    return Record(address, 8, kind, pc, counts)  # type: ignore[arg-type]


RECORDS = (
    record(0x10000, toy_results.WRITER, 40000, 20000, "store"),
    record(0x10000, toy_results.READER, 30000, 9000),
    record(0x10008, toy_results.READER, 90000, 30000, "rmw"),
    record(0x10010, toy_results.READER, 50000, 500),
    record(0x10018, toy_results.READER, 200000, 12000),
)


def test_one_of_each_period_is_sampled() -> None:
    found = list(sampled(RECORDS, 100, 1))
    whole = sum(each.counts.accesses for each in RECORDS)
    assert len(found) == pytest.approx(whole / 100, rel=0.05)
    assert list(sampled(RECORDS, 1, 1))[:2] == [(RECORDS[0], True)] * 2
    assert len(list(sampled(RECORDS, 1, 1))) == whole


def import_again(tmp_path: Path, records: tuple[Record, ...], period: int) -> tuple[MeasuredDocument, dict[str, int]]:
    """Records as perf's samples, imported again; and the emulated amounts of their fields."""
    observed = toy_results.observed(tmp_path)
    raw = observed.guests[0].raw
    instances = tuple(structs.replace(each, address=each.address + BASE) for each in raw.instances)
    records = tuple(replace(each, address=each.address + BASE) for each in records)
    guest = replace(observed.guests[0], raw=replace(raw, instances=instances, records=records))
    observed = replace(observed, guests=(guest,))
    write_text(observed, guest, tmp_path, period, seed=7)
    rq = MappedStructure(64, (MappedField(16, 8, "rd", "root_domain"),))
    structures = {**observed.known.structures, "rq": rq}
    known = replace(observed.known, structures=structures, data=(Symbol(0, 64, "runqueues"),))
    names = AddressNames(known, None, read_objects(tmp_path / MAP_FILE), 64)
    sums = read_script(tmp_path / TEXT_FILE, names)
    return measured_of(sums, [FILE], "aa", 64), emulated_amounts(result_of(observed), "taken")[0]


def distance(found: MeasuredDocument, counts: dict[str, int], period: int) -> float:
    """Pearson's chi-square of the samples of each field against its counts."""
    seen = {each.name: each.sampled.taken for each in found.fields}
    return sum((seen.get(name, 0) - count / period) ** 2 / (count / period) for name, count in counts.items() if count)


def test_the_round_trip_gives_the_counts_back(tmp_path: Path) -> None:
    found, counts = import_again(tmp_path, RECORDS, 50)
    assert not found.unresolved and found.kernel.period == pytest.approx(410000, rel=0.03)
    assert {name: count for name, count in counts.items() if count} == {
        "root_domain.left": 9000,
        "root_domain.right": 30000,
        "root_domain.one": 500,
        "root_domain.quiet": 12000,
    }
    # Four fields: with probability 0.999 below 18.47.
    assert distance(found, counts, 50) < 18.47
    whole = sum(counts.values())
    inside = [each.low <= counts[each.name] / whole <= each.high for each in found.fields if counts[each.name]]
    assert all(inside)


def test_the_round_trip_notices_a_field_that_moved(tmp_path: Path) -> None:
    moved = (*RECORDS[:2], replace(RECORDS[2], address=0x10018), *RECORDS[3:])
    found, _ = import_again(tmp_path, moved, 50)
    (tmp_path / "again").mkdir()
    _, counts = import_again(tmp_path / "again", RECORDS, 50)
    assert distance(found, counts, 50) > 18.47
