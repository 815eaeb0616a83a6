# SPDX-License-Identifier: GPL-2.0
"""A heat map of the lines of objects: a row for each line, fields as cells, the darker the more false sharing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from schedlib.c2c.document import Result, Watched
from schedlib.c2c.kernel_map import Field
from schedlib.c2c.raw import Counts
from schedlib.c2c.traffic_table import Row, totals
from schedlib.layout.layout_svg import plain_text

_ROW, _WIDTH, _LEFT, _RIGHT, _TEXT = 20, 960, 76, 250, 11
_NARROW = 6.2
"""Pixels that a letter takes: a name that does not fit its cell is cut."""
_PLAIN, _HOT = (250, 250, 250), (203, 24, 29)
_MOST_LINES = 40


def _colour(share: float) -> str:
    """From plain to hot; the square root keeps the smaller ones visible."""
    weight = min(max(share, 0.0), 1.0) ** 0.5
    red, green, blue = (round(low + (high - low) * weight) for low, high in zip(_PLAIN, _HOT, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


def draw(result: Result) -> str:
    """The structures of a result, in the guest of the middle quantum."""
    shown = result.quanta[len(result.quanta) // 2]
    table = [row for row in shown.rows if not row.place.neighbour and not row.place.prefix]
    whole = [watched for watched in result.watched if watched.fields and not watched.prefix]
    hottest = max((counts.false_shared for counts in _cells(table).values()), default=0)
    parts: list[str] = []
    top = 8
    for watched in whole:
        rows = [row for row in table if row.place.owner == watched.owner]
        pieces, top = _object(result, watched, rows, hottest, top)
        parts += pieces
    parts += _key(hottest, top)
    style = (
        f".t{{font:bold {_TEXT + 2}px sans-serif}}.l{{font:{_TEXT}px monospace;fill:#555}}"
        f".n{{font:{_TEXT}px monospace}}.c{{stroke:#999;stroke-width:.5}}.h{{fill:#fff;stroke:#bbb;stroke-width:.6}}"
    )
    width, height = _LEFT + _WIDTH + _RIGHT, top + 26
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f'<style>{style}</style>\n<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _cells(table: Sequence[Row]) -> Mapping[tuple[str, str], Counts]:
    return totals(table, lambda row: (row.place.owner, row.place.path))


def _object(result: Result, watched: Watched, rows: Sequence[Row], hottest: int, top: int) -> tuple[list[str], int]:
    cells = {path: counts for (_, path), counts in _cells(rows).items()}
    lines = totals(rows, lambda row: row.place.line)
    skew = watched.skews[0]
    about = f"{watched.owner}: {watched.size} bytes, {watched.number} of it"
    if len(watched.skews) > 1 or skew:
        about += f", begins {', '.join(map(str, watched.skews))} bytes into a line"
    parts = [f'<text x="0" y="{top + 14}" class="t">{plain_text(about)}</text>']
    top += _ROW + 2
    kept = sorted(sorted(lines, key=lambda number: (-lines[number].misses, number))[:_MOST_LINES])
    previous = -1
    for number in kept:
        if number != previous + 1:
            parts.append(f'<text x="{_LEFT}" y="{top + 10}" class="l">...</text>')
            top += 14
        start = number * result.line - skew
        parts += _line(start, result.line, watched.fields, cells, hottest, top)
        counts = lines[number]
        said = f"{counts.false_shared} of {counts.misses} misses false"
        parts.append(f'<text x="{_LEFT + _WIDTH + 8}" y="{top + 13}" class="l">{plain_text(said)}</text>')
        top += _ROW
        previous = number
    return parts, top + 12


def _line(
    start: int, size: int, fields: Sequence[Field], cells: Mapping[str, Counts], hottest: int, top: int
) -> Iterator[str]:
    yield f'<text x="0" y="{top + 14}" class="l">{start:#x}</text>'
    yield f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{_ROW - 2}" class="h"/>'
    end = start
    for field in fields:
        # Of a union's fields the first one is drawn.
        first, last = max(field.offset, end), min(field.offset + field.size, start + size)
        if first >= last:
            continue
        end = last
        counts = cells.get(field.path, Counts())
        x = _LEFT + (first - start) * _WIDTH / size
        width = (last - first) * _WIDTH / size
        about = (
            f"{field.path}: offset {field.offset}, {field.size} bytes, {counts.false_shared} false sharing of "
            f"{counts.misses} misses, {counts.accesses} accesses"
        )
        colour = _colour(counts.false_shared / hottest if hottest else 0.0)
        yield (
            f'<g><title>{plain_text(about)}</title><rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{_ROW - 2}" '
            f'fill="{colour}" class="c"/>'
        )
        name = plain_text(field.path[: int(width / _NARROW)])
        yield f'<text x="{x + 2:.1f}" y="{top + 13}" class="n">{name}</text></g>'


def _key(hottest: int, top: int) -> Iterator[str]:
    for number in range(5):
        x = _LEFT + number * 120
        yield f'<rect x="{x}" y="{top}" width="14" height="14" fill="{_colour(number / 4)}" class="c"/>'
        yield f'<text x="{x + 20}" y="{top + 11}" class="n">{round(hottest * number / 4)}</text>'
    yield f'<text x="{_LEFT + 620}" y="{top + 11}" class="n">misses by pure false sharing of a field</text>'
