# SPDX-License-Identifier: GPL-2.0
"""`schedline gate --fleet`: two kernels' runs compared on many machines."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.gate_document import GatesUsed, Method
from schedlib.formats.run_file import Direction
from schedlib.formats.strict import Amount, Count, Moment, Number, Positive, Strict, Word
from schedlib.verdict import Verdict

GroupKind = Literal["all", "model", "others"]


class FleetModel(Strict, frozen=True):
    """A model of machines, as their runs name it. machines: how many are there; judged: without those left out."""

    name: Word
    machines: Positive
    judged: Count


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
    lacks: Literal["", "base", "candidate"]
    reason: Word


class MachineEffect(Strict, frozen=True):
    """A metric on one machine. worse_by: in the metric's change_unit; positive is worse."""

    machine: Word
    boots: Positive
    worse_by: Number


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


class FleetMetric(Strict, frozen=True, kw_only=True):
    """One gating metric. machines: those that are judged; none for a metric that has to be equal."""

    tool: str
    name: str
    unit: str
    direction: Direction
    method: Method
    verdict: Verdict
    because: str
    change_unit: str
    budget: Amount
    detect: Amount
    groups: tuple[FleetGroup, ...]
    machines: tuple[MachineEffect, ...]


class FleetGateDocument(Document, frozen=True, kw_only=True):
    """schedline gate --fleet: two kernels' runs compared on many machines, model by model.

    Attributes:
        command: what made it, for a shell.
        look: boots of each kernel at which the gate ended; null if there was no look.
        kernels: for base and candidate, the names in the runs.
    """

    schema: Literal["fleet-gate-1"]
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
