# SPDX-License-Identifier: GPL-2.0
"""The two error rates hold over all looks together, and would not if each look spent its error in full.

The boots of both kernels are exchangeable: dependent, drifting boots in random order. Bounds are four standard
deviations above what is promised.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from schedlib.gate.decision import MISSED, Limits, decide, look_evidence
from schedlib.gate.statistics import Values, step_of

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


def spent(metrics: Metrics, family: int, change: float, parts: int) -> tuple[float, float]:
    """Shares of campaigns that FAIL and that PASS at any look, if each look may spend 1 / parts of the error."""
    base, candidate = metrics.boots(np.random.default_rng(20261123))
    candidate = metrics.changed(candidate, change)
    # Without a change any is over the budget, and with one it is not: so only the tests decide.
    limits = metrics.limits(change, change or 0.5)
    failed, passed = np.zeros(CAMPAIGNS, dtype=bool), np.zeros(CAMPAIGNS, dtype=bool)
    for look in metrics.looks:
        step = np.zeros(base.shape[:-1]) if metrics.rates else step_of(base[..., :look])
        evidence = look_evidence(base[..., :look], candidate[..., :look], limits, step, means=metrics.rates)
        said = decide(evidence, ALPHA, [*[0] * (parts - 1), metrics.looks[-1]], family, look)
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


@pytest.mark.parametrize("metrics", [Metrics(1), Metrics(1, higher=True), Metrics(1, rates=True)])
def test_pass_at_detect(metrics: Metrics) -> None:
    change = 5.0 if metrics.rates else 0.15
    assert spent(metrics, 1, change, len(metrics.looks))[1] <= bound(MISSED)


@pytest.mark.parametrize("metrics", SAME_FAMILY)
def test_a_look_that_spends_all_of_alpha_fails_too_often(metrics: Metrics) -> None:
    """The mutant of the first test."""
    assert spent(metrics, metrics.count, 0.0, 1)[0] > bound(ALPHA)


def test_a_look_that_spends_all_of_missed_passes_too_often() -> None:
    """The mutant of the test at detect."""
    assert spent(Metrics(1, rates=True), 1, 5.0, 1)[1] > bound(MISSED)
