# SPDX-License-Identifier: GPL-2.0
"""Compares directories of runs. `gate`, `premerge` and its `evidence` print the result."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from schedlib import TOOL
from schedlib.cache import cache_path, write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats import document
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
from schedlib.formats.run_file import BY_FILE_TIME, NOT_RECORDED
from schedlib.gate import comparable, gate_report, judging
from schedlib.gate.boots import Side, read_side
from schedlib.gate.decision import allowed
from schedlib.gate.gate_options import BUDGET, DETECT, UNFINISHED_AFTER_FAIL, UNSAID_UNIT, GateOptions, is_unfinished
from schedlib.gate.judging import values_of
from schedlib.gate.rules import Gate, GateRule, load_gate
from schedlib.gate.statistics import bad_share
from schedlib.progress import printable
from schedlib.verdict import Verdict, worst

if TYPE_CHECKING:
    from schedlib.gate.fleet_gate import FleetGateDocument
    from schedlib.gate.result_files import Imported

_NAMES: tuple[GateKernel, ...] = ("base", "candidate", "placebo")

_MOST_FAILURES = 100
"""How many failed runs of a kernel are listed."""


def gate(options: GateOptions) -> Verdict:
    """Compare, write the files that are asked for, and print the text."""
    found: GateDocument | FleetGateDocument
    if options.fleet:
        # A gate on one machine does without these modules.
        from schedlib.gate.fleet_gate import compare_fleet, fleet_text, not_judged

        found = compare_fleet(options)
        said, beside = fleet_text(found), not_judged(found)
    else:
        found = compare(options)
        said, beside = gate_report.text(found), gate_report.slower(found)
    if options.json:
        if isinstance(found, GateDocument) and is_unfinished(options.json, UNFINISHED_AFTER_FAIL):
            found = replace(found, failed_before=True)
        document.write(options.json, found)
    print(said)
    if options.html and isinstance(found, GateDocument):
        # matplotlib keeps a list of this machine's fonts; it reads the place when it is imported.
        os.environ.setdefault("MPLCONFIGDIR", str(cache_path() / "matplotlib"))
        from schedlib.gate.gate_page import page

        write_atomic(options.html, page(found))
        print(f"page: {options.html}")
    print(gate_report.last_line(found.status, beside))
    return found.status


def compare(options: GateOptions) -> GateDocument:
    """Compare two directories of runs of schedline, or with a unit, of files of other tools."""
    if not options.reading.unit:
        try:
            return _compared(options, load_gate(options.gates or "default"), {})
        except SchedlineError as error:
            from schedlib.gate.result_files import foreign_formats

            for directory in (options.base, options.candidate):
                if formats := foreign_formats(directory):
                    observed = f"{directory} holds files of other tools: {', '.join(formats)}"
                    raise SchedlineError(observed, f"add {UNSAID_UNIT}") from error
            raise
    # The parsers of all formats are only imported if there are such files.
    from schedlib.gate.result_files import gate_for, imported, refuse_repeats

    named = dict.fromkeys(filter(None, (options.base, options.candidate, options.placebo)))
    read = {directory: imported(directory, options.reading) for directory in named}
    refuse_repeats(read.values())
    limits = options.budget or BUDGET, options.detect or DETECT
    gate = load_gate(options.gates) if options.gates else gate_for(list(read.values()), *limits)
    return _compared(options, gate, read)


def _compared(options: GateOptions, gate: Gate, read: Mapping[Path, Imported]) -> GateDocument:
    started = datetime.now(UTC)
    named = zip(_NAMES, (options.base, options.candidate, options.placebo), strict=True)
    directories = {name: directory for name, directory in named if directory}
    both = options.base, options.candidate
    campaign = None if read else comparable.campaign_of(both)
    absent = {} if read else {name: comparable.never_up(campaign, place, name) for name, place in directories.items()}
    sides = [
        absent.get(name) or read_side(read[place].runs if read else place, name) for name, place in directories.items()
    ]
    base, candidate = sides[:2]
    comparable.refuse_other_plan(campaign, both, sides)
    comparable.refuse_incomparable([side for side in sides if side.boots or side.failed], gate)
    notes, details = [], []
    # A kernel whose notes cannot be read has an empty build-id.
    prints = base.fingerprint, candidate.fingerprint
    builds = [each.get("build_id", frozenset()) - {""} or each.get("kernel") for each in prints]
    if builds[0] == builds[1] != frozenset({NOT_RECORDED}):
        notes.append(gate_report.SAME_KERNEL)
    attempts = [comparable.attempts_of(campaign, place, side) for place, side in zip(both, sides, strict=False)]
    for side, tried in zip(sides, attempts, strict=False):
        side.lost = tried.lost
    failed = list(filter(None, map(comparable.no_results, (base, candidate))))
    if not options.incomplete and not read:
        failed += filter(None, map(comparable.Attempts.why_incomplete, attempts, sides))
    notes += [f"ERROR: {said}" for said in failed]
    if campaign and (planned := Path(campaign.plan.gates).stem) != gate.name:
        notes.append(f"the plan has the gates {planned}, and these are {gate.name}: were they chosen after the boots?")
    if comparable.in_pairs(campaign, base, candidate):
        gate = replace(gate, pairs=True)
        details.append(
            "the boots are pairs of the plan, and are compared within each pair: by signed ranks, not by blocks"
        )
    rows = judging.judge(gate, base, candidate, incomplete=bool(options.incomplete))
    # The boots of what is imported with --unit run are runs of one boot.
    one_boot = "run" in base.fingerprint.get("unit", ())
    lost, of_losses = comparable.losses(attempts, sides)
    verdicts = [*([Verdict.ERROR] if failed else []), of_losses]
    if not one_boot:
        notes.append(lost if of_losses is Verdict.PASS else f"{of_losses.name}: {lost}")
    if options.incomplete:
        notes.append(f"incomplete, as you say: {printable(options.incomplete)}")
    elif (
        of_losses is Verdict.PASS
        and not comparable.tells_all(campaign, sides)
        and len(candidate.boots) < len(base.boots)
    ):
        verdicts.append(Verdict.INCONCLUSIVE)
        notes.append(
            f"INCONCLUSIVE: the candidate has {len(candidate.boots)} boots and the base {len(base.boots)}. A boot that "
            "crashed leaves no run; if there is another reason, say it: --incomplete REASON"
        )
    tested = list(_tested(rows, (base, candidate))) if gate.interleaved else ()
    weak = (comparable.order_weakness(*(side.first(row.boots[0]) for side in both)) for row, both in tested)
    notes += dict.fromkeys(filter(None, weak))
    if not gate.interleaved and not one_boot:
        notes.append("boots in any order, so a drift could look like a change, or hide one")
    details += _later(rows, (base, candidate))
    shares = [
        _share(gate, rule, row.base, sides)
        for rule, row in zip(gate.rules, rows, strict=True)
        if len(sides) > 2 and row.base and rule.method is not Method.EQUAL
    ]
    details += dict.fromkeys(note for each in read.values() for note in each.notes)
    if one_boot:
        counts = ", ".join(f"{side.name} {len(side.boots)}" for side in sides)
        notes.append(
            f"WARNING: these are runs of one boot of each kernel, counted as boots: {counts}. What differs from boot "
            "to boot is not in them, and it can be larger than the change. Boot both kernels several times to see it"
        )
    untold = {NOT_RECORDED} if one_boot else {NOT_RECORDED, BY_FILE_TIME}
    entries = {entry for side in sides for entry, values in side.fingerprint.items() if untold & values}
    lacking = ", ".join(sorted(entries))
    if lacking and options.trust:
        notes.append(f"trusted: {lacking} not recorded")
    elif lacking:
        reason = f"not recorded: {lacking}. So nobody can see whether both sides differ in more than the kernel"
        rows = [_inconclusive(row, reason) if row.verdict in (Verdict.PASS, Verdict.FAIL) else row for row in rows]
        details.append(f"{reason}. If you know that they do not, add --trust; the result will say so")
        verdicts.append(Verdict.INCONCLUSIVE)
    verdict = worst([*(row.verdict for row in rows), *verdicts])
    look = max((row.boots[0] for row in rows if row.p is not None), default=None)
    notes.append(looks_of(gate, look))
    told = tuple(map(_side, sides, directories, directories.values()))
    return GateDocument(
        schema="gate-4",
        tool=TOOL,
        started=started,
        command=options.command(),
        fingerprint=dict(told[0].fingerprint.items() & told[1].fingerprint.items()),
        status=verdict,
        gates=msgspec.convert(gate, GatesUsed, from_attributes=True),
        look=look,
        bad_boots=bad_share(look, max(len(row.far) for row in rows)) if look and verdict is Verdict.PASS else None,
        sides=told,
        metrics=tuple(_with_boots(row, sides) for row in rows),
        shown=tuple(_unjudged(rows, sides[:2], look)),
        shares=tuple(shares),
        notes=tuple(notes),
        details=tuple(details),
    )


def looks_of(gate: Gate, look: int | None) -> str:
    """Where the gate looks, and what its last look accepts."""
    last, looks = gate.looks[-1], f"{', '.join(map(str, gate.looks))} boots of each kernel"
    bad = max(bad for bad in range(last) if allowed(np.array(bad), np.array(bad), last))
    return (
        f"{f'looked at {look} of' if look else 'looks at'} {looks}; a PASS takes {last}, an estimate below detect, and "
        f"{f'at most {bad} bad boots, if the base has as many' if bad else 'no bad boot'}"
    )


def _inconclusive(row: GateMetric, reason: str) -> GateMetric:
    return replace(row, verdict=Verdict.INCONCLUSIVE, reason=f"{row.reason}; {reason}" if row.reason else reason)


def _tested(rows: Sequence[GateMetric], sides: Sequence[Side]) -> Iterator[tuple[GateMetric, list[Side]]]:
    """The metrics with a test, and both kernels' boots with their tool."""
    for row in rows:
        if row.base is not None and row.method is not Method.EQUAL:
            yield row, [side.with_tool(row.tool) for side in sides]


def _later(rows: Sequence[GateMetric], sides: tuple[Side, Side]) -> Iterator[str]:
    later: dict[str, dict[str, None]] = {}
    for row, chosen in _tested(rows, sides):
        more = [(len(side.boots) - judged, side.name) for side, judged in zip(chosen, row.boots, strict=True)]
        later.setdefault(" and ".join(f"{boots} of the {name}" for boots, name in more if boots), {})[row.tool] = None
    for said, tools in later.items():
        of_tools = f" ({', '.join(tools)})" if len(later) > 1 else ""
        if said:
            yield f"later boots, not judged: {said}{of_tools}"


def _share(gate: Gate, rule: GateRule, middle: float, sides: Sequence[Side]) -> GateShare:
    """How much of a change the layout explains. All boots count, as many of each kernel. middle: of the base."""
    if rule.key not in sides[2].about:
        raise SchedlineError(f"the placebo has no {' '.join(rule.key)}", "run the same suite with all three kernels")
    chosen = [side.with_tool(rule.tool) for side in sides]
    boots = min(len(side.boots) for side in chosen)
    base, candidate, placebo = (side.first(boots) for side in chosen)
    reason = comparable.order_problem(placebo, candidate, boots) if gate.interleaved else ""
    if boots < gate.looks[0]:
        reason = f"one of the three kernels has {boots} boots, not {gate.looks[0]}"
    if any(rule.key not in boot.figures for side in chosen for boot in side.boots):
        reason = "a boot lacks it"
    change = attributable = low = high = None
    if not reason:
        values, padded, moved = values_of(rule, base, placebo, candidate)
        scale = rule.sign * (1.0 if rule.absolute else 100 / abs(middle))
        estimate, interval = judging.estimates(rule)
        change, attributable = (finite(float(estimate(*two)) * scale) for two in ((values, padded), (padded, moved)))
        low, high = map(finite, sorted(float(end) * scale for end in interval(padded, moved)))
    return GateShare(
        tool=rule.tool, name=rule.name, reason=reason, change=change, attributable=attributable, low=low, high=high
    )


def _side(side: Side, name: GateKernel, directory: Path) -> GateSide:
    fingerprint = {entry: " / ".join(sorted(values)) for entry, values in side.fingerprint.items()}
    return GateSide(
        name=name,
        directory=str(directory),
        kernel=side.kernel,
        build_id=fingerprint.get("build_id", ""),
        boots=tuple(boot.id for boot in side.boots),
        runs=sum(boot.runs.total() for boot in side.boots),
        fingerprint=fingerprint,
        failed=len(side.failed),
        failures=tuple(side.failed[:_MOST_FAILURES]),
        skipped=dict(side.skipped),
        absent=tuple(MissingMetric(tool, metric, why) for (tool, metric), why in side.absent.items()),
    )


def _with_boots(row: GateMetric, sides: Sequence[Side]) -> GateMetric:
    """A row with the boots that were judged, and those of a placebo; without boots if there is no change."""
    if row.method is Method.EQUAL:
        found = {value for side in sides[2:] for boot in side.boots for value in boot.values(row.key)}
        return replace(row, placebo=tuple(dict.fromkeys((min(found), max(found)))) if found else ())
    if row.base is None:
        return row
    values = [
        BootValue(kernel, boot.id, boot.started, figure.of(row.method))
        for kernel, side, judged in zip(_NAMES, sides, (*row.boots, None), strict=False)
        for boot in side.with_tool(row.tool).boots[:judged]
        if (figure := boot.figures.get(row.key))
    ]
    placebo = [value.value for value in values if value.kernel == "placebo"]
    middle = ((median if row.method is Method.RANK else mean)(placebo),) if placebo else ()
    return replace(row, placebo=middle, values=tuple(sorted(values, key=lambda value: (value.started, value.kernel))))


def _unjudged(rows: Sequence[GateMetric], sides: Sequence[Side], look: int | None) -> Iterator[UnjudgedMetric]:
    judged = {row.key for row in rows}
    for key in sorted({key for side in sides for key in side.about} - judged):
        abouts = {side.about[key] for side in sides if key in side.about}
        about = min(abouts)
        rate = about.kind == "exceedance"
        method = Method.RATE if rate else Method.RANK
        boots = [side.with_tool(key[0]).boots[:look] for side in sides]
        found = [[boot.figures[key].of(method) for boot in side if key in boot.figures] for side in boots]
        values = [list(filter(isfinite, side)) for side in found]
        base, candidate = (median(each) if each else None for each in values)
        change = None
        if len(abouts) == 1 and base is not None and candidate is not None and base > 0:
            change = finite(100 * (candidate / base - 1))
        yield UnjudgedMetric(
            tool=key[0],
            name=key[1],
            unit="in a million" if rate else " / ".join(sorted({each.unit for each in abouts})),
            direction=about.direction,
            boots=(len(values[0]), len(values[1])),
            base=base,
            candidate=candidate,
            change=change,
        )
