# SPDX-License-Identifier: GPL-2.0
"""A patch is judged as the tree's owner builds it: with the commands that kbuild left, and nothing is written there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import toys
from layout_command import heard, run, said

from conftest import git, snapshot, write_files
from schedlib.errors import SchedlineError
from schedlib.layout import own_build
from schedlib.layout.layout_options import LayoutOptions
from schedlib.layout.own_build import chosen_build
from schedlib.layout.unit_build import UnitBuild
from schedlib.options import TreeOptions
from schedlib.verdict import Verdict

pytestmark = pytest.mark.tools

LINUX = Path(__file__).parent / "small-linux"
"""The sources of a toy kernel. toy.c has what a structure may look like."""

INNER, TOY, SOURCE = (f"drivers/toy/{name}" for name in ("inner.h", "toy.h", "toy.c"))
HEADER, KCONFIG = (LINUX / TOY).read_text(), (LINUX / "drivers/toy/Kconfig").read_text()
NEXT = (TOY, "aligned;\n", "aligned;\n\tu64 next;\n")
"""Breaks the contract."""

CONTRACT = """\
# SPDX-License-Identifier: GPL-2.0
struct = "toy"
file = "drivers/toy/toy.h"

[[rule]]
id = "toy.G1"
why = "each CPU writes it"
source = "drivers/toy/toy.c: toy_write()"

[[promise]]
id = "toy.G1"
keep = "closed"
of = ["written"]
"""


CLANG = next(filter(shutil.which, ("clang", *(f"clang-{major}" for major in range(25, 15, -1)))), "clang")


@dataclass(frozen=True)
class Built:
    """A toy kernel that was built."""

    tree: Path
    build: Path
    words: tuple[str, ...]
    contracts: Path

    def patch(self, file: str, old: str, new: str) -> bytes:
        """A patch of one file."""
        text = (self.tree / file).read_text() if (self.tree / file).exists() else ""
        place = self.tree.parent
        (place / "a").write_text(text)
        (place / "b").write_text(text.replace(old, new, 1) if old else new)
        done = subprocess.run(["git", "diff", "--no-index", "a", "b"], cwd=place, capture_output=True, check=False)
        return done.stdout.replace(b"a/a", f"a/{file}".encode()).replace(b"b/b", f"b/{file}".encode())

    def added(self, file: str, text: str) -> bytes:
        """A patch that adds a file."""
        patch = self.patch(file, "", text).replace(b"\nindex ", b"\nnew file mode 100644\nindex ")
        return patch.replace(f"--- a/{file}".encode(), b"--- /dev/null")

    def record(self, unit: str) -> str:
        """What kbuild would leave about another object."""
        return (self.build / "kernel/.fork.o.cmd").read_text().replace("kernel/fork", unit)

    def edit_record(self, unit: str, old: str, new: str) -> None:
        """Let kbuild have left something else about an object, in drivers/toy or in kernel."""
        record_of = self.build / unit
        record_of.write_text(record_of.read_text().replace(old, new))

    def apply(self, patch: bytes) -> None:
        """Let the tree have a patch already."""
        subprocess.run(["git", "apply", "-"], cwd=self.tree, input=patch, check=True)

    def commit(self) -> None:
        """Commit all sources."""
        if not (self.tree / ".git").exists():
            git(self.tree, "init", "-q")
        git(self.tree, "add", "-f", "drivers", "include", "kernel")
        git(self.tree, "commit", "-qm", "sources")

    def mail(self, patch: bytes) -> Path:
        """A file with a patch."""
        mail = self.tree.parent / "my.patch"
        mail.write_bytes(patch)
        return mail

    def asked(self, *what: str) -> tuple[int, str, str]:
        """The exit code and both outputs of what is asked of the tree. An error is in the first of them."""
        words = ("layout", "--kdir", str(self.tree), *self.words, *what, "--contracts", str(self.contracts))
        try:
            verdict, said, errors = heard(*words)
        except SchedlineError as error:
            return 2, str(error), ""
        return verdict.exit_code, said, errors

    def judge(self, patch: bytes) -> tuple[int, str]:
        """The exit code, and what is printed of a patch."""
        return self.asked("--patch", str(self.mail(patch)), "--verbose")[:2]

    def expect(self, code: int, patch: bytes | tuple[str, str, str], *told: str) -> str:
        """Judge a patch, or that of one edit, and find the exit code and these words. Returns what is printed."""
        found, text = self.judge(patch if isinstance(patch, bytes) else self.patch(*patch))
        assert found == code and all(each in text for each in told), text
        return text


IN_PLACE = pytest.mark.parametrize("built", ["in place"], indirect=True)
HERE_AND_OUT = pytest.mark.parametrize("built", ["in place", "O="], indirect=True)


def record(top: str, compiler: str) -> str:
    """What kbuild leaves about drivers/toy/toy.o, for a tree that its command calls `top`."""
    command = (
        f"{compiler} -Wp,-MMD,drivers/toy/.toy.o.d -nostdinc -I{top}include -I{top or './'}drivers/toy "
        f"-include {top}include/linux/kconfig.h -D__KERNEL__ -DMODNAME='\"toy\"' -Werror -Wall -c -o drivers/toy/toy.o"
    )
    names = (TOY, INNER, "include/linux/types.h", "drivers/toy/macro.h", "drivers/above.h")
    read = "".join(f"  {top}{name} \\\n" for name in names)
    return (
        f"savedcmd_drivers/toy/toy.o := {command} {top}drivers/toy/toy.c ; ./tools/objtool/objtool\n\n"
        f"source_drivers/toy/toy.o := {top}drivers/toy/toy.c\n\n"
        f"deps_drivers/toy/toy.o := \\\n    $(wildcard include/config/MORE) \\\n{read}\n"
    )


@pytest.fixture(params=["in place", "O=", "O= inside", "clang", "wrapped"])
def built(request: pytest.FixtureRequest, tmp_path: Path) -> Built:
    """A toy kernel, built in each way."""
    compiler = {"clang": CLANG, "wrapped": "TOY=1 env gcc"}.get(request.param, "gcc")
    toys.needs(compiler.split()[-1])
    tree = tmp_path / "linux"
    shutil.copytree(LINUX, tree)
    build = {"O=": tmp_path / "out", "O= inside": tree / "out"}.get(request.param, tree)
    left = record({"O=": f"{tree}/", "O= inside": "../"}.get(request.param, ""), compiler)
    fork = left.replace("drivers/toy/toy.o", "kernel/fork.o").replace("drivers/toy/toy.c", "kernel/fork.c")
    fork = fork.replace("drivers/toy/macro.h", "arch/toy/include/asm/thread.h")
    config = "CONFIG_SMP=y\n# CONFIG_MORE is not set\n"
    write_files(build, {"drivers/toy/.toy.o.cmd": left, "kernel/.fork.o.cmd": fork, ".config": config})
    write_files(tmp_path / "contracts/toys", {"toy.toml": CONTRACT})
    words = () if build == tree else ("--build", str(build))
    return Built(tree, build, words, tmp_path / "contracts/toys")


NEVER, ZERO = "u64 read;\n#ifdef CONFIG_NEVER\n\tu64 x;\n#endif", "u64 read;\n#if 0\n\tu64 x;\n#endif"
WIDTH = "u64 read;\n\tu64 value : (__builtin_constant_p(1L << 10) ? 11 : bits_of(1L << 10));"
COLD, THREAD = "arch/toy/include/asm/cold.h", "arch/toy/include/asm/thread.h"
SHARED, NEEDS, NEW = "include/linux/shared.h", "include/linux/needs.h", "typedef struct { u64 x; } new_t;\n"
NONE = ", which has no contract: "


@HERE_AND_OUT
@pytest.mark.parametrize(
    ("file", "old", "new", "code", "said"),
    [
        (INNER, "int a;", "int a;\n#define CONFIG_X 1\n", 3, "#define CONFIG_X: structures without a contract "),
        # The unit reads it, and the type is inside of the structure; a comment there changes nothing.
        (INNER, "int a;", "int a; char more[120];", 0, f"inner{NONE}4 bytes.*looked at .*toy"),
        (INNER, "struct", "/* more */\nstruct", 0, "^(?!.*NOTE)"),
        (SHARED, "u64 second;", "u64 second; u64 third;", 0, f"struct shared{NONE}16 bytes on 1 line became 24 bytes"),
        # As sched/types.h has the name of one of users: the other one was compiled, and the change not looked at.
        ("include/uapi/linux/shared.h", "int first;", "long first;", 0, f"struct of_users{NONE}4 bytes"),
        # As pipe_fs_i.h relies on others: it was an error of the compiler.
        (NEEDS, "other other;", "other other, more;", 0, f"struct needs{NONE}4 bytes .* became 8 byte"),
        # No object lies beside a header of an architecture: one is compiled as what reads it.
        (COLD, "int first;", "long first;", 3, f"no object of .* is made from {COLD}"),
        (THREAD, "int first;", "long first;", 0, f"struct thread{NONE}4 bytes"),
        # The structures of programs are never compiled for a kernel: INCONCLUSIVE was no answer.
        ("tools/perf/util/thread.h", "int first;", "long first;", 0, "0 changed lines"),
        ("scripts/mod/modpost.h", "int first;", "long first;", 0, "0 changed lines"),
        # Other configurations are named only where they help.
        (TOY, "u64 read;", ZERO, 3, r"^(?!.*--arch).*not compiled in.*under #if 0\."),
        (TOY, "u64 read;", NEVER, 3, r"^(?!.*--arch).*not compiled in.*needs CONFIG_NEVER=y\."),
        ("drivers/toy/alone.h", "first;", "first; u64 second;", 3, "no object of.*drivers/toy/alone.h"),
        # Of a structure without a contract, in the same file: nothing was compiled.
        ("drivers/toy/macro.h", "MOST 2", "MOST 99", 0, f"struct macro{NONE}2 bytes on 1 line became 99 bytes"),
        # As kernel/workqueue_internal.h, which only kernel/sched/core.o reads.
        ("drivers/above.h", "first;", "first; char second;", 0, f"struct above{NONE}1 bytes"),
        (TOY, "u64 read;", "u65 read;", 2, "^(?!.*/schedline-).*does not compile with the patch.*u65"),
        (TOY, '"inner.h"', '"none.h"', 2, "none.h"),
        (SOURCE, "int other;", "u64 other[2];", 0, f"NOTE: union both{NONE}"),
        (SOURCE, "typedef struct { u64 first;", "typedef struct { u64 first, second;", 0, f"NOTE: typedef toy_t{NONE}"),
        (SOURCE, "{\n\tu64 first;\n};", "{\n\tu64 first;\n\tu64 second;\n};", 0, f"NOTE: struct below{NONE}"),
        (SOURCE, "static struct {\n", "static struct {\n\tint flag;\n", 0, f"NOTE: variable things{NONE}"),
        (SOURCE, "\tint last;", "\tu64 last;", 0, f"NOTE: struct tight{NONE}"),
        (SOURCE, "static struct {", f"{NEW}static struct {{", 0, f"NOTE: typedef new_t{NONE}"),
        # A name in both branches is seen in one.
        (SOURCE, "u64 same", "short same", 3, "CONFIG_MORE=y"),
        (SOURCE, "int same", "short same", 0, "^(?!.*CONFIG_MORE=y)"),
        (SOURCE, "#ifdef CONFIG_MORE", "#ifdef CONFIG_LESS", 3, "line 15 of struct tight, which needs CONFIG_LESS=y"),
        # `-:0: NOTE` was all that was said of a structure of a .c file.
        (SOURCE, "\tint last;\n", "", 0, f"toy.c:19: NOTE: struct tight{NONE}16 bytes"),
        # Nothing was said of the option, and nothing tried, where the #if is around the whole structure.
        (SOURCE, "\tint a;\n", "\tint a, b;\n", 3, "struct whole, which needs CONFIG_MORE=y"),
    ],
)
def test_what_is_said_of_an_edit(built: Built, file: str, old: str, new: str, code: int, said: str) -> None:
    found, text = built.judge(built.patch(file, old, new))
    assert found == code and re.search(said, text, re.S), text


def test_a_width_that_calls_a_function(built: Built) -> None:
    """As in uclamp's bit fields, where it is no constant: it was an error of clang's."""
    built.expect(0, (TOY, "u64 read;", WIDTH), "new on line 0: value")


def test_a_broken_rule_is_an_error(built: Built) -> None:
    before = snapshot(built.tree, built.build)
    words = ("drivers/toy/toy.h:12: ERROR: toy.", f", {built.build})", "next on line 1")
    built.expect(1, NEXT, *words, "at 1 of 1 changed line inside of structures: 1 error")
    assert snapshot(built.tree, built.build) == before


@IN_PLACE
@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("drivers/toy/Kconfig", '"more"\n', '"more"\n\tdefault y\n', "CONFIG_MORE: the patch changes this option, "),
        ("drivers/toy/Kconfig", '"more"', "", "CONFIG_MORE: "),
        ("drivers/toy/Makefile", "toy.o\n", "toy.o\nccflags-y += -DTOY_MOST=9\n", "ccflags-y += -DTOY_MOST=9: "),
        ("drivers/toy/Makefile", "toy.o\n", "toy.o\nccflags-y += $(call cc-option,-fpack-struct=1)\n", "-fpack-str"),
        ("drivers/toy/Kconfig", "\nconfig FAST", "\n\tdefault SLOW\nconfig FAST", 'WARNING: choice, prompt "how": '),
        ("drivers/toy/Kconfig", "if DEEP\n", "if DEEP && MORE\n", "Kconfig:14: WARNING: CONFIG_BELOW: "),
        ("drivers/toy/Kconfig", "endmenu", "endmenu\n\nif MORE\nendif", ""),
        ("drivers/toy/Kconfig", '"more"\n', '"more"\n\thelp\n\t  Try it.\n\nconfig MOST\n\tbool "most"\n', ""),
        ("drivers/toy/Makefile", "toy.o\n", "toy.o\nobj-y += other.o\nccflags-y += -I$(src) -Wno-undef\n", ""),
        ("arch/other/include/asm/cache.h", "6\n", "6\nstatic inline void flush(void) { }\n", ""),
        ("drivers/toy/Kconfig", "\nchoice", "config MOST\n\tdef_bool y\n\tselect MORE\n\nchoice", "CONFIG_MOST: "),
        ("arch/other/include/asm/cache.h", "6\n", "6\ntypedef int toy_t;\n", "what was looked at is not of other"),
        ("arch/other/include/asm/cache.h", "6\n", "6\nenum names {\n\ttoy_most,\n};\n", "is not of other"),
        ("arch/other/include/asm/cache.h", "6", "7", "what was looked at is not of other"),
    ],
)
def test_what_a_build_has_as_it_was_is_told(built: Built, file: str, old: str, new: str, said: str) -> None:
    """Nothing was said of it, with exit code 0. A header is compiled with it all the same."""
    header = built.patch(INNER, "int a;", "int b;")
    code, out = built.judge(header + built.patch(file, old, new))
    assert "inner" in out and ((code, f"{file}:" in out) == ((3, True) if said else (0, False))) and said in out, out


@IN_PLACE
@pytest.mark.parametrize(
    "line", ["rename from ../../../../../..", "+++ b/../../../../../..", "--- a/x/../../../../../.."]
)
def test_a_patch_reaches_no_file_outside_of_the_tree(built: Built, line: str) -> None:
    """A line that git ignores removed the file."""
    victim = built.tree.parent / "victim"
    victim.write_text("mine\n")
    patch = built.patch(INNER, "int a;", "int a; int b;")
    built.expect(0, patch + f"{line}/../../../..{victim}\n".encode(), "new on line 0: b")
    assert victim.read_text() == "mine\n"


@IN_PLACE
def test_a_header_with_a_contract_may_get_another_name(built: Built) -> None:
    """It was said that the tree does not compile."""
    toy, other = built.tree / TOY, "drivers/toy/other.h"
    patch = built.added(other, HEADER.replace("aligned;\n", "aligned;\n\tu64 next;\n"))
    gone = built.patch(TOY, toy.read_text(), "").replace(b"\nindex ", b"\ndeleted file mode 100644\nindex ")
    gone = gone.replace(b"+++ b/drivers/toy/toy.h", b"+++ /dev/null")
    built.expect(1, patch + gone + built.patch(SOURCE, "toy.h", "other.h"), "next on line 1")


@IN_PLACE
def test_a_range_with_three_dots_begins_where_both_were_one(built: Built) -> None:
    """The later commit was compared with the other branch."""
    built.commit()
    for branch, where in (("ours", "HEAD"), ("theirs", "ours^")):
        git(built.tree, "checkout", "-q", "-b", branch, where)
        (built.tree / TOY).write_text(HEADER.replace("aligned;\n", f"aligned;\n\tu64 next_{branch};\n"))
        built.commit()
    code, text, _ = built.asked("--range", "ours...theirs")
    assert code == 1 and "next_theirs on line 1" in text


@IN_PLACE
def test_modes_links_and_copies_are_taken_as_git_takes_them(built: Built) -> None:
    """It was said that such a patch does not apply."""
    link, script, inner = (built.tree / "drivers/toy" / name for name in ("link", "script.sh", "inner.h"))
    link.symlink_to("inner.h")
    (built.tree / "drivers/toy/é").write_text("one\n")
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    built.commit()
    link.unlink()
    link.symlink_to("toy.h")
    script.chmod(0o644)
    inner.write_text(inner.read_text().replace("int a;", "int a; int b;"))
    (built.tree / "drivers/toy/é").write_text("other\n")
    (built.tree / "drivers/toy/copy.txt").write_text(f"{KCONFIG}\n")
    git(built.tree, "add", "-f", "drivers")
    patch = git(built.tree, "diff", "--cached", "-C", "-C", "--binary")
    assert all(word in patch for word in ("copy from", "old mode", "120000", '"b/'))
    git(built.tree, "reset", "-q", "--hard")
    built.expect(0, patch.encode(), "new on line 0: b")


@HERE_AND_OUT
def test_a_line_of_an_enumeration_may_be_a_header_of_its_own(built: Built) -> None:
    """As cgroup_subsys.h is: its enumerators are the size of an array."""
    names, all_of = "drivers/toy/names.h", 'enum names {\n#include "names.h"\n\tALL\n};\n'
    inner = f"#define NAME(name) name##_id,\n{all_of}struct inner {{ int a[ALL]; }};\n"
    write_files(built.tree, {names: "NAME(one)\n", INNER: inner})
    built.edit_record("drivers/toy/.toy.o.cmd", "toy/macro.h", "toy/names.h")
    many = "".join(f"NAME(of_{at})\n" for at in range(40))
    built.expect(0, (names, "(one)", f"(one)\n{many}"), "changed: inner, toy")


@HERE_AND_OUT
def test_a_file_that_the_build_did_not_read_yet_is_seen(built: Built) -> None:
    """The tree went on after the build: what an object was made from is not what it would be made from."""
    (built.tree / "drivers/toy/size.h").write_text("#define SIZE 1\n")
    inner = built.tree / INNER
    inner.write_text('#include "size.h"\nstruct inner { char a[SIZE]; };\n')
    os.utime(inner, ns=(2**62, 2**62))
    built.expect(0, ("drivers/toy/size.h", "1", "200"), "changed: toy")


@IN_PLACE
@pytest.mark.parametrize("other", [TOY, INNER])
@pytest.mark.parametrize("words", [("--staged",), ("--commit", "HEAD"), ("--range", "HEAD^..HEAD")])
def test_what_is_not_committed_hides_nothing(built: Built, words: tuple[str, ...], other: str) -> None:
    """The work tree has it right again."""
    built.commit()
    (built.tree / TOY).write_text(HEADER.replace(*NEXT[1:]))
    if words == ("--staged",):
        git(built.tree, "add", "drivers")
    else:
        built.commit()
    (built.tree / other).write_text(f"#define next next ____cacheline_aligned\n{(built.tree / other).read_text()}")
    code, text, _ = built.asked(*words)
    assert code == 1 and "next on line 1" in text


def test_a_line_that_is_not_configured_is_not_judged(built: Built) -> None:
    """It may be looked at in another configuration, which is said."""
    most = (TOY, "more;\n", "more;\n\tu64 most;\n")
    built.expect(3, most, "not compiled in", "needs CONFIG_MORE=y", "--arch x86_64")
    built.edit_record("drivers/toy/.toy.o.cmd", "-Werror", "-DCONFIG_MORE")
    built.expect(0, most, "at 1 of 1 changed line")


def test_a_header_that_kbuild_generates_is_not_taken_as_it_was(built: Built) -> None:
    """Where make O= had built the tree, a new page flag was seen by nobody."""
    flags = "include/linux/flags.h"
    main_of = 'int main(void)\n{\n\tasm volatile(".ascii \\"->LAST %0\\"" : : "i" (LAST));\n\treturn 0;\n}\n'
    bounds = f"#include <linux/flags.h>\n{main_of}"
    write_files(built.tree, {flags: "enum flags { FIRST, LAST };\n", "kernel/bounds.c": bounds})
    left = built.record("kernel/bounds").replace("kernel/bounds.o", "kernel/bounds.s").replace(INNER, flags)
    write_files(built.build, {"kernel/.bounds.s.cmd": left})
    built.expect(3, (flags, "FIRST,", "FIRST, SECOND,"), "may change include/generated/bounds.h")


def test_a_patch_that_the_tree_has_is_compared_with_the_tree_before(built: Built) -> None:
    patch = built.patch(*NEXT)
    mail = str(built.mail(patch))

    def told(*more: str) -> bool:
        return "the tree has this patch already" in built.asked("--patch", mail, *more)[2]

    assert not told()
    built.apply(patch)
    built.expect(1, patch, "next on line 1")
    assert told() and not told("--quiet")


@IN_PLACE
def test_a_patch_that_the_tree_has_though_it_has_gone_on(built: Built) -> None:
    """Merged once more it changed nothing: the tree was compared with itself, with exit code 0."""
    built.commit()
    patch = built.patch(*NEXT)
    built.apply(patch)
    built.commit()
    built.apply(built.patch(TOY, "struct inner inner;", "struct inner inner; /* mine */"))
    built.expect(1, patch, "next on line 1")


FAR = """\
#include "inner.h"
struct far {
	struct beyond *pointer;
	char room[LENGTH];
	int last;
};
"""
USED = """\
#include <linux/types.h>
#define LENGTH (16 * NR_KINDS)
enum kinds { ONE, NR_KINDS };
typedef u64 word_t;
struct inner { int a; };
"""


def with_used(built: Built, file: str, text: str) -> None:
    """Let a header define what a structure of another file uses, which has a contract if no object is made from it."""
    write_files(built.tree, {INNER: USED, file: text})
    rules = CONTRACT.replace('"toy"', '"far"').replace("toy.G1", "far.G1").replace(TOY, file)
    rules = rules.replace('keep = "closed"\nof = ["written"]', 'keep = "on one line"\nof = ["pointer", "last"]')
    write_files(built.contracts, {"far.toml": rules} if "far" in file else {})


@HERE_AND_OUT
@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("ONE,", "ONE, TWO, THREE, FOUR,", 1),
        ("(16", "(64", 1),
        ("ONE,", "ONE, /* more */", 0),
        ("typedef u64", "typedef int", 0),
        ("struct inner {", "static inline int next(void) { return NR_KINDS + 1; }\nstruct inner {", 0),
    ],
)
@pytest.mark.parametrize("file", ["drivers/toy/far.h", "drivers/toy/far.c"])
def test_a_contract_of_which_no_object_is_built(built: Built, file: str, old: str, new: str, code: int) -> None:
    """What it depends on changes in another header: exit 0, and nothing was said."""
    with_used(built, file, FAR)
    text = built.expect(code, (INNER, old, new))
    assert ("ERROR: far.G1: last (line 1)" in text) is bool(code)
    # What cannot be compiled by another object's command is named.
    (built.tree / file).write_text(f'#include "none.h"\n{FAR}')
    text = built.expect(3 if code else 0, (INNER, old, new))
    assert ("WARNING: not compiled: struct far, " in text) is bool(code)


@HERE_AND_OUT
@pytest.mark.parametrize(("old", "new"), [("ONE,", "ONE, TWO,"), ("(16", "(64"), ("typedef u64", "typedef char")])
@pytest.mark.parametrize("file", [TOY, SOURCE])
def test_a_structure_that_depends_on_another_header(built: Built, file: str, old: str, new: str) -> None:
    """Nothing was said of it."""
    text = (built.tree / file).read_text()
    more = "struct second {\n\tword_t first;\n\tchar all[LENGTH];\n};\n"
    with_used(built, file, text.replace("struct toy {", f"{more}struct toy {{") if file == TOY else text + more)
    assert "struct toy" not in built.expect(0, (INNER, old, new), f"NOTE: struct second{NONE}")


GROUP = "struct { u64 written; } ____cacheline_aligned"
WRITTEN = "\tu64 written ____cacheline_aligned;\n"
FEW, ABOVE = ("u64 read;", "u64 read;\n\tint few : 3;"), ('"inner.h"', '"inner.h"\n#include "../above.h"')
LENGTHS = """\
#include <linux/types.h>
#define LENGTH 3
#define BOTH \\
	3
enum kinds {
	ONE,
	NR_KINDS
};
typedef u64 word_t;
struct user {
	word_t word;
	int all[NR_KINDS + LENGTH + BOTH];
};
"""
PACKED = "#pragma pack(push, 4)\nstruct packed { char a; u64 b; };\n#pragma pack(pop)\n"
TYPEOF = "extern unsigned long ticks;\nstruct timed { __typeof__(ticks) at; };\n"
NINE = "".join(f"struct s{at} {{\n\tchar all[LENGTH];\n}};\n" for at in range(9))


@HERE_AND_OUT
@pytest.mark.parametrize(
    ("files", "edit", "code", "told"),
    [
        # A width that changed was no change.
        ({TOY: HEADER.replace(*FEW)}, (TOY, "few : 3", "few : 5"), 0, ["struct toy: 128 bytes on 2 lines as before"]),
        # The padding of a group was taken for a member of its own: an ERROR.
        ({}, (TOY, WRITTEN, f"\tunion {{\n\t\t{GROUP};\n\t\t{GROUP} group;\n\t}};\n"), 0, ["new on line 1: group"]),
        ({}, (TOY, WRITTEN, f"\tunion {{\n\t\t{GROUP};\n\t\tu64 other[2];\n\t}};\n"), 1, ["other on line 1"]),
        # A link to a directory leads to the tree as it is: `does not compile with the patch` was the answer.
        ({TOY: HEADER.replace(*ABOVE)}, ("drivers/above.h", "struct", "#define A 1\nstruct"), 0, ["at 0 of 0 changed"]),
        # It was said that there is nothing to look at in a .c file of which no structure changes.
        ({SOURCE: LENGTHS}, (SOURCE, "ONE,\n", "ONE,\n\tTWO,\n"), 0, [f"NOTE: struct user{NONE}"]),
        ({SOURCE: LENGTHS}, (SOURCE, "LENGTH 3", "LENGTH 4"), 0, [f"NOTE: struct user{NONE}"]),
        ({SOURCE: LENGTHS}, (SOURCE, "3\nenum", "(3 + 2)\nenum"), 0, [f"NOTE: struct user{NONE}"]),
        ({SOURCE: LENGTHS}, (SOURCE, "u64 word", "char word"), 0, [f"NOTE: struct user{NONE}"]),
        # It was said that the tree does not compile: types alone do not tell, so it is compiled whole.
        ({INNER: f"#include <linux/types.h>\n{PACKED}struct inner {{ int a; }};\n"}, NEXT, 1, ["next on line 1"]),
        ({INNER: f"#include <linux/types.h>\n{TYPEOF}struct inner {{ int a; }};\n"}, NEXT, 1, ["next on line 1"]),
        # Many structures are told in one note.
        (
            {INNER: USED, TOY: HEADER.replace("struct toy {", f"{NINE}struct toy {{")},
            (INNER, "ONE,", "ONE, TWO,"),
            0,
            ["s4", "4 more structures without a contract changed: s"],
        ),
    ],
    ids="bits group no-group link enum define lines typedef pack typeof many".split(),  # noqa: SIM905
)
def test_what_is_found_in_other_sources(
    built: Built, files: dict[str, str], edit: tuple[str, str, str], code: int, told: list[str]
) -> None:
    write_files(built.tree, files)
    assert built.expect(code, edit, *told).count("NOTE") <= 6


@IN_PLACE
@pytest.mark.parametrize(
    ("file", "old", "new", "tag"),
    [
        (INNER, "#if 1", "#if 0", "second"),
        (INNER, "MEMBER(one)\n", "MEMBER(one)\nMEMBER(two)\n", "second"),
        (TOY, "#undef EARLY", "#define EARLY", "second"),
        (TOY, "char held;", "char held, more;", "third"),
        (SOURCE, "#if 1", "#if 0", "last"),
    ],
)
def test_what_a_definition_means_is_decided_elsewhere(built: Built, file: str, old: str, new: str, tag: str) -> None:
    """By a condition, a list for a macro, the order of headers, a macro that opens a structure: nothing was said."""
    which = "#if 1\n#define LENGTH 4\n#else\n#define LENGTH 8\n#endif\n"
    members = '#define MEMBER(name) char name;\n#include "inner.h"\n#undef MEMBER\n'
    second = f"struct second {{\n{members}\tchar all[LENGTH + SIZE];\n}};\n"
    early = "#undef EARLY\n#ifdef EARLY\n#define SIZE 8\n#else\n#define SIZE 1\n#endif\n"
    third = "#define context_lock_struct(name) struct name\ncontext_lock_struct(third) {\n\tchar held;\n};\n"
    last = f"{which.replace('LENGTH', 'OWN')}struct last {{\n\tchar all[OWN];\n}};\n"
    once = f"#define INNER\nstruct inner {{ int a; }};\n{which}"
    files = {
        INNER: f"#ifdef MEMBER\nMEMBER(one)\n#elif !defined(INNER)\n{once}#endif\n",
        TOY: '#include "inner.h"\n' + HEADER.replace("struct toy {", f"{early}{second}{third}struct toy {{"),
        SOURCE: (built.tree / SOURCE).read_text() + last,
    }
    write_files(built.tree, files)
    built.expect(0, (file, old, new), f"NOTE: struct {tag}{NONE}")


@HERE_AND_OUT
@pytest.mark.parametrize(
    ("old", "new", "code", "told"),
    [
        # As lsm_count.h: exit 0, and nothing was said.
        ("MOST 1,", "MOST 1,1,", 3, "count.h:1: WARNING: not compiled: MOST, which nothing reads that is compiled. "),
        ("ONE_MORE,", "ONE_MORE, TWO_MORE,", 3, "count.h:2: WARNING: not compiled: NR_MORE, "),
        ("HOOK(one)", "HOOK(one)\nHOOK(two)", 3, "count.h:4: WARNING: not compiled: HOOK(two), which "),
        # What nobody can have used, and what is no definition.
        ("#define MOST", "#define FRESH 2\n#define MOST", 0, "nothing broken\n"),
        ("HOOK(one)", "HOOK(one)\n#include <linux/types.h>\nint more(void);", 0, "nothing broken\n"),
    ],
)
def test_a_header_that_no_object_reads(built: Built, old: str, new: str, code: int, told: str) -> None:
    count = "include/linux/count.h"
    write_files(built.tree, {count: "#define MOST 1,\nenum more { ONE_MORE, NR_MORE };\nHOOK(one)\n"})
    built.expect(code, (count, old, new), told)


HANDLE = "include/linux/handle.h"


@HERE_AND_OUT
def test_a_header_that_an_unusual_object_reads(built: Built) -> None:
    """Of all objects only those beside it, and a few of the kernel's, were asked: exit 0, and nothing was said."""
    user = "#include <linux/handle.h>\nstruct user {\n\thandle_t first;\n\tint bits : 8 * sizeof(handle_t);\n};\n"
    write_files(built.tree, {HANDLE: "#ifdef MORE\n#endif\ntypedef int handle_t;\n", "lib/user.c": user})
    write_files(built.build, {"lib/.user.o.cmd": built.record("lib/user").replace(THREAD, HANDLE)})
    built.expect(0, (HANDLE, "int", "char"), f"NOTE: struct user{NONE}8 bytes")
    # As with stackdepot.h, a width is too large then.
    depends = "not compiled: struct user, which depends on what the patch changes (lib/user.c"
    built.expect(3, (HANDLE, "int", "long"), depends)
    # What reads it is not even preprocessed.
    error = (HANDLE, "typedef int", "#error\ntypedef long")
    built.expect(3, error, f"not compiled: lib/user.c, which reads {HANDLE}. ")


@HERE_AND_OUT
def test_a_header_that_the_second_object_uses(built: Built) -> None:
    """The first that reads it was asked alone: WORKER_DESC_LEN, which kernel/workqueue_internal.h uses, was nothing."""
    user = "#include <linux/handle.h>\nstruct user {\n\tchar first[LENGTH];\n};\n"
    write_files(built.tree, {HANDLE: "enum { LENGTH = 8 };\n", "kernel/sched/core.c": user, "kernel/fork.c": ""})
    units = ("kernel/fork", "kernel/sched/core")
    records = [built.record(unit).replace(THREAD, HANDLE) for unit in units]
    write_files(built.build, dict(zip(("kernel/.fork.o.cmd", "kernel/sched/.core.o.cmd"), records, strict=True)))
    built.expect(0, (HANDLE, "8", "16"), f"struct user{NONE}8 bytes on 1 line became 16")


@IN_PLACE
def test_a_space_in_the_path_of_a_tree(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each unit was compiled whole, which took 10 s, since the names of its files were not understood."""
    place = built.tree.with_name("my linux")
    built.tree.rename(place)
    monkeypatch.setattr(own_build, "read_unit", None)
    replace(built, tree=place, build=place).expect(1, NEXT, "next on line 1")


@IN_PLACE
def test_a_file_is_compiled_once_for_all_contracts(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    """sched.h was compiled once more for the contracts of packs, and not at the same time without and with a patch."""
    sched = "kernel/sched/sched.h"
    asked = "#define IS_ENABLED(option) 0\ntypedef int raw_spinlock_t, arch_spinlock_t, cpumask_var_t;\n"
    write_files(built.tree, {sched: asked + HEADER.replace("inner.h", "../../drivers/toy/inner.h")})
    policy = built.record("kernel/sched/build_policy").replace(THREAD, sched)
    write_files(built.build, {"kernel/sched/.build_policy.o.cmd": policy})
    write_files(built.contracts, {"toy.toml": CONTRACT.replace(TOY, sched)})
    counted, types_of = built.tree.with_name("counted"), UnitBuild.types_of

    def counting(self: UnitBuild, source: Path, names: Collection[str]) -> object:
        with counted.open("a") as file:
            file.write(f"{self.src}\n")
        return types_of(self, source, names)

    monkeypatch.setattr(UnitBuild, "types_of", counting)
    built.expect(1, (sched, *NEXT[1:]), "next on line 1")
    sources = counted.read_text().splitlines()
    assert len(sources) == len(set(sources)) == 2


def test_host_programs_are_no_build(built: Built) -> None:
    """`make defconfig` leaves scripts/kconfig/conf.o. Such a tree is judged in schedline's own configurations."""
    for kept in (*built.build.glob("drivers/toy/.*.cmd"), *built.build.glob("kernel/.*.cmd")):
        text = kept.read_text().replace("-D__KERNEL__ ", "")
        kept.unlink()
        write_files(built.build, {"scripts/kconfig/.conf.o.cmd": text})
    options = LayoutOptions(TreeOptions(built.tree), build=built.build if built.words else None)
    with pytest.raises(SchedlineError, match="holds no build of") if built.words else nullcontext():
        assert chosen_build(options) is None


FRESH = "drivers/toy/fresh.h"


@HERE_AND_OUT
def test_a_structure_of_a_new_header_is_seen(built: Built) -> None:
    """Units are compiled again, since it may be found in place of another one; no object shows what is in it."""
    hidden = built.added("drivers/toy/linux/types.h", "struct fresh { int a; };\n")
    built.expect(3, hidden, "no object of", "looked at 1 structure (none changed)")
    new = built.added(FRESH, "#include <linux/types.h>\nstruct fresh {\n\tu64 a;\n};\n")
    patch = new + built.patch(TOY, '"inner.h"\n', '"inner.h"\n#include "fresh.h"\n')
    built.expect(0, patch, f"struct fresh{NONE}new, 8 bytes")
    built.apply(patch)
    built.expect(0, (TOY, '#include "fresh.h"\n', ""))


@HERE_AND_OUT
def test_what_cannot_be_judged_is_told(tmp_path: Path, built: Built) -> None:
    for name in ("other", "empty"):
        (tmp_path / name).mkdir()
    patch = built.patch(*NEXT)
    elsewhere = replace(built, words=("--build", str(built.build)), tree=tmp_path / "other")
    elsewhere.expect(2, patch, f"was built from {built.tree}")
    nothing = replace(built, words=("--build", str(tmp_path / "empty")))
    nothing.expect(2, patch, "holds no build of", "make O=")
    wrong = built.patch(TOY, "u64 read;", "u64 reed;").replace(b"-\tu64 read", b"-\tu32 read")
    built.expect(2, wrong, "patch failed: drivers/toy/toy.h")
    (built.build / ".config").write_text("CONFIG_RANDSTRUCT=y\n")
    built.expect(2, patch, "shuffles structures")
    built.commit()
    assert "HEAD in " in (told := built.asked("--commit", "HEAD")[1]) and "has no parent" in told


@HERE_AND_OUT
def test_what_is_staged_is_judged_though_the_tree_has_gone_on(built: Built) -> None:
    """It did not apply, which the hook lets pass."""
    built.commit()
    for name in ("next", "last"):
        (built.tree / TOY).write_text(HEADER.replace("aligned;\n", f"aligned;\n\tu64 {name};\n"))
        if name == "next":
            git(built.tree, "add", TOY)
    code, text, _ = built.asked("--staged")
    assert code == 1 and "next on line 1" in text


@IN_PLACE
def test_a_git_tree_is_only_read(built: Built) -> None:
    """git changed the time of a pack that has the same objects."""
    built.commit()
    git(built.tree, "repack", "-adq")
    for pack in (built.tree / ".git/objects/pack").iterdir():
        os.utime(pack, (1, 1))
    before = snapshot(built.tree)
    built.expect(1, NEXT)
    assert snapshot(built.tree) == before


def test_the_lines_of_a_structure_are_drawn_without_and_with_a_patch(built: Built) -> None:
    picture, mail = built.tree.parent / "toy.svg", built.mail(built.patch(TOY, "u64 read;", "u64 read; u64 fresh[8];"))
    words = ["layout", "--kdir", str(built.tree), *built.words, "--struct", "toy"]
    verdict, text = said(*words)
    assert verdict is Verdict.PASS and f"struct toy on {built.build}: 128 bytes, 2 lines of 64" in text
    verdict, text = said(*words, "--patch", str(mail), "--svg", str(picture))
    assert "without the patch: 128 bytes" in text and "with the patch: 192 bytes, 3 lines" in text
    drawn = picture.read_text()
    before, after = drawn[drawn.index("without the patch") :].split(", with the patch")
    assert "fresh" in after and "fresh" not in before
    with pytest.raises(SchedlineError, match="declares no struct toys"):
        run(*words[:-1], "toys")


def test_a_first_contract_is_of_the_build(built: Built) -> None:
    (built.tree / TOY).write_text(HEADER.replace("written ____", "more[8];\n\tu64 written ____"))
    out = built.tree.parent / "toy.toml"
    words = ["--kdir", str(built.tree), *built.words]
    assert run("layout", "contract", "init", "toy", *words, "-o", str(out)) is Verdict.PASS
    text = out.read_text()
    assert all(each in text for each in (f'file = "{TOY}"', "more", 'keep = "starts a line"', "written"))
    with pytest.raises(SchedlineError, match="declares no struct toys"):
        run("layout", "contract", "init", "toys", *words)


@HERE_AND_OUT
def test_a_structure_that_goes_to_another_file(built: Built) -> None:
    """It was told as a new one where no unit sees it on both sides, and one that is removed as not compiled."""
    moved = "struct moved {\n\tu64 first;\n};\n"
    (built.tree / TOY).write_text(HEADER + moved)
    gone = built.patch(TOY, moved, '#include "fresh.h"\n')
    assert "NOTE" not in built.expect(0, gone + built.added(FRESH, moved), "at 0 of 0 changed lines")
    gone = built.patch(TOY, moved, "")
    built.expect(0, gone, "at 3 of 3 changed lines")
    body = "#include <linux/types.h>\nstruct moved {\n\tu64 first;\n\tu64 more;\n};\n"
    grown = built.patch("drivers/above.h", "struct above", f"{body}struct above")
    became = f"struct moved{NONE}8 bytes on 1 line became 16 bytes"
    built.expect(0, gone + grown, became, "changed: moved)", "at 1 of 1 changed line")


@HERE_AND_OUT
def test_a_structure_of_a_contract_may_go_to_another_file(built: Built) -> None:
    """Its members, and words of comments, were told as gone, and a line under an option as not compiled."""
    (built.tree / TOY).write_text(HEADER.replace("struct toy {", "/* written by each */\nstruct toy {"))
    _, body, _ = re.split(r"(^/.*^};\n)", (built.tree / TOY).read_text(), flags=re.M | re.S)
    gone = built.patch(TOY, body, '#include "fresh.h"\n')
    assert "WARNING" not in built.expect(0, gone + built.added(FRESH, body), "none changed")
    more = built.added(FRESH, body.replace("u64 more;", "u64 more[2];"))
    built.expect(3, gone + more, "line 5 of struct toy, which needs CONFIG_MORE=y")
    less = built.added(FRESH, body.replace("\tu64 written ____cacheline_aligned;\n", ""))
    built.expect(1, gone + less, "written is gone")


@HERE_AND_OUT
@pytest.mark.parametrize(("name", "file", "old"), [("toy", TOY, "u64 read;"), ("twin", SOURCE, "u64 first;")])
def test_a_structure_of_the_same_name_is_another_one(built: Built, name: str, file: str, old: str) -> None:
    """What no compiler saw of it counted as seen, where that of another file was compiled."""
    text = f"#include <linux/types.h>\nstruct {name} {{\n\tu64 first;\n}};\n"
    write_files(built.tree, {"drivers/other/other.c": text, SOURCE: text})
    patch = built.patch(file, old, f"{old}\n\tu64 more_of_it;")
    patch += built.patch("drivers/other/other.c", "u64 first;", "u64 first, second;")
    built.expect(3, patch, "drivers/other/other.c:3: WARNING: not compiled", "at 1 of 3 changed lines")
