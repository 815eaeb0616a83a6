# SPDX-License-Identifier: GPL-2.0
"""Judges a metric on many machines: the ordinary gate, with the machine as one more level.

Boots are compared within the blocks of each machine, and the counts are added up over the machines of a group (van
Elteren 1960): what differs from machine to machine has no effect. The groups are all machines, and those of each model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from math import erfc, log1p, sqrt
from typing import Literal, TypeAlias

import numpy as np
from msgspec.structs import replace

from schedlib.formats.gate_document import Method, finite
from schedlib.formats.strict import Count, Number, Strict, Word
from schedlib.gate import statistics
from schedlib.gate.comparable import more_by_chance
from schedlib.gate.decision import DOUBT, LookEvidence, decide, far_boots, together
from schedlib.gate.fleet_machines import FleetMachine, LeftOut
from schedlib.gate.judging import limits_of, scaled, told
from schedlib.gate.rules import Gate, GateRule
from schedlib.gate.statistics import Flags, Values, block_sizes, blocks_tail
from schedlib.verdict import Verdict

_BAD_SHARE = 0.01
"""No PASS if a larger share of a group's machines is bad, or of the candidate's boots."""

_MOST_LEFT_OUT = 0.2
"""No PASS for a model of which a larger share of the machines is left out."""

_MOST_NAMED = 100
"""Bad machines of a group that the document names."""

ONE_SIDED = 0.05
"""No PASS for a model if the candidate gave no result on more machines than the base, shown at this level."""

_BAD_P = 0.01
_EXACT_STATES = 2500
"""Up to this sum of squares of block sizes, the distribution of the counts is exact; above, it is normal."""

_MORE = "make more boots on each machine, or take more machines"


class FleetGroup(Strict, frozen=True, kw_only=True):
    """A metric on all machines, or on those of one model.

    Attributes:
        worse_by: the middle of the machines' effects; positive is worse, in the metric's change_unit.
        p: that it did not become worse, with Holm's correction over the metrics and groups.
        over_budget: on how many machines the estimate is above the budget.
        bad: machines that are shown to be over the budget, and whose estimate is above `detect`.
        boots: of the candidate.
        far: how many of them are bad, as the gate counts them on their machine.
    """

    name: Word
    kind: Literal["all", "model"]
    machines: Count
    verdict: Verdict
    reason: str
    worse_by: Number | None
    p: Number | None
    over_budget: Count
    bad: tuple[str, ...]
    boots: Count
    far: Count


Samples: TypeAlias = Mapping[GateRule, Sequence[FleetMachine]]
"""The machines that are judged by a metric."""


@dataclass(frozen=True)
class MachinesAtLook:
    """What the boots of a look say of one metric; arrays over the machines.

    Attributes:
        effects: on the scale of scaled(); least: if the candidate's clock is off by a step to the better.
        worse, within, budgeted: the sums of U over the blocks: of the candidate; of the base, against a candidate that
            is better by `detect`; of a candidate that is better by the budget.
        bad: see FleetGroup.
        far, far_base: the number of bad boots of each kernel.
    """

    boots: Values
    effects: Values
    least: Values
    worse: Values
    within: Values
    budgeted: Values
    bad: Flags
    far: Values
    far_base: Values

    def of(self, places: Sequence[int]) -> MachinesAtLook:
        """Some of the machines."""
        return MachinesAtLook(*(each[list(places)] for each in vars(self).values()))


def limit(rule: GateRule, amount: float) -> float:
    """The budget or detect on the scale of scaled()."""
    return amount if rule.absolute else rule.sign * log1p(rule.sign * amount / 100)


def machines_at(rule: GateRule, machines: Sequence[FleetMachine], look: int) -> MachinesAtLook:
    """What the first boots of each machine say, at most so many of each kernel."""
    found = [machine.metrics[rule.key] for machine in machines]
    boots = np.array([min(look, each.base.size) for each in found], dtype=int)
    limits = limits_of(rule)
    effect_of = statistics.mean_shift if rule.method is Method.RATE else statistics.shift
    parts = []
    for count in np.unique(boots):
        (here,) = np.nonzero(boots == count)
        base = np.array([found[at].base[:count] for at in here])
        candidate = np.array([found[at].candidate[:count] for at in here])
        step = np.array([[found[at].step] for at in here])
        known = np.isfinite(step)
        step = np.where(known, step, 0.0)
        one, two, budgeted = scaled(rule, base), scaled(rule, candidate), limits.without(candidate, limits.budget)
        effects = effect_of(one, two)
        within = statistics.count_in_blocks(limits.without(candidate + step, limits.detect), base)
        beyond = effects > limit(rule, rule.detect)
        row = (
            boots[here],
            effects,
            effect_of(one, scaled(rule, candidate - step)),
            statistics.count_in_blocks(base, candidate),
            within * known[:, 0],
            statistics.count_in_blocks(base, budgeted),
            beyond & (statistics.rank_p(base, budgeted) <= _BAD_P),
            far_boots(base, candidate, limits).sum(axis=-1),
            far_boots(base, base, limits).sum(axis=-1),
        )
        parts.append((here, row))
    back = np.argsort(np.concatenate([here for here, _ in parts]))
    return MachinesAtLook(*(np.concatenate(column)[back] for column in zip(*(row for _, row in parts), strict=True)))


def groups_at(gate: Gate, samples: Samples, look: int, left_out: Sequence[LeftOut]) -> list[tuple[FleetGroup, ...]]:
    """Judge all metrics at one look: for each the groups, all machines first, then each model."""
    found = [list(_groups(rule, machines, look, said_of(rule, left_out))) for rule, machines in samples.items()]
    evidence = [each for metric in found for _, each in metric]
    if not evidence:
        return [() for _ in samples]
    whole = together(evidence)
    family = max(gate.family * max(map(len, found)), len(evidence))
    results = zip(*astuple(decide(whole, gate.alpha, gate.looks, family, look)), strict=True)
    out = []
    for rule, metric in zip(samples, found, strict=True):
        budget, rows = f"the budget of {rule.budget:g}{percent(rule)}", []
        for group, _ in metric:
            failed, passed, p, doubtful = next(results)
            verdict, reason = Verdict.INCONCLUSIVE, group.reason
            if failed:
                verdict, reason = Verdict.FAIL, f"worse than {budget}"
            elif passed and not reason:
                verdict = Verdict.PASS
            elif doubtful:
                reason = reason or f"it looks worse by more than {budget}: {_MORE}"
            else:
                reason = reason or f"a change of {rule.detect:g}{percent(rule)} is not excluded: {_MORE}"
            rows.append(replace(group, verdict=verdict, reason=reason, p=float(p) if group.machines else None))
        out.append(tuple(rows))
    return out


def percent(rule: GateRule) -> str:
    """What follows a budget of this metric in a reason."""
    return "" if rule.absolute else " %"


def said_of(rule: GateRule, left_out: Sequence[LeftOut]) -> list[LeftOut]:
    """The machines that are left out of one metric, or of all."""
    return [out for out in left_out if not out.metric or (out.tool, out.metric) == rule.key]


def _groups(
    rule: GateRule, machines: Sequence[FleetMachine], look: int, left_out: Sequence[LeftOut]
) -> Iterator[tuple[FleetGroup, LookEvidence]]:
    """The groups of a metric without their verdicts, and what their boots say."""
    lost = [out for out in left_out if out.model]
    models = sorted({out.model for out in lost} | {machine.model for machine in machines})
    boots = machines_at(rule, machines, look) if machines else None
    for name in ["", *models] if len(models) > 1 else [""]:
        places = [at for at, machine in enumerate(machines) if name in ("", machine.model)]
        here = boots.of(places) if boots and places else None
        bad = [machines[at].name for at, is_bad in zip(places, here.bad, strict=True) if is_bad] if here else []
        group = FleetGroup(
            name=name or "all machines",
            kind="model" if name else "all",
            machines=len(places),
            verdict=Verdict.INCONCLUSIVE,
            reason=_why_no_pass(rule, here, bad, [out for out in lost if name in ("", out.model)]),
            worse_by=finite(told(rule, float(np.median(here.effects)))) if here else None,
            p=None,
            over_budget=int((here.effects > limit(rule, rule.budget)).sum()) if here else 0,
            bad=tuple(bad[:_MOST_NAMED]),
            boots=int(here.boots.sum()) if here else 0,
            far=int(here.far.sum()) if here else 0,
        )
        yield group, _evidence(rule, here)


def _evidence(rule: GateRule, here: MachinesAtLook | None) -> LookEvidence:
    """What all boots of a group say of its metric."""
    one, no = np.asarray(1.0), np.asarray(False)
    if here is None:
        return LookEvidence(one, one, no, no, 0 * one, 0 * one)
    boots = Counter(here.boots.tolist())
    worse, within, budgeted = (
        np.asarray(within_machines_p(int(counts.sum()), boots)) for counts in (here.worse, here.within, here.budgeted)
    )
    over = np.asarray(np.median(here.least) > limit(rule, rule.budget))
    # The bad boots of many machines are judged by _why_no_pass().
    return LookEvidence(worse, within, over, np.asarray(budgeted <= DOUBT), 0 * one, 0 * one)


def within_machines_p(total: int, boots: Mapping[int, int]) -> float:
    """One-sided p that no machine became worse: of the sum of U over all blocks of all machines.

    Exact for small sums; else normal with continuity correction.

    Args:
        total: the sum of statistics.count_in_blocks() over the machines.
        boots: how many machines have how many boots of each kernel.
    """
    sizes: Counter[int] = Counter()
    for each, machines in boots.items():
        sizes.update({size: count * machines for size, count in block_sizes(each).items()})
    if sum(size**2 * count for size, count in sizes.items()) <= _EXACT_STATES:
        return float(blocks_tail(tuple(sorted(sizes.items())))[total])
    mean = sum(count * size**2 / 2 for size, count in sizes.items())
    variance = sum(count * size**2 * (2 * size + 1) / 12 for size, count in sizes.items())
    return 0.5 * erfc((total - 0.5 - mean) / sqrt(2 * variance))


def too_many_left_out(lost: int, judged: int) -> bool:
    """Whether so many of a group's machines are left out that the others do not speak for it."""
    return lost > _MOST_LEFT_OUT * (lost + judged)


def _why_no_pass(rule: GateRule, here: MachinesAtLook | None, bad: Sequence[str], missing: Sequence[LeftOut]) -> str:
    """Why a group's machines do not allow a PASS, whatever their boots say; empty if they do.

    Each reason can only become true if the candidate gets worse.
    """
    lost, machines = len(missing), here.boots.size if here else 0
    size = f"{rule.detect:g}{percent(rule)}"
    if too_many_left_out(lost, machines):
        return f"{lost} of {lost + machines} machines are left out: mend them, and repeat their boots"
    base, candidate = (sum(out.lacks == side for out in missing) for side in ("base", "candidate"))
    there = machines + base + candidate
    if candidate > base and more_by_chance(there, base, there, candidate) <= ONE_SIDED:
        return f"{candidate} machines lack results of the candidate, {base} of the base: does it come up there?"
    if len(bad) > _BAD_SHARE * machines:
        names = ", ".join(bad[:3]) + (", ..." if len(bad) > 3 else "")
        return f"{len(bad)} machines are worse by more than {size}: {names}. Compare one alone: schedline gate"
    # A few bad boots of many are chance.
    if here and here.far.sum() > max(here.far_base.sum(), _BAD_SHARE * here.boots.sum()):
        return f"{here.far.sum()} of {here.boots.sum()} boots of the candidate are bad, by more than {size}: {_MORE}"
    return ""
