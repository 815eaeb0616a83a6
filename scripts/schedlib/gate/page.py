# SPDX-License-Identifier: GPL-2.0
"""Write a comparison as one self-contained HTML file. The content of run files is untrusted."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from schedlib import TOOL
from schedlib.formats.cover_letter import printable
from schedlib.formats.gate_document import Method
from schedlib.gate import gate_report, plots
from schedlib.gate.boots import Boot, Side
from schedlib.gate.comparison import Comparison
from schedlib.gate.judging import MetricRow, boots_of, range_of
from schedlib.gate.plots import Point, values_of_kernel
from schedlib.verdict import Verdict

_MOST = 100
"""How many failed runs of a kernel are listed."""

_MEANS = {
    Verdict.PASS: "the changes that the gates file names are excluded",
    Verdict.FAIL: "became worse: ",
    Verdict.ERROR: "some runs or metrics gave no result, so this proves nothing",
    Verdict.INCONCLUSIVE: "these runs decide nothing; the reasons are beside the metrics",
}


@dataclass(frozen=True)
class PageMetric:
    """A row as the page shows it; all cells are text."""

    row: MetricRow
    cells: Mapping[str, str]
    better: str
    rule: str
    unit: str
    plots: tuple[Markup, ...]


def page(found: Comparison, commands: Sequence[str], pictures: Sequence[tuple[str, bytes]]) -> str:
    """The page. The same comparison always gives the same page. `pictures`: names and contents of SVG files."""
    sides = [*found.sides, *([found.placebo] if found.placebo else [])]
    return rendered(
        "page.html.jinja",
        found=found,
        means=_means(found),
        tool=TOOL,
        started=found.started.isoformat(" ", "seconds"),
        sides=[(side, sum(sum(boot.runs.values()) for boot in side.boots)) for side in sides],
        metrics=[_metric(found, row, f"m{place}") for place, row in enumerate(found.rows)],
        notes=found.notes,
        shares=[(share, gate_report.interval_of(share)) for share in found.shares],
        signed=gate_report.signed,
        differing=_environment(found, same=False),
        common=_environment(found, same=True),
        skips=_skips(sides),
        failed=[(side.name, side.failed[:_MOST], len(side.failed) - _MOST) for side in sides if side.failed],
        pictures=[(name, b64encode(content).decode()) for name, content in pictures],
        commands=commands,
        text_lines=gate_report.text(found).splitlines(),
    )


def rendered(template: str, **values: object) -> str:
    """A page from a template beside this module. Texts are escaped; it has the style sheet and loads nothing."""
    here = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(here),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    css = (here / "page.css").read_text()
    return environment.get_template(template).render(
        css=Markup(css),  # noqa: S704 - ours
        css_hash=b64encode(hashlib.sha256(css.encode()).digest()).decode(),
        **values,
    )


def _clean(value: object) -> object:
    """Replace control characters, lone surrogates and bidirectional marks, before jinja escapes the text."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _means(found: Comparison) -> str:
    """The verdict in words."""
    failed = [row for row in found.rows if row.verdict is found.verdict is Verdict.FAIL]
    worse = (f"{row.rule.name} {gate_report.change_of(row)}".removesuffix(" -") for row in failed)
    return _MEANS[found.verdict] + ", ".join(worse)


def _metric(found: Comparison, row: MetricRow, name: str) -> PageMetric:
    rule, points, equal = row.rule, _points(found, row), row.rule.method is Method.EQUAL
    unit = "per million samples" if rule.method is Method.RATE else row.unit
    per = "" if equal else f" {unit}" if rule.absolute else " %"
    cells = {
        "base": gate_report.number(row.base),
        "candidate": gate_report.number(row.candidate),
        **({"placebo": _of_placebo(found.placebo, row, points)} if found.placebo else {}),
        "change": gate_report.change_of(row),
        "95 % interval": gate_report.interval_of(row),
        "budget": gate_report.budget_of(row) + ("" if rule.absolute else per),
        "p": gate_report.p_of(row),
        "boots": f"{row.boots[0]} + {row.boots[1]}",
    }
    drawn: tuple[Markup, ...] = ()
    if points:
        about = f"{rule.tool} {rule.name}"
        drawn = (
            Markup(plots.ecdf(f"{name}e", f"{about}: share of boots up to a value", unit, points)),  # noqa: S704
            Markup(plots.by_boot(f"{name}b", f"{about}: boot by boot", unit, points)),  # noqa: S704
        )
    worse = f"may become worse by {rule.budget:g}{per}; a pass excludes {rule.detect:g}{per}"
    decides = "equal in every run" if equal else f"method {rule.method.value}; {worse}"
    better = "" if rule.direction == "neither" else f"{rule.direction} is better"
    return PageMetric(row, cells, better, decides, unit, drawn)


def _points(found: Comparison, row: MetricRow) -> list[Point]:
    """The boots from which a row was judged, and those of the placebo; none for a row without a change."""
    if row.change is None or row.rule.method is Method.EQUAL:
        return []
    out = []

    def add(kernel: str, boots: Sequence[Boot]) -> None:
        for boot in boots:
            if figure := boot.figures.get(row.rule.key):
                value = figure.rate if row.rule.method is Method.RATE else figure.mean
                out.append(Point(kernel, boot.started, value))

    for side, judged in zip(found.sides, row.boots, strict=True):
        add(side.name, boots_of(side, row.rule.tool).boots[:judged])
    if found.placebo:
        add("placebo", boots_of(found.placebo, row.rule.tool).boots)
    return sorted(out, key=lambda point: (point.started, point.kernel))


def _of_placebo(side: Side, row: MetricRow, points: Sequence[Point]) -> str:
    """The placebo's figure: as the gate shows the others, or the range of all runs if they have to be equal."""
    if row.rule.method is Method.EQUAL:
        figures = [boot.figures[row.rule.key] for boot in side.boots if row.rule.key in boot.figures]
        return " to ".join(map(gate_report.number, sorted(set(range_of(figures))))) if figures else "-"
    values = values_of_kernel(points, "placebo")
    middle = median if row.rule.method is Method.RANK else mean
    return gate_report.number(middle(values) if values else None)


def _environment(found: Comparison, *, same: bool) -> list[tuple[str, list[str]]]:
    """Entries of the fingerprint that the kernels share, or those that differ, each with the kernels' values."""
    sides = [found.base, found.candidate, *([found.placebo] if found.placebo else [])]
    out = []
    for name in sorted({name for side in sides for name in side.fingerprint}):
        values = [" / ".join(sorted(side.fingerprint.get(name, ()))) for side in sides]
        if (len(set(values)) == 1) is same:
            out.append((name, values[:1] if same else values))
    return out


def _skips(sides: Sequence[Side]) -> list[tuple[str, str, str]]:
    """What was not measured: its name, why, and in which sides."""
    where: dict[tuple[str, str], list[str]] = {}
    for side in sides:
        for tool, reason in side.skipped.items():
            where.setdefault((tool, reason), []).append(side.name)
        for (tool, name), reason in side.absent.items():
            where.setdefault((f"{tool} {name}", reason), []).append(side.name)
    return [(what, reason, ", ".join(names)) for (what, reason), names in sorted(where.items())]
