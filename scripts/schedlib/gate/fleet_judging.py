# SPDX-License-Identifier: GPL-2.0
"""Judges a metric on many machines: on all of them, and on each model. The gate's own error rates are spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb, expm1, isfinite, log1p
from statistics import NormalDist
from typing import Literal

import numpy as np
from msgspec.structs import replace as struct_replace

from schedlib.formats.gate_document import Method
from schedlib.formats.strict import Count, Number, Strict, Word
from schedlib.gate import fleet_statistics, statistics
from schedlib.gate.decision import DOUBT, MISSED
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


@dataclass(frozen=True)
class FleetSample:
    """A metric on the machines that are judged; larger values are worse.

    Attributes:
        models: of each machine.
        base, candidate: the boots of each machine, as many of each kernel.
        steps: one step of the clock on each machine, in the unit of the values.
    """

    rule: GateRule
    unit: str
    names: Sequence[str]
    models: Sequence[str]
    base: Sequence[Values]
    candidate: Sequence[Values]
    steps: Values


@dataclass(frozen=True)
class Machines:
    """What the boots of a look say of one metric; arrays over the machines. Effects are on the scale of scaled().

    Attributes:
        least, most: the effects if the candidate's clock is off by a step to the better or the worse.
        counts: the sums of U over the blocks.
        bad: see FleetGroup.
        far: the number of far boots.
        noisy: whether neither kernel's boots agree well enough to tell `detect` from nothing.
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


@dataclass(frozen=True)
class Missing:
    """Machines of a model that are left out of a metric: how many, and of how many only one kernel gave a result."""

    machines: int = 0
    without_base: int = 0
    without_candidate: int = 0


def scaled(rule: GateRule, values: Values) -> Values:
    """Values on a scale where a change of the budget's kind is a shift: as they are, or the logarithm of their size."""
    if rule.absolute:
        return values
    tiny = float(np.finfo(float).tiny)
    return -np.log(np.maximum(-values, tiny)) if rule.direction == "higher" else np.log(np.maximum(values, tiny))


def limit(rule: GateRule, amount: float) -> float:
    """The budget or detect on that scale."""
    if rule.absolute:
        return amount
    return -log1p(-amount / 100) if rule.direction == "higher" else log1p(amount / 100)


def told(rule: GateRule, effect: float) -> float | None:
    """An effect in the unit of the budget; None if it has no bound."""
    if not isfinite(effect) or abs(effect) > 600:
        return None
    if rule.absolute:
        return effect
    return 100 * (-expm1(-effect) if rule.direction == "higher" else expm1(effect))


def machines_at(sample: FleetSample, look: int) -> Machines:
    """What the first boots of each machine say, at most so many of each kernel."""
    rule = sample.rule
    boots = np.array([min(look, each.size) for each in sample.base])
    shape = boots.size
    effects, least, most, variances, counts, far = (np.zeros(shape) for _ in range(6))
    bad, noisy = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    budget, detect = limit(rule, rule.budget), limit(rule, rule.detect)
    means = rule.method is not Method.RANK and rule.absolute
    effect_of = statistics.mean_shift if means else statistics.shift
    wide = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    for count in np.unique(boots):
        (here,) = np.nonzero(boots == count)
        base = np.array([sample.base[int(place)][:count] for place in here])
        candidate = np.array([sample.candidate[int(place)][:count] for place in here])
        step = (
            np.minimum(sample.steps[here, None], _NO_STEP) if rule.method is Method.RANK else np.zeros((here.size, 1))
        )
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


@dataclass(frozen=True)
class _Evidence:
    """A group's figures before the correction of its p."""

    group: FleetGroup
    over: bool


def groups_at(
    gate: Gate, samples: Sequence[FleetSample], look: int, missing: Mapping[tuple[str, str, str], Missing]
) -> list[tuple[FleetGroup, ...]]:
    """Judge all metrics at one look: for each the groups, all machines first, then each model.

    Args:
        missing: by tool, metric and model.
    """
    evidence = [_evidence(gate, sample, machines_at(sample, look), missing) for sample in samples]
    flat = np.array([each.group.p for metric in evidence for each in metric if each.group.p is not None])
    models = max((len({*sample.models}) for sample in samples), default=1)
    family = max(gate.family * (models + (models > 1)), flat.size)
    adjusted = iter(statistics.holm(flat, family).tolist() if flat.size else [])
    level = gate.alpha / len(gate.looks)
    found = []
    for sample, metric in zip(samples, evidence, strict=True):
        rows = []
        for each in metric:
            row = each.group
            if row.p is not None:
                p = next(adjusted)
                row = _with_p(sample.rule, each, p, failed=p <= level and each.over)
            rows.append(row)
        found.append(tuple(rows))
    return found


def _with_p(rule: GateRule, found: _Evidence, p: float, *, failed: bool) -> FleetGroup:
    row = found.group
    unit = "" if rule.absolute else " %"
    if failed:
        why = f"worse than the budget of {rule.budget:g}{unit}"
        return _changed(row, p=p, verdict=Verdict.FAIL, reason=why, counts=True)
    return _changed(row, p=p)


def _changed(row: FleetGroup, **fields: object) -> FleetGroup:
    return struct_replace(row, **fields)


def _evidence(
    gate: Gate, sample: FleetSample, machines: Machines, missing: Mapping[tuple[str, str, str], Missing]
) -> list[_Evidence]:
    rule = sample.rule
    known = {model for tool, name, model in missing if (tool, name) == rule.key and model} | set(sample.models)
    models = sorted(known)
    level = MISSED / len(gate.looks) / (len(models) + 2 if len(models) > 1 else 1)
    needed = fleet_statistics.machines_needed(level)
    places = {model: tuple(at for at, each in enumerate(sample.models) if each == model) for model in models}
    small = [model for model in models if len(places[model]) < needed]
    chosen: list[tuple[str, GroupKind, tuple[int, ...]]] = [("all machines", "all", tuple(range(len(sample.models))))]
    if len(models) > 1:
        chosen += [(model, "model", places[model]) for model in models]
    rest = tuple(at for model in small for at in places[model])
    if len(small) > 1 and len(rest) >= needed and len(small) < len(models):
        chosen.append(("models with few machines", "others", rest))
    found = []
    for name, kind, at in chosen:
        lost = [
            missing.get((*rule.key, model), Missing())
            for model in ([name] if kind == "model" else models if kind == "all" else small)
        ]
        found.append(_group(sample, machines, name, kind, at, level, needed, lost))
    return found


def _group(
    sample: FleetSample,
    machines: Machines,
    name: str,
    kind: GroupKind,
    places: tuple[int, ...],
    level: float,
    needed: int,
    missing: Sequence[Missing],
) -> _Evidence:
    rule, at = sample.rule, np.array(places, dtype=int)
    empty = FleetGroup(
        name=name,
        kind=kind,
        machines=len(places),
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
    if not places:
        return _Evidence(_changed(empty, counts=bool(sum(each.machines for each in missing) >= needed)), over=False)
    budget, detect = limit(rule, rule.budget), limit(rule, rule.detect)
    effects, boots = machines.effects[at], machines.boots[at]
    counts = {int(each): int((boots == each).sum()) for each in np.unique(boots)}
    within = fleet_statistics.within_machines_p(int(machines.counts[at].sum()), counts)
    p = min(1.0, 2 * min(within, fleet_statistics.signed_rank_p(effects)))
    estimate = fleet_statistics.middle_effect(effects)
    bound = fleet_statistics.effect_at_most(machines.most[at], level)
    over = fleet_statistics.middle_effect(machines.least[at]) > budget
    doubtful = fleet_statistics.signed_rank_p(effects, budget) <= DOUBT
    free = 2 * (boots - 1)
    variances = np.maximum(machines.variances[at] * free / (free - 2), np.finfo(float).tiny)
    spread, differing = fleet_statistics.between_machines(effects, variances)
    bad = tuple(sample.names[place] for place in places if machines.bad[place])
    row = _changed(
        empty,
        counts=len(places) >= needed or kind == "all",
        worse_by=told(rule, estimate),
        at_most=told(rule, bound),
        p=p,
        spread=told(rule, spread),
        differing=differing,
        over_budget=int((effects > budget).sum()),
        bad=bad[:MOST_NAMED],
        boots=int(boots.sum()),
        far=int(machines.far[at].sum()),
    )
    reason = _why_no_pass(rule, row, len(bad), needed, missing, excluded=bound < detect, doubtful=doubtful)
    row = _changed(row, reason=reason, verdict=Verdict.INCONCLUSIVE if reason else Verdict.PASS)
    return _Evidence(row, over)


def too_many_left_out(lost: int, judged: int) -> bool:
    """Whether so many of a group's machines are left out that the others do not speak for it."""
    return lost > _MOST_LEFT_OUT * (lost + judged)


def _why_no_pass(
    rule: GateRule,
    row: FleetGroup,
    bad: int,
    needed: int,
    missing: Sequence[Missing],
    *,
    excluded: bool,
    doubtful: bool,
) -> str:
    """Why a group does not pass; empty if it does. Each of these can only become true if the candidate gets worse."""
    unit = "" if rule.absolute else " %"
    if row.machines < needed:
        return f"{row.machines} machines are judged, and a PASS needs {needed}"
    lost = sum(each.machines for each in missing)
    if too_many_left_out(lost, row.machines):
        return f"{lost} of {lost + row.machines} machines are left out: mend them, and repeat their boots"
    sides = sum(each.without_base for each in missing), sum(each.without_candidate for each in missing)
    if sides[1] > sides[0] and _at_least(sides[1], sum(sides)) <= _ONE_SIDED:
        return f"{sides[1]} machines lack results of the candidate, {sides[0]} of the base: does it come up there?"
    if bad > BAD_SHARE * row.machines:
        names = ", ".join(row.bad[:3]) + (", ..." if bad > 3 else "")
        return (
            f"{bad} machines are worse by more than {rule.detect:g}{unit}: {names}. Compare one alone: schedline gate"
        )
    if row.far > max(1, BAD_SHARE * row.boots):
        return (
            f"{row.far} of {row.boots} boots of the candidate are worse than every boot of the base on their "
            f"machine by more than {rule.detect:g}{unit}"
        )
    if doubtful:
        return f"it looks worse by more than the budget of {rule.budget:g}{unit}: {_MORE}"
    if not excluded:
        return f"a change of {rule.detect:g}{unit} is not excluded: {_MORE}"
    return ""


def _at_least(hits: int, of: int) -> float:
    """P(at least so many of these are heads), for a fair coin."""
    return float(sum(comb(of, each) for each in range(hits, of + 1)) / 2**of)


def without_noisy(sample: FleetSample, look: int) -> tuple[FleetSample, list[int]]:
    """The sample without machines that are too noisy, and their places. The rule treats both kernels alike."""
    noisy = machines_at(sample, look).noisy
    kept = [place for place in range(noisy.size) if not noisy[place]]
    return (
        replace(
            sample,
            names=[sample.names[each] for each in kept],
            models=[sample.models[each] for each in kept],
            base=[sample.base[each] for each in kept],
            candidate=[sample.candidate[each] for each in kept],
            steps=sample.steps[kept],
        ),
        [place for place in range(noisy.size) if noisy[place]],
    )
