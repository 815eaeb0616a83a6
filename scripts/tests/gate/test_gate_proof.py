# SPDX-License-Identifier: GPL-2.0
"""A small share of `make bench ONLY=gate`, with bounds that chance does not exceed."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedlib.dev.gate_proof import proof
from schedlib.dev.gate_proof.noise_models import MODELS
from schedlib.dev.gate_proof.rivals import RIVALS
from schedlib.dev.gate_proof.simulation import GateCase, simulate
from schedlib.formats import document
from schedlib.formats.bench_gate_document import BenchGateDocument, ProofLine


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


def test_strict_alternation_is_weak() -> None:
    """What makes the order by lot necessary: with ABAB, half of the campaigns fail without a change."""
    assert simulate(GateCase(MODELS["every 2nd +10 %"], order="AB"), 5, 200).failed > 30


def test_a_minority_of_bad_boots() -> None:
    """The best that a gate can do is 0.8 ** 8 = 17 % with one boot of five, at the first look; without, all pass."""
    slow = {name: case for part, name, case in proof.cases() if part == "bad boots"}
    assert simulate(slow["20 % of the boots 10 times slower"], 5, 500).passed < 26
    assert simulate(slow["3 of each 10 boots 10 times slower"], 5, 500).passed < 1
    assert simulate(GateCase(slow["3 of each 10 boots 10 times slower"].model), 5, 500).passed > 97


def test_the_others_are_what_is_known_of_them() -> None:
    """An earlier simulation by other code: Mann-Whitney at 0.05 finds +10 % in 92 %, lkp's plain compare in 43 %."""
    found = simulate(GateCase(MODELS["p99 of 2000, 5 %"], 0.10), 5, 1000).rivals_caught
    assert set(found) == set(RIVALS)
    assert 89 < found["benchstat"][0] < 96
    assert 36 < found["lkp"][0] < 50
    assert found["mmtests"][0] < 2


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


def test_tables(tmp_path: Path) -> None:
    result = simulate(GateCase(MODELS["log-normal 5 %"], 0.10), 5, 20)
    lines = [ProofLine(part, "log-normal 5 %", change, result) for part, change in (("no change", 0.0), ("found", 0.1))]
    said = proof.text(lines)
    assert "20 campaigns for each line" in said
    assert all(name in said for name in RIVALS)
    assert any("FAIL in" in missed for missed in proof.met(lines))
    assert max(map(len, said.splitlines()[5:])) <= 108
    made = BenchGateDocument(schema="bench-gate-1", lines=tuple(lines))
    document.write(tmp_path / "x.json", made)
    assert document.read(tmp_path / "x.json", BenchGateDocument, "") == made
