# SPDX-License-Identifier: GPL-2.0
"""Reads a fleet: a directory for each machine, with the runs of base and candidate below it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from schedlib.errors import SchedlineError
from schedlib.formats.gate_document import GateMetric
from schedlib.formats.run_file import NOT_RECORDED
from schedlib.formats.strict import Strict, Word
from schedlib.gate.boots import Key, Side, read_side
from schedlib.gate.comparable import OfOneSide, attempts_of, no_results, refuse_incomparable
from schedlib.gate.judging import sample_of
from schedlib.gate.rules import Gate, GateRule
from schedlib.gate.statistics import Values
from schedlib.process import workers
from schedlib.verdict import Verdict

_FEW = 32
"""So many machines are read by this process alone."""

Lacks: TypeAlias = Literal["", "base", "candidate"]

SIDES: tuple[Lacks, ...] = ("base", "candidate")


class LeftOut(Strict, frozen=True, kw_only=True):
    """A machine that is not judged.

    Attributes:
        model: empty if it is not known.
        tool, metric: empty if no metric of this machine is judged.
        lacks: the kernel that gave no result, if it is only one.
    """

    machine: Word
    model: str
    tool: str
    metric: str
    lacks: Lacks
    reason: Word


@dataclass(frozen=True)
class MetricBoots:
    """A metric on one machine: as many boots of each kernel, in the order of time; larger is worse.

    Attributes:
        step: one step of the clock, in the unit of the values.
    """

    unit: str
    base: Values
    candidate: Values
    step: float


@dataclass(frozen=True)
class FleetMachine:
    """One machine. A machine that is left out as a whole has no metrics.

    Attributes:
        name: of its directory.
        kernels: of base and candidate.
        marks: what no other machine has: ids of boots, content() of runs that tell themselves, and its machine_id.
            Hashes can be compared within one process and its children.
        rows: of metrics that have to be equal.
        attempts: of base and candidate, how many were lost and how many there were.
    """

    name: str
    model: str = ""
    kernels: tuple[str, str] = ("", "")
    marks: tuple[object, ...] = ()
    metrics: Mapping[Key, MetricBoots] = field(default_factory=dict)
    rows: Mapping[Key, GateMetric] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()
    attempts: tuple[tuple[int, int], ...] = ()

    def alike(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """What has to be as on most machines: the kernels of a model, which is the base, and the units of metrics."""
        if self.metrics or self.rows:
            sides = list(zip(SIDES, self.kernels, strict=True))
            yield from (((self.model, side), kernel) for side, kernel in sides)
            # In an A/A campaign it is both.
            yield from (((f"side of {kernel}",), side) for side, kernel in sides if len(set(self.kernels)) > 1)
        units = {key: each.unit for key, each in self.metrics.items()} | {
            key: row.unit for key, row in self.rows.items()
        }
        yield from (((tool, f"unit of {name}"), unit) for (tool, name), unit in units.items())

    def out(self, reason: str, key: Key = ("", ""), lacks: Lacks = "") -> LeftOut:
        """The machine, left out of one metric or of all."""
        return LeftOut(machine=self.name, model=self.model, tool=key[0], metric=key[1], lacks=lacks, reason=reason)

    def without(self, reason: str) -> FleetMachine:
        """The machine, left out as a whole."""
        return FleetMachine(self.name, self.model, self.kernels, left_out=(self.out(reason),))


def read_fleet(directory: Path, gate: Gate, *, incomplete: bool) -> list[FleetMachine]:
    """Read all machines, in the order of their names. incomplete: somebody knows why boots or runs are missing."""
    places = sorted(each for each in directory.iterdir() if each.is_dir() and not each.name.startswith("."))
    if {each.name for each in places} == set(SIDES):
        raise SchedlineError(
            f"{directory} holds the runs of one machine, not of many",
            shlex.join(["schedline", "gate", f"{directory}/base", f"{directory}/candidate"]),
        )
    if not places:
        raise SchedlineError(
            f"{directory} holds no machine", "make a directory for each machine, with its runs in base/ and candidate/"
        )
    read = partial(_read_machine, gate, incomplete)
    if len(places) <= _FEW:
        return _exclude_copies(map(read, places))
    # Children of this process hash alike, so that copies are found across all of them.
    with workers() as pool:
        return _exclude_copies(pool.map(read, places, chunksize=16))


def _read_machine(gate: Gate, incomplete: bool, place: Path) -> FleetMachine:
    machine = FleetMachine(place.name)
    sides: list[Side] = []
    lacking: dict[Lacks, str] = {}
    for name in SIDES:
        try:
            if not (place / name).is_dir():
                raise SchedlineError(f"it has no runs of {name}", "boot that kernel")
            sides.append(read_side(place / name, name))
        except SchedlineError as error:
            lacking[name] = error.observed
    read = {side.name: side for side in sides}
    try:
        found = [attempts_of(None, place / name, read.get(name, Side(name))) for name in SIDES]
    except SchedlineError as error:
        return machine.without(error.observed)
    machine = replace(machine, attempts=tuple((each.lost, len(each.ends)) for each in found))
    models = sides[0].fingerprint.get("machine", frozenset()) if sides else frozenset()
    if len(models) == 1:
        machine = replace(machine, model=min(models))
    if not lacking:
        if not machine.model or NOT_RECORDED in machine.model:
            return FleetMachine(place.name).without("its runs do not tell the machine")
        try:
            refuse_incomparable(sides, gate)
        except SchedlineError as error:
            return machine.without(error.observed)
        counts = [len(side.boots) for side in sides]
        # What one kernel has less than the other was lost. A machine with too few boots is left out.
        most = max(counts) if min(counts) >= gate.looks[0] and not incomplete else 0
        fewer = (max(0, most - each - lost) for each, (lost, _) in zip(counts, machine.attempts, strict=True))
        attempts = ((lost + more, of + more) for (lost, of), more in zip(machine.attempts, fewer, strict=True))
        machine = replace(machine, attempts=tuple(attempts))
        removed = ["" if incomplete else each.why_incomplete(side) for each, side in zip(found, sides, strict=True)]
        reasons = [no_results(side) or why for side, why in zip(sides, removed, strict=True)]
        lacking = {name: why for name, why in zip(SIDES, reasons, strict=True) if why}
    if lacking:
        (lacks, reason), *both = lacking.items()
        return replace(machine, left_out=(machine.out(reason, lacks="" if both else lacks),))
    boots = [(*(boot.id for boot in side.boots), *dict(side.contents)) for side in sides]
    marks = (*chain(*boots), *sides[0].machines.union(sides[1].machines))
    machine = replace(machine, kernels=(sides[0].kernel, sides[1].kernel))
    metrics, rows, left_out = {}, {}, []
    for rule in gate.rules:
        judged = _metric(machine, gate, rule, *sides, incomplete=incomplete)
        if isinstance(judged, LeftOut):
            left_out.append(judged)
        elif isinstance(judged, GateMetric):
            rows[rule.key] = judged
        else:
            metrics[rule.key] = judged
    marks = marks if metrics or rows else ()
    return replace(machine, marks=marks, metrics=metrics, rows=rows, left_out=tuple(left_out))


def _metric(
    machine: FleetMachine, gate: Gate, rule: GateRule, base: Side, candidate: Side, *, incomplete: bool
) -> MetricBoots | GateMetric | LeftOut:
    try:
        found = sample_of(rule, base, candidate, incomplete=incomplete)
    except SchedlineError as error:
        one = error.side if isinstance(error, OfOneSide) else ""
        return machine.out(error.observed, rule.key, next((side for side in SIDES if side == one), ""))
    if isinstance(found, GateMetric):
        if found.verdict in (Verdict.PASS, Verdict.FAIL):
            return found
        return machine.out(found.reason, rule.key)
    boots = min(found.boots, gate.looks[-1])
    counts = [len(side.boots) for side in found.sides]
    if boots < gate.looks[0]:
        why = f"{counts[0]} + {counts[1]} boots of base and candidate; the first look is at {gate.looks[0]}"
        return machine.out(why, rule.key, SIDES[counts[0] > counts[1]] if counts[0] != counts[1] else "")
    if why := found.trouble(boots, gate):
        return machine.out(why, rule.key)
    # Copies, so that a machine keeps no more than these boots.
    values = np.array(found.base[:boots]), np.array(found.candidate[:boots])
    return MetricBoots(found.unit, *values, found.step(gate.looks[0]))


def _exclude_copies(machines: Iterator[FleetMachine]) -> list[FleetMachine]:
    """The machines, without those that are another one again, or have other kernels or units than most of a model."""
    found: list[FleetMachine] = []
    owner: dict[object, str] = {}
    for machine in machines:
        if other := next((owner[mark] for mark in machine.marks if mark in owner), ""):
            found.append(machine.without(f"it has boots, figures or the machine-id of {other}, and counts once"))
        else:
            owner |= dict.fromkeys(machine.marks, machine.name)
            found.append(replace(machine, marks=()))
    counts = Counter(pair for machine in found for pair in machine.alike())
    # What most have is the last one here.
    usual = dict(pair for pair, _ in reversed(counts.most_common()))
    for place, machine in enumerate(found):
        if odd := next(((what, here) for what, here in machine.alike() if usual[what] != here), None):
            (*_, what), here = odd
            found[place] = machine.without(f"its {what} is {here}, and that of most machines is {usual[odd[0]]}")
    return found
