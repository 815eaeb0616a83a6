# SPDX-License-Identifier: GPL-2.0
"""Names for all of the kernel's memory, from pages and symbols that are set by hand."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import toy_results
from elftools.elf.elffile import ELFFile
from replayed import Replay

from schedlib.c2c.kernel_map import KernelMap, Symbol, Units
from schedlib.c2c.memory_map import MemoryMap, MemoryNames, bases_of, named, plan_lines
from schedlib.c2c.objects import Instance, Resolver
from schedlib.c2c.observed import MemoryPage, ObservedGuest, Player, Record, parse_raw, read_raw, result_of
from schedlib.c2c.traffic_report import sections
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import Counts, MappedField, MappedStructure, PrivateLines, UsedVariable

DENTRY = MappedStructure(192, (MappedField(0, 4, "d_flags", ""), MappedField(88, 8, "d_lockref", "")))
PAGE = MappedStructure(64, (MappedField(0, 8, "flags", ""), MappedField(52, 4, "_refcount", "")))
KNOWN = KernelMap(
    "aa",
    {},
    (),
    (
        Symbol(0xFFFFFFFF81000000, 16, "first"),
        Symbol(0xFFFFFFFF81000020, 8, "jiffies"),
        Symbol(0xFFFFFFFF81800000, 64, "a_variable"),
        Symbol(0xFFFFFFFF81800040, 4096, "runqueues"),
        Symbol(0xFFFFFFFF81900000, 8, "page_offset_base"),
        Symbol(0xFFFFFFFF81900008, 8, "vmemmap_base"),
        Symbol(0xFFFFFFFF81900010, 8, "vmalloc_base"),
    ),
)
MEMORY = MemoryMap(
    (64, 8, 48, 52, 0xF5, 0xF2, 0xF8, 8, 80, 32, 36),
    0xFFFFFFFF81800000,
    0xFFFFFFFF81802000,
    {
        "dentry": DENTRY,
        "page": PAGE,
        "task_struct": MappedStructure(128, (MappedField(0, 4, "__state", ""),)),
        "futex_hash_bucket": MappedStructure(64, (MappedField(0, 4, "waiters", ""), MappedField(4, 4, "lock", ""))),
        "pcpu_chunk": MappedStructure(128, (MappedField(16, 4, "free_bytes", ""),)),
    },
    arrays={"futex_hash_bucket": (0xFFFFFFFF81900018, 0xFFFFFFFF81900020), "pcpu_chunk": (0xFFFFFFFF81900028, 0)},
    bases=("ffffffff81900008", "ffffffff81900000", "ffffffff81900010"),
)
DIRECT, TEXT = 0xFFFF888000000000, 0xFFFFFFFF81000000


def slab(first: int, cache: str, size: int, object_size: int) -> MemoryPage:
    """A page that a slab begins with."""
    return MemoryPage(first, "slab", cache, first, size, object_size)


PAGES = {
    DIRECT + 0x1000: slab(DIRECT + 0x1000, "dentry", 192, 192),
    DIRECT + 0x2000: slab(DIRECT + 0x2000, "kmalloc-64", 64, 64),
    DIRECT + 0x3000: slab(DIRECT + 0x3000, "task_struct", 256, 200),
    DIRECT + 0x5000: MemoryPage(DIRECT + 0x5000, "table", "", 0, 0, 0),
    DIRECT + 0x6000: MemoryPage(DIRECT + 0x6000, "stack", "", 0, 0, 0),
}
AREAS = (0xFFFFEA0000000000, DIRECT, 0xFFFFC90000000000)
RAW = ObservedGuest(
    pages=PAGES,
    areas=AREAS,
    offsets=tuple((DIRECT + (at << 30) - 0xFFFFFFFF81800000) % (1 << 64) for at in (2, 3)),
    arrays={"futex_hash_bucket": (DIRECT + 0x7000, 16), "pcpu_chunk": (DIRECT + 0x8000, 1)},
)


def place(address: int, *others: int) -> tuple[str, int, str]:
    """Owner, offset and field of an address; others were used, too."""
    every = (Record(each, 4, "load", 0, Counts(accesses=1), 0) for each in (address, *others))
    raw = replace(RAW, records=tuple(every))
    watches, instances = named(KNOWN, MEMORY, raw)
    known = replace(KNOWN, structures=MEMORY.structures)
    found = Resolver(known, 64, watches, instances, everything=True).place(address, 0)
    assert not found.neighbour
    return found.owner, found.offset, found.path


@pytest.mark.parametrize(
    ("address", "name"),
    [
        # The second dentry of its slab, and the hole behind a field.
        (DIRECT + 0x1000 + 192 + 88, ("dentry", 88, "d_lockref")),
        (DIRECT + 0x1000 + 192 + 4, ("dentry", 4, "(hole)")),
        # What a task has behind its structure.
        (DIRECT + 0x3000 + 4, ("task_struct", 4, "(hole)")),
        (DIRECT + 0x3000 + 128 + 8, ("behind task_struct", 8, "")),
        (DIRECT + 0x2000 + 64 + 8, ("slab kmalloc-64", 8, "")),
        # The third element of an array, and what follows the array.
        (DIRECT + 0x7000 + 132, ("futex_hash_bucket", 4, "lock")),
        (DIRECT + 0x7400, ("unnamed", 0, "")),
        # A single object, and what follows it.
        (DIRECT + 0x8010, ("pcpu_chunk", 16, "free_bytes")),
        (DIRECT + 0x8090, ("unnamed", 0x10, "")),
        (DIRECT + 0x5010, ("page tables", 16, "")),
        (DIRECT + 0x6010, ("stacks", 16, "")),
        # Memory that only one CPU used has no page.
        (DIRECT + 0x9010, ("unnamed", 16, "")),
        (DIRECT + (2 << 30) + 0x48, ("per-CPU runqueues", 8, "")),
        (DIRECT + (3 << 30) + 0x10, ("per-CPU a_variable", 16, "")),
        (0xFFFFFFFF81000024, ("jiffies", 4, "")),
        # Between two variables.
        (0xFFFFFFFF81000012, ("unnamed", 2, "")),
        # Above all variables, as the code of BPF programs.
        (0xFFFFFFFFA0000010, ("unnamed", 16, "")),
        (0xFFFFEA0000000000 + 64 + 52, ("struct page", 52, "_refcount")),
        (0xFFFFC90000001008, ("vmalloc", 8, "")),
    ],
)
def test_names(address: int, name: tuple[str, int, str]) -> None:
    assert place(address) == name


def test_an_object_in_a_page_of_other_things_keeps_its_name() -> None:
    before, inside, behind = DIRECT + 0x5010, DIRECT + 0x5110, DIRECT + 0x5190
    arrays = {"pcpu_chunk": (DIRECT + 0x5100, 1)}
    raw = replace(RAW, arrays=arrays)
    namer = MemoryNames(KNOWN, MEMORY, raw)
    spans = [(watch.owner, start, watch.size) for watch, _, start in map(namer.object_at, (before, inside, behind))]
    assert spans == [
        ("page tables", DIRECT + 0x5000, 0x100),
        ("pcpu_chunk", DIRECT + 0x5100, 128),
        ("page tables", DIRECT + 0x5180, 0xE80),
    ]
    assert place(DIRECT + 0x8010, DIRECT + 0x8090, DIRECT + 0x7FF0) == ("pcpu_chunk", 16, "free_bytes")


def test_a_type_of_another_size_is_refused() -> None:
    pages = {DIRECT + 0x1000: slab(DIRECT + 0x1000, "dentry", 256, 200)}
    raw = replace(RAW, pages=pages, records=(Record(DIRECT + 0x1000, 4, "load", 0, Counts(accesses=1), 0),))
    with pytest.raises(SchedlineError, match="the slab dentry have 200 bytes, but struct dentry has 192"):
        named(KNOWN, MEMORY, raw)


def test_what_is_watched_is_not_named_again() -> None:
    raw = replace(RAW, records=(Record(DIRECT + 0x1000, 4, "load", 0, Counts(accesses=1), 1),))
    assert named(KNOWN, MEMORY, raw) == ((), ())


@pytest.mark.tools
def test_who_reads_and_writes_each_variable(replay: Replay, tmp_path: Path) -> None:
    """The second copy of the per-CPU variable is used by one CPU alone, so it is left out."""
    copies = [DIRECT + (at << 30) for at in (2, 3)]
    entries = [
        "3 store ffffffff81000020 8",
        *(f"{cpu} load ffffffff81000020 8" for cpu in range(4)),
        *(f"{cpu} rmw {copies[cpu % 2]:x} 8" for cpu in range(3)),
        f"3 load {copies[0]:x} 8",
        # Neither what lies between two variables nor an object of a slab is one.
        "0 load ffffffff81000010 8",
        f"1 store {DIRECT + 0x2000:x} 8",
        f"0 load {DIRECT + 0x2000:x} 8",
    ]
    toy = toy_results.observed(tmp_path, entries, at=(), everything=True)
    player = Player(replay.program, toy.parameters)
    counted = player.counts(toy.guests[0], 64)
    raw = replace(RAW, records=counted.records, private=counted.private)
    watches, instances = named(KNOWN, MEMORY, raw)
    guests = (replace(raw, quantum=1, operations=1, instances=instances),)
    result = result_of(replace(toy, known=KNOWN, watches=watches, guests=guests))
    expected = (UsedVariable("jiffies", False, 4, 1), UsedVariable("per-CPU a_variable", True, 3, 2))
    assert result.middle.variables == expected
    shared, per_cpu = (
        each for part in sections(result) if part.name.startswith("Variables") for each in (part, *part.parts)
    )
    assert shared.rows == [("jiffies", "4", "1", "5", "4", "0")]
    assert per_cpu.rows == [("per-CPU a_variable", "3", "2", "3", "3", "0")]


NUMBERS = "64 8 48 52 245 242 248 8 80 32 36"
ARRAY = "array futex_hash_bucket ffffffff81900018 ffffffff81900020\narray pcpu_chunk ffffffff81900028 0"


def test_the_plan_says_where_pages_are_described() -> None:
    variables = "memory ffffffff81900008 ffffffff81900000 ffffffff81900010"
    assert plan_lines(MEMORY) == f"{variables} {NUMBERS}\n{ARRAY}\n"
    with pytest.raises(SchedlineError, match="no page_offset_base"):
        plan_lines(replace(MEMORY, bases=()))


@pytest.mark.parametrize(
    ("bits", "bases"),
    [
        # Computed by hand from arch/arm64/include/asm/memory.h, for pages of 4 KiB.
        (48, ("=fffffdffc0000000", "=ffff000000000000", "=ffff800080000000")),
        (52, ("=ffffc1ffc0000000", "=fff0000000000000", "=ffff800080000000")),
    ],
)
def test_an_arm64_kernel_has_its_memory_at_fixed_places(bits: int, bases: tuple[str, ...], tmp_path: Path) -> None:
    config = tmp_path / ".config"
    config.write_text(f"CONFIG_ARM64_4K_PAGES=y\nCONFIG_ARM64_VA_BITS={bits}\n")
    without = replace(KNOWN, data=KNOWN.data[:4])
    assert bases_of(without, config, 64) == bases
    # The variables of x86-64 come first.
    assert bases_of(KNOWN, config, 64) == MEMORY.bases
    config.write_text(f"CONFIG_ARM64_64K_PAGES=y\nCONFIG_ARM64_VA_BITS={bits}\n")
    assert bases_of(without, config, 64) == ()
    assert bases_of(without, tmp_path / "nowhere", 64) == ()


WRITTEN = """\
c2c-raw 3
machine 2 64 1 64 64 100
object root_domain+0 0 1000 64 1
absent sched_domain+0 1
areas ffffea0000000000 ffff888000000000 ffffc90000000000
percpu 0 10
percpu 1 20
array futex_hash_bucket ffff888000007000 16
page ffff888000001000 slab kmalloc-64 ffff888000001000 64 64
again ffff888000005000
page ffff888000005000 table
private 7 100 7
record 1000 0 4 load ffffffff81000000 3 2 0 0 0 0 0 0 0 0 1 0 0 1 0 2
seen 10 3
end 1
"""


def test_the_plugins_output_is_read_and_half_of_it_is_refused(tmp_path: Path) -> None:
    table = MemoryPage(DIRECT + 0x5000, "table", "", 0, 0, 0)
    assert parse_raw(WRITTEN, "raw") == ObservedGuest(
        instances=(Instance("root_domain+0", 0, 0x1000, 64, 1),),
        absent={"sched_domain+0": 1},
        records=(Record(0x1000, 4, "load", TEXT, Counts(accesses=3, hits=2, cold=1, essential=1), 0, cpus=0b10),),
        watched=3,
        pages={DIRECT + 0x1000: slab(DIRECT + 0x1000, "kmalloc-64", 64, 64), DIRECT + 0x5000: table},
        areas=AREAS,
        offsets=(16, 32),
        private=PrivateLines(7, 100, 7),
        arrays={"futex_hash_bucket": (DIRECT + 0x7000, 16)},
        again=(DIRECT + 0x5000,),
    )
    for kept in range(WRITTEN.count("\n")):
        (tmp_path / "raw").write_text("".join(WRITTEN.splitlines(keepends=True)[:kept]))
        with pytest.raises(SchedlineError, match="is incomplete"):
            read_raw(tmp_path / "raw")
    with pytest.raises(SchedlineError, match="1 records of 2"):
        parse_raw(WRITTEN.replace("end 1", "end 2"), "raw")


@pytest.mark.tools
def test_a_structure_is_read_from_the_file_that_uses_it(tmp_path: Path) -> None:
    """Each file of the toy kernel has a structure of its own; a third one is not in it."""
    for folder, tag in (("mm", "shmem_inode_info"), ("net", "sockfs_inode")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "toy.c").write_text(f"struct {tag} {{ int seals; long inode; }} {folder};\n")
    argv = ["gcc", "-g", "-nostdlib", "-shared", "-fPIC", "-o", "toy.so", "mm/toy.c", "net/toy.c"]
    subprocess.run(argv, cwd=tmp_path, check=True)
    tags = frozenset({"shmem_inode_info", "sockfs_inode"})
    with (tmp_path / "toy.so").open("rb") as file:
        units = Units(ELFFile(file), tmp_path)
        found = {
            name: units.find(name) and units.structures(name, tags).keys()
            for name in ("net/toy.c", "fs/toy.c", "mm/toy.c")
        }
    assert found == {"net/toy.c": {"sockfs_inode"}, "fs/toy.c": None, "mm/toy.c": {"shmem_inode_info"}}
