# SPDX-License-Identifier: GPL-2.0
"""Which declarations decide on a layout, and which changes of a file cannot reach them."""

from __future__ import annotations

from pathlib import Path

import pytest
import toys

from schedlib.layout.members import read_members
from schedlib.layout.unit_build import reaches, type_slice

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


def sliced(text: str, tag: str) -> str:
    """The declarations that a structure depends on."""
    found = type_slice(text, [tag])
    assert found
    return found[0]


def test_what_a_structure_depends_on() -> None:
    found = sliced(TEXT, "top")
    wanted = "u32 spin_t call_t row_t many counted looked names near aligning top"
    assert all(name in found for name in wanted.split())
    assert all(name not in found for name in ("struct farther", "body", "extern"))


def test_the_part_gives_the_layout_of_the_whole(tmp_path: Path) -> None:
    whole = TEXT.replace("struct far {", "struct farther { int x; };\nstruct far {") + "struct top it;\n"
    whole = whole.replace("struct __attribute__", "struct aligning { u32 a[2]; };\nstruct __attribute__").replace(
        "near { u32 a; };\nstruct aligning { u32 a[2]; };\n", "near { u32 a; };\n"
    )
    whole = whole.replace("enum many", "struct counted { char c; };\nenum many").replace(
        "MANY };\nstruct counted { char c; };\n", "MANY };\n"
    )
    part = sliced(whole, "top") + "struct top it;\n"
    assert len(part) < len(whole)
    for name, text in (("whole", whole), ("part", part)):
        (tmp_path / f"{name}.c").write_text(text)
        done = toys.gcc(tmp_path / f"{name}.c", tmp_path / f"{name}.o", "-g", "-w")
        assert done.returncode == 0, done.stderr.decode()
    assert read_members(tmp_path / "whole.o", ["top"]) == read_members(tmp_path / "part.o", ["top"])


def test_a_file_that_changes_the_meaning_of_all_is_not_divided() -> None:
    assert type_slice("#pragma pack(push, 1)\nstruct a { int x; };\n", ["a"]) is None
    assert type_slice("#pragma GCC diagnostic push\nstruct a { int x; };\n", ["a"]) is not None
    assert type_slice("struct a { int x; };\n", ["b"]) == ("", frozenset())


def test_functions_are_left_out_of_what_is_divided() -> None:
    text = "int f(int x) __attribute__((cold)) { struct a { int y; } z; }\nstruct a { int x; } b = { 1 };\nint c;"
    assert sliced(text, "a") == "struct a { int x; } b = { 1 };\n"


def test_parentheses_of_an_attribute_may_be_deep() -> None:
    """A structure behind six of them was not found."""
    assert "u64 a" in sliced("struct __attribute__((aligned(((((1 + (2 * (4))))))))) deep { u64 a; };\n", "deep")


def test_the_files_that_declare_what_is_needed_are_told() -> None:
    markers = '# 1 "top.c"\n# 1 "a.h" 1\nstruct a { int x; };\n# 2 "top.c" 2\n# 1 "b.h" 1\nstruct b { int y; };\n'
    text = f'{markers}# 3 "top.c" 2\nstruct top {{\n# 1 "list.h" 1\n\n  struct a a;\n}};\n'
    declared = "struct a { int x; };\nstruct top {\nstruct a a;\n};\n"
    assert type_slice(text, ["top"]) == (declared, frozenset({"a.h", "top.c", "list.h"}))


RAW = "#ifdef A\n#define B 1 + \\\n\t2\nstruct a { int x; };\n#endif\nint f(void) { return 1; }\n"


@pytest.mark.parametrize(
    ("old", "new", "reached"),
    [
        ("#ifdef A", "#ifdef C", True),
        ("\t2\n", "\t3\n", True),
        ("#endif\n", "#endif\n#define D\n", True),
        ("return 1", "return 2", False),
        ("int x", "int y", False),
    ],
)
def test_what_a_change_reaches(old: str, new: str, reached: bool) -> None:
    """A file that declares nothing that is needed can do so by what it tells the preprocessor alone."""
    assert RAW.count(old) == 1
    assert reaches(RAW, RAW.replace(old, new), False) is reached
    assert reaches(RAW, RAW.replace(old, new), True)
