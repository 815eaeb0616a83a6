# SPDX-License-Identifier: GPL-2.0
"""The reader inside the kernel, compiled for user space with the toy kernel, judges each rule as rule_judge.py does."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache as once
from pathlib import Path

import pytest
import toys

from conftest import write_files
from schedlib.contracts.c_tables import tables
from schedlib.contracts.contract_rules import rules_of
from schedlib.layout.compile import layout_of
from schedlib.layout.rule_judge import Layout, judge_rule
from schedlib.paths import KUNIT

pytestmark = pytest.mark.tools

UNTOLD = "needs a compiler that tells where the padding is"
CHANGES = ("rq-order", "rd-lines", "cpupri-lines", "cpupri-split")

_KUNIT_H = """\
#pragma once
#include <toy.h>
typedef __SIZE_TYPE__ size_t;
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define IS_ALIGNED(x, a) ((x) % (a) == 0)
#define strscpy(to, from) strcpy(to, from)
#define strcmp __builtin_strcmp
#define strncmp __builtin_strncmp
#define strlen __builtin_strlen
#define strcpy __builtin_strcpy
#define strchr __builtin_strchr
#define strspn __builtin_strspn
#define strcspn __builtin_strcspn
#define memset __builtin_memset
#define snprintf __builtin_snprintf
#define printf __builtin_printf

struct kunit { const void *param_value; };
struct kunit_case { void (*run)(struct kunit *test); };
struct kunit_suite { const char *name; int (*suite_init)(struct kunit_suite *suite); struct kunit_case *test_cases; };

static void *resume[5];
static char skipped[512];
static int failures;

#define kunit_err(test, ...) ((void)(test))
#define kunit_info(test, ...) ((void)(test))
#define kunit_skip(test, ...) (snprintf(skipped, sizeof(skipped), __VA_ARGS__), __builtin_longjmp(resume, 1))
#define KUNIT_FAIL(test, ...) ((void)(test), failures++)
#define KUNIT_EXPECT_TRUE_MSG(test, condition, ...) ((void)(condition))
#define KUNIT_ARRAY_PARAM_DESC(name, array, member) struct kunit
#define KUNIT_CASE(name) { name }
#define KUNIT_CASE_PARAM(name, generator) { name }
#define kunit_test_suite(suite) struct kunit
#define module_param(name, type, mode) struct kunit
#define MODULE_PARM_DESC(name, text) struct kunit
#define MODULE_DESCRIPTION(text) struct kunit
#define MODULE_LICENSE(text) struct kunit

#define guard(name) guard_##name
static inline void guard_cpus_read_lock(void) {}
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < 1; (cpu)++)
#define for_each_online_cpu(cpu) for_each_possible_cpu(cpu)
"""

_MAIN_C = """\
#include <kunit/test.h>
#include "../sched.h"
static struct rq the_rq;
#define cpu_rq(cpu) (&the_rq)
#ifdef CONFIG_SMP
static struct root_domain def_root_domain;
#endif
#include "sched_layout_kunit.c"

static void judge(const struct sched_layout_rule *rule)
{
	struct kunit test = { rule };

	failures = 0;
	skipped[0] = 0;
	if (!__builtin_setjmp(resume))
		check_rule(&test);
	printf("%s\\t%s\\t%s\\n", rule->id, *skipped ? "n/a" : failures ? "fail" : "pass", skipped);
}

int main(int argc, char **argv)
{
	const struct sched_layout_rule *rule = (const void *)&sched_layout_rules;

	expect = argc > 1 ? argv[1] : "";
	sched_layout_suite.suite_init(&sched_layout_suite);
	for (u32 i = 0; i < sizeof(sched_layout_rules) / sizeof(*rule); i++)
		judge(rule + i);
	return 0;
}
"""


@once
def reader(names: tuple[str, ...], line: int) -> Path:
    """The kernel's reader for one toy kernel, as a program."""
    top = toys.workshop()
    for name in ("kunit/test", "linux/cleanup", "linux/cpu", "linux/moduleparam", "linux/string"):
        header = top / "include" / f"{name}.h"
        header.parent.mkdir(exist_ok=True)
        header.write_text(_KUNIT_H if name == "kunit/test" else "")
    main, half = top / "tests" / "main.c", top / f"reader-{line}-{'-'.join(names)}.o"
    main.write_text(_MAIN_C)
    for name in ("sched_layout_kunit.c", "sched_kunit_expect.h"):
        (top / "tests" / name).write_text((KUNIT / name).read_text())
    done = toys.gcc(main, half, "-w", *toys.defines(*names, line=line))
    assert done.returncode == 0, done.stderr.decode()
    objects = [half, toys.fields_object(*names, line=line), toys.rules_object()]
    program = half.with_suffix("")
    subprocess.run(["gcc", "-no-pie", "-o", str(program), *map(str, objects)], check=True, capture_output=True)
    return program


SPELLINGS = """\
struct = "root_domain"

[[rule]]
id = "rd-lines.R1"
why = "one member, in two spellings"

[[rule]]
id = "rd-lines.R2"
why = "two members, of which no kernel has the second"

[[sign]]
change = "rd-lines"
keep = "behind"
of = ["online"]
others = ["refcount"]

[[promise]]
id = "rd-lines.R1"
keep = "on one line"
of = ["visit_gen|visit_cookie"]

[[promise]]
id = "rd-lines.R2"
keep = "on one line"
of = ["visit_gen|visit_cookie", "gone|lost"]
"""


def test_both_readers_count_spellings_of_one_member_once(tmp_path: Path) -> None:
    toys.needs("pahole")
    path, kernel = tmp_path / "root_domain.toml", tmp_path / "kernel"
    path.write_text(SPELLINGS)
    rules = rules_of((path,))
    reader((), 64)
    shutil.copytree(toys.workshop(), kernel)
    write_files(kernel / "tests", tables(rules, toys.toy_source()))
    objects = []
    for name in ("main", "layout_fields", "layout_rules"):
        objects.append(kernel / f"{name}.o")
        done = toys.gcc(kernel / "tests" / f"{name}.c", objects[-1], "-w", "-g", *toys.defines())
        assert done.returncode == 0, done.stderr.decode()
    subprocess.run(["gcc", "-no-pie", "-o", kernel / "reader", *objects], check=True, capture_output=True)
    rows = subprocess.run([kernel / "reader"], check=True, capture_output=True, text=True).stdout.splitlines()
    nothing = "nothing to compare with in this configuration"
    assert [row.split("\t") for row in rows] == [
        ["rd-lines.R1", "pass", ""],
        ["rd-lines.R2", "n/a", f"n/a: {nothing}"],
    ]
    where = layout_of(kernel / "layout_fields.o", "toy")
    results = [judge_rule(rules, rule.id, where) for rule in rules.rules]
    assert [(row.outcome.value, row.reason) for row in results] == [("pass", ""), ("n/a", nothing)]


def inside(names: tuple[str, ...], line: int, expected: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Outcome and reason of each rule, by the kernel's reader."""
    argv = [str(reader(names, line)), ",".join(expected)]
    rows = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    parts = (row.split("\t") for row in rows)
    return {rule: (outcome, reason.removeprefix("n/a: ")) for rule, outcome, reason in parts}


def outside(where: Layout, expected: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Outcome and reason of each rule, by rule_judge.py. The kernel gives a reason only for n/a."""
    rules = toys.real_rules()
    rows = (judge_rule(rules, rule.id, where, frozenset(expected)) for rule in rules.rules)
    return {row.rule: (row.outcome.value, row.reason if row.outcome.value == "n/a" else "") for row in rows}


@pytest.mark.parametrize("expected", [(), CHANGES, ("rd-lines",)], ids=["unexpected", "expected", "some"])
@pytest.mark.parametrize(
    ("names", "line"),
    [
        ((), 64),
        ((), 32),
        ((), 128),
        ((), 256),
        (("STRANGER",), 64),
        (("NARROW",), 64),
        (("NARROWER",), 64),
        (("WIDE",), 64),
        (("WIDE",), 128),
        (("LOOPS_APART",), 64),
        (("OLD_RQ",), 64),
        (("OLD_RD",), 64),
        (("OLD_RD",), 256),
        (("TOGETHER",), 64),
        (("OLD_RQ", "OLD_RD", "TOGETHER"), 64),
        (("-CONFIG_SMP",), 64),
        (("-CONFIG_SMP", "OLD_RQ"), 32),
        (("-CONFIG_NUMA_BALANCING",), 64),
        (("-HAVE_RT_PUSH_IPI",), 64),
        (("CONFIG_SCHED_PROXY_EXEC",), 64),
        (("CONFIG_DEBUG_SPINLOCK",), 64),
    ],
    ids=lambda value: "+".join(value) or "usual" if isinstance(value, tuple) else None,
)
def test_both_readers_agree(names: tuple[str, ...], line: int, expected: tuple[str, ...]) -> None:
    toys.needs("pahole")
    where = layout_of(toys.fields_object(*names, line=line), "toy")
    kernel, host = inside(names, line, expected), outside(where, expected)
    # gcc 12 cannot tell the padding of root_domain; debug information can.
    untold = {rule for rule, (_, reason) in kernel.items() if reason == UNTOLD}
    assert untold <= {"rd-lines.R5"}
    assert {rule: found for rule, found in host.items() if rule not in untold} == {
        rule: found for rule, found in kernel.items() if rule not in untold
    }


def test_the_kernels_reader_can_fail() -> None:
    assert {outcome for outcome, _ in inside((), 64, ()).values()} == {"pass", "n/a"}
    assert inside(("STRANGER",), 64, ())["rq-order.Q2"] == ("fail", "")
    assert inside(("OLD_RQ",), 64, ())["rq-order.Q1"][1].startswith("rq-order is not in this tree (unmet: ")
