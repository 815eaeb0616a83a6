# SPDX-License-Identifier: GPL-2.0
"""A patch is judged as the tree's owner builds it: with the commands that kbuild left, and nothing is written there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import toys

from schedlib import main
from schedlib.errors import SchedlineError
from schedlib.layout.layout_options import LayoutOptions
from schedlib.layout.own_build import chosen_build
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

FILES = {
    "Kbuild": "",
    "Makefile": "VERSION = 7\n",
    "kernel/sched/sched.h": "",
    "lib/Kconfig.debug": "",
    "MAINTAINERS": "",
    "include/linux/types.h": (
        "#pragma once\ntypedef unsigned long long u64;\n#define SMP_CACHE_BYTES 64\n"
        "#define ____cacheline_aligned __attribute__((aligned(64)))\n"
    ),
    **{
        f"include/linux/{name}.h": "#include <linux/types.h>\n" for name in ("cache", "cpumask", "spinlock", "rcupdate")
    },
    "include/linux/irq.h": "",
    "include/linux/kconfig.h": "",
    "include/linux/shared.h": "#include <linux/types.h>\nstruct shared { u64 first; u64 second; };\n",
    "drivers/toy/toy.h": HEADER,
    "drivers/toy/inner.h": "struct inner { int a; };\n",
    "drivers/toy/toy.c": '#include "toy.h"\nstruct toy toy;\n',
    "drivers/toy/Kconfig": KCONFIG,
    "drivers/toy/Makefile": "obj-y += toy.o\n",
    "arch/toy/include/asm/cache.h": "#define L1_CACHE_SHIFT 6\n",
    "drivers/toy/alone.h": "#include <linux/types.h>\nstruct alone { u64 first; };\n",
}

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
    words: tuple[str, ...] = ()
    contracts: Path | None = None
    compiler: list[str] = field(default_factory=lambda: ["gcc"])

    def patch(self, file: str, old: str, new: str) -> bytes:
        """A patch of one file."""
        text = (self.tree / file).read_text() if (self.tree / file).exists() else ""
        place = self.tree.parent
        (place / "a").write_text(text)
        (place / "b").write_text(text.replace(old, new, 1) if old else new)
        done = subprocess.run(["git", "diff", "--no-index", "a", "b"], cwd=place, capture_output=True, check=False)
        return done.stdout.replace(b"a/a", f"a/{file}".encode()).replace(b"b/b", f"b/{file}".encode())

    def reads(self, file: str) -> None:
        """Record that the object was made from one more file."""
        record_of = self.build / "drivers/toy/.toy.o.cmd"
        record_of.write_text(record_of.read_text().replace("inner.h \\\n", f"inner.h \\\n  {file} \\\n"))

    def judge(self, patch: bytes, *more: str) -> tuple[int, str]:
        """The exit code, and what is printed."""
        mail = self.tree.parent / "my.patch"
        mail.write_bytes(patch)
        return self.asked("--patch", str(mail), *more)

    def asked(self, *what: str) -> tuple[int, str]:
        """The same for what git knows."""
        words = ["layout", "--kdir", str(self.tree), *self.words, *what, "--verbose"]
        try:
            code = int(main.main([*words, *(["--contracts", str(self.contracts)] if self.contracts else [])]))
        except SchedlineError as error:
            return 2, str(error)
        return code, self.capsys.readouterr().out


def record(top: str, compiler: str) -> str:
    """What kbuild leaves about drivers/toy/toy.o, for a tree that its command calls `top`."""
    command = (
        f"{compiler} -Wp,-MMD,drivers/toy/.toy.o.d -nostdinc -I{top}include -I{top or './'}drivers/toy "
        f"-include {top}include/linux/kconfig.h -D__KERNEL__ -DMODNAME='\"toy\"' -Werror -Wall -c -o drivers/toy/toy.o"
    )
    read = "".join(
        f"  {top}{name} \\\n" for name in ("drivers/toy/toy.h", "drivers/toy/inner.h", "include/linux/types.h")
    )
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
    compiler = {"clang": CLANG, "wrapped": "env gcc"}.get(request.param, "gcc")
    toys.needs(compiler.split()[-1])
    tree = tmp_path / "linux"
    for name, text in FILES.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    build = {"O=": tmp_path / "out", "O= inside": tree / "out"}.get(request.param, tree)
    (build / "drivers/toy").mkdir(parents=True, exist_ok=True)
    (build / "kernel").mkdir(exist_ok=True)
    top = {"O=": f"{tree}/", "O= inside": "../"}.get(request.param, "")
    (build / "drivers/toy/.toy.o.cmd").write_text(record(top, compiler))
    text = (
        record(top, compiler)
        .replace("drivers/toy/toy.o", "kernel/fork.o")
        .replace("drivers/toy/toy.c", "kernel/fork.c")
    )
    (build / "kernel/.fork.o.cmd").write_text(text)
    (build / ".config").write_text("CONFIG_SMP=y\n# CONFIG_MORE is not set\n")
    contracts = tmp_path / "contracts/toys"
    contracts.mkdir(parents=True)
    (contracts / "toy.toml").write_text(CONTRACT)
    words = () if build == tree else ("--build", str(build))
    return Built(tree, build, capsys, words, contracts)


def test_a_broken_rule_is_an_error(built: Built) -> None:
    before = snapshot(built.tree, built.build)
    code, said = built.judge(built.patch("drivers/toy/toy.h", "aligned;\n", "aligned;\n\tu64 next;\n"))
    assert code == 1, said
    assert "drivers/toy/toy.h:12: ERROR: toy." in said and f", {built.build})" in said and "next on line 1" in said
    assert "at 1 of 1 changed line inside of structures: 1 error" in said
    assert snapshot(built.tree, built.build) == before


def test_an_option_that_a_patch_defines_is_not_judged(built: Built) -> None:
    code, said = built.judge(built.patch("drivers/toy/inner.h", "int a;", "int a;\n#define CONFIG_TOY_MORE 1\n"))
    assert code == 3 and "#define CONFIG_TOY_MORE: structures without a contract that depend on it" in said, said


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
        ("drivers/toy/Kconfig", "\nchoice", "config MOST\n\tdef_bool y\n\tselect MORE\n\nchoice", "CONFIG_MOST: "),
        ("arch/toy/include/asm/cache.h", "6\n", "6\ntypedef int toy_t;\n", "what was looked at is not of toy"),
        ("arch/toy/include/asm/cache.h", "6\n", "6\nenum names {\n\ttoy_most,\n};\n", "is not of toy"),
        (
            "arch/toy/include/asm/cache.h",
            "6",
            "7",
            "what was looked at is not of toy",
        ),
    ],
)
def test_what_a_build_has_as_it_was_is_told(built: Built, file: str, old: str, new: str, said: str) -> None:
    """Nothing was said of it, with exit code 0. A header is compiled with it all the same."""
    header = built.patch("drivers/toy/inner.h", "int a;", "int b;")
    code, out = built.judge(header + built.patch(file, old, new))
    assert "inner" in out and ((code, f"{file}:" in out) == ((3, True) if said else (0, False))) and said in out, out


@pytest.mark.parametrize("built", ["in place"], indirect=True)
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("drivers/toy/Kconfig", '"more"\n', '"more"\n\thelp\n\t  Try it.\n\nconfig MOST\n\tbool "most"\n'),
        ("drivers/toy/Makefile", "toy.o\n", "toy.o\nobj-y += other.o\nccflags-y += -I$(src) -Wno-undef\n"),
        ("arch/toy/include/asm/cache.h", "6\n", "6\nstatic inline void flush(void) { }\n"),
    ],
)
def test_what_no_type_depends_on_is_not_told(built: Built, file: str, old: str, new: str) -> None:
    header = built.patch("drivers/toy/inner.h", "int a;", "int b;")
    code, out = built.judge(header + built.patch(file, old, new))
    assert code == 0 and f"{file}:" not in out, out


@pytest.mark.parametrize("built", ["in place"], indirect=True)
@pytest.mark.parametrize(
    "line", ["rename from ../../../../../..", "+++ b/../../../../../..", "--- a/x/../../../../../.."]
)
def test_a_patch_reaches_no_file_outside_of_the_tree(built: Built, line: str) -> None:
    """A line that git ignores removed the file."""
    victim = built.tree.parent / "victim"
    victim.write_text("mine\n")
    patch = built.patch("drivers/toy/inner.h", "int a;", "int a; int b;")
    code, said = built.judge(patch + f"{line}/../../../..{victim}\n".encode())
    assert (code, victim.read_text()) == (0, "mine\n") and "new on line 0: b" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
def test_a_macro_is_the_size_of_an_array(built: Built) -> None:
    """Of a structure without a contract, in the same file: nothing was compiled."""
    (built.tree / "drivers/toy/alone.h").write_text("#define MOST 2\nstruct alone { char first[MOST]; };\n")
    built.reads("drivers/toy/alone.h")
    code, said = built.judge(built.patch("drivers/toy/alone.h", "MOST 2", "MOST 99"))
    assert code == 0 and "struct alone, which has no contract: 2 bytes on 1 line became 99 bytes" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
def test_a_header_that_is_only_read_above_is_found(built: Built) -> None:
    """As kernel/workqueue_internal.h, which kernel/sched/core.o reads."""
    (built.tree / "drivers/above.h").write_text("struct above { char first; };\n")
    built.reads("drivers/above.h")
    code, said = built.judge(built.patch("drivers/above.h", "first;", "first; char second;"))
    assert code == 0 and "struct above, which has no contract: 1 bytes" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
def test_a_header_with_a_contract_may_get_another_name(built: Built) -> None:
    """It was said that the tree does not compile."""
    toy, other = built.tree / "drivers/toy/toy.h", "drivers/toy/other.h"
    patch = as_new(built.patch(other, "", HEADER.replace("aligned;\n", "aligned;\n\tu64 next;\n")), other)
    gone = built.patch("drivers/toy/toy.h", toy.read_text(), "").replace(
        b"\nindex ", b"\ndeleted file mode 100644\nindex "
    )
    gone = gone.replace(b"+++ b/drivers/toy/toy.h", b"+++ /dev/null")
    code, said = built.judge(patch + gone + built.patch("drivers/toy/toy.c", "toy.h", "other.h"))
    assert code == 1 and "next on line 1" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
def test_a_range_with_three_dots_begins_where_both_were_one(built: Built) -> None:
    """The later commit was compared with the other branch."""
    git, toy = ["git", "-c", "user.name=a", "-c", "user.email=a@b"], built.tree / "drivers/toy/toy.h"
    before = toy.read_text()
    for words in (["init", "-q"], ["add", "-f", "drivers", "include", "kernel"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], cwd=built.tree, check=True)
    for branch in ("ours", "theirs"):
        subprocess.run(
            [*git, "checkout", "-q", "-b", branch, "HEAD" if branch == "ours" else "ours^"], cwd=built.tree, check=True
        )
        toy.write_text(before.replace("aligned;\n", f"aligned;\n\tu64 next_{branch};\n"))
        subprocess.run([*git, "commit", "-qam", branch], cwd=built.tree, check=True)
    code, said = built.asked("--range", "ours...theirs")
    assert code == 1 and "next_theirs on line 1" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
def test_modes_links_and_copies_are_taken_as_git_takes_them(built: Built) -> None:
    """It was said that such a patch does not apply."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    link, script, inner = (built.tree / "drivers/toy" / name for name in ("link", "script.sh", "inner.h"))
    link.symlink_to("inner.h")
    (built.tree / "drivers/toy/é").write_text("one\n")
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    for words in (["init", "-q"], ["add", "-f", "drivers"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], cwd=built.tree, check=True)
    link.unlink()
    link.symlink_to("toy.h")
    script.chmod(0o644)
    inner.write_text(inner.read_text().replace("int a;", "int a; int b;"))
    (built.tree / "drivers/toy/é").write_text("other\n")
    (built.tree / "drivers/toy/copy.c").write_text((built.tree / "drivers/toy/toy.c").read_text() + "\n")
    subprocess.run([*git, "add", "-f", "drivers"], cwd=built.tree, check=True)
    words = ["diff", "--cached", "-C", "-C", "--binary"]
    patch = subprocess.run([*git, *words], cwd=built.tree, check=True, capture_output=True).stdout
    assert b"copy from" in patch and b"old mode" in patch and b"120000" in patch and b'"b/' in patch
    subprocess.run([*git, "reset", "-q", "--hard"], cwd=built.tree, check=True)
    code, said = built.judge(patch)
    assert code == 0 and "new on line 0: b" in said, said


@pytest.mark.parametrize("built", ["in place", "O="], indirect=True)
def test_a_line_of_an_enumeration_may_be_a_header_of_its_own(built: Built) -> None:
    """As cgroup_subsys.h is: its enumerators are the size of an array."""
    (built.tree / "drivers/toy/names.h").write_text("NAME(one)\n")
    (built.tree / "drivers/toy/inner.h").write_text(
        '#define NAME(name) name##_id,\nenum names {\n#include "names.h"\n\tALL\n};\nstruct inner { int a[ALL]; };\n'
    )
    built.reads("drivers/toy/names.h")
    code, said = built.judge(
        built.patch("drivers/toy/names.h", "(one)", "(one)\n" + "".join(f"NAME(of_{at})\n" for at in range(40)))
    )
    assert code == 0 and "changed: toy" in said, said


@pytest.mark.parametrize("built", ["in place", "O="], indirect=True)
def test_a_file_that_the_build_did_not_read_yet_is_seen(built: Built) -> None:
    """The tree went on after the build: what an object was made from is not what it would be made from."""
    (built.tree / "drivers/toy/size.h").write_text("#define SIZE 1\n")
    inner = built.tree / "drivers/toy/inner.h"
    inner.write_text('#include "size.h"\nstruct inner { char a[SIZE]; };\n')
    os.utime(inner, ns=(2**62, 2**62))
    code, said = built.judge(built.patch("drivers/toy/size.h", "1", "200"))
    assert code == 0 and "changed: toy" in said, said


@pytest.mark.parametrize("built", ["in place"], indirect=True)
@pytest.mark.parametrize("other", ["drivers/toy/toy.h", "drivers/toy/inner.h"])
@pytest.mark.parametrize("words", [("--staged",), ("--commit", "HEAD"), ("--range", "HEAD^..HEAD")])
def test_what_is_not_committed_hides_nothing(built: Built, words: tuple[str, ...], other: str) -> None:
    """The work tree has it right again."""
    toy = built.tree / "drivers/toy/toy.h"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]

    def commit(*more: str) -> None:
        subprocess.run([*git, "add", "-f", "drivers", "include", "kernel"], cwd=built.tree, check=True)
        if more:
            subprocess.run([*git, "commit", "-qm", *more], cwd=built.tree, check=True)

    subprocess.run([*git, "init", "-q"], cwd=built.tree, check=True)
    commit("first")
    toy.write_text(toy.read_text().replace("aligned;\n", "aligned;\n\tu64 next;\n"))
    commit(*() if words == ("--staged",) else ("second",))
    (built.tree / other).write_text(f"#define next next ____cacheline_aligned\n{(built.tree / other).read_text()}")
    code, said = built.asked(*words)
    assert code == 1 and "next on line 1" in said, said


def test_a_header_inside_of_another_reaches_the_structure(built: Built) -> None:
    """The unit reads it, and the type is inside of the structure; a comment there changes nothing."""
    code, said = built.judge(built.patch("drivers/toy/inner.h", "int a;", "int a; char more[120];"))
    assert code == 0 and "inner, which has no contract: 4 bytes" in said and "toy" in said.split("looked at")[1], said
    code, said = built.judge(built.patch("drivers/toy/inner.h", "struct", "/* more */\nstruct"))
    assert (code, "NOTE" in said) == (0, False), said


def test_a_public_header_is_compiled_as_a_usual_object(built: Built) -> None:
    code, said = built.judge(built.patch("include/linux/shared.h", "u64 second;", "u64 second; u64 third;"))
    assert code == 0 and "struct shared, which has no contract: 16 bytes on 1 line became 24 bytes" in said, said


def test_a_public_header_may_have_the_name_of_one_of_users(built: Built) -> None:
    """As sched/types.h does: the other one was compiled, and the change not looked at."""
    (built.tree / "include/uapi/linux").mkdir(parents=True)
    (built.tree / "include/uapi/linux/shared.h").write_text("struct of_users {\n\tint first;\n};\n")
    code, said = built.judge(built.patch("include/uapi/linux/shared.h", "int first;", "long first;"))
    assert code == 0 and "struct of_users, which has no contract: 4 bytes" in said, said


def test_a_header_of_an_architecture_is_compiled_as_an_object_that_reads_it(built: Built) -> None:
    """No object lies beside it."""
    file = "arch/toy/include/asm/thread.h"
    (built.tree / file).write_text("struct thread {\n\tint first;\n};\n")
    patch = built.patch(file, "int first;", "long first;")
    code, said = built.judge(patch)
    assert code == 3 and f"no object of {built.build} is made from {file}" in said, said
    record_of = built.build / "kernel/.fork.o.cmd"
    record_of.write_text(record_of.read_text().replace("drivers/toy/inner.h", file))
    code, said = built.judge(patch)
    assert code == 0 and "struct thread, which has no contract: 4 bytes" in said, said


@pytest.mark.parametrize("file", ["tools/perf/util/thread.h", "scripts/mod/modpost.h"])
def test_a_program_that_runs_beside_the_kernel_is_not_looked_at(built: Built, file: str) -> None:
    """Its structures are never compiled for a kernel: INCONCLUSIVE was no answer."""
    (built.tree / file).parent.mkdir(parents=True)
    (built.tree / file).write_text("struct thread {\n\tint first;\n};\n")
    code, said = built.judge(built.patch(file, "int first;", "long first;"))
    assert code == 0 and "0 changed lines" in said, said


def test_a_line_that_is_not_configured_is_not_judged(built: Built) -> None:
    """It may be looked at in another configuration, which is said."""
    code, said = built.judge(built.patch("drivers/toy/toy.h", "more;\n", "more;\n\tu64 most;\n"))
    assert code == 3 and "not compiled in" in said and "needs CONFIG_MORE=y" in said and "--arch x86_64" in said, said
    (built.build / "drivers/toy/.toy.o.cmd").write_text(
        (built.build / "drivers/toy/.toy.o.cmd").read_text().replace("-Werror", "-DCONFIG_MORE")
    )
    code, said = built.judge(built.patch("drivers/toy/toy.h", "more;\n", "more;\n\tu64 most;\n"))
    assert code == 0 and "at 1 of 1 changed line" in said, said


@pytest.mark.parametrize("guard", ["#if 0", "#ifdef CONFIG_NEVER_HEARD_OF"])
def test_other_configurations_are_named_only_where_they_help(built: Built, guard: str) -> None:
    """`--arch x86_64` was offered for `#if 0`, and for an option that no Kconfig file has."""
    code, said = built.judge(built.patch("drivers/toy/toy.h", "u64 read;", f"u64 read;\n{guard}\n\tu64 x;\n#endif"))
    assert code == 3 and "not compiled in" in said and "--arch" not in said, said
    assert ("under #if 0." if guard == "#if 0" else "needs CONFIG_NEVER_HEARD_OF=y.") in said


def test_a_header_that_no_object_reads_is_not_judged(built: Built) -> None:
    code, said = built.judge(built.patch("drivers/toy/alone.h", "first;", "first; u64 second;"))
    assert code == 3 and "no object of" in said and "drivers/toy/alone.h" in said, said


@pytest.mark.parametrize(
    "more",
    [
        "#pragma pack(push, 4)\nstruct packed { char a; u64 b; };\n#pragma pack(pop)\n",
        "extern unsigned long ticks;\nstruct timed { __typeof__(ticks) at; };\n",
    ],
)
def test_what_types_alone_do_not_tell_is_compiled_whole(built: Built, more: str) -> None:
    """It was said that the tree does not compile."""
    inner = built.tree / "drivers/toy/inner.h"
    inner.write_text(f"#include <linux/types.h>\n{more}{inner.read_text()}")
    code, said = built.judge(built.patch("drivers/toy/toy.h", "aligned;\n", "aligned;\n\tu64 next;\n"))
    assert code == 1 and "next on line 1" in said, said


def test_an_error_of_the_compiler_is_told(built: Built) -> None:
    code, said = built.judge(built.patch("drivers/toy/toy.h", "u64 read;", "u65 read;"))
    assert code == 2 and "does not compile with the patch" in said and "u65" in said, said
    assert "/schedline-" not in said
    code, said = built.judge(built.patch("drivers/toy/toy.h", '"inner.h"', '"none.h"'))
    assert code == 2 and "none.h" in said, said


def test_a_width_may_call_a_function(built: Built) -> None:
    """As that of uclamp's bit fields does, where it is no constant: it was an error of clang's."""
    types = built.tree / "include/linux/types.h"
    types.write_text(f"{types.read_text()}static inline int bits_of(long value)\n{{\n\treturn value > 1;\n}}\n")
    width = "__builtin_constant_p(1L << 10) ? 11 : bits_of(1L << 10)"
    code, said = built.judge(built.patch("drivers/toy/toy.h", "u64 read;", f"u64 read;\n\tu64 value : ({width});"))
    assert code == 0 and "new on line 0: value" in said, said


def test_a_header_that_kbuild_generates_is_not_taken_as_it_was(built: Built) -> None:
    """Where make O= had built the tree, a new page flag was seen by nobody."""
    (built.tree / "include/linux/flags.h").write_text("enum flags { FIRST, LAST };\n")
    main_of = 'int main(void)\n{\n\tasm volatile(".ascii \\"->LAST %0\\"" : : "i" (LAST));\n\treturn 0;\n}\n'
    (built.tree / "kernel/bounds.c").write_text(f"#include <linux/flags.h>\n{main_of}")
    text = (built.build / "kernel/.fork.o.cmd").read_text().replace("kernel/fork.o", "kernel/bounds.s")
    text = text.replace("kernel/fork.c", "kernel/bounds.c").replace("drivers/toy/inner.h", "include/linux/flags.h")
    (built.build / "kernel/.bounds.s.cmd").write_text(text)
    code, said = built.judge(built.patch("include/linux/flags.h", "FIRST,", "FIRST, SECOND,"))
    assert code == 3 and "may change include/generated/bounds.h" in said, said


def test_a_patch_that_the_tree_has_is_compared_with_the_tree_before(built: Built) -> None:
    patch = built.patch("drivers/toy/toy.h", "aligned;\n", "aligned;\n\tu64 next;\n")
    subprocess.run(["git", "apply", "-"], cwd=built.tree, input=patch, check=True)
    code, said = built.judge(patch)
    assert code == 1 and "next on line 1" in said, said


def test_a_new_header_is_seen(built: Built) -> None:
    """Units are compiled again, since it may be found in place of another one; no object shows what is in it."""
    new = built.patch("drivers/toy/linux/types.h", "", "struct fresh { int a; };\n")
    code, said = built.judge(as_new(new, "drivers/toy/linux/types.h"))
    assert code == 3 and "no object of" in said and "looked at 1 structure (none changed)" in said, said


def without_command(built: Built) -> None:
    (built.build / "drivers/toy/.toy.o.cmd").write_text("drivers/toy/toy.h \\\n")
    other = built.build / "kernel/.fork.o.cmd"
    other.write_text(other.read_text().replace("toy/toy.h", "toy/none.h"))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda built: (built.build / ".config").write_text("CONFIG_RANDSTRUCT=y\n"), "shuffles structures"),
        (without_command, "no object"),
    ],
    ids=["shuffled", "no command"],
)
def test_a_build_that_cannot_be_used_is_told(built: Built, spoil: Callable[[Built], object], message: str) -> None:
    spoil(built)
    code, said = built.judge(built.patch("drivers/toy/toy.h", "aligned;\n", "aligned;\n\tu64 next;\n"))
    assert code in (2, 3) and message in said and "ERROR" not in said, said


def test_a_patch_that_does_not_apply_is_told_with_gits_reason(built: Built) -> None:
    code, said = built.judge(
        built.patch("drivers/toy/toy.h", "u64 read;", "u64 reed;").replace(b"-\tu64 read", b"-\tu32 read")
    )
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
    used = built.patch("drivers/toy/toy.h", '"inner.h"\n', '"inner.h"\n#include "new.h"\n')
    code, said = built.judge(new + used)
    assert code == 0 and "struct fresh, which has no contract: new, 8 bytes" in said, said
    subprocess.run(["git", "apply", "-"], cwd=built.tree, input=new + used, check=True)
    code, said = built.judge(built.patch("drivers/toy/toy.h", '#include "new.h"\n', ""))
    assert code == 0, said


def test_a_build_of_another_tree_is_told(tmp_path: Path, built: Built) -> None:
    (tmp_path / "other").mkdir()
    there = replace(built, words=("--build", str(built.build)), tree=tmp_path / "other")
    patch = built.patch("drivers/toy/toy.h", "aligned;\n", "aligned;\n\tu64 next;\n")
    code, said = there.judge(patch)
    assert code == 2 and f"was built from {built.tree}" in said, said


def test_a_commit_without_a_parent_is_told(tmp_path: Path, built: Built) -> None:
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@localhost"]
    for words in (["init", "-q"], ["add", "Kbuild"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], cwd=built.tree, check=True)
    with pytest.raises(SchedlineError, match="has no parent: it adds the whole tree"):
        main.main(["layout", "--kdir", str(built.tree), *built.words, "--commit", "HEAD"])


def test_what_is_staged_is_judged_though_the_tree_has_gone_on(built: Built) -> None:
    """It did not apply, which the hook lets pass."""
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@localhost"]
    header = built.tree / "drivers/toy/toy.h"
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], cwd=built.tree, check=True)
    header.write_text(header.read_text().replace("aligned;\n", "aligned;\n\tu64 next;\n"))
    subprocess.run(["git", "add", "drivers/toy/toy.h"], cwd=built.tree, check=True)
    header.write_text(header.read_text().replace("next;", "last;"))
    contracts = ["--contracts", str(built.contracts)]
    assert main.main(["layout", "--kdir", str(built.tree), *built.words, *contracts, "--staged"]) == 1
    assert "next on line 1" in built.capsys.readouterr().out


@pytest.mark.parametrize("built", ["in place"], indirect=True)
def test_a_git_tree_is_only_read(built: Built) -> None:
    """git changed the time of a pack that has the same objects."""
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@localhost"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"], ["repack", "-adq"]):
        subprocess.run([*git, *words], cwd=built.tree, check=True)
    for pack in (built.tree / ".git/objects/pack").iterdir():
        os.utime(pack, (1, 1))
    before = snapshot(built.tree)
    code, said = built.judge(built.patch("drivers/toy/toy.h", "aligned;\n", "aligned;\n\tu64 next;\n"))
    assert code == 1 and snapshot(built.tree) == before, said


def test_a_build_that_is_none_is_told(tmp_path: Path, built: Built) -> None:
    (tmp_path / "empty").mkdir()
    there = replace(built, words=("--build", str(tmp_path / "empty")))
    code, said = there.judge(built.patch("drivers/toy/toy.h", "aligned;\n", "aligned;\n\tu64 next;\n"))
    assert code == 2 and "holds no build of" in said and "make O=" in said, said


def test_the_lines_of_a_structure_are_drawn_without_and_with_a_patch(built: Built) -> None:
    picture, mail = built.tree.parent / "toy.svg", built.tree.parent / "my.patch"
    mail.write_bytes(built.patch("drivers/toy/toy.h", "u64 read;", "u64 read; u64 fresh[8];"))
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
    header = built.tree / "drivers/toy/toy.h"
    header.write_text(header.read_text().replace("written ____", "more[8];\n\tu64 written ____"))
    out = built.tree.parent / "toy.toml"
    words = ["layout", "contract", "init", "toy", "--kdir", str(built.tree), *built.words, "-o", str(out)]
    assert main.main(words) == 0
    said = out.read_text()
    assert 'file = "drivers/toy/toy.h"' in said and "more" in said
    assert 'keep = "starts a line"' in said and "written" in said
    with pytest.raises(SchedlineError, match="declares no struct toys"):
        main.main([*words[:3], "toys", *words[4:-2]])


FORMS = """\
#include <linux/types.h>
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
"""
"""What a structure may look like."""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("int other;", "u64 other[2];", "union both"),
        ("typedef struct { u64 first;", "typedef struct { u64 first, second;", "typedef toy_t"),
        ("{\n\tu64 first;\n};", "{\n\tu64 first;\n\tu64 second;\n};", "struct below"),
        ("static struct {\n", "static struct {\n\tint flag;\n", "variable things"),
        ("\tint last;", "\tu64 last;", "struct tight"),
        ("static struct {\n", "typedef struct { u64 new; } new_t;\nstatic struct {\n", "typedef new_t"),
    ],
)  # fmt: skip
def test_each_form_of_a_structure_is_looked_at(built: Built, old: str, new: str, said: str) -> None:
    source = built.tree / "drivers/toy/toy.c"
    source.write_text(FORMS)
    code, text = built.judge(built.patch("drivers/toy/toy.c", old, new))
    assert code == 0 and f"NOTE: {said}, which has no contract: " in text, text


@pytest.mark.parametrize(("old", "new", "code"), [("u64 same", "short same", 3), ("int same", "short same", 0)])
def test_a_name_in_both_branches_is_seen_in_one(built: Built, old: str, new: str, code: int) -> None:
    (built.tree / "drivers/toy/toy.c").write_text(FORMS)
    found, text = built.judge(built.patch("drivers/toy/toy.c", old, new))
    assert found == code and ("CONFIG_MORE=y" in text) is (code == 3), text


def test_another_condition_of_the_same_line_is_a_change(built: Built) -> None:
    (built.tree / "drivers/toy/toy.c").write_text(FORMS)
    code, text = built.judge(built.patch("drivers/toy/toy.c", "#ifdef CONFIG_MORE", "#ifdef CONFIG_LESS"))
    assert code == 3 and "line 14 of struct tight, which needs CONFIG_LESS=y" in text, text


def test_a_line_that_goes_is_named(built: Built) -> None:
    """`-:0: NOTE` was all that was said of a structure of a .c file."""
    (built.tree / "drivers/toy/toy.c").write_text(FORMS)
    code, text = built.judge(built.patch("drivers/toy/toy.c", "\tint last;\n", ""))
    assert code == 0 and "drivers/toy/toy.c:18: NOTE: struct tight, which has no contract: 16 bytes" in text, text


def test_the_condition_around_a_structure_is_named(built: Built) -> None:
    """Nothing was said of the option, and nothing tried, where the #if is around the whole structure."""
    (built.tree / "drivers/toy/toy.c").write_text(
        f"{FORMS}#ifdef CONFIG_MORE\nstruct whole {{\n\tint a;\n}};\n#endif\n"
    )
    code, text = built.judge(built.patch("drivers/toy/toy.c", "\tint a;\n", "\tint a, b;\n"))
    assert code == 3 and "struct whole, which needs CONFIG_MORE=y" in text, text


def test_a_structure_that_goes_to_another_file_is_not_new(built: Built) -> None:
    (built.tree / "drivers/toy/toy.h").write_text(f"{HEADER}struct moved {{\n\tu64 first;\n}};\n")
    gone = built.patch("drivers/toy/toy.h", "struct moved {\n\tu64 first;\n};\n", '#include "fresh.h"\n')
    fresh = built.patch("drivers/toy/fresh.h", "", "struct moved {\n\tu64 first;\n};\n")
    code, text = built.judge(gone + as_new(fresh, "drivers/toy/fresh.h"))
    assert code == 0 and "NOTE" not in text and "at 4 of 4 changed lines" in text, text


def test_a_structure_of_a_contract_may_go_to_another_file(built: Built) -> None:
    """Its members, and words of comments, were told as gone."""
    text = (built.tree / "drivers/toy/toy.h").read_text()
    (built.tree / "drivers/toy/toy.h").write_text(text.replace("struct toy {", "/* written by each */\nstruct toy {"))
    _, body, _ = re.split(r"(^/.*^};\n)", (built.tree / "drivers/toy/toy.h").read_text(), flags=re.M | re.S)
    gone = built.patch("drivers/toy/toy.h", body, '#include "fresh.h"\n')
    fresh = built.patch("drivers/toy/fresh.h", "", body)
    code, said = built.judge(gone + as_new(fresh, "drivers/toy/fresh.h"))
    assert code == 3 and "needs CONFIG_MORE=y" in said and "ERROR" not in said, said
    less = built.patch("drivers/toy/fresh.h", "", body.replace("\tu64 written ____cacheline_aligned;\n", ""))
    code, said = built.judge(gone + as_new(less, "drivers/toy/fresh.h"))
    assert code == 1 and "written is gone" in said, said


@pytest.mark.parametrize(("name", "file", "old"), [("toy", "toy.h", "u64 read;"), ("twin", "toy.c", "u64 first;")])
def test_a_structure_of_the_same_name_is_another_one(built: Built, name: str, file: str, old: str) -> None:
    """What no compiler saw of it counted as seen, where that of another file was compiled."""
    (built.tree / "drivers/other").mkdir()
    text = f"#include <linux/types.h>\nstruct {name} {{\n\tu64 first;\n}};\n"
    (built.tree / "drivers/other/other.c").write_text(text)
    (built.tree / "drivers/toy/toy.c").write_text(text)
    other = built.patch("drivers/other/other.c", "u64 first;", "u64 first, second;")
    code, said = built.judge(built.patch(f"drivers/toy/{file}", old, f"{old}\n\tu64 more_of_it;") + other)
    assert code == 3 and "drivers/other/other.c:3: WARNING: not compiled" in said, said
    assert "at 1 of 3 changed lines" in said, said


def test_a_public_header_may_rely_on_others(built: Built) -> None:
    """As pipe_fs_i.h does: it was an error of the compiler."""
    (built.tree / "include/linux/mmu_context.h").write_text("struct other { int a; };\n")
    (built.tree / "include/linux/needs.h").write_text("struct needs { struct other other; };\n")
    code, text = built.judge(built.patch("include/linux/needs.h", "other other;", "other other, more;"))
    assert code == 0 and "struct needs, which has no contract: 4 bytes on 1 line became 8 bytes" in text, text
