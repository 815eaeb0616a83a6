# SPDX-License-Identifier: GPL-2.0
"""Plots of boots by matplotlib, as SVG that takes its colours from the page: light, dark or printed."""

from __future__ import annotations

import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from io import StringIO
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, Formatter, MaxNLocator, PercentFormatter, StrMethodFormatter

from schedlib.formats.gate_document import BootValue, GateMetric
from schedlib.gate.gate_report import Effect, interval_of, number, per, words_of
from schedlib.progress import printable

_SIZE = (5.0, 3.4)
"""In inches of 72 pixels: as wide as a phone's screen, so that the text keeps its size there."""

_FLAT = (5.0, 1.6)
"""The size of the picture of an interval."""

_FONT = 12
_INK, _GRID = "#000010", "#000011"
_COLOURS = {"base": "#000001", "candidate": "#000002", "placebo": "#000003"}
_LINES = {"base": "solid", "candidate": (0, (5, 2)), "placebo": (0, (1, 1.5))}
_MARKERS = {"base": "o", "candidate": "^", "placebo": "s"}
_CLASSES = {_INK: "ink", _GRID: "grid"} | {colour: name for name, colour in _COLOURS.items()}
_KEPT = ("fill", "opacity", "stroke", "text-anchor")
"""Beginnings of the names of attributes that the page needs: shapes and colours, and no fonts."""
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "schedline",
    "font.size": _FONT,
    "axes.linewidth": 0.8,
    "axes.unicode_minus": True,
    "path.simplify": False,
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color"), _INK),
}
KERNELS = tuple(_COLOURS)
_SVG = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"


def values_of_kernel(found: Sequence[BootValue], kernel: str) -> list[float]:
    """The values of a kernel, in the order of the boots."""
    return [value.value for value in found if value.kernel == kernel]


def interval(name: str, title: str, metric: GateMetric, effect: Effect) -> str:
    """The interval of a change against budget and detect: from better by `detect` to worse by twice `detect`."""
    with style.context(["default", _SETTINGS]):  # ignore any matplotlibrc
        figure, axes = _figure(_FLAT)
        detect = metric.detect
        left, right = -detect, 2 * detect
        for value, line, label in (
            (0.0, "solid", "no change"),
            (metric.budget, (0, (1, 1.5)), "budget"),
            (detect, (0, (5, 2)), "detect"),
        ):
            axes.axvline(value, color=_INK, linewidth=1.2, linestyle=line, label=label)
        colour = _COLOURS["candidate"]
        ends = [min(max(end, left), right) for end in (effect.low, effect.high)]
        axes.plot(ends, [0, 0], color=colour, linewidth=3)
        for end, value in zip((effect.low, effect.high), ends, strict=True):
            beyond = "<" if end < left else ">" if end > right else "|"
            axes.plot([value], [0], color=colour, marker=beyond, markersize=10, markeredgewidth=2, clip_on=False)
        if left <= effect.worse_by <= right:
            axes.plot([effect.worse_by], [0], color=colour, marker=_MARKERS["candidate"], markersize=8)
        axes.set_xlim(left, right)
        axes.set_ylim(-1, 1)
        axes.yaxis.set_visible(False)
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axes.set_xlabel(printable(f"worse by,{per(metric)}; below 0: better")[:48], parse_math=False)
        limits = f"budget {metric.budget:g}{per(metric)}, detect {detect:g}{per(metric)}"
        said = f"{words_of(metric)}; 95 % interval of the change {interval_of(metric)}; {limits}"
        return _drawn(figure, axes, name, title, said)


def ecdf(name: str, title: str, unit: str, points: Sequence[BootValue]) -> str:
    """The share of boots that are at or below each value. `name`: prefix of the ids in the SVG."""
    with style.context(["default", _SETTINGS]):  # ignore any matplotlibrc
        figure, axes = _figure()
        for kernel in KERNELS:
            if values := values_of_kernel(points, kernel):
                axes.ecdf(values, label=kernel, color=_COLOURS[kernel], linestyle=_LINES[kernel], linewidth=2)
        _values_on(axes, "x", [point.value for point in points], unit)
        axes.set_ylabel("share of boots")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        return _drawn(figure, axes, name, title, _described(points, unit))


def by_boot(name: str, title: str, unit: str, points: Sequence[BootValue]) -> str:
    """The values in the order of the boots."""
    with style.context(["default", _SETTINGS]):  # ignore any matplotlibrc
        figure, axes = _figure()
        for kernel in KERNELS:
            if mine := [(place, each.value) for place, each in enumerate(points, 1) if each.kernel == kernel]:
                axes.plot(
                    *zip(*mine, strict=True),
                    label=kernel,
                    color=_COLOURS[kernel],
                    linewidth=0.8,
                    linestyle=_LINES[kernel],
                    marker=_MARKERS[kernel],
                    markersize=6,
                )
        _values_on(axes, "y", [point.value for point in points], unit)
        axes.set_xlabel("boot, in the order of time")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        return _drawn(figure, axes, name, title, _described(points, unit))


def _figure(size: tuple[float, float] = _SIZE) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained")
    figure.patch.set_visible(False)
    axes = figure.add_subplot()
    axes.patch.set_visible(False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _values_on(axes: Axes, which: str, values: Sequence[float], unit: str) -> None:
    """Set ticks at round numbers, and the unit. The unit comes from a run file, so it is not parsed as mathematics."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    largest = max(map(abs, values))
    plain: Formatter = StrMethodFormatter("{x:,.6g}")
    axis.set_major_formatter(plain if largest == 0 or 0.01 <= largest < 1e6 else EngFormatter())
    axis.set_label_text(printable(unit)[:32], parse_math=False)


def _described(points: Sequence[BootValue], unit: str) -> str:
    parts = []
    for kernel in KERNELS:
        if values := values_of_kernel(points, kernel):
            boots = f"{len(values)} boot{'s' * (len(values) > 1)}"
            parts.append(f"{kernel}: {boots}, from {number(min(values))} to {number(max(values))} {unit}")
    return "; ".join(parts)


def _drawn(figure: Figure, axes: Axes, name: str, title: str, description: str) -> str:
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    out = StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the unit may use letters that matplotlib's font lacks
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return _for_page(out.getvalue(), name, title, description)


def _for_page(svg: str, name: str, title: str, description: str) -> str:
    """Matplotlib's SVG without colours, fonts and style attributes, and with ids that are unique in the page."""
    ET.register_namespace("", _SVG)
    root = ET.fromstring(svg)  # noqa: S314 - ours
    for place in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}defs"):
        for child in root.findall(place):
            if child.find(f"{{{_SVG}}}style") is not None or place.endswith("metadata"):
                root.remove(child)
    wanted = set(re.findall(r'(?:url\(|href=")#([^)"]+)', svg))
    for element in root.iter():
        _restyle(element)
        old = element.attrib.pop("id", None)
        if old in wanted:
            element.set("id", f"{name}-{old}")
        if target := element.attrib.pop(_HREF, None):
            element.set("href", f"#{name}-{target[1:]}")
        if clip := element.get("clip-path"):
            element.set("clip-path", clip.replace("url(#", f"url(#{name}-"))
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.attrib |= {
        "class": "plot",
        "role": "img",
        "aria-labelledby": f"{name}-title {name}-desc",
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }
    for tag, text in (("desc", description), ("title", title)):
        told = ET.Element(f"{{{_SVG}}}{tag}", {"id": f"{name}-{tag}"})
        told.text = printable(text)
        root.insert(0, told)
    return ET.tostring(root, encoding="unicode")


def _restyle(element: ET.Element) -> None:
    classes = []
    for declaration in element.attrib.pop("style", "").split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if value in _CLASSES:
            classes.append(f"{key}-{_CLASSES[value]}")
        elif key.startswith(_KEPT):
            element.set(key, value)
    if element.tag == f"{{{_SVG}}}text":
        classes.append("fill-ink")
    if classes:
        element.set("class", " ".join(dict.fromkeys(classes)))
