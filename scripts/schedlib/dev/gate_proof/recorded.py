# SPDX-License-Identifier: GPL-2.0
"""Measured runs of one kernel as a noise model: which of a pair is the base is random."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np

from schedlib.gate.statistics import Values

RECORDED = Path(__file__).with_name("recorded.json")
"""Made by scripts/tests/record_runs.py."""


@cache
def runs() -> Values:
    """Metrics x runs in the order of time, as factors of the metric's median; larger is worse."""
    rows = json.loads(RECORDED.read_text())["metrics"]
    values = np.array([row["values"] for row in rows], dtype=np.float64)
    higher = np.array([row["direction"] == "higher" for row in rows])
    values[higher] = 1 / values[higher]
    found: Values = values / np.median(values, axis=-1, keepdims=True)
    return found


def recorded(lot: np.random.Generator, shape: tuple[int, int, int]) -> Values:
    """Consecutive runs from a random first one; the two of each pair are swapped at random.

    ABBA of such slots is a random pair design: the recorded runs could have been any of these campaigns.
    """
    campaigns, metrics, slots = shape
    values = runs()[:metrics]
    pairs = slots // 2
    first = lot.integers(0, values.shape[1] - slots + 1, campaigns)
    swapped = lot.random((campaigns, pairs)) < 0.5
    within = np.arange(slots).reshape(pairs, 2)
    chosen = np.where(swapped[..., None], within[:, ::-1], within).reshape(campaigns, slots) + first[:, None]
    found: Values = np.moveaxis(values[:, chosen], 0, 1)
    return found
