# SPDX-License-Identifier: GPL-2.0
"""Contracts of packs, from the file to the verdict, on a toy kernel: any structure, public or private."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import toys
from layout_command import document, run, said

from conftest import git, write_files
from golden import Golden
from schedlib.contracts.contract_rules import Rules, pack_rules
from schedlib.errors import SchedlineError
from schedlib.layout import pack_units
from schedlib.layout.columns import composed_tree, pack_columns
from schedlib.layout.members import read_members
from schedlib.layout.pack_units import Unit, units_of
from schedlib.layout.rule_judge import Layout
from schedlib.layout.unit_build import UnitBuild
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.premerge import parts
from schedlib.premerge.series import read_series
from schedlib.tree.kernel_tree import open_kdir, put_files
from schedlib.verdict import Verdict

pytestmark = pytest.mark.tools

FILES = {
    "include/linux/thing.h": """\
#include <linux/cache.h>
struct thing {
	u32 owner, waiters;
	void *read ____cacheline_aligned;
	char __cacheline_group_begin__fast[0];
	u32 first, second;
	char __cacheline_group_end__fast[0];
	u32 rest;
};
""",
    "fs/private.c": "#include <linux/cache.h>\nstruct poll { u32 lock; void *list; };\nstruct poll one;\n",
    "include/linux/size.h": "#define SIZE 2\n",
    "include/linux/none.h": "#define NONE 2\n",
    "mm/memcontrol.c": "#include <linux/size.h>\nstruct group { char name[SIZE]; };\nstruct group other;\n",
}

THING = """\
struct = "thing"
file = "include/linux/thing.h"
[[rule]]
id = "thing.G1"
why = "read is read"
source = "include/linux/thing.h"
[[promise]]
id = "thing.G1"
keep = "starts a line"
of = ["read"]
"""

POLL = """\
struct = "poll"
file = "fs/private.c"
[[rule]]
id = "poll.G1"
why = "the holder of the lock walks the list"
source = "fs/private.c"
[[promise]]
id = "poll.G1"
keep = "on one line"
of = ["lock", "list"]
"""


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy kernel with a public and a private structure."""
    return toys.toy_tree(tmp_path_factory.mktemp("kernels") / "toy", FILES)


@pytest.fixture
def contracts(tmp_path: Path) -> Path:
    write_files(tmp_path / "mine", {"thing.toml": THING, "poll.toml": POLL})
    return tmp_path / "mine"


def test_public_and_private_structures_are_judged(tree: Path, contracts: Path, cache: Path, golden: Golden) -> None:
    words = ["layout", "--kdir", str(tree), "--contracts", str(contracts)]
    found = document(cache / "x.json", *words)
    [column] = found["columns"]
    assert (found["status"], column["line"], column["types"]["poll"]["size"]) == ("PASS", 64, 16)
    # What a tree lacks is n/a.
    toys.edit(contracts, "poll.toml", 'file = "fs/private.c"', 'file = "fs/later.c"')
    toys.edit(contracts, "thing.toml", '"read"', '"owner", "waiters"')
    verdict, text = said(*words)
    golden("pack.txt", text)
    assert verdict is Verdict.FAIL


def test_a_kernel_that_is_built(tree: Path, contracts: Path, cache: Path, tmp_path: Path) -> None:
    source = tmp_path / "vmlinux.c"
    source.write_text(
        "#include <linux/types.h>\n"
        + toys.SCHED_H.replace('#include "cpudeadline.h"', "")
        + "".join(FILES.values()).replace("#include <linux/size.h>\n", "")
        + "struct rq a; struct root_domain b; struct thing c;"
    )
    assert toys.gcc(source, tmp_path / "vmlinux", "-g", *toys.defines()).returncode == 0
    built = ["layout", "--vmlinux", str(tmp_path / "vmlinux")]
    found = document(cache / "x.json", *built, "--contracts", str(contracts))
    assert {row["outcome"] for row in found["columns"][0]["rules"] if row["id"] == "thing.G1"} == {"pass"}
    verdict, text = said(*built, "--struct", "thing")
    assert verdict is Verdict.PASS and "     64       8  read" in text


def test_a_member_that_is_renamed_is_an_error(tree: Path, contracts: Path, cache: Path) -> None:
    """Left out by the compiler, it would be judged no more, and the rest of the rule would pass."""
    words = ["layout", "--kdir", str(tree), "--contracts", str(contracts)]
    toys.edit(contracts, "poll.toml", '"list"', '"queue"')
    with pytest.raises(SchedlineError, match=r"fs/private.c of this tree has no member queue.*struct poll"):
        run(*words)
    toys.edit(contracts, "poll.toml", '"queue"', '"queue|list"')
    assert run(*words) is Verdict.PASS


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('file = "fs/private.c"\n', "", "poll.toml:1: file is missing"),
        ('file = "fs/private.c"', 'file = "../private.c"', "poll.toml:2: "),
        ('source = "fs/private.c"\n', "", "poll.toml:3: .*names no source"),
        ('why = "the', 'change = "rd-lines"\nwhy = "the', "is in a contract with `file`"),
        ('struct = "poll"', 'struct = "epoll"', "name the file after it"),
    ],
)
def test_a_wrong_contract(old: str, new: str, message: str, contracts: Path) -> None:
    toys.edit(contracts, "poll.toml", old, new)
    with pytest.raises(SchedlineError, match=message):
        pack_rules((), (contracts,))


def test_a_structure_has_one_contract(contracts: Path) -> None:
    with pytest.raises(SchedlineError, match="'poll', which has a contract already"):
        pack_rules((), (contracts, contracts))


@pytest.mark.parametrize(
    ("files", "message"),
    [({"poll.toml": POLL.partition("[[rule]]")[0]}, "have no rules, so there is nothing"), ({}, "has no contracts")],
)
def test_nothing_to_judge(files: dict[str, str], message: str, tmp_path: Path) -> None:
    """A first contract of a structure of which nothing is known has no rules: judging it ended with a traceback."""
    write_files(tmp_path, files)
    with pytest.raises(SchedlineError, match=message):
        run("layout", "--contracts", str(tmp_path))


@pytest.fixture
def read_units(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The units that are read, from here on."""
    stems: list[str] = []

    def told(self: UnitBuild, source: Path, names: Collection[str]) -> object:
        stems.append(source.stem)
        return types_of(self, source, names)

    types_of = UnitBuild.types_of
    monkeypatch.setattr(UnitBuild, "types_of", told)
    return stems


def both_layouts(
    tree: Path, contracts: Path, cache: Path, changes: dict[str, str], read_units: list[str]
) -> tuple[Layout, Layout]:
    """The layouts before and after files were changed; `read_units` has what was read for the second."""
    rules = pack_rules((), (contracts,))
    [column] = pack_columns(["x86_64"], [])
    made, composition = composed_tree(TreeOptions(tree, None), ChangeOptions((), ()))
    before = pack_units.pack_layout(cache, made, composition.commit, column, rules)
    after = put_files(made, composition.commit, {name: text.encode() for name, text in changes.items()}, "more")
    read_units.clear()
    return before, pack_units.pack_layout(cache, made, after, column, rules, composition.commit)


def test_only_what_a_change_touches_is_compiled_again(
    tree: Path, contracts: Path, cache: Path, read_units: list[str]
) -> None:
    """A unit that reads none of the changed files keeps what it showed."""
    changes = {"fs/private.c": FILES["fs/private.c"].replace("u32 lock", "u32 lock, more")}
    _, after = both_layouts(tree, contracts, cache, changes, read_units)
    assert read_units == ["kernel_schedline_fs_private_c"]
    assert [member.name for member in after.structures["poll"].members] == ["lock", "more", "list"]
    # What was found is that commit's own now.
    both_layouts(tree, contracts, cache, changes, read_units)
    assert read_units == []


INSIDE = """\
#pragma once
#define LENGTH 3
#define ALIGNED
enum kinds { ONE, TWO, NR_KINDS };
struct other { u32 a[5]; };
struct inside { u32 a; };
typedef struct inside inside_t;
typedef u32 word_t;
static inline int helper(struct inside *of) { return of->a; }
"""
"""Read by all units, but only struct poll contains what it declares."""

READING = """\
#include <linux/cache.h>
#include <linux/inside.h>
struct poll { u32 lock; void *list; u32 all[LENGTH]; u32 kinds[NR_KINDS]; inside_t one; word_t word;
	char room[sizeof(struct other)]; } ALIGNED;
struct poll one;
"""


def test_a_new_header_may_be_found_first(tree: Path, contracts: Path, cache: Path, read_units: list[str]) -> None:
    """No unit has read it before, so no unit names it: it takes the place of another one."""
    private = '#include <linux/cache.h>\n#include "own.h"\nstruct poll { u32 lock; own_t list; };\nstruct poll one;\n'
    write_files(tree, {"include/own.h": "typedef u32 own_t;\n", "fs/private.c": private})
    git(tree, "add", "-A")
    try:
        changes = {"fs/own.h": "typedef u64 own_t;\n"}
        before, after = both_layouts(tree, contracts, cache, changes, read_units)
    finally:
        git(tree, "reset", "-q", "--hard")
    assert (before.types["poll"].size, after.types["poll"].size) == (8, 16)


@contextmanager
def no_units(*_: object) -> Iterator[None]:
    """Leave all units to make."""
    yield None


@pytest.mark.parametrize(
    ("old", "new", "moves"),
    [
        ("struct inside { u32 a; }", "struct inside { u32 a, b; }", True),
        ("#define LENGTH 3", "#define LENGTH 4", True),
        ("TWO, NR_KINDS", "TWO, THREE, NR_KINDS", True),
        ("struct other { u32 a[5]; }", "struct other { u32 a[6]; }", True),
        ("typedef u32 word_t", "typedef u64 word_t", True),
        ("struct inside { u32 a; }", "struct inside {\n#ifndef NONE\n\tu32 b;\n#endif\n\tu32 a;\n}", True),
        ("#define ALIGNED", "#define ALIGNED __attribute__((aligned(128)))", True),
        ("#pragma once\n", "#pragma once\n#pragma pack(1)\n", True),
        ("return of->a", "return of->a + 1", False),
        ("#pragma once\n", "#pragma once\n/* struct inside { u32 x; }; */\n", False),
        ("struct other", "struct third { u32 new; };\nstruct other", False),
        ("static inline", "int another(struct inside *of);\nstatic inline", False),
    ],
)
def test_a_type_that_a_structure_contains(
    old: str,
    new: str,
    moves: bool,
    tree: Path,
    contracts: Path,
    cache: Path,
    read_units: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a structure contains through another header, or by its size, is found; what it cannot contain is skipped."""
    assert INSIDE.count(old) == 1
    thing = FILES["include/linux/thing.h"].replace("<linux/cache.h>", "<linux/cache.h>\n#include <linux/inside.h>")
    files = {"include/linux/inside.h": INSIDE, "fs/private.c": READING, "include/linux/thing.h": thing}
    write_files(tree, files)
    try:
        changes = {"include/linux/inside.h": INSIDE.replace(old, new)}
        before, after = both_layouts(tree, contracts, cache, changes, read_units)
        compiled = "kernel_schedline_fs_private_c" in read_units
        monkeypatch.setattr(pack_units, "unit_build", no_units)
        shutil.rmtree(cache / "layout")
        whole = both_layouts(tree, contracts, cache, changes, read_units)
    finally:
        (tree / "include/linux/inside.h").unlink()
        git(tree, "checkout", "-q", "fs/private.c", "include/linux/thing.h")
    assert (before.structures, after.structures) == tuple(each.structures for each in whole)
    assert (before.structures["poll"] != after.structures["poll"]) is moves
    assert compiled or not moves


THING_H = "include/linux/thing.h"


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        (THING_H, "u32 rest;", "u32 rest, more;", "line 1: more, beside read, first, second, rest\n"),
        (THING_H, "void *read ____", "u32 new; void *read; u32 x ____", "thing.h:4: ERROR: thing.G1"),
        (THING_H, "void *read", "void *reads", "ERROR: thing.G1: read is reads now, and its contract"),
        ("fs/private.c", "void *list", "char all[64]; void *list", "fs/private.c:2: ERROR: poll.G1: list (line 1) not"),
        ("fs/private.c", "void *list", "void *queue", "ERROR: poll.G1: list is queue now"),
        # Structures of files that the patch does not change were not looked at, and nobody said so.
        ("include/linux/size.h", "SIZE 2", "SIZE 99", "NOTE: struct group, which has no contract: 2 bytes on 1 line"),
        ("include/linux/none.h", "NONE 2", "NONE 3", "; not followed into other files: NONE, which nothing reads that"),
    ],
    ids=["joins", "moves", "renamed", "apart", "private", "elsewhere", "unread"],
)
def test_what_a_patch_breaks(
    file: str, old: str, new: str, told: str, tree: Path, contracts: Path, cache: Path, tmp_path: Path
) -> None:
    words = ["layout", "--kdir", str(tree), "--contracts", str(contracts), "--verbose"]
    verdict, text = said(*words, "--patch", toys.patch_of(tree, tmp_path, file, old, new))
    assert verdict is (Verdict.FAIL if "ERROR" in told else Verdict.PASS) and told in text


@pytest.mark.parametrize(
    ("file", "old", "new", "rules"),
    [
        (THING_H, "u32 rest;", "u32 rest, more;", set()),
        ("fs/private.c", "void *list", "char all[64]; void *list", {"poll.G1"}),
        ("fs/private.c", "void *list", "void *queue", {"poll.G1"}),
    ],
)
def test_what_a_series_breaks(
    file: str, old: str, new: str, rules: set[str], tree: Path, contracts: Path, cache: Path, tmp_path: Path
) -> None:
    """premerge judges packs, too."""
    linux = shutil.copytree(tree, tmp_path / "linux", symlinks=True)
    toys.edit(linux, file, old, new)
    git(linux, "commit", "-qam", "a series")
    made = open_kdir(cache, linux)
    (tmp_path / "out").mkdir()
    series = read_series(made, "HEAD~1", None, None)
    part = parts.layout(made, series, ["x86_64"], [contracts], frozenset(), tmp_path / "out")
    assert part.verdict is (Verdict.FAIL if rules else Verdict.PASS)
    assert {each.rule for each in part.findings if each.error} == rules


def test_any_structure_is_shown(tree: Path, cache: Path, golden: Golden) -> None:
    verdict, text = said("layout", "--kdir", str(tree), "--struct", "struct poll")
    golden("struct.txt", text)
    assert verdict is Verdict.PASS
    with pytest.raises(SchedlineError, match="declares no struct pol at the left margin"):
        run("layout", "--kdir", str(tree), "--struct", "pol")


def test_a_first_contract_is_judged_at_once(tree: Path, cache: Path, tmp_path: Path, golden: Golden) -> None:
    out = tmp_path / "first/thing.toml"
    words = ["--kdir", str(tree)]
    judged = ["layout", *words, "--contracts", str(out.parent)]
    for place in (out, out.parent):
        assert run("layout", "contract", "init", "thing", *words, "-o", str(place)) is run(*judged) is Verdict.PASS
        golden("thing.toml", out.read_text())
        out.unlink()
    with pytest.raises(SchedlineError, match="named after its structure") as error:
        run("layout", "contract", "init", "thing", *words, "-o", str(tmp_path / "first/other.toml"))
    assert error.value.next_step == f"-o {out}"
    assert run("layout", "contract", "init", "thing", *words, "-o", str(out)) is Verdict.PASS
    toys.edit(out.parent, "thing.toml", '"first", "second"', '"first", "rest"')
    assert run(*judged) is Verdict.FAIL


def test_a_rule_of_a_pack_is_explained(tree: Path, cache: Path) -> None:
    verdict, text = said("layout", "explain", "futex-hash-bucket.G1", "--kdir", str(tree))
    assert verdict is Verdict.PASS and "source: kernel/futex/futex.h" in text and "change:" not in text
    assert "on x86_64+packs, lines of 64" in text


def test_a_structure_that_two_files_declare(tree: Path, cache: Path) -> None:
    write_files(tree, {"lib/other.c": FILES["fs/private.c"]})
    git(tree, "add", "-A")
    try:
        with pytest.raises(SchedlineError, match=r"2 files declare struct poll: fs/private.c, lib/other.c\n.*--file"):
            run("layout", "--kdir", str(tree), "--struct", "poll")
    finally:
        git(tree, "rm", "-qf", "lib/other.c")


def test_units() -> None:
    asked = Rules((), (), asked={"a": frozenset({"64bit"}), "b": frozenset({"CONFIG_NET"})})
    units = units_of({"b": "include/net/b.h", "a": "include/linux/a.h", "p": "fs/p.c"}, asked)
    assert [(unit.stem, unit.files, unit.tags) for unit in units] == [
        ("kernel/schedline_fs_p_c", ("fs/p.c",), ("p",)),
        ("kernel/schedline_headers", ("include/linux/a.h", "include/net/b.h"), ("a", "b")),
    ]
    # Each has its own conditions: a new one compiles no other unit again.
    assert [unit.conditions for unit in units] == [(), ("64bit", "CONFIG_NET")]
    assert '#include "/src/fs/p.c"' in units[0].text(Path("/src"))
    assert "#include <net/b.h>" in units[1].text(Path("/src"))
    assert "\n#include <uapi/linux/c.h>\nstruct " in Unit(("include/uapi/linux/c.h",), ()).text(Path())


def test_structures_behind_one_that_is_missing_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("struct a { int x; } a; struct b { int y; } b;\n")
    assert toys.gcc(tmp_path / "a.c", tmp_path / "a.o", "-g").returncode == 0
    assert set(read_members(tmp_path / "a.o", ["none", "a", "neither", "b", "last"])) == {"a", "b"}
    started = time.monotonic()
    with pytest.raises(SchedlineError, match="no debug information for struct c"):
        read_members(tmp_path / "a.o", ["c", "d"])
    assert time.monotonic() - started < 60


OFFSETS = """\
\tmkdir -p $(O)/include/generated
\tprintf '#include <linux/inside.h>\\nchar size[sizeof(struct inside)];\\n' > $(O)/size.c
\t$(compile) -S -o - $(O)/size.c | sed -n 's/.*size, *\\([0-9]*\\)$$/#define INSIDE \\1/p' | tail -1 \\
\t\t> $(O)/include/generated/toy-offsets.h
"""


def test_a_size_that_make_generates_is_that_of_the_patch(tmp_path: Path, cache: Path) -> None:
    """A unit that was compiled again without make had the file of the commit before."""
    text = (Path(__file__).parent / "toy-linux/Makefile").read_text()
    made = text.replace("FORCE\n", f"FORCE\n{OFFSETS}", 1).replace(
        "/include $(flags)", "/include -I$(O)/include $(flags)"
    )
    source = "#include <linux/inside.h>\n#include <generated/toy-offsets.h>\n"
    files = {
        "Makefile": made,
        "include/linux/inside.h": "#pragma once\nstruct inside { int a; };\n",
        "fs/private.c": f"{source}struct poll {{ int lock; char room[INSIDE]; void *list; }};\nstruct poll one;\n",
    }
    tree = toys.toy_tree(tmp_path / "toy", files)
    write_files(tmp_path / "mine", {"poll.toml": POLL})
    patch = toys.patch_of(tree, tmp_path, "include/linux/inside.h", "int a;", "int a, b[50];")
    words = ["--kdir", str(tree), "--contracts", str(tmp_path / "mine"), "--patch", patch]
    verdict, told = said("layout", *words)
    assert verdict is Verdict.FAIL, told
    assert "poll.G1: list (line 3) not on line 0" in told


def test_an_error_by_option_of_the_kernel_is_an_error(tmp_path: Path, cache: Path) -> None:
    """-w, with which types are compiled, would hide -Werror=implicit-function-declaration."""
    text = (Path(__file__).parent / "toy-linux/Makefile").read_text()
    strict = text.replace("-std=gnu11", "-std=gnu11 -Werror=implicit-function-declaration")
    source = "struct poll { int lock; void *list; };\nstruct poll one;\n"
    tree = toys.toy_tree(tmp_path / "toy", {"Makefile": strict, "fs/private.c": source})
    write_files(tmp_path / "mine", {"poll.toml": POLL})
    worse = "#pragma pack(1)\nstruct poll one; int f(void) { return undeclared(); }"
    patch = toys.patch_of(tree, tmp_path, "fs/private.c", "struct poll one;", worse)
    with pytest.raises(SchedlineError, match="implicit declaration of function"):
        run("layout", "--kdir", str(tree), "--contracts", str(tmp_path / "mine"), "--patch", patch)
