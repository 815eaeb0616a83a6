# SPDX-License-Identifier: GPL-2.0
"""A small share of proof/gate_rates.py, with bounds that chance does not exceed."""

from __future__ import annotations

import pytest

from proof import gate_rates as proof
from proof.gate_noise import MODELS
from proof.gate_rates import ProofLine
from proof.gate_simulation import GateCase, simulate

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("model", sorted(MODELS))
def test_error_rates(model: str) -> None:
    """FAIL without a change at most 1 %, PASS at a change of detect at most 2.5 %; here with what chance adds."""
    assert simulate(GateCase(MODELS[model]), 5, 500).failed <= 2.4
    assert simulate(GateCase(MODELS[model], proof.DETECT), 5, 500).passed <= 4.5


def test_power() -> None:
    for change, least in ((0.10, 93), (0.25, 100)):
        found = simulate(GateCase(MODELS["log-normal 5 %"], change), 5, 500)
        assert found.caught >= least
        assert found.boots < 14


def test_a_pass_takes_all_boots() -> None:
    """An early one hid what the others would have shown."""
    assert simulate(GateCase(MODELS["log-normal 5 %"]), 5, 100).boots > 19.5


def test_strict_alternation_is_weak() -> None:
    """What makes the order by lot necessary: with ABAB, half of the campaigns fail without a change."""
    assert simulate(GateCase(MODELS["every 2nd +10 %"], order="AB"), 5, 200).failed > 30


def test_a_minority_of_bad_boots() -> None:
    """With one boot of five, 0.8 ** 20 = 1.2 % have no bad one in 20 boots. 17 % passed after 8. Without, all pass."""
    slow = {name: case for part, name, case in proof.cases() if part == "bad boots"}
    for case in slow.values():
        assert simulate(case, 5, 500).passed <= 4.5
    assert simulate(GateCase(slow["3 of each 10 boots 10 times slower"].model), 5, 500).passed > 97


def test_bad_boots_of_the_base_hide_none_of_the_candidate() -> None:
    """11 and 12 % of these campaigns passed."""
    for part, _, case in proof.cases():
        if part == "excess":
            assert simulate(case, 5, 500).passed <= 4.5


def test_what_is_not_promised_is_named() -> None:
    """Every line that is exempt from the goals misses one: it is there because of that."""
    exempt = {name: case for part, name, case in proof.cases() if part == "no promise"}
    assert simulate(exempt["candidate 20 times as noisy"], 5, 2000).failed > 1


def test_the_mean_of_runs_does_not_hide_the_step_of_their_clock() -> None:
    """The step of the means is a fifth of the clock's: then a PASS is wrong in two campaigns of three."""
    case = next(case for _, name, case in proof.cases() if name == "6.05 us on it, 5 runs")
    assert simulate(case, 5, 200).passed == 0


def test_interval_of_a_share() -> None:
    low, high = proof.interval(2.5, 10_000)
    assert (low, high) == pytest.approx((2.21, 2.83), abs=0.01)
    assert proof.interval(0.0, 100)[0] == 0


def test_tables() -> None:
    result = simulate(GateCase(MODELS["log-normal 5 %"], 0.10), 5, 20)
    lines = [ProofLine(part, "log-normal 5 %", change, result) for part, change in (("no change", 0.0), ("found", 0.1))]
    said = proof.text(lines)
    assert "20 campaigns for each line" in said
    assert any("FAIL in" in missed for missed in proof.met(lines))
    assert max(map(len, said.splitlines()[5:])) <= 108
