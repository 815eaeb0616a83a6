# SPDX-License-Identifier: GPL-2.0
"""The gate's statistics, checked against scipy, by hand and against their definitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy import stats

from schedlib.gate.statistics import (
    Values,
    bad_share,
    block_p,
    block_sizes,
    blocks_tail,
    difference_of_shares,
    holm,
    mean_interval,
    mean_p,
    pairs_p,
    rank_p,
    shift,
    shift_interval,
    step_of,
    worse_p,
)


@pytest.fixture
def lot() -> np.random.Generator:
    """The same numbers for each test, in whatever order they run."""
    return np.random.default_rng(7)


@pytest.mark.parametrize(("base", "candidate"), [(1, 1), (3, 5), (10, 10), (20, 20), (60, 60)])
def test_rank_test_is_scipys(base: int, candidate: int, lot: np.random.Generator) -> None:
    for _ in range(20):
        one, other = lot.standard_normal(base), lot.standard_normal(candidate) + 0.3
        method = "exact" if base * candidate <= 2500 else "asymptotic"
        expected = stats.mannwhitneyu(other, one, alternative="greater", method=method).pvalue
        assert rank_p(one, other) == pytest.approx(expected, rel=1e-9)


def test_rank_test_keeps_its_level_with_ties(lot: np.random.Generator) -> None:
    values = lot.integers(0, 4, size=(20_000, 20)).astype(float)
    p = rank_p(values[:, :10], values[:, 10:])
    for level in (0.01, 0.05, 0.2):
        assert (p <= level).mean() <= level + 4 * np.sqrt(level / 20_000)


def test_shift_interval_belongs_to_the_test(lot: np.random.Generator) -> None:
    for _ in range(200):
        base, candidate = lot.standard_normal(8), lot.standard_normal(8) + 1
        low, _ = shift_interval(base, candidate)
        assert (low > 0) == (rank_p(base, candidate) <= 0.025)


@pytest.mark.parametrize("boots", [2, 3, 4])
def test_permutation_of_means_is_scipys(boots: int, lot: np.random.Generator) -> None:
    """In one block."""

    def larger(one: np.ndarray, other: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray(other.mean(axis=axis) - one.mean(axis=axis))

    for _ in range(5):
        one, other = lot.poisson(3, boots).astype(float), lot.poisson(4, boots).astype(float)
        expected = stats.permutation_test(
            (one, other), larger, alternative="greater", vectorized=True, n_resamples=np.inf, axis=0
        ).pvalue
        assert mean_p(one, other) == pytest.approx(expected)


@pytest.mark.parametrize("boots", [3, 4, 5, 6])
def test_blocks_by_enumeration(boots: int) -> None:
    """All ways to label the boots of each block, counted one by one."""
    sizes = [min(4, boots - start) for start in range(0, boots, 4)]
    ways = product(*(combinations(range(2 * size), size) for size in sizes))
    sums = [
        sum(
            place > other
            for each, size in zip(way, sizes, strict=True)
            for place in each
            for other in range(2 * size)
            if other not in each
        )
        for way in ways
    ]
    expected = [np.mean(np.array(sums) >= u) for u in range(max(sums) + 1)]
    assert blocks_tail(tuple(block_sizes(boots).items())) == pytest.approx(expected)


def test_what_differs_between_blocks_has_no_effect() -> None:
    one, other = np.arange(8.0), np.arange(8.0) + 2.5
    moved = np.repeat([0.0, 100.0], 4)
    assert block_p(one + moved, other + moved) == block_p(one, other)
    assert rank_p(one + moved, other + moved) != rank_p(one, other)
    assert mean_p(one + moved, other + moved) == pytest.approx(mean_p(one, other))


def test_signed_ranks_against_scipy(lot: np.random.Generator) -> None:
    for boots in (5, 8, 20):
        one, other = lot.standard_normal(boots), lot.standard_normal(boots) + 0.5
        expected = stats.wilcoxon(other, one, alternative="greater", method="exact").pvalue
        assert pairs_p(one, other) == pytest.approx(expected)
        drift = 100 * lot.standard_normal(boots)
        assert pairs_p(one + drift, other + drift) == pytest.approx(expected)
    assert pairs_p(np.zeros(8), np.zeros(8)) == 1


IN_PAIRS = [partial(worse_p, pairs=True), partial(mean_p, pairs=True)]


@pytest.mark.parametrize("p_of", [rank_p, block_p, worse_p, mean_p, *IN_PAIRS])
def test_each_test_keeps_its_level(p_of: Callable[[Values, Values], Values], lot: np.random.Generator) -> None:
    values = lot.standard_normal((4000, 24))
    p = p_of(values[:, :12], values[:, 12:])
    for level in (0.01, 0.05, 0.2):
        assert (p <= level).mean() <= level + 4 * np.sqrt(level / 4000)
    assert (p_of(values[:, :12], values[:, 12:] + 3) < 0.001).mean() > 0.9


def test_by_hand() -> None:
    # A tie counts for the candidate.
    assert rank_p(np.ones(10), np.ones(10)) == 1
    assert rank_p(np.zeros(10), np.ones(10)) == pytest.approx(1 / 184756)
    assert shift(np.array([1.0, 2.0, 3.0]), np.array([11.0, 12.0, 13.0])) == 10
    # Between the two middle ones of 9, 10, 13 and 14.
    assert shift(np.array([1.0, 2.0]), np.array([11.0, 15.0])) == 11.5
    assert [float(end) for end in shift_interval(np.arange(3.0), np.arange(3.0))] == [-np.inf, np.inf]
    # Boots without a difference have an interval without a width: it was -1e-12 to 1e-12.
    assert [float(end) for end in mean_interval(np.zeros(8), np.zeros(8))] == [0, 0]
    assert step_of(np.array([3.0, 1.0, 3.0, 7.0])) == 2
    assert step_of(np.array([-2.0, -2.0])) == 2  # as large as the value, at most
    assert step_of(np.zeros(4)) == np.inf
    assert step_of(np.array([[5.0, 5.0], [1.0, 2.0]])).tolist() == [5.0, 1.0]
    assert (1 - bad_share(8)) ** 8 == pytest.approx(0.05)
    assert bad_share(8) < 1 / 3 < bad_share(7)
    one = bad_share(20, 1)
    assert (1 - one) ** 20 + 20 * one * (1 - one) ** 19 == pytest.approx(0.05)
    assert bad_share(20) < one < bad_share(20, 2)
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])
    for order in permutations([0.001, 0.02, 0.5]):
        assert sorted(holm(np.array(order))) == pytest.approx([0.003, 0.04, 0.5])


def test_difference_of_shares() -> None:
    none = np.array(0.0)
    z = stats.norm.ppf(1 - 0.0125)
    assert difference_of_shares(none, none, 20, 0.0125) == pytest.approx(z**2 / (20 + z**2))  # Wilson's, of 0
    worse = difference_of_shares(np.arange(21.0)[:, None], np.arange(21.0), 20, 0.0125)
    assert (np.diff(worse, axis=1) > 0).all() and (np.diff(worse, axis=0) < 0).all()


def test_permutation_by_lot_is_near_the_exact_one(lot: np.random.Generator) -> None:
    one, other = lot.standard_normal(15), lot.standard_normal(15) + 0.5
    expected = stats.ttest_ind(other, one, alternative="greater").pvalue
    assert mean_p(one, other) == pytest.approx(expected, abs=0.05)
    assert mean_p(one, other) == mean_p(one, other)


def test_mean_interval_belongs_to_the_test(lot: np.random.Generator) -> None:
    for _ in range(5):
        base, candidate = lot.standard_normal(7), lot.standard_normal(7) + 1
        low, high = mean_interval(base, candidate)
        assert mean_p(base, candidate - low - 1e-6) > 0.025 >= mean_p(base, candidate - low + 1e-6)
        assert mean_p(-base, high + 1e-6 - candidate) <= 0.025 < mean_p(-base, high - 1e-6 - candidate)
        assert low < candidate.mean() - base.mean() < high
