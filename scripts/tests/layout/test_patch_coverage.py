# SPDX-License-Identifier: GPL-2.0
"""Each changed line of a structure is either seen by a compiler or named as one that nobody looked at."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from layout_command import heard

from conftest import git
from schedlib.contracts.contract_rules import Rules
from schedlib.contracts.struct_source import without_comments
from schedlib.kernel.kconfig import load
from schedlib.layout.members import Member, Structure, Type
from schedlib.layout.patch_coverage import (
    changed_lines,
    changed_texts,
    depending,
    not_compiled,
    options_of,
    places,
)
from schedlib.layout.patch_findings import PatchLook
from schedlib.layout.rule_judge import Layout
from schedlib.layout.unit_build import changed_types
from schedlib.tree.kernel_tree import Tree, open_kdir
from schedlib.verdict import Verdict

BEFORE = """\
#ifndef _X_H
#define _X_H
/* struct old { */
struct pool {
	int			first;
#ifdef CONFIG_MANY
	u64			many;	/* struct y { */
	struct {
		int		inner;
	} sub;
#else
	u32			few;
#endif
	union {
		void		*one;
		long		other;
	};
#if defined(CONFIG_A) && !IS_ENABLED(CONFIG_B)
	unsigned long		both:4, more:3;
#endif
};

static void f(void)
{
	struct pool here = { 0 };
}
#endif
"""


def test_places_know_structure_and_conditions() -> None:
    found = places(BEFORE)
    assert set(found) == {4, 5, 7, 8, 9, 10, 12, 14, 15, 16, 17, 19, 21}
    assert found[5] == ("pool", ())
    assert found[7] == found[9] == ("pool", ("defined(CONFIG_MANY)",))
    assert found[12] == ("pool", ("!defined(CONFIG_MANY)",))


def layout(name: str, *members: str, tag: str = "pool", holds: Collection[str] = ()) -> Layout:
    """A structure with members of 8 bytes, where some guards are true."""
    rows = tuple(Member(each, "u64", 8 * at, 8) for at, each in enumerate(members))
    made = Structure(Type(tag, 8 * len(rows), 8), rows)
    return Layout(name, 64, "", frozenset(f"#{tag}#{each}" for each in holds), frozenset(), {tag: made})


@pytest.fixture
def tree(kernel: Path, cache: Path) -> Tree:
    (kernel / "x.h").write_text(BEFORE)
    git(kernel, "add", "-A")
    git(kernel, "commit", "-q", "-m", "x")
    return open_kdir(cache, kernel)


def commit(tree: Tree, kernel: Path, old: str, new: str) -> tuple[str, str]:
    """The commits before and after an edit of the header."""
    assert old in BEFORE
    (kernel / "x.h").write_text(BEFORE.replace(old, new, 1))
    git(kernel, "commit", "-qam", "edit")
    rows = git(kernel, "rev-parse", "HEAD~1", "HEAD").split()
    git(tree.src, "fetch", "-q", str(kernel), "HEAD")
    return rows[0], rows[1]


EDITS = {
    "not guarded": ("\tint\t\t\tfirst;\n", "\tint\t\t\tfirst;\n\tint\t\t\tsecond;\n", (), 1),
    "guarded": ("\tu64\t\t\tmany;", "\tu64\t\t\tmany_more;\n\tu64\t\t\tmany;", ("CONFIG_MANY=y",), 1),
    "else": ("\tu32\t\t\tfew;\n", "\tu32\t\t\tfew;\n\tu32\t\t\tfewer;\n", ("CONFIG_MANY=n",), 1),
    "in a guarded structure inside": ("\t\tint\t\tinner;\n", "\t\tlong\t\tinner;\n", ("CONFIG_MANY=y",), 2),
    "two options": ("both:4, more:3;", "both:4, more:5;", ("CONFIG_A=y", "CONFIG_B=n"), 2),
    "removed": ("\tu64\t\t\tmany;\t/* struct y { */\n", "", ("CONFIG_MANY=y",), 1),
    "a new option": (
        "\tint\t\t\tfirst;\n",
        "\tint\t\t\tfirst;\n#ifdef CONFIG_NEW\n\tint\t\t\tnew;\n#endif\n",
        ("CONFIG_NEW=y",),
        1,
    ),
    "the same name in both branches": ("\tu32\t\t\tfew;\n", "\tu64\t\t\tmany;\n", ("CONFIG_MANY=n",), 2),
    "other conditions": ("#if defined(CONFIG_A) && !IS_ENABLED(CONFIG_B)", "#ifdef CONFIG_C", ("CONFIG_C=y",), 1),
    "comments": ("/* struct y { */", "/* struct z { */", (), 0),
    "white space": ("\tu64\t\t\tmany;", "\tu64 many;", (), 0),
    "first line": ("struct pool {", "struct __packed pool {", (), 2),
    "outside": ("struct pool here", "struct pool there", (), 0),
}


USING = """\
#define LENGTH \\
	3
#define BOTH int m1; \\
	int m2;
enum kinds { ONE, NR_KINDS };
typedef u32 word_t;
struct inside { int a; };
#pragma pack(4)
struct macro { int a[LENGTH]; };
struct lines { BOTH };
struct kind { int a[NR_KINDS]; };
struct word { word_t a; };
struct holder { struct inside a; };
struct around { struct holder a; };
struct pointer { struct inside *a; };
struct pointers { struct inside __rcu *a; struct inside const __user *b[]; };
#ifdef CONFIG_MANY
#endif
typedef int handle_t;
struct handle { handle_t a; };
"""


def changed_names(old: str, new: str) -> list[str]:
    """What means something else in a file."""
    return changed_types(without_comments(old), without_comments(new))


@pytest.mark.parametrize(
    ("old", "new", "tags"),
    [
        ("\t3", "\t4", {"macro"}),
        ("int m2;", "int m2; long m3;", {"lines"}),
        ("ONE,", "ONE, TWO,", {"kind"}),
        ("typedef u32", "typedef u64", {"word"}),
        ("{ int a; }", "{ int a, b; }", {"inside", "holder", "around"}),
        ("int a[LENGTH]", "int b[LENGTH]", {"macro"}),
        ("ONE,", "ONE, /* x */", set()),
        ("pack(4)", "pack(1)", {"macro", "lines", "kind", "word", "holder", "around", "pointer", "pointers", "handle"}),
        ("{ int a[LENGTH]", "{\n#if LENGTH > 3\n\tint b;\n#endif\n\tint a[LENGTH]", {"macro"}),
        ("/* x */", "/* y */", set()),
        ("typedef int handle_t", "typedef long handle_t", {"handle"}),
    ],
)
def test_structures_that_change_with_what_they_use(old: str, new: str, tags: set[str]) -> None:
    """Of these only the first was told, and nobody said that the others were not looked at."""
    text = f"{USING}/* x */\n"
    assert text.count(old) == 1
    other = text.replace(old, new)
    assert {tag for _, tag in depending("x.h", other, changed_names(text, other))} == tags


@pytest.mark.parametrize("name", EDITS)
def test_lines_that_no_compiler_saw(name: str, tree: Tree, kernel: Path) -> None:
    old, new, options, count = EDITS[name]
    lines = changed_lines(changed_texts(tree, *commit(tree, kernel, old, new)))
    assert [options_of(line) for line in lines] == [options] * count
    bare = layout("x86_64", "first", "many", "few", "new")
    full = layout("x86_64+more", "first", holds={guard for line in lines for guard in line.guards})
    assert all(line.is_seen([(full, full)]) and not line.is_seen([]) for line in lines)
    blind = [line for line in lines if not line.is_seen([(bare, bare)])]
    assert blind == (lines if options else [])
    told = [str(each) for each in not_compiled(blind, ["x86_64"], {})]
    for option in options:
        assert any("WARNING: not compiled in x86_64: " in text and option in text for text in told)
    assert bool(told) == bool(options)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("#ifdef LATER", "which needs defined(LATER)."),
        ("#ifdef CONFIG_A\n#else", "which needs CONFIG_A=n."),
        ("#if CONFIG_NUMBER > 4", "which needs CONFIG_NUMBER > 4."),
        ("#ifdef CONFIG_A\n#elif defined(LATER)", "which needs !defined(CONFIG_A) && defined(LATER)."),
        ("#if !(defined(CONFIG_A) || defined(CONFIG_B))", "which needs (!(defined(CONFIG_A) || defined(CONFIG_B)))."),
        ("#if 0", "under #if 0."),
    ],
)
def test_what_a_line_needs_is_told(condition: str, said: str) -> None:
    """Nothing was said of what is no option, and a number was taken for one."""
    ends = "\n#endif" * condition.count("#if")
    new = BEFORE.replace("\tint\t\t\tfirst;", f"\tint\t\t\tfirst;\n{condition}\n\tint\t\t\tnew;{ends}")
    [told] = not_compiled(changed_lines({"x.h": (BEFORE, new)}), ["x86_64"], {})
    assert f"line {6 + condition.count('#')} of struct pool, {said}" in str(told)


def test_a_structure_on_the_stack_is_no_other() -> None:
    """INCONCLUSIVE, with an error of the compiler: no type of a function can be pointed to from outside."""
    new = "\tstruct {\n\t\tint a;\n\t} many;\n\tstatic struct {\n\t\tint b;\n\t} one;\n\tstruct pool here"
    text = "static void g(void)\n{ }\n" + BEFORE
    other = text.replace("\tstruct pool here", new).replace("\tint\t\t\tfirst;", "\tlong first;")
    assert {line.tag for line in changed_lines({"x.c": (text, other)})} == {"variable one", "pool"}


def test_lines_that_go_to_another_file_are_not_changed() -> None:
    """A member under an option made the new name of a file INCONCLUSIVE."""
    new = BEFORE.replace("u32\t\t\tfew;", "u64\t\t\tfew;")
    lines = changed_lines({"x.h": (BEFORE, ""), "y.h": ("", new.replace("_X_H", "_Y_H"))})
    assert [(line.file, line.number, line.removed) for line in lines if not line.moved] == [
        ("x.h", 12, True),
        ("y.h", 12, False),
    ]


def test_conditional_members_that_move_to_another_structure_are_changed() -> None:
    """More of them move than lines lie between: matched by their text alone, only the frames between had changed."""
    moved = "#ifdef CONFIG_FOO\n\tint a;\n\tint b;\n\tint c;\n\tint d;\n#endif\n"
    code = "int one(void)\n{\n\treturn 1;\n}\n"
    frame = "struct thing {{\n\tint first;\n{}}};\n{}struct other {{\n{}\tint last;\n}};\n"
    lines = changed_lines({"x.h": (frame.format(moved, code, ""), frame.format("", code, moved))})
    assert {line.tag for line in lines if "CONFIG_FOO" in str(line)} == {"thing", "other"}


def test_a_structure_without_a_contract_is_told(tree: Tree, kernel: Path) -> None:
    old, new, *_ = EDITS["not guarded"]
    lines = changed_lines(changed_texts(tree, *commit(tree, kernel, old, new)))
    names = [f"m{at}" for at in range(7)]
    was, now = layout("x86_64", "first", *names), layout("x86_64", "first", "second", *names)
    places = {line.tag: (line.file, line.number) for line in lines}
    none = Rules((), ())
    [found] = PatchLook(none, b"", was, now, places).told("pool")
    assert str(found) == (
        "x.h:6: NOTE: struct pool, which has no contract: "
        "64 bytes on 1 line became 72 bytes on 2 lines of 64, on x86_64\n"
        "    new on line 0: second, beside first, m0, m1, m2, m3, m4 and 1 more\n"
        "    on another line: m6"
    )
    assert list(PatchLook(none, b"", was, was, places).told("pool")) == []


def test_a_line_of_a_configuration_is_a_fragment() -> None:
    assert load(["x86_64", "CONFIG_SCHED_CORE=y"]).values["CONFIG_SCHED_CORE"] == "y"


def test_an_empty_patch_is_no_pass(tmp_path: Path) -> None:
    """`git show typo | schedline layout --patch -` was silent, with exit 0."""
    (tmp_path / "x.patch").write_text("\n")
    verdict, _, errors = heard("layout", "--kdir", "/", "--patch", str(tmp_path / "x.patch"))
    assert verdict is Verdict.INCONCLUSIVE and "nothing was looked at: the patch is empty" in errors


@pytest.mark.parametrize("changed", ["a", "b"])
def test_a_brace_in_both_branches_of_an_if_hides_no_structure(changed: str) -> None:
    opened = "int f(void)\n{\n#ifdef A\n\tif (x) {\n#else\n\tif (y) {\n#endif\n\t}\n\treturn sizeof(struct a);\n}\n"
    text = f"struct a {{ int x; }};\n{opened}struct b {{ int x; }};\nstruct c {{ int x; }};\n"
    assert changed_names(text, text.replace(f"{changed} {{ int", f"{changed} {{ long")) == [f"struct {changed}"]
