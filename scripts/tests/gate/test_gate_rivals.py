# SPDX-License-Identifier: GPL-2.0
"""The other tools' rules by hand, and the program that holds them against the real tools."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from schedlib.dev.gate_proof.noise_models import log_normal
from schedlib.dev.gate_proof.real_tools import MetricPair, compare, main
from schedlib.dev.gate_proof.rivals import RIVALS, Rule, benchstat, google_benchmark, ktstr, lkp, mmtests, otava
from schedlib.dev.gate_proof.simulation import GateCase
from schedlib.errors import SchedlineError
from schedlib.gate.statistics import Values

LOWER, HIGHER = False, True


@pytest.fixture
def lot() -> np.random.Generator:
    """The same numbers for each test, in whatever order they run."""
    return np.random.default_rng(3)


def near(value: float, boots: int = 10, spread: float = 0.004) -> Values:
    """Values around one, in mixed order."""
    return np.asarray(value * (1 + spread * np.linspace(-1, 1, boots))[::3].repeat(3)[:boots])


def worse(rule: Rule, base: Values, candidate: Values, higher: bool) -> bool:
    """What the rule says of one comparison."""
    return bool(rule(base[None], candidate[None], np.array([higher]))[0])


@pytest.mark.parametrize("name", sorted(RIVALS))
def test_each_rule_knows_what_is_worse(name: str) -> None:
    """Half as much again is worse if less is better, and better if more is."""
    small, large = near(1.0), near(1.5)
    rule = RIVALS[name]
    assert worse(rule, small, large, LOWER)
    assert worse(rule, large, small, HIGHER)
    assert not worse(rule, small, large, HIGHER)
    assert not worse(rule, large, small, LOWER)
    assert not worse(rule, small, small, LOWER)


@pytest.mark.parametrize("boots", [10, 20])
def test_rank_tests_are_scipys(boots: int, lot: np.random.Generator) -> None:
    for _ in range(100):
        one, other = lot.integers(10, 18, boots).astype(np.float64), lot.integers(11, 19, boots).astype(np.float64)
        p = stats.mannwhitneyu(one, other, method="asymptotic").pvalue
        larger = np.median(other) > np.median(one)
        assert worse(google_benchmark, one, other, LOWER) == (p < 0.05 and larger)


def test_benchstat_counts_ties_exactly() -> None:
    """scipy has no exact test with ties, but can permute."""
    base = np.array([1.0, 2, 2, 3, 3, 3])
    for candidate in (np.array([2.0, 3, 3, 4, 4, 4]), np.array([3.0, 3, 4, 4, 4, 5])):
        method = stats.PermutationMethod(n_resamples=1000)  # 924 ways are all
        p = stats.mannwhitneyu(base, candidate, method=method).pvalue
        assert worse(benchstat, base, candidate, LOWER) == (p <= 0.05)


def test_lkp_takes_the_upper_one_of_two_middles() -> None:
    base, candidate = np.array([1.0, 1.0, 1.1, 1.1]), np.array([1.15, 1.15, 1.16, 1.16])
    assert worse(lkp, base, candidate, LOWER)  # 1.16 / 1.1 is over 1.05
    assert not worse(lkp, base, candidate - 0.01, LOWER)  # by the means of two middles it would be 1.095


def test_mmtests_takes_the_harmonic_mean_if_more_is_better() -> None:
    """3.43 against 3, and not 4 against 3."""
    base = np.array([2.0, 2.0, 6.0, 6.0, 6.0, 2.0])
    assert not worse(mmtests, base, near(2.9, 6), HIGHER)
    assert worse(mmtests, base * 1e-3 + 3.4, near(2.9, 6), HIGHER)


def test_otava_looks_for_the_place_of_the_change() -> None:
    """The candidate's last five boots are slower. Otava calls that worse."""
    candidate = np.concatenate([near(1.0, 5), near(1.2, 5)])
    assert worse(otava, near(1.0), candidate, LOWER)
    assert stats.ttest_ind(near(1.0), candidate).pvalue > 0.001


def test_ktstr_says_nothing_of_noise_over_one_percent() -> None:
    assert not worse(ktstr, near(1.0, spread=0.006), near(1.5), LOWER)


def test_pairs_are_given_to_a_program(tmp_path: Path) -> None:
    """The program sees every pair, and its answers are counted."""
    pair = MetricPair(np.array([1.0, 2.0]), np.array([3.0]), higher=True)
    assert pair.line == "higher 1.0 2.0 | 3.0"
    program = tmp_path / "judge"
    program.write_text("#!/bin/sh\nwhile read -r line; do echo 1; done\n")
    program.chmod(0o755)
    case = GateCase(log_normal(0.03))
    count, alike, real, ours = compare("ktstr", str(program), case, 10, 3)
    assert (count, real, ours) == (12, 12, 0)
    assert alike == 0
    program.write_text("#!/bin/sh\necho 1\n")
    with pytest.raises(SchedlineError, match="judged 1 of 12"):
        compare("ktstr", str(program), case, 10, 3)


def test_an_unknown_tool_is_refused() -> None:
    with pytest.raises(SchedlineError, match="is not TOOL=PATH"):
        main(["perf=/usr/bin/perf"])
