# SPDX-License-Identifier: GPL-2.0
"""A structure inside of others: named in their objects, moved with them, refused with the reason if it is nowhere."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import toy_results
from elftools.elf.elffile import ELFFile
from msgspec import structs
from replayed import Replay

from schedlib.c2c.kernel_map import Units
from schedlib.c2c.moved_layout import StructureLayout
from schedlib.c2c.objects import Watch
from schedlib.c2c.observed import Observed
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import MappedField, MappedStructure
from schedlib.layout.members import read_members
from schedlib.suggest.layout_costs import (
    Embedded,
    TracedWorkload,
    embedded,
    places_in,
    refuse_absent,
    replayed,
    starts,
)

pytestmark = pytest.mark.tools

AT = 0x10000
INODE = tuple(MappedField(8 * at, 8, f"i_{name}", "") for at, name in enumerate("abcdefghijkl"))
"""Twelve members of 8 bytes."""

BEGIN = 40
SHELL = MappedStructure(
    144,
    (
        MappedField(0, 8, "lock", ""),
        *(MappedField(BEGIN + each.offset, 8, f"inode.{each.path}", "") for each in INODE),
        MappedField(136, 8, "last", ""),
    ),
)
WHERE = Embedded("inode", 96, {"shell": (("inode", BEGIN),)})
LIKE_TODAY = StructureLayout({each.path: each.offset for each in INODE}, 96, 8)


def observed(place: Path, *accesses: str) -> Observed:
    """A guest with all memory watched, in which a file system has two inodes inside of its own structure."""
    at = [AT, AT + 192]
    return toy_results.observed(
        place, accesses or (f"0 load {AT:x} 8",), size=144, tag="shell", fields=SHELL.fields, at=at, everything=True
    )


def test_an_object_is_divided_into_what_is_inside_and_what_is_around(tmp_path: Path) -> None:
    found = WHERE.named(observed(tmp_path))
    resolver = found.resolver(found.middle, 64)
    places = [resolver.place(AT + 192 + at, 0) for at in (0, 8, BEGIN, BEGIN + 90, 136)]
    assert [(each.owner, each.offset, each.path) for each in places] == [
        ("shell", 0, "lock"),
        ("shell", 8, "(hole)"),
        ("inode", 0, "i_a"),
        ("inode", 90, "i_l"),
        ("shell", 136, "last"),
    ]
    # At 40 and, 192 bytes further, at 40 again; on lines of 128 bytes at two places.
    assert [start % 64 for start in starts(found, "inode")] == [40, 40]
    assert [start % 128 for start in starts(found, "inode")] == [40, 104]
    nowhere = Embedded("inode", 96, {})
    assert nowhere.named(observed(tmp_path)).watches == observed(tmp_path).watches


def inode(name: str, number: int = 0) -> str:
    offset = next(each.offset for each in INODE if each.path == name)
    return f"{AT + 192 * number + BEGIN + offset:x} 8"


SHARED = [
    each
    for _ in range(20)
    # i_a and i_c lie on the first line of each; i_l on the third, beside `last`.
    for each in (
        f"0 load {inode('i_a')}",
        f"1 store {inode('i_c')}",
        f"0 load {inode('i_a', 1)}",
        f"1 store {inode('i_c', 1)}",
        f"1 store {inode('i_l')}",
        f"0 load {AT + 136:x} 8",
    )
]


def misses(replay: Replay, place: Path, layout: StructureLayout) -> int:
    workload = TracedWorkload(observed(place, *SHARED), held_out=False)
    layouts = dict.fromkeys((64, 128, 256), layout)
    return replayed(replay.program, workload, WHERE, "x", layouts, place).misses[0]


def test_what_lies_beside_it_on_its_lines_is_counted_with_it(replay: Replay, tmp_path: Path) -> None:
    """CPU 0 loses the line with `last` of the structure around it by each write to i_l."""
    today = misses(replay, tmp_path, LIKE_TODAY)
    assert today >= 3 * 20
    # i_c goes to the second line, where nobody is. The misses of `last` are left.
    one = {**LIKE_TODAY.members, "i_c": 40, "i_f": 16}
    assert 20 <= misses(replay, tmp_path, StructureLayout(one, 96, 8)) <= today - 2 * 19
    both = {**one, "i_l": 32, "i_e": 88}
    assert misses(replay, tmp_path, StructureLayout(both, 96, 8)) < 20


def test_members_that_leave_its_size_as_it_is_move_nothing_around_it(tmp_path: Path) -> None:
    layouts, after = WHERE.moved(observed(tmp_path), LIKE_TODAY)
    assert layouts == {"shell": StructureLayout({each.path: each.offset for each in SHELL.fields}, 144, 8)}
    assert after == WHERE


TOY = """\
struct inode { int i_mode; long i_size; short i_bytes; %s };
struct shell { char lock; struct inode inode; int last; };
struct array { long head; struct inode all[2]; struct { struct shell shell; } deep; struct inode *other; };
struct array array;
"""


def built(place: Path, more: str) -> Path:
    (place / "toy.c").write_text(TOY % more)
    argv = ["gcc", "-g", "-nostdlib", "-shared", "-fPIC", "-o", "toy.so", "toy.c"]
    subprocess.run(argv, cwd=place, check=True)
    return place / "toy.so"


def mapped(binary: Path) -> dict[str, MappedStructure]:
    with binary.open("rb") as file:
        return Units(ELFFile(file), binary).need("toy.c").structures(frozenset({"inode", "shell", "array"}))


def test_it_is_found_at_any_depth_and_in_arrays(tmp_path: Path) -> None:
    binary = built(tmp_path, "")
    known, inner = mapped(binary), read_members(binary, ["inode", "shell"])
    found = list(places_in(known["array"], inner["inode"]))
    assert found == [("all[0]", 8), ("all[1]", 32), ("deep.shell.inode", 64)]
    assert list(places_in(known["shell"], inner["inode"])) == [("inode", 8)]
    assert list(places_in(known["inode"], inner["shell"])) == list(places_in(known["inode"], inner["inode"])) == []
    seen = observed(tmp_path)
    seen = replace(seen, known=replace(seen.known, structures=known))
    assert embedded(inner["inode"], [seen]) == Embedded("inode", 24, {"shell": (("inode", 8),)})


def test_members_of_these_names_elsewhere_are_not_it(tmp_path: Path) -> None:
    inner = read_members(built(tmp_path, ""), ["inode"])["inode"]
    fields = [MappedField(8 + each.offset, each.size, f"other.{each.name}", "") for each in inner.members]
    assert list(places_in(MappedStructure(64, tuple(fields)), inner)) == [("other", 8)]
    assert list(places_in(MappedStructure(64, tuple(fields[:-1])), inner)) == []
    moved = [*fields[:-1], structs.replace(fields[-1], offset=40)]
    assert list(places_in(MappedStructure(64, tuple(moved)), inner)) == []


@pytest.mark.parametrize("more", ["long i_new;", "long i_new __attribute__((__aligned__(64)));"])
def test_a_compiler_moves_the_structures_around_as_far(more: str, tmp_path: Path) -> None:
    """With a member more, and with one that starts a line."""
    before, after = built(tmp_path, ""), tmp_path / "after"
    after.mkdir()
    inner, grown = read_members(before, ["inode"])["inode"], read_members(built(after, more), ["inode"])["inode"]
    seen = observed(tmp_path)
    seen = replace(seen, known=replace(seen.known, structures=mapped(before)))
    names = {each.name for each in inner.members}
    layout = StructureLayout(
        {each.name: each.offset for each in grown.members if each.name in names},
        grown.type.size,
        max(grown.type.align or 8, 8),
    )
    layouts, there = Embedded("inode", 24, {"shell": (("inode", 8),)}).moved(seen, layout)
    moved = read_members(after / "toy.so", ["shell"])["shell"]
    start = next(each.offset for each in moved.members if each.name == "inode")
    assert there.places == {"shell": (("inode", start),)}
    assert layouts["shell"].size == moved.type.size
    wanted = {each.name: each.offset for each in moved.members if each.name != "inode"}
    wanted |= {f"inode.{name}": start + offset for name, offset in layout.members.items()}
    assert layouts["shell"].members == wanted


def test_what_a_trace_does_not_have_is_refused_with_the_reason(tmp_path: Path) -> None:
    seen = WHERE.named(observed(tmp_path))
    refuse_absent(seen, "inode")
    # The table knows a file, but none was shared.
    file = {**seen.known.structures, "file": MappedStructure(8, (MappedField(0, 8, "f_ref", ""),))}
    private = replace(seen, known=replace(seen.known, structures=file))
    with pytest.raises(SchedlineError, match="no two CPUs used a line of the same file; they shared inode, shell"):
        refuse_absent(private, "file")
    slab = Watch("slab x:64", "slab x", "", 0, 64, "", per_cpu=False, address=0, hops=(0,), optional=True)
    with pytest.raises(SchedlineError, match="a sock may lie, but does not know where: slab x"):
        refuse_absent(replace(seen, watches=(*seen.watches, slab)), "sock")
    some = replace(seen, parameters=structs.replace(seen.parameters, objects=("rq",)))
    with pytest.raises(SchedlineError, match="a trace of rt has no file, only inode, shell") as caught:
        refuse_absent(some, "file")
    assert "--objects file" in caught.value.next_step
