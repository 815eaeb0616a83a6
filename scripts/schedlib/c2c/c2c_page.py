# SPDX-License-Identifier: GPL-2.0
"""A result as a picture of its lines, and as one self-contained HTML file around it, without scripts.

The picture has a row for each cache line and a cell for each field; darker means more false sharing. Names from kernels
and programs are untrusted.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from schedlib.c2c.traffic_report import (
    Section,
    function_name,
    grouped,
    most_missed,
    sections,
    totals,
    with_what_lies_beside,
)
from schedlib.formats.c2c_document import Counts, MappedField, TrafficResult, TrafficRow, Watched
from schedlib.formats.svg import STYLE, Cell, DrawnLine, DrawnObject, Key, beside, by_line, shade
from schedlib.formats.svg import picture as drawn
from schedlib.progress import counted

_MOST_LINES, _MOST_FUNCTIONS = 40, 4
_NOTES = 250
"""Pixels for the notes to the right of a line."""

_HOT_SHARE = 0.1
"""A field is hot if it has this share of its line's misses, or of the copies that are invalidated there."""

_LINE_SHARE = 0.01
"""The hot fields of a line are told if it has this share of the object's misses."""

_MEANING = (
    "A row is a cache line, a cell a field. Its colour is the number of misses on the field by pure false sharing: the",
    "CPU fetched the line only because others wrote to other bytes of it. Right of a line: all its misses, and those",
    "that were false. Below a hot line: who reads and who writes its hot fields, and how often.",
)


def _drawn(result: TrafficResult) -> list[TrafficRow]:
    return [row for row in with_what_lies_beside(result.middle.rows) if not row.prefix]


def both(found: Mapping[str, TrafficResult]) -> str:
    """The pictures of results side by side, each with its name; the same colour means the same number."""
    return beside([(name, picture(each, *found.values(), least=_LINE_SHARE)) for name, each in found.items()])


def picture(result: TrafficResult, *scale: TrafficResult, least: float = 0.0) -> str:
    """The structures of a result, in the guest of the middle quantum, as SVG.

    The field with the most false sharing in `scale` has the darkest colour. A line with less than the share `least` of
    its object's misses is not drawn.
    """
    cells = [totals(_drawn(each), lambda row: (row.owner, row.path)) for each in scale or (result,)]
    hottest = max((counts.false_shared for each in cells for counts in each.values()), default=0)
    rows, objects = _drawn(result), []
    for watched in result.watched:
        if watched.fields and not watched.prefix:
            own = [row for row in rows if row.owner == watched.owner]
            objects.append(_object(result, watched, own, hottest, least))
    shades = tuple((shade(number / 4), str(round(hottest * number / 4))) for number in range(5))
    about = f"misses by pure false sharing, quantum {result.middle.quantum}"
    return drawn(objects, Key(shades, 120, about, _MEANING), _NOTES)


def _object(
    result: TrafficResult, watched: Watched, rows: Sequence[TrafficRow], hottest: int, least: float
) -> DrawnObject:
    by_path = grouped(rows, lambda row: row.path)
    lines = totals(rows, lambda row: row.line)
    whole, skew = sum(counts.misses for counts in lines.values()), watched.skews[0]
    about = f"{watched.owner}: {watched.size} bytes, {counted(watched.number, 'instance')}"
    if len(watched.skews) > 1 or skew:
        about += f", begins {', '.join(map(str, watched.skews))} bytes into a line"
    shown, fields = [], by_line(_cells(watched.fields, skew, by_path, hottest), result.line)
    enough = [number for number in most_missed(lines) if lines[number].misses >= least * whole]
    for number in sorted(enough[:_MOST_LINES]):
        counts, start = lines[number], number * result.line - skew
        on_line = [row for row in rows if row.line == number] if counts.misses >= _LINE_SHARE * whole else []
        hot = tuple(hot_fields(on_line, counts))
        said = f"{counts.false_shared} of {counts.misses} misses false"
        shown.append(DrawnLine(number, f"{start:#x}", fields.get(number, ()), said, hot))
    return DrawnObject(about, result.line, tuple(shown))


def _cells(
    fields: Sequence[MappedField], skew: int, rows: Mapping[str, Sequence[TrafficRow]], hottest: int
) -> Iterator[Cell]:
    """The fields of an object, from the beginning of its first line on; of a union, only the first field is drawn."""
    end = 0
    for field in fields:
        first, end = max(field.offset, end), max(field.offset + field.size, end)
        if first == end:
            continue
        own = rows.get(field.path, ())
        counts = Counts.sum(row.counts for row in own)
        about = (
            f"{field.path}: offset {field.offset}, {field.size} bytes, {counts.false_shared} false sharing of "
            f"{counts.misses} misses, {counts.accesses} accesses"
        )
        colour = shade(counts.false_shared / hottest if hottest else 0.0)
        yield Cell(skew + first, end - first, field.path, "\n".join([about, *users(own)]), colour)


def hot_fields(rows: Sequence[TrafficRow], line: Counts) -> Iterator[str]:
    """For each hot field of a line, the hottest first: who reads and who writes it."""
    here, by_path = totals(rows, lambda row: row.path), grouped(rows, lambda row: row.path)
    for path in most_missed(here):
        counts = here[path]
        misses, sent = counts.misses / (line.misses or 1), counts.invalidated / (line.invalidated or 1)
        if max(misses, sent) >= _HOT_SHARE:
            yield f"{path or '(not known)'}: {counts.misses} misses; {'; '.join(users(by_path[path]))}"


def users(rows: Sequence[TrafficRow]) -> list[str]:
    said = []
    for what, unit in (("read by", "misses"), ("written by", "writes")):
        functions = totals((row for row in rows if (row.kind == "load") == (unit == "misses")), function_name)
        # Of equal ones, those with more accesses come first.
        ranks = sorted(
            (-(each.misses if unit == "misses" else each.accesses), -each.accesses, name)
            for name, each in functions.items()
        )
        shown = [f"{name} ({-number} {unit})" for number, _, name in ranks[:_MOST_FUNCTIONS] if number]
        if left := len(ranks) - len(shown):
            shown.append(counted(left, "other") if shown else f"{counted(left, 'function')}, without {unit}")
        said += [f"{what} {', '.join(shown)}"] if shown else []
    return said


def page(result: TrafficResult, maps: str = "", before: Sequence[Section] = ()) -> str:
    """The page, the same for the same result; with another picture, and with sections before its own, if given."""
    # These libraries are there only if a page is asked for.
    from markupsafe import Markup

    from schedlib.formats.html_page import rendered

    return rendered(
        Path(__file__).with_name("c2c_page.html.jinja"),
        found=result,
        chosen=result.parameters,
        quanta=", ".join(str(each.quantum) for each in result.quanta),
        sections=[*before, *sections(result)],
        # The writer of pictures escapes every text.
        picture=Markup(maps or picture(result)),  # noqa: S704
        picture_hash=b64encode(hashlib.sha256(STYLE.encode()).digest()).decode(),
    )
