# SPDX-License-Identifier: GPL-2.0
"""Write a comparison as text that fits a cover letter (72 columns), and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from msgspec import UNSET

from schedlib import TOOL
from schedlib.formats.cover_letter import printable, wrapped
from schedlib.formats.gate_document import GateClaim, GateDocument, GateMetric, GateShare, GateSide, GatesUsed
from schedlib.gate.boots import Side
from schedlib.gate.claims import Answer, level_answers
from schedlib.gate.comparison import Comparison, Share
from schedlib.gate.judging import MetricRow
from schedlib.gate.rules import GateRule


def number(value: float | None) -> str:
    """A number with four significant digits."""
    if value is None or not isfinite(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def signed(value: float | None) -> str:
    """A change, with its sign and one decimal."""
    if value is None:
        return "-"
    if not isfinite(value):
        return "-inf" if value < 0 else "+inf"
    return f"{value:+.1f}"


def change_of(row: MetricRow) -> str:
    """The change, with a percent sign if that is its unit."""
    return signed(row.change) + (" %" if not row.rule.absolute and row.change is not None else "")


def interval_of(row: MetricRow | Share | Answer) -> str:
    """The interval of the change."""
    return f"{signed(row.low)} .. {signed(row.high)}" if row.low is not None else "-"


def p_of(row: MetricRow) -> str:
    """Holm's p."""
    return "-" if row.p is None else f"{row.p:.4f}" if row.p >= 1e-4 else "<.0001"


def budget_of(row: MetricRow) -> str:
    """How much worse the metric may become, in the unit of its change."""
    return "equal" if row.rule.budget == 0 and row.low is None else f"{row.rule.budget:g}"


def text(found: Comparison) -> str:
    """The whole report, except for the overall verdict."""
    if found.found:
        return _claims_text(found)
    said = _gate_text(found)
    return said + ("\n\n" + _placebo_text(found.placebo, found.shares) if found.placebo else "")


def _gate_text(found: Comparison) -> str:
    """The two tables, a reason for each row that did not simply pass, and the notes."""
    gate, rows = found.gate, found.rows
    out = [*_sides(*found.sides[:2]), "", f"{'metric':26}{'base':>9}{'candidate':>11}{'change':>9}  verdict"]
    for row in rows:
        values = f"{number(row.base):>9}{number(row.candidate):>11}{change_of(row):>9}"
        out.append(f"{row.rule.name[:26]:26}{values}  {row.verdict.name}")
    out += ["", f"{'metric':26}{'95 % interval':>17}{'budget':>7}{'detect':>7}{'p':>8}{'boots':>7}"]
    for row in rows:
        boots = f"{row.boots[0]}+{row.boots[1]}"
        values = f"{interval_of(row):>17}{budget_of(row):>7}{row.rule.detect:>7g}{p_of(row):>8}{boots:>7}"
        out.append(f"{row.rule.name[:26]:26}{values}")
    out += [""] + [line for row in rows if row.reason for line in wrapped(f"{row.rule.name}: {row.reason}")]
    out += [line for note in found.notes_and_skips for line in wrapped(note)]
    out += wrapped(
        f"gates: {gate.name}; looks at {', '.join(map(str, gate.looks))} boots of each kernel; p is one-sided, Holm's "
        f"over the metrics; alpha {gate.alpha:g} for all metrics and looks; change and interval: Hodges and Lehmann's "
        "(means for rates)"
    )
    return "\n".join(out)


def _placebo_text(placebo: Side, shares: Sequence[Share]) -> str:
    """The part of each change that the layout causes. A placebo has the candidate's sizes, and the base's order."""
    out = [*_sides(placebo), "", f"{'change, %':26}{'candidate':>10}{'placebo':>9}{'layout':>8}{'95 % interval':>18}"]
    for share in shares:
        unit = f", {share.row.unit}" if share.row.rule.absolute else ""
        name = printable(f"{share.row.rule.name}{unit}")[:26]
        values = f"{signed(share.row.change):>10}{signed(share.change):>9}{signed(share.attributable):>8}"
        out.append(f"{name:26}{values}{interval_of(share):>18}")
    for share in shares:
        name = share.row.rule.name
        if share.reason:
            out += wrapped(f"{name}: no share: {share.reason}")
        elif not share.shown:
            out += wrapped(f"{name}: the placebo changes as much: no part of the change comes from the layout")
    out += wrapped("layout: candidate against placebo, in percent of the base; shifts do not add up exactly")
    return "\n".join(out)


def _sides(*sides: Side) -> list[str]:
    lines = []
    for side in sides:
        runs = sum(sum(boot.runs.values()) for boot in side.boots)
        lines += wrapped(f"{side.name}: {side.kernel}; {len(side.boots)} boots, {runs} runs")
    return lines


def _claims_text(found: Comparison) -> str:
    """Which claims these runs show; those without runs are named in one line for each tool."""
    out = [*_sides(*found.sides), ""]
    there = [answer for answer in found.found if answer.state != "absent"]
    if there:
        out.append(f"{'claim':34}{'mail':>8}{'here':>9}{'95 % interval':>18}")
    for answer in there:
        values = f"{signed(answer.claim.change):>8}{signed(answer.change):>9}{interval_of(answer):>18}"
        out.append(f"{answer.claim.id[:34]:34}{values}")
        out.append(f"    {answer.state}" + (f": {answer.reason}" if answer.reason else ""))
    for level, value in level_answers(found.gate, found.candidate):
        out.append(f"{level.id[:34]:34}{level.value:>8.2f}{value:>9.2f}{'of the candidate':>18}")
    absent: dict[str, list[str]] = {}
    for answer in found.found:
        if answer.state == "absent":
            absent.setdefault(answer.reason, []).append(answer.claim.id)
    for reason, names in absent.items():
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        out += wrapped(f"absent, {reason}: {', '.join(names[:4])}{more}")
    return "\n".join(out)


def document(found: Comparison) -> GateDocument:
    """The comparison as a document."""
    gate = found.gate
    directories = found.options.base, found.options.candidate
    return GateDocument(
        schema="gate-1",
        tool=TOOL,
        started=found.started,
        fingerprint={
            name: " / ".join(sorted(values))
            for name, values in found.base.fingerprint.items()
            if values == found.candidate.fingerprint.get(name)
        },
        status=found.verdict,
        gates=GatesUsed(gate.name, gate.alpha, gate.looks, tuple(sorted(gate.compared)), gate.interleaved),
        sides=tuple(
            GateSide(
                side.name,
                str(directory),
                side.kernel,
                ", ".join(sorted(side.fingerprint.get("build_id", ()))),
                tuple(boot.id for boot in side.boots),
            )
            for side, directory in zip(found.sides, directories, strict=False)
        ),
        metrics=tuple(map(_metric, found.rows)),
        placebo=tuple(map(_share, found.shares)) or UNSET,
        claims=tuple(map(_claim, found.found)),
        notes=found.notes_and_skips,
    )


def _finite(row: MetricRow | GateRule | Share | Answer, *names: str) -> dict[str, float | None]:
    """Some values of a row; None for those that are not finite, which JSON cannot express."""
    values = {name: getattr(row, name) for name in names}
    return {name: value if value is not None and isfinite(value) else None for name, value in values.items()}


def _metric(row: MetricRow) -> GateMetric:
    return GateMetric(
        tool=row.rule.tool,
        name=row.rule.name,
        unit=row.unit,
        direction=row.rule.direction,
        method=row.rule.method,
        verdict=row.verdict,
        reason=row.reason,
        boots=row.boots,
        change_unit=row.unit if row.rule.absolute else "%",
        far=row.far,
        **_finite(row, "base", "candidate", "change", "of_medians", "low", "high", "p"),
        **_finite(row.rule, "budget", "detect"),
    )


def _share(share: Share) -> GateShare:
    rule, values = share.row.rule, _finite(share, "change", "attributable", "low", "high")
    return GateShare(tool=rule.tool, name=rule.name, reason=share.reason, **values)


def _claim(answer: Answer) -> GateClaim:
    return GateClaim(
        id=answer.claim.id,
        patch=answer.claim.patch,
        claimed=answer.claim.change,
        state=answer.state,
        reason=answer.reason,
        boots=answer.boots,
        **_finite(answer, "change", "low", "high", "p"),
    )
