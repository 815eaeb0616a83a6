# SPDX-License-Identifier: GPL-2.0
"""Write a comparison as one self-contained HTML file. The content of run files is untrusted."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from schedlib import TOOL
from schedlib.formats.cover_letter import printable
from schedlib.formats.gate_document import Method
from schedlib.gate import boot_series, gate_report, plots
from schedlib.gate.boots import Key, Side
from schedlib.gate.comparison import Comparison
from schedlib.gate.judging import MetricRow
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
    confirmed: bool


def page(found: Comparison, commands: Sequence[str], pictures: Sequence[tuple[str, bytes]]) -> str:
    """The page. The same comparison always gives the same page. `pictures`: names and contents of SVG files."""
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
    sides = [*found.judged_sides, *([found.placebo] if found.placebo else [])]
    return environment.get_template(
        "page.html.jinja"
    ).render(
        css=Markup(css),  # noqa: S704 - ours
        css_hash=b64encode(hashlib.sha256(css.encode()).digest()).decode(),
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


def _clean(value: object) -> object:
    """Replace control characters, lone surrogates and bidirectional marks, before jinja escapes the text."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _means(found: Comparison) -> str:
    """The verdict in words."""
    worse = [
        f"{row.rule.name} {gate_report.change_of(row)}".removesuffix(" -")
        for row in found.rows
        if row.verdict is Verdict.FAIL
    ]
    return _MEANS[found.verdict] + ", ".join(worse if found.verdict is Verdict.FAIL else ())


def _metric(found: Comparison, row: MetricRow, name: str) -> PageMetric:
    rule, points = row.rule, boot_series.points(found, row)
    unit = boot_series.unit_of(row)
    placebo = ""
    if found.placebo:
        equal = rule.method is Method.EQUAL
        placebo = (
            _range(found.placebo, rule.key) if equal else gate_report.number(boot_series.middle(row, points, "placebo"))
        )
    per = "" if rule.method is Method.EQUAL else f" {unit}" if rule.absolute else " %"
    cells = {
        "base": gate_report.number(row.base),
        "candidate": gate_report.number(row.candidate),
        **({"placebo": placebo} if found.placebo else {}),
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
    decides = (
        "equal in every run"
        if rule.method is Method.EQUAL
        else (
            f"method {rule.method.value}; may become worse by {rule.budget:g}{per}; "
            f"a pass excludes {rule.detect:g}{per}"
        )
    )
    return PageMetric(
        row,
        cells,
        {"neither": ""}.get(rule.direction, f"{rule.direction} is better"),
        decides,
        unit,
        drawn,
        any(point.confirms for point in points),
    )


def _range(side: Side, key: Key) -> str:
    """The value of all runs, or the smallest and the largest if they differ."""
    figures = [boot.figures[key] for boot in side.boots if key in boot.figures]
    values = sorted({value for figure in figures for value in (figure.least, figure.most)})
    return " to ".join(map(gate_report.number, values if len(values) < 2 else (values[0], values[-1]))) or "-"


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
