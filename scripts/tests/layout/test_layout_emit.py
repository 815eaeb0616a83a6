# SPDX-License-Identifier: GPL-2.0
"""The assertions: complete, balanced, true for the toy kernel that keeps the rules, and false for those that do not."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import toys

from schedlib.layout.emit import emit, read_guards
from schedlib.layout.tables import Clause, ClauseKind, Condition, Rules
from schedlib.paths import KUNIT

pytestmark = pytest.mark.tools

CHANGES = ("rq-order", "rd-lines", "cpupri-lines", "cpupri-split")
FIELDS_C = (KUNIT / "layout_fields.c").read_text()


def test_guards_are_read_for_every_member() -> None:
    body = re.sub(r"^#define (?:.*\\\n)*.*$", "", FIELDS_C, flags=re.M)
    assert len(read_guards().members) == len(re.findall(r"\b(?:MEMBER|IN_VECS)\(", body)) > 80
    assert len(read_guards().types) == len(re.findall(r"\bTYPE\(", body)) == 6


def test_guards() -> None:
    guards = read_guards()
    assert guards.members["rq", "nr_running"] == ()
    assert guards.members["rq", "nr_numa_running"] == ("defined(CONFIG_NUMA_BALANCING)",)
    assert guards.members["rq", "clock_idle_copy"] == ("!defined(CONFIG_64BIT)",)
    assert guards.members["root_domain", "rto_loop"] == ("defined(CONFIG_SMP)", "defined(HAVE_RT_PUSH_IPI)")
    assert guards.members["root_domain", "pd"] == ("defined(CONFIG_SMP)",)
    assert guards.types == {
        "rq": (),
        "cpupri_vec": (),
        "cpupri": (),
        "cpupri_line": ("defined(CONFIG_SCHED_CPUPRI_SPLIT)",),
        "cpupri_leaf": ("defined(CONFIG_SCHED_CPUPRI_SPLIT)",),
        "root_domain": ("defined(CONFIG_SMP)",),
    }


def test_guards_are_of_kinds_that_are_understood() -> None:
    table = FIELDS_C[: FIELDS_C.index("#define HOLDS")]
    assert set(re.findall(r"^#\s*(\w+)", table, re.M)) <= {"include", "define", "ifdef", "ifndef", "endif"}


def test_each_condition_is_decided_as_in_the_c_file() -> None:
    names = {"64BIT" if condition is Condition.BITS_64 else condition.name for condition in Condition}
    conditions = read_guards().conditions
    assert set(conditions) == names
    assert conditions["UP"] == "!IS_ENABLED(CONFIG_SMP)"
    assert conditions["MASK_8"] == "sizeof(cpumask_var_t) == 8"


def test_absent_changes_have_no_text() -> None:
    assert emit(toys.real_rules(), ()) == ""
    assert emit(toys.real_rules(), ("cluster-scan", "unheard-of")) == ""
    assert emit(toys.real_rules(), ("rq-order",)) != ""


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_has_its_own_rules_alone(change: str) -> None:
    rules = toys.real_rules()
    text = emit(rules, (change,))
    assert set(re.findall(r'REQUIRE\("([\w.-]+)"', text)) == {rule.id for rule in rules.rules if rule.change == change}
    assert f"that this tree has: {change}." in text


def requires(clause: Clause) -> list[str]:
    """The rule of each assertion that a single clause produces."""
    rules = toys.real_rules()
    owner = rules.rule(clause.rule)
    return re.findall(r'REQUIRE\("([\w.-]+)"', emit(Rules((owner,), (clause,), rules.kinds, rules.conditions), CHANGES))


def test_each_clause_is_asserted() -> None:
    rules = toys.real_rules()
    for clause in rules.clauses:
        if clause.rule in rules.changes():
            continue
        found = requires(clause)
        assert set(found) == (set() if clause.kind in (ClauseKind.ALONE, ClauseKind.UNBROKEN) else {clause.rule}), (
            clause
        )


def test_signs_are_not_asserted() -> None:
    rules = toys.real_rules()
    text = emit(rules, CHANGES)
    assert not [change for change in CHANGES if f'"{change}"' in text]
    without_signs = replace(rules, clauses=tuple(c for c in rules.clauses if c.rule not in CHANGES))
    assert emit(without_signs, CHANGES) == text


@pytest.mark.parametrize("changes", [CHANGES, *((change,) for change in CHANGES)])
def test_preprocessor_is_balanced(changes: tuple[str, ...]) -> None:
    depth = 0
    for line in emit(toys.real_rules(), changes).splitlines():
        depth += bool(re.match(r"#if", line)) - bool(re.match(r"#endif", line))
        assert 0 <= depth <= 1
    assert depth == 0


def test_braces_and_line_length() -> None:
    text = emit(toys.real_rules(), CHANGES)
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    assert code.count("(") == code.count(")")
    assert [line for line in text.splitlines() if len(line.expandtabs(8)) > 100] == []
    assert "\n\n\n" not in text


def test_conditions_that_are_used_are_defined() -> None:
    text = emit(toys.real_rules(), CHANGES)
    used = {name for needs in re.findall(r'REQUIRE\("[^"]+", ([^,]+),', text) for name in needs.split(" && ")}
    defined = set(re.findall(r"^#define (\w+)(?:\t|\()", text, re.M))
    assert used - {"1", "needs"} <= defined
    assert "LOCKS_DEBUGGED" not in emit(toys.real_rules(), ("cpupri-lines",))


def broken(*names: str, line: int = 64, changes: tuple[str, ...] = CHANGES) -> set[str]:
    """The rules whose assertions fail in a toy kernel."""
    source = toys.workshop() / "tests" / "layout_asserts.c"
    source.write_text(emit(toys.real_rules(), changes))
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
        (("-CONFIG_NUMA_BALANCING", "-HAVE_RT_PUSH_IPI"), 64),
        (("CONFIG_SCHED_PROXY_EXEC",), 64),
        (("CONFIG_DEBUG_SPINLOCK",), 64),
        (("CONFIG_SCHED_CPUPRI_SPLIT",), 64),
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
