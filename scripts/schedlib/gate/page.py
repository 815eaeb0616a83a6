# SPDX-License-Identifier: GPL-2.0
"""Write a comparison as one self-contained HTML file. The content of run files is untrusted."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from schedlib.formats.gate_document import GateDocument, GateMetric, GateSide, Method
from schedlib.formats.html_page import rendered
from schedlib.gate import gate_report, plots


@dataclass(frozen=True)
class PageMetric:
    """A row as the page shows it.

    Attributes:
        cells: of the table; all are text.
        told: what is below it there: the change in words with the reason, and why both estimates differ.
        drawn: the interval; the share of boots up to a value; boot by boot.
    """

    row: GateMetric
    cells: Mapping[str, str]
    better: str
    rule: str
    told: tuple[str, ...]
    unit: str
    drawn: tuple[Markup, ...]


def page(document: GateDocument, pictures: Sequence[tuple[str, bytes]] = ()) -> str:
    """The page. The same document always gives the same page. `pictures`: names and contents of SVG files."""
    return rendered(
        Path(__file__).with_name("page.html.jinja"),
        found=document,
        report=gate_report,
        started=document.started.isoformat(" ", "seconds"),
        metrics=[_metric(document, row, f"m{place}") for place, row in enumerate(document.metrics)],
        changes={(row.tool, row.name): row for row in document.metrics},
        differing=_environment(document, same=False),
        common=_environment(document, same=True),
        skips=_skips(document.sides),
        pictures=[(name, b64encode(content).decode()) for name, content in pictures],
        text_lines=gate_report.text(document).splitlines(),
    )


def _metric(document: GateDocument, row: GateMetric, name: str) -> PageMetric:
    equal, per = row.method is Method.EQUAL, gate_report.per(row)
    unit = "per million samples" if row.method is Method.RATE else row.unit
    placebo = " to ".join(map(gate_report.number, row.placebo)) or "-"
    cells = {
        "base": gate_report.number(row.base),
        "candidate": gate_report.number(row.candidate),
        **({"placebo": placebo} if document.placebo else {}),
        "change": gate_report.change_of(row),
        "95 % interval": gate_report.interval_of(row),
        "of medians": gate_report.signed(row.of_medians),
        "budget": gate_report.limit_of(row, row.budget),
        "detect": gate_report.limit_of(row, row.detect),
        "p": gate_report.p_of(row),
        "boots": f"{row.boots[0]} + {row.boots[1]}",
    }
    drawn, about = [], f"{row.tool} {row.name}"
    if effect := gate_report.effect_of(row):
        drawn.append(plots.interval(f"{name}i", f"{about}: the change against budget and detect", row, effect))
    if row.values:
        drawn.append(plots.ecdf(f"{name}e", f"{about}: share of boots up to a value", unit, row.values))
        drawn.append(plots.by_boot(f"{name}b", f"{about}: boot by boot", unit, row.values))
    said = "; ".join(filter(None, (gate_report.words_of(row), row.reason)))
    worse = f"may become worse by {row.budget:g}{per}; a pass excludes {row.detect:g}{per}"
    return PageMetric(
        row,
        cells,
        "" if row.direction == "neither" else f"{row.direction} is better",
        "equal in every run" if equal else f"method {row.method.value}; {worse}",
        tuple(filter(None, (said, gate_report.two_estimates(row)))),
        unit,
        tuple(map(Markup, drawn)),  # ours, and the plots escape what is not
    )


def _environment(document: GateDocument, *, same: bool) -> list[tuple[str, list[str]]]:
    """Entries of the fingerprint that the kernels share, or those that differ, each with the kernels' values."""
    sides, out = document.sides, []
    for name in sorted({name for side in sides for name in side.fingerprint}):
        values = [side.fingerprint.get(name, "") for side in sides]
        if (len(set(values)) == 1) is same:
            out.append((name, values[:1] if same else values))
    return out


def _skips(sides: Sequence[GateSide]) -> list[tuple[str, str, str]]:
    """What was not measured: its name, why, and in which sides."""
    where: dict[tuple[str, str], list[str]] = {}
    for side in sides:
        for tool, reason in side.skipped.items():
            where.setdefault((tool, reason), []).append(side.name)
        for each in side.absent:
            where.setdefault((f"{each.tool} {each.name}", each.reason), []).append(side.name)
    return [(what, reason, ", ".join(names)) for (what, reason), names in sorted(where.items())]
