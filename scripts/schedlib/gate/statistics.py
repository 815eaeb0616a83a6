# SPDX-License-Identifier: GPL-2.0
"""The statistics of the gate. Pure functions; the last axis is always the boots of one kernel.

In all of them more is worse: who holds that more is better negates the values first.
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
"""Of every interval, two-sided."""

CONFIRM = 0.2
"""What a confirmation's own p may be at most; the first batch's may be alpha / CONFIRM, so that both make alpha."""

_EXACT_PAIRS = 2500
"""Up to so many pairs of boots U's distribution is exact, above it is normal."""

_ALL_PERMUTATIONS = 200_000
_DRAWN_PERMUTATIONS = 20_000
_SPLITS = 64
_POWER = 0.8


@lru_cache(maxsize=64)
def upper_tail(base: int, candidate: int) -> Values:
    """P(U >= u) for u = 0 ... base x candidate, when both kernels are the same.

    Exact by scipy up to 2500 pairs (Mann and Whitney, Annals of Mathematical Statistics 18, 1947): each U is shown to
    it as one arrangement that has it. Above, normal with continuity correction.
    """
    pairs = base * candidate
    u = np.arange(pairs + 1)
    if pairs > _EXACT_PAIRS:
        spread = np.sqrt(pairs * (base + candidate + 1) / 12)
        normal: Values = stats.norm.sf((u - 0.5 - pairs / 2) / spread)
        return normal
    above, rest = np.divmod(u[:, None], base)
    place = np.arange(candidate)
    samples = np.where(place < above, base + place, -1.0 - place)
    samples = np.where((place == above) & (rest > 0), rest - 0.5, samples)
    others = np.broadcast_to(np.arange(base, dtype=float), (pairs + 1, base))
    tail: Values = stats.mannwhitneyu(samples, others, alternative="greater", method="exact", axis=-1).pvalue
    return tail


def rank_p(base: Values, candidate: Values) -> Values:
    """One-sided p of the Mann-Whitney test that the candidate is worse.

    A tie counts for the candidate. That keeps the test exact (ties broken by lot would give the same distribution and
    no larger p), and makes it monotone: no worse value ever gives a larger p.
    """
    u = (candidate[..., :, None] > base[..., None, :]).sum(axis=(-1, -2))
    found: Values = upper_tail(base.shape[-1], candidate.shape[-1])[u]
    return found


def _differences(base: Values, candidate: Values) -> Values:
    pairs = candidate[..., :, None] - base[..., None, :]
    return pairs.reshape(*pairs.shape[:-2], -1)


def shift(base: Values, candidate: Values) -> Values:
    """Hodges and Lehmann's estimate of how much worse the candidate is, in the unit of the values (1963)."""
    found: Values = np.median(_differences(base, candidate), axis=-1)
    return found


def shift_interval(base: Values, candidate: Values) -> tuple[Values, Values]:
    """The interval that belongs to `shift` and to the rank test; infinite when the boots are too few for one."""
    pairs = base.shape[-1] * candidate.shape[-1]
    tail = upper_tail(base.shape[-1], candidate.shape[-1])
    outside = int((tail <= (1 - CONFIDENCE) / 2).sum())
    if not outside:
        nothing = np.full(base.shape[:-1], np.inf)
        return -nothing, nothing
    ends = np.partition(_differences(base, candidate), (outside - 1, pairs - outside), axis=-1)
    return ends[..., outside - 1], ends[..., pairs - outside]


@lru_cache(maxsize=16)
def _pair_splits(pairs: int) -> npt.NDArray[np.intp]:
    """Which boot of each pair goes to the first half; each split and its mirror image count once."""
    if 2 ** (pairs - 1) <= _SPLITS:
        return np.array([(0, *rest) for rest in product((0, 1), repeat=pairs - 1)], dtype=np.intp)
    return np.random.default_rng(0).integers(0, 2, size=(_SPLITS, pairs))


def floor(base: Values) -> Values:
    """What the machine shows between boots of one kernel: the A/A floor, in the unit of the values.

    Neighbouring boots of the base are pairs, one half against the other gives a shift, and nine of ten such shifts are
    smaller than this. The halves have half of the boots, hence the root. The candidate is left out: its noise must not
    excuse it.
    """
    boots = base.shape[-1]
    if boots < 4:
        return np.full(base.shape[:-1], np.inf)
    pairs = boots // 2
    paired = base[..., : 2 * pairs].reshape(*base.shape[:-1], pairs, 2)
    place = np.arange(pairs)
    halves = [
        np.abs(shift(paired[..., place, chosen], paired[..., place, 1 - chosen])) for chosen in _pair_splits(pairs)
    ]
    found: Values = np.quantile(np.stack(halves), 0.9, axis=0) * np.sqrt(pairs / boots)
    return found


@lru_cache(maxsize=4)
def _groups(base: int, candidate: int) -> Values:
    """Which boots are called the candidate's: all ways, or some by a fixed lot; the one that was is the first."""
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
    """One-sided p of the permutation test that the candidate's mean is larger (Pitman 1937); exact up to 200,000 ways.

    Above, 20,000 ways drawn by a fixed lot, with the one that was counted in: valid, and the same every time.
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

    With the candidate moved back by a shift, a way of calling boots the candidate's comes out as high as the true one
    exactly where the shift is at least (difference of the two sums) / (boots that change sides): the ends of the
    interval are order statistics of these quotients.
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
    # So many ways are not enough to be beyond what is left outside; the true one always counts.
    rank = int(np.floor(outside * len(groups))) - int((~moved).sum())
    slack = 1e-9 * (float(np.ptp(values)) or 1e-3)
    return float(quotients[rank]) - slack, float(quotients[-1 - rank]) + slack


def two_batches(first: Values, confirm: Values, alpha: float) -> Values:
    """One p of two independent ones, for a test that says "worse" only when both batches do.

    1 unless first <= alpha / CONFIRM and confirm <= CONFIRM; then the chance that the product is so small and both are
    below those bounds: c + c log(alpha / c), c the product (Bauer and Koehne, Biometrics 50, 1994, with a bound on the
    second batch too). It never exceeds what it claims, and falls with either p.
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
    """About the smallest shift that a batch like this shows four times of five, in the unit of the values.

    By the t test with the rank test's efficiency of 3 / pi; infinite when the boots are too few to reach alpha at all.
    """
    boots = base.size, candidate.size
    if min(boots) < 2 or 1 / comb(sum(boots), boots[0]) > alpha:
        return float("inf")
    freedom = sum(boots) - 2
    spread = np.sqrt((base.var() * base.size + candidate.var() * candidate.size) / freedom)
    error = spread * np.sqrt((1 / boots[0] + 1 / boots[1]) * np.pi / 3)
    return float(error * (stats.t.isf(alpha, freedom) + stats.t.ppf(_POWER, freedom)))
