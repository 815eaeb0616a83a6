# SPDX-License-Identifier: GPL-2.0
"""Judge two sides by the rules: a row for each gating metric, with its verdict and the reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from math import inf, nan
from typing import Any

import numpy as np
from msgspec.structs import replace as changed

from schedlib.errors import SchedlineError
from schedlib.formats.gate_document import GateMetric, Method, finite
from schedlib.gate import statistics
from schedlib.gate.boots import Figure, Key, Side, disturbed, unequal_samples
from schedlib.gate.decision import Decision, Limits, LookEvidence, decide, far_boots, look_evidence
from schedlib.gate.gate_options import MOST_BOOTS
from schedlib.gate.losses import without_runs
from schedlib.gate.next_boots import Unclear, too_few, why_unclear
from schedlib.gate.pairing import Batch, order_problem
from schedlib.gate.rules import Gate, GateRule
from schedlib.gate.statistics import Values
from schedlib.verdict import Verdict


def metric_row(
    rule: GateRule, unit: str, verdict: Verdict, reason: str, boots: tuple[int, int] = (0, 0), **more: Any
) -> GateMetric:
    """The result of a metric; without figures, but for those that are given."""
    empty = GateMetric(
        tool=rule.tool,
        name=rule.name,
        unit=unit,
        direction=rule.direction,
        method=rule.method,
        verdict=verdict,
        reason=reason,
        because=rule.because,
        boots=boots,
        change_unit=unit if rule.absolute else "%",
        budget=rule.budget,
        detect=rule.detect,
        base=None,
        candidate=None,
        placebo=(),
        change=None,
        of_medians=None,
        low=None,
        high=None,
        p=None,
        far=(),
        far_base=(),
        over_budget=False,
        values=(),
    )
    return changed(empty, **more)


@dataclass(frozen=True)
class Sample:
    """A metric that can be tested, and its boots; larger values are worse."""

    rule: GateRule
    unit: str
    batch: Batch
    base: Values
    candidate: Values

    def step(self, boots: int) -> float:
        """One step of the clock in the first boots of the base, from all their runs; 0 if means are compared."""
        if self.rule.method is not Method.RANK:
            return 0.0
        runs = [value for boot in self.batch.base[:boots] for value in boot.figures[self.rule.key].values]
        return float(statistics.step_of(np.array(runs)))

    @property
    def limits(self) -> Limits:
        """The rule's limits, as shares unless they are absolute."""
        rule, scale = self.rule, 1.0 if self.rule.absolute else 0.01
        flags = np.asarray(bool(rule.absolute)), np.asarray(rule.direction == "higher")
        return Limits(np.asarray(rule.budget * scale), np.asarray(rule.detect * scale), *flags)

    def evidence(self, boots: int) -> LookEvidence:
        """The evidence of the first boots."""
        means = self.rule.method is not Method.RANK
        step = np.asarray(self.step(boots))
        return look_evidence(self.base[:boots], self.candidate[:boots], self.limits, step, means=means)


def boots_of(side: Side, tool: str) -> Side:
    """The boots in which a tool ran."""
    return replace(side, boots=tuple(boot for boot in side.boots if tool in boot.runs))


def refuse_many_boots(side: Side, more: str = "") -> None:
    """Reject a side with so many boots that their ids are probably not the kernel's.

    Raises:
        SchedlineError: it has more than MOST_BOOTS.
    """
    if len(side.boots) > MOST_BOOTS:
        raise SchedlineError(
            f"{side.name} has {len(side.boots)} boots{more}, more than {MOST_BOOTS}",
            "check that boot_id is the kernel's, and give the boots of one campaign",
        )


def judge(gate: Gate, base: Side, candidate: Side, *, incomplete: bool = False) -> list[GateMetric]:
    """Judge each gating metric, in the order of the file.

    The gate looks at the first boots of both kernels, as many as the gates file says, and ends at the first look at
    which a metric fails or all of them pass. Later boots are not judged.

    Args:
        incomplete: somebody knows why some boots have no run of a tool.

    Raises:
        SchedlineError: a metric was not measured at all, or its values are impossible.
    """
    rows: dict[Key, GateMetric] = {}
    samples: list[Sample] = []
    for rule in gate.rules:
        lacking = "" if incomplete else without_runs(base, rule.tool) or without_runs(candidate, rule.tool)
        found = metric_row(rule, "", Verdict.ERROR, lacking) if lacking else sample_of(rule, base, candidate)
        if isinstance(found, GateMetric):
            rows[rule.key] = found
        else:
            samples.append(found)
    if samples:
        rows |= {row.key: row for row in _at_the_last_look(gate, samples, base, candidate)}
    return [rows[rule.key] for rule in gate.rules]


def sample_of(rule: GateRule, *sides: Side) -> GateMetric | Sample:
    """The boots of a metric; or its row, if it cannot be tested or has to be equal.

    Raises:
        SchedlineError: it was not measured at all, or its values are impossible.
    """
    if missing := _missing(rule, *sides):
        return missing
    about = _about(rule, sides)
    chosen = [boots_of(side, rule.tool) for side in sides]
    for side in chosen:
        figures = ((boot.figures.get(rule.key), boot.runs[rule.tool]) for boot in side.boots)
        if short := [runs for figure, runs in figures if figure is None or len(figure.values) < runs]:
            reason = f"{side.name}: runs of {rule.tool} in {len(short)} of {len(side.boots)} boots lack it"
            return metric_row(rule, about, Verdict.ERROR, f"{reason}; the missing ones could be the slow ones")
        refuse_many_boots(side, f" with {rule.tool}")
    if rule.method is Method.EQUAL:
        return _equal(rule, about, *chosen)
    batch = Batch(chosen[0].boots, chosen[1].boots)
    if not batch.smaller:
        return metric_row(rule, about, Verdict.ERROR, f"{chosen[not chosen[0].boots].name} has no boot with it")
    values = values_of(rule, batch, about)
    if not rule.absolute and not np.median(values[0]):
        raise SchedlineError(
            f"{' '.join(rule.key)} is 0 in the base, and a budget in percent of 0 allows nothing",
            "add absolute = true and a budget in the metric's unit to the gates file",
        )
    return Sample(rule, about, batch, *values)


def _missing(rule: GateRule, base: Side, candidate: Side) -> GateMetric | None:
    """A row for a metric that one side lacks or that this machine cannot show; None if both sides have it."""
    there = [rule.key in side.about for side in (base, candidate)]
    if all(there):
        return None
    reasons = [side.why_absent(rule.key) for side in (base, candidate)]
    if not any(there):
        if all(reasons):
            return metric_row(rule, "", Verdict.INCONCLUSIVE, f"not measured here: {reasons[0]}")
        tools = sorted({tool for side in (base, candidate) for tool, _ in side.about})
        if rule.tool not in tools:
            raise SchedlineError(
                f"no run of {rule.tool}, and {rule.name} is gated; there are runs of: {', '.join(tools) or 'nothing'}",
                "run it, or name another file: --gates",
            )
        names = sorted({name for side in (base, candidate) for tool, name in side.about if tool == rule.tool})
        near = get_close_matches(rule.name, names, 5, 0.3) or names[:8]
        raise SchedlineError(
            f"unknown metric: no run of {rule.tool} has {rule.name}",
            f"correct the gates file; the runs have: {', '.join(near)}",
        )
    lacking = candidate if there[0] else base
    reason = lacking.why_absent(rule.key) or "no reason given"
    return metric_row(rule, "", Verdict.ERROR, f"{lacking.name} lacks it ({reason}), and the other side has it")


def _about(rule: GateRule, sides: Sequence[Side]) -> str:
    """Return the metric's unit, after checking that every side agrees with the rule on what the metric is."""
    found = {side.about[rule.key] for side in sides if rule.key in side.about}
    where = " ".join(rule.key)
    if len(found) > 1:
        raise SchedlineError(
            f"{where} has another unit, direction or kind in another directory",
            "measure both kernels with the same program",
        )
    about = found.pop()
    if about.direction != rule.direction:
        raise SchedlineError(
            f"{where}: the runs say {about.direction} is better, the gates file {rule.direction}",
            "correct the gates file",
        )
    fits = {Method.RATE: about.kind == "exceedance", Method.EQUAL: about.kind == "exact"}
    if not fits.get(rule.method, about.kind != "exceedance"):
        raise SchedlineError(
            f'{where} is of kind {about.kind}, which method = "{rule.method.value}" does not fit',
            "rate is for exceedances, equal for exact, rank and mean for the others",
        )
    return "in a million" if rule.method is Method.RATE else about.unit


def _equal(rule: GateRule, unit: str, *sides: Side) -> GateMetric:
    """Judge a metric that must be equal in every run; no statistics."""
    if not all(side.boots for side in sides):
        return metric_row(rule, unit, Verdict.ERROR, "one side has no run with it")
    (low, high), (least, most) = (range_of([boot.figures[rule.key] for boot in side.boots]) for side in sides)
    counts = len(sides[0].boots), len(sides[1].boots)
    worse = {"lower": most > high, "higher": least < low}.get(rule.direction, (least, most) != (low, high))
    now = most if rule.direction != "higher" else least
    row = metric_row(rule, unit, Verdict.PASS, "", counts, base=finite(low), candidate=finite(now))
    if low != high:
        reason = f"it is {low:g} to {high:g} in runs of the base: not the same every time, so not exact"
        return changed(row, verdict=Verdict.INCONCLUSIVE, reason=f"{reason}; method = rank compares such values")
    if worse:
        return changed(row, verdict=Verdict.FAIL, reason=f"{low:g} became {now:g}; any change is reported")
    if (least, most) == (low, high):
        return row
    return changed(row, reason=f"better: {low:g} became {least:g}" + ("" if least == most else f" to {most:g}"))


def range_of(figures: Sequence[Figure]) -> tuple[float, float]:
    """The smallest and the largest value of all runs."""
    values = [value for each in figures for value in each.values]
    return min(values), max(values)


_LARGEST = 1e18
"""No time in ns, rate or count is larger: 30 years."""


_TIMES = ("ns", "us", "ms", "s")
_QUANTILE = re.compile(r"(?:^|\.)(?:p\d+(?:_\d+)?|max)$")


def values_of(rule: GateRule, batch: Batch, unit: str = "") -> tuple[Values, Values]:
    """A value for each boot; larger is worse. SchedlineError for a value that cannot have been measured."""
    sign = -1.0 if rule.direction == "higher" else 1.0
    both = []
    for boots in (batch.base, batch.candidate):
        figures = [boot.figures[rule.key] for boot in boots]
        for boot, figure in zip(boots, figures, strict=True):
            least, most = min(figure.values), max(figure.values)
            wrong = f"is {least:g} in boot {boot.id}: below 0" if least < 0 else ""
            if not least and unit in _TIMES and _QUANTILE.search(rule.name):
                wrong = f"is 0 {unit} in boot {boot.id}: nothing takes no time"
            if not most <= _LARGEST:
                wrong = f"is {most:g} in boot {boot.id}: no measurement is so large"
            if rule.method is Method.RATE and (not figure.samples or figure.total > figure.samples):
                wrong = wrong or f"counts {figure.total:g} of {figure.samples} samples in boot {boot.id}"
            if wrong:
                next_step = "find out what measured that, and remove or repeat the run"
                raise SchedlineError(f"{' '.join(rule.key)} {wrong}", next_step)
        values = [figure.rate if rule.method is Method.RATE else figure.mean for figure in figures]
        both.append(sign * np.array(values, dtype=np.float64))
    return both[0], both[1]


def _at_the_last_look(gate: Gate, samples: Sequence[Sample], base: Side, candidate: Side) -> list[GateMetric]:
    """The rows of the look that decides, or else of the last one that there are boots for."""
    there = min(sample.batch.smaller for sample in samples)
    looks = [look for look in gate.looks if look <= there]
    if not looks:
        return [changed(_described(sample, there), reason=too_few(gate, sample.batch)) for sample in samples]
    for look in looks:
        evidence = [sample.evidence(look) for sample in samples]
        together = {each.name: np.array([getattr(one, each.name) for one in evidence]) for each in fields(LookEvidence)}
        whole, last = LookEvidence(**together), look == gate.looks[-1]
        troubles = [
            (order_problem(sample.batch.first(look)) if gate.interleaved else "")
            or trouble_of(sample, look, base, candidate)
            for sample in samples
        ]
        usable = np.array([not trouble for trouble in troubles])
        whole = replace(whole, worse=np.where(usable, whole.worse, 1.0), within=np.where(usable, whole.within, 1.0))
        found = decide(whole, gate.alpha, len(gate.looks), gate.family, last=last)
        if found.failed.any() or found.passed.all():
            break
    return [
        changed(_described(sample, look), reason=trouble) if trouble else _row(gate, sample, look, found, whole, place)
        for place, (sample, trouble) in enumerate(zip(samples, troubles, strict=True))
    ]


def trouble_of(sample: Sample, look: int, base: Side, candidate: Side) -> str:
    """Why the boots of a look cannot be compared: other things happened beside the runs of one kernel. Else empty."""
    batch, tool = sample.batch.first(look), sample.rule.tool
    sides = replace(base, boots=batch.base), replace(candidate, boots=batch.candidate)
    if why := disturbed(*sides).get(tool):
        return f"not comparable: {why}. Find the cause, and begin a new campaign"
    return unequal_samples(*sides, sample.rule.key)


@dataclass(frozen=True)
class _Estimates:
    """The figures of a metric, in the units of its document. Any of them may be infinite."""

    base: float
    candidate: float
    change: float
    of_medians: float
    low: float
    high: float


def _estimates(sample: Sample, boots: int) -> _Estimates:
    """The figures of the first boots."""
    rule, base, candidate = sample.rule, sample.base[:boots], sample.candidate[:boots]
    sign = -1.0 if rule.direction == "higher" else 1.0
    ranks = rule.method is Method.RANK
    middle = np.median if ranks else np.mean
    middles = [float(sign * middle(side)) + 0.0 for side in (base, candidate)]  # no -0
    if rule.absolute:
        of, interval = (statistics.shift, statistics.shift_interval) if ranks else _BY_MEANS
        change, ends = float(of(base, candidate)), [float(end) for end in interval(base, candidate)]
        change, ends, of_medians = sign * change, [sign * end for end in ends], middles[1] - middles[0]
    else:
        # A change in percent is a factor, and a factor is a shift of the logarithms. 0 has none: take the least number.
        logs = [np.log(np.maximum(np.abs(side), np.finfo(float).tiny)) for side in (base, candidate)]
        change, ends = _percent(statistics.shift(*logs)), [_percent(end) for end in statistics.shift_interval(*logs)]
        of_medians = 100 * (middles[1] / middles[0] - 1) if middles[0] else nan
    return _Estimates(middles[0], middles[1], change, of_medians, min(ends), max(ends))


def _described(sample: Sample, boots: int) -> GateMetric:
    """The figures of the first boots, with the verdict INCONCLUSIVE and no reason."""
    found, rule = _estimates(sample, boots), sample.rule
    base = sample.base[:boots]
    far = [far_boots(base, side[:boots], sample.limits) for side in (sample.candidate, sample.base)]
    ids = [
        tuple(boot.id for boot, is_far in zip(side[:boots], flags, strict=True) if is_far)
        for side, flags in zip((sample.batch.candidate, sample.batch.base), far, strict=True)
    ]
    # What becomes 0 has changed by -100 %, and nothing can change by more than that.
    least = -inf if rule.absolute else -100.0
    return metric_row(
        rule,
        sample.unit,
        Verdict.INCONCLUSIVE,
        "",
        (boots, boots),
        base=finite(found.base),
        candidate=finite(found.candidate),
        change=finite(max(found.change, least)),
        of_medians=finite(found.of_medians),
        low=finite(max(found.low, least)),
        high=finite(max(found.high, least)),
        far=ids[0],
        far_base=ids[1],
    )


_BY_MEANS = statistics.mean_shift, statistics.mean_interval


def _percent(logarithm: Values) -> float:
    """A factor's logarithm as a change in percent; infinite if it is not known, or if it is from 0."""
    return 100 * float(np.expm1(logarithm)) if abs(logarithm) < 100 else inf if logarithm > 0 else -inf


def _row(gate: Gate, sample: Sample, look: int, found: Decision, evidence: LookEvidence, place: int) -> GateMetric:
    rule, row = sample.rule, changed(_described(sample, look), p=float(found.p[place]))
    unit = f" {sample.unit}" if rule.absolute else " %"
    if found.failed[place]:
        return changed(row, verdict=Verdict.FAIL, reason=f"worse than the budget of {rule.budget:g}{unit}")
    if found.passed[place]:
        some = f"bad boots of the candidate: {', '.join(row.far)}" if row.far else ""
        return changed(row, verdict=Verdict.PASS, reason=some, over_budget=bool(evidence.over_budget[place]))
    if found.failed.any():
        return changed(row, reason="not settled when the gate failed")
    base, seen = sample.base[:look], _estimates(sample, look)
    scale = 1.0 if rule.absolute else 100 / abs(float(np.median(base)))
    unclear = Unclear(
        rule,
        look,
        -seen.change if rule.direction == "higher" else seen.change,
        (seen.high - seen.low) / 2,
        sample.step(look) * scale,
        rule.method is Method.RANK and not np.ptp(base),
        bool(evidence.doubtful[place]),
        row.far,
        len(row.far_base),
        unit,
    )
    return changed(row, reason=why_unclear(gate, unclear))
