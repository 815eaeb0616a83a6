# SPDX-License-Identifier: GPL-2.0
"""Judge two sides by the rules: a row for each gating metric, with its verdict and the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np

from schedlib.errors import SchedlineError
from schedlib.formats.gate_document import Method
from schedlib.gate.boots import Figure, Key, Side
from schedlib.gate.decision import BootEvidence, Decision, boot_evidence, decide, together
from schedlib.gate.pairing import Batch, Batches, batches, order_problem
from schedlib.gate.rules import MOST_BOOTS, Gate, GateRule
from schedlib.gate.statistics import CONFIRM, Values, detectable
from schedlib.verdict import Verdict


@dataclass(frozen=True)
class MetricRow:
    """The gate's result for one metric.

    Attributes:
        base, candidate: medians of the boots in the metric's unit (means for Method.RATE and Method.MEAN).
        change: of the candidate, signed as measured: percent of the base, or in the unit for an absolute budget.
        low, high: the 95 % interval of the change.
        p: Holm's p, of both batches if there is a confirmation.
        p_first, p_confirm: p of each batch; None if there is none.
        floor: how much boots of the base differ among themselves, in the unit of the change.
        detectable: approximately the smallest change that a first batch like this shows, in the unit of the change.
        boots: number of judged boots of base and candidate.
    """

    rule: GateRule
    unit: str
    verdict: Verdict
    reason: str
    boots: tuple[int, int] = (0, 0)
    base: float | None = None
    candidate: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_first: float | None = None
    p_confirm: float | None = None
    floor: float | None = None
    detectable: float | None = None


@dataclass(frozen=True)
class _Sample:
    """A metric that can be tested; larger is worse. `scale` converts values to the unit of budgets and changes."""

    rule: GateRule
    unit: str
    batches: Batches
    evidence: BootEvidence
    scale: float
    detectable: float
    problem: str


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


def judge(gate: Gate, sides: Sequence[Side]) -> list[MetricRow]:
    """Judge each gating metric, in the order of the file. The sides are base, candidate, and those of a confirmation.

    Raises:
        SchedlineError: a metric was not measured at all, or its values are impossible.
    """
    rows: dict[Key, MetricRow] = {}
    samples: list[_Sample] = []
    for rule in gate.rules:
        found = _sample(gate, rule, sides)
        if isinstance(found, MetricRow):
            rows[rule.key] = found
        else:
            samples.append(found)
    statistical = sum(rule.method is not Method.EQUAL for rule in gate.rules)
    rows |= {row.rule.key: row for row in _decided(gate, samples, statistical)}
    return [rows[rule.key] for rule in gate.rules]


def _sample(gate: Gate, rule: GateRule, sides: Sequence[Side]) -> MetricRow | _Sample:
    if missing := _missing(rule, *sides[:2]):
        return missing
    about = _about(rule, sides)
    chosen = [boots_of(side, rule.tool) for side in sides]
    for side in chosen:
        figures = ((boot.figures.get(rule.key), boot.runs[rule.tool]) for boot in side.boots)
        if short := [runs for figure, runs in figures if figure is None or figure.runs < runs]:
            reason = f"{side.name}: runs of {rule.tool} in {len(short)} of {len(side.boots)} boots lack it"
            return MetricRow(rule, about, Verdict.ERROR, f"{reason}; the missing ones could be the slow ones")
        refuse_many_boots(side, f" with {rule.tool}")
    if rule.method is Method.EQUAL:
        return _equal(rule, about, chosen)
    both = batches(chosen, gate.boots)
    if not both.first.smaller:
        return MetricRow(rule, about, Verdict.ERROR, f"{chosen[not chosen[0].boots].name} has no boot with it")
    first = values_of(rule, both.first)
    problem = _shortage(gate, both.first, first, rule)
    if both.confirm and both.confirm.smaller < gate.boots:
        problem = problem or f"the confirmation has {both.confirm.smaller} boots of one kernel, not {gate.boots}"
        both = replace(both, confirm=None)
    again = values_of(rule, both.confirm) if both.confirm else None
    if gate.interleaved and not problem:
        problem = order_problem(both.first) or (order_problem(both.confirm) if both.confirm else "")
    evidence = boot_evidence(*first, again, means=rule.method is not Method.RANK)
    centre = abs(float(evidence.centre))
    if not rule.absolute and centre == 0:
        raise SchedlineError(
            f"{' '.join(rule.key)} is 0 in the base, and a budget in percent of 0 allows nothing",
            "add absolute = true and a budget in the metric's unit to the gates file",
        )
    scale = 1.0 if rule.absolute else 100 / centre
    shown = detectable(*first, gate.alpha / CONFIRM) * scale
    return _Sample(rule, about, both, evidence, scale, shown, problem)


def _missing(rule: GateRule, base: Side, candidate: Side) -> MetricRow | None:
    """A row for a metric that one side lacks or that this machine cannot show; None if both sides have it."""
    there = [rule.key in side.about for side in (base, candidate)]
    if all(there):
        return None
    reasons = [side.why_absent(rule.key) for side in (base, candidate)]
    if not any(there):
        if all(reasons):
            return MetricRow(rule, "", Verdict.INCONCLUSIVE, f"not measured here: {reasons[0]}")
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
    return MetricRow(rule, "", Verdict.ERROR, f"{lacking.name} lacks it ({reason}), and the other side has it")


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


def _equal(rule: GateRule, unit: str, sides: Sequence[Side]) -> MetricRow:
    """Judge a metric that must be equal in every run; no statistics."""
    figures = [[boot.figures[rule.key] for boot in side.boots] for side in sides]
    base, candidate = ([figure for side in figures[place::2] for figure in side] for place in (0, 1))
    if not base or not candidate:
        return MetricRow(rule, unit, Verdict.ERROR, "one side has no run with it")
    (low, high), (least, most) = range_of(base), range_of(candidate)
    counts = len(base), len(candidate)
    worse = {"lower": most > high, "higher": least < low}.get(rule.direction, (least, most) != (low, high))
    row = MetricRow(rule, unit, Verdict.PASS, "", counts, low, most if rule.direction != "higher" else least)
    if low != high:
        reason = f"it is {low:g} to {high:g} in runs of the base: not the same every time, so not exact"
        return replace(row, verdict=Verdict.INCONCLUSIVE, reason=f"{reason}; method = rank compares such values")
    if worse:
        return replace(row, verdict=Verdict.FAIL, reason=f"{low:g} became {row.candidate:g}; any change is reported")
    if (least, most) == (low, high):
        return row
    return replace(row, reason=f"better: {low:g} became {least:g}" + ("" if least == most else f" to {most:g}"))


def range_of(figures: Sequence[Figure]) -> tuple[float, float]:
    """The smallest and the largest value of all runs."""
    return min(each.least for each in figures), max(each.most for each in figures)


def values_of(rule: GateRule, batch: Batch) -> tuple[Values, Values]:
    """A value for each boot; larger is worse."""
    sign = -1.0 if rule.direction == "higher" else 1.0
    both = []
    for boots in (batch.base, batch.candidate):
        figures = [boot.figures[rule.key] for boot in boots]
        for boot, figure in zip(boots, figures, strict=True):
            wrong = f"is {figure.least:g} in boot {boot.id}: below 0" if figure.least < 0 else ""
            if rule.method is Method.RATE and (not figure.samples or figure.total > figure.samples):
                wrong = wrong or f"counts {figure.total:g} of {figure.samples} samples in boot {boot.id}"
            if wrong:
                next_step = "find out what measured that, and remove or repeat the run"
                raise SchedlineError(f"{' '.join(rule.key)} {wrong}", next_step)
        values = [figure.rate if rule.method is Method.RATE else figure.mean for figure in figures]
        both.append(sign * np.array(values, dtype=np.float64))
    return both[0], both[1]


def _shortage(gate: Gate, batch: Batch, values: tuple[Values, Values], rule: GateRule) -> str:
    """If there are too few boots: how many more are needed, and which change these could have shown."""
    short = [gate.boots - len(side) for side in (batch.base, batch.candidate)]
    if max(short) <= 0:
        return ""
    lacking = zip(short, ("base", "candidate"), strict=True)
    more = " and ".join(f"{number} more of the {name}" for number, name in lacking if number > 0)
    shown = detectable(*values, gate.alpha / CONFIRM)
    centre = abs(float(np.median(values[0])))
    could = f"{shown:.3g}" if rule.absolute or centre == 0 else f"{100 * shown / centre:.1f} %"
    could = f"the smallest change that these boots can show is about {could}"
    if not np.isfinite(shown):
        could = "these boots can show no change of any size"
    return f"too few boots: boot {more} ({could})"


def _decided(gate: Gate, samples: Sequence[_Sample], family: int) -> list[MetricRow]:
    """Decide with Holm's correction over all statistical metrics of the file; those not judged count as p = 1."""
    if not samples:
        return []
    any_confirm = any(sample.evidence.confirm is not None for sample in samples)
    padded = [_padded(sample, any_confirm) for sample in samples]
    others = family - len(samples)
    evidence = together(padded + [_unjudged(padded[0], any_confirm)] * others)
    scales = np.array([sample.scale for sample in samples] + [1.0] * others)
    rules = [sample.rule for sample in samples] + [samples[0].rule] * others
    budget, detect = (np.array([getattr(rule, name) for rule in rules]) / scales for name in ("budget", "detect"))
    outcome = decide(evidence, budget, detect, gate.alpha)
    return [_row(gate, sample, outcome, place) for place, sample in enumerate(samples)]


def _padded(sample: _Sample, any_confirm: bool) -> BootEvidence:
    if sample.problem:
        return _unjudged(sample.evidence, any_confirm)
    if any_confirm and sample.evidence.confirm is None:
        return replace(sample.evidence, confirm=np.asarray(1.0))
    return sample.evidence


def _unjudged(evidence: BootEvidence, any_confirm: bool) -> BootEvidence:
    """Evidence that neither trips nor helps the other metrics."""
    one = np.asarray(1.0)
    return replace(evidence, first=one, confirm=one if any_confirm else None, shift_first=np.asarray(-np.inf))


def _row(gate: Gate, sample: _Sample, outcome: Decision, place: int) -> MetricRow:
    rule, evidence, scale = sample.rule, sample.evidence, sample.scale
    sign = -1.0 if rule.direction == "higher" else 1.0
    ends = sorted(float(sign * end * scale) for end in (evidence.low, evidence.high))
    boots = [sample.batches.first, *([sample.batches.confirm] if sample.batches.confirm else [])]
    counts = sum(len(batch.base) for batch in boots), sum(len(batch.candidate) for batch in boots)
    values = [values_of(rule, batch) for batch in boots]
    middle = np.mean if rule.method is not Method.RANK else np.median
    base, candidate = (float(sign * middle(np.concatenate([each[side] for each in values]))) for side in (0, 1))
    row = MetricRow(
        rule,
        sample.unit,
        Verdict.PASS,
        "",
        counts,
        base,
        candidate,
        float(sign * evidence.shift * scale),
        ends[0],
        ends[1],
        float(outcome.p[place]),
        float(evidence.first),
        None if evidence.confirm is None else float(evidence.confirm),
        float(evidence.floor * scale),
        sample.detectable,
    )
    if sample.problem:
        return replace(row, verdict=Verdict.INCONCLUSIVE, reason=sample.problem, p=None)
    if outcome.failed[place]:
        reason = "both batches show a change above the budget and the A/A floor"
        return replace(row, verdict=Verdict.FAIL, reason=reason)
    if outcome.tripped[place] and evidence.confirm is None:
        reason = f"the first batch shows a change; to confirm it, boot both kernels {gate.boots} more times, in turn"
        return replace(row, verdict=Verdict.INCONCLUSIVE, reason=reason)
    if outcome.excluded[place]:
        said = "the first batch showed a change, but the confirmation did not"
        return replace(row, reason=said if outcome.tripped[place] else "")
    unit = sample.unit if rule.absolute else "%"
    worst, floor = float(evidence.high) * scale, float(evidence.floor) * scale
    reason = f"it may be worse by up to {worst:.3g} {unit}; a pass has to exclude {rule.detect:g}"
    if floor >= rule.detect:
        reason = (
            f"too noisy: boots of the base alone differ by {floor:.3g} {unit} (A/A floor), "
            f"so a change of {rule.detect:g} {unit} cannot be excluded"
        )
    return replace(row, verdict=Verdict.INCONCLUSIVE, reason=reason)
