# SPDX-License-Identifier: GPL-2.0
"""Finding fields by debug information: a small program with the scheduler's names, and addresses set by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import toy_kernel

from schedlib.c2c.c2c_options import KINDS, TAGS
from schedlib.c2c.kernel_map import KernelMap, kernel_map
from schedlib.c2c.objects import Instance, Resolver, Watch, watches
from schedlib.c2c.observed import Record, rows
from schedlib.c2c.traffic_report import field_name, line_name
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import Counts

pytestmark = pytest.mark.tools

CPUS = 4


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> KernelMap:
    directory = tmp_path_factory.mktemp("toy")
    return kernel_map(toy_kernel.build(directory), directory, TAGS)


def watch_of(known: KernelMap, key: str) -> Watch:
    return next(each for each in watches(known, ["rq", "root_domain", "nohz"], CPUS) if each.key == key)


def resolver_of(known: KernelMap, addresses: dict[str, int], line: int = 64) -> Resolver:
    """With watched objects at the addresses that a test gives."""
    there = [watch_of(known, key) for key in addresses]
    return Resolver(known, line, there, [Instance(each.key, 0, addresses[each.key], each.size, 1) for each in there])


def test_fields_of_a_structure(known: KernelMap) -> None:
    fields = [(field.offset, field.size, field.path) for field in known.structures["root_domain"].fields]
    assert fields[:4] == [(0, 4, "refcount"), (4, 4, "rto_count"), (8, 4, "first"), (8, 4, "second")]
    assert fields[4:7] == [(12, 1, "overloaded"), (12, 1, "overutilized"), (16, 8, "rto_mask")]
    assert (40, 4, "cpupri.pri_to_cpu[1].count") in fields
    assert known.structures["root_domain"].find("cpupri.pri_to_cpu[2].mask") is not None


def test_bits_have_the_bytes_that_they_are_in(known: KernelMap) -> None:
    """DWARF 4 gives the word of a bit field, which others may use, too."""
    fields = [(field.offset, field.size, field.path) for field in known.structures["sched_domain_shared"].fields]
    assert fields == [(0, 4, "nr_busy_cpus"), (4, 1, "has_idle_cores"), (5, 1, "is_set"), (6, 2, "nr_idle_scan")]


def test_a_variable_of_a_type_without_name(known: KernelMap) -> None:
    assert [field.path for field in known.structures["nohz"].fields] == ["idle_cpus_mask", "nr_cpus"]


def test_the_map_is_kept_by_build_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = toy_kernel.build(tmp_path)
    first = kernel_map(program, tmp_path / "kept", TAGS)
    monkeypatch.setattr("schedlib.c2c.kernel_map.Units", None)
    assert kernel_map(program, tmp_path / "kept", TAGS) == first
    with pytest.raises(SchedlineError):
        kernel_map(program, tmp_path / "kept", TAGS | {"other"})


@pytest.mark.parametrize(("flags", "said"), [(("-s",), "no symbols"), (("-g0",), "no debug information")])
def test_a_stripped_vmlinux_is_refused(tmp_path: Path, flags: tuple[str, ...], said: str) -> None:
    program = toy_kernel.build(tmp_path, *flags)
    with pytest.raises(SchedlineError, match=said):
        kernel_map(program, tmp_path, TAGS)
    assert not list(tmp_path.glob("*.json"))


def test_what_is_no_vmlinux_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vmlinux").write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(SchedlineError, match="vmlinux"):
        kernel_map(tmp_path / "vmlinux", tmp_path, TAGS)
    with pytest.raises(SchedlineError):
        kernel_map(tmp_path / "none", tmp_path, TAGS)


def test_watches_follow_pointers(known: KernelMap) -> None:
    found = {watch.key: watch for watch in watches(known, ["rq", "root_domain"], CPUS)}
    runqueues = known.symbol("runqueues")
    assert runqueues is not None
    assert (found["rq+0"].address, found["rq+0"].hops, found["rq+0"].per_cpu) == (runqueues.address, (), True)
    # rq.rd lies at 8; in root_domain, the mask's pointer lies at 16.
    assert (found["root_domain+0"].address, found["root_domain+0"].hops) == (runqueues.address + 8, (0,))
    assert (found["root_domain*rto_mask"].address, found["root_domain*rto_mask"].hops) == (
        runqueues.address + 8,
        (16, 0),
    )
    assert found["root_domain*cpupri.pri_to_cpu[1].mask"].hops == (24 + 16 + 8, 0)
    assert (found["root_domain*rto_mask"].size, found["root_domain*cpupri.cpu_to_pri"].size) == (8, 4 * CPUS)


def test_watches_of_static_and_pointer_variables(known: KernelMap) -> None:
    found = {
        watch.key: watch for watch in watches(known, ["nohz", "sched_domain_shared", "sched_group_capacity"], CPUS)
    }
    assert (found["nohz+0"].hops, found["nohz*idle_cpus_mask"].hops) == ((), (0,))
    assert found["sched_domain_shared+0"].hops == (0,)
    # rq.sd, then .groups at 8, then .sgc at 8.
    assert found["sched_group_capacity+0"].hops == (8, 8, 0)


def test_leaves_of_a_split_cpupri(tmp_path: Path) -> None:
    known = kernel_map(toy_kernel.build(tmp_path, "-DSPLIT"), tmp_path, TAGS)
    found = {
        watch.prefix: watch
        for watch in watches(known, ["root_domain"], CPUS)
        if "lea" in watch.prefix or "place" in watch.prefix
    }
    # cpupri lies at 24 of root_domain; in cpupri, place lies at 56 and leaves at 64.
    assert (found["*cpupri.place"].size, found["*cpupri.place"].hops) == (4 * CPUS, (24 + 56, 0))
    assert (found["*cpupri.leaves"].size, found["*cpupri.leaves"].hops) == (8 * CPUS, (24 + 64, 0))
    assert (found["*cpupri.leaves[2]"].hops, found["*cpupri.leaves[2]"].optional) == ((24 + 64, 16, 0), True)
    assert len(found) == 2 + CPUS
    leaf = found["*cpupri.leaves[2]"]
    resolver = Resolver(known, 64, [leaf], [Instance(leaf.key, 0, 0x4000, leaf.size, 1)])
    (row,) = rows(resolver, [Record(0x4020, 4, "load", 0, Counts(accesses=1))])
    assert field_name(row) == "root_domain.*cpupri.leaves[][].group"


def test_leaves_of_sparse_bitmaps(tmp_path: Path) -> None:
    known = kernel_map(toy_kernel.build(tmp_path, "-DSBM"), tmp_path, TAGS)
    found = {watch.prefix: watch for watch in watches(known, ["root_domain"], CPUS) if "sbm" in watch.prefix}
    # cpupri lies at 24 of root_domain; in cpupri, the first of three pointers lies at 56.
    assert (found["*cpupri.sbm[1]"].size, found["*cpupri.sbm[1]"].hops) == (8 + 8 * CPUS, (24 + 64, 0))
    assert found["*cpupri.sbm[1].leaves[2]"].hops == (24 + 64, 8 + 16, 0)
    assert found["*cpupri.sbm[1].leaves[2]"].optional
    assert found["*cpupri.sbm[1].leaves[2]"].size == 64
    assert len(found) == 3 * (1 + CPUS)
    many = [watch for watch in watches(known, ["root_domain"], 64) if "sbm" in watch.prefix]
    # A root need not have more than two lines.
    assert max(watch.hops[-2] for watch in many) == 8 + 8 * 14


def test_unknown_objects_are_refused(known: KernelMap) -> None:
    with pytest.raises(SchedlineError, match="there is no 'runqueue'"):
        watches(known, ["runqueue"], CPUS)
    without = KernelMap(known.build_id, known.structures, known.functions, ())
    for name in KINDS:
        with pytest.raises(SchedlineError, match=f"{name} is not found: this kernel has no variable"):
            watches(without, [name], CPUS)


def test_addresses_become_fields(known: KernelMap) -> None:
    resolver = resolver_of(known, {"root_domain+0": 0x10000})
    assert resolver.place(0x10004).path == "rto_count"
    assert resolver.place(0x10009).path == "first"
    assert resolver.place(0x1000C).path == "overloaded"
    assert resolver.place(0x1000D).path == "(hole)"
    place = resolver.place(0x10000 + 41)
    assert (place.path, place.offset, place.line) == ("cpupri.pri_to_cpu[1].count", 41, 0)
    assert resolver.place(0x10040).line == 1


def test_neighbours_are_told_apart(known: KernelMap) -> None:
    address = watch_of(known, "nohz+0").address
    resolver = resolver_of(known, {"nohz+0": address}, line=128)
    assert not resolver.place(address).neighbour
    beside = resolver.place(address ^ 64)
    assert beside.neighbour
    with pytest.raises(ValueError, match="no watched line"):
        resolver.place(address + 256)


def test_lines_are_counted_from_where_the_object_begins(known: KernelMap) -> None:
    # An allocator gave it an address in the middle of a line.
    resolver = resolver_of(known, {"root_domain+0": 0x10020})
    assert (resolver.place(0x10020).line, resolver.place(0x1003F).line, resolver.place(0x10040).line) == (0, 0, 1)
    before = resolver.place(0x10010)
    assert (before.neighbour, before.offset, before.line) == (True, -16, 0)
    assert resolver.watched()[0].skews == (32,)


def test_masks_that_share_a_line(known: KernelMap) -> None:
    addresses = {"root_domain*cpupri.pri_to_cpu[0].mask": 0x20000, "root_domain*cpupri.pri_to_cpu[1].mask": 0x20008}
    resolver = resolver_of(known, addresses)
    assert resolver.place(0x20004).path == "*cpupri.pri_to_cpu[0].mask"
    assert resolver.place(0x20008).path == "*cpupri.pri_to_cpu[1].mask"
    assert resolver.place(0x20010).neighbour


def test_memory_that_is_used_again(known: KernelMap) -> None:
    first, second = "root_domain*cpupri.pri_to_cpu[0].mask", "root_domain*rto_mask"
    lain = [Instance(first, 0, 0x20008, 8, 1), Instance(second, 0, 0x20008, 8, 4), Instance(second, 0, 0x20000, 8, 2)]
    resolver = Resolver(known, 64, [watch_of(known, first), watch_of(known, second)], lain)
    assert resolver.place(0x20008, 1).path == "*cpupri.pri_to_cpu[0].mask"
    assert resolver.place(0x20008, 4).path == "*rto_mask"
    # In any other epoch the memory belonged to another object.
    assert resolver.place(0x20008, 0).neighbour
    assert resolver.place(0x20008, 2).neighbour
    assert [(each.number, each.later) for each in resolver.watched()] == [(1, 0), (2, 2)]


def test_an_object_that_all_cpus_share_is_one(known: KernelMap) -> None:
    watch = watch_of(known, "root_domain+0")
    there = [Instance(watch.key, cpu, 0x10000, watch.size, 1) for cpu in range(CPUS)]
    assert [each.number for each in Resolver(known, 64, [watch], there).watched()] == [1]


def test_rows_join_what_is_one_place(known: KernelMap) -> None:
    watch = watch_of(known, "rq+0")
    there = [Instance(watch.key, cpu, 0x10000 * (cpu + 1), watch.size, 1) for cpu in (0, 1)]
    resolver = Resolver(known, 64, [watch], there)
    function = next(symbol for symbol in known.functions if symbol.name == "pull_rt_task")
    records = [
        Record(base, 4, "load", function.address + at, Counts(accesses=3, hits=2, cold=1, essential=1))
        for base in (0x10000, 0x20000)
        for at in (0, 4)
    ]
    table = rows(resolver, records)
    assert len(table) == 1
    assert (table[0].function, table[0].counts.accesses, table[0].counts.misses) == ("pull_rt_task", 12, 4)
    assert (field_name(table[0]), line_name(table[0])) == ("rq.nr_running", ("rq", "", 0))
    assert resolver.function(1) == "0x1"
