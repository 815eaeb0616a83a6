# SPDX-License-Identifier: GPL-2.0
"""`schedline gate`: two kernels' runs compared, boot by boot."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from schedlib.formats.document import Document
from schedlib.formats.run_file import Direction
from schedlib.formats.strict import Amount, Count, Moment, Number, Strict, Word
from schedlib.verdict import Verdict

BootCounts = tuple[Count, Count]
GateKernel = Literal["base", "candidate", "placebo"]


_LARGEST = 1e300
"""The largest number in a document."""


def finite(value: float | None) -> float | None:
    """The value, or None if a document cannot express it."""
    return value if value is not None and abs(value) <= _LARGEST else None


class Method(Enum):
    """How two sets of boots are compared."""

    RANK = "rank"  # Mann-Whitney over boots
    RATE = "rate"  # permutation of the boots' rates: exceedances in a million samples
    EQUAL = "equal"  # one value, the same in every run


class GatesUsed(Strict, frozen=True):
    """The settings that apply to all metrics of the gates file.

    Attributes:
        looks: boots of each kernel at which it decides.
        may_differ: entries of the fingerprint that need not be the same on both sides.
        interleaved: whether boots of both kernels have to alternate.
    """

    name: str
    alpha: Number
    looks: tuple[Count, ...]
    may_differ: tuple[str, ...]
    interleaved: bool


class MissingMetric(Strict, frozen=True):
    """A metric that the machine cannot show, or the beginning of the names of several."""

    tool: str
    name: str
    reason: str


class GateSide(Strict, frozen=True, kw_only=True):
    """One kernel.

    Attributes:
        boots: their ids, in order.
        runs: number of runs that gave a result.
        fingerprint: machine, kernel, settings; command line and version have an entry for each tool.
        failed: number of runs that gave no result.
        failures: file and reason of the first of them.
        skipped: for each tool that was skipped, the reason.
    """

    name: GateKernel
    directory: str
    kernel: str
    build_id: str
    boots: tuple[str, ...]
    runs: Count
    fingerprint: dict[str, str]
    failed: Count
    failures: tuple[str, ...]
    skipped: dict[str, str]
    absent: tuple[MissingMetric, ...]


class BootValue(Strict, frozen=True):
    """A metric in one boot.

    Attributes:
        boot: its id.
        started: its first run, seconds since 1970.
        value: mean of its runs, in the metric's unit.
    """

    kernel: GateKernel
    boot: str
    started: Number
    value: Number


class JudgedMetric(Strict, frozen=True, kw_only=True):
    """What a gate and a gate of a fleet say of a gating metric. budget and detect are in `change_unit`."""

    tool: str
    name: str
    unit: str
    direction: Direction
    verdict: Verdict
    change_unit: str
    budget: Amount
    detect: Amount

    @property
    def key(self) -> tuple[str, str]:
        return self.tool, self.name


class GateMetric(JudgedMetric, frozen=True, kw_only=True):
    """One gating metric.

    Attributes:
        unit: of base, candidate, placebo and values.
        direction: which values are better.
        because: why it is a gating metric.
        boots: number of judged boots of base and candidate.
        change_unit: unit of change, of_medians, low, high, budget and detect.
        base, candidate: medians of the boots; means for Method.RATE.
        placebo: the same of the placebo; its least and its largest value if there are several for Method.EQUAL.
        change: Hodges and Lehmann's: the median of the changes between a boot of one kernel and one of the other.
        of_medians: the change from the base's median to the candidate's.
        low, high: the 95 % interval of the change; null, of a metric with a change: without a bound.
        p: that the candidate is not worse, with Holm's correction.
        far, far_base: ids of each kernel's bad boots, worse than its ordinary boots by more than detect.
        over_budget: of a PASS, whether the estimate is worse than the budget; what is excluded is more than that.
        values: the judged boots, and those of the placebo, in the order of time.
    """

    method: Method
    reason: str
    because: str
    boots: BootCounts
    base: Number | None
    candidate: Number | None
    placebo: tuple[Number, ...]
    change: Number | None
    low: Number | None
    high: Number | None
    of_medians: Number | None
    p: Number | None
    far: tuple[str, ...]
    values: tuple[BootValue, ...]
    far_base: tuple[str, ...]
    over_budget: bool

    def __post_init__(self) -> None:
        if self.method is not Method.EQUAL and not self.detect:
            raise ValueError(f"detect of {self.name} is 0")


class UnjudgedMetric(Strict, frozen=True, kw_only=True):
    """A metric that was measured and is not judged.

    Attributes:
        boots: number of boots of base and candidate that have it.
        base, candidate: medians of the boots.
        change: from one to the other, in percent of the base.
    """

    tool: str
    name: str
    unit: str
    direction: Direction
    boots: BootCounts
    base: Number | None
    candidate: Number | None
    change: Number | None


class GateShare(Strict, frozen=True, kw_only=True):
    """How much of a metric's change the layout explains; in the unit of that change.

    Attributes:
        reason: why there is no share.
        change: the change of the placebo against the base.
        attributable: the change of the candidate against the placebo, which the layout causes.
        low, high: the 95 % interval of that; null without a reason: without a bound.
    """

    tool: str
    name: str
    reason: str
    change: Number | None
    attributable: Number | None
    low: Number | None
    high: Number | None


class GateDocument(Document, frozen=True, kw_only=True):
    """schedline gate: two kernels' runs compared, boot by boot. Every report is drawn from it alone.

    Attributes:
        tool: name and version of what wrote this file.
        started: with time zone.
        command: what made it, for a shell.
        fingerprint: what is the same on both sides.
        look: boots of each kernel at which the gate ended; null if there was no look.
        bad_boots: of a PASS, the largest share of bad boots of the candidate, from 0 to 1, that is not excluded.
        sides: base, candidate, and a placebo if runs of one were given.
        shares: of a placebo.
        notes: why a reader may trust the verdict, or not; they stand above the tables.
        details: stand below them.
        failed_before: a FAIL stood in the file where this was written.
    """

    schema: Literal["gate-4"]
    tool: Word
    started: Moment
    command: str
    fingerprint: dict[str, str]
    status: Verdict
    gates: GatesUsed
    look: Count | None
    bad_boots: Number | None
    sides: Annotated[tuple[GateSide, ...], Meta(min_length=2, max_length=3)]
    metrics: tuple[GateMetric, ...]
    shown: tuple[UnjudgedMetric, ...]
    shares: tuple[GateShare, ...]
    notes: tuple[str, ...]
    details: tuple[str, ...] | UnsetType = UNSET
    failed_before: bool | UnsetType = UNSET

    def __post_init__(self) -> None:
        if [side.name for side in self.sides] != ["base", "candidate", "placebo"][: len(self.sides)]:
            raise ValueError("its sides are not base, candidate and placebo, in this order")

    @property
    def base(self) -> GateSide:
        return self.sides[0]

    @property
    def candidate(self) -> GateSide:
        return self.sides[1]

    @property
    def placebo(self) -> GateSide | None:
        return self.sides[2] if len(self.sides) > 2 else None
