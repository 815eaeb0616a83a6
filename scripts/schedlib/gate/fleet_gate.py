# SPDX-License-Identifier: GPL-2.0
"""Compares base and candidate on many machines, and tells the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import convert

from schedlib import TOOL
from schedlib.errors import SchedlineError
from schedlib.formats.document import Document
from schedlib.formats.gate_document import GatesUsed, JudgedMetric, Method
from schedlib.formats.strict import Count, Moment, Positive, Strict, Word
from schedlib.gate.comparable import LOSSES_ALPHA, more_by_chance
from schedlib.gate.fleet_judging import (
    ONE_SIDED,
    FleetGroup,
    Samples,
    groups_at,
    said_of,
    too_many_left_out,
)
from schedlib.gate.fleet_machines import FleetMachine, LeftOut, read_fleet
from schedlib.gate.gate_options import GateOptions
from schedlib.gate.gate_report import SAME_KERNEL, excluded, limits_of, p_of, per, signed
from schedlib.gate.judging import of_the_rule
from schedlib.gate.rules import Gate, GateRule, load_gate
from schedlib.progress import printable, wrapped
from schedlib.verdict import Verdict, worst

_LISTED = 8
"""Machines that are named in a line, and those left out that are listed one by one."""

_NAME = 33

_NAMES = ("base", "candidate")


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


def compare_fleet(options: GateOptions) -> FleetGateDocument:
    started, gates = datetime.now(UTC), options.gates or "default"
    gate = load_gate(gates)
    machines = read_fleet(options.fleet, gates)
    left_out = [out for machine in machines for out in machine.left_out]
    there = [machine for machine in machines if machine.there]
    if not there:
        raise SchedlineError(
            f"none of {len(machines)} machines can be judged; the first, {left_out[0].machine}: {left_out[0].reason}",
            "mend that, and repeat the boots",
        )
    samples = {
        rule: [machine for machine in machines if rule.key in machine.metrics]
        for rule in gate.rules
        if rule.method is not Method.EQUAL and any(rule.key in machine.metrics for machine in machines)
    }
    look, rows = last_look(gate, samples, left_out)
    found = dict(zip(samples, rows, strict=True))
    metrics = []
    for rule in gate.rules:
        have = [each for machine in machines for each in (machine.metrics, machine.rows) if rule.key in each]
        unit = have[0][rule.key].unit if have else ""
        groups = _equal(rule, machines, left_out) if rule.method is Method.EQUAL else found.get(rule, ())
        metrics.append(FleetMetric(**of_the_rule(rule, unit), verdict=verdict_of(groups), groups=groups))
    models = Counter(machine.model for machine in machines if machine.model)
    there_of = Counter(machine.model for machine in there)
    base, candidate = (tuple(sorted({machine.kernels[side] for machine in there})) for side in (0, 1))
    lost, of_losses = losses_of_fleet(machines)
    same = any(base == candidate for base, candidate in (machine.kernels for machine in there))
    return FleetGateDocument(
        schema="fleet-gate-2",
        tool=TOOL,
        started=started,
        command=options.command(),
        status=worst([*(metric.verdict for metric in metrics), of_losses]),
        gates=convert(gate, GatesUsed, from_attributes=True),
        look=look,
        kernels=(base, candidate),
        models=tuple(FleetModel(name, count, there_of[name]) for name, count in sorted(models.items())),
        metrics=tuple(metrics),
        left_out=tuple(left_out),
        notes=(
            *([lost] if lost else []),
            *([SAME_KERNEL] if same else []),
        ),
    )


def losses_of_fleet(machines: Sequence[FleetMachine]) -> tuple[str, Verdict]:
    """The boots of all machines that `schedline run` began and that lack runs; empty if there are none."""
    counts = [count for machine in machines for count in zip(_NAMES, machine.attempts, strict=False)]
    lost, ended = ([sum(count[place] for name, count in counts if name == side) for side in _NAMES] for place in (0, 1))
    if not any(lost):
        return "", Verdict.PASS
    said = "; ".join(
        f"{name} lost {some} of {every} attempts" for name, some, every in zip(_NAMES, lost, ended, strict=True)
    )
    chance = more_by_chance(ended[0], lost[0], ended[1], lost[1])
    if chance > ONE_SIDED:
        return said, Verdict.PASS
    verdict = Verdict.FAIL if chance <= LOSSES_ALPHA else Verdict.INCONCLUSIVE
    return f"{verdict.name}: {said}. Kernels that are alike differ so much in {chance:.2g} of fleets", verdict


def last_look(
    gate: Gate, samples: Samples, left_out: Sequence[LeftOut]
) -> tuple[int | None, list[tuple[FleetGroup, ...]]]:
    """The look that decides, or else the last one for which any machine has the boots; and its groups."""
    sizes = (each.metrics[rule.key].base.size for rule, machines in samples.items() for each in machines)
    most = max(sizes, default=0)
    look, rows = None, []
    for look in (each for each in gate.looks if each <= most):
        rows = groups_at(gate, samples, look, left_out)
        verdicts = [verdict_of(groups) for groups in rows]
        if Verdict.FAIL in verdicts or all(each is Verdict.PASS for each in verdicts):
            break
    return look, rows if look else [() for _ in samples]


def verdict_of(groups: Sequence[FleetGroup]) -> Verdict:
    return worst(group.verdict for group in groups)


def _equal(rule: GateRule, machines: Sequence[FleetMachine], left_out: Sequence[LeftOut]) -> tuple[FleetGroup, ...]:
    """The groups of a metric that has to be equal: one machine on which it became worse is enough for a FAIL."""
    chosen = [(machine, machine.rows[rule.key]) for machine in machines if rule.key in machine.rows]
    if not chosen:
        return ()
    models = sorted({machine.model for machine, _ in chosen})
    groups = []
    for name in ["", *models] if len(models) > 1 else [""]:
        here = [(machine, row) for machine, row in chosen if name in ("", machine.model)]
        worse = [(machine.name, row.reason) for machine, row in here if row.verdict is Verdict.FAIL]
        lost = sum(name in ("", out.model) for out in said_of(rule, left_out))
        reason, verdict = "", Verdict.PASS
        if worse:
            reason, verdict = ": ".join(worse[0]), Verdict.FAIL
        elif too_many_left_out(lost, len(here)):
            reason, verdict = f"{lost} of {lost + len(here)} machines are left out", Verdict.INCONCLUSIVE
        group = FleetGroup(
            name=name or "all machines",
            kind="model" if name else "all",
            machines=len(here),
            verdict=verdict,
            reason=reason,
            worse_by=None,
            p=None,
            over_budget=len(worse),
            bad=tuple(machine for machine, _ in worse),
            boots=sum(row.boots[1] for _, row in here),
            far=0,
        )
        groups.append(group)
    return tuple(groups)


# The text.


def fleet_text(document: FleetGateDocument) -> str:
    """The report, except for the overall verdict. No line is longer than 72 characters."""
    return "\n".join(printable(line).rstrip() for line in _lines(document))


def _lines(document: FleetGateDocument) -> Iterator[str]:
    first = [note for note in document.notes if note.startswith(f"{document.status.name}: ")]
    for note in first:
        yield from wrapped(note)
    machines = sum(model.machines for model in document.models)
    judged = sum(model.judged for model in document.models)
    look = f", looked at {document.look} boots of each kernel" if document.look else ""
    yield from wrapped(f"{judged} of {machines} machines are judged, of {len(document.models)} models{look}")
    for name, kernels in zip(("base", "candidate"), document.kernels, strict=True):
        more = f" and {len(kernels) - 2} more" if len(kernels) > 2 else ""
        yield from wrapped(f"{name}: {' / '.join(kernels[:2])}{more}")
    for metric in document.metrics:
        yield ""
        yield from _told(metric)
    if document.left_out or document.notes:
        yield ""
    for out in document.left_out[:_LISTED]:
        name = f" ({out.metric})" if out.metric else ""
        yield from wrapped(f"left out: {out.machine}{name}: {out.reason}", 4)
    if others := document.left_out[_LISTED:]:
        kinds = Counter(out.reason.partition(":")[0] for out in others)
        said = "; ".join(f"{count} {reason}" for reason, count in kinds.most_common(3))
        yield from wrapped(f"left out, too: {len(others)} more, all in --json: {said}", 4)
    for note in document.notes:
        yield from wrapped(note) if note not in first else ()
    if document.status is Verdict.PASS:
        yield ""
        yield from wrapped(f"excluded, on every model: {excluded(document.metrics)}")


def regressing(metric: FleetMetric) -> str:
    """The models that regress, and on how many of their machines; empty if the metric does not fail."""
    failing = [group for group in metric.groups if group.verdict is Verdict.FAIL]
    if models := [group for group in failing if group.kind == "model"]:
        counts = (f"{_short(group.name)} ({group.over_budget} of its {group.machines} machines)" for group in models)
        return f"over the budget: {'; '.join(counts)}"
    if not failing:
        return ""
    several = any(group.kind == "model" for group in metric.groups)
    said = f"over the budget: {failing[0].over_budget} of {failing[0].machines} machines"
    return said + ", and no model alone is shown to regress" * several


def _short(model: str) -> str:
    """The name of a model, without its CPUs and caches."""
    return model.partition(", CPUs ")[0]


def _told(metric: FleetMetric) -> Iterator[str]:
    yield from wrapped(f"{metric.name} of {metric.tool}: {metric.verdict.name}")
    if said := regressing(metric):
        yield from wrapped(f"    {said}", 4)
    if not metric.groups:
        yield "    no machine has it"
        return
    if metric.method is not Method.EQUAL:
        unit = f" in{per(metric)}".replace(" in in ", " in ")
        yield from wrapped(f"    {limits_of(metric)}; worse by{unit}", 4)
    yield f"{'machines of':{_NAME}}{'':>5}{'worse by':>10}{'over budget':>13}{'p':>7}"
    for group in metric.groups:
        cells = f"{signed(group.worse_by):>10}{group.over_budget:>13}{p_of(group.p):>7}"
        yield f"{_short(group.name)[:_NAME]:{_NAME}}{group.machines:>5}{cells}"
        if group.reason:
            yield from wrapped(f"    {group.verdict.name}: {group.reason}", 4)
        if group.bad and group.kind != "all":
            names = ", ".join(group.bad[:_LISTED]) + (", ..." if len(group.bad) > _LISTED else "")
            yield from wrapped(f"    worst machines: {names}", 4)
