# SPDX-License-Identifier: GPL-2.0
"""The statistics of many machines. Pure functions; effects are of one metric, one for each machine, positive is worse.

Whether a change is there is tested within machines: their boots are compared block by block, and the counts are added
up (van Elteren 1960). How large it is on a model of machines is told by the machines' effects alone, by Wilcoxon's
signed ranks (Biometrics Bulletin 1, 1945), so that machines of one model may differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from math import ceil, erfc, log2, sqrt
from statistics import NormalDist

import numpy as np

from schedlib.gate.statistics import Values, block_sizes, blocks_tail

_EXACT_MACHINES = 100
"""Up to this number of machines, the distribution of signed ranks is exact; above, it is approximated as normal."""

_EXACT_STATES = 2500
_HALVINGS = 50


def _normal_tail(value: float, mean: float, variance: float) -> float:
    """P(X >= value) of a sum of whole numbers, with continuity correction."""
    return 0.5 * erfc((value - 0.5 - mean) / sqrt(2 * variance))


def _moments(machines: int) -> tuple[float, float]:
    return machines * (machines + 1) / 4, machines * (machines + 1) * (2 * machines + 1) / 24


@lru_cache(maxsize=_EXACT_MACHINES)
def _signed_ranks(machines: int) -> Values:
    """P(T >= t) for t = 0 ... machines (machines + 1) / 2, if each effect is as likely to be worse as better; exact."""
    chances = np.zeros(machines * (machines + 1) // 2 + 1)
    chances[0] = 1.0
    for rank in range(1, machines + 1):
        chances[rank:] = chances[rank:] + chances[:-rank]
        chances /= 2
    return np.asarray(np.cumsum(chances[::-1])[::-1])


def pairs_above(effects: Values, centre: float) -> int:
    """Wilcoxon's T: how many pairs of machines, each also with itself, have a mean effect above `centre`.

    A tie does not count. So the test stays valid, and a worse effect never makes T smaller.
    """
    ordered = np.sort(effects)
    wanted = 2 * centre - ordered
    both = int((ordered.size - np.searchsorted(ordered, wanted, side="right")).sum())
    return (both + int((ordered > wanted).sum())) // 2


def signed_rank_p(effects: Values, centre: float = 0.0) -> float:
    """One-sided p that the effects are not above `centre`: they lie around it alike on both sides, or below."""
    above, machines = pairs_above(effects, centre), effects.size
    if machines <= _EXACT_MACHINES:
        return float(_signed_ranks(machines)[above])
    return _normal_tail(above, *_moments(machines))


def machines_needed(level: float) -> int:
    """The smallest number of machines with which signed ranks can reject at a level: 2^-machines is their least p."""
    return ceil(-log2(level))


def effect_at_most(effects: Values, level: float) -> float:
    """The upper confidence bound, one-sided, of the effect on machines like these; infinite with too few machines.

    All larger effects are rejected at the level by signed_rank_p() with the roles exchanged (Tukey 1949).
    """
    machines = effects.size
    most = machines * (machines + 1) // 2
    if machines < machines_needed(level):
        return float("inf")
    if machines <= _EXACT_MACHINES:
        needed = int(np.argmax(_signed_ranks(machines) <= level))
    else:
        mean, variance = _moments(machines)
        needed = min(most, ceil(mean + 0.5 + NormalDist().inv_cdf(1 - level) * sqrt(variance)))
    return _pair_mean(effects, needed)


def middle_effect(effects: Values) -> float:
    """Hodges and Lehmann's estimate: the middle of the mean effects of all pairs of machines (1963)."""
    pairs = effects.size * (effects.size + 1) // 2
    low, high = _pair_mean(effects, (pairs + 1) // 2), _pair_mean(effects, pairs // 2 + 1)
    return (low + high) / 2


def _pair_mean(effects: Values, place: int) -> float:
    """The mean effect of the pair of machines that is at this place, from 1, if all pairs are put in order."""
    low, high = float(effects.min()), float(effects.max())
    pairs = effects.size * (effects.size + 1) // 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if pairs - pairs_above(effects, middle) >= place:
            high = middle
        else:
            low = middle
    return high


def within_machines_p(total: int, boots: Mapping[int, int]) -> float:
    """One-sided p that no machine became worse: of the sum of U over all blocks of all machines.

    Exact for small sums; else normal with continuity correction.

    Args:
        total: the sum of statistics.count_in_blocks() over the machines.
        boots: how many machines have how many boots of each kernel.
    """
    sizes: Counter[int] = Counter()
    for each, machines in boots.items():
        sizes.update({size: count * machines for size, count in block_sizes(each).items()})
    if sum(size**2 * count for size, count in sizes.items()) <= _EXACT_STATES:
        return float(blocks_tail(tuple(sorted(sizes.items())))[total])
    mean = sum(count * size**2 / 2 for size, count in sizes.items())
    variance = sum(count * size**2 * (2 * size + 1) / 12 for size, count in sizes.items())
    return _normal_tail(total, mean, variance)


def between_machines(effects: Values, variances: Values) -> tuple[float, float]:
    """How much machines differ: the standard deviation of their true effects, and the share of the spread it explains.

    The first is DerSimonian and Laird's (Controlled Clinical Trials 7, 1986), the second Higgins and Thompson's I2
    (Statistics in Medicine 21, 2002).

    Args:
        variances: of each effect, from its boots; above 0.
    """
    if effects.size < 2:
        return 0.0, 0.0
    weights = 1 / variances
    mean = (weights * effects).sum() / weights.sum()
    spread, free = float((weights * (effects - mean) ** 2).sum()), effects.size - 1
    scale = float(weights.sum() - (weights**2).sum() / weights.sum())
    return sqrt(max(0.0, spread - free) / scale), max(0.0, 1 - free / spread) if spread else 0.0
