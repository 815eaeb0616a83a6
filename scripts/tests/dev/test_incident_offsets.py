# SPDX-License-Identifier: GPL-2.0
"""Offsets from the compiler, as a layout for the objects of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import toy_trace

from schedlib.dev.incident_offsets import MemberPlace, alignment_of, layout_in_trace, lines_of, places_of
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import MappedField, MappedStructure
from schedlib.formats.c2c_trace_document import Instance
from schedlib.git import git
from schedlib.layout.members import Member, Structure
from schedlib.layout.struct_job import declaring_file
from schedlib.layout.tables import Type
from schedlib.tree.kernel_tree import Tree

VEC = Structure(Type("vec", 16, None), (Member("count", "atomic_t", 0, 4), Member("mask", "long *", 8, 8)))
OUTER = Structure(
    Type("outer", 64, None),
    (
        Member("first", "int", 0, 4),
        Member("mark", "char", 8, 0, 0),
        Member("vec", "struct vec", 8, 48, 3),
        Member("last", "long", 56, 8),
    ),
)
STRUCTURES = {"vec": VEC, "outer": OUTER}


def test_the_places_of_members_and_of_those_inside() -> None:
    assert places_of(STRUCTURES, "outer") == {
        "first": MemberPlace(0, 4),
        "vec": MemberPlace(8, 48),
        "last": MemberPlace(56, 8),
    }
    inside = places_of(STRUCTURES, "outer", "vec[0]")
    assert list(inside) == [
        "first",
        *(f"vec[{at}].{name}" for at in range(3) for name in ("count", "mask")),
        "last",
    ]
    assert inside["vec[2].mask"] == MemberPlace(48, 8)


@pytest.mark.parametrize("inside", ["gone", "vec[0].gone", "first.x"])
def test_a_wrong_path_is_refused(inside: str) -> None:
    with pytest.raises(SchedlineError, match="is not known"):
        places_of(STRUCTURES, "outer", inside)


KNOWN = MappedStructure(64, tuple(MappedField(at, 8, name, "") for at, name in ((0, "a"), (8, "b.x"), (16, "b.y"))))
BEFORE = {"a": MemberPlace(0, 8), "b": MemberPlace(8, 16)}


def test_members_move_as_in_the_compilers_layout() -> None:
    after = {"b": MemberPlace(0, 16), "a": MemberPlace(64, 8)}
    found = layout_in_trace(KNOWN, BEFORE, after, 72, 64)
    assert found.members == {"a": 64, "b": 0} and (found.size, found.align) == (128, 64)


def test_what_the_trace_does_not_know_stays_in_its_unit() -> None:
    # A bit field of the trace begins at its byte, that of the compiler at its unit.
    known = MappedStructure(64, (MappedField(1, 1, "bit", ""),))
    found = layout_in_trace(known, {"bit": MemberPlace(0, 4)}, {"bit": MemberPlace(8, 4)}, 64, 8)
    assert found.members == {"bit": 9}


@pytest.mark.parametrize(
    ("known", "after", "message"),
    [
        (KNOWN, {**BEFORE, "new": MemberPlace(24, 4)}, "the accesses of new are not in the trace"),
        (KNOWN, {"a": MemberPlace(0, 8)}, "it has no b"),
        (MappedStructure(64, (MappedField(32, 8, "a", ""),)), BEFORE, "has a at offset 32, the compiler at 0"),
    ],
)
def test_other_members_are_not_played(known: MappedStructure, after: dict[str, MemberPlace], message: str) -> None:
    with pytest.raises(SchedlineError, match=message):
        layout_in_trace(known, BEFORE, after, 64, 8)


def test_the_members_that_share_lines() -> None:
    places = {"a": MemberPlace(0, 8), "b": MemberPlace(56, 16), "c": MemberPlace(72, 8)}
    assert lines_of(places) == {frozenset("ab"), frozenset("bc")}
    # The order in a line says nothing, nor that of the lines; but b does not reach into the other line any more.
    assert lines_of({**places, "a": MemberPlace(8, 8)}) == lines_of(places)
    assert lines_of({**places, "b": MemberPlace(48, 16)}) != lines_of(places)


@pytest.mark.parametrize(("addresses", "align"), [((0x10000,), 64), ((0x10000, 0x10040), 64), ((0x10000, 0x100C8), 8)])
def test_the_alignment_of_all_objects(tmp_path: Path, addresses: Sequence[int], align: int) -> None:
    seen = toy_trace.observed(tmp_path)
    instances = tuple(Instance("root_domain+0", 0, address, 64, 1) for address in addresses)
    guests = tuple(replace(guest, raw=replace(guest.raw, instances=instances)) for guest in seen.guests)
    assert alignment_of(replace(seen, guests=guests), "root_domain") == align


def test_a_structure_that_is_declared_with_a_typedef_is_found(tmp_path: Path) -> None:
    header = tmp_path / "src/include/linux/mmzone.h"
    header.parent.mkdir(parents=True)
    header.write_text("typedef struct pglist_data {\n\tint node_id;\n} pg_data_t;\n\ntypedef struct other other_t;\n")
    git(tmp_path / "src", "init", "--quiet")
    git(tmp_path / "src", "add", "--all")
    made = git(tmp_path / "src", "write-tree")
    tree = Tree("toy", tmp_path, made, made, "toy", is_user=False)
    assert declaring_file(tree, made, "pglist_data") == "include/linux/mmzone.h"
    with pytest.raises(SchedlineError, match="declares no struct other at the left margin"):
        declaring_file(tree, made, "other")
