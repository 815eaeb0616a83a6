# SPDX-License-Identifier: GPL-2.0
"""No worse candidate gets a better verdict: if values become worse, FAIL stays and INCONCLUSIVE never becomes PASS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from schedlib.formats.gate_document import Method
from schedlib.formats.run_file import Direction
from schedlib.gate.boots import About, Boot, Figure, Side
from schedlib.gate.judging import judge
from schedlib.gate.rules import Gate, GateRule
from schedlib.verdict import Verdict

SEVERITY = {Verdict.PASS: 0, Verdict.INCONCLUSIVE: 1, Verdict.ERROR: 2, Verdict.FAIL: 3}
BETTER: tuple[Direction, ...] = ("lower", "higher")
BOOTS = 5
TOOL = "tool"
KINDS = {Method.RANK: "quantile", Method.RATE: "exceedance", Method.EQUAL: "exact"}

Table = list[list[int]]
"""Boots x metrics."""


def _side(name: str, rules: Sequence[GateRule], table: Table) -> Side:
    boots = []
    for place, values in enumerate(table):
        slot = 2 * place + ((place % 2) ^ (name == "candidate"))
        figures = {rule.key: Figure([float(value)], 10_000) for rule, value in zip(rules, values, strict=True)}
        boots.append(Boot(f"{name}{place}", float(slot), Counter([TOOL]), figures))
    about = {rule.key: About("ns", rule.direction, KINDS[rule.method]) for rule in rules}
    return Side(name, tuple(boots), about)


@st.composite
def campaigns(draw: st.DrawFn) -> tuple[list[GateRule], Table, Table, Table]:
    """Rules, a base, a candidate, and the candidate with some values made worse."""
    methods = draw(st.lists(st.sampled_from(list(Method)), min_size=1, max_size=3))
    rules = []
    for place, method in enumerate(methods):
        direction: Direction = draw(st.sampled_from(BETTER))
        absolute = method is Method.RATE or draw(st.booleans())
        budget = draw(st.sampled_from([0.0, 3.0, 10.0]))
        detect = budget + draw(st.sampled_from([1.0, 5.0, 50.0]))
        rules.append(GateRule(TOOL, f"m{place}", direction, method, budget, detect, absolute, ""))
    spread = draw(st.sampled_from([2, 10, 300]))
    value = st.integers(100, 100 + spread)
    count = draw(st.sampled_from([BOOTS - 1, BOOTS, 2 * BOOTS, 2 * BOOTS, 2 * BOOTS + 1]))
    row = st.lists(value, min_size=len(rules), max_size=len(rules))
    tables = st.lists(row, min_size=count, max_size=count)
    base, candidate = draw(tables), draw(tables)
    shift = draw(st.sampled_from([0, 0, 20, 90]))
    sign = [1 if rule.direction == "lower" else -1 for rule in rules]
    candidate = [[value + shift * s for value, s in zip(values, sign, strict=True)] for values in candidate]
    more = st.lists(st.sampled_from([0, 0, 1, 5, 100]), min_size=len(rules), max_size=len(rules))
    worse = [
        [max(0, value + s * extra) for value, s, extra in zip(values, sign, draw(more), strict=True)]
        for values in candidate
    ]
    candidate = [[max(0, value) for value in values] for values in candidate]
    return rules, base, candidate, worse


def _gate(rules: list[GateRule]) -> Gate:
    return Gate("g", 0.05, (BOOTS, 2 * BOOTS), (), True, tuple(rules))


@settings(max_examples=60, deadline=None)
@given(campaigns())
def test_worse_is_never_better(campaign: tuple[list[GateRule], Table, Table, Table]) -> None:
    rules, base, candidate, worse = campaign
    before = judge(_gate(rules), _side("base", rules, base), _side("candidate", rules, candidate))
    after = judge(_gate(rules), _side("base", rules, base), _side("candidate", rules, worse))
    # Of the gate, not of each row: a metric that gets worse may end the gate before another one is settled.
    verdicts = [max((row.verdict for row in rows), key=lambda each: SEVERITY[each]) for rows in (before, after)]
    assert SEVERITY[verdicts[1]] >= SEVERITY[verdicts[0]], (before, after)


def test_the_property_can_fail_and_can_pass() -> None:
    """Fixed tables of this kind reach PASS, FAIL and INCONCLUSIVE."""
    rule = GateRule(TOOL, "m0", "lower", Method.RANK, 3.0, 50.0, False, "")
    same, slow = ([[value + place % 3] for place in range(2 * BOOTS)] for value in (100, 200))
    base = _side("base", [rule], same)
    wanted = ((same, Verdict.PASS), (slow, Verdict.FAIL), (slow[: BOOTS - 1], Verdict.INCONCLUSIVE))
    for table, verdict in wanted:
        assert judge(_gate([rule]), base, _side("candidate", [rule], table))[0].verdict is verdict
