# SPDX-License-Identifier: GPL-2.0
"""Compares KUnit's verdict on each layout rule with that from the object of the same build: one table, two readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedlib.console.judge import Problem, TestOutcome, TestResult
from schedlib.contracts.contract_rules import Rules
from schedlib.layout.rule_judge import Layout, RuleOutcome, Unrecorded, judge_rule
from schedlib.verdict import Verdict

_SUITE = "sched_layout"

_SAME = {TestOutcome.PASS: RuleOutcome.PASS, TestOutcome.FAIL: RuleOutcome.FAIL, TestOutcome.SKIP: RuleOutcome.NA}


def disagreements(
    rules: Rules, layout: Layout, tests: Sequence[TestResult], expected: frozenset[str]
) -> Iterator[Problem]:
    """A problem for each rule on which the kernel and its object differ.

    A failure only in the kernel is no problem if the rule has a clause that the object cannot judge, because it has
    no debug information.
    """
    known = {rule.id for rule in rules.rules}
    for test in tests:
        suite, rule = test.name.split(":")[0], test.name.split(":")[-1]
        if suite != _SUITE or rule not in known or test.outcome not in _SAME:
            continue
        result = judge_rule(rules, rule, layout, expected)
        said = _SAME[test.outcome]
        unseen = any(clause.unrecorded is Unrecorded.PADDING for clause in result.clauses)
        if said is result.outcome or (said is RuleOutcome.FAIL and unseen):
            continue
        text = f"{rule}: the kernel reports {said.value}, its object file shows {result.outcome.value}"
        yield Problem("layout-disagrees", test.line, text, Verdict.FAIL, test.name)
