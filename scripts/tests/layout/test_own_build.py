# SPDX-License-Identifier: GPL-2.0
"""A patch is judged as the tree's owner builds it: with the commands that kbuild left, and nothing is written there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import toys

from conftest import git, write_files
from schedlib import main
from schedlib.errors import SchedlineError
from schedlib.layout import own_build
from schedlib.layout.layout_options import LayoutOptions
from schedlib.layout.own_build import chosen_build
from schedlib.layout.unit_build import UnitBuild
from schedlib.options import TreeOptions

pytestmark = pytest.mark.tools

HEADER = """\
#ifndef TOY_H
#define TOY_H
#include <linux/types.h>
#include "inner.h"
struct toy {
	u64 read;
#ifdef CONFIG_MORE
	u64 more;
#endif
	struct inner inner;
	u64 written ____cacheline_aligned;
};
#endif
"""

KCONFIG = """\
config MORE
\tbool "more"

choice
\tprompt "how"
config FAST
\tbool "fast"
config SLOW
\tbool "slow"
endchoice
if DEEP
menu "further"
\tdepends on MORE
config BELOW
\tbool "below"
endmenu
endif
"""

FORMS = """\
#include <linux/types.h>
#include "toy.h"
union both { u64 one; int other; };
typedef struct { u64 first; } toy_t;
struct below
{
	u64 first;
};
static struct {
	u64 first;
} things[2] ____cacheline_aligned = { };
struct __attribute__((packed)) tight {
	u64 first;
#ifdef CONFIG_MORE
	u64 same;
#else
	int same;
#endif
	int last;
};
#ifdef CONFIG_MORE
struct whole {
	int a;
};
#endif
"""
"""What a structure may look like."""

FILES = {
    "Kbuild": "",
    "Makefile": "VERSION = 7\n",
    "kernel/sched/sched.h": "",
    "lib/Kconfig.debug": "",
    "MAINTAINERS": "",
    "include/linux/types.h": (
        "#pragma once\ntypedef unsigned long long u64;\n#define SMP_CACHE_BYTES 64\n"
        "#define ____cacheline_aligned __attribute__((aligned(64)))\n"
        "static inline int bits_of(long value)\n{\n\treturn value > 1;\n}\n"
    ),
    **{
        f"include/linux/{name}.h": "#include <linux/types.h>\n" for name in ("cache", "cpumask", "spinlock", "rcupdate")
    },
    "include/linux/irq.h": "",
    "include/linux/kconfig.h": "",
    "include/linux/shared.h": "#include <linux/types.h>\nstruct shared { u64 first; u64 second; };\n",
    "drivers/toy/toy.h": HEADER,
    "drivers/toy/inner.h": "struct inner { int a; };\n",
    "drivers/toy/toy.c": FORMS,
    "drivers/toy/macro.h": "#define MOST 2\nstruct macro { char first[MOST]; };\n",
    "drivers/above.h": "struct above { char first; };\n",
    "include/uapi/linux/shared.h": "struct of_users {\n\tint first;\n};\n",
    "include/linux/mmu_context.h": "struct other { int a; };\n",
    "include/linux/needs.h": "struct needs { struct other other; };\n",
    "arch/toy/include/asm/cold.h": "struct cold {\n\tint first;\n};\n",
    "arch/toy/include/asm/thread.h": "struct thread {\n\tint first;\n};\n",
    "tools/perf/util/thread.h": "struct thread {\n\tint first;\n};\n",
    "scripts/mod/modpost.h": "struct thread {\n\tint first;\n};\n",
    "drivers/toy/Kconfig": KCONFIG,
    "drivers/toy/Makefile": "obj-y += toy.o\n",
    "arch/other/include/asm/cache.h": "#define L1_CACHE_SHIFT 6\n",
    "drivers/toy/alone.h": "#include <linux/types.h>\nstruct alone { u64 first; };\n",
}

INNER, TOY, SOURCE = (f"drivers/toy/{name}" for name in ("inner.h", "toy.h", "toy.c"))
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
    capsys: pytest.CaptureFixture[str]
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

    def judge(self, patch: bytes, *more: str) -> tuple[int, str]:
        """The exit code, and what is printed."""
        return self.asked("--patch", str(self.mail(patch)), *more)

    def heard(self, *what: str) -> str:
        """What is said beside the findings."""
        main.main(["layout", "--kdir", str(self.tree), *self.words, *what, "--contracts", str(self.contracts)])
        return self.capsys.readouterr().err

    def asked(self, *what: str) -> tuple[int, str]:
        """The same for what git knows."""
        words = ["layout", "--kdir", str(self.tree), *self.words, *what, "--verbose", "--contracts"]
        try:
            code = int(main.main([*words, str(self.contracts)]))
        except SchedlineError as error:
            return 2, str(error)
        return code, self.capsys.readouterr().out


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


def as_new(patch: bytes, file: str) -> bytes:
    """The patch of an empty file as one that adds it."""
    text = patch.replace(b"\nindex ", b"\nnew file mode 100644\nindex ")
    return text.replace(f"--- a/{file}".encode(), b"--- /dev/null")


def snapshot(*tops: Path) -> dict[str, tuple[int, int]]:
    """The files of directories, with their sizes and times."""
    return {
        str(path): (stat.st_size, stat.st_mtime_ns)
        for top in tops
        for path in sorted(top.rglob("*"))
        for stat in (path.lstat(),)
    }


@pytest.fixture(params=["in place", "O=", "O= inside", "clang", "wrapped"])
def built(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Built:
    """A toy kernel, built in each way."""
    compiler = {"clang": CLANG, "wrapped": "TOY=1 env gcc"}.get(request.param, "gcc")
    toys.needs(compiler.split()[-1])
    tree = tmp_path / "linux"
    write_files(tree, FILES)
    build = {"O=": tmp_path / "out", "O= inside": tree / "out"}.get(request.param, tree)
    left = record({"O=": f"{tree}/", "O= inside": "../"}.get(request.param, ""), compiler)
    fork = left.replace("drivers/toy/toy.o", "kernel/fork.o").replace("drivers/toy/toy.c", "kernel/fork.c")
    fork = fork.replace("drivers/toy/macro.h", "arch/toy/include/asm/thread.h")
    config = "CONFIG_SMP=y\n# CONFIG_MORE is not set\n"
    write_files(build, {"drivers/toy/.toy.o.cmd": left, "kernel/.fork.o.cmd": fork, ".config": config})
    write_files(tmp_path / "contracts/toys", {"toy.toml": CONTRACT})
    words = () if build == tree else ("--build", str(build))
    return Built(tree, build, capsys, words, tmp_path / "contracts/toys")


NEVER, ZERO = "u64 read;\n#ifdef CONFIG_NEVER\n\tu64 x;\n#endif", "u64 read;\n#if 0\n\tu64 x;\n#endif"
WIDTH = "u64 read;\n\tu64 value : (__builtin_constant_p(1L << 10) ? 11 : bits_of(1L << 10));"
THREAD, SHARED = "arch/toy/include/asm/thread.h", "include/linux/shared.h"
NONE = ", which has no contract: "


@pytest.mark.parametrize(
    ("file", "old", "new", "code", "said"),
    [
        (
            INNER,
            "int a;",
            "int a;\n#define CONFIG_X 1\n",
            3,
            "#define CONFIG_X: structures without a contract that dep",
        ),
        # The unit reads it, and the type is inside of the structure; a comment there changes nothing.
        (INNER, "int a;", "int a; char more[120];", 0, f"inner{NONE}4 bytes.*looked at .*toy"),
        (INNER, "struct", "/* more */\nstruct", 0, "^(?!.*NOTE)"),
        (SHARED, "u64 second;", "u64 second; u64 third;", 0, f"struct shared{NONE}16 bytes on 1 line became 24 bytes"),
        # As sched/types.h has the name of one of users: the other one was compiled, and the change not looked at.
        ("include/uapi/linux/shared.h", "int first;", "long first;", 0, f"struct of_users{NONE}4 bytes"),
        # As pipe_fs_i.h relies on others: it was an error of the compiler.
        (
            "include/linux/needs.h",
            "other other;",
            "other other, more;",
            0,
            f"struct needs{NONE}4 bytes .* became 8 byte",
        ),
        # No object lies beside a header of an architecture: one is compiled as what reads it.
        (
            "arch/toy/include/asm/cold.h",
            "int first;",
            "long first;",
            3,
            "no object of .* is made from arch/toy/include/a",
        ),
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
        # As uclamp's bit fields, a width calls a function where it is no constant: it was an error of clang's.
        (TOY, "u64 read;", WIDTH, 0, "new on line 0: value"),
        (SOURCE, "int other;", "u64 other[2];", 0, f"NOTE: union both{NONE}"),
        (SOURCE, "typedef struct { u64 first;", "typedef struct { u64 first, second;", 0, f"NOTE: typedef toy_t{NONE}"),
        (SOURCE, "{\n\tu64 first;\n};", "{\n\tu64 first;\n\tu64 second;\n};", 0, f"NOTE: struct below{NONE}"),
        (SOURCE, "static struct {\n", "static struct {\n\tint flag;\n", 0, f"NOTE: variable things{NONE}"),
        (SOURCE, "\tint last;", "\tu64 last;", 0, f"NOTE: struct tight{NONE}"),
        (
            SOURCE,
            "static struct {",
            "typedef struct { u64 x; } new_t;\nstatic struct {",
            0,
            f"NOTE: typedef new_t{NONE}",
        ),
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


def test_a_broken_rule_is_an_error(built: Built) -> None:
    before = snapshot(built.tree, built.build)
    code, said = built.judge(built.patch(*NEXT))
    assert code == 1, said
    assert "drivers/toy/toy.h:12: ERROR: toy." in said and f", {built.build})" in said and "next on line 1" in said
    assert "at 1 of 1 changed line inside of structures: 1 error" in said
    assert snapshot(built.tree, built.build) == before


@pytest.mark.parametrize("built", ["in place"], indirect=True)
@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("drivers/toy/Kconfig", '"more"\n', '"more"\n\tdefault y\n', "CONFIG_MORE: the patch changes this option, "),
        ("drivers/toy/Kconfig", '"more"', "", "CONFIG_MORE: "),
        ("drivers/toy/Makefile", "toy.o\n", "toy.o\nccflags-y += -DTOY_MOST=9\n", "ccflags-y += -DTOY_MOST=9: "),
        ("drivers/toy/Makefile", "toy.o\n", "toy.o\nccflags-y += $(call cc-option,-fpack-struct=1)\n", "-fpack-str"),
        (
            "drivers/toy/Kconfig",
            "\nconfig FAST",
            "\n\tdefault SLOW\nconfig FAST",
            """Kconfig:4: WARNING: choice, prompt "how": """,
        ),
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


@pytest.mark.parametrize("built", ["in place"], indirect=True)
@pytest.mark.parametrize(
    "line", ["rename from ../../../../../..", "+++ b/../../../../../..", "--- a/x/../../../../../.."]
)
def test_a_patch_reaches_no_file_outside_of_the_tree(built: Built, line: str) -> None:
    """A line that git ignores removed the file."""
    victim = built.tree.parent / "victim"
    victim.write_text("mine\n")
    patch = built.patch(INNER, "int a;", "int a; int b;")
    code, said = built.judge(patch + f"{line}/../../../..{victim}\n".encode())
    assert (code, victim.read_text()) == (0, "mine\n") and "new on line 0: b" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
def test_a_header_with_a_contract_may_get_another_name(built: Built) -> None:
    """It was said that the tree does not compile."""
    toy, other = built.tree / TOY, "drivers/toy/other.h"
    patch = as_new(built.patch(other, "", HEADER.replace("aligned;\n", "aligned;\n\tu64 next;\n")), other)
    gone = built.patch(TOY, toy.read_text(), "").replace(b"\nindex ", b"\ndeleted file mode 100644\nindex ")
    gone = gone.replace(b"+++ b/drivers/toy/toy.h", b"+++ /dev/null")
    code, said = built.judge(patch + gone + built.patch(SOURCE, "toy.h", "other.h"))
    assert code == 1 and "next on line 1" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
def test_a_range_with_three_dots_begins_where_both_were_one(built: Built) -> None:
    """The later commit was compared with the other branch."""
    built.commit()
    for branch, where in (("ours", "HEAD"), ("theirs", "ours^")):
        git(built.tree, "checkout", "-q", "-b", branch, where)
        (built.tree / TOY).write_text(HEADER.replace("aligned;\n", f"aligned;\n\tu64 next_{branch};\n"))
        built.commit()
    code, said = built.asked("--range", "ours...theirs")
    assert code == 1 and "next_theirs on line 1" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
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
    code, said = built.judge(patch.encode())
    assert code == 0 and "new on line 0: b" in said, said


@pytest.mark.parametrize("built", ["in place", "O="], indirect=True)
def test_a_line_of_an_enumeration_may_be_a_header_of_its_own(built: Built) -> None:
    """As cgroup_subsys.h is: its enumerators are the size of an array."""
    (built.tree / "drivers/toy/names.h").write_text("NAME(one)\n")
    (built.tree / INNER).write_text(
        '#define NAME(name) name##_id,\nenum names {\n#include "names.h"\n\tALL\n};\nstruct inner { int a[ALL]; };\n'
    )
    built.edit_record("drivers/toy/.toy.o.cmd", "toy/macro.h", "toy/names.h")
    code, said = built.judge(
        built.patch("drivers/toy/names.h", "(one)", "(one)\n" + "".join(f"NAME(of_{at})\n" for at in range(40)))
    )
    assert code == 0 and "changed: inner, toy" in said, said


@pytest.mark.parametrize("built", ["in place", "O="], indirect=True)
def test_a_file_that_the_build_did_not_read_yet_is_seen(built: Built) -> None:
    """The tree went on after the build: what an object was made from is not what it would be made from."""
    (built.tree / "drivers/toy/size.h").write_text("#define SIZE 1\n")
    inner = built.tree / INNER
    inner.write_text('#include "size.h"\nstruct inner { char a[SIZE]; };\n')
    os.utime(inner, ns=(2**62, 2**62))
    code, said = built.judge(built.patch("drivers/toy/size.h", "1", "200"))
    assert code == 0 and "changed: toy" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
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
    code, said = built.asked(*words)
    assert code == 1 and "next on line 1" in said, said


def test_a_line_that_is_not_configured_is_not_judged(built: Built) -> None:
    """It may be looked at in another configuration, which is said."""
    code, said = built.judge(built.patch(TOY, "more;\n", "more;\n\tu64 most;\n"))
    assert code == 3 and "not compiled in" in said and "needs CONFIG_MORE=y" in said and "--arch x86_64" in said, said
    built.edit_record("drivers/toy/.toy.o.cmd", "-Werror", "-DCONFIG_MORE")
    code, said = built.judge(built.patch(TOY, "more;\n", "more;\n\tu64 most;\n"))
    assert code == 0 and "at 1 of 1 changed line" in said, said


@pytest.mark.parametrize(
    "more",
    [
        "#pragma pack(push, 4)\nstruct packed { char a; u64 b; };\n#pragma pack(pop)\n",
        "extern unsigned long ticks;\nstruct timed { __typeof__(ticks) at; };\n",
    ],
)
def test_what_types_alone_do_not_tell_is_compiled_whole(built: Built, more: str) -> None:
    """It was said that the tree does not compile."""
    inner = built.tree / INNER
    inner.write_text(f"#include <linux/types.h>\n{more}{inner.read_text()}")
    code, said = built.judge(built.patch(*NEXT))
    assert code == 1 and "next on line 1" in said, said


def test_a_header_that_kbuild_generates_is_not_taken_as_it_was(built: Built) -> None:
    """Where make O= had built the tree, a new page flag was seen by nobody."""
    (built.tree / "include/linux/flags.h").write_text("enum flags { FIRST, LAST };\n")
    main_of = 'int main(void)\n{\n\tasm volatile(".ascii \\"->LAST %0\\"" : : "i" (LAST));\n\treturn 0;\n}\n'
    (built.tree / "kernel/bounds.c").write_text(f"#include <linux/flags.h>\n{main_of}")
    text = (built.build / "kernel/.fork.o.cmd").read_text().replace("kernel/fork.o", "kernel/bounds.s")
    text = text.replace("kernel/fork.c", "kernel/bounds.c").replace(INNER, "include/linux/flags.h")
    (built.build / "kernel/.bounds.s.cmd").write_text(text)
    code, said = built.judge(built.patch("include/linux/flags.h", "FIRST,", "FIRST, SECOND,"))
    assert code == 3 and "may change include/generated/bounds.h" in said, said


def test_a_patch_that_the_tree_has_is_compared_with_the_tree_before(built: Built) -> None:
    patch = built.patch(*NEXT)
    already = "the tree has this patch already"
    assert already not in built.heard("--patch", str(built.mail(patch)))
    built.apply(patch)
    code, said = built.judge(patch)
    assert code == 1 and "next on line 1" in said, said
    mail = str(built.mail(patch))
    assert already in built.heard("--patch", mail) and already not in built.heard("--patch", mail, "--quiet")


def test_a_new_header_is_seen(built: Built) -> None:
    """Units are compiled again, since it may be found in place of another one; no object shows what is in it."""
    new = built.patch("drivers/toy/linux/types.h", "", "struct fresh { int a; };\n")
    code, said = built.judge(as_new(new, "drivers/toy/linux/types.h"))
    assert code == 3 and "no object of" in said and "looked at 1 structure (none changed)" in said, said


def test_a_build_that_cannot_be_used_is_told(built: Built) -> None:
    (built.build / ".config").write_text("CONFIG_RANDSTRUCT=y\n")
    code, said = built.judge(built.patch(*NEXT))
    assert code == 2 and "shuffles structures" in said, said


FAR = """\
#include "inner.h"
struct far {
	struct beyond *pointer;
	char room[LENGTH];
	int last;
};
"""
USED = """\
#define LENGTH (16 * NR_KINDS)
enum kinds { ONE, NR_KINDS };
typedef u64 word_t;
struct inner { int a; };
"""


def with_used(built: Built, file: str, text: str) -> None:
    """Let a header define what a structure of another file uses, which has a contract if no object is made from it."""
    write_files(built.tree, {INNER: f"#include <linux/types.h>\n{USED}", file: text})
    rules = CONTRACT.replace('"toy"', '"far"').replace("toy.G1", "far.G1").replace(TOY, file)
    rules = rules.replace('keep = "closed"\nof = ["written"]', 'keep = "on one line"\nof = ["pointer", "last"]')
    write_files(built.contracts, {"far.toml": rules} if "far" in file else {})


@pytest.mark.parametrize("built", ["in place", "O="], indirect=True)
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
    found, said = built.judge(built.patch(INNER, old, new))
    assert found == code and ("ERROR: far.G1: last (line 1)" in said) is bool(code), said
    # What cannot be compiled by another object's command is named.
    (built.tree / file).write_text(f'#include "none.h"\n{FAR}')
    found, said = built.judge(built.patch(INNER, old, new))
    assert found == (3 if code else 0) and ("WARNING: not compiled: struct far, " in said) is bool(code), said


@pytest.mark.parametrize("built", ["in place", "O="], indirect=True)
@pytest.mark.parametrize(("old", "new"), [("ONE,", "ONE, TWO,"), ("(16", "(64"), ("typedef u64", "typedef char")])
@pytest.mark.parametrize("file", [TOY, SOURCE])
def test_a_structure_that_depends_on_another_header(built: Built, file: str, old: str, new: str) -> None:
    """Nothing was said of it."""
    text = (built.tree / file).read_text()
    more = "struct second {\n\tword_t first;\n\tchar all[LENGTH];\n};\n"
    with_used(built, file, text.replace("struct toy {", f"{more}struct toy {{") if file == TOY else text + more)
    code, said = built.judge(built.patch(INNER, old, new))
    assert code == 0 and f"NOTE: struct second{NONE}" in said and "struct toy" not in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
@pytest.mark.parametrize(
    ("old", "new"),
    [("ONE,\n", "ONE,\n\tTWO,\n"), ("LENGTH 3", "LENGTH 4"), ("3\n", "(3 + 2)\n"), ("u64 word", "char word")],
)
def test_a_c_file_of_which_no_structure_changes(built: Built, old: str, new: str) -> None:
    """It was said that there is nothing to look at."""
    text = "#define LENGTH 3\n#define BOTH \\\n\t3\nenum kinds {\n\tONE,\n\tNR_KINDS\n};\ntypedef u64 word_t;\n"
    users = "struct user {\n\tword_t word;\n\tint all[NR_KINDS + LENGTH + BOTH];\n};\n"
    (built.tree / SOURCE).write_text(f"#include <linux/types.h>\n{text}{users}")
    code, said = built.judge(built.patch(SOURCE, old, new))
    assert code == 0 and f"NOTE: struct user{NONE}" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
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
    toy = (built.tree / TOY).read_text().replace("struct toy {", f"{early}{second}{third}struct toy {{")
    last = f"{which.replace('LENGTH', 'OWN')}struct last {{\n\tchar all[OWN];\n}};\n"
    inner = (
        f"#ifdef MEMBER\nMEMBER(one)\n#elif !defined(INNER)\n#define INNER\nstruct inner {{ int a; }};\n{which}#endif\n"
    )
    texts = {INNER: inner, TOY: f'#include "inner.h"\n{toy}'}
    write_files(built.tree, texts | {SOURCE: (built.tree / SOURCE).read_text() + last})
    code, said = built.judge(built.patch(file, old, new))
    assert code == 0 and f"NOTE: struct {tag}{NONE}" in said, said


@pytest.mark.parametrize("built", ["in place", "O="], indirect=True)
@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        # As lsm_count.h: exit 0, and nothing was said.
        ("MOST 1,", "MOST 1,1,", 3, "count.h:1: WARNING: not compiled: MOST, which nothing reads that is compiled. "),
        ("ONE_MORE,", "ONE_MORE, TWO_MORE,", 3, "count.h:2: WARNING: not compiled: NR_MORE, "),
        ("HOOK(one)", "HOOK(one)\nHOOK(two)", 3, r"count.h:4: WARNING: not compiled: HOOK\(two\), which "),
        # What nobody can have used, and what is no definition.
        ("#define MOST", "#define FRESH 2\n#define MOST", 0, "nothing broken$"),
        ("HOOK(one)", "HOOK(one)\n#include <linux/types.h>\nint more(void);", 0, "nothing broken$"),
    ],
)
def test_a_header_that_no_object_reads(built: Built, old: str, new: str, code: int, said: str) -> None:
    text = "#define MOST 1,\nenum more { ONE_MORE, NR_MORE };\nHOOK(one)\n"
    write_files(built.tree, {"include/linux/count.h": text})
    found, out = built.judge(built.patch("include/linux/count.h", old, new))
    assert found == code and re.search(said, out.strip()), out


@pytest.mark.parametrize("built", ["in place", "O="], indirect=True)
def test_a_header_that_an_unusual_object_reads(built: Built) -> None:
    """Of all objects only those beside it, and a few of the kernel's, were asked: exit 0, and nothing was said."""
    text = "#ifdef MORE\n#endif\ntypedef int handle_t;\n"
    user = "#include <linux/handle.h>\nstruct user {\n\thandle_t first;\n\tint bits : 8 * sizeof(handle_t);\n};\n"
    write_files(built.tree, {"include/linux/handle.h": text, "lib/user.c": user})
    left = (built.build / "kernel/.fork.o.cmd").read_text().replace("kernel/fork", "lib/user")
    write_files(built.build, {"lib/.user.o.cmd": left.replace(THREAD, "include/linux/handle.h")})
    code, said = built.judge(built.patch("include/linux/handle.h", "int", "char"))
    assert code == 0 and f"NOTE: struct user{NONE}8 bytes" in said, said
    # As with stackdepot.h, a width is too large then.
    code, said = built.judge(built.patch("include/linux/handle.h", "int", "long"))
    assert code == 3 and "not compiled: struct user, which depends on what the patch changes (lib/user.c" in said, said
    # What reads it is not even preprocessed.
    code, said = built.judge(built.patch("include/linux/handle.h", "typedef int", "#error\ntypedef long"))
    assert code == 3 and "not compiled: lib/user.c, which reads include/linux/handle.h. " in said, said


@pytest.mark.parametrize("built", ["in place", "O="], indirect=True)
def test_a_header_that_the_second_object_uses(built: Built) -> None:
    """The first that reads it was asked alone: WORKER_DESC_LEN, which kernel/workqueue_internal.h uses, was nothing."""
    user = "#include <linux/handle.h>\nstruct user {\n\tchar first[LENGTH];\n};\n"
    files = {"include/linux/handle.h": "enum { LENGTH = 8 };\n", "kernel/sched/core.c": user, "kernel/fork.c": ""}
    write_files(built.tree, files)
    left = (built.build / "kernel/.fork.o.cmd").read_text().replace(THREAD, "include/linux/handle.h")
    core = {"kernel/sched/.core.o.cmd": left.replace("kernel/fork", "kernel/sched/core")}
    write_files(built.build, {"kernel/.fork.o.cmd": left, **core})
    code, said = built.judge(built.patch("include/linux/handle.h", "8", "16"))
    assert code == 0 and "struct user, which has no contract: 8 bytes on 1 line became 16" in said, said


@pytest.mark.parametrize("built", ["in place", "O="], indirect=True)
def test_a_header_above_is_not_read_through_a_link(built: Built) -> None:
    """A link to a directory leads to the tree as it is: `does not compile with the patch` was the answer."""
    (built.tree / TOY).write_text(HEADER.replace('"inner.h"', '"inner.h"\n#include "../above.h"'))
    code, said = built.judge(built.patch("drivers/above.h", "struct", "#define ABOVE 1\nstruct"))
    assert code == 0 and "at 0 of 0 changed lines" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
def test_many_structures_are_told_in_one_note(built: Built) -> None:
    more = "".join(f"struct s{at} {{\n\tchar all[LENGTH];\n}};\n" for at in range(9))
    with_used(built, TOY, (built.tree / TOY).read_text().replace("struct toy {", f"{more}struct toy {{"))
    code, said = built.judge(built.patch(INNER, "ONE,", "ONE, TWO,"))
    assert code == 0 and said.count("NOTE") == 6 and "4 more structures without a contract changed: s" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
def test_a_space_in_the_path_of_a_tree(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each unit was compiled whole, which took 10 s, since the names of its files were not understood."""
    place = built.tree.with_name("my linux")
    built.tree.rename(place)
    monkeypatch.setattr(own_build, "read_unit", None)
    code, said = replace(built, tree=place, build=place).judge(replace(built, tree=place).patch(*NEXT))
    assert code == 1 and "next on line 1" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
def test_a_file_is_compiled_once_for_all_contracts(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    """sched.h was compiled once more for the contracts of packs, and not at the same time without and with a patch."""
    sched = "kernel/sched/sched.h"
    left = (built.build / "kernel/.fork.o.cmd").read_text().replace("kernel/fork", "kernel/sched/build_policy")
    record_of = left.replace(THREAD, sched)
    asked = "#define IS_ENABLED(option) 0\ntypedef int raw_spinlock_t, arch_spinlock_t, cpumask_var_t;\n"
    write_files(built.tree, {sched: asked + HEADER.replace("inner.h", "../../drivers/toy/inner.h")})
    write_files(built.build, {"kernel/sched/.build_policy.o.cmd": record_of})
    write_files(built.contracts, {"toy.toml": CONTRACT.replace(TOY, sched)})
    counted, types_of = built.tree.with_name("counted"), UnitBuild.types_of

    def counting(self: UnitBuild, source: Path, names: Collection[str]) -> object:
        with counted.open("a") as file:
            file.write(f"{self.src}\n")
        return types_of(self, source, names)

    monkeypatch.setattr(UnitBuild, "types_of", counting)
    code, said = built.judge(built.patch(sched, *NEXT[1:]))
    sources = counted.read_text().splitlines()
    assert code == 1 and "next on line 1" in said and len(sources) == len(set(sources)) == 2, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
def test_the_width_of_a_bit_field(built: Built) -> None:
    """A width that changed was no change."""
    (built.tree / TOY).write_text(HEADER.replace("u64 read;", "u64 read;\n\tint few : 3;"))
    code, said = built.judge(built.patch(TOY, "few : 3", "few : 5"))
    assert code == 0 and "toy.h:7: NOTE: struct toy: 128 bytes on 2 lines as before" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
def test_struct_group_is_no_other_member(built: Built) -> None:
    """The padding of a group was taken for a member of its own: an ERROR."""
    one = "\tu64 written ____cacheline_aligned;\n"
    inside = "struct { u64 written; } ____cacheline_aligned"
    code, said = built.judge(built.patch(TOY, one, f"\tunion {{\n\t\t{inside};\n\t\t{inside} group;\n\t}};\n"))
    assert code == 0 and "new on line 1: group" in said, said
    code, said = built.judge(built.patch(TOY, one, f"\tunion {{\n\t\t{inside};\n\t\tu64 other[2];\n\t}};\n"))
    assert code == 1 and "other on line 1" in said, said


def test_a_patch_that_does_not_apply_is_told_with_gits_reason(built: Built) -> None:
    code, said = built.judge(built.patch(TOY, "u64 read;", "u64 reed;").replace(b"-\tu64 read", b"-\tu32 read"))
    assert code == 2 and "patch failed: drivers/toy/toy.h" in said, said


def test_host_programs_are_no_build(built: Built) -> None:
    """`make defconfig` leaves scripts/kconfig/conf.o. Such a tree is judged in schedline's own configurations."""
    for kept in (*built.build.glob("drivers/toy/.*.cmd"), *built.build.glob("kernel/.*.cmd")):
        text = kept.read_text().replace("-D__KERNEL__ ", "")
        kept.unlink()
        (built.build / "scripts/kconfig").mkdir(parents=True, exist_ok=True)
        (built.build / "scripts/kconfig/.conf.o.cmd").write_text(text)
    options = LayoutOptions(TreeOptions(built.tree), build=built.build if built.words else None)
    if built.words:
        with pytest.raises(SchedlineError, match="holds no build of"):
            chosen_build(options)
    else:
        assert chosen_build(options) is None


def test_a_structure_of_a_new_header_is_seen(built: Built) -> None:
    new = built.patch("drivers/toy/new.h", "", "#include <linux/types.h>\nstruct fresh {\n\tu64 a;\n};\n")
    new = as_new(new, "drivers/toy/new.h")
    used = built.patch(TOY, '"inner.h"\n', '"inner.h"\n#include "new.h"\n')
    code, said = built.judge(new + used)
    assert code == 0 and "struct fresh, which has no contract: new, 8 bytes" in said, said
    built.apply(new + used)
    code, said = built.judge(built.patch(TOY, '#include "new.h"\n', ""))
    assert code == 0, said


def test_a_build_of_another_tree_is_told(tmp_path: Path, built: Built) -> None:
    (tmp_path / "other").mkdir()
    there = replace(built, words=("--build", str(built.build)), tree=tmp_path / "other")
    patch = built.patch(*NEXT)
    code, said = there.judge(patch)
    assert code == 2 and f"was built from {built.tree}" in said, said


def test_a_commit_without_a_parent_is_told(tmp_path: Path, built: Built) -> None:
    built.commit()
    with pytest.raises(SchedlineError, match="has no parent: it adds the whole tree"):
        main.main(["layout", "--kdir", str(built.tree), *built.words, "--commit", "HEAD"])


def test_what_is_staged_is_judged_though_the_tree_has_gone_on(built: Built) -> None:
    """It did not apply, which the hook lets pass."""
    built.commit()
    for name in ("next", "last"):
        (built.tree / TOY).write_text(HEADER.replace("aligned;\n", f"aligned;\n\tu64 {name};\n"))
        if name == "next":
            git(built.tree, "add", TOY)
    code, said = built.asked("--staged")
    assert code == 1 and "next on line 1" in said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
def test_a_git_tree_is_only_read(built: Built) -> None:
    """git changed the time of a pack that has the same objects."""
    built.commit()
    git(built.tree, "repack", "-adq")
    for pack in (built.tree / ".git/objects/pack").iterdir():
        os.utime(pack, (1, 1))
    before = snapshot(built.tree)
    code, said = built.judge(built.patch(*NEXT))
    assert code == 1 and snapshot(built.tree) == before, said


def test_a_build_that_is_none_is_told(tmp_path: Path, built: Built) -> None:
    (tmp_path / "empty").mkdir()
    there = replace(built, words=("--build", str(tmp_path / "empty")))
    code, said = there.judge(built.patch(*NEXT))
    assert code == 2 and "holds no build of" in said and "make O=" in said, said


def test_the_lines_of_a_structure_are_drawn_without_and_with_a_patch(built: Built) -> None:
    picture, mail = built.tree.parent / "toy.svg", built.tree.parent / "my.patch"
    mail.write_bytes(built.patch(TOY, "u64 read;", "u64 read; u64 fresh[8];"))
    words = ["layout", "--kdir", str(built.tree), *built.words, "--struct", "toy"]
    assert main.main(words) == 0
    assert f"struct toy on {built.build}: 128 bytes, 2 lines of 64" in built.capsys.readouterr().out
    assert main.main([*words, "--patch", str(mail), "--svg", str(picture)]) == 0
    said = built.capsys.readouterr().out
    assert "without the patch: 128 bytes" in said and "with the patch: 192 bytes, 3 lines" in said
    drawn = picture.read_text()
    before, after = drawn[drawn.index("without the patch") :].split(", with the patch")
    assert "fresh" in after and "fresh" not in before
    with pytest.raises(SchedlineError, match="declares no struct toys"):
        main.main([*words[:-1], "toys"])


def test_a_first_contract_is_of_the_build(built: Built) -> None:
    header = built.tree / TOY
    header.write_text(header.read_text().replace("written ____", "more[8];\n\tu64 written ____"))
    out = built.tree.parent / "toy.toml"
    words = ["layout", "contract", "init", "toy", "--kdir", str(built.tree), *built.words, "-o", str(out)]
    assert main.main(words) == 0
    said = out.read_text()
    assert f'file = "{TOY}"' in said and "more" in said
    assert 'keep = "starts a line"' in said and "written" in said
    with pytest.raises(SchedlineError, match="declares no struct toys"):
        main.main([*words[:3], "toys", *words[4:-2]])


def test_a_structure_that_goes_to_another_file_is_not_new(built: Built) -> None:
    (built.tree / TOY).write_text(f"{HEADER}struct moved {{\n\tu64 first;\n}};\n")
    gone = built.patch(TOY, "struct moved {\n\tu64 first;\n};\n", '#include "fresh.h"\n')
    fresh = built.patch("drivers/toy/fresh.h", "", "struct moved {\n\tu64 first;\n};\n")
    code, text = built.judge(gone + as_new(fresh, "drivers/toy/fresh.h"))
    assert code == 0 and "NOTE" not in text and "at 0 of 0 changed lines" in text, text


def test_a_structure_that_goes_to_another_file_is_compared(built: Built) -> None:
    """It was told as a new one where no unit sees it on both sides, and one that is removed as not compiled."""
    (built.tree / TOY).write_text(f"{HEADER}struct moved {{\n\tu64 first;\n}};\n")
    gone = built.patch(TOY, "struct moved {\n\tu64 first;\n};\n", "")
    code, text = built.judge(gone)
    assert code == 0 and "at 3 of 3 changed lines" in text, text
    body = "#include <linux/types.h>\nstruct moved {\n\tu64 first;\n\tu64 more;\n};\n"
    code, text = built.judge(gone + built.patch("drivers/above.h", "struct above", f"{body}struct above"))
    assert code == 0 and "struct moved, which has no contract: 8 bytes on 1 line became 16 bytes" in text, text
    assert "changed: moved)" in text and "at 1 of 1 changed line" in text, text


def test_a_structure_of_a_contract_may_go_to_another_file(built: Built) -> None:
    """Its members, and words of comments, were told as gone, and a line under an option as not compiled."""
    text = (built.tree / TOY).read_text()
    (built.tree / TOY).write_text(text.replace("struct toy {", "/* written by each */\nstruct toy {"))
    _, body, _ = re.split(r"(^/.*^};\n)", (built.tree / TOY).read_text(), flags=re.M | re.S)
    gone = built.patch(TOY, body, '#include "fresh.h"\n')
    fresh = built.patch("drivers/toy/fresh.h", "", body)
    code, said = built.judge(gone + as_new(fresh, "drivers/toy/fresh.h"))
    assert code == 0 and "WARNING" not in said and "none changed" in said, said
    more = built.patch("drivers/toy/fresh.h", "", body.replace("u64 more;", "u64 more[2];"))
    code, said = built.judge(gone + as_new(more, "drivers/toy/fresh.h"))
    assert code == 3 and "line 5 of struct toy, which needs CONFIG_MORE=y" in said, said
    less = built.patch("drivers/toy/fresh.h", "", body.replace("\tu64 written ____cacheline_aligned;\n", ""))
    code, said = built.judge(gone + as_new(less, "drivers/toy/fresh.h"))
    assert code == 1 and "written is gone" in said, said


@pytest.mark.parametrize(("name", "file", "old"), [("toy", "toy.h", "u64 read;"), ("twin", "toy.c", "u64 first;")])
def test_a_structure_of_the_same_name_is_another_one(built: Built, name: str, file: str, old: str) -> None:
    """What no compiler saw of it counted as seen, where that of another file was compiled."""
    (built.tree / "drivers/other").mkdir()
    text = f"#include <linux/types.h>\nstruct {name} {{\n\tu64 first;\n}};\n"
    (built.tree / "drivers/other/other.c").write_text(text)
    (built.tree / SOURCE).write_text(text)
    other = built.patch("drivers/other/other.c", "u64 first;", "u64 first, second;")
    code, said = built.judge(built.patch(f"drivers/toy/{file}", old, f"{old}\n\tu64 more_of_it;") + other)
    assert code == 3 and "drivers/other/other.c:3: WARNING: not compiled" in said, said
    assert "at 1 of 3 changed lines" in said, said
