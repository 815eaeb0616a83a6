# SPDX-License-Identifier: GPL-2.0
"""The table of the workloads' budget rule: the checked-in file is the generator's output, and enumeration agrees."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import pytest

from schedlib.dev import budget_table
from schedlib.dev.budget_table import (
    BATCH,
    FALSE_ALARMS,
    FAMILY,
    FEWEST,
    MOST,
    every_order,
    least_pairs,
    least_slices,
    orders_of,
)
from schedlib.paths import SELFTESTS


def test_what_is_checked_in_is_what_the_generator_makes() -> None:
    assert (SELFTESTS / "sched_latency/budget_table.h").read_text() == budget_table.header()


def both_at_least(recorded: int, batch: int, least: int) -> Fraction:
    """The probability that each of two batches has at least this number of pairs above the baseline.

    All orders of the runs are equally probable, because the runs do not differ.
    """
    return Fraction(sum(orders_of(recorded, batch, recorded * batch - least).values()), every_order(recorded, batch))


def enumerated(recorded: int, batch: int, least: int) -> Fraction:
    """The same probability, by enumerating every order of the runs."""
    places = range(recorded + 2 * batch)
    good = every = 0
    for baseline in combinations(places, recorded):
        rest = [place for place in places if place not in baseline]
        pairs = {place: sum(place > each for each in baseline) for place in rest}
        for one in combinations(rest, batch):
            first = sum(pairs[place] for place in one)
            second = sum(pairs.values()) - first
            every += 1
            good += first >= least and second >= least
    return Fraction(good, every)


@pytest.mark.parametrize(("recorded", "batch"), [(1, 1), (2, 2), (3, 2), (4, 2), (4, 3), (2, 4)])
def test_probability_is_that_of_all_orders(recorded: int, batch: int) -> None:
    for least in range(recorded * batch + 2):
        assert both_at_least(recorded, batch, least) == enumerated(recorded, batch, least)


def test_entries_are_the_lowest_that_are_allowed() -> None:
    for recorded in (FEWEST, 8, MOST):
        least = least_pairs(recorded)
        assert both_at_least(recorded, BATCH, least) * FAMILY <= FALSE_ALARMS
        assert both_at_least(recorded, BATCH, least - 1) * FAMILY > FALSE_ALARMS


def test_all_above_all_is_a_matter_of_counting() -> None:
    # The recorded runs have to be the lowest of all runs.
    assert both_at_least(5, 5, 25) == Fraction(1, comb(15, 5))


def test_too_few_runs_prove_nothing() -> None:
    with pytest.raises(ValueError, match="2 recorded runs against two batches of 5 prove nothing"):
        least_pairs(2)


def test_slices_follow_the_binomial() -> None:
    for slices in (7, 21, 125):
        least = least_slices(slices)
        tail = [Fraction(sum(comb(slices, k) for k in range(low, slices + 1)), 2**slices) for low in (least, least - 1)]
        assert tail[0] <= FALSE_ALARMS < tail[1]
    # With fewer slices, all of them could point one way by chance.
    assert least_slices(6) == 7


def test_one_batch_alone_is_mann_whitney() -> None:
    for recorded in (5, 10):
        counts = _counts(recorded, BATCH)
        for least in range(recorded * BATCH - 12, recorded * BATCH + 1):
            alone = Fraction(sum(counts[least:]), sum(counts))
            # Exceeding in both batches is less probable than in one, and more probable than with separate baselines.
            assert alone**2 <= both_at_least(recorded, BATCH, least) <= alone


def test_counts_are_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    for high in range(5):
        batch = [*range(BATCH - high), *(100 + each for each in range(high))]
        baseline = [each + 0.5 for each in range(5)]
        result = stats.mannwhitneyu(batch, baseline, alternative="greater", method="exact")
        counts = _counts(5, BATCH)
        assert result.pvalue == pytest.approx(sum(counts[int(result.statistic) :]) / sum(counts))


def _counts(recorded: int, batch: int) -> list[int]:
    """For each U, the number of orders of two groups with U pairs."""
    counts = [0] * (recorded * batch + 1)
    for one in combinations(range(recorded + batch), batch):
        counts[sum(place - index for index, place in enumerate(one))] += 1
    return counts
