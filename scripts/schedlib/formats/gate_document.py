# SPDX-License-Identifier: GPL-2.0
"""`schedline gate`: two kernels' runs compared, boot by boot."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from schedlib.formats.document import Document
from schedlib.formats.run_file import Direction
from schedlib.formats.strict import Count, Moment, Number, Strict, Word
from schedlib.verdict import Verdict

AnswerState = Literal["shown", "smaller", "not shown", "worse", "reported", "absent"]
BootCounts = tuple[Count, Count]


class Method(Enum):
    """How two sets of boots are compared."""

    RANK = "rank"  # Mann-Whitney over boots
    MEAN = "mean"  # permutation of the boots' means
    RATE = "rate"  # permutation of the boots' rates: exceedances in a million samples
    EQUAL = "equal"  # one value, the same in every run


class GatesUsed(Strict, frozen=True):
    """The settings that apply to all metrics of the gates file. looks: boots of each kernel at which it decides."""

    name: str
    alpha: Number
    looks: tuple[Count, ...]
    compared: tuple[str, ...]
    interleaved: bool


class GateSide(Strict, frozen=True):
    """One kernel. boots: their ids, in order."""

    name: Word
    directory: str
    kernel: str
    build_id: str
    boots: tuple[str, ...]


class GateMetric(Strict, frozen=True, kw_only=True):
    """One gating metric.

    Attributes:
        direction: which values are better.
        boots: number of judged boots of base and candidate.
        change_unit: unit of change, of_medians, low, high, budget and detect.
        change: Hodges and Lehmann's: the median of the changes between a boot of one kernel and one of the other.
        of_medians: the change from the base's median to the candidate's.
        low, high: the 95 % interval of the change.
        p: that the candidate is not worse, with Holm's correction.
        far: ids of the candidate's boots that are worse than every boot of the base by more than detect.
    """

    tool: str
    name: str
    unit: str
    direction: Direction
    method: Method
    verdict: Verdict
    reason: str
    boots: BootCounts
    change_unit: str
    base: Number | None
    candidate: Number | None
    change: Number | None
    of_medians: Number | None
    low: Number | None
    high: Number | None
    p: Number | None
    far: tuple[str, ...]
    budget: Number | None
    detect: Number | None


class GateShare(Strict, frozen=True, kw_only=True):
    """How much of a metric's change the layout explains; in the unit of that change.

    Attributes:
        reason: why there is no share.
        change: the change of the placebo against the base.
        attributable: the change of the candidate against the placebo.
    """

    tool: str
    name: str
    reason: str
    change: Number | None
    attributable: Number | None
    low: Number | None
    high: Number | None


class GateClaim(Strict, frozen=True, kw_only=True):
    """What a mail claims, and what these runs show. claimed: percent of the base."""

    id: str
    patch: str
    claimed: Number
    state: AnswerState
    reason: str
    boots: BootCounts
    change: Number | None
    low: Number | None
    high: Number | None
    p: Number | None


class GateDocument(Document, frozen=True, kw_only=True):
    """schedline gate: two kernels' runs compared, boot by boot.

    Attributes:
        tool: name and version of what wrote this file.
        started: with time zone.
        fingerprint: what is the same on both sides.
        placebo: present if runs of a placebo were given.
    """

    schema: Literal["gate-1"]
    tool: Word
    started: Moment
    fingerprint: dict[str, str]
    status: Verdict
    gates: GatesUsed
    sides: Annotated[tuple[GateSide, ...], Meta(min_length=2, max_length=2)]
    metrics: tuple[GateMetric, ...]
    placebo: tuple[GateShare, ...] | UnsetType = UNSET
    claims: tuple[GateClaim, ...]
    notes: tuple[str, ...]
