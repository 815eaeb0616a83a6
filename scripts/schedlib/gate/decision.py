# SPDX-License-Identifier: GPL-2.0
"""The rules of the verdict. The same code decides a gate, and the simulated campaigns that validate it."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from schedlib.gate import statistics
from schedlib.gate.statistics import CONFIRM, Flags, Values


@dataclass(frozen=True)
class BootEvidence:
    """Statistics of the boots; larger values are worse. The last axis is the gating metrics; shifts are in their unit.

    Attributes:
        first: p of the first batch.
        confirm: p of the confirmation; None if there is none.
        shift_first: how much worse the candidate is in the first batch.
        shift: the same for all judged boots.
        low, high: the interval of `shift`.
        floor: the A/A floor, from the base's boots.
        centre: the base's median, to which percentages refer.
    """

    first: Values
    confirm: Values | None
    shift_first: Values
    shift: Values
    low: Values
    high: Values
    floor: Values
    centre: Values


@dataclass(frozen=True)
class Decision:
    """For each metric: whether the first batch trips, the gate fails, and a change of `detect` is excluded."""

    tripped: Flags
    failed: Flags
    excluded: Flags
    p: Values


def boot_evidence(
    base: Values, candidate: Values, again: tuple[Values, Values] | None, *, means: bool = False
) -> BootEvidence:
    """Evidence from the values of a first batch and, if there is one, of its confirmation.

    By the Mann-Whitney test, for arrays of any shape whose last axis is the boots; with `means` by the permutation test
    of means, for one metric.
    """
    ranks = statistics.rank_p, statistics.shift, statistics.shift_interval
    by_means = statistics.mean_p, statistics.mean_shift, statistics.mean_interval
    p_of, shift_of, interval_of = by_means if means else ranks
    all_base = base if again is None else np.concatenate([base, again[0]], axis=-1)
    all_candidate = candidate if again is None else np.concatenate([candidate, again[1]], axis=-1)
    low, high = interval_of(all_base, all_candidate)
    return BootEvidence(
        np.asarray(p_of(base, candidate)),
        None if again is None else np.asarray(p_of(*again)),
        np.asarray(shift_of(base, candidate)),
        np.asarray(shift_of(all_base, all_candidate)),
        np.asarray(low),
        np.asarray(high),
        statistics.floor(all_base),
        np.asarray(np.median(all_base, axis=-1)),
    )


def together(evidence: list[BootEvidence]) -> BootEvidence:
    """Combine the evidence of several metrics: one array for each entry, with the metrics as last axis."""

    def column(name: str) -> Values:
        return np.array([getattr(each, name) for each in evidence])

    confirm = None if any(each.confirm is None for each in evidence) else column("confirm")
    others = {each.name: column(each.name) for each in fields(BootEvidence) if each.name != "confirm"}
    return BootEvidence(confirm=confirm, **others)


def decide(evidence: BootEvidence, budget: Values, detect: Values, alpha: float) -> Decision:
    """Decide each metric. Budget and detect are in the values' unit; alpha is for the whole gate.

    A metric trips if the first batch's p is at most alpha / CONFIRM and its shift is over the budget. It fails if it
    tripped, Holm's p of both batches is at most alpha, and the point estimate of the shift of all boots is over the
    budget and the floor. It passes if the interval of all boots excludes a change of `detect`, and the floor is below
    `detect`. Each of these is monotone: worse values of the candidate can only make its result worse.
    """
    tripped = (evidence.first <= alpha / CONFIRM) & (evidence.shift_first > budget)
    if evidence.confirm is None:
        p = statistics.holm(evidence.first)
        failed = np.zeros_like(tripped)
    else:
        p = statistics.holm(statistics.two_batches(evidence.first, evidence.confirm, alpha))
        failed = tripped & (p <= alpha) & (evidence.shift > np.maximum(budget, evidence.floor))
    excluded = (evidence.high < detect) & (evidence.floor < detect)
    return Decision(tripped, failed, excluded, p)
