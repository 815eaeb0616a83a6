# SPDX-License-Identifier: GPL-2.0
"""Write a result as one self-contained HTML file, without scripts. Names from kernels and programs are untrusted."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from schedlib.c2c import heat_map, weighted
from schedlib.c2c.raw import DISTANCES
from schedlib.c2c.traffic_table import (
    field_name,
    function_name,
    line_name,
    middle,
    objects_of,
    spread,
    totals,
)
from schedlib.formats.c2c_document import Counts, TrafficResult, TrafficRow
from schedlib.formats.html_page import rendered
from schedlib.formats.svg import STYLE

_LINES, _ROWS, _MOST = 12, 14, 40
_COUNTS = ("false_shared", "misses", "hitm", "upgrades", "accesses")
_TITLES = ("false sharing", "misses", "HITM", "upgrades", "accesses")


@dataclass(frozen=True)
class RankedTable:
    """A table of the page: the first column is a name, the others are numbers.

    Attributes:
        left_out: rows that are in the JSON alone.
    """

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


@dataclass(frozen=True)
class HotLine:
    """A line of the page: its name, what is said of it, who reads and writes its fields, and its accesses."""

    name: str
    about: str
    users: tuple[str, ...]
    table: RankedTable


def page(result: TrafficResult) -> str:
    """The page. The same result always gives the same page."""
    style = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    fields = [totals(each.rows, field_name) for each in result.quanta]
    functions = [totals(each.rows, function_name) for each in result.quanta]
    return rendered(
        Path(__file__).with_name("c2c_page.html.jinja"),
        found=result,
        chosen=result.parameters,
        quanta=", ".join(str(each.quantum) for each in result.quanta),
        middle=result.quanta[len(result.quanta) // 2].quantum,
        started=result.started.isoformat(" ", "seconds"),
        objects=_ranked("object", [objects_of(each.rows) for each in result.quanta]),
        lines=list(_lines(result)),
        fields=_ranked("field", fields),
        functions=_ranked("function", functions),
        answered=_answered(result),
        weights=[RankedTable((kind, *weighted.TITLES), tuple(rows)) for kind, rows in weighted.tables(result).items()],
        weights_said=weighted.said(result.latencies) if result.latencies else (),
        # The writer of pictures escapes every text.
        picture=Markup(heat_map.draw(result)),  # noqa: S704
        picture_hash=style,
    )


def _ranked(title: str, tables: Sequence[Mapping[str, Counts]]) -> RankedTable:
    """Totals of all quanta, those with the most false sharing first."""
    every = {name: [table.get(name, Counts()) for table in tables] for table in tables for name in table}

    def order(name: str) -> tuple[int, int, str]:
        false, misses = (middle([getattr(counts, what) for counts in every[name]]) for what in _COUNTS[:2])
        return -false, -misses, name

    names = sorted(every, key=order)
    rows = tuple(
        (name, *(spread([getattr(counts, what) for counts in every[name]]) for what in _COUNTS))
        for name in names[:_MOST]
    )
    return RankedTable((title, *_TITLES), rows, max(len(names) - _MOST, 0))


def _lines(result: TrafficResult) -> Iterator[HotLine]:
    """The lines of the middle quantum, those with the most misses first."""
    shown = result.quanta[len(result.quanta) // 2]
    whole = sum(row.counts.misses for row in shown.rows) or 1
    by_line: dict[tuple[str, str, int], list[TrafficRow]] = {}
    for row in shown.rows:
        by_line.setdefault(line_name(row), []).append(row)
    lines = {name: Counts.sum(row.counts for row in rows) for name, rows in by_line.items()}
    for name in sorted(lines, key=lambda name: (-lines[name].misses, name))[:_LINES]:
        counts = lines[name]
        if not counts.misses:
            continue
        owner, prefix, number = name
        about = (
            f"{counts.misses / whole:.1%} of all misses: {counts.misses}, of these {counts.false_shared} by false "
            f"sharing; HITM {counts.hitm}, from another node {counts.remote}, upgrades {counts.upgrades}, "
            f"accesses {counts.accesses}"
        )
        users = tuple(heat_map.hot_fields(by_line[name], counts))
        title = f"{owner}{f' {prefix}' if prefix else ''}, line {number} ({number * result.line:+#x})"
        yield HotLine(title, about, users, _accesses(by_line[name], counts))


def _accesses(rows: Sequence[TrafficRow], line: Counts) -> RankedTable:
    groups = totals(rows, lambda row: (field_name(row), row.offset, row.kind, row.function))
    order = sorted(groups, key=lambda key: (-groups[key].misses, key))
    shown: list[tuple[str, ...]] = []
    for key in order[:_ROWS]:
        counts = groups[key]
        field, offset, kind, function = key
        numbers = (counts.false_shared, counts.hitm, counts.misses, counts.accesses)
        share = f"{counts.misses / line.misses:.1%}"
        shown.append((field, function, kind, f"{offset:#x}", share, *map(str, numbers)))
    titles = ("field", "function", "kind", "offset", "share", "false sharing", "HITM", "misses", "accesses")
    return RankedTable(titles, tuple(shown), max(len(order) - _ROWS, 0))


def _answered(result: TrafficResult) -> RankedTable | None:
    """Where the misses of each object were answered from, if the guest has a topology."""
    if not result.parameters.topology:
        return None
    tables = [objects_of(each.rows) for each in result.quanta]
    rows = []
    for name in sorted({name for table in tables for name in table}):
        every = [table.get(name, Counts()) for table in tables]
        near = (spread([counts.fetched(distance) for counts in every]) for distance in DISTANCES)
        rows.append((name, *near, spread([counts.cold for counts in every])))
    return RankedTable(("object", *DISTANCES, "cold"), tuple(rows))
