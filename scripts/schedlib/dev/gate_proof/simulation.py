# SPDX-License-Identifier: GPL-2.0
"""The gate on simulated campaigns: how often it is wrong, how often it catches a change, and with how many boots.

The gate is configs/gates/default.toml as it is. Its metrics that are compared by ranks are simulated; the others count
as never worse, as in a gate where they are quiet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from schedlib.dev.gate_proof.noise_models import Model
from schedlib.dev.gate_proof.rivals import RIVALS
from schedlib.formats.bench_gate_document import SimulationResult
from schedlib.formats.gate_document import Method
from schedlib.gate.block_orders import BLOCK_ORDERS
from schedlib.gate.decision import Limits, decide, look_evidence
from schedlib.gate.rules import load_gate
from schedlib.gate.statistics import Flags, Values, step_of

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
RIVALS_BOOTS = 10, 20
"""The other tools do not end early; they judge so many boots of each kernel."""

RIVALS_CAMPAIGNS = 1000
"""Otava's rule takes longer than all the rest: the others judge the first campaigns only."""

_CHUNK = 100


def candidates_slots(order: str, campaigns: int, lot: np.random.Generator) -> Flags:
    """Which boots of each campaign are the candidate's: drawn by lot as `gate plan` does, or a fixed order."""
    boots = LOOKS[-1]
    fixed = "A" * boots + "B" * boots if order == "blocks" else order
    orders = {"by lot": BLOCK_ORDERS, "mirrored": ("ABBABAAB", "BAABABBA")}.get(order, (fixed,))
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
        order: `by lot`, `mirrored` (ABBABAAB or BAABABBA by lot), `blocks`, or an order that is repeated.
    """

    model: Model
    change: float = 0.0
    clock: float = 0.0
    spread: float = 1.0
    runs: int = 1
    spoil: Spoil | None = None
    order: str = "by lot"

    def boots(self, lot: np.random.Generator, campaigns: int) -> tuple[Values, Values, Values]:
        """Values of both kernels, campaigns x metrics x boots, and the base's runs, x runs; larger is worse."""
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
            for side, read in zip(reads, (base, candidate), strict=True):
                side[..., run] = np.floor(read / self.clock) * self.clock if self.clock else read
        reads = np.where(LIMITS.higher[:, None, None], -1 / reads, reads)
        base, candidate = reads.mean(axis=-1)
        return base, candidate, reads[0]


def as_measured(values: Values) -> Values:
    """The values before they were negated: above 0, whether more or less is better."""
    return np.abs(values)


def simulate(case: GateCase, seed: int, campaigns: int) -> SimulationResult:
    """Simulate campaigns of up to 20 boots of each kernel."""
    lot = np.random.default_rng(seed)
    failed = passed = caught = boots = 0
    rivals = {name: np.zeros(4) for name in RIVALS}
    for done in range(0, campaigns, _CHUNK):
        base, candidate, runs = case.boots(lot, min(_CHUNK, campaigns - done))
        if done < RIVALS_CAMPAIGNS:
            _rivals(base, candidate, rivals)
        for look in LOOKS:
            step = step_of(runs[..., :look, :].reshape(*runs.shape[:2], look * case.runs))
            found = look_evidence(base[..., :look], candidate[..., :look], LIMITS, step)
            said = decide(found, GATE.alpha, len(LOOKS), GATE.family, last=look == LOOKS[-1])
            fails, passes = said.failed.any(axis=-1), said.passed.all(axis=-1)
            failed += int(fails.sum())
            caught += int(said.failed[:, 0].sum())
            passed += int(passes.sum())
            ended = fails | passes if look < LOOKS[-1] else np.ones(len(base), dtype=bool)
            boots += look * int(ended.sum())
            base, candidate, runs = base[~ended], candidate[~ended], runs[~ended]
    judged = min(campaigns, RIVALS_CAMPAIGNS)
    shares = {name: [100 * float(count) / judged for count in each] for name, each in rivals.items()}
    return SimulationResult(
        campaigns,
        100 * failed / campaigns,
        100 * passed / campaigns,
        100 * caught / campaigns,
        boots / campaigns,
        {name: (few, many) for name, (few, many, _, _) in shares.items()},
        {name: (few, many) for name, (_, _, few, many) in shares.items()},
    )


def _rivals(base: Values, candidate: Values, rivals: dict[str, Values]) -> None:
    both = [as_measured(side) for side in (base, candidate)]
    for name, rule in RIVALS.items():
        few, many = (rule(both[0][..., :boots], both[1][..., :boots], LIMITS.higher) for boots in RIVALS_BOOTS)
        rivals[name] += [few.any(-1).sum(), many.any(-1).sum(), few[:, 0].sum(), many[:, 0].sum()]
