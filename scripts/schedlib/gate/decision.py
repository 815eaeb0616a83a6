# SPDX-License-Identifier: GPL-2.0
"""The rules of the verdict. The same code decides a gate, and the simulated campaigns that validate it.

A gate looks at its boots at numbers that the gates file fixes. Each look may FAIL and spends an equal part of `alpha`,
the rate of a FAIL without a change. By Bonferroni's inequality the parts add up, whatever the looks have in common. A
PASS takes all boots: after 8, a candidate of which every fifth boot is bad has shown none in 17 % of the campaigns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from schedlib.gate import statistics
from schedlib.gate.rules import EXCESS, MOST_BAD
from schedlib.gate.statistics import Flags, Values

MISSED = 0.025
"""How often a PASS may be given although a metric is worse by `detect`."""

DOUBT = 0.25
"""No PASS if a change above the budget is shown at this level."""


@dataclass(frozen=True)
class Limits:
    """What metrics may do; arrays over the metrics, or one metric's numbers.

    Attributes:
        budget, detect: as shares of the base, or in the unit of the values if `absolute`.
        higher: whether more is better: the values were negated.
    """

    budget: Values
    detect: Values
    absolute: Flags
    higher: Flags

    def without(self, candidate: Values, change: Values) -> Values:
        """The candidate's values if it were better by this change."""
        factor = np.where(self.absolute, 1.0, np.where(self.higher, 1 - change, 1 + change))[..., None]
        return np.asarray((candidate - np.where(self.absolute, change, 0.0)[..., None]) / factor)


class LookEvidence(NamedTuple):
    """What the boots of one look say of each metric.

    Attributes:
        worse: p that the candidate is not worse.
        within: p that it is worse by `detect` or more.
        over_budget: whether the estimate of the change, less a step of the clock, is above the budget.
        doubtful: whether a change above the budget is shown at the level DOUBT.
        far, far_base: number of boots of each kernel that are bad: see far_boots().
    """

    worse: Values
    within: Values
    over_budget: Flags
    doubtful: Flags
    far: Values
    far_base: Values


def together(found: Iterable[LookEvidence]) -> LookEvidence:
    """What is said of several metrics."""
    return LookEvidence(*map(np.array, zip(*found, strict=True)))


class Decision(NamedTuple):
    """For each metric: whether it fails, whether it passes, Holm's p that it is not worse, and whether more boots may
    show that it is."""

    failed: Flags
    passed: Flags
    p: Values
    doubtful: Flags


def far_boots(base: Values, boots: Values, limits: Limits, step: Values | float) -> Flags:
    """Which boots of a kernel are bad: worse than the base's fence by more than `detect`.

    With normal values the fence is Tukey's, 2.7 standard deviations above the mean. It is found from the first
    quartile and from Q_n, the first quartile of the distances between any two boots, which is 0.45 standard deviations
    (Rousseeuw and Croux, Journal of the American Statistical Association 88, 1993). Half of the base's boots may be
    bad and move it little. One boot has no fence, so none is bad beside it.

    Args:
        step: of the clock; the fence is further by it, as boots of a coarse one have equal values, and Q_n is 0.
    """
    if base.shape[-1] < 2:
        return np.zeros(boots.shape, dtype=bool)
    distances = np.abs(base[..., :, None] - base[..., None, :])[..., *np.triu_indices(base.shape[-1], 1)]
    fence = np.quantile(base, 0.25, axis=-1) + 7.5 * np.quantile(distances, 0.25, axis=-1)
    return np.asarray(limits.without(boots, limits.detect) > fence[..., None] + step)


def look_evidence(
    base: Values, candidate: Values, limits: Limits, step: Values, *, means: bool = False, pairs: bool = False
) -> LookEvidence:
    """Evidence from as many boots of the base as of the candidate; larger is worse, the last axis is the boots.

    By ranks: a change in percent is a factor of all values, so nothing has to be estimated. With `means`, by
    permutations of the means, for rates.

    Args:
        pairs: the boots with the same place were booted one after the other, in an order drawn for each pair.
        step: one step of the clock, in the unit of the values, or infinite if nothing is known of it. A true value may
            be off by it. It is taken in the direction that makes the verdict less certain. With `means` it is what one
            sample makes, and only a PASS has to be beyond it.
    """
    p_of = partial(statistics.mean_p if means else statistics.worse_p, pairs=pairs)
    known = np.isfinite(step)
    step = np.where(known, step, 0.0)[..., None]
    budgeted = limits.without(candidate, limits.budget)
    lowest = limits.without(candidate - step, limits.budget)
    if means:
        over = statistics.mean_shift(base, budgeted) > 0
        doubtful = p_of(base, budgeted) <= DOUBT
    else:
        over = statistics.count_worse(base, lowest) > base.shape[-1] ** 2 / 2
        doubtful = statistics.rank_p(base, budgeted) <= DOUBT
    within = p_of(limits.without(candidate + step, limits.detect), base)
    far, far_base = (np.asarray(far_boots(base, each, limits, step).sum(axis=-1), float) for each in (candidate, base))
    within = np.where(known, within, 1.0)
    return LookEvidence(p_of(base, candidate), within, np.asarray(over & known), np.asarray(doubtful), far, far_base)


def excess(far: Values, far_base: Values, boots: int) -> Values:
    """How much larger the candidate's share of bad boots may be than the base's, at the level MISSED / 2."""
    return statistics.difference_of_shares(far_base, far, boots, MISSED / 2)


def allowed(far: Values, far_base: Values, boots: int) -> Flags:
    """Whether so many bad boots of so many allow a PASS: none of either kernel, or few, and EXCESS is excluded."""
    few = (far <= MOST_BAD * boots) & (excess(far, far_base, boots) < EXCESS)
    return np.asarray((far + far_base == 0) | few)


def decide(
    evidence: LookEvidence, alpha: float, looks: Sequence[int], family: int, boots: int, *, early: bool = False
) -> Decision:
    """Decide each metric at one of the looks, after so many boots of each kernel.

    A metric fails if Holm's p that it is not worse is at most alpha / looks, and the estimate is over the budget. It
    passes at the last look if a change of `detect` is excluded at the level MISSED, no change above the budget is in
    sight, and its bad boots allow it (see far_boots()). Each of these is monotone: worse values of the candidate can
    only make its result worse.

    Args:
        family: the number of metrics that are tested.
        early: each look can pass, as the boots are those of many machines, and spends a part of MISSED. An earlier one
            cannot with an estimate over the budget: more boots could show that it is.
    """
    last = boots == looks[-1]
    doubtful = evidence.doubtful if last else evidence.doubtful | evidence.over_budget
    level = MISSED / len(looks) if early else MISSED * last
    p = statistics.holm(evidence.worse, family)
    failed = (p <= alpha / len(looks)) & evidence.over_budget
    passed = (evidence.within <= level) & ~doubtful & allowed(evidence.far, evidence.far_base, boots)
    return Decision(failed, passed & ~failed, p, doubtful)
