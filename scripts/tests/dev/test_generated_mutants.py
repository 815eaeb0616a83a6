# SPDX-License-Identifier: GPL-2.0
"""What the operators make of a small function, which of these mutants are tried, and how their logs are judged."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedlib.console.judge import judge
from schedlib.dev import made_pages
from schedlib.dev.c_mutants import CORE, HEADER, CodeChange, changes, function, refused, same_code, schema
from schedlib.dev.generated_mutants import (
    DATA,
    STOP,
    Equivalent,
    MutantData,
    MutantTarget,
    chosen,
    end_of,
    ended,
    equivalents,
    is_reached,
    judged_equivalents,
    not_run,
    numbered,
    touched,
)
from schedlib.dev.mutants_page import (
    End,
    GeneratedMutant,
    GeneratedMutantsDocument,
    recorded,
    score,
    score_table,
    share,
)
from schedlib.errors import SchedlineError
from schedlib.formats.data_file import read_toml
from schedlib.formats.document import read
from schedlib.guest.boot import Ending, run_guest
from schedlib.paths import CONFIGS

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


def test_of_a_function_that_is_defined_twice_the_stub_is_no_target() -> None:
    """nohz_balancer_kick() is empty without CONFIG_NO_HZ_COMMON, and had no mutant."""
    stub = "static inline int pick(int *mask, int cpu) { return 0; }\n"
    for source in (TOY + stub, stub + TOY):
        assert function(source, "pick", "toy.c").body == function(TOY, "pick", "toy.c").body


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
    # A loop macro is no statement.
    assert not any("for_each" in old for operator, old, _ in found if operator.startswith("drop"))
    assert {old for _, old, _ in made("pick", r"i == cpu")} == {"if (i == cpu)"}
    bodies = [each.body for each in changes(function(TOY, "pick", "toy.c"))]
    assert len(bodies) == len(set(bodies)) > 20
    with pytest.raises(SchedlineError, match=r"toy.c defines no function pick_one"):
        function(TOY, "pick_one", "toy.c")


def test_a_line_that_is_there_twice_is_told_apart() -> None:
    twice = "void f(void)\n{\n\ta();\n\tx();\n\tb();\n\tx();\n\tc();\n}\n"
    found = [each.old for each in changes(function(twice, "f", "f.c")) if "x();" in each.old]
    assert sorted(found) == ["a(); x();", "b(); x();"]


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


# ---- which are tried, and how they end ----

TEXT = "int f(int a)\n{\n\tif (a > 1)\n\t\treturn 2;\n\treturn a;\n}\nint g(void)\n{\n\treturn 3;\n}\n"
TARGETS = (MutantTarget("a.c", ("f", "g"), "rd-lines", "sched_rt*"),)


def mutant(number: int, old: str = "a;", line: int = 1) -> CodeChange:
    return CodeChange("f", "drop-statement", line, old, "b;", "", "a.c", number)


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    pool = numbered({"a.c": TEXT}, TARGETS)
    assert [each.number for each in pool] == list(range(1, len(pool) + 1))
    assert {each.function for each in pool} == {"f", "g"}
    assert chosen(pool, (), 4, 1) == chosen(pool, (), 4, 1) != chosen(pool, (), 4, 2)
    assert len(chosen(pool, (), 4, 1)) == len(chosen(pool, ("f",), 4, 1)) + min(4, len(chosen(pool, ("g",), None, 1)))
    assert chosen(pool, (), None, 1) == pool
    assert {each.function for each in chosen(pool, ("g",), None, 1)} == {"g"}


def test_functions_that_a_diff_touches() -> None:
    assert touched({"a.c": TEXT}, {"a.c": TEXT}) == set()
    assert touched({"a.c": TEXT}, {"a.c": TEXT.replace("return 3", "return 4")}) == {"g"}
    assert touched({}, {"a.c": TEXT}) == {"f", "g"}


LOGS = Path(__file__).parents[1] / "logs"


@pytest.mark.parametrize(
    ("name", "ending", "end", "failed"),
    [
        ("pass", Ending.EXITED, End.SURVIVED, "not run: suite:gone"),
        ("fail", Ending.EXITED, End.ASSERTION, "demo_fail:bad, demo_fail:param_mixed:value-3"),
        ("panic", Ending.DIED, End.CRASH, "Kernel panic - not syncing: demo panic"),
        ("hang", Ending.TIMED_OUT, End.HANG, "demo_hang"),
        ("warning_between_tests", Ending.EXITED, End.WARNING, "splat"),
    ],
)
def test_how_a_log_ends(name: str, ending: Ending, end: End, failed: str) -> None:
    log = (LOGS / f"{name}.log").read_bytes()
    assert end_of(judge(log, ending=ending), ending, ["suite:gone"]) == (end, tuple(failed.split(", ")))


def test_a_mutant_of_a_statement_that_never_runs_is_not_booted() -> None:
    counters = [("a.c", "f", 3), ("a.c", "f", 5), ("a.c", "g", 1)]
    rows = {line: mutant(1, line=line) for line in (2, 3, 4, 5)}
    reached = {line: is_reached(each, counters, [counters[0]]) for line, each in rows.items()}
    assert reached == {2: True, 3: True, 4: True, 5: False}


def test_a_statement_that_never_runs_needs_a_reason() -> None:
    sources = {"a.c": "f\n\treturn 0;\ng\n\treturn 0;\n"}
    data = MutantData({}, (), (("f", "return 0;", "why"),))
    found = not_run([("a.c", "f", 2), ("a.c", "g", 4)], sources, data)
    assert found == (("a.c:4 g: return 0;",), frozenset({("a.c", "f", 2)}))


def test_an_equivalent_that_dies_or_is_gone_is_wrong() -> None:
    pool = [mutant(1), mutant(2, old="c;"), mutant(3, old="d;")]
    first, second, third = pool
    tried = [ended(first, End.SURVIVED), ended(second, End.ASSERTION, "default", ("x",)), ended(third, End.SURVIVED)]
    known = [Equivalent("f", old, "b;", "why") for old in ("a;", "c;", "e;")]
    found, wrong = judged_equivalents(tried, pool, known)
    assert [each.end for each in found] == [End.EQUIVALENT, End.ASSERTION, End.SURVIVED]
    assert wrong == [
        "no such mutant any more: f: e; => b;",
        "listed as equivalent, and it dies: a.c:1 f: c; => b; [assertion: x]",
    ]


def test_the_score_of_each_function() -> None:
    ends = (End.ASSERTION, End.CRASH, End.HANG, End.SURVIVED, End.EQUIVALENT, End.SAME_CODE)
    pairs = [*(("f", end) for end in ends), ("g", End.SURVIVED), ("g", End.NOT_TRIED)]
    rows = [GeneratedMutant("a.c", name, 1, "constant", "a", "b", end, "", ()) for name, end in pairs]
    assert list(score(rows)) == [("f", 4, 1, 2, 1, 2, 0), ("g", 1, 0, 0, 1, 0, 1)]
    assert (share(4, 1, 0), share(0, 0, 0), share(4, 1, 1)) == ("75%", "-", "-")
    ours, exported = "sched_cpupri:answers_match_a_simple_model", "sched_cpupri:find_returns:no_cpu_is_online"
    for failed, survived in (((ours,), 1), ((ours, exported), 0)):
        row = GeneratedMutant("a.c", "f", 1, "constant", "a", "b", End.ASSERTION, "", failed)
        assert list(score([row])) == [("f", 1, 1 - survived, 0, survived, 0, 0)]
        assert list(score([row], exported=False)) == [("f", 1, 1, 0, 0, 0, 0)]


def test_a_suite_that_is_not_exported_has_a_row_of_its_own() -> None:
    def run(end: End, *tests: str) -> GeneratedMutantsDocument:
        row = GeneratedMutant("a/b.c", "f", 1, "constant", "a", "b", end, "", tests)
        kept: dict[str, Any] = {"tree": "", "sample": None, "seed": 0, "unreached": (), "wrong": ()}
        return GeneratedMutantsDocument(schema="generated-mutants-1", mutants=(row,), **kept)

    ours = {"sched_balance": run(End.ASSERTION, "sched_balance:tick_asks_an_idle_cpu")}
    table = list(score_table([run(End.CRASH)], ours))
    assert "| all | 1 | 0 | 1 | 0 | 0 | 100% |" in table
    assert "| **sched_balance** | 1 | 1 | 0 | 0 | 0 | 100% |" in table


def test_the_data_names_configurations_and_gives_reasons() -> None:
    data = read_toml(DATA, MutantData)
    assert {name for target in data.target for name in target.on} <= set(data.configuration)
    fragments = {path.stem for path in (CONFIGS / "kernel").glob("*.config")}
    assert {name for its in data.configuration.values() for name in its.fragments} <= fragments
    functions = [name for target in data.target for name in target.functions]
    assert len(functions) == len(set(functions))
    rows = equivalents()
    assert {row.function for row in rows} <= set(functions)


def test_a_guest_ends_early_at_a_line(tmp_path: Path) -> None:
    program = "import time; print('a\\nnot ok 1 x\\n', flush=True); time.sleep(60)"
    run = run_guest([sys.executable, "-c", program], tmp_path / "log", 50, re.compile(rb"^not ok \d+ \w+\s*$", re.M))
    assert run.ending is Ending.KILLED and run.seconds < 50


def test_a_failed_suite_ends_a_guest_when_its_line_is_whole() -> None:
    assert not STOP.search(b"[    1.0] not ok 1 sc")
    assert STOP.search(b"x\r\n[    1.0] not ok 1 sched_cluster\r\n")
    assert not STOP.search(b"    not ok 1 a_case\n")


def test_a_record_is_written_as_it_is_kept() -> None:
    for path in made_pages.MUTANTS_RECORDED.rglob("*.json"):
        assert recorded(read(path, GeneratedMutantsDocument, "")) == path.read_text()
