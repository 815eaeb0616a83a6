# SPDX-License-Identifier: GPL-2.0
"""The statistics of the gate. Pure functions; the last axis is always the boots of one kernel.

Larger values are always worse. If more is better, the caller negates the values first.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, product
from math import comb

import numpy as np
import numpy.typing as npt
from scipy import stats

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

CONFIDENCE = 0.95
"""The confidence of every interval, two-sided."""

CONFIRM = 0.2
"""The largest p of a confirmation. The first batch's may be up to alpha / CONFIRM, so that the product is alpha."""

_EXACT_PAIRS = 2500
"""Up to this number of pairs of boots, the distribution of U is exact; above, it is approximated as normal."""

_ALL_PERMUTATIONS = 200_000
_DRAWN_PERMUTATIONS = 20_000
_SPLITS = 64
_POWER = 0.8


@lru_cache(maxsize=64)
def upper_tail(base: int, candidate: int) -> Values:
    """P(U >= u) for u = 0 ... base x candidate, if both kernels are the same.

    Up to 2500 pairs it is exact, by scipy (Mann and Whitney, Annals of Mathematical Statistics 18, 1947): for each u,
    scipy gets one arrangement of values that has this U. Above, it is normal with continuity correction.
    """
    pairs = base * candidate
    u = np.arange(pairs + 1)
    if pairs > _EXACT_PAIRS:
        spread = np.sqrt(pairs * (base + candidate + 1) / 12)
        return np.asarray(stats.norm.sf((u - 0.5 - pairs / 2) / spread))
    above, rest = np.divmod(u[:, None], base)
    place = np.arange(candidate)
    samples = np.where(place < above, base + place, -1.0 - place)
    samples = np.where((place == above) & (rest > 0), rest - 0.5, samples)
    others = np.broadcast_to(np.arange(base, dtype=float), (pairs + 1, base))
    return np.asarray(stats.mannwhitneyu(samples, others, alternative="greater", method="exact", axis=-1).pvalue)


def rank_p(base: Values, candidate: Values) -> Values:
    """One-sided p of the Mann-Whitney test that the candidate is worse.

    A tie counts in the candidate's favour. This keeps the test valid: ties broken at random would give the exact
    distribution, and never a larger p. It also makes the test monotone: a worse value never gives a larger p.
    """
    u = (candidate[..., :, None] > base[..., None, :]).sum(axis=(-1, -2))
    return np.asarray(upper_tail(base.shape[-1], candidate.shape[-1])[u])


def _differences(base: Values, candidate: Values) -> Values:
    """In ascending order: numpy sorts a few values faster than it finds their median."""
    pairs = candidate[..., :, None] - base[..., None, :]
    return np.sort(pairs.reshape(*pairs.shape[:-2], -1))


def shift(base: Values, candidate: Values) -> Values:
    """Hodges and Lehmann's estimate of how much worse the candidate is, in the unit of the values (1963)."""
    ordered = _differences(base, candidate)
    pairs = ordered.shape[-1]
    found: Values = (ordered[..., (pairs - 1) // 2] + ordered[..., pairs // 2]) / 2
    return found


def shift_interval(base: Values, candidate: Values) -> tuple[Values, Values]:
    """The interval that belongs to `shift` and to the rank test; infinite if there are too few boots."""
    pairs = base.shape[-1] * candidate.shape[-1]
    tail = upper_tail(base.shape[-1], candidate.shape[-1])
    outside = int((tail <= (1 - CONFIDENCE) / 2).sum())
    if not outside:
        nothing = np.full(base.shape[:-1], np.inf)
        return -nothing, nothing
    ordered = _differences(base, candidate)
    return ordered[..., outside - 1], ordered[..., pairs - outside]


@lru_cache(maxsize=16)
def _pair_splits(pairs: int) -> npt.NDArray[np.intp]:
    """Which boot of each pair goes to the first half. A split and its mirror image count as one."""
    if 2 ** (pairs - 1) <= _SPLITS:
        return np.array([(0, *rest) for rest in product((0, 1), repeat=pairs - 1)], dtype=np.intp)
    return np.random.default_rng(0).integers(0, 2, size=(_SPLITS, pairs))


def floor(base: Values) -> Values:
    """The A/A floor: how much boots of the same kernel differ, in the unit of the values.

    Neighbouring boots of the base form pairs. A split puts one boot of each pair into each half, and the shift between
    the halves is computed. Nine of ten such shifts are below the floor. They are scaled by the square root because each
    half has only half of the boots. The candidate is left out, because its own noise must not excuse it.
    """
    boots = base.shape[-1]
    if boots < 4:
        return np.full(base.shape[:-1], np.inf)
    pairs = boots // 2
    paired = base[..., : 2 * pairs].reshape(*base.shape[:-1], pairs, 2)
    place, splits = np.arange(pairs), _pair_splits(pairs)
    halves = [np.abs(shift(paired[..., place, chosen], paired[..., place, 1 - chosen])) for chosen in splits]
    return np.asarray(np.quantile(np.stack(halves), 0.9, axis=0) * np.sqrt(pairs / boots))


@lru_cache(maxsize=4)
def _groups(base: int, candidate: int) -> Values:
    """Ways to label boots as the candidate's: all of them, or a fixed random sample. The true one is the first."""
    boots = base + candidate
    if comb(boots, candidate) <= _ALL_PERMUTATIONS:
        chosen = np.array(list(combinations(range(boots), candidate)), dtype=np.intp)[::-1]
    else:
        drawn = np.random.default_rng(0).random((_DRAWN_PERMUTATIONS, boots)).argsort(axis=1)[:, :candidate]
        chosen = np.vstack([np.arange(base, boots), drawn])
    groups = np.zeros((len(chosen), boots))
    np.put_along_axis(groups, chosen, 1, axis=1)
    return groups


def mean_p(base: Values, candidate: Values) -> float:
    """One-sided p of the permutation test that the candidate's mean is larger (Pitman 1937).

    Exact up to 200,000 labellings. Above, 20,000 random labellings with a fixed seed and the true one are used, which
    is valid and gives the same result every time.
    """
    values = np.concatenate([base, candidate])
    sums = _groups(base.size, candidate.size) @ values
    slack = 1e-12 * float(np.abs(values).sum())
    return float((sums >= sums[0] - slack).mean())


def mean_shift(base: Values, candidate: Values) -> float:
    """How much larger the candidate's mean is, in the unit of the values."""
    return float(candidate.mean() - base.mean())


def mean_interval(base: Values, candidate: Values) -> tuple[float, float]:
    """The shifts that the permutation test does not reject.

    Subtract a shift from the candidate's values. A labelling then has at least the sum of the true one exactly if the
    shift is at least (difference of the two sums) / (number of boots that change sides). So the ends of the interval
    are order statistics of these quotients.
    """
    outside = (1 - CONFIDENCE) / 2
    if 1 / comb(base.size + candidate.size, candidate.size) > outside:
        return -np.inf, np.inf
    groups = _groups(base.size, candidate.size)
    values = np.concatenate([base, candidate])
    sums = groups @ values
    changed = candidate.size - groups[:, base.size :].sum(axis=1)
    moved = changed > 0
    quotients = np.sort((sums[0] - sums[moved]) / changed[moved])
    # With up to this number of labellings, the test still rejects. Those that equal the true one always count.
    rank = int(np.floor(outside * len(groups))) - int((~moved).sum())
    slack = 1e-9 * (float(np.ptp(values)) or 1e-3)
    return float(quotients[rank]) - slack, float(quotients[-1 - rank]) + slack


def two_batches(first: Values, confirm: Values, alpha: float) -> Values:
    """Combine two independent p values, for a test that says "worse" only if both batches do.

    The result is 1 unless first <= alpha / CONFIRM and confirm <= CONFIRM. Otherwise it is the probability that the
    product is this small and both are within these bounds: c + c log(alpha / c), where c is the product (Bauer and
    Koehne, Biometrics 50, 1994, here also with a bound on the second batch). The test's error rate never exceeds the
    result, and the result decreases with either p.
    """
    both = np.clip(first * confirm, np.finfo(float).tiny, alpha)
    joint = both * (1 + np.log(alpha / both))
    agreed = (first <= alpha / CONFIRM) & (confirm <= CONFIRM)
    return np.where(agreed, np.minimum(joint, 1.0), 1.0)


def holm(p: Values) -> Values:
    """Holm's adjusted p over the last axis, the metrics (Scandinavian Journal of Statistics 6, 1979)."""
    count = p.shape[-1]
    order = np.argsort(p, axis=-1, kind="stable")
    scaled = np.take_along_axis(p, order, axis=-1) * np.arange(count, 0, -1)
    adjusted = np.minimum(np.maximum.accumulate(scaled, axis=-1), 1.0)
    back = np.empty_like(adjusted)
    np.put_along_axis(back, order, adjusted, axis=-1)
    return back


def detectable(base: Values, candidate: Values, alpha: float) -> float:
    """The smallest shift, approximately, that a batch like this shows in four of five cases, in the unit of the values.

    Computed by the t test with the rank test's efficiency of 3 / pi. Infinite if the boots are too few to reach alpha.
    """
    boots = base.size, candidate.size
    if min(boots) < 2 or 1 / comb(sum(boots), boots[0]) > alpha:
        return float("inf")
    freedom = sum(boots) - 2
    spread = np.sqrt((base.var() * base.size + candidate.var() * candidate.size) / freedom)
    error = spread * np.sqrt((1 / boots[0] + 1 / boots[1]) * np.pi / 3)
    return float(error * (stats.t.isf(alpha, freedom) + stats.t.ppf(_POWER, freedom)))
