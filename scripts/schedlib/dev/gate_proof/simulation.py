# SPDX-License-Identifier: GPL-2.0
"""The gate on simulated campaigns: how often it is wrong, how often it catches a change, and with how many boots.

The gate is configs/gates/default.toml as it is. Its metrics that are compared by ranks are simulated; the others count
as never worse, as in a gate where they are quiet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from schedlib.dev.gate_proof.noise_models import Model
from schedlib.formats.bench_gate_document import SimulationResult
from schedlib.formats.gate_document import Method
from schedlib.gate.block_orders import BLOCK_ORDERS
from schedlib.gate.decision import Limits, decide, look_evidence
from schedlib.gate.rules import load_gate
from schedlib.gate.statistics import Flags, Values, upper_tail

Rule = Callable[[Values, Values], Flags]
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
_CHUNK = 500


# The decision rules of other tools, from their source, for the same boots; larger is worse. Each returns the metrics
# that it reports as worse. None has a correction for several metrics.


def benchstat(base: Values, candidate: Values) -> Flags:
    """golang/perf benchmath: two-sided Mann-Whitney, alpha 0.05; the direction by the medians."""
    u = (candidate[..., :, None] > base[..., None, :]).sum(axis=(-1, -2))
    return np.asarray(2 * upper_tail(base.shape[-1], candidate.shape[-1])[u] < 0.05)


def google_benchmark(base: Values, candidate: Values) -> Flags:
    """google/benchmark tools/gbench/report.py: scipy's mannwhitneyu with its defaults, alpha 0.05."""
    p = stats.mannwhitneyu(base, candidate, alternative="two-sided", axis=-1).pvalue
    return np.asarray((p < 0.05) & (np.median(candidate, axis=-1) > np.median(base, axis=-1)))


def mmtests(base: Values, candidate: Values) -> Flags:
    """mmtests Stat.pm: a star if the difference of means is over the sum of 1.96 standard deviations of each."""
    widths = 1.96 * (base.std(axis=-1, ddof=1) + candidate.std(axis=-1, ddof=1))
    return np.asarray(candidate.mean(axis=-1) - base.mean(axis=-1) > widths)


def lkp(base: Values, candidate: Values) -> Flags:
    """lkp lib/changed_stat.rb, plain compare: each median is outside the other's range, and the ratio is over 1.05."""
    middle, other = np.median(base, axis=-1), np.median(candidate, axis=-1)
    apart = (other > base.max(axis=-1)) & (candidate.min(axis=-1) > middle)
    return np.asarray(apart & (other > 1.05 * middle))


def otava(base: Values, candidate: Values) -> Flags:
    """Otava analysis.py at a known change point: t test on deviations with ddof=0, p < 0.001."""
    sides = [(side.mean(axis=-1), side.std(axis=-1), side.shape[-1]) for side in (base, candidate)]
    p = stats.ttest_ind_from_stats(*sides[0], *sides[1]).pvalue
    return np.asarray((p < 0.001) & (candidate.mean(axis=-1) > base.mean(axis=-1)))


RIVALS: dict[str, Rule] = {
    "benchstat": benchstat,
    "google/benchmark": google_benchmark,
    "mmtests": mmtests,
    "lkp": lkp,
    "Otava": otava,
}


def candidates_slots(order: str, campaigns: int, lot: np.random.Generator) -> Flags:
    """Which boots of each campaign are the candidate's: drawn by lot as `gate plan` does, or a fixed order."""
    boots = LOOKS[-1]
    fixed = "A" * boots + "B" * boots if order == "blocks" else order
    orders = BLOCK_ORDERS if order == "by lot" else (fixed,)
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
        order: `by lot`, `blocks`, or an order that is repeated.
    """

    model: Model
    change: float = 0.0
    clock: float = 0.0
    spread: float = 1.0
    spoil: Spoil | None = None
    order: str = "by lot"

    def boots(self, lot: np.random.Generator, campaigns: int) -> tuple[Values, Values]:
        """Values of both kernels: campaigns x metrics x boots; larger is worse."""
        values = self.model(lot, (campaigns, len(RULES), 2 * LOOKS[-1]))
        chosen = np.broadcast_to(candidates_slots(self.order, campaigns, lot)[:, None], values.shape)
        base, candidate = (values[each].reshape(*values.shape[:2], -1) for each in (~chosen, chosen))
        candidate = candidate**self.spread
        candidate[:, 0] *= 1 + self.change
        if self.spoil:
            candidate[:, 0] = self.spoil(lot, candidate[:, 0])
        if self.clock:
            base, candidate = (np.floor(each / self.clock) * self.clock for each in (base, candidate))
        higher = LIMITS.higher[:, None]
        return np.where(higher, -1 / base, base), np.where(higher, -1 / candidate, candidate)


def simulate(case: GateCase, seed: int, campaigns: int) -> SimulationResult:
    """Simulate campaigns of up to 20 boots of each kernel."""
    lot = np.random.default_rng(seed)
    failed = passed = caught = boots = 0
    rivals = {name: np.zeros(4) for name in RIVALS}
    for done in range(0, campaigns, _CHUNK):
        base, candidate = case.boots(lot, min(_CHUNK, campaigns - done))
        _rivals(base, candidate, rivals)
        for look in LOOKS:
            found = look_evidence(base[..., :look], candidate[..., :look], LIMITS)
            said = decide(found, GATE.alpha, len(LOOKS), GATE.family, last=look == LOOKS[-1])
            fails, passes = said.failed.any(axis=-1), said.passed.all(axis=-1)
            failed += int(fails.sum())
            caught += int(said.failed[:, 0].sum())
            passed += int(passes.sum())
            ended = fails | passes if look < LOOKS[-1] else np.ones(len(base), dtype=bool)
            boots += look * int(ended.sum())
            base, candidate = base[~ended], candidate[~ended]
    shares = {name: [100 * float(count) / campaigns for count in each] for name, each in rivals.items()}
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
    few = base[..., :10], candidate[..., :10]
    for name, rule in RIVALS.items():
        one, all_boots = rule(*few), rule(base, candidate)
        rivals[name] += [one.any(-1).sum(), all_boots.any(-1).sum(), one[:, 0].sum(), all_boots[:, 0].sum()]
