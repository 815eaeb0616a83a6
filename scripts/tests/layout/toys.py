# SPDX-License-Identifier: GPL-2.0
"""A toy sched.h that keeps every rule, and layouts made from it: the real tables, compiled in milliseconds."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from dataclasses import replace
from functools import cache as once
from pathlib import Path

import pytest
from msgspec import structs

from conftest import FILES, git, write_files
from schedlib import doctor
from schedlib.contracts.contract_rules import COMPARED, Clause, Rule, Rules, least_members, our_rules
from schedlib.contracts.struct_source import Source, read_source
from schedlib.formats.contract_file import ClauseKind
from schedlib.layout.members import Member, Structure, Type
from schedlib.layout.pack_units import Unit, facts, read_unit
from schedlib.layout.rule_judge import Layout

GCC, ARM64, S390X = "gcc", "aarch64-linux-gnu-gcc", "s390x-linux-gnu-gcc"

USUAL = ("CONFIG_SMP", "CONFIG_64BIT", "CONFIG_NUMA_BALANCING", "HAVE_RT_PUSH_IPI")
"""The default configuration of a toy kernel."""

_KERNEL_H = """\
#pragma once
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long u64;
#define SMP_CACHE_BYTES TOY_LINE
#define ____cacheline_aligned __attribute__((__aligned__(SMP_CACHE_BYTES)))
#define S32_MAX 0x7fffffff
#define bool _Bool
#define true 1
#define false 0
#define BIT(nr) (1UL << (nr))
#define NULL ((void *)0)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define offsetof(type, member) __builtin_offsetof(type, member)
#define sizeof_field(type, member) sizeof(((type *)0)->member)
#define offsetofend(type, member) (offsetof(type, member) + sizeof_field(type, member))
#define static_assert(expr, msg) _Static_assert(expr, msg)
typedef struct { int counter; } atomic_t;
typedef struct { u32 slock; } arch_spinlock_t;
typedef struct {
	arch_spinlock_t raw_lock;
#ifdef CONFIG_DEBUG_SPINLOCK
	u64 more[7];
#endif
} raw_spinlock_t;
typedef struct { unsigned long bits[1]; } cpumask_var_t[1];
#define _PLACEHOLDER_1 0,
#define _SECOND(ignored, value, ...) value
#define _IS3(arg_or_junk) _SECOND(arg_or_junk 1, 0)
#define _IS2(value) _IS3(_PLACEHOLDER_##value)
#define IS_ENABLED(option) _IS2(option)
"""

SCHED_H = """\
#pragma once
#include "cpudeadline.h"
#if defined(CONFIG_SMP) && !defined(TOGETHER)
#define ____cacheline_aligned_in_smp ____cacheline_aligned
#else
#define ____cacheline_aligned_in_smp
#endif
#define CPUPRI_NR_PRIORITIES 101

struct callback_head { void *next; void (*func)(struct callback_head *head); };

#if !defined(CONFIG_SCHED_CPUPRI_SPLIT) && !defined(CONFIG_SCHED_CPUPRI_SBM)
struct cpupri_vec {
	atomic_t count;
	cpumask_var_t mask ____cacheline_aligned_in_smp;
};
#else
struct cpupri_vec {
	atomic_t count;
} ____cacheline_aligned_in_smp;
#endif
#ifdef CONFIG_SCHED_CPUPRI_SBM
struct sbm_leaf {
	unsigned long bits;
} ____cacheline_aligned_in_smp;
#endif
#ifdef CONFIG_SCHED_CPUPRI_SPLIT
struct cpupri_line {
	union { unsigned long word[SMP_CACHE_BYTES / sizeof(long)]; u8 byte[SMP_CACHE_BYTES]; };
} ____cacheline_aligned_in_smp;
struct cpupri_leaf {
	struct cpupri_line line[CPUPRI_NR_PRIORITIES];
	int group;
	u32 nr_words;
	u16 mask_word[SMP_CACHE_BYTES / sizeof(long)];
};
#endif
struct cpupri {
#ifdef CONFIG_SCHED_CPUPRI_ARRAYS
	atomic_t normal_count ____cacheline_aligned_in_smp;
	atomic_t rt_counts[CPUPRI_NR_PRIORITIES - 1] ____cacheline_aligned_in_smp;
	cpumask_var_t masks[CPUPRI_NR_PRIORITIES] ____cacheline_aligned_in_smp;
#else
	struct cpupri_vec pri_to_cpu[CPUPRI_NR_PRIORITIES];
#endif
	int *cpu_to_pri;
#ifdef CONFIG_SCHED_CPUPRI_SPLIT
	void *place, **leaves;
	u32 nr_leaves;
#endif
#ifdef CONFIG_SCHED_CPUPRI_SBM
	void *map[3], *sbm[CPUPRI_NR_PRIORITIES];
#endif
};

#ifdef CONFIG_SMP
struct root_domain {
	atomic_t refcount, rto_count;
	struct callback_head rcu;
#ifdef OLD_RD
	int overloaded ____cacheline_aligned, overutilized;
	cpumask_var_t rto_mask, dlo_mask;
	struct { void *elements; } cpudl;
#endif
	cpumask_var_t span, online;
	atomic_t dlo_count;
	struct { u64 bw[3]; } dl_bw;
#ifndef OLD_RD
	struct { void *elements; } cpudl;
#endif
#ifdef HAVE_RT_PUSH_IPI
	u64 rto_push_work[6];
	raw_spinlock_t rto_lock;
	int rto_loop, rto_cpu;
	atomic_t rto_loop_next;
#ifdef LOOPS_APART
	char between[TOY_LINE];
#endif
	atomic_t rto_loop_start;
#endif
#ifndef OLD_RD
	cpumask_var_t dlo_mask;
#endif
	u64 visit_cookie;
	struct cpupri cpupri;
#ifdef OLD_RD
	void *pd;
#else
	void *pd ____cacheline_aligned;
#ifdef RD_STRANGER
	int rd_stranger;
#endif
	cpumask_var_t rto_mask;
	int overloaded ____cacheline_aligned, overutilized;
#endif
};
#endif

struct rq {
#ifdef OLD_RQ
	raw_spinlock_t __lock;
#endif
	u32 nr_running;
#ifdef CONFIG_NUMA_BALANCING
	u32 nr_numa_running, nr_preferred_running;
#endif
#ifdef CONFIG_SMP
	u32 ttwu_pending;
	unsigned long cpu_capacity;
#endif
#ifdef OLD_RQ
	u64 nr_switches;
#endif
#ifdef NARROW
	u64 narrow[2];
#endif
#ifdef NARROWER
	u64 narrower[3];
#endif
#ifdef WIDE
	u64 wide[4];
#endif
#ifdef CONFIG_SCHED_PROXY_EXEC
	void *donor, *curr;
#else
	union { void *donor, *curr; };
#endif
	void *idle;
#ifdef STRANGER
	u32 stranger;
#endif
#ifndef OLD_RQ
	u64 nr_switches ____cacheline_aligned;
	raw_spinlock_t __lock;
#endif
#ifdef OLD_RQ
	u64 clock, clock_task, clock_pelt, lost_idle_time;
#else
	u64 clock_task ____cacheline_aligned, clock_pelt, clock, lost_idle_time;
#endif
	u32 clock_update_flags;
	u64 clock_pelt_idle, clock_idle, last_seen_need_resched_ns;
	void *rd, *sd, *balance_callback;
	unsigned long misfit_task_load;
	int cpu, active_balance, active_balance_work, cfs_tasks;
	u64 cfs[8], rt[8], dl[8], fair_server[8];
	u32 nr_uninterruptible;
	void *dl_server, *stop, *prev_mm;
	unsigned long next_balance;
	unsigned long calc_load_update;
	long calc_load_active;
	u8 push_busy;
	u64 push_work[4];
	cpumask_var_t scratch_mask;
	atomic_t nr_iowait;
#ifdef CONFIG_NUMA_BALANCING
	u32 numa_migrate_on;
#endif
	u8 nohz_idle_balance, idle_balance;
	u32 nr_pinned;
} ____cacheline_aligned;
"""

_HEADERS = (
    "bits",
    "build_bug",
    "mmu_context",
    "limits",
    "types",
    "kernel",
    "cache",
    "cpumask",
    "spinlock",
    "rcupdate",
    "irq",
)

_MAKEFILE = """\
VERSION = 7
PATCHLEVEL = 3

allnoconfig:
	cp $(KCONFIG_ALLCONFIG) $(O)/.config

known = CONFIG_SMP|CONFIG_64BIT|CONFIG_NUMA_BALANCING|CONFIG_SCHED_PROXY_EXEC
flags = -DTOY_LINE=64 -DHAVE_RT_PUSH_IPI=1 $(shell sed -nE 's/^($(known))=y$$/-D\\1=1/p' $(O)/.config)
compile = gcc -std=gnu11 -nostdinc -I$(CURDIR)/include $(flags) $(KCFLAGS)
kernel/schedline_%.o: FORCE
	$(compile) -MD -MF $(O)/kernel/.schedline_$*.o.d -c -o $(O)/$@ $(O)/$(@:.o=.c)
	echo 'savedcmd_$@ := $(compile) -c -o $@ $(@:.o=.c)' | cat - $(O)/kernel/.schedline_$*.o.d \
		> $(O)/kernel/.schedline_$*.o.cmd
.PHONY: FORCE
"""
"""A Makefile that configures and compiles as the kernel's does, in milliseconds."""


@once
def workshop() -> Path:
    """A directory with the toy kernel, removed when the tests end."""
    top = Path(tempfile.mkdtemp(prefix="schedline-toys-"))
    atexit.register(shutil.rmtree, top, ignore_errors=True)
    (top / "tests").mkdir()
    (top / "include" / "linux").mkdir(parents=True)
    (top / "include" / "toy.h").write_text(_KERNEL_H)
    for header in _HEADERS:
        (top / "include" / "linux" / f"{header}.h").write_text("#include <toy.h>\n")
    (top / "sched.h").write_text(SCHED_H)
    (top / "cpudeadline.h").touch()
    write_files(top / "tests", {"types.c": types_unit(our_rules())})
    return top


def types_unit(rules: Rules) -> str:
    """A unit in a directory beside sched.h that shows what rules ask of a toy kernel."""
    return f'#include <toy.h>\n#include "../sched.h"\n{facts(rules.types(), rules.conditions())}\n'


def read_types(path: Path, rules: Rules, name: str = "toy") -> Layout:
    """The layout in an object of types_unit()."""
    structures, line, holds = read_unit(path, Unit((), rules.types(), rules.conditions()))
    return Layout(name, line, "", holds, frozenset(), structures)


@once
def toy_source() -> Source:
    """What the toy kernel declares."""
    return read_source({"kernel/sched/sched.h": SCHED_H}.get)


def needs(program: str) -> None:
    """Skip a test if a program is missing; called while a file is loaded, skip all of its tests."""
    if shutil.which(program) is None:
        pytest.skip(f"the program {program} is not installed", allow_module_level=True)


def toy_tree(directory: Path, more: dict[str, str] | None = None) -> Path:
    """A git tree with a toy kernel from which `schedline layout` compiles its unit, and `more` files by their paths.

    Skips a test that cannot compile.
    """
    if doctor.missing(["build", "layout", "objtool"]):
        pytest.skip("what compiling a kernel needs is not installed")
    headers = {"include/toy.h": _KERNEL_H} | {f"include/linux/{name}.h": "#include <toy.h>\n" for name in _HEADERS}
    sources = {"kernel/sched/sched.h": SCHED_H, "kernel/sched/cpudeadline.h": "", "Makefile": _MAKEFILE}
    write_files(directory, FILES | headers | sources | (more or {}))
    git(directory, "init", "-q", "-b", "main")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "base")
    return directory


def gcc(source: Path, target: Path, *words: str, compiler: str = GCC) -> subprocess.CompletedProcess[bytes]:
    """Compile a file of the toy kernel. The caller checks whether that worked."""
    needs(compiler)
    include = f"-I{workshop() / 'include'}"
    argv = [compiler, "-std=gnu11", "-nostdinc", include, *words, "-c", "-o", str(target), str(source)]
    return subprocess.run(argv, capture_output=True, check=False)


def defines(*names: str, line: int = 64) -> list[str]:
    """Compiler options for a configuration. `-NAME` removes a default option."""
    taken = {name.removeprefix("-") for name in names if name.startswith("-")}
    wanted = [name for name in (*USUAL, *names) if not name.startswith("-") and name not in taken]
    return [f"-DTOY_LINE={line}", *(f"-D{name}=1" for name in wanted)]


@once
def types_object(*names: str, line: int = 64, compiler: str = GCC) -> Path:
    """types_unit() of the project's rules, compiled against the toy sched.h."""
    target = workshop() / f"{compiler}-{line}-{'-'.join(names)}.o"
    source = workshop() / "tests" / "types.c"
    done = gcc(source, target, "-g", *defines(*names, line=line), compiler=compiler)
    assert done.returncode == 0, done.stderr.decode()
    return target


@once
def toy(*names: str, line: int = 64) -> Layout:
    """The layout of a toy kernel. `names` are configuration options, and the names of its defects."""
    return read_types(types_object(*names, line=line), our_rules(), "+".join(("toy", *names)))


def unaligned(layout: Layout) -> Layout:
    """A layout as BTF shows it: the alignment of types is not recorded."""
    bare = {tag: replace(each, type=structs.replace(each.type, align=None)) for tag, each in layout.structures.items()}
    return replace(layout, structures=bare)


@once
def real_rules() -> Rules:
    """The project's rules."""
    return our_rules()


def structure(tag: str, size: int, *members: tuple[str, int, int], align: int | None = 64) -> Structure:
    """A structure with members (name, offset, size)."""
    return Structure(Type(tag, size, align), tuple(Member(name, "int", at, bytes_) for name, at, bytes_ in members))


def layout(
    *structures: Structure,
    line: int = 64,
    holds: frozenset[str] = frozenset({"64bit"}),
    unknown: frozenset[str] = frozenset(),
) -> Layout:
    """The layout of some structures."""
    return Layout("toy", line, "", holds, unknown, {each.type.name: each for each in structures})


def clause(
    kind: ClauseKind,
    members: str = "",
    arg: int = 0,
    *,
    rule: str = "x.R1",
    tag: str = "rq",
    needs: tuple[str, ...] = (),
    others: str = "",
) -> Clause:
    """A clause. Of a kind that compares, the first member is compared with the rest."""
    names = tuple(members.split())
    if kind in COMPARED and not others:
        return Clause(rule, kind, frozenset(needs), True, arg, tag, names[:1], names[1:])
    least = least_members(kind, arg, names)
    return Clause(rule, kind, frozenset(needs), True, arg, tag, names, tuple(others.split()), least=least)


def rules_of(*clauses: Clause) -> Rules:
    """Rule x.R1 of the change x, with some clauses."""
    return Rules((Rule("x.R1", "x", "it hurts", "here"),), clauses)
