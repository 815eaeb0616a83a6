# SPDX-License-Identifier: GPL-2.0
"""Compares base and candidate on many machines: the ordinary gate, with the machine as one more level.

Boots are compared within the blocks of each machine, and the counts are added up over the machines of a group (van
Elteren 1960): what differs from machine to machine has no effect. The groups are all machines, and those of each model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from math import erfc, log1p, sqrt
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import convert
from msgspec.structs import replace

from schedlib import TOOL
from schedlib.errors import SchedlineError
from schedlib.formats.document import Document
from schedlib.formats.gate_document import GatesUsed, JudgedMetric, Method, finite
from schedlib.formats.strict import Count, Moment, Number, Positive, Strict, Word
from schedlib.formats.tables import table
from schedlib.gate import statistics
from schedlib.gate.comparable import LOSSES_ALPHA, SAY_WHY, UNSEEN, more_by_chance
from schedlib.gate.decision import DOUBT, LookEvidence, decide, excess, far_boots, together
from schedlib.gate.fleet_machines import SIDES, FleetMachine, LeftOut, read_fleet
from schedlib.gate.gate_options import GateOptions
from schedlib.gate.gate_report import SAME_KERNEL, excluded, limits_of, p_of, per, signed
from schedlib.gate.judging import UNIT_FACTOR, estimates, of_the_rule, scaled, told
from schedlib.gate.judging import limits_of as limits_in_values
from schedlib.gate.rules import EXCESS, Gate, GateRule, load_gate
from schedlib.progress import counted, listed, printable, wrapped
from schedlib.verdict import Verdict, worst

_BAD_SHARE = 0.01
"""No PASS if a larger share of a group's machines is bad, or of the candidate's boots."""

_MOST_LEFT_OUT = 0.2
"""No PASS for a group of which a larger share of the machines is left out."""

_MOST_NAMED = 100
"""Bad machines of a group that the document names."""

_ONE_SIDED = 0.05
"""No PASS if the candidate lost more boots than the base, shown at this level."""

_BAD_P = 0.01
_EXACT_STATES = 2500
"""Up to this sum of squares of block sizes, U's distribution is exact; above, normal with continuity correction."""

_MORE = "make more boots on each machine, or take more machines"

_LISTED = 8
"""Machines that are named in a line, and those left out that are listed one by one."""

_NAME = 33


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


class FleetModel(Strict, frozen=True):
    """A model of machines, as their runs name it. machines: how many are there; judged: without those left out."""

    name: Word
    machines: Positive
    judged: Count


class FleetMetric(JudgedMetric, frozen=True, kw_only=True):
    """One gating metric."""

    method: Method
    because: str
    groups: tuple[FleetGroup, ...]


class FleetGateDocument(Document, frozen=True, kw_only=True):
    """schedline gate --fleet: two kernels' runs compared on many machines, model by model.

    Attributes:
        command: what made it, for a shell.
        look: boots of each kernel at which the gate ended; null if there was no look.
        kernels: for base and candidate, the names in the runs.
    """

    schema: Literal["fleet-gate-2"]
    tool: Word
    started: Moment
    command: str
    status: Verdict
    gates: GatesUsed
    look: Count | None
    kernels: tuple[tuple[str, ...], tuple[str, ...]]
    models: tuple[FleetModel, ...]
    metrics: tuple[FleetMetric, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]


Samples: TypeAlias = Mapping[GateRule, Sequence[FleetMachine]]
"""The machines that are judged by a metric."""


def compare_fleet(options: GateOptions) -> FleetGateDocument:
    started, gate = datetime.now(UTC), load_gate(options.gates or "default")
    machines = read_fleet(options.fleet, gate, incomplete=bool(options.incomplete))
    left_out = [out for machine in machines for out in machine.left_out]
    there = [machine for machine in machines if machine.metrics or machine.rows]
    lost, of_losses = losses_of(machines)
    verdicts, incomplete = [of_losses], ""
    if options.incomplete:
        incomplete = f"incomplete, as you say: {printable(options.incomplete)}"
    elif lacking := list(dict.fromkeys(out.machine for out in left_out if out.lacks == "candidate")):
        verdicts.append(Verdict.INCONCLUSIVE)
        incomplete = (
            f"INCONCLUSIVE: {len(lacking)} of {len(machines)} machines have results of the base, and lack those of the "
            f"candidate: {listed(lacking, 3)}. {SAY_WHY}"
        )
    if not there and of_losses is not Verdict.FAIL:
        raise SchedlineError(
            f"none of {len(machines)} machines can be judged; the first, {left_out[0].machine}: {left_out[0].reason}",
            "mend that, and repeat the boots",
        )
    samples = {rule: [each for each in machines if rule.key in each.metrics] for rule in gate.rules}
    samples = {rule: found for rule, found in samples.items() if found}
    look, rows = last_look(gate, samples, left_out)
    found, metrics = dict(zip(samples, rows, strict=True)), []
    for rule in gate.rules:
        judged_by = (each for machine in machines for each in (machine.metrics, machine.rows))
        unit = next((each[rule.key].unit for each in judged_by if rule.key in each), "")
        groups = _equal(rule, machines, left_out) if rule.method is Method.EQUAL else found.get(rule, ())
        metrics.append(FleetMetric(**of_the_rule(rule, unit), verdict=verdict_of(groups), groups=groups))
    models = Counter(machine.model for machine in machines if machine.model)
    judged = Counter(machine.model for machine in there)
    base, candidate = (tuple(sorted({machine.kernels[side] for machine in there})) for side in (0, 1))
    same = any(base == candidate for base, candidate in (machine.kernels for machine in there))
    return FleetGateDocument(
        schema="fleet-gate-2",
        tool=TOOL,
        started=started,
        command=options.command(),
        status=worst([*(metric.verdict for metric in metrics), *verdicts]),
        gates=convert(gate, GatesUsed, from_attributes=True),
        look=look,
        kernels=(base, candidate),
        models=tuple(FleetModel(name, count, judged[name]) for name, count in sorted(models.items())),
        metrics=tuple(metrics),
        left_out=tuple(left_out),
        notes=tuple(filter(None, (lost, incomplete, SAME_KERNEL if same else ""))),
    )


def losses_of(machines: Sequence[FleetMachine]) -> tuple[str, Verdict]:
    """What the lost boots say, of all machines and of each model; and how many there were."""
    models = sorted({machine.model for machine in machines} - {""})
    names = ["", *models] if len(models) > 1 else [""]
    found = [_losses(name, machines, len(names)) for name in names]
    verdict = worst(each for _, each in found)
    return f"{next(said for said, each in found if each is verdict)}; {UNSEEN}", verdict


def _losses(model: str, machines: Sequence[FleetMachine], family: int) -> tuple[str, Verdict]:
    here = [machine.attempts for machine in machines if machine.attempts and model in ("", machine.model)]
    (base_lost, base), (lost, candidate) = np.array(here, dtype=int).reshape(-1, 2, 2).sum(axis=0).tolist()
    said = f"base lost {base_lost} of {base} attempts; candidate lost {lost} of {candidate} attempts"
    said = f"{_short(model)}: {said}" if model else said
    chance = min(1.0, family * more_by_chance(base, base_lost, candidate, lost))
    if chance <= _ONE_SIDED:
        verdict = Verdict.FAIL if chance <= LOSSES_ALPHA else Verdict.INCONCLUSIVE
        return f"{verdict.name}: {said}. Equal kernels seldom differ so much: p = {chance:.2g} (Fisher)", verdict
    # As of bad boots.
    share, share_base, tries = lost / max(1, candidate), base_lost / max(1, base), min(base, candidate)
    if share > share_base and excess(np.asarray(share * tries), np.asarray(share_base * tries), tries) >= EXCESS:
        why = f"{100 * EXCESS:g} % more lost boots of the candidate are not excluded: {_MORE}"
        return f"INCONCLUSIVE: {said}; {why}", Verdict.INCONCLUSIVE
    return said, Verdict.PASS


def verdict_of(groups: Sequence[FleetGroup]) -> Verdict:
    return worst(group.verdict for group in groups)


# ---- how a metric is judged ----


def last_look(
    gate: Gate, samples: Samples, left_out: Sequence[LeftOut]
) -> tuple[int | None, list[tuple[FleetGroup, ...]]]:
    """The look that decides, or else the last one for which any machine has the boots; and its groups."""
    most = max((each.metrics[rule.key].base.size for rule, found in samples.items() for each in found), default=0)
    look: int | None = None
    rows: list[tuple[FleetGroup, ...]] = [() for _ in samples]
    for look in (each for each in gate.looks if each <= most):
        rows = _groups_at(gate, samples, look, left_out)
        verdicts = [verdict_of(groups) for groups in rows]
        if Verdict.FAIL in verdicts:
            break
        if all(each is Verdict.PASS for each in verdicts):
            later = _groups_at(gate, samples, most, left_out) if look < most else rows
            rows = [tuple(map(partial(_not_hidden, look), *both)) for both in zip(rows, later, strict=True)]
            break
    return look, rows


def _not_hidden(look: int, group: FleetGroup, later: FleetGroup) -> FleetGroup:
    """A group that passed at a look, unless all boots say something else."""
    if later.verdict is Verdict.PASS:
        return group
    reason = f"the first {look} boots of each kernel pass, and all do not: {later.reason}"
    return replace(group, verdict=Verdict.INCONCLUSIVE, reason=reason)


def _groups_at(gate: Gate, samples: Samples, look: int, left_out: Sequence[LeftOut]) -> list[tuple[FleetGroup, ...]]:
    found = [list(_at_look(rule, machines, look, left_out)) for rule, machines in samples.items()]
    evidence = [each for metric in found for _, each in metric]
    family = max(gate.family * max(map(len, found)), len(evidence))
    results = zip(*decide(together(evidence), gate.alpha, gate.looks, family, look, early=True), strict=True)
    out = []
    for rule, metric in zip(samples, found, strict=True):
        budget, rows = f"the budget of {_size(rule, rule.budget)}", []
        for group, _ in metric:
            failed, passed, p, doubtful = next(results)
            verdict, reason = Verdict.INCONCLUSIVE, group.reason
            if not reason and group.boots < gate.looks[-1]:
                reason = f"{group.boots} boots of the candidate, and a PASS takes {gate.looks[-1]}: {_MORE}"
            if failed:
                verdict, reason = Verdict.FAIL, f"worse than {budget}"
            elif passed and not reason:
                verdict = Verdict.PASS
            elif doubtful:
                reason = reason or f"it looks worse by more than {budget}: {_MORE}"
            else:
                reason = reason or f"a change of {_size(rule, rule.detect)} is not excluded: {_MORE}"
            rows.append(replace(group, verdict=verdict, reason=reason, p=float(p) if group.machines else None))
        out.append(tuple(rows))
    return out


def _size(rule: GateRule, amount: float) -> str:
    return f"{amount:g}{'' if rule.absolute else ' %'}"


def _shift(rule: GateRule, amount: float) -> float:
    """The budget or detect on the scale of scaled()."""
    return amount if rule.absolute else rule.sign * log1p(rule.sign * amount / 100)


def _members(
    rule: GateRule, machines: Sequence[FleetMachine], left_out: Sequence[LeftOut]
) -> Iterator[tuple[str, list[int], list[LeftOut]]]:
    """All machines, with an empty name, and each model: the places of its machines, and those left out."""
    out = [each for each in left_out if not each.metric or (each.tool, each.metric) == rule.key]
    models = sorted({machine.model for machine in machines} | {each.model for each in out} - {""})
    for name in ["", *models] if len(models) > 1 else [""]:
        places = [at for at, machine in enumerate(machines) if name in ("", machine.model)]
        yield name, places, [each for each in out if name in ("", each.model)]


def _group(name: str, machines: int, verdict: Verdict, reason: str, bad: Sequence[str], **more: Any) -> FleetGroup:
    fields = {"name": name or "all machines", "kind": "model" if name else "all", "worse_by": None, "p": None} | more
    return FleetGroup(**fields, machines=machines, verdict=verdict, reason=reason, bad=tuple(bad))


def _equal(rule: GateRule, machines: Sequence[FleetMachine], left_out: Sequence[LeftOut]) -> tuple[FleetGroup, ...]:
    chosen = [machine for machine in machines if rule.key in machine.rows]
    groups = []
    for name, places, out in _members(rule, chosen, left_out) if chosen else ():
        rows = {chosen[at].name: chosen[at].rows[rule.key] for at in places}
        worse = {machine: row.reason for machine, row in rows.items() if row.verdict is Verdict.FAIL}
        reason, verdict = "", Verdict.PASS
        if worse:
            reason, verdict = ": ".join(next(iter(worse.items()))), Verdict.FAIL
        elif _too_many(out, len(rows)):
            reason, verdict = f"{len(out)} of {len(out) + len(rows)} machines are left out", Verdict.INCONCLUSIVE
        boots = sum(row.boots[1] for row in rows.values())
        groups.append(_group(name, len(rows), verdict, reason, [*worse], over_budget=len(worse), boots=boots, far=0))
    return tuple(groups)


def _at_look(
    rule: GateRule, machines: Sequence[FleetMachine], look: int, left_out: Sequence[LeftOut]
) -> Iterator[tuple[FleetGroup, LookEvidence]]:
    found = _first_boots(rule, machines, look)
    for name, places, out in _members(rule, machines, left_out):
        here = found[places]
        bad = [machines[at].name for at in places if found["bad"][at]]
        middle, least = (float(np.median(here[each])) if places else 0.0 for each in ("effect", "least"))
        group = _group(
            name,
            len(places),
            Verdict.INCONCLUSIVE,
            _another_unit(rule, [machines[at] for at in places]) or _why_no_pass(rule, here, bad, out),
            bad[:_MOST_NAMED],
            worse_by=finite(told(rule, middle)) if places else None,
            over_budget=int((here["effect"] > _shift(rule, rule.budget)).sum()),
            boots=int(here["boots"].sum()),
            far=int(here["far"].sum()),
        )
        boots = Counter(here["boots"].tolist())
        worse, within, budgeted = (
            np.asarray(within_machines_p(int(here[each].sum()), boots)) for each in ("worse", "within", "budgeted")
        )
        over, none = np.asarray(bool(places) and least > _shift(rule, rule.budget)), np.asarray(0.0)
        # The bad boots of many machines are judged by _why_no_pass().
        yield group, LookEvidence(worse, within, over, np.asarray(budgeted <= DOUBT), none, none)


_MACHINE = np.dtype(
    [(name, int) for name in ("boots", "worse", "within", "budgeted", "far", "far_base")]
    + [("effect", float), ("least", float), ("bad", bool)]
)
"""What the boots of a look say of one metric on a machine.

worse, within, budgeted: the sums of U over the blocks: of the candidate; of the base, against a candidate that is
better by `detect`; of a candidate that is better by the budget. far, far_base: the bad boots of each kernel. effect: on
the scale of scaled(); least: if the candidate's clock is off by a step to the better. bad: see FleetGroup.
"""


def _first_boots(rule: GateRule, machines: Sequence[FleetMachine], look: int) -> npt.NDArray[Any]:
    """What the first boots of each machine say, at most so many of each kernel: an array of _MACHINE."""
    metrics = [machine.metrics[rule.key] for machine in machines]
    limits = limits_in_values(rule)
    effect_of, _ = estimates(rule)
    found = np.zeros(len(machines), dtype=_MACHINE)
    found["boots"] = [min(look, each.base.size) for each in metrics]
    for count in np.unique(found["boots"]):
        (here,) = np.nonzero(found["boots"] == count)
        base = np.array([metrics[at].base[:count] for at in here])
        candidate = np.array([metrics[at].candidate[:count] for at in here])
        step = np.array([[metrics[at].step] for at in here])
        known = np.isfinite(step)
        step = np.where(known, step, 0.0)
        budgeted = limits.without(candidate, limits.budget)
        effect = effect_of(scaled(rule, base), scaled(rule, candidate))
        within = statistics.count_in_blocks(limits.without(candidate + step, limits.detect), base)
        columns = {
            "effect": effect,
            "least": effect_of(scaled(rule, base), scaled(rule, candidate - step * (rule.method is Method.RANK))),
            "worse": statistics.count_in_blocks(base, candidate),
            "within": within * known[:, 0],
            "budgeted": statistics.count_in_blocks(base, budgeted),
            "bad": (effect > _shift(rule, rule.detect)) & (statistics.rank_p(base, budgeted) <= _BAD_P),
            "far": far_boots(base, candidate, limits, step).sum(axis=-1),
            "far_base": far_boots(base, base, limits, step).sum(axis=-1),
        }
        for name, column in columns.items():
            found[name][here] = column
    return found


def within_machines_p(total: int, boots: Mapping[int, int]) -> float:
    """One-sided p that no machine became worse.

    Args:
        total: the sum of statistics.count_in_blocks() over the machines.
        boots: how many machines have how many boots of each kernel.
    """
    sizes: Counter[int] = Counter()
    for each, machines in boots.items():
        sizes.update({size: count * machines for size, count in statistics.block_sizes(each).items()})
    if sum(size**2 * count for size, count in sizes.items()) <= _EXACT_STATES:
        return float(statistics.blocks_tail(tuple(sorted(sizes.items())))[total])
    mean = sum(count * size**2 / 2 for size, count in sizes.items())
    variance = sum(count * size**2 * (2 * size + 1) / 12 for size, count in sizes.items())
    return 0.5 * erfc((total - 0.5 - mean) / sqrt(2 * variance))


def _too_many(left_out: Sequence[LeftOut], judged: int) -> bool:
    return len(left_out) > _MOST_LEFT_OUT * (len(left_out) + judged)


def _another_unit(rule: GateRule, machines: Sequence[FleetMachine]) -> str:
    """The machine whose base is far from those of all others; empty if none is. In percent a unit has no effect."""
    if not rule.absolute or rule.method is Method.RATE or len(machines) < 3:
        return ""
    found = sorted((abs(float(np.median(each.metrics[rule.key].base))), each.name) for each in machines)
    for (value, name), (near, _) in ((found[0], found[1]), (found[-1], found[-2])):
        if max(value, near) > UNIT_FACTOR * min(value, near) > 0:
            unit = machines[0].metrics[rule.key].unit
            return f"the base of {name} is {value:g}, and the nearest one {near:g}: is it in another unit than {unit}?"
    return ""


def _why_no_pass(rule: GateRule, here: npt.NDArray[Any], bad: Sequence[str], left_out: Sequence[LeftOut]) -> str:
    """Why a group's machines do not allow a PASS, whatever their boots say; empty if they do.

    Each reason can only become true if the candidate gets worse.
    """
    machines, size = len(here), _size(rule, rule.detect)
    if _too_many(left_out, machines):
        return f"{len(left_out)} of {len(left_out) + machines} machines are left out: mend them, and repeat their boots"
    if len(bad) > _BAD_SHARE * machines:
        return f"{len(bad)} machines are worse by more than {size}: {listed(bad, 3)}. Compare one alone: schedline gate"
    # A few bad boots of many are chance.
    far, far_base, boots = (int(here[each].sum()) for each in ("far", "far_base", "boots"))
    if far > max(far_base, _BAD_SHARE * boots):
        return f"{far} of {boots} boots of the candidate are bad, by more than {size}: {_MORE}"
    return ""


# ---- the text ----


def fleet_text(document: FleetGateDocument) -> str:
    """The report, except for the overall verdict. No line is longer than 72 characters."""
    status, metrics = document.status, document.metrics
    first = [note for note in document.notes if note.startswith(f"{status.name}: ")]
    over = [_over_budget(each.groups) for each in metrics]
    if failed := [f"{each.name} is worse on {where}" for each, where in zip(metrics, over, strict=True) if where]:
        first.insert(0, f"{status.name}: {'; '.join(failed)}")
    undecided = [(each.name, group) for each in metrics for group in each.groups if group.verdict is status]
    if undecided and status is Verdict.INCONCLUSIVE and not first:
        name, group = undecided[0]
        first = [f"INCONCLUSIVE: {name} on {_short(group.name)}: {group.reason}"]
    judged, machines = _counts(document)
    look = f", looked at {document.look} boots of each kernel" if document.look else ""
    counts = f"{judged} of {counted(machines, 'machine')} judged, {counted(len(document.models), 'model')}{look}"
    if status is Verdict.PASS:
        first = [f"PASS: on every model {excluded(metrics)}", *filter(None, [not_judged(document)])]
    said = [*first, counts if first else f"{status.name}: {counts}"]
    for side, kernels in zip(SIDES, document.kernels, strict=True):
        more = f" and {len(kernels) - 2} more" if len(kernels) > 2 else ""
        said.append(f"{side}: {' / '.join(kernels[:2])}{more}")
    said += [note for note in document.notes if note not in first]
    lines = [line for each in said for line in wrapped(each)]
    for metric, where in zip(metrics, over, strict=True):
        lines += ["", *_told(metric, where)]
    lines += [""] * bool(document.left_out)
    for out in document.left_out[:_LISTED]:
        name = f" ({out.metric})" if out.metric else ""
        lines += wrapped(f"left out: {out.machine}{name}: {out.reason}")
    if others := document.left_out[_LISTED:]:
        kinds = Counter(out.reason.partition(":")[0] for out in others)
        most = "; ".join(f"{count} {reason}" for reason, count in kinds.most_common(3))
        lines += wrapped(f"left out, too: {len(others)} more, all in --json: {most}")
    return "\n".join(printable(line).rstrip() for line in lines)


def _counts(document: FleetGateDocument) -> tuple[int, int]:
    """How many machines are judged, and how many there are. One that tells no model is of none."""
    unknown = {out.machine for out in document.left_out if not out.model}
    return sum(each.judged for each in document.models), sum(each.machines for each in document.models) + len(unknown)


def not_judged(document: FleetGateDocument) -> str:
    """The machines about which a PASS says nothing; empty if there are none, or if it is no PASS."""
    names = list(dict.fromkeys(out.machine for out in document.left_out))
    if document.status is not Verdict.PASS or not names:
        return ""
    return f"{len(names)} of {counted(_counts(document)[1], 'machine')} not judged, or not in all metrics"


def _short(model: str) -> str:
    return model.partition(", CPUs ")[0]


def _over_budget(groups: Sequence[FleetGroup]) -> str:
    """The models that regress, and on how many of their machines; or else all machines, without a model."""
    failing = [group for group in groups if group.verdict is Verdict.FAIL]
    if models := [group for group in failing if group.kind == "model"]:
        return "; ".join(f"{_short(each.name)} ({each.over_budget} of its {each.machines} machines)" for each in models)
    several = ", and no model alone is shown to regress" if len(groups) > 1 else ""
    return "".join(f"{each.over_budget} of {each.machines} machines{several}" for each in failing)


def _told(metric: FleetMetric, over_budget: str) -> Iterator[str]:
    yield from wrapped(f"{metric.name} of {metric.tool}: {metric.verdict.name}")
    if over_budget:
        yield from wrapped(f"    over the budget: {over_budget}", 4)
    if not metric.groups:
        yield "    no machine has it"
        return
    if metric.method is not Method.EQUAL:
        unit = f" in{per(metric)}".replace(" in in ", " in ")
        yield from wrapped(f"    {limits_of(metric)}; worse by{unit}")
    rows = [("machines of", "", "worse by", "over budget", "p")]
    for group in metric.groups:
        cells = str(group.machines), signed(group.worse_by), str(group.over_budget), p_of(group.p)
        rows.append((_short(group.name)[:_NAME], *cells))
    head, *lines = table(rows, f"<{_NAME}>5>10>13>7")
    yield head
    for group, line in zip(metric.groups, lines, strict=True):
        yield line
        if group.reason:
            yield from wrapped(f"    {group.verdict.name}: {group.reason}")
        if group.bad and group.kind != "all":
            yield from wrapped(f"    worst machines: {listed(group.bad, _LISTED)}")
