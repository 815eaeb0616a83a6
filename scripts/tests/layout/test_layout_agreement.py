# SPDX-License-Identifier: GPL-2.0
"""A rule on which a kernel and its object disagree is found, and one that the kernel could not judge."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toys import real_rules, toy, unaligned

from schedlib.check.check_boots import disagreements, not_held
from schedlib.console.judge import TestOutcome as Outcome
from schedlib.console.judge import TestResult as Result
from schedlib.layout import rule_judge
from schedlib.layout.rule_judge import Layout
from schedlib.verdict import Verdict

pytestmark = pytest.mark.tools

EVERYTHING = frozenset({"rq-order", "rd-lines", "cpupri-lines"})
R1 = "sched_layout:rd_lines:rd-lines.R1"


def found(outcome: Outcome, where: Layout, name: str = R1, expected: frozenset[str] = EVERYTHING) -> list[str]:
    """The rules on which a test's outcome and a layout differ."""
    problems = list(disagreements(real_rules(), where, [Result(name, outcome)], expected))
    assert all(problem.verdict is Verdict.FAIL and problem.kind == "layout-disagrees" for problem in problems)
    return [problem.text.split(":")[0] for problem in problems]


@pytest.mark.parametrize(
    ("outcome", "kernel", "differ"),
    [
        (Outcome.PASS, (), []),
        (Outcome.FAIL, (), ["rd-lines.R1"]),
        (Outcome.SKIP, (), ["rd-lines.R1"]),
        (Outcome.FAIL, ("OLD_RD",), []),
        (Outcome.PASS, ("OLD_RD",), ["rd-lines.R1"]),
    ],
)
def test_each_pair(outcome: Outcome, kernel: tuple[str, ...], differ: list[str]) -> None:
    assert found(outcome, toy(*kernel)) == differ


def test_an_absent_change_that_nobody_expects_is_skipped_by_both() -> None:
    assert found(Outcome.SKIP, toy("OLD_RD"), expected=frozenset()) == []
    assert found(Outcome.FAIL, toy("OLD_RD"), expected=frozenset()) == ["rd-lines.R1"]


def test_what_only_the_kernel_can_judge_may_make_it_fail_alone() -> None:
    name = "sched_layout:rq_order:rq-order.Q8"
    assert found(Outcome.FAIL, unaligned(toy()), name) == []
    assert found(Outcome.FAIL, toy(), name) == ["rq-order.Q8"]
    assert found(Outcome.SKIP, toy(), name) == ["rq-order.Q8"]


def test_what_only_the_kernel_can_judge_may_make_it_pass_alone() -> None:
    """BTF does not tell how a type is aligned, which the kernel's test asks the compiler."""
    name = "sched_layout:rq_order:rq-order.Q8"
    assert found(Outcome.PASS, toy(), name) == []
    assert found(Outcome.PASS, unaligned(toy()), name) == []
    assert found(Outcome.PASS, toy("OLD_RQ"), name, frozenset()) == ["rq-order.Q8"]


@pytest.mark.parametrize(
    "name", ["sched_layout:changes", "sched_cpupri:rd-lines.R1", "sched_layout:rd_lines:rd-lines.R99"]
)
def test_other_tests_are_not_compared(name: str) -> None:
    assert found(Outcome.FAIL, toy(), name) == []


@pytest.mark.parametrize("outcome", [Outcome.MISSING, Outcome.CRASHED])
def test_a_test_that_did_not_end_is_not_compared(outcome: Outcome) -> None:
    assert found(outcome, toy()) == []


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
