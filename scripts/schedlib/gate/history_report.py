# SPDX-License-Identifier: GPL-2.0
"""A history as text that fits a mail, and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from schedlib.formats.cover_letter import wrapped
from schedlib.formats.history_document import HistoryDocument, LevelSeries, PastGate
from schedlib.progress import printable
from schedlib.verdict import Verdict

_SHOWN = 20
"""How many of the latest gates the text shows; the page has all."""


def history_text(found: HistoryDocument, gates: Sequence[PastGate]) -> str:
    """The latest gates, the levels, the scores and the bad lines; all but the verdict."""
    out = [
        f"{found.gates} gates: " + (", ".join(f"{count} {name}" for name, count in found.verdicts.items()) or "none")
    ]
    out += [f"the last {_SHOWN}:"] if len(gates) > _SHOWN else []
    for gate in gates[-_SHOWN:]:
        out += wrapped(f"{gate.time:%Y-%m-%d %H:%M} {gate.verdict.name}: {what_happened(gate)}")
    out += ["", f"{'level':26}{'gates':>6}{'first':>11}{'last':>11}{'worse':>9}  creep"]
    for each in found.series:
        name, unit = printable(each.name)[:26], " %" if each.change_unit == "%" else ""
        values = f"{len(each.levels):>6}{each.means[0]:>11.5g}{each.means[-1]:>11.5g}{f'{each.worse:.1f}{unit}':>9}"
        out.append(f"{name:26}{values}  {each.status.name}")
    out += [row for each in found.series if each.reason for row in wrapped(f"{each.name}: {each.reason}")]
    out.append("")
    for score in found.scores:
        said = f"{score.name}: {score.failed} pairs of kernels failed, {score.withdrawn} of them not when gated again"
        out += wrapped(said) if score.failed else []
    for bad in found.bad:
        what = "is cut off, as when its writer was killed" if bad.cut else f"is no gate: {bad.why}"
        out += wrapped(f"line {bad.line} {what}; it is left out")
    return "\n".join(out).rstrip()


def what_happened(gate: PastGate) -> str:
    """The kernels, and the metrics that did not pass."""
    odd = [
        each.name + (f" {each.change:+.1f} {each.change_unit}" if each.change is not None else "")
        for each in gate.metrics
        if each.verdict is not Verdict.PASS
    ]
    return f"{gate.base.kernel} -> {gate.candidate.kernel}" + (f"; {', '.join(odd)}" if odd else "")


def history_page(found: HistoryDocument, gates: Sequence[PastGate], command: str) -> str:
    """The page: a picture of each metric over time, and all gates. The content of the history is untrusted."""
    from schedlib.formats.html_page import rendered

    drawn = [(each, _drawn(each, f"h{place}")) for place, each in enumerate(found.series)]
    rows = [(gate, what_happened(gate)) for gate in reversed(gates)]
    return rendered(
        Path(__file__).with_name("history.html.jinja"), found=found, drawn=drawn, rows=rows, command=command
    )


def _drawn(series: LevelSeries, name: str) -> Markup:
    from schedlib.gate import plots

    edges = [0, *series.changes, len(series.levels)]
    means = list(zip(edges, edges[1:], series.means, strict=False))
    levels = [(level, verdict.name) for level, verdict in zip(series.levels, series.verdicts, strict=True)]
    title = f"{series.tool} {series.name} over time"
    return Markup(plots.over_time(name, title, series.unit, levels, means))  # noqa: S704 - ours
