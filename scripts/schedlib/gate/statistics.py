# SPDX-License-Identifier: GPL-2.0
"""The statistics of the gate. Pure functions; the last axis is always the boots of one kernel.

Larger values are always worse. If more is better, the caller negates the values first. Where base and candidate have
the same number of boots, four successive boots of the base and the same four of the candidate form a block.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import chain, combinations, product
from math import comb, prod
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from schedlib.gate.rules import BLOCK

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

CONFIDENCE = 0.95
"""The confidence of every interval, two-sided."""

_EXACT_PAIRS = 2500
"""Up to this number of pairs of boots, the distribution of U is exact; above, it is approximated as normal."""

_MOST_PERMUTATIONS = 20_000
"""Up to so many labellings all are counted; of more, so many are drawn, with a fixed seed."""


@lru_cache(maxsize=256)
def upper_tail(base: int, candidate: int) -> Values:
    """P(U >= u) for u = 0 ... base x candidate, if both kernels are the same.

    The number of orders with each U is a coefficient of the Gaussian binomial (Mann and Whitney, Annals of Mathematical
    Statistics 18, 1947). The normal approximation has a continuity correction.
    """
    pairs = base * candidate
    if pairs > _EXACT_PAIRS:
        normal = NormalDist(pairs / 2, np.sqrt(pairs * (base + candidate + 1) / 12))
        return np.array([1 - normal.cdf(u - 0.5) for u in range(pairs + 1)])
    orders = [1] + [0] * pairs
    for each in range(1, base + 1):
        for u in range(pairs, candidate + each - 1, -1):
            orders[u] -= orders[u - candidate - each]
        for u in range(each, pairs + 1):
            orders[u] += orders[u - each]
    at_least, tail = 0, np.empty(pairs + 1)
    for u in range(pairs, -1, -1):
        at_least += orders[u]
        tail[u] = at_least / comb(base + candidate, base)
    return tail


def block_sizes(boots: int) -> Counter[int]:
    """How many blocks of which size this number of boots of each kernel gives."""
    return Counter(min(BLOCK, boots - start) for start in range(0, boots, BLOCK))


@lru_cache(maxsize=64)
def blocks_tail(blocks: tuple[tuple[int, int], ...]) -> Values:
    """P(sum of the blocks' U >= u), if both kernels are the same; exact. blocks: a size, and how many have it."""
    chances = np.ones(1)
    for size, count in blocks:
        tail = upper_tail(size, size)
        for _ in range(count):
            chances = np.convolve(chances, tail - np.append(tail[1:], 0.0))
    return np.asarray(np.minimum(np.cumsum(chances[::-1])[::-1], 1.0))


def count_worse(base: Values, candidate: Values) -> npt.NDArray[np.int_]:
    """U: in how many pairs of boots the candidate's is worse. A tie counts in the candidate's favour."""
    return np.asarray((candidate[..., :, None] > base[..., None, :]).sum(axis=(-1, -2)))


def count_in_blocks(base: Values, candidate: Values) -> npt.NDArray[np.int_]:
    """The sum of U over the blocks. Needs as many boots of the base as of the candidate."""
    starts = range(0, base.shape[-1], BLOCK)
    blocks = [count_worse(base[..., at : at + BLOCK], candidate[..., at : at + BLOCK]) for at in starts]
    return np.asarray(sum(blocks))


def rank_p(base: Values, candidate: Values) -> Values:
    """One-sided p of the Mann-Whitney test that the candidate is worse.

    A tie counts in the candidate's favour. This keeps the test valid: ties broken at random would give the exact
    distribution, and never a larger p. It also makes the test monotone: a worse value never gives a larger p.
    """
    return np.asarray(upper_tail(base.shape[-1], candidate.shape[-1])[count_worse(base, candidate)])


def block_p(base: Values, candidate: Values) -> Values:
    """One-sided p that the candidate is worse, from comparisons within blocks (van Elteren 1960, equal weights).

    Needs as many boots of the base as of the candidate. What differs from block to block has no effect on it.
    """
    return np.asarray(blocks_tail(tuple(block_sizes(base.shape[-1]).items()))[count_in_blocks(base, candidate)])


@lru_cache(maxsize=64)
def signed_tail(pairs: int) -> Values:
    """P(W >= w) for the sum of the ranks of the positive differences, if both kernels are the same; exact."""
    ways = np.zeros(pairs * (pairs + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, pairs + 1):
        ways[rank:] += ways[:-rank].copy()
    return np.asarray(np.cumsum(ways[::-1])[::-1] / 2.0**pairs)


def pairs_p(base: Values, candidate: Values) -> Values:
    """One-sided p that the candidate is worse, by Wilcoxon's signed ranks (1945) of the boots that are a pair.

    What differs from pair to pair has no effect on it. A difference of 0 counts in the candidate's favour.
    """
    differences = candidate - base
    ranks = np.abs(differences).argsort(axis=-1, kind="stable").argsort(axis=-1) + 1
    return np.asarray(signed_tail(base.shape[-1])[(ranks * (differences > 0)).sum(axis=-1)])


def worse_p(base: Values, candidate: Values, *, pairs: bool = False) -> Values:
    """One-sided p that the candidate is worse: twice the smaller one of both tests' p (Bonferroni).

    Mann and Whitney's test is the stronger one if boots are independent, also if the tails are heavy. The test within
    blocks, or pairs, is the stronger one if the machine drifts or changes between two boots.
    """
    within = pairs_p if pairs else block_p
    return np.asarray(np.minimum(1.0, 2 * np.minimum(rank_p(base, candidate), within(base, candidate))))


def _differences(base: Values, candidate: Values) -> Values:
    return np.sort((candidate[..., :, None] - base[..., None, :]).reshape(*base.shape[:-1], -1))


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


def step_of(values: Values) -> Values:
    """One step of a coarse clock, at most: the smallest difference between unequal values.

    Of values that are not quantised it is a small part of their noise. If all are equal it may be as large as the value
    itself, and if all are 0 nothing is known of it: infinite.
    """
    gaps = np.diff(np.sort(values, axis=-1), axis=-1)
    least = np.where(gaps > 0, gaps, np.inf).min(axis=-1, initial=np.inf)
    one = np.abs(values[..., 0])
    return np.asarray(np.where(np.isfinite(least) | (one == 0), least, one))


def coarser_step(base: Values, candidate: Values) -> Values:
    """One step of the coarser clock of both kernels. Without equal values the candidate's is far below its noise."""
    gaps = np.diff(np.sort(candidate, axis=-1), axis=-1)
    tied = (gaps == 0).any(axis=-1) & (gaps > 0).any(axis=-1)
    return np.asarray(np.maximum(step_of(base), np.where(tied, step_of(candidate), 0.0)))


@lru_cache(maxsize=16)
def _groups(boots: int, block: int = BLOCK) -> Values:
    """Ways to label the boots of the base and of the candidate as the candidate's within blocks; the true one first."""
    ways = []
    for start in range(0, boots, block):
        base = range(start, min(start + block, boots))
        both = [*base, *(boots + place for place in base)]
        ways.append(list(combinations(both, len(base)))[::-1])
    if prod(map(len, ways)) <= _MOST_PERMUTATIONS:
        chosen = list(product(*ways))
    else:
        lot = np.random.default_rng(0)
        drawn = [[0, *lot.integers(0, len(way), _MOST_PERMUTATIONS)] for way in ways]
        chosen = [tuple(way[at] for way, at in zip(ways, row, strict=True)) for row in zip(*drawn, strict=True)]
    groups = np.zeros((len(chosen), 2 * boots))
    for row, blocks in zip(groups, chosen, strict=True):
        row[list(chain(*blocks))] = 1
    return groups


def mean_p(base: Values, candidate: Values, *, pairs: bool = False) -> Values:
    """One-sided p of the permutation test that the candidate's mean is larger (Pitman 1937), within blocks or pairs.

    Needs as many boots of the base as of the candidate. The true labelling is among those drawn, so it stays valid.
    """
    values = np.concatenate([base, candidate], axis=-1)
    sums = values @ _groups(base.shape[-1], 1 if pairs else BLOCK).T
    slack = 1e-12 * np.abs(values).sum(axis=-1, keepdims=True)
    return np.asarray((sums >= sums[..., :1] - slack).mean(axis=-1))


def mean_shift(base: Values, candidate: Values) -> Values:
    """How much larger the candidate's mean is, in the unit of the values."""
    return np.asarray(candidate.mean(axis=-1) - base.mean(axis=-1))


def mean_interval(base: Values, candidate: Values) -> tuple[Values, Values]:
    """The shifts of one metric that the permutation test does not reject; infinite if there are too few boots.

    Subtract a shift from the candidate's values. A labelling then has at least the sum of the true one exactly if the
    shift is at least (difference of the two sums) / (number of boots that change sides). So the ends of the interval
    are order statistics of these quotients.
    """
    groups = _groups(base.size)
    values = np.concatenate([base, candidate])
    sums = groups @ values
    changed = candidate.size - groups[:, base.size :].sum(axis=1)
    moved = changed > 0
    quotients = np.sort((sums[0] - sums[moved]) / changed[moved])
    # With up to this number of labellings, the test still rejects. Those that equal the true one always count.
    rank = int(np.floor((1 - CONFIDENCE) / 2 * len(groups))) - int((~moved).sum())
    if rank < 0:
        return np.asarray(-np.inf), np.asarray(np.inf)
    slack = 1e-9 * float(np.ptp(values))
    return np.asarray(quotients[rank] - slack), np.asarray(quotients[-1 - rank] + slack)


def holm(p: Values, family: int | None = None) -> Values:
    """Holm's adjusted p over the last axis, the metrics (Scandinavian Journal of Statistics 6, 1979).

    Args:
        family: the number of metrics, if there are more than these; the others count as p = 1.
    """
    count = p.shape[-1]
    order = np.argsort(p, axis=-1, kind="stable")
    scaled = np.take_along_axis(p, order, axis=-1) * ((family or count) - np.arange(count))
    adjusted = np.minimum(np.maximum.accumulate(scaled, axis=-1), 1.0)
    back = np.empty_like(adjusted)
    np.put_along_axis(back, order, adjusted, axis=-1)
    return back


def bad_share(boots: int, seen: int = 0) -> float:
    """The largest share of bad boots that so many boots, of which so many are bad, do not exclude.

    It is Clopper and Pearson's upper end (Biometrika 26, 1934), one-sided, with 95 % confidence.
    """
    low, high = seen / boots, 1.0
    for _ in range(60):
        share = (low + high) / 2
        at_most = sum(comb(boots, bad) * share**bad * (1 - share) ** (boots - bad) for bad in range(seen + 1))
        low, high = (share, high) if at_most > 1 - CONFIDENCE else (low, share)
    return high


def difference_of_shares(base: Values, candidate: Values, boots: int, level: float) -> Values:
    """The upper bound, one-sided, of how much larger the candidate's share of something is than the base's.

    Newcombe's, from the intervals of Wilson (Statistics in Medicine 17, 1998, method 10).

    Args:
        base, candidate: how many of so many boots of each kernel have it.
    """
    z = NormalDist().inv_cdf(1 - level)
    shares = [side / boots for side in (base, candidate)]
    halves = [z * np.sqrt(share * (1 - share) / boots + (z / (2 * boots)) ** 2) for share in shares]
    middles = [share + z**2 / (2 * boots) for share in shares]
    scale = 1 + z**2 / boots
    low, high = (middles[0] - halves[0]) / scale, (middles[1] + halves[1]) / scale
    return np.asarray(shares[1] - shares[0] + np.sqrt((high - shares[1]) ** 2 + (shares[0] - low) ** 2))
