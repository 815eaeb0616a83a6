# SPDX-License-Identifier: GPL-2.0
"""The decision rules of other tools, written again so that they can judge many campaigns at once.

`python -m schedlib.dev.gate_proof.real_tools` holds them against the real tools. Each rule gets values as the tool
would see them, above 0, in arrays of campaigns x metrics x boots, and whether a larger value is better, in an array
that fits. It returns the metrics that the tool reports as worse. No tool corrects for the number of metrics.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

from schedlib.gate.statistics import Flags, Values, upper_tail

Rule = Callable[[Values, Values, Flags], Flags]


def _worse(larger: Flags, smaller: Flags, higher: Flags) -> Flags:
    return np.asarray(np.where(higher, smaller, larger))


def _by_medians(changed: Flags, base: Values, candidate: Values, higher: Flags) -> Flags:
    difference = np.median(candidate, axis=-1) - np.median(base, axis=-1)
    return _worse(changed & (difference > 0), changed & (difference < 0), higher)


def _rank_sum(base: Values, candidate: Values) -> tuple[Values, Flags, Values]:
    """U with half a pair for a tie, whether there are ties, and two-sided p by the normal approximation."""
    ordered = np.sort(np.concatenate([base, candidate], axis=-1), axis=-1)
    u = (candidate[..., :, None] > base[..., None, :]).sum(axis=(-1, -2)) * 1.0
    tied = (np.diff(ordered, axis=-1) == 0).any(axis=-1)
    correction = np.zeros(u.shape)
    if tied.any():
        u[tied] += 0.5 * (candidate[tied][..., :, None] == base[tied][..., None, :]).sum(axis=(-1, -2))
        equal = (ordered[tied][..., :, None] == ordered[tied][..., None, :]).sum(axis=-1)
        correction[tied] = (equal**2 - 1).sum(axis=-1)
    few, many, boots = base.shape[-1], candidate.shape[-1], base.shape[-1] + candidate.shape[-1]
    variance = few * many / 12 * (boots + 1 - correction / (boots * (boots - 1)))
    distance = np.maximum(np.abs(u - few * many / 2) - 0.5, 0)
    z = np.divide(distance, np.sqrt(variance), out=np.zeros(u.shape), where=variance > 0)
    return u, tied, np.asarray(2 * stats.norm.sf(z))


def _tied_p(base: Values, candidate: Values) -> float:
    """Two-sided exact p of one comparison with ties: all ways to choose the candidate's from the given ranks."""
    ranks = np.rint(2 * stats.rankdata(np.concatenate([base, candidate]))).astype(int)
    ways = np.zeros((candidate.size + 1, ranks.sum() + 1))
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    chances, seen = ways[-1] / ways[-1].sum(), ranks[base.size :].sum()
    return float(2 * min(chances[: seen + 1].sum(), chances[seen:].sum()))


def benchstat(base: Values, candidate: Values, higher: Flags) -> Flags:
    """golang/perf benchmath: two-sided Mann-Whitney, exact, alpha 0.05; the direction by the medians."""
    u, tied, p = _rank_sum(base, candidate)
    tail = upper_tail(base.shape[-1], candidate.shape[-1])
    place = np.rint(np.where(tied, 0, u)).astype(int)
    p = np.where(tied, p, 2 * np.minimum(tail[place], tail[len(tail) - 1 - place]))
    # The normal approximation is off by far less than what is left out here.
    for at in np.argwhere(tied & (p > 0.02) & (p < 0.1)):
        p[tuple(at)] = _tied_p(base[tuple(at)], candidate[tuple(at)])
    return _by_medians(p <= 0.05, base, candidate, higher)


def google_benchmark(base: Values, candidate: Values, higher: Flags) -> Flags:
    """google/benchmark tools/gbench/report.py: scipy's mannwhitneyu with its defaults, alpha 0.05.

    With more than eight boots of each kernel that is the normal approximation. The direction is that of the medians.
    """
    return _by_medians(_rank_sum(base, candidate)[2] < 0.05, base, candidate, higher)


def mmtests(base: Values, candidate: Values, higher: Flags) -> Flags:
    """mmtests Stat.pm and Compare.pm: means differ by more than the sum of 1.96 standard deviations of each.

    If more is better, the mean is the harmonic one, and the deviation is that of the reciprocals.
    """
    plain = [(side.mean(axis=-1), side.std(axis=-1, ddof=1)) for side in (base, candidate)]
    turned = [(1 / side).mean(axis=-1) for side in (base, candidate)]
    harmonic = [
        (1 / mean, np.sqrt(((1 / side - mean[..., None]) ** 2).mean(axis=-1)) / mean**2)
        for side, mean in zip((base, candidate), turned, strict=True)
    ]
    larger, smaller = (
        high[0] - low[0] > 1.96 * (low[1] + high[1]) for low, high in (plain, (harmonic[1], harmonic[0]))
    )
    return _worse(larger, smaller, higher)


def lkp(base: Values, candidate: Values, higher: Flags) -> Flags:
    """lkp lib/stats.rb, plain compare: each side's middle is outside the other's range, and their ratio is over 1.05.

    The middle of an even number of values is the upper one of two.
    """
    one, other = np.sort(base, axis=-1), np.sort(candidate, axis=-1)
    middle, changed = one[..., one.shape[-1] // 2], other[..., other.shape[-1] // 2]
    larger = (other[..., 0] > middle) & (changed > one[..., -1]) & (changed > 1.05 * middle)
    smaller = (one[..., 0] > changed) & (middle > other[..., -1]) & (middle > 1.05 * changed)
    return _worse(larger, smaller, higher)


def _split(series: Values) -> Values:
    """Where Otava's energy statistic suspects a change: the number of values before it.

    The largest Q(before, end) over all splits of all beginnings of the series (Matteson and James 2014).
    """
    length = series.shape[-1]
    distances = np.abs(series[..., :, None] - series[..., None, :])
    sums = np.zeros((*series.shape[:-1], length + 1, length + 1))
    sums[..., 1:, 1:] = distances.cumsum(axis=-1).cumsum(axis=-2)
    square = np.diagonal(sums, axis1=-2, axis2=-1)
    before, end = np.arange(1, length)[:, None], np.arange(2, length + 1)[None]
    after = end - before
    left = square[..., 1:length, None]
    across = sums[..., 1:length, 2:] - left
    right = square[..., None, 2:] - left - 2 * across
    q = 2 * across - np.where(before > 1, after / np.maximum(before - 1, 1), 0) * left
    q = (q - np.where(after > 1, before / np.maximum(after - 1, 1), 0) * right) / end
    best = np.where(after > 0, q, -np.inf).reshape(*series.shape[:-1], -1).argmax(axis=-1)
    return np.asarray(best // (length - 1) + 1)


def otava(base: Values, candidate: Values, higher: Flags) -> Flags:
    """Otava analysis.py on the base's boots and then the candidate's: t test at the likeliest change point, p < 0.001.

    The test's deviations have ddof=0. Otava looks for further change points in both parts; this does not.
    """
    series = np.concatenate([base, candidate], axis=-1)
    split = _split(series)[..., None]
    first = np.arange(series.shape[-1]) < split
    sides = []
    for part, size in ((first, split[..., 0]), (~first, series.shape[-1] - split[..., 0])):
        mean = np.where(part, series, 0).sum(axis=-1) / size
        sides.append((mean, np.sqrt(np.where(part, (series - mean[..., None]) ** 2, 0).sum(axis=-1) / size), size))
    p = stats.ttest_ind_from_stats(*sides[0], *sides[1]).pvalue
    larger, smaller = sides[1][0] > sides[0][0], sides[1][0] < sides[0][0]
    return _worse((p < 0.001) & larger, (p < 0.001) & smaller, higher)


def ktstr(base: Values, candidate: Values, higher: Flags) -> Flags:
    """ktstr perf-delta --noise-adjust: the candidate's mean is outside the base's range.

    It says nothing of a metric of which either side's range is above 1 % of its mean. It exits with an error only if
    five metrics are worse; here one is enough.
    """
    quiet = np.ones(base.shape[:-1], dtype=bool)
    for side in (base, candidate):
        quiet &= np.ptp(side, axis=-1) <= 0.01 * np.abs(side.mean(axis=-1))
    mean = candidate.mean(axis=-1)
    return _worse(quiet & (mean > base.max(axis=-1)), quiet & (mean < base.min(axis=-1)), higher)


RIVALS: dict[str, Rule] = {
    "benchstat": benchstat,
    "google/benchmark": google_benchmark,
    "mmtests": mmtests,
    "lkp": lkp,
    "Otava": otava,
    "ktstr": ktstr,
}
