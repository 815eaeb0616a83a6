# SPDX-License-Identifier: GPL-2.0
"""Imported samples as text."""

from __future__ import annotations

from collections.abc import Iterator

from schedlib.c2c.traffic_report import grid
from schedlib.formats.c2c_measured_document import NOTHING, MeasuredDocument, Sampled

_FIELDS, _FUNCTIONS = 40, 20
METRICS = {
    "taken": "samples of lines that another CPU's cache had modified or handed over",
    "samples": "all samples: this source does not say which lines came from another CPU's cache",
}


def measured_text(result: MeasuredDocument) -> str:
    """The whole report."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: MeasuredDocument) -> Iterator[str]:
    source = result.source
    yield f"{source.kind}: {', '.join(source.files)}" + (f"; {source.machine}" if source.machine else "")
    if source.events:
        yield f"events: {', '.join(source.events)}"
    kernel = result.kernel
    taken = f", {kernel.taken} of them taken from another CPU, {kernel.remote} from another node"
    whole = f"samples of kernel memory: {kernel.samples}{taken if kernel.taken else ''}"
    yield f"{whole}; of user memory: {result.user.samples}"
    if source.repeated:
        yield f"left out: {source.repeated} samples that repeat others"
    if source.approximate:
        yield "numbers of samples were computed from rounded percentages"
    yield f"shares: of {METRICS[result.metric]}; with intervals of 95 %"
    yield ""
    rows: list[tuple[str, ...]] = [("field", "share", "from", "to", "samples", "taken", "remote", "cycles each")]
    for each in result.fields[:_FIELDS]:
        rows.append(
            (each.name, *(f"{number:.1%}" for number in (each.share, each.low, each.high)), *_numbers(each.sampled))
        )
    lost = sum((each.sampled for each in result.unresolved), NOTHING)
    if lost.samples:
        share = sum(each.share for each in result.unresolved)
        rows.append(("unresolved", f"{share:.1%}", "", "", *_numbers(lost)))
    yield from grid(rows, 1)
    if len(result.fields) > _FIELDS:
        yield f"{len(result.fields) - _FIELDS} others: the JSON has them"
    for reason in result.unresolved:
        yield f"unresolved, {reason.share:.1%}: {reason.why} ({reason.sampled.samples} samples)"
    yield ""
    functions: dict[str, Sampled] = {}
    for row in result.rows:
        functions[row.function] = functions.get(row.function, NOTHING) + row.sampled
    hottest = sorted(functions, key=lambda name: (-functions[name].amount(result.metric), name))
    rows = [("function", "samples", "taken", "remote", "cycles each")]
    rows += [(name, *_numbers(functions[name])) for name in hottest[:_FUNCTIONS]]
    yield from grid(rows, 1)


def _numbers(sampled: Sampled) -> tuple[str, ...]:
    cycles = f"{sampled.cycles / sampled.samples:.0f}" if sampled.cycles and sampled.samples else ""
    return str(sampled.samples), str(sampled.taken), str(sampled.remote), cycles
