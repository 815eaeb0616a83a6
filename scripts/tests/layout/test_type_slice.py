# SPDX-License-Identifier: GPL-2.0
"""Which declarations decide on a layout, and which changes of a file cannot reach them."""

from __future__ import annotations

from pathlib import Path

import pytest
import toys

from schedlib.layout.members import read_members
from schedlib.layout.type_slice import TypeSlice, reaches, type_slice

TEXT = """\
# 1 "x.c"
typedef unsigned int u32;
typedef struct { u32 lock; } spin_t;
typedef int (*call_t)(struct far *, u32);
typedef u32 row_t[4], *row_p;
enum many { ONE, TWO = sizeof(struct counted), MANY };
struct counted { char c; };
struct far { struct farther inside; };
struct looked { char x[3]; };
extern struct far *one(struct far *);
static inline int body(struct far *f) { struct hidden { int x; } y; return "}{;"[0] + '{' + y.x; }
static const char *const names[] = { "a", "b" };
struct __attribute__((aligned(sizeof(struct aligning)))) near { u32 a; };
struct aligning { u32 a[2]; };
struct top {
	spin_t lock; call_t call; row_t row; struct far *next; struct near near;
	char rooms[MANY], size[sizeof(((struct looked *)0)->x)];
	char all[sizeof(names) / sizeof((names)[0])];
	union { struct deep { int z; } one; long two; };
};
"""


def sliced(text: str, *tags: str) -> TypeSlice:
    found = type_slice(text, tags)
    assert found
    return found


def test_what_a_structure_depends_on() -> None:
    found = sliced(TEXT, "top")
    names = {"u32", "spin_t", "call_t", "row_t", "row_p", "many", "ONE", "TWO", "MANY", "counted", "looked", "names"}
    assert found.names == names | {"near", "aligning", "top", "deep"}
    assert "struct farther" not in found.text and "body" not in found.text and "extern" not in found.text


def test_the_part_gives_the_layout_of_the_whole(tmp_path: Path) -> None:
    whole = TEXT.replace("struct far {", "struct farther { int x; };\nstruct far {") + "struct top it;\n"
    whole = whole.replace("struct __attribute__", "struct aligning { u32 a[2]; };\nstruct __attribute__").replace(
        "near { u32 a; };\nstruct aligning { u32 a[2]; };\n", "near { u32 a; };\n"
    )
    whole = whole.replace("enum many", "struct counted { char c; };\nenum many").replace(
        "MANY };\nstruct counted { char c; };\n", "MANY };\n"
    )
    part = sliced(whole, "top").text + "struct top it;\n"
    assert len(part) < len(whole)
    for name, text in (("whole", whole), ("part", part)):
        (tmp_path / f"{name}.c").write_text(text)
        done = toys.gcc(tmp_path / f"{name}.c", tmp_path / f"{name}.o", "-g", "-w")
        assert done.returncode == 0, done.stderr.decode()
    assert read_members(tmp_path / "whole.o", ["top"]) == read_members(tmp_path / "part.o", ["top"])


def test_a_file_that_changes_the_meaning_of_all_is_not_divided() -> None:
    assert type_slice("#pragma pack(push, 1)\nstruct a { int x; };\n", ["a"]) is None
    assert type_slice("#pragma GCC diagnostic push\nstruct a { int x; };\n", ["a"]) is not None
    assert sliced("struct a { int x; };\n", "b") == TypeSlice("", frozenset())


def test_functions_are_left_out_of_what_is_divided() -> None:
    text = "int f(int x) __attribute__((cold)) { struct a { int y; } z; }\nstruct a { int x; } b = { 1 };\nint c;"
    assert sliced(text, "a").text == "struct a { int x; } b = { 1 };\n"


RAW = """\
#ifndef X_H
#define X_H
#define SIZE 3
struct top { int a; struct in in; };
struct in { int x; };
struct out { int y;
#ifdef CONFIG_Z
	int z;
#endif
};
enum kind { K_ONE, K_LAST };
static inline int f(struct out *o)
{
#ifdef CONFIG_Z
	return o->z;
#else
	return "}"[0];
#endif
}
FLAG(Ready, ready)
struct_group_user(x);
static __always_inline bool g(void) __must_hold(lock) { return true; }
int h(struct out *o, int (*call)(int));
#endif
"""
NAMES = {"top", "in", "kind", "K_ONE", "K_LAST"}


@pytest.mark.parametrize(
    ("old", "new", "reached"),
    [
        ("int x;", "int x, x2;", True),
        ("struct top { int a;", "struct top { long a;", True),
        ("SIZE 3", "SIZE 4", True),
        ("K_ONE,", "K_ONE, K_TWO,", True),
        ("FLAG(Ready", "FLAG(Steady", True),
        ("struct_group_user(x)", "struct_group_user(y)", True),
        ("#ifndef X_H", "#ifdef X_H", True),
        ("struct out { int y;", "struct out { struct in { int y; } z;", True),
        ("struct out { int y;", "struct out { MAKE(in, long) y;", True),
        ("struct out { int y;", "struct out { enum { K_ONE = 5 } y;", True),
        ("struct out {", "#define in other\nstruct out {", True),
        ("\treturn o->z;", "#undef SIZE\n\treturn o->z;", True),
        ("struct out {", "typedef struct out in;\nstruct out {", True),
        ("\treturn o->z;", "\tif (o) {\n\treturn o->z;", True),
        ("struct in { int x; };", "#ifdef Y\nstruct in { int x; };\n#endif", True),
        # These cannot.
        ("int y;", "int y, y2;", False),
        ("\tint z;", "\tlong z;", False),
        ("#ifdef CONFIG_Z\n\tint z;", "#ifdef CONFIG_Q\n\tint z;", False),
        ("return o->z", "return o->z + SIZE", False),
        ("return true", "return false", False),
        ("struct out {", "/* struct in { long x; }; */\nstruct out {", False),
        ("struct out {", "struct more { int y; };\nstruct out {", False),
        ("struct out {", "struct more;\nstruct out {", False),
        ("int h(struct out *o,", "int h(struct in *i, struct out *o,", False),
    ],
)
def test_what_a_change_reaches(old: str, new: str, reached: bool) -> None:
    assert RAW.count(old) == 1
    assert reaches(RAW, RAW.replace(old, new), NAMES) is reached
    assert not reaches(RAW, RAW, NAMES)


def test_braces_that_differ_from_branch_to_branch() -> None:
    """Where the file cannot be divided every change counts."""
    raw = "#ifdef A\nstruct a {\n#else\nstruct b {\n#endif\nint x; };\nint f(int y) { return 1; }\n"
    assert reaches(raw, raw.replace("return 1", "return 2"), {"a"})
    assert not reaches(raw, raw.replace("return 1", "return /* 2 */ 1"), {"a"})
