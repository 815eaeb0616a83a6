# SPDX-License-Identifier: GPL-2.0
"""Compares directories of runs. `gate`, `premerge` and its `evidence` print the result."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace as replace_fields

from schedlib import TOOL
from schedlib.errors import SchedlineError
from schedlib.formats.gate_document import (
    BootValue,
    GateDocument,
    GateKernel,
    GateMetric,
    GateShare,
    GateSide,
    GatesUsed,
    Method,
    MissingMetric,
    UnjudgedMetric,
    finite,
)
from schedlib.formats.run_file import BY_FILE_TIME, NOT_RECORDED, refuse_copies
from schedlib.gate import judging, pairing
from schedlib.gate.boots import Boot, Figure, Key, Side, read_side
from schedlib.gate.gate_options import BUDGET, DETECT, UNSAID_UNIT, GateOptions
from schedlib.gate.judging import boots_of, range_of, values_of
from schedlib.gate.losses import fewer_boots, losses
from schedlib.gate.pairing import Batch, order_problem, order_weakness
from schedlib.gate.rules import Gate, GateRule, load_gate
from schedlib.gate.statistics import bad_share, mean_interval, mean_shift, shift, shift_interval
from schedlib.progress import printable
from schedlib.verdict import Verdict, worst

if TYPE_CHECKING:
    from schedlib.gate.result_files import Imported

_MOST_FAILURES = 100
"""How many failed runs of a kernel are listed."""


def compare(options: GateOptions) -> GateDocument:
    """Compare two directories of runs of schedline, or with a unit, of files of other tools.

    Raises:
        SchedlineError: bad input, runs of different machines, or files of other tools without a unit.
    """
    if not options.reading.unit:
        try:
            return _compared(options, options.gates or "default", {})
        except SchedlineError as error:
            from schedlib.gate.result_files import foreign_formats

            for directory in (options.base, options.candidate):
                if formats := foreign_formats(directory):
                    observed = f"{directory} holds files of other tools: {', '.join(formats)}"
                    raise SchedlineError(observed, f"add {UNSAID_UNIT}") from error
            raise
    # The parsers of all formats are only imported if there are such files.
    from schedlib.gate.result_files import gates_text, imported

    named = dict.fromkeys(filter(None, (options.base, options.candidate, options.placebo)))
    read = {directory: imported(directory, options.reading) for directory in named}
    if options.gates:
        return _compared(options, options.gates, read)
    with tempfile.TemporaryDirectory() as place:
        gates = Path(place, "imported.toml")
        gates.write_text(gates_text(list(read.values()), options.budget or BUDGET, options.detect or DETECT))
        return _compared(options, str(gates), read)


def _compared(options: GateOptions, gates: str, read: Mapping[Path, Imported]) -> GateDocument:
    """Compare. read: the directories of files of other tools."""
    started = datetime.now(UTC)
    gate = load_gate(gates)
    named = zip(("base", "candidate", "placebo"), (options.base, options.candidate, options.placebo), strict=True)
    sides = [read_side(read[directory].runs if read else directory, name) for name, directory in named if directory]
    base, candidate = sides[:2]
    placebo = sides[2] if options.placebo else None
    pairing.refuse_differences(sides, gate.may_differ)
    refuse_copies(side.contents for side in sides)
    notes = []
    builds = [side.fingerprint.get("build_id") or side.fingerprint.get("kernel") for side in (base, candidate)]
    if builds[0] == builds[1] != frozenset({NOT_RECORDED}):
        notes.append("base and candidate are the same kernel: an A/A campaign")
    failed = [side for side in (base, candidate) if side.failed]
    for side in failed:
        notes.append(f"ERROR: {len(side.failed)} runs of {side.name} gave no result; the first: {side.failed[0]}")
    rows = judging.judge(gate, base, candidate, incomplete=bool(options.incomplete))
    lost = None if read else losses(options.base, options.candidate)
    if lost and lost.text:
        notes.append(lost.text if lost.verdict is Verdict.PASS else f"{lost.verdict.name}: {lost.text}")
    if options.incomplete:
        notes.append(f"incomplete, as you say: {printable(options.incomplete)}")
    elif not lost and not read and (fewer := fewer_boots(base, candidate)):
        rows = [_no_pass(row, fewer) for row in rows]
        notes.append(fewer)
    notes += _of_the_boots(gate, rows, [base, candidate])
    shares = _shares(gate, rows, base, candidate, placebo) if placebo else []
    notes += dict.fromkeys(note for each in read.values() for note in each.notes)
    if any("run" in side.fingerprint.get("unit", ()) for side in sides):
        notes.append(_one_boot(sides))
    if lacking := ", ".join(sorted({entry for side in sides for entry in _not_recorded(side)})):
        if options.trust:
            notes.append(f"trusted: {lacking} not recorded")
        else:
            reason = f"not recorded: {lacking}. So nobody can see whether both sides differ in more than the kernel"
            rows = [_inconclusive(row, reason) for row in rows]
            notes.append(f"{reason}. If you know that they do not, add --trust; the result will say so")
    unsure = [Verdict.INCONCLUSIVE] if lacking and not options.trust else []
    unsure += [lost.verdict] if lost else []
    verdict = worst([*(row.verdict for row in rows), *([Verdict.ERROR] if failed else []), *unsure])
    look = next((row.boots[0] for row in rows if row.p is not None), None)
    passed_at = look if verdict is Verdict.PASS else None
    return GateDocument(
        schema="gate-4",
        tool=TOOL,
        started=started,
        command=options.command(),
        fingerprint={
            name: _joined(values)
            for name, values in base.fingerprint.items()
            if values == candidate.fingerprint.get(name)
        },
        status=verdict,
        gates=msgspec.convert(gate, GatesUsed, from_attributes=True),
        look=look,
        bad_boots=bad_share(passed_at, max(len(row.far) for row in rows)) if passed_at else None,
        sides=tuple(_sides(options, sides)),
        metrics=tuple(_with_boots(row, sides) for row in rows),
        shown=tuple(_unjudged(rows, sides[:2], look)),
        shares=tuple(shares),
        notes=tuple(notes),
    )


def _no_pass(row: GateMetric, reason: str) -> GateMetric:
    return _inconclusive(row, reason) if row.verdict is Verdict.PASS else row


def _one_boot(sides: Sequence[Side]) -> str:
    counts = ", ".join(f"{side.name} {len(side.boots)}" for side in sides if "run" in side.fingerprint.get("unit", ()))
    return (
        f"WARNING: these are runs of one boot of each kernel, counted as boots: {counts}. What differs from boot "
        "to boot is not in them, and it can be larger than the change. Boot both kernels several times to see it"
    )


def _inconclusive(row: GateMetric, reason: str) -> GateMetric:
    """A row without its verdict, because the runs do not tell enough of their origin."""
    if row.verdict not in (Verdict.PASS, Verdict.FAIL):
        return row
    return replace_fields(row, verdict=Verdict.INCONCLUSIVE, reason=f"{row.reason}; {reason}" if row.reason else reason)


def _not_recorded(side: Side) -> list[str]:
    untold = [entry for entry, values in side.fingerprint.items() if NOT_RECORDED in values]
    by_file = [entry for entry, values in side.fingerprint.items() if BY_FILE_TIME in values]
    return [*untold, *([] if "run" in side.fingerprint.get("unit", ()) else by_file)]


def _of_the_boots(gate: Gate, rows: list[GateMetric], sides: list[Side]) -> list[str]:
    """Notes about boots that are not judged, and about the order of those that are."""
    out: list[str] = []
    for row in rows:
        if row.base is None or row.method is Method.EQUAL:
            continue
        chosen = [boots_of(side, row.tool) for side in sides]
        for side, judged in zip(chosen, row.boots, strict=True):
            if len(side.boots) > judged:
                out.append(f"{row.tool}: {len(side.boots) - judged} later boots of the {side.name} are not judged")
        if gate.interleaved and (weak := order_weakness(Batch(chosen[0].boots, chosen[1].boots).first(row.boots[0]))):
            out.append(weak)
    return list(dict.fromkeys(out))


def _shares(gate: Gate, rows: list[GateMetric], base: Side, candidate: Side, placebo: Side) -> list[GateShare]:
    """The share for each metric that was compared. All boots count, as many of each kernel."""
    pairs = zip(gate.rules, rows, strict=True)
    compared = ((rule, row.base) for rule, row in pairs if row.base and rule.method is not Method.EQUAL)
    return [_share(gate, rule, middle, base, candidate, placebo) for rule, middle in compared]


def _share(gate: Gate, rule: GateRule, middle: float, base: Side, candidate: Side, placebo: Side) -> GateShare:
    if rule.key not in placebo.about:
        raise SchedlineError(f"the placebo has no {' '.join(rule.key)}", "run the same suite with all three kernels")
    chosen = [boots_of(side, rule.tool).boots for side in (base, placebo, candidate)]
    if any(rule.key not in boot.figures for boots in chosen for boot in boots):
        return _no_share(rule, "a boot lacks it")
    boots = min(map(len, chosen))
    if boots < gate.looks[0]:
        return _no_share(rule, f"one of the three kernels has {boots} boots, not {gate.looks[0]}")
    chosen = [side[:boots] for side in chosen]
    if gate.interleaved and (problem := order_problem(Batch(chosen[1], chosen[2]))):
        return _no_share(rule, problem)
    values, padded = values_of(rule, Batch(chosen[0], chosen[1]))
    _, moved = values_of(rule, Batch(chosen[0], chosen[2]))
    scale = (1.0 if rule.absolute else 100 / abs(middle)) * (-1.0 if rule.direction == "higher" else 1.0)
    by_rank = rule.method is Method.RANK
    estimate, interval = (shift, shift_interval) if by_rank else (mean_shift, mean_interval)
    ends = sorted(float(end) * scale for end in interval(padded, moved))
    return replace_fields(
        _no_share(rule, ""),
        change=finite(float(estimate(values, padded)) * scale),
        attributable=finite(float(estimate(padded, moved)) * scale),
        low=finite(ends[0]),
        high=finite(ends[1]),
    )


def _no_share(rule: GateRule, reason: str) -> GateShare:
    return GateShare(tool=rule.tool, name=rule.name, reason=reason, change=None, attributable=None, low=None, high=None)


def _joined(values: frozenset[str]) -> str:
    return " / ".join(sorted(values))


def _sides(options: GateOptions, sides: Sequence[Side]) -> Iterator[GateSide]:
    names: tuple[GateKernel, ...] = ("base", "candidate", "placebo")
    directories = options.base, options.candidate, options.placebo
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


def _with_boots(row: GateMetric, sides: Sequence[Side]) -> GateMetric:
    """A row with the boots that were judged, and those of a placebo."""
    values = tuple(_values(row, sides))
    placebo = _placebo(sides[2], row, values) if len(sides) > 2 else ()
    return replace_fields(row, placebo=placebo, values=values)


def _figure(figure: Figure, method: Method) -> float:
    return figure.rate if method is Method.RATE else figure.mean


def _values(row: GateMetric, sides: Sequence[Side]) -> list[BootValue]:
    """The boots from which a row was judged, and those of the placebo; none for a row without a change."""
    if row.base is None or row.method is Method.EQUAL:
        return []
    out = []

    def add(kernel: GateKernel, boots: Sequence[Boot]) -> None:
        for boot in boots:
            if figure := boot.figures.get(row.key):
                out.append(BootValue(kernel, boot.id, boot.started, _figure(figure, row.method)))

    add("base", boots_of(sides[0], row.tool).boots[: row.boots[0]])
    add("candidate", boots_of(sides[1], row.tool).boots[: row.boots[1]])
    if len(sides) > 2:
        add("placebo", boots_of(sides[2], row.tool).boots)
    return sorted(out, key=lambda value: (value.started, value.kernel))


def _placebo(side: Side, row: GateMetric, values: Sequence[BootValue]) -> tuple[float, ...]:
    """The placebo's figure: as the gate has the others, or the range of all runs if they have to be equal."""
    if row.method is Method.EQUAL:
        figures = [boot.figures[row.key] for boot in side.boots if row.key in boot.figures]
        return tuple(sorted(set(range_of(figures)))) if figures else ()
    here = [value.value for value in values if value.kernel == "placebo"]
    return ((median if row.method is Method.RANK else mean)(here),) if here else ()


def _unjudged(rows: Sequence[GateMetric], sides: Sequence[Side], look: int | None) -> Iterator[UnjudgedMetric]:
    """The metrics that are not judged; from as many boots as the others."""
    judged = {row.key for row in rows}
    for key in sorted({key for side in sides for key in side.about} - judged):
        abouts = {side.about[key] for side in sides if key in side.about}
        about = min(abouts, key=lambda each: (each.unit, each.direction, each.kind))
        rate = about.kind == "exceedance"
        values = [_all_of(side, key, look, Method.RATE if rate else Method.RANK) for side in sides]
        base, candidate = (median(each) if each else None for each in values)
        comparable = len(abouts) == 1 and base is not None and candidate is not None and base > 0
        yield UnjudgedMetric(
            tool=key[0],
            name=key[1],
            unit="in a million" if rate else " / ".join(sorted({each.unit for each in abouts})),
            direction=about.direction,
            boots=(len(values[0]), len(values[1])),
            base=base,
            candidate=candidate,
            change=finite(100 * (candidate / base - 1)) if comparable and base and candidate is not None else None,
        )


def _all_of(side: Side, key: Key, look: int | None, method: Method) -> list[float]:
    boots = boots_of(side, key[0]).boots[:look]
    found = (_figure(boot.figures[key], method) for boot in boots if key in boot.figures)
    return [value for value in found if isfinite(value)]
