# SPDX-License-Identifier: GPL-2.0
"""The two error rates hold over all looks together, and would not if each look spent its error in full.

The boots of both kernels are exchangeable: dependent, drifting boots in random order. Bounds are four standard
deviations above what is promised. And no worse candidate gets a better verdict: if values become worse, FAIL stays and
INCONCLUSIVE never becomes PASS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlib.formats.gate_document import Method
from schedlib.formats.run_file import Direction
from schedlib.gate.boots import About, Boot, Figure, Side
from schedlib.gate.decision import MISSED, Limits, decide, look_evidence
from schedlib.gate.judging import judge
from schedlib.gate.rules import Gate, GateRule
from schedlib.gate.statistics import Values, step_of
from schedlib.verdict import Verdict

pytestmark = pytest.mark.slow

CAMPAIGNS = 4000
ALPHA = 0.05
RANK_LOOKS = (8, 12, 16, 20)
RATE_LOOKS = (5, 6, 7, 8)
"""So few boots that every labelling is counted."""


@dataclass(frozen=True)
class Metrics:
    """What is judged. higher: the values are negated."""

    count: int
    rates: bool = False
    higher: bool = False

    @property
    def looks(self) -> tuple[int, ...]:
        return RATE_LOOKS if self.rates else RANK_LOOKS

    def boots(self, lot: np.random.Generator) -> tuple[Values, Values]:
        """Both kernels' values; larger is worse."""
        shape = (CAMPAIGNS, self.count, 2 * self.looks[-1])
        walk = np.exp(0.05 * np.cumsum(lot.standard_t(3, shape), axis=-1))
        values = lot.permuted(lot.poisson(20 * np.clip(walk, 0.1, 10)) * 1.0 if self.rates else walk, axis=-1)
        values = -values if self.higher else values
        return values[..., : self.looks[-1]], values[..., self.looks[-1] :]

    def limits(self, budget: float, detect: float) -> Limits:
        """Shares, or for rates numbers."""
        flags = np.full(self.count, self.rates), np.full(self.count, self.higher)
        return Limits(np.full(self.count, budget), np.full(self.count, detect), *flags)

    def changed(self, candidate: Values, change: float) -> Values:
        """The candidate if it is worse by this change."""
        if self.rates:
            return candidate + change
        return np.asarray(candidate * (1 - change if self.higher else 1 + change))


def spent(metrics: Metrics, family: int, change: float, parts: int, *, early: bool = False) -> tuple[float, float]:
    """Shares of campaigns that FAIL and that PASS at any look, if each look may spend 1 / parts of the error."""
    base, candidate = metrics.boots(np.random.default_rng(20261123))
    candidate = metrics.changed(candidate, change)
    # Without a change any is over the budget, and with one it is not: so only the tests decide.
    limits = metrics.limits(change, change or 0.5)
    failed, passed = np.zeros(CAMPAIGNS, dtype=bool), np.zeros(CAMPAIGNS, dtype=bool)
    for look in metrics.looks:
        step = np.zeros(base.shape[:-1]) if metrics.rates else step_of(base[..., :look])
        evidence = look_evidence(base[..., :look], candidate[..., :look], limits, step, means=metrics.rates)
        said = decide(evidence, ALPHA, [*[0] * (parts - 1), metrics.looks[-1]], family, look, early=early)
        failed |= said.failed.any(axis=-1)
        passed |= said.passed.all(axis=-1)
    return float(failed.mean()), float(passed.mean())


def bound(promised: float) -> float:
    """What chance does not exceed."""
    return float(promised + 4 * np.sqrt(promised * (1 - promised) / CAMPAIGNS))


SAME_FAMILY = [Metrics(4), Metrics(4, higher=True), Metrics(1, rates=True)]


@pytest.mark.parametrize("metrics", SAME_FAMILY)
def test_fail_without_a_change(metrics: Metrics) -> None:
    assert spent(metrics, metrics.count, 0.0, len(metrics.looks))[0] <= bound(ALPHA)


@pytest.mark.parametrize("metrics", [Metrics(4), Metrics(2, rates=True)])
def test_metrics_that_are_absent_make_it_stricter(metrics: Metrics) -> None:
    """Two thirds of the family are not there. They count as not worse."""
    count, looks = metrics.count, len(metrics.looks)
    fails = spent(metrics, 3 * count, 0.0, looks)[0]
    assert fails <= bound(ALPHA / 3)
    assert fails <= spent(metrics, count, 0.0, looks)[0]


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("metrics", [Metrics(1), Metrics(1, higher=True), Metrics(1, rates=True)])
def test_pass_at_detect(metrics: Metrics, early: bool) -> None:
    change = 5.0 if metrics.rates else 0.15
    assert spent(metrics, 1, change, len(metrics.looks), early=early)[1] <= bound(MISSED)


@pytest.mark.parametrize("metrics", SAME_FAMILY)
def test_a_look_that_spends_all_of_alpha_fails_too_often(metrics: Metrics) -> None:
    """The mutant of the first test."""
    assert spent(metrics, metrics.count, 0.0, 1)[0] > bound(ALPHA)


def test_a_look_that_spends_all_of_missed_passes_too_often() -> None:
    """The mutant of the test at detect."""
    assert spent(Metrics(1, rates=True), 1, 5.0, 1, early=True)[1] > bound(MISSED)


# ---- worse is never better ----

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
