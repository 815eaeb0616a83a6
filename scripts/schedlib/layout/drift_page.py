# SPDX-License-Identifier: GPL-2.0
"""Write what became of the contracts as one self-contained HTML file. What sources say is untrusted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from schedlib.formats.html_page import rendered
from schedlib.formats.layout_drift_document import DriftKind, LayoutDriftDocument
from schedlib.layout import drift_report


def page(found: LayoutDriftDocument) -> str:
    """The page. The same document always gives the same page."""
    table = drift_report.rows(found)
    numbers = {id(each): number for number, each in enumerate(found.findings, 1)}
    red = sum(each.kind.is_red for each in found.findings)
    amber = sum(each.kind.is_amber for each in found.findings)
    return rendered(
        Path(__file__).with_name("drift.html.jinja"),
        found=found,
        banner=f"{red} red findings, {amber} to look at, {len({row.contract for row in table})} contracts",
        kernels=[each.name for each in found.kernels],
        loud=[row for row in table if not row.is_quiet],
        quiet=[row for row in table if row.is_quiet],
        number=lambda each: numbers[id(each)],
        short=drift_report.short,
        step=drift_report.step,
        everywhere=len({each.column for each in found.cells}),
        lines=dict.fromkeys((each.column, each.line) for each in found.cells),
        kinds=[
            (kind, drift_report.WORDS[kind], its)
            for kind in DriftKind
            if (its := [each for each in found.findings if each.kind is kind])
        ],
        moves=_moves(found),
        started=found.started.isoformat(" ", "seconds"),
        parts=_parts,
    )


def _parts(hunk: str) -> list[tuple[str, str]]:
    """The lines of a difference, each with its class."""
    kinds = {"+": "added", "-": "removed", "@": "place"}
    return [(line.expandtabs(), kinds.get(line[:1], "")) for line in hunk.splitlines()]


def _moves(found: LayoutDriftDocument) -> Sequence[tuple[str, str, Sequence[str], str]]:
    """For each step and contract: columns, and the members that begin on another line."""
    rows: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for move in found.moves:
        if move.old is not None and move.new is not None:
            rows.setdefault((drift_report.step(move), move.contract, move.columns), []).append(
                f"{move.member} {move.old} to {move.new}"
            )
    return [(*key, ", ".join(members)) for key, members in rows.items()]
