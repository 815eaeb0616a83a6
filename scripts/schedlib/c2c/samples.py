# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c import`: samples of a real machine by object and field. Samples are never called counts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from operator import add
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Literal, TypeVar

from msgspec import Meta
from msgspec.structs import astuple

from schedlib.c2c.objects import UNNAMED
from schedlib.c2c.traffic_report import field_name, totals
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import AccessKind, Place, TrafficResult, TrafficRow
from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Count, Moment, Positive, Strict, Word

MEASURED_FILE = "measured.json"

_K = TypeVar("_K", bound=Hashable)
Metric = Literal["taken", "samples"]
"""What is shared out: samples of lines taken from another CPU's cache, or, if the source does not tell these, all."""

Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Z = NormalDist().inv_cdf(0.975)
"""Half of an interval of 95 %, in standard deviations."""
_BRIEF, _NAME = 12, 28


class Sampled(Strict, frozen=True):
    """Samples, and what they stand for.

    Attributes:
        period: sum of the samples' periods, the events that they stand for; 0 if the source does not say.
        taken: samples of a line that another CPU's cache had modified (HITM), or handed over (Arm's peer).
        taken_period: the sum of the periods of these.
        remote: those of them whose line came from another node.
        cycles: sum of the samples' weights, in cycles; 0 if the source does not say.
    """

    samples: Count
    period: Count
    taken: Count
    taken_period: Count
    remote: Count
    cycles: Count

    def __add__(self, other: Sampled) -> Sampled:
        return Sampled(*map(add, astuple(self), astuple(other)))

    def amount(self, metric: Metric) -> int:
        """What a share of this metric is made of: events if the periods are known, else samples."""
        if metric == "taken":
            return self.taken_period or self.taken
        return self.period or self.samples


NOTHING = Sampled(0, 0, 0, 0, 0, 0)


class SampledRow(Place, frozen=True):
    """The samples of one function at one place."""

    kind: AccessKind
    function: Word
    sampled: Sampled


class Unresolved(Strict, frozen=True):
    """Samples that belong to no field, for one reason, and their share of all samples of kernel memory."""

    why: Word
    sampled: Sampled
    share: Share


class SampledField(Strict, frozen=True):
    """A field's share of all samples of kernel memory, by the document's metric.

    Attributes:
        name: the object and the field, without array indices.
        low, high: the interval of 95 % of the share, after Wilson (1927). Samples of different periods count as fewer
            of equal ones, after Kish (1965).
    """

    name: Word
    sampled: Sampled
    share: Share
    low: Share
    high: Share


class SampleSource(Strict, frozen=True):
    """Where samples come from.

    Attributes:
        files: their names, without directories.
        events: the sampled events.
        machine: what the source says of the CPU and the kernel; empty if nothing.
        repeated: samples that were left out because they tell of the same access as another one (Arm SPE).
    """

    kind: Word
    files: Annotated[tuple[Word, ...], Meta(min_length=1)]
    events: tuple[str, ...]
    machine: str
    repeated: Count


class MeasuredDocument(Document, frozen=True, kw_only=True):
    """schedline c2c import: samples of a real machine by object and field.

    Attributes:
        metric: what shares are made of.
        kernel: all samples of kernel memory.
        user: all samples of user memory, which are not in `kernel`.
        effective: number of samples of equal period that would tell as much as those in the metric.
        fields: those with samples, the largest share first.
    """

    only_lines = True

    schema: Literal["c2c-measured-1"]
    tool: Word
    imported: Moment
    source: SampleSource
    build_id: str
    line: Positive
    metric: Metric
    kernel: Sampled
    user: Sampled
    effective: Amount
    fields: tuple[SampledField, ...]
    unresolved: tuple[Unresolved, ...]
    rows: tuple[SampledRow, ...]


def read_measured(path: Path) -> MeasuredDocument:
    """Read a result of import from its file, or from the directory that contains the file; Refused if it is none."""
    return document.read_below(path, MEASURED_FILE, MeasuredDocument, "schedline c2c import FILE --out DIR writes one")


def wilson(share: float, number: float) -> tuple[float, float]:
    """The interval of 95 % of a share of so many samples, after E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209."""
    if number <= 0:
        return 0.0, 1.0
    square = Z * Z / number
    middle = (share + square / 2) / (1 + square)
    half = Z * sqrt(share * (1 - share) / number + square / (4 * number)) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def effective(whole: float, squares: float) -> float:
    """How many samples of equal weight tell as much, after L. Kish, Survey Sampling (1965); see ScriptSums.squares."""
    return whole * whole / squares if squares else 0.0


def summed(parts: Iterable[tuple[_K, Sampled]]) -> dict[_K, Sampled]:
    """Sum the samples that share a key, in the order in which keys first appear."""
    found: dict[_K, Sampled] = {}
    for key, sampled in parts:
        found[key] = found.get(key, NOTHING) + sampled
    return found


def _emulated(rows: Iterable[TrafficRow], metric: Metric) -> dict[str, float]:
    """Each field's share of what is compared in a guest: HITM of loads and atomic operations, or all misses."""
    is_taken = metric == "taken"
    kept = (
        row for row in rows if not row.neighbour and row.owner != UNNAMED and not (is_taken and row.kind == "store")
    )
    amounts = {name: counts.hitm if is_taken else counts.misses for name, counts in totals(kept, field_name).items()}
    whole = sum(amounts.values())
    return {name: amount / whole for name, amount in amounts.items() if amount}


@dataclass(frozen=True)
class ComparedField:
    """A field: its share of the samples, with the 95 % interval, and of the counts."""

    name: str
    measured: float
    low: float
    high: float
    emulated: float
    agrees: bool


def compare(measured: MeasuredDocument, emulated: TrafficResult) -> tuple[ComparedField, ...]:
    """Both sides by field, the most samples first; SchedlineError if they have no object in common."""
    metric = measured.metric
    owners = {row.owner for each in emulated.quanta for row in each.rows if not row.neighbour} - {UNNAMED}
    sampled = summed(
        (field_name(row), row.sampled) for row in measured.rows if row.owner in owners and not row.neighbour
    )
    part = sum(each.amount(metric) for each in sampled.values())
    if not part:
        raise SchedlineError(
            f"no sample lies in what was emulated ({', '.join(sorted(owners)[:5])})",
            "emulate more: schedline c2c --objects all; or import with --map, which finds allocated objects",
        )
    number = measured.effective * part / measured.kernel.amount(metric)
    tables = [_emulated(each.rows, metric) for each in emulated.quanta]
    fields = []
    for name in set(sampled).union(*tables):
        share = sampled.get(name, NOTHING).amount(metric) / part
        counted = sorted(table.get(name, 0.0) for table in tables)
        low, high = wilson(share, number)
        agrees = low <= counted[-1] and counted[0] <= high
        fields.append(ComparedField(name, share, low, high, counted[len(counted) // 2], agrees))
    return tuple(sorted(fields, key=lambda each: (-each.measured, each.name)))


def brief(found: Sequence[ComparedField]) -> Iterator[str]:
    """The fields with the most samples, in 70 columns."""
    agree = sum(each.agrees for each in found)
    yield f"measured on a machine: {agree} of {len(found)} fields agree"
    yield f"{'':{_NAME}}measured   from     to  emulated"
    for each in found[:_BRIEF]:
        if len(each.name) >= _NAME:
            yield each.name
        name = each.name if len(each.name) < _NAME else ""
        yield f"{name:{_NAME}}{each.measured:8.1%} {each.low:6.1%} {each.high:6.1%}  {each.emulated:8.1%}"
