# SPDX-License-Identifier: GPL-2.0
"""The members of a structure in its source: moved with comments and conditions, and where a compiler then puts them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import MappedField
from schedlib.layout.members import Member, Structure, Type, read_members
from schedlib.suggest.member_text import ALIGNED, Body, body_of, moved_pieces, number_moved
from schedlib.suggest.movable import Arrangement, Movable, movable, sharing_together
from schedlib.suggest.suggest_job import pinned_of

BEFORE = "#ifndef TOY_H\n\n/* A toy. */\n"
TOY = (
    "struct toy {\n"
    "\tunsigned int\t\tcalls;\n"
    "\t/* Who waits. */\n"
    "\tvoid\t\t\t*waiter;\n"
    "\n"
    "\t/*\n"
    "\t * About all that follows.\n"
    "\t */\n"
    "\n"
    "\tunion {\n"
    "\t\tint\t\tone;\n"
    "\t\tchar\t\tother[4];\n"
    "\t};\n"
    "#ifdef CONFIG_TOY\n"
    "\t/* Only with toys. */\n"
    "\tlong\t\t\ttoy_time;\n"
    "\tint\t\t\ttoy_kind;\n"
    "#endif\n"
    "\tunsigned int\t\tis_set:1;\n"
    "\tunsigned int\t\tis_used:1;\n"
    "\tunsigned long\t\tbusy ____cacheline_aligned;\n"
    "\tint\t\t\tlast;\t/* the\n"
    "\t\t\t\t\t * last one */\n"
    "};\n"
)
AFTER = "\nstruct other {\n\tint a;\n};\n#endif\n"


def body(text: str = TOY) -> Body:
    return body_of(BEFORE + text + AFTER, "toy", "toy.h")


def test_all_pieces_in_their_order_are_the_file() -> None:
    found = body()
    assert found.text(range(len(found.pieces)), {}) == BEFORE + TOY + AFTER
    assert [piece.names for piece in found.pieces] == [
        ("calls",),
        ("waiter",),
        ("one", "other"),
        ("toy_time", "toy_kind"),
        ("is_set", "is_used"),
        ("busy",),
        ("last",),
    ]
    assert [piece.aligned for piece in found.pieces] == [False] * 5 + [True, False]


def test_a_piece_takes_its_comment_and_conditions_along_and_leaves_what_is_about_others() -> None:
    moved = body().text([1, 4, 3, 5, 6, 0, 2], {})
    assert moved.startswith(BEFORE + "struct toy {\n\t/* Who waits. */\n\tvoid\t\t\t*waiter;\n")
    assert "#ifdef CONFIG_TOY\n\t/* Only with toys. */\n\tlong\t\t\ttoy_time;\n\tint\t\t\ttoy_kind;\n#endif\n" in moved
    assert moved.count("About all that follows.") == 1
    assert sorted(moved.split()) == sorted((BEFORE + TOY + AFTER).split())


def test_attributes_come_and_go() -> None:
    found = body().text(range(7), {0: True, 3: True, 5: False, 6: False})
    assert "\tunsigned int\t\tcalls ____cacheline_aligned;\n" in found
    # A union without a name would get padding by it, so there it is left out.
    assert [piece.can_align for piece in body().pieces] == [True, True, False, True, False, True, True]
    assert "toy_time ____cacheline_aligned;" in found
    assert "busy;" in found


@pytest.mark.parametrize(
    ("order", "moved"),
    [((0, 1, 2, 3), ()), ((1, 2, 3, 0), (0,)), ((3, 0, 1, 2), (3,)), ((3, 2, 1, 0), (3, 2, 1)), ((), ())],
)
def test_as_few_as_possible_count_as_moved(order: tuple[int, ...], moved: tuple[int, ...]) -> None:
    assert number_moved(order) == len(moved_pieces(order)) == len(moved)


def test_bit_fields_stay_together_across_comments_and_conditions() -> None:
    """Those behind a width of 0 have memory of their own."""
    rows = [
        "unsigned a:1;\n\n\t/* About what follows. */\n\n\tunsigned b:1;",
        "#ifdef CONFIG_TOY\n\tunsigned c:1;\n#endif\n\tunsigned d:1;\n\tunsigned :0;",
        "/* Only current. */\n\n\tunsigned e:1;\n\tint f;",
    ]
    text = "struct toy {\n" + "".join(f"\t{row}\n".replace("\t#", "#") for row in rows) + "};\n"
    found = body(text)
    assert [piece.names for piece in found.pieces] == [("a", "b", "c", "d"), ("e",), ("f",)]
    assert found.text(range(3), {}) == BEFORE + text + AFTER


def test_what_is_not_there_or_not_understood_is_refused() -> None:
    with pytest.raises(SchedlineError, match="does not declare struct tou"):
        body_of(BEFORE + TOY, "tou", "toy.h")
    with pytest.raises(SchedlineError, match="the end of a declaration in struct toy is not found: int a"):
        body("struct toy {\n\tint a\n};\n")


def toy(text: Body, members: tuple[Member, ...], size: int, pinned: tuple[str, ...] = ()) -> Movable:
    fields = [MappedField(each.offset, each.size, each.name, "") for each in members]
    return movable(Structure(Type("toy", size, None), members), fields, text, 64, pinned)


ABC = tuple(Member(name, "int", 4 * at, 4) for at, name in enumerate("abc"))


@pytest.mark.parametrize(
    ("rows", "pinned", "segments"),
    [
        ("int a;|__cacheline_group_begin(x);|int b;|int c;|__cacheline_group_end(x);", (), [0, 1, 1]),
        ("int a;|int b;|int c;", ("a",), [1, 2, 2]),
    ],
)
def test_marks_and_what_is_pinned_separate_segments(rows: str, pinned: tuple[str, ...], segments: list[int]) -> None:
    text = body("struct toy {\n" + "".join(f"\t{each}\n" for each in rows.split("|")) + "};\n")
    assert [unit.segment for unit in toy(text, ABC, 12, pinned).units] == segments
    with pytest.raises(SchedlineError, match="toy has no member d"):
        toy(text, ABC, 12, ("d",))


def test_what_has_to_stay_by_the_table() -> None:
    assert (pinned_of("sock"), pinned_of("rq")) == (("__sk_common",), ())
    with pytest.raises(SchedlineError, match="all members of struct page have to stay: include"):
        pinned_of("page")


@pytest.mark.parametrize(
    ("b", "more", "size", "said"),
    [
        (4, (), 12, "does not explain its size"),
        (20, (), 24, "does not explain why b is at offset 20"),
        (4, ABC[2:], 12, "does not show its member c"),
    ],
)
def test_offsets_that_the_source_does_not_explain(b: int, more: tuple[Member, ...], size: int, said: str) -> None:
    with pytest.raises(SchedlineError, match=said):
        toy(body("struct toy {\n\tint a;\n\tint b;\n};\n"), (ABC[0], Member("b", "int", b, 4), *more), size)


@pytest.mark.parametrize(
    ("text", "aligned", "with_it"),
    [
        ("\tint a;\n", False, "\tint a ____cacheline_aligned;\n"),
        ("\tint a[2];\t/* a; b */\n", False, "\tint a[2] ____cacheline_aligned;\t/* a; b */\n"),
        ("\tvoid (*a)(int);\n", False, "\tvoid (*a)(int) ____cacheline_aligned;\n"),
        ("\tstruct {\n\t\tint b;\n\t} a;\n", False, "\tstruct {\n\t\tint b;\n\t} a ____cacheline_aligned;\n"),
        # What starts a line inside of it is not the attribute of the member.
        (
            "\tstruct {\n\t\tint b ____cacheline_aligned;\n\t} a;\n",
            False,
            "\tstruct {\n\t\tint b ____cacheline_aligned;\n\t} a ____cacheline_aligned;\n",
        ),
        ("\tint a ____cacheline_aligned_in_smp;\n", True, "\tint a ____cacheline_aligned_in_smp;\n"),
        # An attribute would pad these, or break them.
        ("\tstruct {\n\t\tint a;\n\t} ____cacheline_aligned;\n", False, ""),
        ("\tunion {\n\t\tint a;\n\t};\n", False, ""),
        ("\tint a:1;\n", False, ""),
    ],
)
def test_an_attribute_belongs_to_the_first_declaration(text: str, aligned: bool, with_it: str) -> None:
    piece, _ = body(f"struct toy {{\n{text}\tint z;\n}};\n").pieces
    assert (piece.aligned, piece.can_align) == (aligned, bool(with_it))
    if not with_it:
        return
    assert piece.with_alignment(True) == with_it
    without = ALIGNED.sub("", text) if aligned else text
    assert piece.with_alignment(False) == without


def test_a_structure_without_a_name_around_all_members_is_looked_into() -> None:
    """As in mm_struct; one at the beginning, with members behind it, is only the first of them."""
    all_of_it = (
        "struct toy {\n\tstruct {\n\t\tint a;\n\t\tint b;\n\t} __randomize_layout;\n\n\t/* c; */\n\tchar c[];\n};\n"
    )
    assert [piece.names for piece in body(all_of_it).pieces] == [("a",), ("b",)]
    first = all_of_it.replace("char c[]", "char c").replace(" __randomize_layout", "")
    assert [piece.names for piece in body(first).pieces] == [("a", "b"), ("c",)]


FIRST, COUNT, STATS, TIME, AVG, KIND, REMOVED, LAST, MASK = range(9)
INSIDE = (
    "struct toy {\n"
    "\tint\t\t\tfirst;\n"
    # As mm_struct.mm_count: the attribute is that of the type, so it has a line of its own.
    "\tstruct {\n\t\tint\t\tcount;\n\t} ____cacheline_aligned;\n"
    # As task_struct.stats, without CONFIG_SCHEDSTATS.
    "\tstruct empty\t\tstats;\n"
    "\tlong\t\t\ttime;\n"
    # As task_struct.se, in whose type a type starts a line.
    "\tstruct lined\t\tavg;\n"
    "\tshort\t\t\tkind;\n"
    # As cfs_rq.removed.
    "\tstruct {\n\t\tlong\t\tlock ____cacheline_aligned;\n\t\tint\t\tnr;\n\t} removed;\n"
    "\tchar\t\t\tlast;\n"
    "\tlong\t\t\tmask[];\n"
    "};\n"
)
# call_single_data_t is aligned to 32 bytes; a member that follows 64 bytes of others is so by chance.
WIDE = "struct toy {\n\tlong\t\ta[8];\n\twide_t\t\twide;\n\tlong\t\tb;\n};\n"
# As signal_struct.autoreap behind two bool: a bit field stays with those whose word it shares.
BITS = "struct toy {\n\tint a;\n\n\tchar b;\n\tchar c;\n\t/* d */\n\tunsigned d:1;\n\tlong e;\n\tint f;\n};\n"


@pytest.mark.tools
@pytest.mark.parametrize("line", [64, 128])
@pytest.mark.parametrize(
    ("kind", "order", "aligned"),
    [
        ("toy", (0, 1, 2, 3, 4, 5, 6), {5}),
        ("toy", (5, 0, 2, 4, 1, 3, 6), {5}),
        ("toy", (6, 1, 0, 3, 2, 4, 5), {1, 5}),
        ("toy", (2, 0, 1, 3, 4, 5, 6), set()),
        ("bits", (2, 1, 3, 0), set()),
        ("wide", (2, 0, 1), set()),
        ("inside", tuple(range(9)), set()),
        ("inside", (COUNT, TIME, STATS, KIND, FIRST, REMOVED, AVG, LAST, MASK), set()),
        ("inside", (STATS, LAST, REMOVED, FIRST, AVG, COUNT, KIND, TIME, MASK), {LAST, TIME}),
        ("inside", (TIME, KIND, FIRST, LAST, AVG, STATS, COUNT, REMOVED, MASK), {REMOVED, KIND}),
    ],
)
def test_a_compiler_agrees(kind: str, order: tuple[int, ...], aligned: set[int], line: int, tmp_path: Path) -> None:
    text = {"toy": TOY, "bits": BITS, "wide": WIDE, "inside": INSIDE}[kind]
    pieces, structure = body(text), compiled(BEFORE + text + AFTER, tmp_path)
    # The attribute that aligns the structure today may go.
    structure = replace(structure, type=structs.replace(structure.type, align=None))
    together = sharing_together(structure, pieces)
    assert together.text(range(len(order)), {}) == BEFORE + text + AFTER
    fields = [MappedField(each.offset, each.size, each.name, "") for each in structure.members if each.size]
    found, wanted = movable(structure, fields, together, 64, ()), Arrangement(order, frozenset(aligned))
    changed = {unit.piece: unit.piece in aligned for unit in found.units if together.pieces[unit.piece].can_align}
    moved = compiled(together.text(order, changed), tmp_path, line)
    assert found.members(wanted, line) == {each.name: each.offset for each in moved.members}
    assert found.offsets(wanted, line)[1] == moved.type.size
    # What has no bytes is no field of a trace. Only the array without elements stays where it is.
    empty = found.members(wanted, line).keys() - found.layout(wanted, line).members.keys()
    assert empty == ({"stats", "mask"} if text == INSIDE else set())
    assert [unit.segment for unit in found.units] == [0] * (len(order) - 1) + [int(text == INSIDE)]


@pytest.mark.tools
def test_members_of_a_word_that_others_use_are_joined(tmp_path: Path) -> None:
    structure = compiled(BEFORE + BITS + AFTER, tmp_path)
    with pytest.raises(SchedlineError, match="does not explain why d is at offset 4"):
        toy(body(BITS), structure.members, structure.type.size)
    names = [piece.names for piece in sharing_together(structure, body(BITS)).pieces]
    assert names == [("a",), ("b", "c", "d"), ("e",), ("f",)]


def test_bits_have_the_alignment_of_their_word() -> None:
    """The field of a trace has only the byte that they are in."""
    members = Member("a", "long", 0, 8), Member("d", "unsigned int", 8, 4)
    fields = [MappedField(0, 8, "a", ""), MappedField(8, 1, "d", "")]
    text = body("struct toy {\n\tlong a;\n\tunsigned d:1;\n};\n")
    found = movable(Structure(Type("toy", 16, None), members), fields, text, 64, ())
    assert [part.align for _, part in found.parts] == [8, 4]


def compiled(header: str, place: Path, line: int = 64) -> Structure:
    """What gcc makes of struct toy."""
    (place / "toy.h").write_text(header)
    (place / "toy.c").write_text(
        f"#define CONFIG_TOY\n#define ____cacheline_aligned __attribute__((__aligned__({line})))\n"
        "typedef struct { long x[4]; } wide_t __attribute__((__aligned__(32)));\n"
        "struct empty { };\nstruct load { long load; int sum; } ____cacheline_aligned;\n"
        "struct lined { struct load load; };\n"
        '#include "toy.h"\n'
        "struct toy toy;\n"
    )
    subprocess.run(["gcc", "-g", "-c", "-o", str(place / "toy.o"), str(place / "toy.c")], check=True)
    return read_members(place / "toy.o", ["toy"])["toy"]
