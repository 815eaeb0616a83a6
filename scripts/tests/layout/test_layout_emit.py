# SPDX-License-Identifier: GPL-2.0
"""The assertions: complete, balanced, true for the toy kernel that keeps the rules, and false for those that do not."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import toys

from schedlib.contracts.contract_rules import UNLISTED, Clause, Rules
from schedlib.layout.emit import emit

pytestmark = pytest.mark.tools

CHANGES = ("rq-order", "rd-lines", "cpupri-lines", "cpupri-split")


def emitted(changes: tuple[str, ...]) -> str:
    """The assertions of some changes for the toy kernel."""
    return emit(toys.real_rules(), changes, toys.toy_source())


def test_absent_changes_have_no_text() -> None:
    assert emitted(()) == ""
    assert emitted(("cluster-scan", "unheard-of")) == ""
    assert emitted(("rq-order",)) != ""


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_has_its_own_rules_alone(change: str) -> None:
    rules = toys.real_rules()
    text = emitted((change,))
    # A compiler cannot tell what no clause lists.
    told = {clause.rule for clause in rules.clauses if clause.kind not in UNLISTED}
    own = {rule.id for rule in rules.rules if rule.change == change}
    assert set(re.findall(r'REQUIRE\("([\w.-]+)"', text)) == own & told
    assert f"that this tree has: {change}." in text


def requires(clause: Clause) -> list[str]:
    """The rule of each assertion that a single clause produces."""
    rules = toys.real_rules()
    owner = rules.rule(clause.rule)
    return re.findall(r'REQUIRE\("([\w.-]+)"', emit(Rules((owner,), (clause,)), CHANGES, toys.toy_source()))


def test_each_clause_is_asserted() -> None:
    rules = toys.real_rules()
    for clause in rules.clauses:
        # The toy kernel has no rq-readers, and no leaf of it counts RT overload.
        if clause.rule in rules.changes() or rules.rule(clause.rule).change not in CHANGES:
            continue
        if clause.type == "cpupri_leaf" and "rto_count" in (*clause.members, *clause.others):
            continue
        found = requires(clause)
        assert set(found) == (set() if clause.kind in UNLISTED else {clause.rule}), clause


def test_signs_are_not_asserted() -> None:
    rules = toys.real_rules()
    text = emitted(CHANGES)
    assert not [change for change in CHANGES if f'"{change}"' in text]
    without_signs = replace(rules, clauses=tuple(c for c in rules.clauses if c.rule not in CHANGES))
    assert emit(without_signs, CHANGES, toys.toy_source()) == text


@pytest.mark.parametrize("changes", [CHANGES, *((change,) for change in CHANGES)])
def test_preprocessor_is_balanced(changes: tuple[str, ...]) -> None:
    depth = 0
    for line in emitted(changes).splitlines():
        depth += bool(re.match(r"#if", line)) - bool(re.match(r"#endif", line))
        assert 0 <= depth <= 1
    assert depth == 0


def test_braces_and_line_length() -> None:
    text = emitted(CHANGES)
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    assert code.count("(") == code.count(")")
    assert [line for line in text.splitlines() if len(line.expandtabs(8)) > 100] == []
    assert "\n\n\n" not in text


def broken(*names: str, line: int = 64, changes: tuple[str, ...] = CHANGES) -> set[str]:
    """The rules whose assertions fail in a toy kernel."""
    source = toys.workshop() / "tests" / "layout_asserts.c"
    source.write_text(emitted(changes))
    done = toys.gcc(source, source.with_suffix(".o"), *toys.defines(*names, line=line))
    said = done.stderr.decode()
    found = set(re.findall(r'static assertion failed: "([\w.-]+)"', said))
    assert len(re.findall(r"error:", said)) == len(re.findall("static assertion failed", said)), said
    assert bool(found) is (done.returncode != 0)
    return found


@pytest.mark.parametrize(
    ("names", "line"),
    [
        ((), 64),
        ((), 32),
        ((), 128),
        ((), 256),
        (("-CONFIG_SMP",), 64),
        (("-CONFIG_NUMA_BALANCING",), 64),
        (("CONFIG_SCHED_PROXY_EXEC",), 64),
        (("CONFIG_DEBUG_SPINLOCK",), 64),
        (("CONFIG_SCHED_CPUPRI_SPLIT",), 64),
        (("CONFIG_SCHED_CPUPRI_ARRAYS",), 64),
        (("CONFIG_SCHED_CPUPRI_SBM",), 64),
        (("CONFIG_SCHED_CPUPRI_SPLIT",), 256),
        (("STRANGER",), 64),
    ],
)
def test_kernel_that_keeps_the_rules_builds(names: tuple[str, ...], line: int) -> None:
    assert broken(*names, line=line) == set()


@pytest.mark.parametrize(
    ("wrong", "rules"),
    [
        # Q9 is asserted for each member. If a member is pushed off the line, one that fills the line breaks Q9, too.
        ("WIDE", {"rq-order.Q1", "rq-order.Q2", "rq-order.Q9"}),
        ("LOOPS_APART", {"rd-lines.R5", "rd-lines.R7", "rd-lines.R8"}),
        (
            "TOGETHER",
            {
                "cpupri-lines.C1",
                "cpupri-lines.C2",
                "cpupri-lines.C3",
                "cpupri-lines.C4",
                "cpupri.S1",
                "rd-lines.R1",
                "rd-lines.R7",
            },
        ),
    ],
)
def test_kernel_that_breaks_a_rule_does_not_build(wrong: str, rules: set[str]) -> None:
    assert broken(wrong) == rules


@pytest.mark.parametrize("older", [("OLD_RQ", "rq-order"), ("OLD_RD", "rd-lines")])
def test_older_kernel_builds_without_its_assertions(older: tuple[str, str]) -> None:
    name, change = older
    assert broken(name, changes=tuple(each for each in CHANGES if each != change)) == set()
    assert {rule.partition(".")[0] for rule in broken(name)} == {change}
