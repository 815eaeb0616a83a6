# SPDX-License-Identifier: GPL-2.0
"""Compares directories of runs. `gate`, `premerge` and its `evidence` print the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.gate import claims, judging, pairing
from schedlib.gate.boots import Side, read_side
from schedlib.gate.judging import MetricRow
from schedlib.gate.placebo import Share, shares_of
from schedlib.gate.rules import Gate, load_gate
from schedlib.verdict import Verdict, worst


@dataclass(frozen=True)
class Comparison:
    """What was compared, and the result.

    Attributes:
        again: base and candidate of a confirmation in separate directories.
        rows: one for each gating metric; empty if claims were requested.
        shares: the part of each change that the layout causes; empty without a placebo.
        found: the answers to the gate's claims; empty unless they were requested.
        notes: remarks in addition to the rows: failed runs, boots that are not judged.
        directories: directories of the sides, by name.
    """

    started: datetime
    gate: Gate
    base: Side
    candidate: Side
    again: tuple[Side, Side] | None
    placebo: Side | None
    rows: tuple[MetricRow, ...]
    shares: tuple[Share, ...]
    found: tuple[claims.Answer, ...]
    notes: tuple[str, ...]
    verdict: Verdict
    directories: Mapping[str, Path]

    @property
    def judged_sides(self) -> tuple[Side, ...]:
        """Base and candidate, and those of the confirmation."""
        return (self.base, self.candidate, *(self.again or ()))

    @property
    def notes_and_skips(self) -> tuple[str, ...]:
        """The notes, and what was skipped in which side."""
        skips = (
            f"skipped in {side.name}: {tool}: {reason}"
            for side in self.judged_sides
            for tool, reason in side.skipped.items()
        )
        return (*self.notes, *skips)


def compare(
    base_at: Path,
    candidate_at: Path,
    gates: str | None,
    *,
    confirm: Sequence[Path] | None = None,
    placebo: Path | None = None,
    expect_improvement: bool = False,
) -> Comparison:
    """Compare two directories of runs, by a gates file or its name.

    Args:
        gates: None for `default`, or for `claims` with `expect_improvement`.

    Raises:
        SchedlineError: bad input, or runs of different machines.
    """
    started = datetime.now(UTC)
    gate = load_gate(gates or ("claims" if expect_improvement else "default"))
    if expect_improvement and not gate.claims:
        raise SchedlineError(f"{gate.name} has no [[claim]] to expect", "give --gates claims")
    if not expect_improvement and not gate.rules:
        raise SchedlineError(f"{gate.name} has claims and no [[metric]]", "schedline gate --expect-improvement")

    directories = {"base": base_at, "candidate": candidate_at}
    base, candidate = read_side(base_at, "base"), read_side(candidate_at, "candidate")
    again = None
    if confirm:
        names = ("the confirmation's base", "the confirmation's candidate")
        directories |= dict(zip(names, confirm, strict=True))
        again = read_side(confirm[0], names[0]), read_side(confirm[1], names[1])
    everything = [base, candidate, *(again or ())]
    _same_kernels(everything)
    padded = None
    if placebo:
        directories["placebo"] = placebo
        padded = read_side(placebo, "placebo")
    pairing.refuse_differences([*everything, *([padded] if padded else [])], gate.compared)
    notes = _notes(everything)
    rows: list[MetricRow] = []
    found: list[claims.Answer] = []
    shares: list[Share] = []
    if expect_improvement:
        found = claims.answers(gate, base, candidate)
        verdict = claims.verdict(found)
    else:
        rows = judging.judge(gate, base, candidate, again)
        verdict = worst(row.verdict for row in rows)
        notes += _unjudged(rows, everything)
        shares = shares_of(gate, rows, base, candidate, padded) if padded else []
    if any(side.failed for side in everything):
        verdict = worst([verdict, Verdict.ERROR])
    return Comparison(
        started,
        gate,
        base,
        candidate,
        again,
        padded,
        tuple(rows),
        tuple(shares),
        tuple(found),
        tuple(notes),
        verdict,
        directories,
    )


def _same_kernels(sides: list[Side]) -> None:
    for first, again in zip(sides[:2], sides[2:], strict=False):
        for name in ("kernel", "build_id"):
            if first.fingerprint.get(name) != again.fingerprint.get(name):
                raise SchedlineError(
                    f"{again.name} has another {name} than {first.name}: it confirms nothing",
                    "boot the same two kernels again",
                )


def _notes(sides: Sequence[Side]) -> list[str]:
    notes = []
    builds = [side.fingerprint.get("build_id") or side.fingerprint.get("kernel") for side in sides[:2]]
    if builds[0] == builds[1]:
        notes.append("base and candidate are the same kernel: an A/A campaign")
    notes += [
        f"ERROR: {len(side.failed)} runs of {side.name} gave no result; the first: {side.failed[0]}"
        for side in sides
        if side.failed
    ]
    return notes


def _unjudged(rows: list[MetricRow], sides: list[Side]) -> list[str]:
    """Notes about boots that are in neither batch."""
    out = []
    for row in rows:
        for place, name in enumerate(("base", "candidate")):
            there = sum(row.rule.tool in boot.runs for side in sides[place::2] for boot in side.boots)
            if row.boots[place] and row.low is not None and there > row.boots[place]:
                out.append(f"{row.rule.name}: {there - row.boots[place]} later boots of the {name} are not judged")
    return out
