# SPDX-License-Identifier: GPL-2.0
"""Pictures of docs/ that are drawn from what is recorded in docs/recorded/ and scripts/proof/published/."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from schedlib.c2c import c2c_page
from schedlib.c2c.traffic_report import totals
from schedlib.formats.c2c_document import MappedField, TrafficResult, read_result
from schedlib.formats.svg import Cell, DrawnLine, DrawnObject, Key, picture
from schedlib.paths import PROJECT

RECORDED = PROJECT / "docs/recorded"
PUBLISHED = PROJECT / "scripts/proof/published/rd-lines.toml"

_LINE, _FIRST = 64, 4
_PLAIN, _HOT, _GROUP = (250, 250, 250), (203, 24, 29), "#c6dbef"


def recorded_lines(file: str) -> Iterator[tuple[str, tuple[tuple[int, int, str], ...]]]:
    """The lines of a recorded `layout --struct`: what stands above them, and offset, size and name of each member."""
    about, cells = "", list[tuple[int, int, str]]()
    for row in [*(RECORDED / file).read_text().splitlines(), "--- "]:
        if found := re.match(r" +(\d+) +(\d+)  (\S+)", row):
            if found[3] == "(hole)":
                continue
            cells.append((int(found[1]), int(found[2]), found[3]))
        elif cells:
            yield about, tuple(cells)
            cells.clear()
        if row.startswith("struct "):
            about = row


def first_line() -> str:
    """The first line of struct rq without and with the recorded patch; what the patch adds is red."""
    (_, before), (_, after) = recorded_lines("first-line.txt")
    known = {name for _, _, name in before}
    objects = []
    for about, cells in (("without the patch", before), ("with the patch", after)):
        drawn = tuple(
            Cell(
                start % _LINE,
                size,
                name,
                f"{name}: offset {start}, {size} bytes",
                _GROUP if name in known else _shade(1),
            )
            for start, size, name in _visible(cells)
        )
        objects.append(DrawnObject(f"struct rq, first line, {about}", _LINE, (DrawnLine(0, "0x0", drawn),)))
    key = ((_GROUP, "read by load balancers of all CPUs"), (_shade(1), "new with the patch"))
    return picture(objects, Key(key, 330))


def _visible(cells: Sequence[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """Of members at one offset, the last one."""
    at = {start: (start, size, name) for start, size, name in cells}
    return iter(at.values())


def recorded_show() -> dict[str, TrafficResult]:
    """What `schedline show rd-lines` has counted in the guests of the middle quantum."""
    return {f"{side} rd-lines": read_result(RECORDED / "c2c" / side) for side in ("without", "with")}


def contended() -> str:
    """The lines of struct root_domain that CPUs fetch from each other: on 480 CPUs by perf c2c, and emulated."""
    result = recorded_show()["without rd-lines"]
    # The CPU of the mail reports a line that another one hands over unmodified as HITM, too.
    taken = totals((row for row in result.middle.rows if row.kind != "store" and not row.prefix), lambda row: row.path)
    published = published_hitm(tomllib.loads(PUBLISHED.read_text())["line"])
    first = sorted(published, key=lambda name: -published[name])[:_FIRST]
    sides = {
        "perf c2c on 480 CPUs, as the mail of rd-lines has it": _shares({name: published[name] for name in first}),
        f"schedline c2c on {result.parameters.cpus} emulated CPUs": _shares(
            {name: taken[name].misses - taken[name].cold for name in first}
        ),
    }
    most = max(max(side.values()) for side in sides.values())
    [fields] = (each.fields for each in result.watched if not each.prefix)
    objects = [
        DrawnObject(f"struct root_domain without rd-lines: {about}", _LINE, tuple(_lines(fields, shares, most)))
        for about, shares in sides.items()
    ]
    key = tuple((_shade(part / 4), f"{most * part / 4:.0f} %") for part in range(5))
    about = "of the HITM of these four fields: accesses to a line that another CPU had modified"
    return picture(objects, Key(key, 80, about), 120)


def published_hitm(lines: Sequence[Mapping[str, Any]]) -> Mapping[str, float]:
    """The samples of each field that were HITM in a published output. Of an array it shows the first element."""
    found: dict[str, float] = defaultdict(float)
    for line in lines:
        for row in line["row"]:
            amount = (line["remote"] * row["remote"] + line["local"] * row["local"]) / 100
            found[row["field"].partition(".")[2].replace("[]", "[0]")] += amount
    return found


def _shares(amounts: Mapping[str, float]) -> dict[str, float]:
    return {name: 100 * amount / sum(amounts.values()) for name, amount in amounts.items()}


def _lines(fields: Sequence[MappedField], shares: Mapping[str, float], most: float) -> Iterator[DrawnLine]:
    """The lines on which one of the fields lies. Other fields of a member are drawn as the member."""
    by_line: dict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    for field in fields:
        name = field.path if field.path in shares else re.split(r"[.\[]", field.path)[0]
        for number in range(field.offset // _LINE, (field.offset + field.size - 1) // _LINE + 1):
            first, end = max(field.offset, number * _LINE), min(field.offset + field.size, (number + 1) * _LINE)
            by_line[number][name] = by_line[number].get(name, (first, end))[0], end
    for number, cells in by_line.items():
        here = {name: shares.get(name, 0.0) for name in cells}
        drawn = tuple(
            Cell(first % _LINE, end - first, name, f"{name}: {here[name]:.1f} %", _shade(here[name] / most))
            for name, (first, end) in cells.items()
        )
        if any(here.values()):
            yield DrawnLine(number, f"{number * _LINE:#x}", drawn, f"{sum(here.values()):.0f} % of the HITM")


def _shade(share: float) -> str:
    """From plain to hot; the square root keeps the smaller ones visible."""
    red, green, blue = (round(low + (high - low) * share**0.5) for low, high in zip(_PLAIN, _HOT, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


PICTURES: Mapping[str, Callable[[], str]] = {
    "first-line.svg": first_line,
    "contended.svg": contended,
    "rd-lines.svg": lambda: c2c_page.both(recorded_show()),
}
"""By their names in docs/."""
