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
from schedlib.gate.claims import Answer, LevelAnswer, level_answers
from schedlib.gate.comparison import Comparison
from schedlib.gate.judging import MetricRow
from schedlib.gate.placebo import Share
from schedlib.gate.rules import Gate, GateRule


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


def interval_of(row: MetricRow | Share) -> str:
    """The interval of the change."""
    return f"{signed(row.low)} .. {signed(row.high)}" if row.low is not None else "-"


def p_of(row: MetricRow) -> str:
    """Holm's p."""
    return "-" if row.p is None else f"{row.p:.4f}" if row.p >= 1e-4 else "<.0001"


def budget_of(row: MetricRow) -> str:
    """How much worse the metric may become, in the unit of its change."""
    return "equal" if row.rule.budget == 0 and row.low is None else f"{row.rule.budget:g}"


def _unit(rule: GateRule, unit: str) -> str:
    return unit if rule.absolute else "%"


def text(found: Comparison) -> str:
    """The whole report, except for the overall verdict."""
    if found.found:
        levels = level_answers(found.gate, found.candidate)
        return claims_text(found.base, found.candidate, found.found, levels)
    said = gate_text(found.gate, found.base, found.candidate, found.rows, found.notes_and_skips)
    return said + ("\n\n" + placebo_text(found.placebo, found.shares) if found.placebo else "")


def gate_text(gate: Gate, base: Side, candidate: Side, rows: Sequence[MetricRow], notes: Sequence[str]) -> str:
    """The two tables, a reason for each row that did not simply pass, and the notes."""
    out = [*_sides(base, candidate), "", f"{'metric':26}{'base':>9}{'candidate':>11}{'change':>9}  verdict"]
    for row in rows:
        name = f"{row.rule.name}"[:26]
        out.append(f"{name:26}{number(row.base):>9}{number(row.candidate):>11}{change_of(row):>9}  {row.verdict.name}")
    out += ["", f"{'metric':26}{'95 % interval':>17}{'budget':>7}{'floor':>6}{'p':>8}{'boots':>7}"]
    for row in rows:
        boots = f"{row.boots[0]}+{row.boots[1]}"
        floor = number(row.floor) if row.floor is None else f"{row.floor:.1f}"
        out.append(
            f"{row.rule.name[:26]:26}{interval_of(row):>17}{budget_of(row):>7}{floor:>6}{p_of(row):>8}{boots:>7}"
        )
    out += [""] + [line for row in rows if row.reason for line in wrapped(f"{row.rule.name}: {row.reason}")]
    out += [line for note in notes for line in wrapped(note)]
    out += wrapped(
        f"gates: {gate.name}; p is Holm's over the metrics, one-sided; alpha {gate.alpha:g} for all of them and both "
        "batches; change and interval are Hodges and Lehmann's (means for rates)"
    )
    return "\n".join(out)


def placebo_text(placebo: Side, shares: Sequence[Share]) -> str:
    """The part of each change that the layout causes. The placebo has the candidate's sizes and the base's order of
    fields."""
    out = [*_sides(placebo), "", f"{'change, %':26}{'candidate':>10}{'placebo':>9}{'layout':>8}{'95 % interval':>18}"]
    for share in shares:
        numbers = (share.row.change, share.change, share.attributable)
        unit = "" if not share.row.rule.absolute else f", {share.row.unit}"
        name = printable(f"{share.row.rule.name}{unit}")[:26]
        out.append(
            f"{name:26}{signed(numbers[0]):>10}{signed(numbers[1]):>9}{signed(numbers[2]):>8}{interval_of(share):>18}"
        )
    for share in shares:
        if share.reason:
            out += wrapped(f"{share.row.rule.name}: no share: {share.reason}")
        elif not share.shown:
            out += wrapped(
                f"{share.row.rule.name}: the placebo changes as much: no part of the change comes from the layout"
            )
    out += wrapped("layout: candidate against placebo, in percent of the base; shifts do not add up exactly")
    return "\n".join(out)


def _sides(*sides: Side) -> list[str]:
    lines = []
    for side in sides:
        runs = sum(sum(boot.runs.values()) for boot in side.boots)
        lines += wrapped(f"{side.name}: {side.kernel}; {len(side.boots)} boots, {runs} runs")
    return lines


def claims_text(base: Side, candidate: Side, found: Sequence[Answer], levels: Sequence[LevelAnswer]) -> str:
    """Which claims these runs show; those without runs are named in one line for each tool."""
    out = [*_sides(base, candidate), ""]
    there = [answer for answer in found if answer.state != "absent"]
    if there:
        out.append(f"{'claim':34}{'mail':>8}{'here':>9}{'95 % interval':>18}")
    for answer in there:
        interval = f"{signed(answer.low)} .. {signed(answer.high)}" if answer.low is not None else "-"
        out.append(f"{answer.claim.id[:34]:34}{signed(answer.claim.change):>8}{signed(answer.change):>9}{interval:>18}")
        out.append(f"    {answer.state}" + (f": {answer.reason}" if answer.reason else ""))
    for level in levels:
        if level.value is not None:
            out.append(f"{level.level.id[:34]:34}{level.level.value:>8.2f}{level.value:>9.2f}{'of the candidate':>18}")
    absent: dict[str, list[str]] = {}
    for answer in found:
        if answer.state == "absent":
            absent.setdefault(answer.reason, []).append(answer.claim.id)
    for reason, names in absent.items():
        out += wrapped(
            f"absent, {reason}: {', '.join(names[:4])}" + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        )
    return "\n".join(out)


def common_fingerprint(found: Comparison) -> dict[str, str]:
    """What base and candidate have in common."""
    return {
        name: " / ".join(sorted(values))
        for name, values in found.base.fingerprint.items()
        if values == found.candidate.fingerprint.get(name)
    }


def document(found: Comparison) -> GateDocument:
    """The comparison as a document."""
    gate = found.gate
    return GateDocument(
        schema="gate-1",
        tool=TOOL,
        started=found.started,
        fingerprint=common_fingerprint(found),
        status=found.verdict,
        gates=GatesUsed(gate.name, gate.alpha, gate.boots, tuple(sorted(gate.compared)), gate.interleaved),
        sides=tuple(
            GateSide(
                name,
                str(found.directories[name]),
                side.kernel,
                ", ".join(sorted(side.fingerprint.get("build_id", ()))),
                tuple(boot.id for boot in side.boots),
            )
            for name, side in (("base", found.base), ("candidate", found.candidate))
        ),
        metrics=tuple(_row(row) for row in found.rows),
        placebo=tuple(_share(share) for share in found.shares) or UNSET,
        claims=tuple(_answer(answer) for answer in found.found),
        notes=tuple(found.notes_and_skips),
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _row(row: MetricRow) -> GateMetric:
    return GateMetric(
        tool=row.rule.tool,
        name=row.rule.name,
        unit=row.unit,
        direction=row.rule.direction,
        method=row.rule.method,
        verdict=row.verdict,
        reason=row.reason,
        boots=row.boots,
        change_unit=_unit(row.rule, row.unit),
        base=_finite(row.base),
        candidate=_finite(row.candidate),
        change=_finite(row.change),
        low=_finite(row.low),
        high=_finite(row.high),
        p=_finite(row.p),
        p_first=_finite(row.p_first),
        p_confirm=_finite(row.p_confirm),
        floor=_finite(row.floor),
        detectable=_finite(row.detectable),
        budget=_finite(row.rule.budget),
        detect=_finite(row.rule.detect),
    )


def _share(share: Share) -> GateShare:
    return GateShare(
        tool=share.row.rule.tool,
        name=share.row.rule.name,
        reason=share.reason,
        change=_finite(share.change),
        attributable=_finite(share.attributable),
        low=_finite(share.low),
        high=_finite(share.high),
    )


def _answer(answer: Answer) -> GateClaim:
    return GateClaim(
        id=answer.claim.id,
        patch=answer.claim.patch,
        claimed=answer.claim.change,
        state=answer.state,
        reason=answer.reason,
        boots=answer.boots,
        change=_finite(answer.change),
        low=_finite(answer.low),
        high=_finite(answer.high),
        p=_finite(answer.p),
    )
