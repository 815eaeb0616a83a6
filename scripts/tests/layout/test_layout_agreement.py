# SPDX-License-Identifier: GPL-2.0
"""A rule on which a kernel and its object disagree is found, and one that the kernel could not judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from toys import real_rules, toy, unaligned

from schedlib.check.check_boots import CheckPlan, boot_and_judge, disagreements, not_held
from schedlib.console.judge import TestOutcome as Outcome
from schedlib.console.judge import TestResult as Result
from schedlib.kernel.build import Kernel
from schedlib.kernel.targets import TARGETS
from schedlib.layout import rule_judge
from schedlib.layout.rule_judge import Layout
from schedlib.verdict import Verdict

pytestmark = pytest.mark.tools

EVERYTHING = frozenset({"rq-order", "rd-lines", "cpupri-lines"})
R1 = "sched_layout:rd_lines:rd-lines.R1"


UNALIGNED = unaligned(toy())
Q8 = "sched_layout:rq_order:rq-order.Q8"
NOBODY: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("outcome", "where", "name", "expected", "differ"),
    [
        (Outcome.PASS, toy(), R1, EVERYTHING, []),
        (Outcome.FAIL, toy(), R1, EVERYTHING, ["rd-lines.R1"]),
        (Outcome.SKIP, toy(), R1, EVERYTHING, ["rd-lines.R1"]),
        (Outcome.FAIL, toy("OLD_RD"), R1, EVERYTHING, []),
        (Outcome.PASS, toy("OLD_RD"), R1, EVERYTHING, ["rd-lines.R1"]),
        # An absent change that nobody expects is skipped by both.
        (Outcome.SKIP, toy("OLD_RD"), R1, NOBODY, []),
        (Outcome.FAIL, toy("OLD_RD"), R1, NOBODY, ["rd-lines.R1"]),
        # BTF does not tell how a type is aligned, which the kernel's test asks the compiler.
        (Outcome.FAIL, UNALIGNED, Q8, EVERYTHING, []),
        (Outcome.FAIL, toy(), Q8, EVERYTHING, ["rq-order.Q8"]),
        (Outcome.SKIP, toy(), Q8, EVERYTHING, ["rq-order.Q8"]),
        (Outcome.PASS, toy(), Q8, EVERYTHING, []),
        (Outcome.PASS, UNALIGNED, Q8, EVERYTHING, []),
        (Outcome.PASS, toy("OLD_RQ"), Q8, NOBODY, ["rq-order.Q8"]),
        # Other tests, and those that did not end, are not compared.
        (Outcome.FAIL, toy(), "sched_layout:changes", EVERYTHING, []),
        (Outcome.FAIL, toy(), "sched_cpupri:rd-lines.R1", EVERYTHING, []),
        (Outcome.FAIL, toy(), "sched_layout:rd_lines:rd-lines.R99", EVERYTHING, []),
        (Outcome.MISSING, toy(), R1, EVERYTHING, []),
        (Outcome.CRASHED, toy(), R1, EVERYTHING, []),
    ],
)
def test_rules_on_which_a_test_and_a_layout_differ(
    outcome: Outcome, where: Layout, name: str, expected: frozenset[str], differ: list[str]
) -> None:
    problems = list(disagreements(real_rules(), where, [Result(name, outcome)], expected))
    assert all(problem.verdict is Verdict.FAIL and problem.kind == "layout-disagrees" for problem in problems)
    assert [problem.text.split(":")[0] for problem in problems] == differ


def test_only_what_is_not_recorded_excuses_the_object_whatever_a_reason_says(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = real_rules()
    clause = next(clause for clause in rules.of("rq-order.Q4") if clause.needs)
    monkeypatch.setattr(rule_judge, "in_words", lambda _: "debug information")
    where = replace(toy(), holds=toy().holds - clause.needs)
    test = Result(f"sched_layout:x:{clause.rule}", Outcome.FAIL)
    assert [problem.test for problem in disagreements(rules, where, [test], EVERYTHING)] == [test.name]


NO_BTF = "not judged: needs CONFIG_DEBUG_INFO_BTF"


def skipped(reason: str, *rules: str) -> list[Result]:
    """The tests of some rules of rd-lines."""
    return [Result(f"sched_layout:rd_lines:{rule}", Outcome.SKIP, reason) for rule in rules]


def test_a_rule_that_the_kernel_could_not_judge_is_not_held() -> None:
    """It was a skip like any other, and `check` said PASS."""
    tests = skipped(NO_BTF, "rd-lines.R1", "rd-lines.R2") + skipped("not judged: too large", "rd-lines.R3")
    problems = list(not_held(real_rules(), tests, EVERYTHING))
    assert [(problem.kind, problem.verdict, problem.text) for problem in problems] == [
        ("not-held", Verdict.INCONCLUSIVE, "not held here (needs CONFIG_DEBUG_INFO_BTF): rd-lines.R1, rd-lines.R2"),
        ("not-held", Verdict.INCONCLUSIVE, "not held here (too large): rd-lines.R3"),
    ]
    assert list(disagreements(real_rules(), toy(), tests, EVERYTHING)) == []


def test_a_rule_that_names_a_lost_member_is_an_error_beside_what_is_judged(tmp_path: Path) -> None:
    image = tmp_path / "vmlinux"
    image.write_text("#!/bin/sh\necho Linux version 7.3\n")
    image.chmod(0o755)
    lost = ((frozenset({"rq-order.Q4"}), "rq-order.Q4: this tree has no rq.clock_task"),)
    plan = CheckPlan(TARGETS["uml"], (8,), EVERYTHING, lost=lost)
    (boot,) = boot_and_judge(plan, Kernel(image, tmp_path, ""), tmp_path, "")
    assert [(each.verdict, each.text) for each in boot.problems if each.kind == "not-judged"] == [
        (Verdict.ERROR, "rq-order.Q4: this tree has no rq.clock_task")
    ]
    # The debug information has what is left of it.
    result = Result("sched_layout:rq_order:rq-order.Q4", Outcome.SKIP, "n/a: nothing of it is in this tree")
    assert [*disagreements(real_rules(), toy(), [result], EVERYTHING)]
    assert not [*disagreements(real_rules().without({"rq-order.Q4"}), toy(), [result], EVERYTHING)]


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        (skipped(NO_BTF, "rd-lines.R1"), frozenset({"rq-order"})),
        (skipped("n/a: needs IS_ENABLED(CONFIG_64BIT)", "rd-lines.R1"), EVERYTHING),
        ([Result("sched_layout:runqueues_begin_a_line", Outcome.SKIP, NO_BTF)], EVERYTHING),
        ([Result("sched_layout:rd_lines:rd-lines.R1", Outcome.PASS, NO_BTF)], EVERYTHING),
    ],
    ids=["of a change that nobody expects", "does not apply", "no rule", "passed"],
)
def test_nothing_else_is_not_held(tests: list[Result], expected: frozenset[str]) -> None:
    assert list(not_held(real_rules(), tests, expected)) == []
