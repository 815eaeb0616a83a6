# SPDX-License-Identifier: GPL-2.0
"""Judge two sides by the rules: a row for each gating metric, with its verdict, the reason, and what it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import ceil, inf, isfinite, nan, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from msgspec.structs import replace

from schedlib.errors import SchedlineError
from schedlib.formats.gate_document import GateMetric, Method, finite
from schedlib.gate import comparable, decision, statistics
from schedlib.gate.boots import About, Figure, Side
from schedlib.gate.gate_options import MOST_BOOTS
from schedlib.gate.rules import EXCESS, MOST_BAD, Gate, GateRule
from schedlib.gate.statistics import CONFIDENCE, Flags, Values
from schedlib.progress import listed
from schedlib.verdict import Verdict

_LARGEST = 1e18
"""No time in ns, rate or count is larger: 30 years."""

_TIMES = ("ns", "us", "ms", "s", "nsec", "usec", "msec", "sec", "seconds", "ticks", "unknown")
_CLOCK = 'a coarse clock hides changes. Take a finer one; for exact figures method = "equal"'
UNIT_FACTOR = 100
"""No kernel is so much faster, and no machine of a fleet: another unit is."""

_QUANTILE = re.compile(r"(?:^|\.)(?:p(\d+(?:_\d+)?)|max)$")


def of_the_rule(rule: GateRule, unit: str) -> dict[str, Any]:
    """What a metric's row has from the gates file, and its units."""
    names = ("tool", "name", "direction", "method", "because", "budget", "detect")
    units = {"unit": unit, "change_unit": unit if rule.absolute else "%"}
    return {name: getattr(rule, name) for name in names} | units


def limits_of(rule: GateRule) -> decision.Limits:
    """The rule's limits, as shares unless they are absolute."""
    scale = 1.0 if rule.absolute else 0.01
    numbers = (rule.budget * scale, rule.detect * scale, bool(rule.absolute), rule.direction == "higher")
    return decision.Limits(*map(np.asarray, numbers))


def metric_row(
    rule: GateRule, unit: str, verdict: Verdict, reason: str, boots: tuple[int, int] = (0, 0), **more: Any
) -> GateMetric:
    """The result of a metric; without figures, but for those that are given."""
    fields = of_the_rule(rule, unit) | dict.fromkeys(("placebo", "far", "far_base", "values"), ())
    fields |= dict.fromkeys(("base", "candidate", "change", "of_medians", "low", "high", "p")) | more
    return GateMetric(**fields, verdict=verdict, reason=reason, boots=boots, over_budget=False)


@dataclass(frozen=True)
class Sample:
    """A metric that can be tested, and the boots of base and candidate with its tool; larger values are worse."""

    rule: GateRule
    unit: str
    sides: tuple[Side, Side]
    base: Values
    candidate: Values

    @property
    def per(self) -> str:
        return f" {self.unit}" if self.rule.absolute else " %"

    @property
    def boots(self) -> int:
        return min(len(side.boots) for side in self.sides)

    def first(self, boots: int | None) -> tuple[Side, Side]:
        return self.sides[0].first(boots), self.sides[1].first(boots)

    def step(self, boots: int | None) -> float:
        """One step of the coarser clock in the first boots, from all their runs; of a rate, one sample of a boot."""
        figures = [[boot.figures[self.rule.key] for boot in side.boots] for side in self.first(boots)]
        if self.rule.method is Method.RATE:
            return 1e6 / min(each.samples for side in figures for each in side)
        base, candidate = (np.array([value for each in side for value in each.values]) for side in figures)
        return float(statistics.coarser_step(base, candidate))

    def evidence(self, boots: int, *, pairs: bool, step: float | None = None) -> decision.LookEvidence:
        means, known = self.rule.method is not Method.RANK, np.asarray(self.step(boots) if step is None else step)
        values = self.base[:boots], self.candidate[:boots]
        return decision.look_evidence(*values, limits_of(self.rule), known, means=means, pairs=pairs)

    def bad(self, boots: int | None = None) -> tuple[Flags, ...]:
        """Which of the first boots of base and candidate are bad; without a number, of all."""
        base, limits, step = self.base[:boots], limits_of(self.rule), self.step(boots)
        sides = base, self.candidate[:boots]
        return tuple(decision.far_boots(base, side, limits, step) for side in sides)

    def trouble(self, boots: int, gate: Gate) -> str:
        """Why the first boots cannot be compared: their order, or what happened beside one kernel. Else empty."""
        if gate.interleaved and (order := comparable.order_problem(*self.sides, boots)):
            return order
        if why := comparable.disturbed(*self.first(boots), self.rule.tool):
            return f"not comparable: {why}. Find the cause, and begin a new campaign"
        limits, sides = limits_of(self.rule), (self.base[:boots], self.candidate[:boots])
        base, candidate = (abs(float(np.median(side))) for side in sides)
        constant = self.rule.method is Method.RANK and candidate and not np.ptp(sides[1])
        slower = limits.without(sides[1], limits.detect)[0] > np.median(sides[0])
        if constant and not slower and np.ptp(sides[0]) > self.step(boots):
            return f"all boots of the candidate have the same value, and not those of the base: {_CLOCK}"
        unit, best = f"is it in another unit than {self.unit}?", abs(float(np.min(sides[1])))
        if self.unit in _TIMES and self.rule.direction == "lower" and best * UNIT_FACTOR < base:
            return f"a boot of the candidate has less than 1 / {UNIT_FACTOR} of the base's: {unit}"
        if self.rule.direction == "higher" and not self.rule.absolute and best > base * UNIT_FACTOR:
            return f"a boot of the candidate has more than {UNIT_FACTOR} times the base's: {unit}"
        return comparable.unequal_samples(*self.first(boots), self.rule.key)

    def behind(self, look: int, gate: Gate) -> str:
        """What boots behind the last look show, and a PASS would hide; empty if it is nothing."""
        boots = self.boots
        if boots > look and self.evidence(boots, pairs=gate.pairs).doubtful:
            return f"all {boots} boots of each kernel look worse than the first {look}: begin a new campaign"
        of_base, bad = self.bad()
        if bad.mean() > of_base.mean() and bad[look:].any():
            ids = ", ".join(boot.id for boot, odd in zip(self.sides[1].boots, bad, strict=True) if odd)
            return f"bad boots of the candidate behind the {look} that were judged: {ids}. Begin a new campaign"
        return ""


def judge(gate: Gate, base: Side, candidate: Side, *, incomplete: bool = False) -> list[GateMetric]:
    """Judge each gating metric, in the order of the file.

    The gate looks at the first boots of both kernels, as many as the gates file says, and ends at the first look at
    which a metric fails, or at the last one. Later boots are not judged. A metric with fewer boots than others keeps
    what its own last look said, and does not pass.

    Args:
        incomplete: somebody knows why some boots have no run of a tool.
    """
    found: list[GateMetric | Sample] = []
    for rule in gate.rules:
        try:
            found.append(sample_of(rule, base, candidate, incomplete=incomplete))
        except comparable.LacksMetric as error:
            found.append(metric_row(rule, "", Verdict.ERROR, error.observed))
    judged = iter(_at_the_last_look(gate, [each for each in found if isinstance(each, Sample)]))
    return [next(judged) if isinstance(each, Sample) else each for each in found]


def sample_of(rule: GateRule, *sides: Side, incomplete: bool) -> GateMetric | Sample:
    """The boots of a metric; or its row, if it cannot be tested or has to be equal.

    Raises OfOneSide: one kernel's runs are the reason that it cannot be judged.
    """
    if not incomplete:
        comparable.refuse_fewer_runs(sides, rule.tool)
    if any(rule.key not in side.about for side in sides):
        return _missing(rule, *sides)
    unit = _unit(rule, *(side.about[rule.key] for side in sides))
    base, candidate = (side.with_tool(rule.tool) for side in sides)
    for side in (base, candidate):
        if short := sum(len(boot.values(rule.key)) < boot.runs[rule.tool] for boot in side.boots):
            why = f" ({said})" if (said := side.why_absent(rule.key)) else ""
            reason = f"{side.name}: runs of {rule.tool} in {short} of {len(side.boots)} boots lack it{why}"
            raise comparable.LacksMetric(side.name, f"{reason}; the missing ones could be the slow ones")
        if len(side.boots) > MOST_BOOTS:
            raise comparable.OfOneSide(
                side.name,
                f"{side.name} has {len(side.boots)} boots with {rule.tool}, more than {MOST_BOOTS}",
                "check that boot_id is the kernel's, and give the boots of one campaign",
            )
    if rule.method is Method.EQUAL:
        return _equal(rule, unit, base, candidate)
    values = values_of(rule, base, candidate, unit=unit)
    if not rule.absolute and not np.median(values[0]):
        raise SchedlineError(
            f"{' '.join(rule.key)} is 0 in the base, and a budget in percent of 0 allows nothing",
            "add absolute = true and a budget in the metric's unit to the gates file",
        )
    return Sample(rule, unit, (base, candidate), *values)


def _missing(rule: GateRule, *sides: Side) -> GateMetric:
    """The row of a metric that one side lacks, or that this machine cannot show."""
    lacking = [side for side in sides if rule.key not in side.about]
    reasons = [side.why_absent(rule.key) for side in lacking]
    if len(lacking) == 1:
        why = f"{lacking[0].name} lacks it ({reasons[0] or 'no reason given'}), and the other side has it"
        raise comparable.LacksMetric(lacking[0].name, why)
    if all(reasons):
        return metric_row(rule, "", Verdict.INCONCLUSIVE, f"not measured here: {reasons[0]}")
    measured = sorted({key for side in sides for key in side.about})
    names = [name for tool, name in measured if tool == rule.tool]
    if not names:
        tools = ", ".join(dict.fromkeys(tool for tool, _ in measured)) or "nothing"
        raise SchedlineError(
            f"no run of {rule.tool}, and {rule.name} is gated; there are runs of: {tools}",
            "run it, or name another file: --gates",
        )
    near = get_close_matches(rule.name, names, 5, 0.3) or names[:8]
    known = f"correct the gates file; the runs have: {', '.join(near)}"
    raise SchedlineError(f"unknown metric: no run of {rule.tool} has {rule.name}", known)


def _unit(rule: GateRule, *abouts: About) -> str:
    """The metric's unit, if both sides and the rule agree on what it is."""
    about, where = abouts[0], " ".join(rule.key)
    if about != abouts[1]:
        raise SchedlineError(
            f"{where} has another unit, direction or kind in another directory",
            "measure both kernels with the same program",
        )
    if about.direction != rule.direction:
        raise SchedlineError(
            f"{where}: the runs say {about.direction} is better, the gates file {rule.direction}",
            "correct the gates file",
        )
    fits = {Method.RATE: about.kind == "exceedance", Method.EQUAL: about.kind == "exact"}
    if not fits.get(rule.method, about.kind != "exceedance"):
        raise SchedlineError(
            f'{where} is of kind {about.kind}, which method = "{rule.method.value}" does not fit',
            "rate is for exceedances, equal for exact, rank for the others",
        )
    return "in a million" if rule.method is Method.RATE else about.unit


def _equal(rule: GateRule, unit: str, *sides: Side) -> GateMetric:
    found = [[value for boot in side.boots for value in boot.values(rule.key)] for side in sides]
    (low, high), (least, most) = ((min(values), max(values)) for values in found)
    same, now = (least, most) == (low, high), least if rule.direction == "higher" else most
    verdict, reason = Verdict.PASS, ""
    if low != high:
        verdict, reason = Verdict.INCONCLUSIVE, f"it is {low:g} to {high:g} in runs of the base: not the same every "
        reason += "time, so not exact; method = rank compares such values"
    elif {"lower": most > high, "higher": least < low, "neither": not same}[rule.direction]:
        verdict, reason = Verdict.FAIL, f"{low:g} became {now:g}; any change is reported"
    elif not same:
        reason = f"better: {low:g} became {least:g}" + ("" if least == most else f" to {most:g}")
    boots = len(sides[0].boots), len(sides[1].boots)
    return metric_row(rule, unit, verdict, reason, boots, base=finite(low), candidate=finite(now))


def values_of(rule: GateRule, *sides: Side, unit: str = "") -> tuple[Values, ...]:
    """A value for each boot of each side; larger is worse. A value that nothing can measure is an error."""
    found = []
    for side in sides:
        for boot in side.boots:
            figure = boot.figures[rule.key]
            least, most = min(figure.values), max(figure.values)
            wrong = ""
            if least < 0:
                wrong = f"is {least:g}, below 0"
            if not least and unit in _TIMES and _QUANTILE.search(rule.name):
                wrong = f"is 0 {unit}: nothing takes no time"
            if not most <= _LARGEST:
                wrong = f"is {most:g}: no measurement is so large"
            if rule.method is Method.RATE and not figure.samples:
                wrong = "counts 0 of 0 samples"
            if side.about[rule.key].kind == "quantile":
                wrong = few_for(rule.name, figure) or wrong
            if wrong:
                next_step = "find out what measured that, and remove or repeat the run"
                raise comparable.OfOneSide(
                    side.name, f"{side.name}: {' '.join(rule.key)} {wrong} ({boot.id})", next_step
                )
        found.append(rule.sign * np.array([boot.figures[rule.key].of(rule.method) for boot in side.boots]))
    return tuple(found)


def few_for(name: str, figure: Figure) -> str:
    """Why a quantile of so few samples is none; empty if it is one."""
    share = float(found[1].replace("_", ".")) / 100 if (found := _QUANTILE.search(name)) and found[1] else 0.0
    each, needed = figure.samples / len(figure.values), 1 / (1 - share) if share < 1 else 1.0
    return f"is of {each:.3g} samples, and of fewer than {needed:.6g} it is a maximum" if each < 0.999 * needed else ""


def _at_the_last_look(gate: Gate, samples: Sequence[Sample]) -> list[GateMetric]:
    most = max((sample.boots for sample in samples), default=0)
    looks = [look for look in gate.looks if look <= most]
    if not looks:
        return [_row(sample, sample.boots, _too_few(gate, sample)) for sample in samples]
    for look in looks:
        own = [max((each for each in looks if each <= min(look, sample.boots)), default=0) for sample in samples]
        both = list(zip(samples, own, strict=True))
        troubles = [sample.trouble(boots, gate) if boots else _too_few(gate, sample) for sample, boots in both]
        whole = decision.together(sample.evidence(boots or sample.boots, pairs=gate.pairs) for sample, boots in both)
        usable, here = np.array([not trouble for trouble in troubles]), np.array(own) == look
        tested = whole._replace(
            worse=np.where(usable, whole.worse, 1.0), within=np.where(usable & here, whole.within, 1.0)
        )
        found = decision.decide(tested, gate.alpha, gate.looks, gate.family, look)
        if found.failed.any():
            break
    rows = []
    for place, ((sample, boots), trouble) in enumerate(zip(both, troubles, strict=True)):
        row = _row(sample, boots or sample.boots, trouble)
        if not trouble:
            verdict, over = Verdict.INCONCLUSIVE, False
            if found.failed[place]:
                verdict, reason = Verdict.FAIL, f"worse than the budget of {sample.rule.budget:g}{sample.per}"
            elif found.passed[place] and (reason := sample.behind(look, gate)):
                pass
            elif found.passed[place]:
                verdict, over, reason = Verdict.PASS, bool(whole.over_budget[place]), ""
            elif found.failed.any():
                reason = "not settled when the gate failed"
            else:
                reason = _why_unclear(
                    gate, sample, row, whole.within[place] <= decision.MISSED, bool(found.doubtful[place])
                )
            row = replace(row, verdict=verdict, reason=reason, over_budget=over, p=float(found.p[place]))
        rows.append(row)
    return rows


def scaled(rule: GateRule, values: Values) -> Values:
    """Values on a scale where a change of the budget's kind is a shift: as they are, or the logarithm of their size.

    0 has no logarithm: it counts as the least number.
    """
    if rule.absolute:
        return values
    return np.asarray(rule.sign * np.log(np.maximum(rule.sign * values, np.finfo(float).tiny)))


def told(rule: GateRule, effect: float) -> float:
    """A shift on that scale in the unit of the budget; infinite if it is not known, or if it is from 0 or to 0."""
    if rule.absolute:
        return effect
    if not abs(effect) < 100:
        return inf if effect > 0 else -inf
    return rule.sign * 100 * float(np.expm1(rule.sign * effect))


def estimates(rule: GateRule) -> tuple[Callable[[Values, Values], Values], Callable[[Values, Values], Any]]:
    """How a change is estimated, and its interval."""
    if rule.method is Method.RANK:
        return statistics.shift, statistics.shift_interval
    return statistics.mean_shift, statistics.mean_interval


def _row(sample: Sample, boots: int, reason: str) -> GateMetric:
    rule, base, candidate = sample.rule, sample.base[:boots], sample.candidate[:boots]
    sign, ranks = rule.sign, rule.method is Method.RANK
    # No -0.
    middles = [float(sign * (np.median if ranks else np.mean)(side)) + 0.0 for side in (base, candidate)]
    of_medians = middles[1] - middles[0] if rule.absolute else nan
    if not rule.absolute and middles[0]:
        of_medians = 100 * (middles[1] / middles[0] - 1)
    shift, interval = estimates(rule)
    sides = scaled(rule, base), scaled(rule, candidate)
    change, *ends = (sign * told(rule, float(each)) + 0.0 for each in (shift(*sides), *interval(*sides)))
    # What becomes 0 has changed by -100 %, and nothing can change by more than that.
    least = -inf if rule.absolute else -100.0
    far_base, far = (
        tuple(boot.id for boot, bad in zip(side.boots, found, strict=False) if bad)
        for side, found in zip(sample.sides, sample.bad(boots), strict=True)
    )
    figures = dict(zip(("base", "candidate"), middles, strict=True), change=max(change, least), of_medians=of_medians)
    figures |= {"low": max(min(ends), least), "high": max(*ends, least)}
    more = {name: finite(value) for name, value in figures.items()}
    both = (boots, boots)
    return metric_row(rule, sample.unit, Verdict.INCONCLUSIVE, reason, both, **more, far=far, far_base=far_base)


# ---- what an INCONCLUSIVE metric needs ----


def _too_few(gate: Gate, sample: Sample) -> str:
    return f"too few boots{_lacking(sample, gate.looks[0])}; the first look is at {gate.looks[0]} of each"


def _lacking(sample: Sample, boots: int) -> str:
    """What to boot."""
    (base, first), (candidate, second) = ((max(0, boots - len(side.boots)), side.name) for side in sample.sides)
    if base == candidate:
        return f": boot each kernel {base} more times"
    more = " and ".join(
        f"{number} more of the {name}" for number, name in ((base, first), (candidate, second)) if number
    )
    return f": boot {more}"


def _why_unclear(gate: Gate, sample: Sample, row: GateMetric, good: bool, doubtful: bool) -> str:
    """How many boots it needs, or why no number settles it.

    Args:
        good: a change of `detect` is excluded so far.
        doubtful: a change above the budget is in sight.
    """
    rule, unit, look = sample.rule, sample.per, row.boots[0]
    base, limit = sample.base[:look], f"{rule.detect:g}{unit}"
    if rule.method is Method.RANK and not np.ptp(base):
        return (
            f"all {look} boots of the base have the same value, so nothing is known of its noise, and no number "
            'of boots settles it: measure with a finer clock, or compare with method = "equal"'
        )
    worse_by = inf if row.change is None else rule.sign * row.change
    seems = f"it looks worse by {worse_by:.3g}{unit}, over the budget of {rule.budget:g}{unit}"
    if why := _two_groups(sample, look) or _bad_boots(gate, sample, row):
        return f"{seems}; {why}" if doubtful else why
    half = inf if row.low is None or row.high is None else (row.high - row.low) / 2
    room = rule.detect - max(worse_by, 0.0)
    step = sample.step(look) * (1.0 if rule.absolute else 100 / abs(float(np.median(base))))
    if rule.method is Method.RATE and not doubtful and step > room:
        return (
            f"one of the {1e6 / step:.0f} samples of a boot is {step:.3g}{unit}, and a PASS excludes {limit}. No "
            f"number of boots settles it: take more than {1e6 / rule.detect:.0f} samples in each boot"
        )
    if rule.method is Method.RANK:
        clock = f"one step of the clock is {step:.3g}{unit}; budget and detect: {rule.budget:g} and {limit}"
        if step > (worse_by - rule.budget if doubtful else room):
            return f"{clock}. No number of boots settles it: measure with a finer clock"
        finer = look == gate.looks[-1] and not (doubtful or good) and sample.evidence(look, pairs=gate.pairs, step=0.0)
        if finer and finer.within <= decision.MISSED:
            return f"{clock}. It is the clock that hides whether this passes: measure with a finer one"
    end = row.low if rule.direction == "higher" else row.high
    most = inf if end is None else rule.sign * end + step
    seen = f"it may be worse by up to {most:.3g}{unit}; a PASS excludes {limit}"
    if doubtful:
        seen = seems
    elif good:
        seen = "nothing speaks against it"
    if look < gate.looks[-1]:
        return f"{seen}; {_more(gate, sample)}"
    needed = _needed(gate, rule, look, worse_by, half)
    if not isfinite(needed):
        return f"{seen}; {_again(gate, 2 * look)}"
    return f"{seen}; about {needed} boots of each would settle it: {_again(gate, int(needed))}"


def _two_groups(sample: Sample, look: int) -> str:
    """Why boots of a base that fall into two groups hardly ever pass; empty if they do not.

    If half of 20 boots are slow, nobody knows that it is not half of one kernel's and three quarters of the other's.
    """
    rule, base = sample.rule, sample.base[:look]
    values = np.sort(scaled(rule, base))
    at = int(np.diff(values).argmax())
    apart, slow = abs(told(rule, float(values[at + 1] - values[at]))), look - at - 1
    few, one_step = min(slow, look - slow) <= max(1.0, MOST_BAD * look), 1.5 * sample.step(look)
    if few or apart <= rule.detect or np.diff(np.sort(base))[at] <= one_step:
        return ""
    return (
        f"the base's boots fall into two groups: {slow} of {look} are worse by at least {apart:.3g}{sample.per}, more "
        f"than the {rule.detect:g}{sample.per} that a PASS excludes. More boots hardly help: find what makes them slow"
    )


def _bad_boots(gate: Gate, sample: Sample, row: GateMetric) -> str:
    """Why bad boots do not allow a PASS, and how many boots would; empty if there are none, or too few to matter."""
    look, far, far_base = row.boots[0], len(row.far), len(row.far_base)
    if not far + far_base:
        return ""
    ids = f" ({listed(row.far, 3)})" if far else ""
    said = (
        f"bad boots: {far} of {look} of the candidate{ids}, {far_base} of the base, more than "
        f"{row.detect:g}{sample.per} worse than the base's ordinary boots"
    )
    if far > MOST_BAD * max(look, gate.looks[-1]):
        return f"{said}. A PASS has at most {100 * MOST_BAD:g} % of bad boots: look at these boots"
    if look < gate.looks[-1]:
        return f"{said}; {_more(gate, sample)}"

    def scaled_to(boots: int) -> tuple[Values, Values, int]:
        return np.asarray(boots / look * far), np.asarray(boots / look * far_base), boots

    if decision.allowed(*scaled_to(look)):
        return ""
    said += (
        f". So up to {100 * decision.excess(*scaled_to(look)):.3g} % more of the candidate's boots may be bad; a PASS "
        f"excludes {100 * EXCESS:g} %"
    )
    if needed := next((boots for boots in range(look, MOST_BOOTS) if decision.allowed(*scaled_to(boots))), 0):
        return f"{said}. About {needed} boots of each would settle it: {_again(gate, needed)}"
    return f"{said}. No number of boots makes this a PASS: look at these boots"


def _more(gate: Gate, sample: Sample) -> str:
    last = gate.looks[-1]
    return f"a PASS takes {last} boots{_lacking(sample, last)}, in the order of the plan"


def _again(gate: Gate, boots: int) -> str:
    return (
        f"the last look of this gate is at {gate.looks[-1]}. Find what disturbs the machine, or start a new campaign "
        f"with looks up to {boots} in the gates file"
    )


def _needed(gate: Gate, rule: GateRule, look: int, worse_by: float, half: float) -> float:
    """About how many boots of each kernel would settle it, if the noise and the estimate stay as they are.

    The interval shrinks with the square root of the boots. For a PASS the estimate has to be below `detect`, for a FAIL
    above 0, by the standard errors that the error rates want. half: of the interval.
    """
    if not isfinite(half) or not half:
        return inf
    normal = NormalDist()
    error = half / normal.inv_cdf((1 + CONFIDENCE) / 2) * sqrt(look)
    if worse_by > rule.budget:
        level, distance = gate.alpha / len(gate.looks) / max(gate.family, 1), worse_by
    else:
        level, distance = decision.MISSED, rule.detect - worse_by
    if distance <= 0:
        return inf
    return max(look + 1, ceil((normal.inv_cdf(1 - level / 2) * error / distance) ** 2))
