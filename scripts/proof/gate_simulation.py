# SPDX-License-Identifier: GPL-2.0
"""The gate on simulated campaigns: how often it is wrong, how often it catches a change, and with how many boots.

The gate is configs/gates/default.toml as it is. Its metrics that are compared by ranks are simulated; the others count
as never worse, as in a gate where they are quiet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from proof.gate_noise import Model
from schedlib.formats.gate_document import Method
from schedlib.gate.boot_plan import BLOCK_ORDERS
from schedlib.gate.decision import Limits, decide, look_evidence
from schedlib.gate.rules import load_gate
from schedlib.gate.statistics import Flags, Values, coarser_step

Spoil = Callable[[np.random.Generator, Values], Values]
"""What becomes of the candidate's values of the first metric."""

GATE = load_gate("default")
RULES = tuple(rule for rule in GATE.rules if rule.method is Method.RANK)
LOOKS = GATE.looks
LIMITS = Limits(
    np.array([rule.budget / 100 for rule in RULES]),
    np.array([rule.detect / 100 for rule in RULES]),
    np.zeros(len(RULES), dtype=bool),
    np.array([rule.direction == "higher" for rule in RULES]),
)
_CHUNK = 100


def candidates_slots(order: str, campaigns: int, lot: np.random.Generator) -> Flags:
    """Which boots of each campaign are the candidate's: drawn by lot as `gate plan` does, or a fixed order."""
    boots = LOOKS[-1]
    fixed = "A" * boots + "B" * boots if order == "blocks" else order
    orders = {"by lot": BLOCK_ORDERS, "mirrored": ("ABBABAAB", "BAABABBA"), "pairs": ("AB", "BA")}.get(order, (fixed,))
    known = np.array([[kind == "B" for kind in each] for each in orders])
    blocks = -(-2 * boots // known.shape[1])
    return known[lot.integers(0, len(known), (campaigns, blocks))].reshape(campaigns, -1)[:, : 2 * boots]


@dataclass(frozen=True)
class GateCase:
    """What is simulated.

    Attributes:
        change: share by which the first metric becomes worse.
        clock: one step of the clock, as a share of the true value; 0 for none.
        spread: factor of the candidate's noise.
        runs: number of runs in each boot, which are averaged. They differ as the model's boots do.
        order: `by lot`, `pairs`, `mirrored` (ABBABAAB or BAABABBA by lot), `blocks`, or an order that is repeated.
    """

    model: Model
    change: float = 0.0
    clock: float = 0.0
    spread: float = 1.0
    runs: int = 1
    spoil: Spoil | None = None
    spoil_base: Spoil | None = None
    order: str = "by lot"

    def boots(self, lot: np.random.Generator, campaigns: int) -> Values:
        """The runs of both kernels, kernels x campaigns x metrics x boots x runs; larger is worse."""
        shape = (campaigns, len(RULES), 2 * LOOKS[-1])
        chosen = np.broadcast_to(candidates_slots(self.order, campaigns, lot)[:, None], shape)
        reads = np.empty((2, *shape[:2], LOOKS[-1], self.runs))
        for run in range(self.runs):
            values = self.model(lot, shape)
            base, candidate = (values[each].reshape(*shape[:2], -1) for each in (~chosen, chosen))
            candidate = candidate**self.spread
            candidate[:, 0] *= 1 + self.change
            if self.spoil:
                candidate[:, 0] = self.spoil(lot, candidate[:, 0])
            if self.spoil_base:
                base[:, 0] = self.spoil_base(lot, base[:, 0])
            for side, read in zip(reads, (base, candidate), strict=True):
                side[..., run] = np.floor(read / self.clock) * self.clock if self.clock else read
        return np.asarray(np.where(LIMITS.higher[:, None, None], -1 / reads, reads))


@dataclass(frozen=True)
class SimulationResult:
    """Shares of campaigns, in percent.

    Attributes:
        failed, passed: the whole gate said FAIL, or PASS; the rest stayed INCONCLUSIVE up to the last look.
        caught: the gate said FAIL for the metric that was changed.
        boots: the mean number of boots of each kernel until the gate ended.
    """

    campaigns: int
    failed: float
    passed: float
    caught: float
    boots: float


def simulate(case: GateCase, seed: int, campaigns: int) -> SimulationResult:
    """Simulate campaigns of up to 20 boots of each kernel."""
    lot = np.random.default_rng(seed)
    failed = passed = caught = boots = 0
    for done in range(0, campaigns, _CHUNK):
        runs = case.boots(lot, min(_CHUNK, campaigns - done))
        for look in LOOKS:
            step = coarser_step(*runs[..., :look, :].reshape(*runs.shape[:3], look * case.runs))
            base, candidate = runs[..., :look, :].mean(axis=-1)
            found = look_evidence(base, candidate, LIMITS, step, pairs=case.order == "pairs")
            said = decide(found, GATE.alpha, LOOKS, GATE.family, look)
            fails, passes = said.failed.any(axis=-1), said.passed.all(axis=-1)
            failed += int(fails.sum())
            caught += int(said.failed[:, 0].sum())
            passed += int(passes.sum())
            ended = fails | passes if look < LOOKS[-1] else np.ones(len(base), dtype=bool)
            boots += look * int(ended.sum())
            runs = runs[:, ~ended]
    return SimulationResult(
        campaigns, 100 * failed / campaigns, 100 * passed / campaigns, 100 * caught / campaigns, boots / campaigns
    )
