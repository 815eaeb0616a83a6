# SPDX-License-Identifier: GPL-2.0
"""What the documents of many gates say of creep.

Creep is what became worse in steps too small for a gate. Steps are found by e-divisive (Matteson and James, Journal of
the American Statistical Association 109, 2014) with the t test and the merging of Hunter (Fleming et al., ICPE 2023),
as Apache Otava has it. A history is short, so all of it is one window. Otava's shorter windows are for thousands of
points. A slope has no step: the newest three releases are compared with the best three, see trend().
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from schedlib import TOOL
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.document import Document
from schedlib.formats.gate_document import GateDocument, GateMetric, GateSide
from schedlib.formats.run_file import NOT_RECORDED, Direction
from schedlib.formats.strict import Count, Moment, Number, Strict, Word
from schedlib.formats.tables import table
from schedlib.gate.gate_options import HistoryOptions, is_unfinished
from schedlib.gate.statistics import Values
from schedlib.progress import printable, wrapped
from schedlib.verdict import Verdict, worst

LEAST = 8
"""Fewer gates than this show no creep."""

_MOST = 500
"""How many of the latest pairs are looked at; time and memory grow with the square."""

_P = 0.001
"""Otava's own default."""

_SHOWN = 20
"""How many of the latest gates the text shows."""

_WHEN = "%Y-%m-%d %H:%M"

_SURE = 3.0
"""The gates' own changes have to be above 0 by so many standard deviations of their sum."""

_CHOSEN = 5.0
"""So many standard deviations the last level has to be above the best of a history of one base. The best is chosen of
many, and a history has several metrics, so it takes more."""

_FEW = 3
"""Releases whose mean is a level."""


class LevelSeries(Strict, frozen=True):
    """The level of a metric over time, a value for each pair of kernels.

    Attributes:
        unit: of levels and means. "% of the base" if all gates have the same base, else the metric's own.
        levels: in the order of time.
        verdicts: of the metric in each gate.
        changes: places of the change points: each is the first behind the change.
        means: between the change points.
        compared: two levels, a good one and the last: between change points, or of three values.
        worse: how much worse the last of these is, in change_unit; 0 if it is not worse.
        chained: sum of the gates' own changes for the worse in this time, in change_unit; null if the base of one is
            not the candidate of the one before it, or if all have the same base.
        status: FAIL: it crept, and the gates' own changes show at least half of it, beyond their noise; INCONCLUSIVE:
            too few gates, or the machine or noise may have done it.
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
    compared: tuple[Number, Number] | UnsetType = UNSET


class HistoryDocument(Document, frozen=True, kw_only=True):
    """schedline gate history: the verdicts over time, and creep."""

    schema: Literal["gate-history-3"]
    tool: Word
    started: Moment
    status: Verdict
    gates: Count
    verdicts: dict[str, Count]
    series: tuple[LevelSeries, ...]


_Point = tuple[GateDocument, GateMetric]


def show(options: HistoryOptions) -> Verdict:
    gates = read_gates(options.directory)
    found = history_of(gates)
    lost = [path for path in sorted(options.directory.glob("*.json")) if is_unfinished(path)]
    if lost:
        found = replace(found, status=worst([found.status, Verdict.INCONCLUSIVE]))
    if options.json:
        document.write(options.json, found)
    print(history_text(found, gates))
    for path in lost:
        print("\n".join(wrapped(f"no PASS: {path.name} is of a gate that did not end: run it again")))
    print(f"verdict: {found.status.name}")
    return found.status


def read_gates(directory: Path) -> list[GateDocument]:
    again = f"schedline gate BASE CANDIDATE --json {shlex.quote(str(directory))}/NAME.json"
    if not (paths := [path for path in sorted(directory.glob("*.json")) if not is_unfinished(path)]):
        none = "no gate that ended" if any(directory.glob("*.json")) else "no document of a gate"
        raise SchedlineError(f"{directory} holds {none}", again)
    return sorted((document.read(path, GateDocument, again) for path in paths), key=_when)


def _when(gate: GateDocument) -> tuple[float, datetime]:
    """When the candidate was last booted, and then when it was judged: old runs may be judged again."""
    boots = [each.started for row in gate.metrics for each in row.values if each.kernel == "candidate"]
    return max(boots, default=gate.started.timestamp()), gate.started


# ---- what a history says ----


def history_of(gates: Sequence[GateDocument]) -> HistoryDocument:
    series = tuple(_series(points) for points in _metrics(gates).values())
    # A metric that is new does not hide the others, unless it looks worse already.
    verdicts = [each.status for each in series if len(each.levels) >= LEAST or each.worse > each.budget]
    verdicts += [Verdict.INCONCLUSIVE] * bool(_no_pass(gates))
    return HistoryDocument(
        schema="gate-history-3",
        tool=TOOL,
        started=datetime.now(UTC),
        status=worst(verdicts),
        gates=len(gates),
        verdicts={name.value: count for name, count in Counter(gate.status for gate in gates).items()},
        series=series,
    )


def change_points(values: Sequence[float]) -> list[int]:
    """The places at which the level of a series changes; each is the first value behind the change."""
    if len(values) < LEAST or min(values) == max(values):
        return []
    from otava.analysis import compute_change_points

    found, _ = compute_change_points(np.array(values), window_len=2 * len(values), max_pvalue=_P, min_magnitude=0.0)
    return [int(point.index) for point in found]


def noise_of(values: Values) -> float:
    """Their standard deviation, without the value that is furthest from the middle: it may be a step."""
    if values.size < 2:
        return 0.0
    return float(np.sqrt(np.sort((values - np.median(values)) ** 2)[:-1].mean()))


def trend(values: Sequence[float], sign: float) -> int | None:
    """Where the best three values in a row begin, if the last three are worse than these; larger times sign is worse.

    None if noise explains it. The noise is that of the differences between neighbours, of which the largest is left
    out: it may be a step. In 200,000 flat series of 8 to 100 normal values, the limit was passed by less than 0.5 %.
    """
    count = len(values)
    if count < LEAST:
        return None
    series = sign * np.array(values)
    noise = noise_of(np.diff(series)) / sqrt(2)
    levels = [float(series[place : place + _FEW].mean()) for place in range(count - 2 * _FEW + 1)]
    best = int(np.argmin(levels))
    moved = float(series[-_FEW:].mean()) - levels[best]
    return best if noise and moved > (3.5 + 120 / count**2) * noise else None


def _id(kernel: GateSide) -> str:
    """What tells a kernel. Files of other tools may not say it."""
    known = (each for each in (kernel.build_id, kernel.kernel) if each not in ("", NOT_RECORDED))
    return next(known, kernel.directory)


def _machine(gate: GateDocument) -> str:
    return gate.fingerprint.get("machine_name", "")


def _kernels(gate: GateDocument) -> str:
    return f"{gate.base.kernel} -> {gate.candidate.kernel}"


def _pair(gate: GateDocument) -> tuple[object, ...]:
    """The same kernels, judged by the same rules."""
    rules = tuple((each.key, each.budget, each.detect) for each in gate.metrics)
    return _machine(gate), gate.gates, rules, _id(gate.base), _id(gate.candidate)


def _no_pass(gates: Sequence[GateDocument]) -> list[str]:
    """What no level can make good: a newest gate of a machine that decided nothing, and pairs of kernels of which a
    gate failed, for whatever reason, whatever came later: a PASS may be chance.
    """
    # A gate that was judged again is what the last one says, and an ERROR may not tell its boots.
    judged = {_pair(gate): gate for gate in sorted(gates, key=lambda gate: gate.started)}
    newest = {_machine(gate): gate for gate in sorted(judged.values(), key=_when)}
    said = [
        f"the newest gate is {gate.status.name}, of {_kernels(gate)}"
        for gate in newest.values()
        if gate.status in (Verdict.ERROR, Verdict.INCONCLUSIVE)
    ]
    said += [f"a FAIL stood in the file of {_kernels(gate)} before" for gate in gates if gate.failed_before is True]
    found: dict[tuple[object, ...], list[GateDocument]] = {}
    for gate in gates:
        found.setdefault(_pair(gate), []).append(gate)
    for pair in found.values():
        if fails := [place for place, gate in enumerate(pair) if gate.status is Verdict.FAIL]:
            last = pair[fails[-1]]
            passed = [gate.started for gate in pair[fails[-1] :] if gate.status is Verdict.PASS]
            later = f"; the PASS of {passed[-1]:{_WHEN}} does not take that back" if passed else ""
            said.append(f"{len(fails)} FAIL of {_kernels(last)}, the last at {last.started:{_WHEN}}{later}")
    return said


def _gaps(gates: Sequence[GateDocument]) -> list[str]:
    """The releases of each machine that no gate compares, although it has gates before and behind."""
    machines: dict[str, list[GateDocument]] = {}
    for gate in gates:
        machines.setdefault(_machine(gate), []).append(gate)
    return [
        f"no gate here compares {after.base.kernel} with {gate.candidate.kernel}, or with what was before"
        for found in machines.values()
        for at, (gate, after) in enumerate(pairwise(found), 1)
        if _id(after.base) not in {_id(side) for each in found[:at] for side in (each.base, each.candidate)}
    ]


def _metrics(gates: Sequence[GateDocument]) -> Mapping[tuple[str, ...], list[_Point]]:
    """For each machine and metric the last gate of each pair of kernels that has values, in the order of time."""
    found: dict[tuple[str, ...], dict[tuple[object, ...], _Point]] = {}
    for gate in gates:
        for metric in gate.metrics:
            if metric.base is not None and metric.candidate is not None and metric.change is not None and metric.budget:
                key = _machine(gate), metric.tool, metric.name, metric.unit, metric.change_unit, metric.direction
                pairs = found.setdefault(key, {})
                pairs.pop(_pair(gate), None)
                pairs[_pair(gate)] = (gate, metric)
    return {key: list(pairs.values())[-_MOST:] for key, pairs in sorted(found.items())}


def _series(points: Sequence[_Point]) -> LevelSeries:
    last = points[-1][1]
    sign, percent = -1.0 if last.direction == "higher" else 1.0, last.change_unit == "%"
    same_base = len({_id(gate.base) for gate, _ in points}) == 1
    # With one base the change itself: both kernels were measured together, so the machine's drift is not in it.
    levels = [
        (100.0 * percent + (metric.change or 0.0)) if same_base else metric.candidate or 0.0 for _, metric in points
    ]
    changes = change_points(levels)
    count = len(levels)
    *earlier, last_level = [range(start, end) for start, end in pairwise([0, *changes, count])]

    def mean(places: range) -> float:
        return float(np.mean([levels[place] for place in places]))

    def worse_than(good: range, now: range) -> float:
        before, moved = mean(good), sign * (mean(now) - mean(good))
        return (100 * moved / abs(before) if before else 0.0) if percent else moved

    # A good level, the one to compare with it, the last gate of the good one, and those behind it.
    pairs = [(each, last_level, each.stop - 1, points[each.stop :]) for each in earlier or [last_level]]
    if count < LEAST and (few := min(_FEW, count // 2)):
        pairs = [(range(few), range(count - few, count), few - 1, points[:0])]
    elif (at := trend(levels, sign)) is not None:
        pairs.append((range(at, at + _FEW), range(count - _FEW, count), at + 1, points[at + 2 : -1]))
    good, now, place, between = max(pairs, key=lambda pair: max(0.0, worse_than(*pair[:2])))
    worse, compared = max(0.0, worse_than(good, now)), (mean(good), mean(now))
    linked = all(_id(gate.candidate) == _id(after.base) for (gate, _), (after, _) in pairwise(between))
    chained: float | None = None
    shown, own = False, np.array([sign * (metric.change or 0.0) for _, metric in points])
    doubt = "the gates do not follow each other: the machine may have become slower, not the kernel"
    if same_base:
        shown = worse > _CHOSEN * noise_of(np.diff(own)) * sqrt((1 / len(good) + 1 / len(now)) / 2)
        doubt = "noise may do that"
    elif between and linked:
        chained = sum(sign * (metric.change or 0.0) for _, metric in between)
        shown = chained > max(last.budget, worse / 2, _SURE * noise_of(own) * sqrt(len(between)))
        doubt = f"the gates' own changes add up to {chained:+.3g}, which the machine or noise may do"
    status, reason = Verdict.PASS, ""
    if len(levels) < LEAST:
        status, reason = Verdict.INCONCLUSIVE, f"{len(levels)} gates; creep shows in {LEAST} or more"
    elif (decided := sum(metric.verdict in (Verdict.PASS, Verdict.FAIL) for _, metric in points)) < LEAST:
        status, reason = Verdict.INCONCLUSIVE, f"{decided} of {len(levels)} gates decided; {LEAST} or more have to"
    elif worse > last.budget:
        crept = f"worse by {worse:.3g} {last.change_unit}, over the budget of {last.budget:g}"
        status = Verdict.FAIL if shown else Verdict.INCONCLUSIVE
        passed = all(metric.verdict is Verdict.PASS for _, metric in between)
        reason = f"{crept}{', in steps that the gates let through' * passed}" if shown else f"{crept}, but {doubt}"
    if worse > last.budget:
        sides = points[-1][0].candidate, points[place][0].candidate
        alike = sides[0].kernel == sides[1].kernel
        reason += ". To be sure, gate " + " against ".join(
            f"{side.kernel} of {side.directory}" if alike else side.kernel for side in sides
        )
    return LevelSeries(
        machine=_machine(points[-1][0]),
        tool=last.tool,
        name=last.name,
        unit=last.unit if not same_base else "% of the base" if percent else f"{last.change_unit}, against the base",
        change_unit=last.change_unit,
        direction=last.direction,
        budget=last.budget,
        levels=tuple(levels),
        verdicts=tuple(metric.verdict for _, metric in points),
        kernels=tuple(gate.candidate.kernel for gate, _ in points),
        times=tuple(gate.started for gate, _ in points),
        changes=tuple(changes),
        means=tuple(map(mean, (*earlier, last_level))),
        worse=worse,
        chained=chained,
        status=status,
        reason=reason,
        compared=compared,
    )


def history_text(found: HistoryDocument, gates: Sequence[GateDocument]) -> str:
    """The latest gates with the metrics that did not pass, and the levels; all but the verdict."""
    counts = ", ".join(f"{count} {name}" for name, count in found.verdicts.items())
    out = [f"{found.status.name}: {found.gates} gates: {counts or 'none'}"]
    out += [row for each in found.series if each.reason for row in wrapped(f"{each.name}: {each.reason}")]
    out += [f"the last {_SHOWN}:"] if len(gates) > _SHOWN else []
    for gate in gates[-_SHOWN:]:
        odd = [
            each.name + (f" {each.change:+.1f} {each.change_unit}" if each.change is not None else "")
            for each in gate.metrics
            if each.verdict is not Verdict.PASS
        ]
        happened = "; ".join(filter(None, (_kernels(gate), ", ".join(odd))))
        out += wrapped(f"{gate.started:{_WHEN}} {gate.status.name}: {happened}")
    rows = [("two levels of", "gates", "good", "last", "worse", "creep")]
    for each in found.series:
        unit = " %" if each.change_unit == "%" else ""
        good, last = each.compared or (each.means[0], each.means[-1])
        values = str(len(each.levels)), f"{good:.5g}", f"{last:.5g}", f"{each.worse:.1f}{unit}"
        rows.append((printable(each.name)[:26], *values, each.status.name))
    out += ["", *table(rows, "<26>6>11>11>9  <")]
    out += [row for each in _no_pass(gates) for row in wrapped(f"no PASS: {each}")]
    out += [row for each in _gaps(gates)[-_SHOWN:] for row in wrapped(each)]
    return "\n".join(out).rstrip()
