# SPDX-License-Identifier: GPL-2.0
"""The assertions: complete, balanced, true for the toy kernel that keeps the rules, and false for those that do not."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import toys

from schedlib.contracts.contract_rules import UNLISTED, Rules
from schedlib.layout.emit import emit

pytestmark = pytest.mark.tools

CHANGES = ("rq-order", "rd-lines", "cpupri-lines", "cpupri-split")


def emitted(changes: tuple[str, ...]) -> str:
    """The assertions of some changes for the toy kernel."""
    return emit(toys.real_rules(), changes, toys.toy_source())


def test_absent_changes_have_no_text() -> None:
    assert emitted(()) == emitted(("cluster-scan", "unheard-of")) == ""


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_has_its_own_rules_alone(change: str) -> None:
    rules = toys.real_rules()
    text = emitted((change,))
    # A compiler cannot tell what no clause lists.
    told = {clause.rule for clause in rules.clauses if clause.kind not in UNLISTED}
    own = {rule.id for rule in rules.rules if rule.change == change}
    assert set(re.findall(r'REQUIRE\("([\w.-]+)"', text)) == own & told
    assert f"that this tree has: {change}." in text


def test_each_clause_is_asserted_and_no_sign_is() -> None:
    rules, source = toys.real_rules(), toys.toy_source()
    for clause in rules.clauses:
        # The toy kernel has no rq-readers, and no leaf of it counts RT overload.
        if clause.rule in rules.changes() or rules.rule(clause.rule).change not in CHANGES:
            continue
        if clause.type == "cpupri_leaf" and "rto_count" in clause.named:
            continue
        text = emit(Rules((rules.rule(clause.rule),), (clause,)), CHANGES, source)
        wanted = set() if clause.kind in UNLISTED else {clause.rule}
        assert set(re.findall(r'REQUIRE\("([\w.-]+)"', text)) == wanted, clause
    without_signs = replace(rules, clauses=tuple(c for c in rules.clauses if c.rule not in CHANGES))
    assert emit(without_signs, CHANGES, source) == emitted(CHANGES)


@pytest.mark.parametrize("changes", [CHANGES, *((change,) for change in CHANGES)])
def test_form(changes: tuple[str, ...]) -> None:
    text, depth = emitted(changes), 0
    for line in text.splitlines():
        depth += bool(re.match(r"#if", line)) - bool(re.match(r"#endif", line))
        assert 0 <= depth <= 1 and len(line.expandtabs(8)) <= 100
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    assert depth == 0 and code.count("(") == code.count(")") and "\n\n\n" not in text


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
        *(((), line) for line in (64, 32, 128, 256)),
        *(((name,), 64) for name in ("-CONFIG_SMP", "-CONFIG_NUMA_BALANCING", "CONFIG_SCHED_PROXY_EXEC", "STRANGER")),
        *(((f"CONFIG_SCHED_CPUPRI_{name}",), 64) for name in ("SPLIT", "ARRAYS", "SBM")),
        (("CONFIG_DEBUG_SPINLOCK",), 64),
        (("CONFIG_SCHED_CPUPRI_SPLIT",), 256),
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
            {*(f"cpupri-lines.C{number}" for number in range(1, 5)), "cpupri.S1", "rd-lines.R1", "rd-lines.R7"},
        ),
    ],
)
def test_kernel_that_breaks_a_rule_does_not_build(wrong: str, rules: set[str]) -> None:
    assert broken(wrong) == rules


@pytest.mark.parametrize(("older", "change"), [("OLD_RQ", "rq-order"), ("OLD_RD", "rd-lines")])
def test_older_kernel_builds_without_its_assertions(older: str, change: str) -> None:
    assert broken(older, changes=tuple(each for each in CHANGES if each != change)) == set()
    assert {rule.partition(".")[0] for rule in broken(older)} == {change}
