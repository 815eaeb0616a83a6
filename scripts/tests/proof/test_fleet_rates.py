# SPDX-License-Identifier: GPL-2.0
"""A small share of proof/fleet_rates.py."""

from __future__ import annotations

from proof.fleet_rates import verdicts


def test_the_model_that_regresses_is_named_and_no_other() -> None:
    assert verdicts(100, 40, 0.0)["PASS"] == 40
    assert verdicts(100, 40, 0.05)["that model alone is named"] >= 38
    assert verdicts(100, 40, 0.15)["PASS"] == 0
