# SPDX-License-Identifier: GPL-2.0
"""`schedline gate --history`: a line for each gate; and `schedline gate history`: what the lines say together."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.run_file import Direction
from schedlib.formats.strict import Count, Moment, Number, Positive, Strict, Word
from schedlib.verdict import Verdict


class PastKernel(Strict, frozen=True):
    """A kernel that was gated. boots: the ids of its boots."""

    kernel: str
    build_id: str
    boots: tuple[str, ...]


class PastMetric(Strict, frozen=True):
    """A metric in a gate.

    Attributes:
        direction: which values are better.
        base, candidate: in `unit`; null if there is no value.
        change_unit: unit of change, low, high, budget and detect.
        low, high: the interval of the change.
    """

    tool: Word
    name: Word
    unit: str
    direction: Direction
    verdict: Verdict
    base: Number | None
    candidate: Number | None
    change_unit: str
    change: Number | None
    low: Number | None
    high: Number | None
    budget: Number | None
    detect: Number | None


class PastGate(Document, frozen=True, kw_only=True):
    """A line of history.jsonl: one gate.

    Attributes:
        tool: name and version of what wrote it.
        time: when the gate was asked.
        machine: its name in the runs.
        gates: name of the gates file.
        gates_hash: beginning of its SHA-256.
    """

    only_lines = True

    schema: Literal["history-1"]
    tool: Word
    time: Moment
    machine: str
    gates: str
    gates_hash: str
    verdict: Verdict
    base: PastKernel
    candidate: PastKernel
    metrics: tuple[PastMetric, ...]


class BadLine(Strict, frozen=True):
    """A line that is no gate. cut: its end is missing, as when its writer was killed."""

    line: Positive
    cut: bool
    why: str


class MetricScore(Strict, frozen=True):
    """How a metric's budget fared.

    Attributes:
        gates: how often the metric was judged.
        failed: pairs of kernels of which a gate failed this metric.
        withdrawn: those of them of which a later gate did not.
    """

    tool: str
    name: str
    budget: Number | None
    gates: Count
    failed: Count
    withdrawn: Count


class LevelSeries(Strict, frozen=True):
    """The level of a metric over time, a value for each pair of kernels.

    Attributes:
        unit: of levels and means. "% of the base" if all gates have the same base, else the metric's own.
        levels: in the order of time.
        verdicts: of the metric in each gate.
        changes: places of the change points: each is the first behind the change.
        means: between the change points.
        worse: how much worse the last mean is than the best before it, in change_unit; 0 if it is not worse.
        chained: sum of the gates' own changes for the worse in this time, in change_unit; null if the base of one is
            not the candidate of the one before it, or if all have the same base.
        status: FAIL: it crept, and the gates' own changes show at least half of it; INCONCLUSIVE: too few gates, or the
            machine may have done it.
        reason: in words; empty for PASS.
    """

    machine: str
    tool: str
    name: str
    unit: str
    change_unit: str
    direction: Direction
    budget: Number
    levels: tuple[Number, ...]
    verdicts: tuple[Verdict, ...]
    kernels: tuple[str, ...]
    times: tuple[Moment, ...]
    changes: tuple[Count, ...]
    means: tuple[Number, ...]
    worse: Number
    chained: Number | None
    status: Verdict
    reason: str


class HistoryDocument(Document, frozen=True, kw_only=True):
    """schedline gate history: the verdicts over time, creep, and how often a FAIL was withdrawn."""

    schema: Literal["gate-history-1"]
    tool: Word
    started: Moment
    status: Verdict
    gates: Count
    verdicts: dict[str, Count]
    bad: tuple[BadLine, ...]
    scores: tuple[MetricScore, ...]
    series: tuple[LevelSeries, ...]
