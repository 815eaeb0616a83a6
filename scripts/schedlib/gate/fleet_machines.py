# SPDX-License-Identifier: GPL-2.0
"""Reads a fleet: a directory for each machine, with the runs of base and candidate below it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from schedlib.errors import SchedlineError
from schedlib.formats.gate_document import GateMetric
from schedlib.formats.run_file import NOT_RECORDED, refuse_copies
from schedlib.formats.strict import Strict, Word
from schedlib.gate.boots import Key, Side, read_side
from schedlib.gate.comparable import attempts_of, no_results, refuse_differences, refuse_overlaps
from schedlib.gate.judging import Sample, sample_of
from schedlib.gate.rules import Gate, load_gate
from schedlib.gate.statistics import Values
from schedlib.verdict import Verdict

_FEW = 32
"""So many machines are read by this process alone."""

Lacks: TypeAlias = Literal["", "base", "candidate"]

_NAMES: tuple[Literal["base", "candidate"], ...] = ("base", "candidate")


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
    """A metric on one machine: a value for each boot, in the order of time; larger is worse.

    Attributes:
        base, candidate: as many values of each.
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
        marks: what no other machine has: ids of boots, and content() of runs that tell themselves. Hashes can be
            compared within one process and its children.
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

    @property
    def there(self) -> bool:
        """Whether any metric of it can be judged."""
        return bool(self.metrics or self.rows)

    def out(self, reason: str, key: Key = ("", ""), lacks: Lacks = "") -> LeftOut:
        """The machine, left out of one metric or of all."""
        return LeftOut(machine=self.name, model=self.model, tool=key[0], metric=key[1], lacks=lacks, reason=reason)

    def without(self, reason: str) -> FleetMachine:
        """The machine, left out as a whole."""
        return replace(self, marks=(), metrics={}, rows={}, attempts=(), left_out=(self.out(reason),))

    def without_side(self, why: Mapping[Lacks, str]) -> FleetMachine:
        """The machine, left out because of one kernel or of both."""
        (lacks, reason), *both = why.items()
        return replace(self, left_out=(self.out(reason, lacks="" if both else lacks),))


def read_fleet(directory: Path, gates: str) -> list[FleetMachine]:
    """Read all machines, in the order of their names."""
    places = sorted(each for each in directory.iterdir() if each.is_dir() and not each.name.startswith("."))
    if {each.name for each in places} == set(_NAMES):
        raise SchedlineError(
            f"{directory} holds the runs of one machine, not of many",
            f"schedline gate {directory}/base {directory}/candidate",
        )
    if not places:
        raise SchedlineError(
            f"{directory} holds no machine", "make a directory for each machine, with its runs in base/ and candidate/"
        )
    read = partial(_read_machine, gates)
    if len(places) <= _FEW:
        return _exclude_copies(map(read, places))
    # Children of this process hash alike, so that copies are found across all of them.
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("fork")) as pool:
        return _exclude_copies(pool.map(read, places, chunksize=16))


_gate = lru_cache(maxsize=1)(load_gate)


def _read_machine(gates: str, place: Path) -> FleetMachine:
    gate, machine = _gate(gates), FleetMachine(place.name)
    sides: list[Side] = []
    lacking: dict[Lacks, str] = {}
    for name in _NAMES:
        try:
            if not (place / name).is_dir():
                raise SchedlineError(f"it has no runs of {name}", "boot that kernel")
            sides.append(read_side(place / name, name))
        except SchedlineError as error:
            lacking[name] = error.observed
    models = sides[0].fingerprint.get("machine", frozenset()) if sides else frozenset()
    if len(models) == 1:
        machine = replace(machine, model=min(models))
    if lacking:
        return machine.without_side(lacking)
    if not machine.model or NOT_RECORDED in machine.model:
        return replace(machine, model="").without("its runs do not tell the machine")
    try:
        refuse_differences(sides, gate.may_differ)
        if gate.interleaved:
            refuse_overlaps(sides)
        refuse_copies(side.contents for side in sides)
        ended = [attempts_of(None, place / side.name, side)[0] for side in sides]
    except SchedlineError as error:
        return machine.without(error.observed)
    machine = replace(machine, attempts=tuple((sum(map(bool, each)), len(each)) for each in ended))
    lacking = {name: why for name, side in zip(_NAMES, sides, strict=True) if (why := no_results(side))}
    if lacking:
        return machine.without_side(lacking)
    marks = tuple(mark for side in sides for mark in (*(boot.id for boot in side.boots), *dict(side.contents)))
    return _with_metrics(replace(machine, kernels=(sides[0].kernel, sides[1].kernel), marks=marks), gate, *sides)


def _with_metrics(machine: FleetMachine, gate: Gate, base: Side, candidate: Side) -> FleetMachine:
    metrics: dict[Key, MetricBoots] = {}
    rows: dict[Key, GateMetric] = {}
    left_out: list[LeftOut] = []
    for rule in gate.rules:
        try:
            found = sample_of(rule, base, candidate)
        except SchedlineError as error:
            left_out.append(machine.out(error.observed, rule.key))
            continue
        if isinstance(found, Sample):
            boots = min(found.boots, gate.looks[-1])
            counts = [len(side.boots) for side in found.sides]
            if boots < gate.looks[0]:
                few: Lacks = "base" if counts[0] < counts[1] else "candidate"
                why = f"{counts[0]} + {counts[1]} boots of base and candidate; the first look is at {gate.looks[0]}"
                left_out.append(machine.out(why, rule.key, few if counts[0] != counts[1] else ""))
            elif why := found.trouble(boots, gate):
                left_out.append(machine.out(why, rule.key))
            else:
                values = np.array(found.base[:boots]), np.array(found.candidate[:boots])
                metrics[rule.key] = MetricBoots(found.unit, *values, found.step(gate.looks[0]))
        elif found.verdict in (Verdict.PASS, Verdict.FAIL):
            rows[rule.key] = found
        else:
            there = [rule.key in side.about for side in (base, candidate)]
            lacks: Lacks = "" if all(there) or not any(there) else _NAMES[there.index(False)]
            left_out.append(machine.out(found.reason, rule.key, lacks))
    marks = machine.marks if metrics or rows else ()
    return replace(machine, marks=marks, metrics=metrics, rows=rows, left_out=tuple(left_out))


def _exclude_copies(machines: Iterator[FleetMachine]) -> list[FleetMachine]:
    """The machines, without those whose boots or figures belong to another one, or whose kernels are others."""
    found: list[FleetMachine] = []
    owner: dict[object, str] = {}
    for machine in machines:
        marks, machine = machine.marks, replace(machine, marks=())
        if other := next((owner[mark] for mark in marks if mark in owner), ""):
            machine = machine.without(f"it has boots or figures of {other}: a boot belongs to one machine")
        else:
            owner |= dict.fromkeys(marks, machine.name)
        found.append(machine)
    counts = Counter((machine.model, machine.kernels) for machine in found if machine.there)
    # Of each model the pair that most machines have: the last one here.
    usual = {model: kernels for (model, kernels), _ in reversed(counts.most_common())}
    for place, machine in enumerate(found):
        of_most = usual[machine.model] if machine.there else machine.kernels
        pairs = zip(_NAMES, machine.kernels, of_most, strict=True)
        for name, here, most in pairs:
            if here != most:
                found[place] = machine.without(
                    f"its {name} is {here}, and that of most machines of its model is {most}"
                )
                break
    return found
