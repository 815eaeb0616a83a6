# SPDX-License-Identifier: GPL-2.0
"""A heat map of objects: a row for each cache line, a cell for each field; darker means more false sharing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from schedlib.c2c.traffic_table import totals
from schedlib.formats.c2c_document import Counts, MappedField, TrafficResult, TrafficRow, Watched
from schedlib.formats.svg import Cell, DrawnLine, DrawnObject, Key, picture

_PLAIN, _HOT = (250, 250, 250), (203, 24, 29)
_MOST_LINES = 40
_NOTES = 250
"""Pixels for the notes to the right of a line."""


def _colour(share: float) -> str:
    """From plain to hot; the square root keeps the smaller ones visible."""
    weight = min(max(share, 0.0), 1.0) ** 0.5
    red, green, blue = (round(low + (high - low) * weight) for low, high in zip(_PLAIN, _HOT, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


def draw(result: TrafficResult) -> str:
    """The structures of a result, in the guest of the middle quantum."""
    shown = result.quanta[len(result.quanta) // 2]
    table = [row for row in shown.rows if not row.neighbour and not row.prefix]
    whole = [watched for watched in result.watched if watched.fields and not watched.prefix]
    cells = totals(table, lambda row: (row.owner, row.path))
    hottest = max((counts.false_shared for counts in cells.values()), default=0)
    objects = [
        _object(result, watched, [row for row in table if row.owner == watched.owner], hottest) for watched in whole
    ]
    shades = tuple((_colour(number / 4), str(round(hottest * number / 4))) for number in range(5))
    return picture(objects, Key(shades, 120, "misses by pure false sharing of a field"), _NOTES)


def _object(result: TrafficResult, watched: Watched, rows: Sequence[TrafficRow], hottest: int) -> DrawnObject:
    cells = totals(rows, lambda row: row.path)
    lines = totals(rows, lambda row: row.line)
    skew = watched.skews[0]
    about = f"{watched.owner}: {watched.size} bytes, {watched.number} instances"
    if len(watched.skews) > 1 or skew:
        about += f", begins {', '.join(map(str, watched.skews))} bytes into a line"
    drawn = []
    for number in sorted(sorted(lines, key=lambda number: (-lines[number].misses, number))[:_MOST_LINES]):
        start = number * result.line - skew
        said = f"{lines[number].false_shared} of {lines[number].misses} misses false"
        fields = tuple(_fields(start, result.line, watched.fields, cells, hottest))
        drawn.append(DrawnLine(number, f"{start:#x}", fields, said))
    return DrawnObject(about, result.line, tuple(drawn))


def _fields(
    start: int, size: int, fields: Sequence[MappedField], cells: Mapping[str, Counts], hottest: int
) -> Iterator[Cell]:
    """The fields on one line; of a union, only the first field is drawn."""
    end = start
    for field in fields:
        first, last = max(field.offset, end), min(field.offset + field.size, start + size)
        if first >= last:
            continue
        end = last
        counts = cells.get(field.path, Counts())
        about = (
            f"{field.path}: offset {field.offset}, {field.size} bytes, {counts.false_shared} false sharing of "
            f"{counts.misses} misses, {counts.accesses} accesses"
        )
        colour = _colour(counts.false_shared / hottest if hottest else 0.0)
        yield Cell(first - start, last - first, field.path, about, colour)
