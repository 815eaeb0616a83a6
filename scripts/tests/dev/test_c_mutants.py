# SPDX-License-Identifier: GPL-2.0
"""What the operators make of a small function, and the kernel that holds it all."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from schedlib.dev.c_mutants import CORE, HEADER, changes, counted, function, refused, same_code, schema
from schedlib.errors import SchedlineError

TOY = """
#define for_each(i) for (int i = 0; i < 3; i++)

/* picks one */
static inline int pick(int *mask, int cpu)
{
	int sum = 0;

	if (mask && cpu > 0)
		sum += mask[0];
	for_each(i) {
		if (i == cpu)
			continue;
		sum++;
	}
	smp_rmb();
	if (cpu)
		sum = less(cpu, sum);
	return sum;
}

static void
clear(struct rq *rq)
{
	if (!rq->set)
		return;
	rq->set = 0;
}
"""


def made(name: str, lines: str = "") -> set[tuple[str, str, str]]:
    return {(each.operator, each.old, each.new) for each in changes(function(TOY, name, "toy.c"), lines)}


def test_each_operator_is_used() -> None:
    found = made("pick")
    assert {
        ("drop-junct", "if (mask && cpu > 0)", "if (mask)"),
        ("drop-junct", "if (mask && cpu > 0)", "if (cpu > 0)"),
        ("other-operator", "if (mask && cpu > 0)", "if (mask || cpu > 0)"),
        ("relation", "if (mask && cpu > 0)", "if (mask && cpu >= 0)"),
        ("negate", "if (mask && cpu > 0)", "if (1)"),
        ("negate", "if (i == cpu)", "if (0)"),
        ("relation", "if (i == cpu)", "if (i != cpu)"),
        ("constant", "if (mask && cpu > 0)", "if (mask && cpu > (0 + 1))"),
        ("drop-statement", "continue;", ";"),
        ("drop-statement", "sum++;", ";"),
        ("other-operator", "sum++;", "sum--;"),
        ("drop-barrier", "smp_rmb();", ";"),
        ("swap-arguments", "sum = less(cpu, sum);", "sum = less(sum, cpu);"),
        ("return-value", "return sum;", "return -1;"),
        ("return-value", "return sum;", "return !(sum);"),
    } <= found
    assert not any(old == "return sum;" and new == ";" for _, old, new in found)
    assert ("negate", "if (!rq->set)", "if (rq->set)") in made("clear")
    assert ("drop-statement", "return;", ";") in made("clear")


def test_a_loop_macro_is_never_dropped() -> None:
    assert not any("for_each" in old for operator, old, _ in made("pick") if operator.startswith("drop"))


def test_only_lines_that_match() -> None:
    assert {old for _, old, _ in made("pick", r"i == cpu")} == {"if (i == cpu)"}


def test_a_line_that_is_there_twice_is_told_apart() -> None:
    twice = "void f(void)\n{\n\ta();\n\tx();\n\tb();\n\tx();\n\tc();\n}\n"
    found = [each.old for each in changes(function(twice, "f", "f.c")) if "x();" in each.old]
    assert sorted(found) == ["a(); x();", "b(); x();"]


def test_no_two_mutants_are_the_same() -> None:
    bodies = [each.body for each in changes(function(TOY, "pick", "toy.c"))]
    assert len(bodies) == len(set(bodies)) > 20


def test_unknown_function() -> None:
    with pytest.raises(SchedlineError, match=r"toy.c defines no function pick_one"):
        function(TOY, "pick_one", "toy.c")


def test_every_statement_is_counted() -> None:
    body, lines = counted(function(TOY, "pick", "toy.c"), 5)
    rows = TOY.splitlines()
    assert [rows[line - 1].strip() for line in lines] == [
        "if (mask && cpu > 0)",
        "sum += mask[0];",
        "if (i == cpu)",
        "continue;",
        "sum++;",
        "smp_rmb();",
        "if (cpu)",
        "sum = less(cpu, sum);",
        "return sum;",
    ]
    assert "for_each(i) {" in body and "{ sched_reached[5]++; if (mask" in body


PROGRAM = """
#include <stdio.h>
#define __init
#define smp_rmb() __sync_synchronize()
#define pr_info printf
#define NOTIFY_DONE 0
#define early_param(name, function)
#define late_initcall(function)
struct notifier_block { int (*notifier_call)(struct notifier_block *, unsigned long, void *); };
static int kstrtoint(const char *text, int base, int *value) { return sscanf(text, "%d", value) - 1; }
static int register_reboot_notifier(struct notifier_block *block) { return 0; }
struct rq { int set; };
static int less(int a, int b) { return a - b; }
"""
END = """
int main(int words, char **word)
{
	int mask[] = { 10 };
	struct rq rq = { 1 };

	sched_mutant_setup(word[1]);
	clear(&rq);
	printf("%d %d %d\\n", pick(mask, 1), pick(NULL, 0), rq.set);
	sched_reached_print(NULL, 0, NULL);
	return 0;
}
"""


@pytest.mark.tools
def test_a_number_chooses_a_copy(tmp_path: Path) -> None:
    toy = "kernel/sched/toy.c"
    names = ("pick", "clear")
    found = [change for name in names for change in changes(function(TOY, name, toy))]
    mutants = [replace(each, file=toy, number=number) for number, each in enumerate(found, 1)]
    mutants = [each for each in mutants if each.old != "smp_rmb();"]
    (tmp_path / "linux").mkdir()
    (tmp_path / "linux/reboot.h").touch()
    sources = {HEADER: "#define _KERNEL_SCHED_SCHED_H\n", CORE: "", toy: TOY}
    files, counters = schema(sources, mutants, {(toy, name): "" for name in names})
    whole = b"\n".join([PROGRAM.encode(), files[HEADER], files[toy], files[CORE], END.encode()])
    (tmp_path / "toy.c").write_bytes(whole)
    words = ["gcc", "-O2", "-I", str(tmp_path), "-o", str(tmp_path / "toy"), str(tmp_path / "toy.c")]
    subprocess.run(words, check=True)

    def said(number: int) -> list[str]:
        argv = [str(tmp_path / "toy"), str(number)]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()

    assert said(0) == ["-11 2 0"]
    counts = said(-1)
    assert counts[0] == "-11 2 0" and len(counts) == 1 + len(counters)
    assert [line for line in counts[1:] if line.endswith(" 0")] == [f"reached: {len(counters) - 2} 0"]
    dropped = {each.old: each.number for each in mutants if each.new == ";"}
    assert said(dropped["rq->set = 0;"]) == ["-11 2 1"]
    assert said(dropped["continue;"]) == ["-12 3 0"]
    listing = subprocess.run(
        ["objdump", "-dr", "--no-show-raw-insn", str(tmp_path / "toy")], capture_output=True, text=True
    )
    same = same_code(listing.stdout)
    assert dropped["rq->set = 0;"] not in same and dropped["continue;"] not in same


LISTING = """
0000000000000010 <pick__orig>:
  10:	test   %rdi,%rdi
  13:	je     20 <pick__orig+0x10>
  15:	call   40 <less>
  20:	ret

0000000000000030 <pick__m7>:
  30:	test   %rdi,%rdi
  33:	je     40 <pick__m7+0x10>
  35:	call   40 <less>
  40:	ret

0000000000000050 <pick__m8>:
  50:	test   %rdi,%rdi
  53:	jne    60 <pick__m8+0x10>
  55:	call   40 <less>
  60:	ret
"""


def test_the_same_code_at_another_place() -> None:
    assert same_code(LISTING) == {7}


LOG = """\
kernel/sched/rt.c: In function 'find_lowest_rq__m12':
kernel/sched/rt.c:1801:9: error: 'x' undeclared
kernel/sched/rt.c: In function 'find_lowest_rq__m13':
kernel/sched/rt.c:1801:9: warning: unused variable
In file included from kernel/sched/build_policy.c:9:
In function 'cpumask_next',
    inlined from 'pick__m14' at kernel/sched/rt.c:1801:9:
include/linux/cpumask.h:1:2: error: 'y' is used uninitialized
"""


def test_errors_belong_to_their_mutants() -> None:
    assert refused(LOG) == ({12: "'x' undeclared", 14: "'y' is used uninitialized"}, [])
    other = "kernel/sched/rt.c: In function 'find_lowest_rq':\nkernel/sched/rt.c:1:2: error: z\n"
    assert refused(other) == ({}, ["kernel/sched/rt.c:1:2: error: z"])
