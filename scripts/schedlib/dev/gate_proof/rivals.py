# SPDX-License-Identifier: GPL-2.0
"""The decision rules of other tools, re-implemented from their source, for the same boots; larger is worse.

Each rule returns the metrics that it reports as worse. None has a confirmation or a correction for several metrics.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

from schedlib.gate.statistics import Flags, Values, upper_tail

Rule = Callable[[Values, Values], Flags]


def benchstat(base: Values, candidate: Values) -> Flags:
    """golang/perf benchmath: two-sided Mann-Whitney, alpha 0.05; the direction by the medians."""
    u = (candidate[..., :, None] > base[..., None, :]).sum(axis=(-1, -2))
    worse: Flags = 2 * upper_tail(base.shape[-1], candidate.shape[-1])[u] < 0.05
    return worse


def google_benchmark(base: Values, candidate: Values) -> Flags:
    """google/benchmark tools/gbench/report.py: scipy's mannwhitneyu with its defaults, alpha 0.05."""
    p = stats.mannwhitneyu(base, candidate, alternative="two-sided", axis=-1).pvalue
    worse: Flags = (p < 0.05) & (np.median(candidate, axis=-1) > np.median(base, axis=-1))
    return worse


def mmtests(base: Values, candidate: Values) -> Flags:
    """mmtests Stat.pm: a star if the difference of means is over the sum of 1.96 standard deviations of each."""
    widths = 1.96 * (base.std(axis=-1, ddof=1) + candidate.std(axis=-1, ddof=1))
    worse: Flags = candidate.mean(axis=-1) - base.mean(axis=-1) > widths
    return worse


def lkp(base: Values, candidate: Values) -> Flags:
    """lkp lib/changed_stat.rb, plain compare: each median is outside the other's range, and the ratio is over 1.05."""
    middle, other = np.median(base, axis=-1), np.median(candidate, axis=-1)
    apart = (other > base.max(axis=-1)) & (candidate.min(axis=-1) > middle)
    worse: Flags = apart & (other > 1.05 * middle)
    return worse


def otava(base: Values, candidate: Values) -> Flags:
    """Otava analysis.py at a known change point: t test on deviations with ddof=0, p < 0.001."""
    p = stats.ttest_ind_from_stats(
        base.mean(axis=-1),
        base.std(axis=-1),
        base.shape[-1],
        candidate.mean(axis=-1),
        candidate.std(axis=-1),
        candidate.shape[-1],
    ).pvalue
    worse: Flags = (p < 0.001) & (candidate.mean(axis=-1) > base.mean(axis=-1))
    return worse


RIVALS: dict[str, Rule] = {
    "benchstat": benchstat,
    "google/benchmark": google_benchmark,
    "mmtests": mmtests,
    "lkp": lkp,
    "Otava": otava,
}
