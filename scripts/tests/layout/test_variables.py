# SPDX-License-Identifier: GPL-2.0
"""Contracts of variables, on small kernels that gcc compiles and ld links as it links vmlinux: objects in a row."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from layout_command import run, said

from golden import Golden
from schedlib.cache import cache_dir
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import AccessClass
from schedlib.formats.data_file import read_toml
from schedlib.layout.columns import composed_operand
from schedlib.layout.compile import Column, all_read, arch_table
from schedlib.layout.layout_options import LayoutOperand
from schedlib.layout.variables import (
    VARIABLES,
    VariableContract,
    VariableContracts,
    judge_variables,
    redefined_variables,
)
from schedlib.verdict import Verdict

pytestmark = pytest.mark.tools

FAIR = """\
static struct {
	unsigned long *idle_cpus_mask;
	int has_blocked_load, needs_update;
	unsigned long next_balance, next_blocked;
} nohz __attribute__((aligned(64), used));
"""
"""The end of kernel/sched/fair.c."""

BEFORE = "static int sched_clock_irqtime;\nint irqtime_enabled(void) { return sched_clock_irqtime; }\n"
"""kernel/sched/cputime.c before 505da6689305."""

AFTER = """\
struct static_key { int enabled; void *entries; } sched_clock_irqtime;
extern char __start___jump_table[], __stop___jump_table[];
void *ends[] = { __start___jump_table, __stop___jump_table };
asm(".pushsection __jump_table, \\"aw\\"\\n"
    ".long 0, 0\\n.quad sched_clock_irqtime + 1 - .\\n"
    ".popsection\\n");
"""
"""With it: what <linux/jump_label.h> makes of a key on x86."""


def linked(place: Path, **sources: str) -> Path:
    """A vmlinux of some files, in this order, with what kbuild leaves beside each object."""
    objects: list[Path] = []
    for name, text in sources.items():
        made = place / f"kernel/sched/{name}.o"
        made.parent.mkdir(parents=True, exist_ok=True)
        made.with_suffix(".c").write_text(text)
        words = ["-O2", "-fno-toplevel-reorder", "-fno-pic", "-fno-common", "-mcmodel=large", "-c", "-o"]
        subprocess.run(["gcc", *words, made, made.with_suffix(".c")], check=True)
        made.with_name(f".{name}.o.cmd").write_text(f"source_kernel/sched/{name}.o := kernel/sched/{name}.c\n")
        objects.append(made)
    subprocess.run(["ld", "-e", "0", "-o", place / "vmlinux", *objects], check=True)
    return place / "vmlinux"


def test_false_sharing_of_globals_fails_before_its_fix_and_passes_after_it(tmp_path: Path, golden: Golden) -> None:
    for name, text, wanted in (("before", BEFORE, Verdict.FAIL), ("after", AFTER, Verdict.PASS)):
        kernel = linked(tmp_path / name, fair=FAIR, cputime=text)
        verdict, told = said("layout", "--variables", "--vmlinux", str(kernel))
        told = re.sub(r"from \w+ to \w+", "from HERE to THERE", told.replace(f"{kernel.parent}/", ""))
        # A contract that is added has no row here.
        golden(f"variables-{name}.txt", re.sub(r"^  n/a .*: this kernel does not have it\n", "", told, flags=re.M))
        assert verdict is wanted


def contract(name: str, class_: AccessClass, section: str = "") -> VariableContract:
    return VariableContract(name, f"{name}.V1", "kernel/sched/core.c", class_, "why", "source", section)


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        ("read-mostly", "shared", Verdict.FAIL),
        ("lock", "read-mostly", Verdict.FAIL),
        ("read-mostly", "cold", Verdict.PASS),
        ("read-mostly", "read-mostly", Verdict.PASS),
        ("shared", "lock", Verdict.PASS),
    ],
)
def test_classes(one: str, other: str, verdict: Verdict, tmp_path: Path) -> None:
    kernel = linked(tmp_path, core="int a __attribute__((aligned(64))), b; char far[64];")
    rules = [contract("a", AccessClass(one)), contract("b", AccessClass(other))]
    assert {each.verdict for each in judge_variables(rules, kernel, tmp_path, 64)} == {verdict}


def test_a_variable_that_left_its_section(tmp_path: Path) -> None:
    put = '__attribute__((section(".data..read_mostly")))'
    rule = [contract("a", AccessClass.READ_MOSTLY, ".data..read_mostly")]
    kernel = linked(tmp_path / "in", core=f"{put} int a = 1;")
    assert judge_variables(rule, kernel, kernel.parent, 64)[0].verdict is Verdict.PASS
    gone = linked(tmp_path / "out", core="int a = 1;", cpu=f"{put} int b = 1;")
    (found,) = judge_variables(rule, gone, gone.parent, 64)
    assert found.broken == ("it is in .data, and belongs into .data..read_mostly",)
    # Without objects it cannot be told, and an architecture may have no such section at all.
    assert judge_variables(rule, kernel, tmp_path, 64)[0].verdict is Verdict.INCONCLUSIVE
    plain = linked(tmp_path / "plain", core="int a = 1;")
    assert judge_variables(rule, plain, plain.parent, 64)[0].verdict is Verdict.INCONCLUSIVE


def test_what_is_no_neighbour(tmp_path: Path) -> None:
    core = 'int a __attribute__((aligned(64))); extern int alias __attribute__((alias("a")));\n'
    core += 'char rest[60]; int next; __attribute__((section(".data..percpu"))) int of_a_cpu = 1;'
    kernel = linked(tmp_path, core=core)
    (found,) = judge_variables([contract("a", AccessClass.SHARED)], kernel, tmp_path, 64)
    assert found.place and [each.name for each, _ in found.beside] == ["rest"]
    assert found.place.lines(64) == range(found.place.address // 64, found.place.address // 64 + 1)


def test_a_kernel_without_them(tmp_path: Path) -> None:
    kernel = linked(tmp_path, core="int a = 1;")
    verdict, told = said("layout", "--variables", "--build", str(tmp_path))
    assert verdict is Verdict.INCONCLUSIVE and "n/a nohz.V1, nohz: this kernel does not have it" in told
    subprocess.run(["strip", kernel], check=True)
    (tmp_path / "text").write_text("text")
    for option, path, message in (
        ("--vmlinux", kernel, "has no variables that can be read"),
        ("--vmlinux", tmp_path / "text", "has no variables that can be read"),
        ("--build", tmp_path / "kernel", "has no vmlinux"),
    ):
        with pytest.raises(SchedlineError, match=message):
            run("layout", "--variables", option, str(path))


def test_no_kernel_was_built(cache: Path) -> None:
    with pytest.raises(SchedlineError, match=r"no kernel of 7\.3 was built here"):
        run("layout", "--variables")


@pytest.mark.parametrize(
    ("file", "line", "told"),
    [
        ("kernel/sched/fair.c", "} nohz;", "nohz.V1"),
        ("kernel/sched/core.c", "DEFINE_PER_CPU(struct rq, runqueues);", "runqueues.V1"),
        ("kernel/smp.c", "unsigned int nr_cpu_ids = NR_CPUS;", "nr-cpu-ids.V1"),
        ("kernel/sched/core.c", "} nohz;", ""),
        ("kernel/sched/fair.c", "\tatomic_inc(&nohz.nr_cpus);", ""),
        ("kernel/sched/fair.c", "static void use_nohz(void)", ""),
        ("kernel/sched/fair.c", "/* nohz; */", ""),
    ],
)
def test_a_definition_that_a_patch_changes_is_not_judged(file: str, line: str, told: str) -> None:
    patch = f"--- a/{file}\n+++ b/{file}\n@@ -1 +1 @@\n-old\n+{line}\n".encode()
    found = [(row.rule, row.error, row.note) for row in redefined_variables(patch)]
    assert found == [(told, False, False)] * bool(told)


def test_ids_are_there_once() -> None:
    ids = [each.id for each in read_toml(VARIABLES, VariableContracts).variable]
    assert len(set(ids)) == len(ids)


@pytest.mark.guest
@pytest.mark.long
@pytest.mark.parametrize(
    ("series", "more", "verdict"),
    [
        ("6.12", (), Verdict.FAIL),
        ("7.3", ("CONFIG_JUMP_LABEL=y", "CONFIG_CFS_BANDWIDTH=n"), Verdict.PASS),
    ],
)
def test_the_objects_of_a_kernel_before_the_fix_and_after_it(
    series: str, more: tuple[str, ...], verdict: Verdict, tmp_path: Path
) -> None:
    """In these configurations it lies on the line of nohz. Without jump labels a key is read, and 7.3 fails, too."""
    options = ("CONFIG_NO_HZ_IDLE=y", "CONFIG_IRQ_TIME_ACCOUNTING=y", *more)
    column = Column(arch_table()["x86_64"], "+".join(options))
    tree, composition = composed_operand(LayoutOperand(series, series=series))
    units = ["kernel/sched/fair.o", "kernel/sched/build_policy.o"]

    def kept(made: Path) -> Path:
        return made.rename(tmp_path / made.name)

    objects = all_read(cache_dir(), tree, composition.commit, column, units, kept)
    words = ["--unresolved-symbols=ignore-all", "-e", "0", "-u", "__start___jump_table", "-u", "__stop___jump_table"]
    subprocess.run(["ld", *words, "-o", tmp_path / "vmlinux", *objects], check=True)
    rules = read_toml(VARIABLES, VariableContracts).variable
    judged = {each.contract.name: each for each in judge_variables(rules, tmp_path / "vmlinux", tmp_path, 64)}
    assert judged["sched_clock_irqtime"].verdict is judged["nohz"].verdict is verdict
    assert "sched_clock_irqtime" in [each.name for each, _ in judged["nohz"].beside]
