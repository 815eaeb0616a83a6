# SPDX-License-Identifier: GPL-2.0
"""Noise models: the values of a metric's boots if nothing changed. One model is recorded, the others are simulated.

An array is campaigns x metrics x slots. Slots are boots, in the order of measurement. Values are factors of a true
value of 1, and larger is worse.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from scipy.special import ndtr

from schedlib.gate.statistics import Values

RECORDED = Path(__file__).with_name("recorded.json")
"""Measured runs of one kernel: of each metric one value for each round, in the order of the measurement."""

Model = Callable[[np.random.Generator, tuple[int, int, int]], Values]


def log_normal(spread: float) -> Model:
    """Independent boots that differ by this share."""
    return lambda lot, shape: np.exp(spread * lot.standard_normal(shape))


def correlated(memory: float) -> Model:
    """5 % from boot to boot, and each boot remembers the one before: AR(1)."""

    def model(lot: np.random.Generator, shape: tuple[int, int, int]) -> Values:
        fresh = lot.standard_normal(shape)
        found = fresh.copy()
        for place in range(1, shape[-1]):
            found[..., place] = memory * found[..., place - 1] + np.sqrt(1 - memory**2) * fresh[..., place]
        return np.exp(0.05 * found)

    return model


def every(period: int) -> Model:
    """Each boot of a period is 10 % slower for all metrics, from a random one on; in addition 3 % of noise."""

    def model(lot: np.random.Generator, shape: tuple[int, int, int]) -> Values:
        place = np.arange(shape[-1]) + lot.integers(0, period, (shape[0], 1, 1))
        return log_normal(0.03)(lot, shape) * np.where(place % period, 1.0, 1.1)

    return model


def like_an_order(lot: np.random.Generator, shape: tuple[int, int, int]) -> Values:
    """Boots 2, 3, 5 and 8 of every eight are 30 % slower for all metrics; in addition 0.2 % of noise.

    ABBABAAB is one of the 22 orders of a block. So one block of 22 has the candidate in all of its slow places.
    """
    slow = np.isin(np.arange(shape[-1]) % 8, [1, 2, 4, 7])
    return log_normal(0.002)(lot, shape) * np.where(slow, 1.3, 1.0)


def trend(each: float) -> Model:
    """The machine becomes slower by this share with every boot; in addition 3 % of noise."""
    return lambda lot, shape: log_normal(0.03)(lot, shape) * np.exp(each * np.arange(shape[-1]))


def step(lot: np.random.Generator, shape: tuple[int, int, int]) -> Values:
    """From a random boot on, the machine is 20 % slower; in addition 3 % of noise."""
    later = np.arange(shape[-1]) >= lot.integers(0, shape[-1], (shape[0], 1, 1))
    return log_normal(0.03)(lot, shape) * np.where(later, 1.2, 1.0)


def pareto(lot: np.random.Generator, shape: tuple[int, int, int]) -> Values:
    """5 % of a Pareto variate with exponent 1.5, which has no finite variance, above the true value."""
    return np.asarray(1 + 0.05 * lot.pareto(1.5, shape))


def wakeups(lot: np.random.Generator, shape: tuple[int, int, int]) -> Values:
    """p99 of 2000 wake-ups (body 0.25 log-normal, 0.2 % Pareto spikes of exponent 1.5) on boots that differ by 5 %.

    An order statistic is its distribution's inverse at a beta variate: no samples are drawn.
    """
    grid = np.exp(np.linspace(-1.5, 8, 20_000))
    below = 0.998 * ndtr(np.log(grid) / 0.25) + 0.002 * np.where(grid > 2, 1 - (2 / grid) ** 1.5, 0)
    p99 = np.interp(lot.beta(1980, 21, shape), below, grid)
    return p99 / np.interp(0.99, below, grid) * log_normal(0.05)(lot, shape)


def heavy_tail(lot: np.random.Generator, shape: tuple[int, int, int]) -> Values:
    """3 % of Student's t with 2 degrees of freedom, which has no finite variance."""
    return np.exp(np.clip(0.03 * lot.standard_t(2, shape), -2, 2))


def bimodal(lot: np.random.Generator, shape: tuple[int, int, int]) -> Values:
    """One boot in three is 20 % slower; in addition 2 % of noise."""
    return np.where(lot.random(shape) < 1 / 3, 1.2, 1.0) * np.exp(0.02 * lot.standard_normal(shape))


def drift(lot: np.random.Generator, shape: tuple[int, int, int]) -> Values:
    """The machine drifts by 2 % per run, the same for all metrics; in addition each has 1 % of noise."""
    walk = np.cumsum(0.02 * lot.standard_normal((shape[0], 1, shape[2])), axis=-1)
    return np.exp(walk + 0.01 * lot.standard_normal(shape))


def drift_each(lot: np.random.Generator, shape: tuple[int, int, int]) -> Values:
    """Each metric drifts by 2 % per run, independently."""
    return np.exp(np.cumsum(0.02 * lot.standard_normal(shape), axis=-1))


def steals(lot: np.random.Generator, shape: tuple[int, int, int]) -> Values:
    """A neighbour takes 10 to 60 % of the machine for a while, in about one slot of six; in addition 2 % of noise."""
    starts = lot.random((shape[0], 1, shape[2])) < 0.1
    held = starts | (np.roll(starts, 1, axis=-1) & (lot.random(starts.shape) < 0.7))
    taken = np.where(held, lot.uniform(0.1, 0.6, starts.shape), 0.0)
    return (1 + taken) * np.exp(0.02 * lot.standard_normal(shape))


def boot_effect(lot: np.random.Generator, shape: tuple[int, int, int]) -> Values:
    """3 % from boot to boot, 1 % from run to run, 5 runs within a boot averaged."""
    runs = np.exp(0.01 * lot.standard_normal((*shape, 5))).mean(axis=-1)
    return np.asarray(np.exp(0.03 * lot.standard_normal(shape)) * runs)


@cache
def _recorded_runs() -> Values:
    """Metrics x runs in the order of time, as factors of the metric's median; larger is worse."""
    rows = json.loads(RECORDED.read_text())["metrics"]
    values = np.array([row["values"] for row in rows], dtype=np.float64)
    higher = np.array([row["direction"] == "higher" for row in rows])
    values[higher] = 1 / values[higher]
    return np.asarray(values / np.median(values, axis=-1, keepdims=True))


def recorded(lot: np.random.Generator, shape: tuple[int, int, int]) -> Values:
    """Consecutive runs from a random first one; the two of each pair are swapped at random.

    So a recorded run could have been any of the campaign's.
    """
    campaigns, metrics, slots = shape
    values = _recorded_runs()[:metrics]
    pairs = slots // 2
    first = lot.integers(0, values.shape[1] - slots + 1, campaigns)
    swapped = lot.random((campaigns, pairs)) < 0.5
    within = np.arange(slots).reshape(pairs, 2)
    chosen = np.where(swapped[..., None], within[:, ::-1], within).reshape(campaigns, slots) + first[:, None]
    return np.asarray(np.moveaxis(values[:, chosen], 0, 1))


MODELS: dict[str, Model] = {
    "log-normal 3 %": log_normal(0.03),
    "log-normal 5 %": log_normal(0.05),
    "log-normal 10 %": log_normal(0.10),
    "p99 of 2000, 5 %": wakeups,
    "heavy tail": heavy_tail,
    "Pareto 1.5": pareto,
    "two groups": bimodal,
    "drift 2 %, shared": drift,
    "drift 2 %, each": drift_each,
    "trend 1 % a boot": trend(0.01),
    "trend 3 % a boot": trend(0.03),
    "a step of 20 %": step,
    "AR(1) 0.8": correlated(0.8),
    "AR(1) -0.5": correlated(-0.5),
    "every 2nd +10 %": every(2),
    "every 3rd +10 %": every(3),
    "every 4th +10 %": every(4),
    "every 5th +10 %": every(5),
    "every 8th +10 %": every(8),
    "machine steals": steals,
    "boot 3 %, run 1 %": boot_effect,
    "recorded runs": recorded,
}
