# SPDX-License-Identifier: GPL-2.0
"""The gate on simulated campaigns: how often it fails identical kernels, and how often it catches a change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

from schedlib.dev.gate_proof.noise_models import Model
from schedlib.formats.bench_gate_document import SimulationResult
from schedlib.gate.decision import boot_evidence, decide
from schedlib.gate.statistics import Flags, Values, upper_tail

Rule = Callable[[Values, Values], Flags]

METRICS = 5
BOOTS = 10
BUDGET = 0.03
DETECT = 0.25
ALPHA = 0.01
_CHUNK = 500


# The decision rules of other tools, from their source, for the same boots; larger is worse. Each returns the metrics
# that it reports as worse. None has a confirmation or a correction for several metrics.


def benchstat(base: Values, candidate: Values) -> Flags:
    """golang/perf benchmath: two-sided Mann-Whitney, alpha 0.05; the direction by the medians."""
    u = (candidate[..., :, None] > base[..., None, :]).sum(axis=(-1, -2))
    return np.asarray(2 * upper_tail(base.shape[-1], candidate.shape[-1])[u] < 0.05)


def google_benchmark(base: Values, candidate: Values) -> Flags:
    """google/benchmark tools/gbench/report.py: scipy's mannwhitneyu with its defaults, alpha 0.05."""
    p = stats.mannwhitneyu(base, candidate, alternative="two-sided", axis=-1).pvalue
    return np.asarray((p < 0.05) & (np.median(candidate, axis=-1) > np.median(base, axis=-1)))


def mmtests(base: Values, candidate: Values) -> Flags:
    """mmtests Stat.pm: a star if the difference of means is over the sum of 1.96 standard deviations of each."""
    widths = 1.96 * (base.std(axis=-1, ddof=1) + candidate.std(axis=-1, ddof=1))
    return np.asarray(candidate.mean(axis=-1) - base.mean(axis=-1) > widths)


def lkp(base: Values, candidate: Values) -> Flags:
    """lkp lib/changed_stat.rb, plain compare: each median is outside the other's range, and the ratio is over 1.05."""
    middle, other = np.median(base, axis=-1), np.median(candidate, axis=-1)
    apart = (other > base.max(axis=-1)) & (candidate.min(axis=-1) > middle)
    return np.asarray(apart & (other > 1.05 * middle))


def otava(base: Values, candidate: Values) -> Flags:
    """Otava analysis.py at a known change point: t test on deviations with ddof=0, p < 0.001."""
    sides = [(side.mean(axis=-1), side.std(axis=-1), side.shape[-1]) for side in (base, candidate)]
    p = stats.ttest_ind_from_stats(*sides[0], *sides[1]).pvalue
    return np.asarray((p < 0.001) & (candidate.mean(axis=-1) > base.mean(axis=-1)))


RIVALS: dict[str, Rule] = {
    "benchstat": benchstat,
    "google/benchmark": google_benchmark,
    "mmtests": mmtests,
    "lkp": lkp,
    "Otava": otava,
}


def slots(order: str, boots: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which slots of a batch are the candidate's: ABBA, or blocks."""
    if order == "ABBA":
        return np.tile([False, True, True, False], boots)[: 2 * boots]
    return np.repeat([False, True], boots)


def simulate(
    model: Model,
    seed: int,
    campaigns: int,
    worse: float = 0.0,
    order: str = "ABBA",
    correlated: bool = False,
    budget: float = BUDGET,
) -> SimulationResult:
    """Simulate campaigns of two batches of 10 boots of each kernel. The first of 5 metrics is worse by this share."""
    lot = np.random.default_rng(seed)
    counts = np.zeros(4)
    rivals = {name: np.zeros(4) for name in RIVALS}
    for done in range(0, campaigns, _CHUNK):
        size = min(_CHUNK, campaigns - done)
        values = model(lot, (size, 1 if correlated else METRICS, 4 * BOOTS))
        if correlated:
            values = np.repeat(values, METRICS, axis=1)
        _count(values, worse, order, budget, counts, rivals)
    shares = {name: [100 * float(count) / campaigns for count in each] for name, each in rivals.items()}
    quiet = {name: (few, many) for name, (few, many, _, _) in shares.items()}
    caught = {name: (few, many) for name, (_, _, few, many) in shares.items()}
    failed, found, asked, unclear = (100 * float(count) / campaigns for count in counts)
    return SimulationResult(campaigns, failed, found, asked, unclear, quiet, caught)


def _count(values: Values, worse: float, order: str, budget: float, counts: Values, rivals: dict[str, Values]) -> None:
    chosen = slots(order, BOOTS)
    halves = values[..., : 2 * BOOTS], values[..., 2 * BOOTS :]
    base, again_base = (half[..., ~chosen] for half in halves)
    candidate, again = (half[..., chosen].copy() for half in halves)
    candidate[:, 0] *= 1 + worse
    again[:, 0] *= 1 + worse
    first = boot_evidence(base, candidate, None)
    both = boot_evidence(base, candidate, (again_base, again))
    alone = decide(first, budget * first.centre, DETECT * first.centre, ALPHA)
    outcome = decide(both, budget * both.centre, DETECT * both.centre, ALPHA)
    asked = alone.tripped.any(axis=-1)
    failed = outcome.failed.any(axis=-1)
    excluded = np.where(asked, outcome.excluded.all(axis=-1), alone.excluded.all(axis=-1))
    counts += [failed.sum(), outcome.failed[:, 0].sum(), asked.sum(), (~failed & ~excluded).sum()]
    every = np.concatenate([base, again_base], axis=-1), np.concatenate([candidate, again], axis=-1)
    for name, rule in RIVALS.items():
        few, many = rule(base, candidate), rule(*every)
        rivals[name] += [few.any(axis=-1).sum(), many.any(axis=-1).sum(), few[:, 0].sum(), many[:, 0].sum()]
