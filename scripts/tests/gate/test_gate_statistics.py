# SPDX-License-Identifier: GPL-2.0
"""The gate's statistics, checked against scipy, by hand and against their definitions."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats

from schedlib.gate.statistics import (
    detectable,
    floor,
    holm,
    mean_interval,
    mean_p,
    rank_p,
    shift,
    shift_interval,
    two_batches,
    upper_tail,
)

LOT = np.random.default_rng(7)


@pytest.mark.parametrize(("base", "candidate"), [(1, 1), (3, 5), (10, 10), (20, 20), (60, 60)])
def test_rank_test_is_scipys(base: int, candidate: int) -> None:
    for _ in range(20):
        one, other = LOT.standard_normal(base), LOT.standard_normal(candidate) + 0.3
        method = "exact" if base * candidate <= 2500 else "asymptotic"
        expected = stats.mannwhitneyu(other, one, alternative="greater", method=method).pvalue
        assert rank_p(one, other) == pytest.approx(expected, rel=1e-9)


def test_upper_tail_is_a_tail() -> None:
    tail = upper_tail(4, 3)
    assert tail[0] == pytest.approx(1)
    assert tail[-1] == pytest.approx(1 / 35)
    assert (np.diff(tail) < 0).all()


def test_ties_count_for_the_candidate() -> None:
    assert rank_p(np.ones(10), np.ones(10)) == 1
    assert rank_p(np.zeros(10), np.ones(10)) == pytest.approx(1 / 184756)


def test_rank_test_keeps_its_level_with_ties() -> None:
    values = LOT.integers(0, 4, size=(20_000, 20)).astype(float)
    p = rank_p(values[:, :10], values[:, 10:])
    for level in (0.01, 0.05, 0.2):
        assert (p <= level).mean() <= level + 4 * np.sqrt(level / 20_000)


def test_shift_by_hand() -> None:
    assert shift(np.array([1.0, 2.0, 3.0]), np.array([11.0, 12.0, 13.0])) == 10
    # Between the two middle ones of 9, 10, 13 and 14.
    assert shift(np.array([1.0, 2.0]), np.array([11.0, 15.0])) == 11.5


def test_shift_interval_covers() -> None:
    base, candidate = LOT.standard_normal((5000, 10)), LOT.standard_normal((5000, 10)) + 1
    low, high = shift_interval(base, candidate)
    missed = ((low > 1) | (high < 1)).mean()
    assert 0.03 < missed < 0.055  # exact: at most 5 %


def test_shift_interval_belongs_to_the_test() -> None:
    for _ in range(200):
        base, candidate = LOT.standard_normal(8), LOT.standard_normal(8) + 1
        low, _ = shift_interval(base, candidate)
        assert (low > 0) == (rank_p(base, candidate) <= 0.025)


def test_three_boots_have_no_interval() -> None:
    low, high = shift_interval(np.arange(3.0), np.arange(3.0))
    assert low == -np.inf
    assert high == np.inf


@pytest.mark.parametrize(("base", "candidate"), [(4, 4), (6, 5), (8, 8)])
def test_permutation_of_means_is_scipys(base: int, candidate: int) -> None:
    def larger(one: np.ndarray, other: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray(other.mean(axis=axis) - one.mean(axis=axis))

    for _ in range(5):
        one, other = LOT.poisson(3, base).astype(float), LOT.poisson(4, candidate).astype(float)
        expected = stats.permutation_test(
            (one, other), larger, alternative="greater", vectorized=True, n_resamples=np.inf, axis=0
        ).pvalue
        assert mean_p(one, other) == pytest.approx(expected)


def test_permutation_by_lot_is_near_the_exact_one() -> None:
    one, other = LOT.standard_normal(15), LOT.standard_normal(15) + 0.5
    expected = stats.ttest_ind(other, one, alternative="greater").pvalue
    assert mean_p(one, other) == pytest.approx(expected, abs=0.02)
    assert mean_p(one, other) == mean_p(one, other)


def test_mean_interval_belongs_to_the_test() -> None:
    for _ in range(5):
        base, candidate = LOT.standard_normal(7), LOT.standard_normal(7) + 1
        low, high = mean_interval(base, candidate)
        assert mean_p(base, candidate - low - 1e-6) > 0.025 >= mean_p(base, candidate - low + 1e-6)
        assert mean_p(-base, high + 1e-6 - candidate) <= 0.025 < mean_p(-base, high - 1e-6 - candidate)
        assert low < candidate.mean() - base.mean() < high


def test_holm_by_hand() -> None:
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])
    for order in permutations([0.001, 0.02, 0.5]):
        assert sorted(holm(np.array(order))) == pytest.approx([0.003, 0.04, 0.5])


def test_two_batches_is_a_p() -> None:
    first, confirm = LOT.random(2_000_000), LOT.random(2_000_000)
    p = two_batches(first, confirm, 0.01)
    for level in (0.01, 0.005, 0.002, 0.0005):
        assert (p <= level).mean() == pytest.approx(level, abs=5 * np.sqrt(level / 2e6))


def test_two_batches_needs_both_and_never_rises() -> None:
    def p(first: float, confirm: float) -> float:
        return float(two_batches(np.array(first), np.array(confirm), 0.01))

    assert p(1e-9, 0.21) == 1
    assert p(0.06, 1e-9) == 1
    grid = [1e-9, 1e-5, 1e-3, 0.01, 0.05, 0.2, 1]
    for first, confirm in product(grid, grid):
        for better in grid:
            if better <= first:
                assert p(better, confirm) <= p(first, confirm)
            if better <= confirm:
                assert p(first, better) <= p(first, confirm)


def test_floor_is_what_boots_of_one_kernel_show() -> None:
    base = LOT.standard_normal((2000, 10))
    assert 0.6 < float(np.median(floor(base))) < 0.9  # 90 % of the shifts of 10 against 10: 1.645 x sqrt(2 / 10) = 0.74
    assert floor(np.ones(10)) == 0
    assert floor(np.ones(3)) == np.inf
    assert floor(LOT.standard_normal(40)).shape == ()


def test_detectable_is_detected_four_times_of_five() -> None:
    base, candidate = LOT.standard_normal((3000, 10)), LOT.standard_normal((3000, 10))
    size = float(np.median([detectable(*pair, 0.05) for pair in zip(base, candidate, strict=True)]))
    assert 0.75 < (rank_p(base, candidate + size) <= 0.05).mean() < 0.85
    assert detectable(np.arange(2.0), np.arange(2.0), 0.05) == np.inf
