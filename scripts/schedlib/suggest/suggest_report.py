# SPDX-License-Identifier: GPL-2.0
"""The text of a suggestion: verdict first, then what moves, and what each layout costs."""

from __future__ import annotations

from collections.abc import Iterator

from schedlib.c2c.traffic_table import middle, spread
from schedlib.formats.suggest_document import LayoutCosts, SuggestDocument
from schedlib.suggest.layout_costs import SUGGESTED, TODAY, harmed


def text(found: SuggestDocument) -> str:
    """The report."""
    return "\n".join(_rows(found)) + "\n"


def _rows(found: SuggestDocument) -> Iterator[str]:
    yield f"struct {found.struct} ({found.file}): {found.status}"
    if not found.moved:
        yield f"no order of its members is better, of {found.tried} that were counted in {found.seconds:.0f} s"
    else:
        yield f"{found.size} bytes become {found.new_size}; {found.tried} orders counted in {found.seconds:.0f} s"
        yield ""
        yield f"{'member':40} {'offset':>7} {'new':>7}"
        for member in found.moved:
            mark = {"yes": "  starts a line", "no longer": "  starts no line any more", "no": ""}[member.aligned]
            yield f"{member.name:40} {member.before:>7} {member.after:>7}{mark}"
    for line in harmed(found.costs):
        yield f"WARNING: {line}"
    for name in dict.fromkeys(row.workload for row in found.costs):
        rows = [row for row in found.costs if row.workload == name]
        note = ", not seen by the search" if rows[0].held_out else ""
        yield ""
        sizes = list(rows[0].longer_lines)
        yield f"{name}{note}"
        head = "".join(f"{f'misses, {size}':>14}" for size in sizes)
        yield f"  {'layout':28}{'misses':>26}{'of today':>10}{'false sharing':>15}{'upgrades':>10}{head}"
        today = next(row for row in rows if row.layout == TODAY)
        for row in rows:
            yield f"  {_name(row):28}{spread(row.misses):>26}{_share(row, today):>10}" + _more(row, sizes)


def _name(row: LayoutCosts) -> str:
    return f"{SUGGESTED}, as measured" if row.measured else row.layout


def _share(row: LayoutCosts, today: LayoutCosts) -> str:
    base = middle(today.misses)
    return f"{100 * middle(row.misses) / base:.1f} %" if base else "-"


def _more(row: LayoutCosts, sizes: list[str]) -> str:
    longer = "".join(f"{row.longer_lines.get(size, '-'):>14}" for size in sizes)
    return f"{middle(row.false_shared):>15}{middle(row.upgrades):>10}{longer}"
