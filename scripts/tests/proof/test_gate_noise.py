# SPDX-License-Identifier: GPL-2.0
"""What a noise model says of itself is true of the values that it draws."""

from __future__ import annotations

import json

import numpy as np
import pytest

from proof.gate_noise import MODELS, RECORDED, log_normal, recorded


def test_recorded_runs_are_those_of_the_machine() -> None:
    """Consecutive ones, of which each pair may be swapped."""
    rows = json.loads(RECORDED.read_text())["metrics"]
    assert {len(row["values"]) for row in rows} == {60}
    [first, *_] = recorded(np.random.default_rng(1), (4, len(rows), 20))
    for row, drawn in zip(rows, first, strict=True):
        values = np.array(row["values"], dtype=float)
        known = 1 / values if row["direction"] == "higher" else values
        known = np.sort(known / np.median(known))
        assert np.isclose(drawn[:, None], known, rtol=1e-12).any(axis=1).all()


def test_the_models_are_as_noisy_as_their_names_say() -> None:
    shape = (400, 1, 40)
    for spread in (0.03, 0.10):
        assert np.log(log_normal(spread)(np.random.default_rng(2), shape)).std() == pytest.approx(spread, rel=0.05)
    slow = MODELS["every 2nd +10 %"](np.random.default_rng(3), shape)
    assert np.mean(slow[..., ::2] / slow[..., 1::2]) == pytest.approx(1.0, abs=0.02)
    halves = np.sort(slow.reshape(-1))
    assert halves[len(halves) // 2 :].mean() / halves[: len(halves) // 2].mean() == pytest.approx(1.1, abs=0.03)
