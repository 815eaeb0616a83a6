# SPDX-License-Identifier: GPL-2.0
"""Finding fields by debug information: a small program with the scheduler's names, and addresses set by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import toy_kernel

from schedlib.c2c.c2c_job import plan
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


FIELDS = {
    "root_domain": "0:4 refcount|4:4 rto_count|8:4 first|8:4 second|12:1 overloaded|12:1 overutilized|16:8 rto_mask",
    # DWARF 4 gives the word of a bit field, which others may use, too.
    "sched_domain_shared": "0:4 nr_busy_cpus|4:1 has_idle_cores|5:1 is_set|6:2 nr_idle_scan",
    # A variable of a type without a name.
    "nohz": "0:8 idle_cpus_mask|8:4 nr_cpus",
}


@pytest.mark.parametrize("tag", FIELDS)
def test_fields_of_a_structure(known: KernelMap, tag: str) -> None:
    fields = [f"{field.offset}:{field.size} {field.path}" for field in known.structures[tag].fields]
    assert "|".join(fields).startswith(FIELDS[tag])
    assert tag != "root_domain" or "40:4 cpupri.pri_to_cpu[1].count" in fields


def test_the_map_is_kept_by_build_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = toy_kernel.build(tmp_path)
    first = kernel_map(program, tmp_path / "kept", TAGS)
    monkeypatch.setattr("schedlib.c2c.kernel_map.Units", None)
    assert kernel_map(program, tmp_path / "kept", TAGS) == first
    with pytest.raises(SchedlineError):
        kernel_map(program, tmp_path / "kept", TAGS | {"other"})


@pytest.mark.parametrize(
    ("flags", "said"), [(["-s"], "no symbols"), (["-g0"], "no debug information"), (None, "vmlinux"), ([], "none")]
)
def test_what_is_no_vmlinux_is_refused(tmp_path: Path, flags: list[str] | None, said: str) -> None:
    (tmp_path / "vmlinux").write_bytes(b"\x7fELF" + bytes(100))
    program = toy_kernel.build(tmp_path, *flags) if flags else tmp_path / said
    with pytest.raises(SchedlineError, match=said):
        kernel_map(program, tmp_path, TAGS)
    assert not list(tmp_path.glob("*.json"))


# Keys, then the variable and an offset, the offsets behind each pointer, and bytes. rq.rd lies at 8; root_domain has
# rto_mask at 16 and cpupri at 24, and a vector of three has 16 bytes each: its count, and the pointer to its mask. The
# first group in the list at 24 is found by its member at 8, and has its state at 48.
WATCHES = """\
rq+0: runqueues+0 () 24
root_domain+0: runqueues+8 (0,) 80
root_domain*rto_mask: runqueues+8 (16, 0) 8
root_domain*cpupri.pri_to_cpu[0].mask: runqueues+8 (32, 0) 8
root_domain*cpupri.pri_to_cpu[1].mask: runqueues+8 (48, 0) 8
root_domain*cpupri.pri_to_cpu[2].mask: runqueues+8 (64, 0) 8
root_domain*cpupri.cpu_to_pri: runqueues+8 (72, 0) 16
nohz+0: nohz+0 () 16
nohz*idle_cpus_mask: nohz+0 (0,) 8
sched_domain_shared+0: sd_llc_shared+0 (0,) 8
sched_group_capacity+0: runqueues+16 (8, 8, 0) 4
cfs_tg_state+0: root_task_group+24 (40, 0) 128
"""
SPLIT = """\
root_domain*cpupri.place: runqueues+8 (80, 0) 16
root_domain*cpupri.leaves: runqueues+8 (88, 0) 32
root_domain*cpupri.leaves[0]: runqueues+8 (88, 0, 0) 40 if there
root_domain*cpupri.leaves[1]: runqueues+8 (88, 8, 0) 40 if there
root_domain*cpupri.leaves[2]: runqueues+8 (88, 16, 0) 40 if there
root_domain*cpupri.leaves[3]: runqueues+8 (88, 24, 0) 40 if there
"""
SBM = """\
root_domain*cpupri.sbm[1]: runqueues+8 (88, 0) 40
root_domain*cpupri.sbm[1].leaves[0]: runqueues+8 (88, 8, 0) 64 if there
root_domain*cpupri.sbm[1].leaves[1]: runqueues+8 (88, 16, 0) 64 if there
root_domain*cpupri.sbm[1].leaves[2]: runqueues+8 (88, 24, 0) 64 if there
root_domain*cpupri.sbm[1].leaves[3]: runqueues+8 (88, 32, 0) 64 if there
"""


def shown(known: KernelMap, found: Iterable[Watch]) -> str:
    starts = sorted((symbol.address, symbol.name) for symbol in known.data)
    rows = []
    for each in found:
        start, name = max(row for row in starts if row[0] <= each.address)
        there = " if there" if each.optional else ""
        rows.append(f"{each.key}: {name}+{each.address - start} {each.hops} {each.size}{there}\n")
    return "".join(rows)


def test_watches_follow_pointers(known: KernelMap) -> None:
    names = ["rq", "root_domain", "nohz", "sched_domain_shared", "sched_group_capacity", "cfs_tg_state"]
    found = watches(known, names, CPUS)
    assert shown(known, found) == WATCHES
    assert {each.per_cpu for each in found if each.owner != "nohz"} == {True}
    assert [each.owner for each in found if each.allocated] == ["cfs_tg_state"]
    assert "watch cfs_tg_state+0 allocated " in plan(known, found)


@pytest.mark.parametrize(("flag", "word", "rows"), [("-DSPLIT", "lea|place", SPLIT), ("-DSBM", r"sbm\[1\]", SBM)])
def test_leaves_of_cpupri_in_its_variants(flag: str, word: str, rows: str, tmp_path: Path) -> None:
    known = kernel_map(toy_kernel.build(tmp_path, flag), tmp_path, TAGS)
    assert shown(known, (each for each in watches(known, ["root_domain"], CPUS) if re.search(word, each.key))) == rows
    leaf = next(each for each in watches(known, ["root_domain"], CPUS) if each.optional)
    path = Resolver(known, 64, [leaf], [Instance(leaf.key, 0, 0x4000, leaf.size, 1)]).place(0x4020).path
    assert path == {"-DSPLIT": "*cpupri.leaves[0][0].group", "-DSBM": "*cpupri.sbm[0].leaves[0][0].padding"}[flag]
    # A root of a sparse bitmap need not have more than two lines.
    many = [each for each in watches(known, ["root_domain"], 64) if "sbm" in each.prefix]
    assert max((each.hops[-2] for each in many), default=120) == 8 + 8 * 14


def test_unknown_objects_are_refused(known: KernelMap) -> None:
    with pytest.raises(SchedlineError, match="there is no 'runqueue'"):
        watches(known, ["runqueue"], CPUS)
    without = KernelMap(known.build_id, known.structures, known.functions, ())
    for name in KINDS:
        with pytest.raises(SchedlineError, match=f"{name} is not found: this kernel has no variable"):
            watches(without, [name], CPUS)


MASKS = [f"root_domain*cpupri.pri_to_cpu[{number}].mask" for number in (0, 1)]


@pytest.mark.parametrize(
    ("lain", "address", "path", "offset", "line"),
    [
        ({"root_domain+0": 0x10000}, 0x10004, "rto_count", 4, 0),
        # Of a union, the first field gives the name.
        ({"root_domain+0": 0x10000}, 0x10009, "first", 9, 0),
        ({"root_domain+0": 0x10000}, 0x1000C, "overloaded", 12, 0),
        ({"root_domain+0": 0x10000}, 0x1000D, "(hole)", 13, 0),
        ({"root_domain+0": 0x10000}, 0x10029, "cpupri.pri_to_cpu[1].count", 41, 0),
        ({"root_domain+0": 0x10000}, 0x10040, "cpupri.pri_to_cpu[2].mask", 64, 1),
        # Lines are counted from where the object begins: an allocator gave it an address in the middle of one.
        ({"root_domain+0": 0x10020}, 0x10020, "refcount", 0, 0),
        ({"root_domain+0": 0x10020}, 0x10040, "cpupri.pri_to_cpu[0].mask", 32, 1),
        ({"root_domain+0": 0x10020}, 0x10010, None, -16, 0),
        # Masks that share a line.
        ({MASKS[0]: 0x20000, MASKS[1]: 0x20008}, 0x20004, MASKS[0].removeprefix("root_domain"), 4, 0),
        ({MASKS[0]: 0x20000, MASKS[1]: 0x20008}, 0x20008, MASKS[1].removeprefix("root_domain"), 0, 0),
        ({MASKS[0]: 0x20000, MASKS[1]: 0x20008}, 0x20010, None, 8, 0),
    ],
)
def test_addresses_become_fields(
    known: KernelMap, lain: dict[str, int], address: int, path: str | None, offset: int, line: int
) -> None:
    """Without a path: a neighbour."""
    found = resolver_of(known, lain).place(address)
    assert (None if found.neighbour else found.path, found.offset, found.line) == (path, offset, line)


def test_neighbours_on_longer_lines(known: KernelMap) -> None:
    address = watch_of(known, "nohz+0").address
    resolver = resolver_of(known, {"nohz+0": address}, line=128)
    assert (resolver.place(address).neighbour, resolver.place(address ^ 64).neighbour) == (False, True)
    with pytest.raises(ValueError, match="no watched line"):
        resolver.place(address + 256)
    assert resolver_of(known, {"root_domain+0": 0x10020}).watched()[0].skews == (32,)


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
    # An object that all CPUs share is one.
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
