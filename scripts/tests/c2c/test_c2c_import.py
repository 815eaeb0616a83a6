# SPDX-License-Identifier: GPL-2.0
"""Samples of a real machine: perf's texts, and names for their addresses. perf/*.txt say what is real."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import toy_kernel
from msgspec import structs
from toy_results import measured, result, row

from by_schema import validate
from golden import Golden
from one_verb import main_of
from schedlib.c2c import c2c_verb
from schedlib.c2c.kernel_map import KernelMap, Symbol
from schedlib.c2c.memory_map import NO_MAP, NO_SLIDE, NOT_MAPPED, AddressNames, MemoryMap, ObjectMap, slide_of
from schedlib.c2c.objects import Instance
from schedlib.c2c.observed import MemoryPage
from schedlib.c2c.samples import NOTHING, ScriptSums, brief, compare, data_source, effective, instructions, wilson
from schedlib.c2c.samples_job import measured_of, measured_text
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import FieldRef, MappedField, MappedStructure

SAMPLES = Path(__file__).parent / "perf/samples.txt"
main = main_of(c2c_verb)

TEXT = 0xFFFFFFFF81000000
RD = 0xFFFF888000010000
FIELDS = (
    MappedField(0, 4, "refcount", ""),
    MappedField(8, 8, "rto_count", ""),
    MappedField(24, 8, "rto_mask", "cpumask"),
)
RQ = (MappedField(0, 4, "__lock", ""), MappedField(8, 8, "rd", "root_domain"))
KNOWN = KernelMap(
    "aa55",
    {"root_domain": MappedStructure(64, FIELDS), "rq": MappedStructure(128, RQ)},
    (Symbol(TEXT + 0x100, 0x100, "reader"), Symbol(TEXT + 0x200, 0x100, "writer")),
    (
        Symbol(0x40, 128, "runqueues"),
        Symbol(TEXT + 0x900000, 8, "jiffies"),
        Symbol(TEXT + 0x900040, 64, "def_root_domain"),
    ),
)
MEMORY = MemoryMap((), 0x40, 0x140, {"dentry": MappedStructure(192, (MappedField(0, 4, "d_flags", ""),))})
MAP = ObjectMap(
    schema="c2c-objects-1",
    tool="tests",
    made=datetime(2026, 1, 1, tzinfo=UTC),
    build_id="aa55",
    release="7.3",
    page=4096,
    slide=0x1000000,
    cpus=4,
    offsets=(0xFFFF888000100000, 0xFFFF888000200000, 0xFFFF888000300000, 0xFFFF888000400000),
    areas=(0xFFFFEA0000000000, 0xFFFF888000000000, 0xFFFFC90000000000),
    objects=("root_domain",),
    instances=(Instance("root_domain+0", 0, RD, 64, 1),),
    pages=(MemoryPage(0xFFFF888000020000, "slab", "dentry", 0xFFFF888000020000, 192, 192),),
    arrays=(),
)


def names(found: ObjectMap = MAP) -> AddressNames:
    return AddressNames(KNOWN, MEMORY, found, found.slide, 64)


def place(path: str, *, owner: str = "root_domain", offset: int = 8) -> FieldRef:
    return FieldRef(owner, "", offset // 64, offset, path, neighbour=False)


@pytest.mark.parametrize(
    ("value", "kind", "taken", "remote"),
    [
        (0x10268100142, "load", False, False),  # Intel, L1 hit
        (0x10668800842, "load", True, False),  # Intel, L3 HITM
        (0x629800842, "load", True, False),  # AMD, L3 HITM
        (0x229080144, "store", False, False),  # AMD, store
        # AMD's IBS, as perf printed it in Namhyung Kim's series "perf record: Implement BPF sample filter", version 2,
        # 2023: miss address buffer, L1, L2, and a remote cache that had the line unmodified.
        (0x51080242, "load", False, False),
        (0x49080142, "load", False, False),
        (0x49080442, "load", False, False),
        (0x51088842, "load", False, False),
        (0x8688000842, "load", True, False),  # Arm, peer
        (0x88000182, "load", False, False),  # Arm, L1 miss
        (0x1066A800842, "rmw", True, False),
        (0x800002 | (0x400 | 2) << 5, "load", True, True),  # remote cache, one hop
        (0x800042 | 1 << 37, "load", True, True),
        (0x800042 | 1 << 37 | 1 << 43, "load", True, False),  # POWER, another core of the node
    ],
)
def test_data_source(value: int, kind: str, taken: bool, remote: bool) -> None:
    assert data_source(b"%x" % value) == (kind, taken, remote)


@pytest.mark.parametrize(
    ("address", "found"),
    [
        (RD + 8, place("rto_count")),
        (RD + 24, place("rto_mask", offset=24)),
        (RD + 16, place("(hole)", offset=16)),
        (TEXT + 0x1000000 + 0x900004, place("", owner="jiffies", offset=4)),
        (0xFFFF888000300048, place("", owner="per-CPU runqueues", offset=8)),
        (0xFFFF8880000200C0 + 2, place("d_flags", owner="dentry", offset=2)),
        (TEXT + 0x900004, NOT_MAPPED),  # the kernel moved: nothing lies where vmlinux says
        (RD + 64, NOT_MAPPED),
        (0xFFFF888000500048, NOT_MAPPED),
    ],
)
def test_names_of_addresses(address: int, found: FieldRef | str) -> None:
    assert names()(address) == found


def test_without_a_map_only_variables_have_names_and_only_if_the_kernels_place_is_known() -> None:
    unknown, known = (AddressNames(KNOWN, None, None, slide, 64) for slide in (None, 0x2000000))
    assert (unknown(RD), unknown(TEXT + 0x900000), known(RD)) == (NO_MAP, NO_SLIDE, NO_MAP)
    assert known(TEXT + 0x2900000) == place("", owner="jiffies", offset=0)
    assert known(TEXT + 0x2900048) == place("rto_count", owner="def_root_domain")


def test_where_the_kernel_lay_is_taken_from_instructions_that_agree() -> None:
    seen = [(TEXT + 0x3000104, "reader"), (TEXT + 0x3000208, "writer")]
    assert instructions(SAMPLES)[:4] == [(TEXT + 0x104, "reader")] * 3 + [(TEXT + 0x204, "writer")]
    assert slide_of(KNOWN, seen * 3) == 0x3000000
    assert slide_of(KNOWN, seen) is None, "too few"
    assert slide_of(KNOWN, [*seen * 3, (TEXT + 0x5000104, "reader")]) is None
    assert slide_of(KNOWN, [(TEXT + 0x3000904, "reader")] * 9) is None, "another kernel's function"


def test_a_map_that_knows_only_watched_objects_and_one_of_another_kernel() -> None:
    some = names(structs.replace(MAP, areas=(), pages=(), offsets=()))
    assert (some(RD + 8), some(0xFFFF8880000200C0)) == (place("rto_count"), NOT_MAPPED)
    with pytest.raises(SchedlineError, match="this kernel does not have"):
        names(structs.replace(MAP, instances=(Instance("rq+7", 0, RD, 64, 1),)))


def read(text: bytes) -> ScriptSums:
    found = ScriptSums(names())
    found.add(text.splitlines(keepends=True))
    return found


def test_samples_of_three_vendors() -> None:
    found = read((SAMPLES).read_bytes())
    rows = {(where.path, kind, function): sampled for (where, kind, function), sampled in found.rows.items()}
    count = rows["rto_count", "load", "reader"]
    assert (count.samples, count.taken, count.remote, count.period, count.cycles) == (3, 3, 0, 14001, 430)
    assert rows["rto_mask", "load", "reader"].taken == 0
    assert rows["refcount", "store", "writer"].period == 4000
    assert found.repeated == 1 and found.user.samples == 1
    assert {why: each.samples for why, each in found.unresolved.items()} == {"the sample has no address": 1}
    assert rows["", "load", "reader"].samples == 1, "a page of vmalloc"
    assert found.events == {"cpu/mem-loads,ldlat=30/P", "ibs_op//", "memory"}


def lines_of() -> list[bytes]:
    return [line for line in SAMPLES.read_bytes().splitlines(keepends=True) if not line.startswith(b"#")]


FIRST = lines_of()[0]
CHAIN = b"\n\tffffffff81000104 reader+0x4 ([kernel.kallsyms])\n\tffffffff81000204 writer+0x4 (x)\n\n"
BARE = b" made 100 [000] 0.1: ibs_op//: ffff888000010008 629800842 |OP LOAD|LVL L3 hit|SNP HitM|TLB L1 hit|LCK N/A\n"


@pytest.mark.parametrize(
    ("text", "function", "sampled"),
    [
        (FIRST, "reader", (1, 10000, 1, 310)),
        # The function below a call chain.
        (FIRST[: FIRST.index(b"310") + 3] + CHAIN, "reader", (1, 10000, 1, 310)),
        # Columns that touch are two.
        (FIRST.replace(b"08      1066", b"08000001066"), "reader", (1, 10000, 1, 310)),
        # Without period, weight and symbol.
        (BARE, "(unknown)", (1, 0, 1, 0)),
    ],
)
def test_forms_of_a_sample(text: bytes, function: str, sampled: tuple[int, int, int, int]) -> None:
    [((where, kind, name), found)] = read(text).rows.items()
    assert (where.path, kind, name) == ("rto_count", "load", function)
    assert (found.samples, found.period, found.taken, found.cycles) == sampled


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda line: line[:-30], "the last line is cut off"),
        (lambda line: line.replace(b" ffff888000010008", b""), "the sample has no address"),
        (lambda line: line.replace(b"ffff888000010008", b"               0"), "the sample has no address"),
        (lambda line: line[: line.index(b"10668800842")] + b"\n", "the sample has no data source"),
        (lambda line: line.replace(b"10668800842", b"ffffffzz842"), "neither a load nor a store"),
        (lambda line: line.replace(b"10668800842", b" 1e05080021"), "neither a load nor a store"),
    ],
)
def test_a_sample_that_cannot_be_used_has_a_reason(change, why: str) -> None:  # type: ignore[no-untyped-def]
    found = read(change(lines_of()[0]))
    assert not found.rows
    assert list(found.unresolved) == [why]


def test_pieces_give_the_same_sums() -> None:
    found = []
    for at_once in (1 << 24, 1, 2, 100):
        sums = ScriptSums(names())
        sums.add([*lines_of() * 50, lines_of()[0][:40]], at_once=at_once)
        found.append((sums.rows, sums.unresolved, sums.user, sums.repeated, sums.squares, sums.taken_squares))
    assert found == [found[0]] * 4


@pytest.mark.parametrize(("lines", "said"), [(lines_of()[5:6] * 3, "itrace=M"), ([], "no sample")])
def test_a_text_without_samples_is_an_error(lines: list[bytes], said: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"".join(lines))
    with pytest.raises(SchedlineError, match=said):
        ScriptSums(names()).read(tmp_path / "text")


def test_wilson_is_that_of_the_literature() -> None:
    """Newcombe, Statistics in Medicine 17 (1998) 857, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
    for hits, whole, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert wilson(hits / whole, whole) == pytest.approx((low, high), abs=5e-5)


def test_the_text_and_what_has_no_field_in_a_row_of_its_own(tmp_path: Path, golden: Golden) -> None:
    found = measured_of(read(SAMPLES.read_bytes()), [SAMPLES], "aa55", 64)
    golden("measured.txt", "\n".join([*measured_text(found), ""]))
    shares = [each.share for each in found.fields] + [each.share for each in found.unresolved]
    assert sum(shares) == pytest.approx(1)
    every = [each.sampled for each in found.rows] + [each.sampled for each in found.unresolved]
    assert found.kernel == sum(every, NOTHING)
    # Samples of different periods are worth fewer.
    assert effective(10, 10) == 10 and found.effective < 2
    for kind, made in (("c2c-measured-1", found), ("c2c-objects-1", MAP)):
        document.write(tmp_path / kind, made)
        validate(json.loads((tmp_path / kind).read_text()), kind)


EMULATED = result(
    *(
        (row("rto_count", 0, 0, first), row("overloaded", 40, 0, 400 - first), row("rto_mask", 64, 0, 0))
        for first in (300, 310)
    )
)


@pytest.mark.parametrize(
    ("samples", "agree"),
    [
        ({"rto_count": 765, "overloaded": 235}, 2),
        ({"rto_count": 600, "overloaded": 200, "__lock": 500}, 0),
        # Few samples agree with much.
        ({"rto_count": 2, "overloaded": 2}, 2),
    ],
)
def test_fields_agree_within_sampling_error_and_quanta(samples: dict[str, int], agree: int) -> None:
    found = compare(measured(**samples), EMULATED)
    assert next(brief(found)) == f"measured on a machine: {agree} of {len(samples)} fields agree"


@pytest.mark.tools
def test_import_with_a_vmlinux_and_what_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vmlinux, objects, data = toy_kernel.build(tmp_path), tmp_path / "objects.json", tmp_path / "perf.data"

    def imported(*files: Path, vmlinux: Path = vmlinux, more: tuple[str, ...] = ()) -> int:
        words = ["c2c", "import", *map(str, files), "--vmlinux", str(vmlinux), "--out", str(tmp_path / "out")]
        return main([*words, *more])

    assert imported(SAMPLES) == 0
    assert NO_MAP in capsys.readouterr().out
    document.write(objects, structs.replace(MAP, build_id="0123456789"))
    data.write_text("PERFILE2\0\0")
    with pytest.raises(SchedlineError, match="is another kernel"):
        imported(SAMPLES, more=("--map", str(objects)))
    with pytest.raises(SchedlineError, match="is no vmlinux"):
        imported(SAMPLES, vmlinux=SAMPLES)
    with pytest.raises(SchedlineError, match="is no text of perf"):
        imported(SAMPLES, objects)
    with pytest.raises(SchedlineError, match="is perf's data, not a text"):
        imported(data)
