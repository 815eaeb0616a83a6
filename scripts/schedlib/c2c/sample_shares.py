# SPDX-License-Identifier: GPL-2.0
"""Shares of samples with their intervals, and the correlation of two rankings with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import atanh, sqrt, tanh
from statistics import NormalDist, correlation

_Z = NormalDist().inv_cdf(0.975)


def wilson(share: float, number: float) -> tuple[float, float]:
    """The interval of 95 % of a share of so many samples, after E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209."""
    if number <= 0:
        return 0.0, 1.0
    square = _Z * _Z / number
    middle = (share + square / 2) / (1 + square)
    half = _Z * sqrt(share * (1 - share) / number + square / (4 * number)) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def effective(whole: float, squares: float) -> float:
    """How many samples of equal weight tell as much as these, after L. Kish, Survey Sampling (1965).

    Args:
        whole: the sum of the samples' weights.
        squares: the sum of the squares of their weights.
    """
    return whole * whole / squares if squares else 0.0


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value, the largest first, from 1. Equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda each: -values[each])
    found = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for each in order[start:end]:
            found[each] = (start + 1 + end) / 2
        start = end
    return found


def spearman(one: Mapping[str, float], other: Mapping[str, float]) -> tuple[float, float, float] | None:
    """Spearman's rank correlation over the names that either has, and its interval of 95 %.

    The interval is that of D. G. Bonett and T. A. Wright, Psychometrika 65 (2000) 23.

    Returns:
        None if there are fewer than four names, or one side ranks nothing.
    """
    names = sorted(one.keys() | other.keys())
    pairs = [ranks([side.get(name, 0.0) for name in names]) for side in (one, other)]
    if len(names) < 4 or any(len(set(each)) == 1 for each in pairs):
        return None
    found = correlation(*pairs)
    if abs(found) > 1 - 1e-12:
        return found, found, found
    half = _Z * sqrt((1 + found * found / 2) / (len(names) - 3))
    return found, tanh(atanh(found) - half), tanh(atanh(found) + half)
