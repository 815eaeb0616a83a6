# SPDX-License-Identifier: GPL-2.0
"""Judges a metric on many machines: on all of them, and on each model. The gate's own error rates are spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, log1p
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np
from msgspec.structs import replace as struct_replace

from schedlib.formats.gate_document import Method, finite
from schedlib.formats.strict import Count, Number, Strict, Word
from schedlib.gate import fleet_statistics, statistics
from schedlib.gate.decision import DOUBT, MISSED
from schedlib.gate.fleet_machines import FleetMachine, LeftOut
from schedlib.gate.judging import scaled, told
from schedlib.gate.rules import Gate, GateRule
from schedlib.gate.statistics import CONFIDENCE, Flags, Values
from schedlib.verdict import Verdict

BAD_SHARE = 0.01
"""No PASS if more than this share of a group's machines is bad, or of the candidate's boots far."""

_MOST_LEFT_OUT = 0.2
"""No PASS for a model of which a larger share of the machines is left out."""

MOST_NAMED = 100
"""Bad machines of a group that the document names."""

_ONE_SIDED = 0.05
"""No PASS for a model if one kernel gave no result on more machines than the other, shown at this level."""

_BAD_P = 0.01
_NO_STEP = 1e150
"""Stands for a step of which nothing is known."""

_MORE = "make more boots on each machine, or take more machines"


GroupKind = Literal["all", "model", "others"]


class FleetGroup(Strict, frozen=True, kw_only=True):
    """A metric on all machines, on those of one model, or on those of all models that have too few machines.

    Attributes:
        counts: whether the group has enough machines for a PASS, or fails. Others do not change the verdict.
        worse_by: the estimate; positive is worse, in the metric's change_unit.
        at_most: the upper bound. All bounds of a metric hold together; null: there is none.
        p: that it did not become worse, with Holm's correction.
        spread: standard deviation of the true effects of machines, in the metric's change_unit.
        differing: the share of what is seen to differ that this spread explains, from 0 to 1.
        over_budget: on how many machines the estimate is above the budget.
        bad: machines that are shown to be over the budget, and whose estimate is above `detect`.
        boots: of the candidate.
        far: how many of them are worse than every boot of the base on their machine, by more than `detect`.
    """

    name: Word
    kind: GroupKind
    machines: Count
    counts: bool
    verdict: Verdict
    reason: str
    worse_by: Number | None
    at_most: Number | None
    p: Number | None
    spread: Number | None
    differing: Number | None
    over_budget: Count
    bad: tuple[str, ...]
    boots: Count
    far: Count


NO_FIGURES = FleetGroup(
    name="-",
    kind="all",
    machines=0,
    counts=False,
    verdict=Verdict.INCONCLUSIVE,
    reason="no machine is judged",
    worse_by=None,
    at_most=None,
    p=None,
    spread=None,
    differing=None,
    over_budget=0,
    bad=(),
    boots=0,
    far=0,
)
"""A group of which nothing is known."""


Samples: TypeAlias = Mapping[GateRule, Sequence[FleetMachine]]
"""The machines that are judged by a metric."""


@dataclass(frozen=True)
class Machines:
    """What the boots of a look say of one metric; arrays over the machines. Effects are on the scale of scaled().

    Attributes:
        least, most: the effects if the candidate's clock is off by a step to the better or the worse.
        counts: the sums of U over the blocks.
        bad: see FleetGroup.
        far: the number of far boots.
        noisy: whether neither kernel's boots agree well enough to tell `detect` from nothing: both count alike.
    """

    boots: Values
    effects: Values
    least: Values
    most: Values
    variances: Values
    counts: Values
    bad: Flags
    far: Values
    noisy: Flags


def limit(rule: GateRule, amount: float) -> float:
    """The budget or detect on the scale of scaled()."""
    if rule.absolute:
        return amount
    return -log1p(-amount / 100) if rule.direction == "higher" else log1p(amount / 100)


def machines_at(rule: GateRule, machines: Sequence[FleetMachine], look: int) -> Machines:
    """What the first boots of each machine say, at most so many of each kernel."""
    found = [machine.metrics[rule.key] for machine in machines]
    boots = np.array([min(look, each.base.size) for each in found])
    shape = boots.size
    effects, least, most, variances, counts, far = (np.zeros(shape) for _ in range(6))
    bad, noisy = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    budget, detect = limit(rule, rule.budget), limit(rule, rule.detect)
    means = rule.method is not Method.RANK and rule.absolute
    effect_of = statistics.mean_shift if means else statistics.shift
    wide = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    for count in np.unique(boots):
        (here,) = np.nonzero(boots == count)
        base = np.array([found[at].base[:count] for at in here])
        candidate = np.array([found[at].candidate[:count] for at in here])
        step = np.zeros((here.size, 1))
        if rule.method is Method.RANK:
            step = np.array([[min(found[at].step, _NO_STEP)] for at in here])
        one, two = scaled(rule, base), scaled(rule, candidate)
        effects[here] = effect_of(one, two)
        least[here] = effect_of(one, scaled(rule, candidate - step))
        most[here] = effect_of(one, scaled(rule, candidate + step))
        counts[here] = statistics.count_in_blocks(base, candidate)
        bad[here] = (effects[here] > detect) & (statistics.rank_p(one, two - budget) <= _BAD_P)
        far[here] = (two - detect > one.max(axis=-1, keepdims=True)).sum(axis=-1)
        spreads = [each.var(axis=-1, ddof=1) for each in (one, two)]
        variances[here] = (spreads[0] + spreads[1]) / count
        noisy[here] = wide * np.sqrt(2 * np.minimum(*spreads) / count) > detect
    return Machines(boots, effects, least, most, variances, counts, bad, far, noisy)


def groups_at(gate: Gate, samples: Samples, look: int, left_out: Sequence[LeftOut]) -> list[tuple[FleetGroup, ...]]:
    """Judge all metrics at one look: for each the groups, all machines first, then each model."""
    evidence = [_evidence(gate, rule, machines, look, left_out) for rule, machines in samples.items()]
    flat = np.array([group.p for metric in evidence for group, _ in metric if group.p is not None])
    models = max((len({machine.model for machine in machines}) for machines in samples.values()), default=1)
    family = max(gate.family * (models + (models > 1)), flat.size)
    adjusted = iter(statistics.holm(flat, family).tolist() if flat.size else [])
    level = gate.alpha / len(gate.looks)
    found = []
    for rule, metric in zip(samples, evidence, strict=True):
        rows = []
        for group, over in metric:
            row = group if group.p is None else struct_replace(group, p=next(adjusted))
            if over and row.p is not None and row.p <= level:
                why = f"worse than the budget of {rule.budget:g}{percent(rule)}"
                row = struct_replace(row, verdict=Verdict.FAIL, reason=why, counts=True)
            rows.append(row)
        found.append(tuple(rows))
    return found


def percent(rule: GateRule) -> str:
    """What follows a budget of this metric in a reason."""
    return "" if rule.absolute else " %"


def said_of(rule: GateRule, left_out: Sequence[LeftOut]) -> list[LeftOut]:
    """The machines that are left out of one metric, or of all."""
    return [out for out in left_out if not out.metric or (out.tool, out.metric) == rule.key]


def _evidence(
    gate: Gate, rule: GateRule, machines: Sequence[FleetMachine], look: int, left_out: Sequence[LeftOut]
) -> list[tuple[FleetGroup, bool]]:
    """The groups of a metric before the correction of their p, and whether each is over the budget."""
    boots, names = machines_at(rule, machines, look), [machine.name for machine in machines]
    lost = [out for out in said_of(rule, left_out) if out.model]
    models = sorted({out.model for out in lost} | {machine.model for machine in machines})
    level = MISSED / len(gate.looks) / (len(models) + 2 if len(models) > 1 else 1)
    needed = fleet_statistics.machines_needed(level)
    places = {model: [at for at, each in enumerate(machines) if each.model == model] for model in models}
    small = [model for model in models if len(places[model]) < needed]
    chosen: list[tuple[str, GroupKind, list[str]]] = [("all machines", "all", models)]
    if len(models) > 1:
        chosen += [(model, "model", [model]) for model in models]
    if 1 < len(small) < len(models) and sum(len(places[model]) for model in small) >= needed:
        chosen.append(("models with few machines", "others", small))
    found = []
    for name, kind, of in chosen:
        at = list(range(len(machines))) if kind == "all" else [at for model in of for at in places[model]]
        group = struct_replace(NO_FIGURES, name=name, kind=kind, machines=len(at))
        found.append(_group(rule, boots, names, group, at, level, needed, [out for out in lost if out.model in of]))
    return found


def _group(
    rule: GateRule,
    machines: Machines,
    names: Sequence[str],
    group: FleetGroup,
    places: Sequence[int],
    level: float,
    needed: int,
    lost: Sequence[LeftOut],
) -> tuple[FleetGroup, bool]:
    if not places:
        return struct_replace(group, counts=len(lost) >= needed), False
    at = np.array(places, dtype=int)
    budget = limit(rule, rule.budget)
    effects, boots = machines.effects[at], machines.boots[at]
    counts = {int(each): int((boots == each).sum()) for each in np.unique(boots)}
    within = fleet_statistics.within_machines_p(int(machines.counts[at].sum()), counts)
    bound = fleet_statistics.effect_at_most(machines.most[at], level)
    free = 2 * (boots - 1)
    variances = np.maximum(machines.variances[at] * free / (free - 2), np.finfo(float).tiny)
    spread, differing = fleet_statistics.between_machines(effects, variances)
    bad = tuple(names[place] for place in places if machines.bad[place])
    row = struct_replace(
        group,
        counts=len(places) >= needed or group.kind == "all",
        worse_by=finite(told(rule, fleet_statistics.middle_effect(effects))),
        at_most=finite(told(rule, bound)),
        p=min(1.0, 2 * min(within, fleet_statistics.signed_rank_p(effects))),
        spread=finite(told(rule, spread)),
        differing=differing,
        over_budget=int((effects > budget).sum()),
        bad=bad[:MOST_NAMED],
        boots=int(boots.sum()),
        far=int(machines.far[at].sum()),
    )
    reason = _why_no_pass(rule, row, len(bad), needed, lost)
    if not reason and fleet_statistics.signed_rank_p(effects, budget) <= DOUBT:
        reason = f"it looks worse by more than the budget of {rule.budget:g}{percent(rule)}: {_MORE}"
    elif not reason and bound >= limit(rule, rule.detect):
        reason = f"a change of {rule.detect:g}{percent(rule)} is not excluded: {_MORE}"
    row = struct_replace(row, reason=reason, verdict=Verdict.INCONCLUSIVE if reason else Verdict.PASS)
    return row, fleet_statistics.middle_effect(machines.least[at]) > budget


def too_many_left_out(lost: int, judged: int) -> bool:
    """Whether so many of a group's machines are left out that the others do not speak for it."""
    return lost > _MOST_LEFT_OUT * (lost + judged)


def _why_no_pass(rule: GateRule, row: FleetGroup, bad: int, needed: int, missing: Sequence[LeftOut]) -> str:
    """Why a group's machines do not allow a PASS; empty if they do. Each reason can only become true if the candidate
    gets worse."""
    if row.machines < needed:
        return f"{row.machines} machines are judged, and a PASS needs {needed}"
    lost = len(missing)
    if too_many_left_out(lost, row.machines):
        return f"{lost} of {lost + row.machines} machines are left out: mend them, and repeat their boots"
    base, candidate = (sum(out.lacks == side for out in missing) for side in ("base", "candidate"))
    if candidate > base and _at_least(candidate, base + candidate) <= _ONE_SIDED:
        return f"{candidate} machines lack results of the candidate, {base} of the base: does it come up there?"
    size = f"{rule.detect:g}{percent(rule)}"
    if bad > BAD_SHARE * row.machines:
        names = ", ".join(row.bad[:3]) + (", ..." if bad > 3 else "")
        return f"{bad} machines are worse by more than {size}: {names}. Compare one alone: schedline gate"
    if row.far > max(1, BAD_SHARE * row.boots):
        return (
            f"{row.far} of {row.boots} boots of the candidate are worse than every boot of the base on their "
            f"machine by more than {size}"
        )
    return ""


def _at_least(hits: int, of: int) -> float:
    """P(at least so many of these are heads), for a fair coin."""
    return float(sum(comb(of, each) for each in range(hits, of + 1)) / 2**of)
