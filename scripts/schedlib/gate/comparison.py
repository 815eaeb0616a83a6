# SPDX-License-Identifier: GPL-2.0
"""Compares directories of runs. `gate`, `premerge` and its `evidence` print the result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from schedlib.errors import SchedlineError
from schedlib.formats.gate_document import Method
from schedlib.formats.run_file import NOT_RECORDED, refuse_copies
from schedlib.gate import claims, judging, pairing
from schedlib.gate.boots import Side, read_side
from schedlib.gate.gate_options import GateOptions
from schedlib.gate.judging import MetricRow, boots_of, values_of
from schedlib.gate.pairing import Batch, order_problem, order_weakness
from schedlib.gate.rules import Gate, load_gate
from schedlib.gate.statistics import mean_interval, mean_shift, shift, shift_interval
from schedlib.verdict import Verdict, worst


@dataclass(frozen=True)
class Share:
    """The layout's share in the change of a metric. Units are those of its row: percent of the base, or absolute.

    Attributes:
        change: change from the base to the placebo.
        attributable: change from the placebo to the candidate, which the layout causes.
        low, high: the 95 % interval of `attributable`.
        reason: why there is no share; empty if there is one.
    """

    row: MetricRow
    change: float | None = None
    attributable: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Comparison:
    """What was compared, and the result.

    Attributes:
        sides: base and candidate.
        rows: one for each gating metric; empty if claims were requested.
        shares: the part of each change that the layout causes; empty without a placebo.
        found: the answers to the gate's claims; empty unless they were requested.
        notes: remarks in addition to the rows: failed runs, boots that are not judged.
    """

    options: GateOptions
    started: datetime
    gate: Gate
    sides: tuple[Side, ...]
    placebo: Side | None
    rows: tuple[MetricRow, ...]
    shares: tuple[Share, ...]
    found: tuple[claims.Answer, ...]
    notes: tuple[str, ...]
    verdict: Verdict

    @property
    def base(self) -> Side:
        """The kernel without the change."""
        return self.sides[0]

    @property
    def candidate(self) -> Side:
        """The kernel with the change."""
        return self.sides[1]


def compare(options: GateOptions) -> Comparison:
    """Compare two directories of runs.

    Raises:
        SchedlineError: bad input, or runs of different machines.
    """
    started = datetime.now(UTC)
    gate = load_gate(options.gates or ("claims" if options.expect_improvement else "default"))
    if options.expect_improvement and not gate.claims:
        raise SchedlineError(f"{gate.name} has no [[claim]] to expect", "give --gates claims")
    if not options.expect_improvement and not gate.rules:
        raise SchedlineError(f"{gate.name} has claims and no [[metric]]", "schedline gate --expect-improvement")
    sides = [read_side(options.base, "base"), read_side(options.candidate, "candidate")]
    placebo = read_side(options.placebo, "placebo") if options.placebo else None
    everyone = [*sides, placebo] if placebo else sides
    pairing.refuse_differences(everyone, gate.compared)
    refuse_copies(side.contents for side in everyone)
    notes = []
    builds = [side.fingerprint.get("build_id") or side.fingerprint.get("kernel") for side in sides]
    if builds[0] == builds[1] != frozenset({NOT_RECORDED}):
        notes.append("base and candidate are the same kernel: an A/A campaign")
    for side in sides:
        if side.failed:
            notes.append(f"ERROR: {len(side.failed)} runs of {side.name} gave no result; the first: {side.failed[0]}")
    rows: list[MetricRow] = []
    found: list[claims.Answer] = []
    if options.expect_improvement:
        found = claims.answers(gate, *sides)
        verdict = claims.verdict(found)
    else:
        rows = judging.judge(gate, *sides)
        verdict = worst(row.verdict for row in rows)
        notes += _of_the_boots(gate, rows, sides)
    shares = _shares(gate, rows, sides[0], sides[1], placebo) if placebo else []
    if any(side.failed for side in sides):
        verdict = worst([verdict, Verdict.ERROR])
    return Comparison(
        options, started, gate, tuple(sides), placebo, tuple(rows), tuple(shares), tuple(found), tuple(notes), verdict
    )


def _of_the_boots(gate: Gate, rows: list[MetricRow], sides: list[Side]) -> list[str]:
    """Notes about boots that are not judged, and about the order of those that are."""
    out: list[str] = []
    for row in rows:
        if row.low is None or row.rule.method is Method.EQUAL:
            continue
        chosen = [boots_of(side, row.rule.tool) for side in sides]
        for side, judged in zip(chosen, row.boots, strict=True):
            if len(side.boots) > judged:
                out.append(f"{row.rule.tool}: {len(side.boots) - judged} later boots of the {side.name} are not judged")
        if gate.interleaved and (weak := order_weakness(Batch(chosen[0].boots, chosen[1].boots).first(row.boots[0]))):
            out.append(weak)
    return list(dict.fromkeys(out))


def _shares(gate: Gate, rows: list[MetricRow], base: Side, candidate: Side, placebo: Side) -> list[Share]:
    """The share for each metric that was compared. All boots count, as many of each kernel."""
    compared = (row for row in rows if row.change is not None and row.base and row.rule.method is not Method.EQUAL)
    return [_share(gate, row, base, candidate, placebo) for row in compared]


def _share(gate: Gate, row: MetricRow, base: Side, candidate: Side, placebo: Side) -> Share:
    rule = row.rule
    if rule.key not in placebo.about:
        raise SchedlineError(f"the placebo has no {' '.join(rule.key)}", "run the same suite with all three kernels")
    chosen = [boots_of(side, rule.tool).boots for side in (base, placebo, candidate)]
    if any(rule.key not in boot.figures for boots in chosen for boot in boots):
        return Share(row, reason="a boot lacks it")
    boots = min(map(len, chosen))
    if boots < gate.looks[0]:
        return Share(row, reason=f"one of the three kernels has {boots} boots, not {gate.looks[0]}")
    chosen = [side[:boots] for side in chosen]
    if gate.interleaved and (problem := order_problem(Batch(chosen[1], chosen[2]))):
        return Share(row, reason=problem)
    values, padded = values_of(rule, Batch(chosen[0], chosen[1]))
    _, moved = values_of(rule, Batch(chosen[0], chosen[2]))
    scale = (1.0 if rule.absolute else 100 / abs(row.base or 1.0)) * (-1.0 if rule.direction == "higher" else 1.0)
    by_rank = rule.method is Method.RANK
    estimate, interval = (shift, shift_interval) if by_rank else (mean_shift, mean_interval)
    ends = sorted(float(end) * scale for end in interval(padded, moved))
    return Share(row, float(estimate(values, padded)) * scale, float(estimate(padded, moved)) * scale, ends[0], ends[1])
