# SPDX-License-Identifier: GPL-2.0
"""A build is skipped only if it is up to date, and a build that fails shows the compiler's first error."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import build, git
from schedlib.errors import DoesNotBuild, SchedlineError
from schedlib.kernel.build import Kernel, KernelPlan, first_error, plan_kernel, without_broken
from schedlib.kernel.kconfig import Configuration
from schedlib.kernel.targets import TARGETS, Target
from schedlib.tree.kernel_tree import Tree, open_kdir

pytestmark = pytest.mark.tools

TARGET = Target("uml", "um", "vmlinux", (8,), 60)
CONFIGURATION = Configuration(("x",), {"CONFIG_A": "y"})

# A stand-in for the kernel's build: the image counts how often it was made.
MAKEFILE = """\
allnoconfig:
\tcp $(KCONFIG_ALLCONFIG) $(O)/.config
vmlinux:
\techo made >> $(O)/made
\tcp Kbuild $(O)/vmlinux
\techo $(CROSS_COMPILE) > $(O)/compiler
\t! grep -n error: Kbuild
"""


@pytest.fixture
def tree(kernel: Path, cache: Path) -> Tree:
    """A tree with the stand-in as its build."""
    (kernel / "Makefile").write_text(MAKEFILE)
    git(kernel, "commit", "-q", "-a", "-m", "make")
    return open_kdir(cache, kernel)


def made_of(cache: Path, tree: Tree) -> Kernel:
    return build(cache, tree, tree.base, TARGET, CONFIGURATION)


def made(directory: Path) -> int:
    """How often the image was made."""
    return len((directory / "made").read_text().splitlines())


def test_where_a_build_lies_is_not_in_it(kernel: Path, tmp_path: Path) -> None:
    # As Kbuild does: compile in the build directory, with the full path of the source.
    compiled = "\tcd $(O) && gcc -g $(KCFLAGS) -c -o vmlinux $(CURDIR)/unit.c\n"
    compiled += "\tcd $(O) && gcc -g $(KAFLAGS) -c -o asm.o $(CURDIR)/a.S"
    (kernel / "Makefile").write_text(MAKEFILE.split("vmlinux:\n")[0] + f"vmlinux:\n{compiled}\n")
    (kernel / "unit.c").write_text("int unit(int value) { return value + 1; }\n")
    (kernel / "a.S").write_text(".globl a\na: nop\n")
    git(kernel, "add", "-A")
    git(kernel, "commit", "-q", "-m", "compiles")
    images = []
    for name in ("here", "in/a/longer/place"):
        cache = tmp_path / name
        made_there = made_of(cache, open_kdir(cache, kernel))
        images.append([(made_there.build / image).read_bytes() for image in ("vmlinux", "asm.o")])
    assert images[0] == images[1]


def test_line_that_make_drops_is_asked_for_again(tree: Tree, cache: Path, kernel: Path) -> None:
    first = made_of(cache, tree)
    # As make does when a Kconfig file is newer. The second time, the stand-in leaves .config alone.
    (kernel / "Makefile").write_text(
        MAKEFILE.replace("vmlinux:\n", "vmlinux:\n\ttest -e $(O)/asked || : > $(O)/.config\n\t: > $(O)/asked\n", 1)
    )
    git(kernel, "commit", "-q", "-a", "-m", "Kconfig")
    made_of(cache, open_kdir(cache, kernel))
    assert (first.build / ".config").read_text() == "CONFIG_A=y\n"
    assert made(first.build) == 3


def test_cross_compiler_is_passed_and_named(tree: Tree, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = cache / "other-gcc"
    compiler.write_text("#!/bin/sh\necho other-gcc 1.0\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{cache}:{os.environ['PATH']}")
    target = replace(TARGET, compiler="other-")
    kernel = build(cache, tree, tree.base, target, Configuration(("x",), {}))
    assert (kernel.build / "compiler").read_text() == "other-\n"
    assert kernel.compiler == "other-gcc 1.0"


@pytest.mark.parametrize("damage", ["", "image", "stamp", "truncated", "changed"])
def test_what_was_damaged_or_changed_is_made_again(tree: Tree, cache: Path, damage: str, kernel: Path) -> None:
    first = made_of(cache, tree)
    if damage == "image":
        first.image.unlink()
    elif damage == "stamp":
        (first.build / "stamp.json").write_text('{"commit": ')
    elif damage == "truncated":
        first.image.write_bytes(b"")
    elif damage == "changed":
        (kernel / "Kbuild").write_text("# changed\n")
    again = made_of(cache, open_kdir(cache, kernel))
    assert made(first.build) == (2 if damage else 1) and (damage or again == first)
    assert again.image.read_text() == (kernel / "Kbuild").read_text()


def test_failing_build_shows_the_first_error_and_is_not_trusted(tree: Tree, cache: Path, kernel: Path) -> None:
    (kernel / "Kbuild").write_text("sched.h:7: error: no such field\n")
    broken = open_kdir(cache, kernel)
    for _ in range(2):
        with pytest.raises(SchedlineError, match=r"sched\.h:7: error: no such field"):
            made_of(cache, broken)


def test_a_suite_that_does_not_compile_leaves_the_others(kernel: Path, cache: Path) -> None:
    """A function that the tree calls otherwise, and nothing was judged."""
    plan = plan_kernel(open_kdir(cache, kernel), TARGETS["uml"], in_part=True)
    place = (
        "the kernel does not build:\n    {}kernel/sched/tests/{}.c:7:9: error: implicit declaration of 'f'\n  7 | f();"
    )

    def broken(plan: KernelPlan, name: str) -> KernelPlan:
        return without_broken(plan, DoesNotBuild(place.format("/x/", name), ""))

    less = broken(broken(plan, "sched_cluster_kunit"), "sched_cpupri_private")
    assert [suite.name for suite in less.left_out] == ["sched_cluster", "sched_cpupri", "sched_cpupri_private"]
    (_, cluster), (_, cpupri) = less.lost
    assert cluster == "sched_cluster: kernel/sched/tests/sched_cluster_kunit.c:7:9: error: implicit declaration of 'f'"
    assert cpupri.startswith("sched_cpupri, sched_cpupri_private: ")
    fair = less.tree.read("kernel/sched/fair.c", less.commit) or ""
    assert "sched_balance_kunit.c" in fair and "sched_cluster_kunit.c" not in fair
    assert plan.configuration.values.keys() - less.configuration.values.keys() == {"CONFIG_SCHED_CPUPRI_KUNIT_TEST"}
    # What is no suite's, or was left out, is an error as before.
    for name in ("sched_test_topology", "sched_cluster_kunit"):
        with pytest.raises(DoesNotBuild):
            broken(less, name)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("  CC a.o\nk.c:1:2: error: x\n  1 | y\nk.c:3:1: error: z\n", "k.c:1:2: error: x"),
        ("a.c:1: fatal error: elf.h: No such file or directory\n", "a.c:1: fatal error: elf.h"),
        ("ld: a.o: undefined reference to `f'\nmake: *** [x] Error 1\n", "ld: a.o: undefined reference"),
        ("cc1: out of memory\nmake: *** [x] Error 1\n", "cc1: out of memory"),
        ("  GEN\nawk: no math\n" + 5 * "make[2]: *** [x] Error 1\n", "awk: no math"),
        ("", ""),
    ],
)
def test_first_error(text: str, first: str) -> None:
    assert first_error(text).startswith(first)
