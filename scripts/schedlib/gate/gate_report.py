# SPDX-License-Identifier: GPL-2.0
"""Tell a gate's document as text that fits a cover letter: 72 columns, and no control character of a run file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from math import inf
from typing import TypeVar

from msgspec.structs import replace

from schedlib.formats.gate_document import (
    GateDocument,
    GateMetric,
    GateShare,
    GateSide,
    JudgedMetric,
    Method,
    UnjudgedMetric,
)
from schedlib.formats.run_file import NOT_RECORDED
from schedlib.formats.tables import table
from schedlib.gate.rules import EXCESS
from schedlib.progress import counted, listed, printable, wrapped
from schedlib.verdict import Verdict

_Row = TypeVar("_Row", GateMetric, GateShare)

_MOST_NAMED = 8
"""So many metrics with a reason are named in a line."""

_FIRST = 320
"""So many characters the verdict's words have, so that the first ten lines also say what was compared."""

_MOST_SHOWN = 12
"""How many metrics that are not judged are listed in the text."""

SAME_KERNEL = "base and candidate are the same kernel: an A/A campaign"

_NAME = 26
"""Width of a metric's name in a table."""

_COLUMNS = {
    ("metric", "base", "candidate", "change", "verdict"): ">10>11>10  <",
    ("metric", "of medians", "95 % interval", "p", "boots"): ">9>21>8>8",
}


def number(value: float | None) -> str:
    """A number with four significant digits."""
    if value is None:
        return "-"
    return f"{value:.0f}" if 10_000 <= abs(value) < 1e9 else f"{value:.4g}"


def signed(value: float | None) -> str:
    """A change, with its sign and one decimal, or with two significant digits if that would hide it."""
    if value is None:
        return "-"
    if 0 < abs(value) < 0.05:
        return f"{value:+.2g}"
    return f"{value:+.1f}" if abs(value) < 1e5 else f"{value:+.1e}"


def per(metric: JudgedMetric) -> str:
    """The unit of a metric's change, with the blank before it."""
    return f" {metric.change_unit}"


def limits_of(metric: JudgedMetric) -> str:
    """The budget and detect, in words."""
    return f"budget {metric.budget:g}{per(metric)}, detect {metric.detect:g}{per(metric)}"


def p_of(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}" if value >= 1e-4 else "<.0001"


def ends_of(row: GateMetric | GateShare) -> tuple[float, float]:
    """The ends of the interval. A missing one has no bound."""
    return -inf if row.low is None else row.low, inf if row.high is None else row.high


def interval_of(row: GateMetric | GateShare) -> str:
    low, high = map(signed, ends_of(row))
    return "-" if (row.attributable if isinstance(row, GateShare) else row.change) is None else f"{low} .. {high}"


def cells_of(metric: GateMetric) -> dict[str, str]:
    """The row of a metric in a table, by the names of the columns."""
    percent, equal = " %" if metric.change_unit == "%" else "", metric.method is Method.EQUAL
    return {
        "base": number(metric.base),
        "candidate": number(metric.candidate),
        "change": signed(metric.change) + (percent if metric.change is not None else ""),
        "95 % interval": interval_of(metric),
        "of medians": signed(metric.of_medians),
        "budget": "equal" if equal else f"{metric.budget:g}{percent}",
        "detect": "equal" if equal else f"{metric.detect:g}{percent}",
        "p": p_of(metric.p),
        "boots": f"{metric.boots[0]} + {metric.boots[1]}",
    }


def words_of(metric: GateMetric) -> str:
    """The change in words: worse, better, or not shown; empty if nothing was compared."""
    if metric.change is None:
        same = metric.method is Method.EQUAL and metric.base is not None and metric.base == metric.candidate
        return "equal" if same and metric.verdict is Verdict.PASS else ""
    low, high = ends_of(metric)
    if low <= 0 <= high:
        return f"no change shown ({signed(metric.change)}{per(metric)})"
    better = (metric.change > 0) == (metric.direction == "higher")
    size = signed(abs(metric.change)).removeprefix("+")
    return f"{size}{per(metric)} {'better' if better else 'worse'}"


def two_estimates(metric: GateMetric) -> str:
    """Why both estimates of the change differ by more than half of the interval; empty if they do not."""
    if metric.change is None or metric.of_medians is None or metric.low is None or metric.high is None:
        return ""
    pairs, middles = (f"{signed(change)}{per(metric)}" for change in (metric.change, metric.of_medians))
    if abs(metric.change - metric.of_medians) <= (metric.high - metric.low) / 2 or pairs == middles:
        return ""
    return (
        f"two estimates differ: {pairs} is the middle of all changes between a boot of one kernel and a boot of the "
        f"other, {middles} compares the two middle boots. The boots fall into groups, or have long tails: look at the "
        "page of --html"
    )


def _told_apart(document: GateDocument) -> GateDocument:
    """The document with the tool in front of the names that several tools have."""
    counts = Counter(row.name for row in document.metrics)

    def told_apart(rows: Iterable[_Row]) -> tuple[_Row, ...]:
        return tuple(replace(row, name=f"{row.tool} {row.name}") if counts[row.name] > 1 else row for row in rows)

    return replace(document, metrics=told_apart(document.metrics), shares=told_apart(document.shares))


def slower(document: GateDocument) -> str:
    """Of a PASS: the metrics whose estimate is over their budget, in words; empty if there are none."""
    rows = [row for row in _told_apart(document).metrics if row.over_budget and document.status is Verdict.PASS]
    told = "; ".join(
        f"{row.name} {signed(row.change or 0.0)}{per(row)}, budget {row.budget:g}{per(row)}" for row in rows
    )
    return f"slower within what is not excluded: {told}" if rows else ""


def last_line(status: Verdict, more: str) -> str:
    return f"verdict: {status.name}{more and ', '}{more}"


def beside(document: GateDocument) -> list[str]:
    """What a reader has to know beside the verdict: slower in spite of a PASS, and bad boots of the base, and of a
    candidate that passes."""
    told = [slower(document)]
    for side, what in zip(document.sides, ("bad boots of its own", "bad boots"), strict=False):
        far = (row.far_base if side is document.base else row.far for row in document.metrics)
        if (bad := sorted(set(chain(*far)))) and (side is document.base or document.status is Verdict.PASS):
            told.append(f"the {side.name} has {what}, {len(bad)} of {len(side.boots)}: {listed(bad, _MOST_NAMED)}")
    return list(filter(None, told))


def banner(document: GateDocument) -> str:
    """The verdict in words: what a PASS excludes, what became worse, or what each open metric needs."""
    verdict, metrics = document.status, _told_apart(document).metrics
    if verdict is Verdict.PASS:
        bad = document.bad_boots
        boots = (
            f"; up to {100 * bad:.0f} % of the candidate's boots may be far slower (95 %)" if bad is not None else ""
        )
        if any(row.far or row.far_base for row in metrics):
            boots += f"; not {100 * EXCESS:.0f} % more of them than of the base's"
        return f"{excluded(metrics)}{boots}"
    rows = [metric for metric in metrics if metric.verdict is verdict]
    if rows and verdict is Verdict.FAIL:
        return _fitting([f"{row.name} {_worse(row)}" for row in rows])
    # Lost boots and failed runs stand before what the other boots say.
    told = [note.removeprefix(f"{verdict.name}: ") for note in _first(document) if note != SAME_KERNEL]
    told += [f"{listed(names, _MOST_NAMED)}: {reason}" for reason, names in _reasons(rows).items()]
    return _fitting(told) or "the notes say why"


def _fitting(told: Sequence[str]) -> str:
    ends = accumulate(len(each) + 2 for each in told)
    fit = max(1, sum(end <= _FIRST for end in ends))
    return "; ".join([*told[:fit], *([f"{len(told) - fit} more below"] if told[fit:] else [])])


def _worse(row: GateMetric) -> str:
    """Of a metric that fails: by how much, and what was allowed."""
    budget = f", budget {row.budget:g}{per(row)}" if row.method is not Method.EQUAL else ""
    if row.change is None:
        return row.reason
    sign = -1 if row.direction == "higher" else 1
    ends = " to ".join(signed(end).removeprefix("+") for end in sorted(sign * end for end in ends_of(row)))
    return f"{signed(abs(row.change))[1:]}{per(row)} worse ({ends}){budget}"


def _reasons(rows: Sequence[GateMetric]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row.reason, []).append(row.name)
    return found


def _first(document: GateDocument) -> list[str]:
    """The notes that decide, and that both kernels are the same one."""
    return [note for note in document.notes if note == SAME_KERNEL or note.startswith(f"{document.status.name}: ")]


def excluded(metrics: Sequence[JudgedMetric]) -> str:
    """What a PASS excludes. Only a metric that has to be equal has no detect."""
    found: dict[str, list[str]] = {}
    for each in metrics:
        what = f"not {each.detect:g}{per(each)} worse" if each.detect else "equal in each run"
        found.setdefault(what, []).append(each.name)
    if len(metrics) <= _MOST_NAMED:
        return ", ".join(f"{name} is {what}" for what, names in found.items() for name in names)
    return ", ".join(f"{counted(len(names), 'metric')}: {what}" for what, names in found.items())


def told_of_share(share: GateShare) -> str:
    """What there is to say of the layout's share; empty if it is shown."""
    if share.reason:
        return f"{share.name}: no share: {share.reason}"
    low, high = ends_of(share)
    told = f"{share.name}: placebo: not shown: the interval of candidate against placebo contains 0"
    return told if low <= 0 <= high else ""


def method_of(document: GateDocument) -> str:
    gates = document.gates
    return (
        f"gates: {gates.name}; p is one-sided, Holm's over the metrics; alpha {gates.alpha:g} for all metrics and "
        f"looks; change and interval: Hodges and Lehmann's (means for rates); medians: from median to median"
    )


def text(document: GateDocument) -> str:
    """The whole report; the verdict is its first word. No line is longer than 72 characters."""
    document, verdict = _told_apart(document), f"{document.status.name}: "
    said = [*beside(document), banner(document)] if slower(document) else [banner(document), *beside(document)]
    said[0] = verdict + said[0].removeprefix(verdict)
    first = _first(document)
    said += [note for note in first if note.removeprefix(verdict) not in said[0]]
    lines = [line for each in said for line in wrapped(each)]
    lines += [*_side(document.base), *_side(document.candidate)]
    lines += [line for each in document.notes if each not in first for line in wrapped(each)]
    lines += [*_tables(document.metrics), ""]
    lines += [line for each in _told(document, said[0]) for line in wrapped(each)]
    lines += _shown(document.shown)
    if document.placebo:
        lines += ["", *_side(document.placebo), "", *_shares(document)]
    return "\n".join(printable(line).rstrip() for line in lines)


def _side(side: GateSide) -> list[str]:
    kernel = f"{side.directory}, kernel not recorded" if side.kernel == NOT_RECORDED else side.kernel
    return wrapped(f"{side.name}: {kernel}; {counted(len(side.boots), 'boot')}, {counted(side.runs, 'run')}")


def _tables(metrics: Sequence[GateMetric]) -> Iterator[str]:
    named = [{"metric": each.name[:_NAME], "verdict": each.verdict.name} | cells_of(each) for each in metrics]
    for names, form in _COLUMNS.items():
        rows = [[of[name].replace(" + ", "+") for name in names] for of in named]
        yield from ["", *table([[name.removeprefix("of ") for name in names], *rows], f"<{_NAME}{form}")]


def _told(document: GateDocument, first: str) -> Iterator[str]:
    details = [note for note in document.details or () if note not in first]
    # What several metrics share is said once, and not at all if the first line or a note says it.
    reasons = {
        reason: names
        for reason, names in _reasons(document.metrics).items()
        if reason and reason not in first and not any(note.startswith(reason) for note in details)
    }
    for metric in document.metrics:
        limits = "" if metric.method is Method.EQUAL else limits_of(metric)
        own = metric.reason if reasons.get(metric.reason) == [metric.name] else ""
        yield f"{metric.name}: " + "; ".join(filter(None, (words_of(metric), limits, own, two_estimates(metric))))
    yield from (f"{', '.join(names)}: {reason}" for reason, names in reasons.items() if len(names) > 1)
    yield from details
    for side in document.sides[:2]:
        for tool, why in side.skipped.items():
            yield f"skipped in {side.name}: {tool}: {why}"
    yield method_of(document)


def _shown(shown: Sequence[UnjudgedMetric]) -> Iterator[str]:
    """The metrics that are not judged; if there are many, those that changed most."""
    if not shown:
        return
    yield ""
    listed = sorted(shown, key=lambda each: -abs(each.change or 0.0))[:_MOST_SHOWN]
    few = f"; the {len(listed)} of {len(shown)} that changed most" if len(listed) < len(shown) else ""
    yield from wrapped(f"not judged{few}: medians, and the change in percent")
    names = [f"{each.tool} {each.name}, {each.unit}"[:40] for each in listed]
    cells = [(number(each.base), number(each.candidate), signed(each.change)) for each in listed]
    yield from table([(name, *of) for name, of in zip(names, cells, strict=True)], "<40>11>11>10")


def _shares(document: GateDocument) -> Iterator[str]:
    """The part of each change that the layout causes. A placebo has the candidate's sizes, and the base's order."""
    rows = [("change, %", "candidate", "placebo", "layout", "95 % interval")]
    metrics = {metric.key: metric for metric in document.metrics}
    for share in document.shares:
        metric = metrics[share.tool, share.name]
        unit = f", {metric.change_unit}" if metric.change_unit != "%" else ""
        cells = signed(metric.change), signed(share.change), signed(share.attributable), interval_of(share)
        rows.append((f"{share.name}{unit}"[:_NAME], *cells))
    yield from table(rows, f"<{_NAME}>10>9>8>19")
    for share in document.shares:
        if said := told_of_share(share):
            yield from wrapped(said)
    yield from wrapped("layout: candidate against placebo, in percent of the base; shifts do not add up exactly")
