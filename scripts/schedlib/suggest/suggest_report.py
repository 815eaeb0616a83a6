# SPDX-License-Identifier: GPL-2.0
"""What `schedline c2c suggest` answers: its document, its text, the message of its patch, and a contract."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import Literal

from schedlib.c2c.traffic_report import middle, spread
from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Count, Moment, Positive, Strict, Whole, Word
from schedlib.formats.tables import table
from schedlib.suggest.member_text import moved_pieces
from schedlib.suggest.movable import Arrangement, Movable

TODAY, SUGGESTED = "today", "suggested"
_WIDTH = 72

Mark = Literal["yes", "no", "no longer"]


class SuggestedMove(Strict, frozen=True):
    """A member at another place. `aligned`: whether an attribute makes it start a line; `no longer` if that goes."""

    name: Word
    before: Count
    after: Count
    aligned: Mark


class LayoutCosts(Strict, frozen=True):
    """What a layout costs in one workload, which the search saw unless it was held out.

    A kernel ran with it if `measured`, else a trace was played again. There is one count for each quantum;
    `longer_lines` are misses of the middle quantum, by the size of the lines.
    """

    layout: Word
    workload: Word
    held_out: bool
    measured: bool
    misses: tuple[Count, ...]
    upgrades: tuple[Count, ...]
    false_shared: tuple[Count, ...]
    longer_lines: dict[str, Count]


class SuggestDocument(Document, frozen=True, kw_only=True):
    """schedline c2c suggest: an order of members, and its evidence. `fingerprint`: of the kernel of the traces."""

    schema: Literal["suggest-1"]
    tool: Word
    started: Moment
    fingerprint: dict[str, str]
    struct: Word
    file: Word
    status: Word
    seed: Whole
    tried: Count
    seconds: Amount
    size: Positive
    new_size: Positive
    moved: tuple[SuggestedMove, ...]
    costs: tuple[LayoutCosts, ...]


def status_of(costs: Sequence[LayoutCosts], *, has_measured: bool) -> str:
    """`gain`, or why there is none: no workload may have more misses in any quantum, one that the search has seen has
    fewer in each, and so has one that it has not.
    """
    by = {(row.layout, row.workload, row.measured): row for row in costs}
    better = {False: False, True: False}
    for row in costs:
        if row.layout == TODAY:
            after = [by[SUGGESTED, row.workload, ran].misses for ran in (False, True)[: 1 + has_measured]]
            pairs = [pair for each in after for pair in zip(row.misses, each, strict=True)]
            if any(new > old for old, new in pairs):
                kind = "held-out workload" if row.held_out else "workload"
                return f"no gain: it costs misses in the {kind} {row.workload}"
            better[row.held_out] |= all(new < old for old, new in pairs)
    if not better[False]:
        return "no gain"
    return "gain" if better[True] else "no gain in a workload that the search did not see"


def harmed(costs: Sequence[LayoutCosts]) -> list[str]:
    """Where the suggestion costs misses with lines of another size."""
    by = {(row.layout, row.workload, row.measured): row for row in costs}
    return [
        f"lines of {size} bytes, {name}: {before} misses become {after}"
        for (layout, name, ran), row in by.items()
        if layout == SUGGESTED and not ran
        for size, after in row.longer_lines.items()
        if after > (before := by[TODAY, name, False].longer_lines[size])
    ]


def message(found: SuggestDocument, cpus: str) -> str:
    """The text of the commit: what moves, and what its layout costs."""
    becomes = "stays" if found.size == found.new_size else f"changes from {found.size} to"
    told = (
        f"Some members of struct {found.struct} are written by CPUs while others read the members beside them, so that "
        "each takes the line from the other.",
        f"Move {', '.join(row.name for row in found.moved)}. The size {becomes} {found.new_size} bytes.",
        f"Misses on the lines of struct {found.struct}, counted on emulated CPUs ({cpus}) whose caches never run full. "
        "A range is that of several orders in which the CPUs take turns:",
    )
    paragraphs = [
        f"{found.struct}: Reorder members by who reads and who writes them",
        *(fill(each, _WIDTH) for each in told),
        _told(found.costs),
        fill("These are counts, not times. What they bring on a machine has to be measured there.", _WIDTH),
    ]
    return "\n\n".join(paragraphs) + "\n"


def _told(costs: Sequence[LayoutCosts]) -> str:
    rows = []
    for row in costs:
        if row.layout == TODAY:
            others = [each for each in costs if each.layout == SUGGESTED and each.workload == row.workload]
            best = next((each for each in others if each.measured), others[0])
            # A program of a user may have any name.
            name = re.sub(r"[^\w ,.+-]", "", row.workload) + (" (*)" if row.held_out else "")
            rows.append(f"  {name}\n    before {spread(row.misses)}, after {spread(best.misses)}")
    return "\n".join([*rows, "", "  (*) not used in the search for this order"])


def moved_members(structure: Movable, found: Arrangement) -> tuple[SuggestedMove, ...]:
    before, after = (structure.members(each, structure.line) for each in (structure.start, found))
    rows = []
    for number in sorted({*moved_pieces(found.order), *(found.aligned ^ structure.start.aligned)}):
        first, *others = structure.units[number].members
        mark: Mark = "yes" if number in found.aligned else "no longer" if number in structure.start.aligned else "no"
        rows.append(SuggestedMove(first, before[first], after[first], mark))
        rows += [SuggestedMove(name, before[name], after[name], "no") for name in others]
    return tuple(rows)


def report_lines(found: SuggestDocument) -> Iterator[str]:
    """Verdict first, then what moves, and what each layout costs."""
    yield f"struct {found.struct} ({found.file}): {found.status}"
    if not found.moved:
        yield f"no order of its members is better, of {found.tried} that were counted in {found.seconds:.0f} s"
    else:
        yield f"{found.size} bytes become {found.new_size}; {found.tried} orders counted in {found.seconds:.0f} s"
        yield ""
        marks = {"yes": "starts a line", "no longer": "starts no line any more", "no": ""}
        rows = [(each.name, str(each.before), str(each.after), marks[each.aligned]) for each in found.moved]
        yield from table([("member", "offset", "new", ""), *rows], "<40 >7 >7  <")
    for line in harmed(found.costs):
        yield f"WARNING: {line}"
    for name in dict.fromkeys(row.workload for row in found.costs):
        costs = [row for row in found.costs if row.workload == name]
        sizes = list(costs[0].longer_lines)
        yield ""
        yield name + (", not seen by the search" if costs[0].held_out else "")
        base = middle(next(row for row in costs if row.layout == TODAY).misses)
        cells = [
            ("  layout", "misses", "of today", "false sharing", "upgrades", *(f"misses, {size}" for size in sizes))
        ]
        for row in costs:
            shown = f"  {SUGGESTED}, as measured" if row.measured else f"  {row.layout}"
            share = f"{100 * middle(row.misses) / base:.1f} %" if base else "-"
            longer = (str(row.longer_lines.get(size, "-")) for size in sizes)
            counts = str(middle(row.false_shared)), str(middle(row.upgrades)), *longer
            cells.append((shown, spread(row.misses), share, *counts))
        yield from table(cells, "<  >")
