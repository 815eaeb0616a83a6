# SPDX-License-Identifier: GPL-2.0
"""What breaks a clause is told; what cannot be judged is n/a, with the reason. test_layout_mirror.py has twins."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import toys
from toys import clause, layout, rules_of, structure, toy

from schedlib.contracts.contract_rules import Clause
from schedlib.formats.contract_file import ANY_LINE, LAST_LINE, ClauseKind
from schedlib.layout.members import Field, Member, Structure, Type
from schedlib.layout.rule_judge import (
    Layout,
    RuleOutcome,
    describe,
    happened,
    judge_clause,
    judge_rule,
    presence_of,
    share_line,
)
from schedlib.paths import KUNIT
from schedlib.tree.source import Presence

pytestmark = pytest.mark.tools


def rq(*members: tuple[str, int, int], size: int = 256, align: int | None = 64) -> Layout:
    """A layout that has only struct rq."""
    return layout(structure("rq", size, *members, align=align))


def outcome(what: Clause, where: Layout) -> tuple[RuleOutcome, str]:
    """The outcome of a clause and its reason."""
    result = judge_clause(what, where)
    return result.outcome, result.reason


HAPPENED = [
    (clause(ClauseKind.ALIGNED, "a"), rq(("a", 72, 8)), "a (line 1) begins no line"),
    (clause(ClauseKind.ON_LINE, "a b", 1), rq(("a", 64, 8), ("b", 120, 9)), "b (lines 1-2) not on line 1"),
    (clause(ClauseKind.ON_LINE, "a b", ANY_LINE), rq(("a", 0, 8), ("b", 64, 8)), "b (line 1) not on line 0 with a"),
    (
        clause(ClauseKind.ON_LINE, "a b", ANY_LINE),
        rq(("a", 60, 8), ("b", 72, 8)),
        "a (lines 0-1), b (line 1) not on one line",
    ),
    (clause(ClauseKind.APART, "a b"), rq(("a", 0, 8), ("b", 56, 8)), "a on a line with b"),
    (clause(ClauseKind.ALONE, "a"), rq(("c", 0, 66), ("a", 72, 8)), "c on line 1, kept for a"),
    (clause(ClauseKind.UNBROKEN, "a b"), rq(("a", 0, 8), ("c", 8, 4), ("b", 16, 8)), "c between a, b"),
    (clause(ClauseKind.FOLLOWS, "b a"), rq(("b", 0, 8), ("a", 8, 8)), "b before a"),
    (clause(ClauseKind.SAME_OFFSET, "a b"), rq(("a", 8, 8), ("b", 16, 8)), "b: b (line 0)"),
    (clause(ClauseKind.OWN_OFFSET, "a b"), rq(("a", 8, 8), ("b", 8, 8)), "a and b: a (line 0)"),
    (clause(ClauseKind.HEADROOM, "a b", 8), rq(("a", 0, 8), ("b", 49, 8)), "7 bytes left behind b, 8 are kept"),
    (clause(ClauseKind.TYPE_ALIGNED), rq(align=32), "struct rq is aligned to 32"),
    (clause(ClauseKind.TYPE_PADDED), rq(size=250), "struct rq has 250 bytes"),
    (
        clause(ClauseKind.TYPE_MOST, "a", 56),
        rq(("a", 8, 7), size=64),
        "struct rq has 57 bytes beside a, 56 are the most",
    ),
    (clause(ClauseKind.TYPE_MOST, "", 64), rq(size=65), "struct rq has 65 bytes, 64 are the most"),
    (
        clause(ClauseKind.TYPE_GAPS, "", 0),
        rq(("a", 0, 16), size=17),
        "struct rq has 1 bytes that no member has, 0 are the most",
    ),
]


@pytest.mark.parametrize(
    ("what", "where", "said"), HAPPENED, ids=lambda value: getattr(value, "kind", None) and value.kind.name
)
def test_what_happened_is_told_member_first(what: Clause, where: Layout, said: str) -> None:
    assert happened(judge_clause(what, where), where) == said


def array(first: int, stride: int, count: int = 3) -> Field:
    """A member of every element of an array."""
    return Field("rq", "v[0].a", first, 8, count, stride)


def test_every_element_of_an_array_is_looked_at() -> None:
    where = rq()
    single = Field("rq", "b", 256, 8, 1, 0)
    assert not share_line(array(0, 64), single, where)
    assert share_line(array(0, 64, 5), single, where) and share_line(single, array(0, 64, 5), where)
    aligned = clause(ClauseKind.ALIGNED, "v[0].a")
    for stride, expected in ((64, RuleOutcome.PASS), (72, RuleOutcome.FAIL)):
        whole = Structure(Type("rq", 3 * stride, 64), (Member("v", "struct vec", 0, 3 * stride, 3),))
        assert outcome(aligned, layout(whole, structure("vec", stride, ("a", 0, 8))))[0] is expected


A_B = rq(("a", 0, 8), ("b", 64, 8))
ALONE = clause(ClauseKind.ALONE, "a b")
APART = clause(ClauseKind.APART, "a b c")
NEEDS_B = replace(clause(ClauseKind.ALONE, "a"), requires=("b",))
SMP = clause(ClauseKind.ALIGNED, "a", needs=("CONFIG_SMP", "64bit"))
UNION = (("a", 0, 8), ("b", 8, 8), ("other_name_of_b", 8, 8))
NOTHING = "nothing to compare with in this configuration"
UNKNOWN = "whether it has CONFIG_SMP is not known without its configuration"
PASS, FAIL, NA = RuleOutcome.PASS, RuleOutcome.FAIL, RuleOutcome.NA


@pytest.mark.parametrize(
    ("what", "where", "expected", "reason"),
    [
        # A line is as long as the layout says.
        (clause(ClauseKind.APART, "a b"), A_B, PASS, ""),
        (clause(ClauseKind.APART, "a b"), replace(A_B, line=128), FAIL, ""),
        # What overlaps a listed member is no stranger.
        (ALONE, rq(*UNION), PASS, ""),
        (ALONE, rq(*UNION[:2], ("longer_than_b", 8, 9)), FAIL, ""),
        (ALONE, rq(*UNION[:2], ("empty", 20, 0)), PASS, ""),
        # A member that a kernel lacks is left out; without some a clause says nothing.
        (APART, A_B, PASS, ""),
        (APART, rq(("a", 0, 8), ("b", 8, 8)), FAIL, ""),
        (clause(ClauseKind.ALIGNED, "c d"), A_B, NA, "no rq.c d in this configuration"),
        (NEEDS_B, rq(("a", 0, 8), ("c", 8, 8)), NA, "no rq.b in this configuration"),
        (NEEDS_B, rq(("a", 0, 8), ("c", 8, 8), ("b", 64, 8)), FAIL, ""),
        # A comparison with nothing is no pass. One member is enough where nothing is compared.
        (APART, rq(("a", 0, 8)), NA, NOTHING),
        (clause(ClauseKind.ON_LINE, "a b", ANY_LINE), rq(("a", 0, 8)), NA, NOTHING),
        (clause(ClauseKind.STARTS_ON, "a b", ANY_LINE), rq(("a", 0, 8)), NA, NOTHING),
        (clause(ClauseKind.UNBROKEN, "a b"), rq(("a", 0, 8)), NA, NOTHING),
        (clause(ClauseKind.SAME_OFFSET, "a b"), rq(("a", 0, 8)), NA, NOTHING),
        (clause(ClauseKind.ALIGNED, "a b"), rq(("a", 0, 8)), PASS, ""),
        (clause(ClauseKind.ON_LINE, "a b", 0), rq(("a", 0, 8)), PASS, ""),
        (ALONE, rq(("a", 0, 8)), PASS, ""),
        (clause(ClauseKind.TYPE_PADDED, tag="root_domain"), A_B, NA, "no struct root_domain in this configuration"),
        # Conditions: the first that is lacking is told.
        (SMP, A_B, NA, "needs CONFIG_SMP"),
        (SMP, replace(A_B, unknown=frozenset({"CONFIG_SMP"})), NA, UNKNOWN),
        (SMP, replace(A_B, holds=A_B.holds | {"CONFIG_SMP"}), PASS, ""),
        (
            clause(ClauseKind.ALIGNED, "a", needs=("!CONFIG_SMP", "mask == 8", "line == 64")),
            A_B,
            NA,
            "needs CONFIG_SMP=n",
        ),
        # The size of a type is a multiple of its alignment, which may not be recorded.
        (clause(ClauseKind.TYPE_ALIGNED), rq(align=None), NA, "the alignment of a type is not recorded there"),
        (clause(ClauseKind.TYPE_ALIGNED), rq(size=250, align=None), FAIL, ""),
        (clause(ClauseKind.TYPE_ALIGNED), rq(size=256, align=64), PASS, ""),
    ],
)
def test_clause(what: Clause, where: Layout, expected: RuleOutcome, reason: str) -> None:
    assert outcome(what, where) == (expected, reason)


SIGN = clause(ClauseKind.FOLLOWS, "b a", rule="x")
SIGN_2 = clause(ClauseKind.ALIGNED, "b", rule="x")
RULE = clause(ClauseKind.APART, "a b")
MISSING = clause(ClauseKind.ALIGNED, "c")
UNMET = replace(SIGN, needs=frozenset({"CONFIG_SMP"}))
PARTIAL = rq(("a", 0, 8), ("b", 8, 8))
ABSENT = rq(("b", 4, 4), ("a", 8, 8))


@pytest.mark.parametrize(
    ("where", "presence", "judged", "expected"),
    [
        (A_B, Presence.PRESENT, PASS, PASS),
        (PARTIAL, Presence.PARTIAL, FAIL, FAIL),
        (ABSENT, Presence.ABSENT, NA, FAIL),
        (rq(("c", 0, 8)), Presence.NA, NA, NA),
    ],
    ids=["present", "partial", "absent", "n/a"],
)
def test_presence_decides_what_is_judged(
    where: Layout, presence: Presence, judged: RuleOutcome, expected: RuleOutcome
) -> None:
    rules = rules_of(SIGN, SIGN_2, RULE)
    assert presence_of(rules, "x", where)[0] is presence
    assert judge_rule(rules, "x.R1", where).outcome is judged
    assert judge_rule(rules, "x.R1", where, frozenset({"other"})).outcome is judged
    assert judge_rule(rules, "x.R1", where, frozenset({"x"})).outcome is expected


@pytest.mark.parametrize(
    ("clauses", "where", "expected", "reason"),
    [
        # An absent change is explained. A rule without signs that apply is judged.
        (
            (SIGN, RULE),
            ABSENT,
            NA,
            "x is not in this tree (unmet: struct rq: these lie behind the others: b; others: a)",
        ),
        ((UNMET, RULE), A_B, PASS, ""),
        ((UNMET, RULE), PARTIAL, FAIL, ""),
        # It holds when all its clauses do that can be judged.
        ((SIGN, RULE), A_B, PASS, ""),
        ((SIGN, RULE, clause(ClauseKind.HEADROOM, "b", 60)), A_B, FAIL, ""),
        ((SIGN, RULE, MISSING), A_B, PASS, ""),
        ((SIGN, MISSING), A_B, NA, "no rq.c in this configuration"),
        ((SIGN,), A_B, NA, "no clause"),
    ],
)
def test_rule(clauses: tuple[Clause, ...], where: Layout, expected: RuleOutcome, reason: str) -> None:
    result = judge_rule(rules_of(*clauses), "x.R1", where)
    assert (result.outcome, result.reason) == (expected, reason)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (clause(ClauseKind.ON_LINE, "a b", ANY_LINE), "struct rq: all lie entirely on one line: a b"),
        (clause(ClauseKind.ON_LINE, "a b", 3), "struct rq: all lie entirely on line 3: a b"),
        (clause(ClauseKind.STARTS_ON, "a", LAST_LINE), "struct rq: all start on line 3: a"),
        (clause(ClauseKind.STARTS_ON, "a", LAST_LINE, tag="cpupri"), "struct cpupri: all start on the last line: a"),
        (clause(ClauseKind.HEADROOM, "a", 4), "struct rq: bytes left on the line of the last, at least 4: a"),
        (clause(ClauseKind.TYPE_PADDED), "struct rq: the type's size is whole lines"),
        # sched-avg.G2 said `without them`, and named nothing.
        (clause(ClauseKind.TYPE_MOST, "", 64), "struct rq: bytes of the type, at most 64"),
        (clause(ClauseKind.TYPE_MOST, "a", 64), "struct rq: bytes of the type without them, at most 64: a"),
    ],
)
def test_clause_in_words(what: Clause, said: str) -> None:
    assert describe(judge_clause(what, A_B), A_B) == said


def judged(where: Layout, *expected: str) -> dict[str, RuleOutcome]:
    """The outcome of each of the project's rules."""
    rules = toys.real_rules()
    return {rule.id: judge_rule(rules, rule.id, where, frozenset(expected)).outcome for rule in rules.rules}


def failing(where: Layout, *expected: str) -> set[str]:
    """The project's rules that fail."""
    return {name for name, found in judged(where, *expected).items() if found is FAIL}


@pytest.mark.parametrize(
    ("names", "lacking"),
    [
        ((), "cpupri-lines.C5 cpupri-split.L1 cpupri-split.L2 cpupri-split.L3 cpupri-split.L4"),
        (("CONFIG_SCHED_CPUPRI_SPLIT",), "cpupri-lines.C5 cpupri.S1 cpupri-split.L4"),
        (("CONFIG_SCHED_CPUPRI_SBM",), "cpupri-lines.C5 cpupri.S1 cpupri-split.L1 cpupri-split.L2"),
    ],
)
def test_toy_kernel_keeps_every_rule(names: tuple[str, ...], lacking: str) -> None:
    others = [name for name, found in judged(toy(*names)).items() if found is not PASS]
    assert others == [*lacking.split(), "rq-readers.Q10", "rq-readers.Q11"] and failing(toy(*names)) == set()
    assert judged(toy("-CONFIG_SMP"))["cpupri-lines.C5"] is PASS


@pytest.mark.parametrize(
    ("wrong", "broken"),
    [
        ("STRANGER", "rq-order.Q2"),
        ("WIDE", "rq-order.Q1 rq-order.Q2"),
        ("LOOPS_APART", "rd-lines.R5 rd-lines.R7 rd-lines.R8"),
    ],
)
def test_toy_kernel_that_breaks_a_rule(wrong: str, broken: str) -> None:
    assert failing(toy(wrong)) == {*broken.split()}


@pytest.mark.parametrize(
    ("older", "change"), [("OLD_RQ", "rq-order"), ("OLD_RD", "rd-lines"), ("TOGETHER", "cpupri-lines")]
)
def test_older_toy_kernel(older: str, change: str) -> None:
    rules = toys.real_rules()
    its_own = {rule.id for rule in rules.rules if rule.change == change}
    assert presence_of(rules, change, toy(older))[0] is Presence.ABSENT
    assert presence_of(rules, change, toy())[0] is Presence.PRESENT
    assert {name for name in its_own if judged(toy(older))[name] is not NA} == set()
    assert its_own - failing(toy(older), change) <= {"cpupri-lines.C5"}


def test_the_kernel_names_presences_as_this_module_does() -> None:
    kunit = (KUNIT / "sched_layout_kunit.c").read_text()
    names = re.findall(r'"([\w/]+)"', re.findall(r"presence_names.*", kunit)[0])
    assert names == [*(value.value for value in Presence), "unknown"]
