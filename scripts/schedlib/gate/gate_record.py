# SPDX-License-Identifier: GPL-2.0
"""The document of a comparison. It has everything that a report of it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from statistics import mean, median

from schedlib import TOOL
from schedlib.formats.gate_document import (
    BootValue,
    ClaimedLevel,
    GateClaim,
    GateDocument,
    GateKernel,
    GateMetric,
    GateShare,
    GateSide,
    GatesUsed,
    Method,
    MissingMetric,
    ShownMetric,
)
from schedlib.gate import claims
from schedlib.gate.boots import Boot, Figure, Key, Side
from schedlib.gate.claims import Answer
from schedlib.gate.comparison import Comparison, Share
from schedlib.gate.judging import MetricRow, boots_of, range_of
from schedlib.gate.statistics import bad_share
from schedlib.verdict import Verdict

_MOST_FAILURES = 100
"""How many failed runs of a kernel are listed."""

_LARGEST = 1e300
"""The largest number in a document."""


def recorded(found: Comparison) -> GateDocument:
    """The comparison as a document."""
    gate, shared = found.gate, found.base.fingerprint.items()
    look = next((row.boots[0] for row in found.rows if row.p is not None), None)
    passed_at = look if found.verdict is Verdict.PASS else None
    levels = claims.level_answers(gate, found.candidate) if found.found else []
    return GateDocument(
        schema="gate-2",
        tool=TOOL,
        started=found.started,
        command=found.options.command(),
        fingerprint={
            name: _joined(values) for name, values in shared if values == found.candidate.fingerprint.get(name)
        },
        status=found.verdict,
        gates=GatesUsed(gate.name, gate.alpha, gate.looks, tuple(sorted(gate.compared)), gate.interleaved),
        look=look,
        bad_boots=bad_share(passed_at, max(len(row.far) for row in found.rows)) if passed_at else None,
        sides=tuple(_sides(found)),
        metrics=tuple(_metric(found, row) for row in found.rows),
        shown=tuple(_shown(found, look)),
        shares=tuple(map(_share, found.shares)),
        claims=tuple(map(_claim, found.found)),
        levels=tuple(
            ClaimedLevel(id=level.id, patch=level.patch, claimed=level.value, measured=value) for level, value in levels
        ),
        notes=found.notes,
    )


def _joined(values: frozenset[str]) -> str:
    return " / ".join(sorted(values))


def _sides(found: Comparison) -> Iterator[GateSide]:
    names: tuple[GateKernel, ...] = ("base", "candidate", "placebo")
    sides = [*found.sides, *([found.placebo] if found.placebo else [])]
    directories = found.options.base, found.options.candidate, found.options.placebo
    for name, side, directory in zip(names, sides, directories, strict=False):
        yield GateSide(
            name=name,
            directory=str(directory),
            kernel=side.kernel,
            build_id=_joined(side.fingerprint.get("build_id", frozenset())),
            boots=tuple(boot.id for boot in side.boots),
            runs=sum(sum(boot.runs.values()) for boot in side.boots),
            fingerprint={entry: _joined(values) for entry, values in side.fingerprint.items()},
            failed=len(side.failed),
            failures=side.failed[:_MOST_FAILURES],
            skipped=dict(side.skipped),
            absent=tuple(MissingMetric(tool, metric, why) for (tool, metric), why in side.absent.items()),
        )


def _number(value: float | None) -> float | None:
    """The value, or None if a document cannot express it."""
    return value if value is not None and abs(value) <= _LARGEST else None


def _metric(found: Comparison, row: MetricRow) -> GateMetric:
    rule = row.rule
    change, low, high = row.change, row.low, row.high
    if not rule.absolute and change is not None and low is not None and high is not None:
        # What becomes 0 has changed by -100 %, and nothing can change by more than that.
        change, low, high = (max(each, -100.0) for each in (change, low, high))
    values = tuple(_values(found, row))
    return GateMetric(
        tool=rule.tool,
        name=rule.name,
        unit=row.unit,
        direction=rule.direction,
        method=rule.method,
        verdict=row.verdict,
        reason=row.reason,
        because=rule.because,
        boots=row.boots,
        change_unit=row.unit if rule.absolute else "%",
        base=_number(row.base),
        candidate=_number(row.candidate),
        placebo=_placebo(found.placebo, row, values) if found.placebo else (),
        change=_number(change),
        of_medians=_number(row.of_medians),
        low=_number(low),
        high=_number(high),
        p=row.p,
        far=row.far,
        budget=rule.budget,
        detect=rule.detect,
        values=values,
    )


def _figure(figure: Figure, method: Method) -> float:
    return figure.rate if method is Method.RATE else figure.mean


def _values(found: Comparison, row: MetricRow) -> list[BootValue]:
    """The boots from which a row was judged, and those of the placebo; none for a row without a change."""
    if row.change is None or row.rule.method is Method.EQUAL:
        return []
    out = []

    def add(kernel: GateKernel, boots: Sequence[Boot]) -> None:
        for boot in boots:
            if figure := boot.figures.get(row.rule.key):
                out.append(BootValue(kernel, boot.id, boot.started, _figure(figure, row.rule.method)))

    add("base", boots_of(found.base, row.rule.tool).boots[: row.boots[0]])
    add("candidate", boots_of(found.candidate, row.rule.tool).boots[: row.boots[1]])
    if found.placebo:
        add("placebo", boots_of(found.placebo, row.rule.tool).boots)
    return sorted(out, key=lambda value: (value.started, value.kernel))


def _placebo(side: Side, row: MetricRow, values: Sequence[BootValue]) -> tuple[float, ...]:
    """The placebo's figure: as the gate has the others, or the range of all runs if they have to be equal."""
    if row.rule.method is Method.EQUAL:
        figures = [boot.figures[row.rule.key] for boot in side.boots if row.rule.key in boot.figures]
        return tuple(sorted(set(range_of(figures)))) if figures else ()
    here = [value.value for value in values if value.kernel == "placebo"]
    return ((median if row.rule.method is Method.RANK else mean)(here),) if here else ()


def _shown(found: Comparison, look: int | None) -> Iterator[ShownMetric]:
    """The metrics that are not judged; from as many boots as the others."""
    if not found.rows:
        return
    judged = {row.rule.key for row in found.rows}
    for key in sorted({key for side in found.sides for key in side.about} - judged):
        abouts = {side.about[key] for side in found.sides if key in side.about}
        about = min(abouts, key=lambda each: (each.unit, each.direction, each.kind))
        rate = about.kind == "exceedance"
        values = [_all_of(side, key, look, Method.RATE if rate else Method.RANK) for side in found.sides]
        base, candidate = (median(each) if each else None for each in values)
        comparable = len(abouts) == 1 and base is not None and candidate is not None and base > 0
        yield ShownMetric(
            tool=key[0],
            name=key[1],
            unit="in a million" if rate else " / ".join(sorted({each.unit for each in abouts})),
            direction=about.direction,
            boots=(len(values[0]), len(values[1])),
            base=base,
            candidate=candidate,
            change=_number(100 * (candidate / base - 1)) if comparable and base and candidate is not None else None,
        )


def _all_of(side: Side, key: Key, look: int | None, method: Method) -> list[float]:
    boots = boots_of(side, key[0]).boots[:look]
    found = (_figure(boot.figures[key], method) for boot in boots if key in boot.figures)
    return [value for value in found if isfinite(value)]


def _share(share: Share) -> GateShare:
    return GateShare(
        tool=share.row.rule.tool,
        name=share.row.rule.name,
        reason=share.reason,
        change=_number(share.change),
        attributable=_number(share.attributable),
        low=_number(share.low),
        high=_number(share.high),
    )


def _claim(answer: Answer) -> GateClaim:
    return GateClaim(
        id=answer.claim.id,
        patch=answer.claim.patch,
        claimed=answer.claim.change,
        state=answer.state,
        reason=answer.reason,
        boots=answer.boots,
        change=_number(answer.change),
        low=_number(answer.low),
        high=_number(answer.high),
        p=answer.p,
    )
