# SPDX-License-Identifier: GPL-2.0
"""Write a comparison as one self-contained HTML file, with each metric drawn. The content of run files is untrusted."""

from __future__ import annotations

import warnings
from base64 import b64encode
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, Formatter, MaxNLocator, StrMethodFormatter

from schedlib.formats.gate_document import BootValue, GateDocument, GateMetric, Method
from schedlib.formats.html_page import rendered
from schedlib.gate import gate_report
from schedlib.gate.gate_report import cells_of, number, per, two_estimates, words_of
from schedlib.progress import printable

_SIZE = (5.0, 3.4)
"""In inches of 72 pixels: as wide as a phone's screen, so that the text keeps its size there."""

COLOURS = {"base": "#0072b2", "candidate": "#c24d00", "placebo": "#00795a"}
"""Okabe and Ito's, darkened for white paper."""

_LINES: dict[str, Any] = {"base": "solid", "candidate": (0, (5, 2)), "placebo": (0, (1, 1.5))}
_MARKERS = {"base": "o", "candidate": "^", "placebo": "s"}
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "schedline",
    "font.size": 12,
    "font.family": "sans-serif",
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dfe3e8",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "path.simplify": False,
}


def page(document: GateDocument) -> str:
    """The page. The same document always gives the same page."""
    entries = sorted({name for side in document.sides for name in side.fingerprint})
    values = {name: [side.fingerprint.get(name, "") for side in document.sides] for name in entries}
    skips: dict[tuple[str, str], list[str]] = {}
    for side in document.sides:
        absent = [(f"{each.tool} {each.name}", each.reason) for each in side.absent]
        for what in (*side.skipped.items(), *absent):
            skips.setdefault(what, []).append(side.name)
    return rendered(
        Path(__file__).with_name("page.html.jinja"),
        found=document,
        report=gate_report,
        started=document.started.isoformat(" ", "seconds"),
        metrics=[_metric(document, row) for row in document.metrics],
        changes={row.key: row for row in document.metrics},
        differing={name: found for name, found in values.items() if len(set(found)) > 1},
        common={name: found[0] for name, found in values.items() if len(set(found)) == 1},
        skips=[(what, reason, ", ".join(sides)) for (what, reason), sides in sorted(skips.items())],
        text_lines=gate_report.text(document).splitlines(),
    )


def _metric(document: GateDocument, row: GateMetric) -> dict[str, object]:
    cells = cells_of(row)
    if document.placebo:
        placebo = {"placebo": " to ".join(map(number, row.placebo)) or "-"}
        cells = {"base": cells["base"], "candidate": cells["candidate"]} | placebo | cells
    said = "; ".join(filter(None, (words_of(row), row.reason, two_estimates(row))))
    unit = "per million samples" if row.method is Method.RATE else row.unit
    worse = f"may become worse by {row.budget:g}{per(row)}; a pass excludes {row.detect:g}{per(row)}"
    return {
        "row": row,
        "cells": cells,
        "better": "" if row.direction == "neither" else f"{row.direction} is better",
        "rule": "equal in every run" if row.method is Method.EQUAL else f"method {row.method.value}; {worse}",
        "said": said,
        "unit": unit,
        "boots": by_boot(f"{row.tool} {row.name}", unit, row.values) if row.values else None,
    }


# ---- the pictures ----

_our_style = style.context(["default", _SETTINGS])  # ignores any matplotlibrc


@_our_style
def by_boot(title: str, unit: str, points: Sequence[BootValue]) -> tuple[str, str]:
    """A picture: an SVG in base64, and what it shows, for those who do not see it."""
    figure = Figure(_SIZE, layout="constrained")
    axes = figure.add_subplot()
    told = []
    for kernel, colour in COLOURS.items():
        if mine := [(at, each.value) for at, each in enumerate(points, 1) if each.kernel == kernel]:
            places, values = zip(*mine, strict=True)
            look = {"color": colour, "linestyle": _LINES[kernel], "marker": _MARKERS[kernel]}
            axes.plot(places, values, label=kernel, linewidth=0.8, markersize=6, **look)
            boots = f"{len(values)} boot{'s' * (len(values) > 1)}"
            told.append(f"{kernel}: {boots}, from {number(min(values))} to {number(max(values))} {unit}")
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    largest = max(abs(point.value) for point in points)
    plain: Formatter = StrMethodFormatter("{x:,.6g}")
    axes.yaxis.set_major_formatter(plain if largest == 0 or 0.01 <= largest < 1e6 else EngFormatter())
    # The unit comes from a run file, so it is not parsed as mathematics.
    axes.yaxis.set_label_text(printable(unit)[:32], parse_math=False)
    axes.set_xlabel("boot, in the order of time")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    out = BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the unit may use letters that matplotlib's font lacks
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return b64encode(out.getvalue()).decode(), f"{title}: boot by boot: {'; '.join(told)}"
