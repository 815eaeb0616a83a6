# SPDX-License-Identifier: GPL-2.0
"""The one writer of pictures of cache lines: objects below each other, a row for each line, a cell for each field."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from xml.sax.saxutils import escape, quoteattr

_ROW, _WIDTH, _LEFT, _TEXT = 20, 960, 76, 11
"""Pixels: height of a row with the gap below it, width of a cache line, width of the label left of it, font size."""

_LETTER, _STEP = 6.7, 13
"""Pixels: width of a letter, and height of a line of text."""

_MOST_STEPS = 4
"""A name that needs more lines in its cell is written below the row, with its number in the cell."""

_BELOW = int(_WIDTH / _LETTER)
"""Letters of a line of text below a row."""

STYLE = (
    f".t{{font:bold {_TEXT + 2}px sans-serif}}.l{{font:{_TEXT}px monospace;fill:#444}}"
    f".n{{font:{_TEXT}px monospace}}.c,.k{{stroke:#777;stroke-width:.6}}.h{{fill:#fff;stroke:#bbb;stroke-width:.6}}"
)
"""The style sheet of every picture. A page with a policy for styles has to allow it by its hash."""


@dataclass(frozen=True)
class Cell:
    """A field on a line.

    Attributes:
        start, size: bytes, within the line.
        name: shown in full: in the cell, or below the row if it has no room there.
        about: shown while the mouse is over the cell; it may have several lines.
        colour: as `#rrggbb`.
    """

    start: int
    size: int
    name: str
    about: str
    colour: str


@dataclass(frozen=True)
class DrawnLine:
    """A line: texts left of it, right of it, and below. Where numbers are not consecutive, dots are drawn."""

    number: int
    label: str
    cells: tuple[Cell, ...]
    note: str = ""
    below: tuple[str, ...] = ()


@dataclass(frozen=True)
class DrawnObject:
    """An object, with lines of so many bytes."""

    heading: str
    line: int
    lines: tuple[DrawnLine, ...]


@dataclass(frozen=True)
class Key:
    """Each colour with its meaning, `step` pixels from one to the next; texts behind and below them."""

    colours: tuple[tuple[str, str], ...]
    step: int
    about: str = ""
    below: tuple[str, ...] = ()


_PLAIN, _HOT = (250, 250, 250), (203, 24, 29)


def shade(share: float) -> str:
    """A colour from plain to hot; the square root keeps the smaller shares visible."""
    weight = min(max(share, 0.0), 1.0) ** 0.5
    red, green, blue = (round(low + (high - low) * weight) for low, high in zip(_PLAIN, _HOT, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


def by_line(cells: Iterable[Cell], size: int) -> dict[int, tuple[Cell, ...]]:
    """Cells whose starts count from the object's first byte, on lines of so many bytes; some are on several."""
    found: dict[int, tuple[Cell, ...]] = {}
    for cell in cells:
        end = cell.start + cell.size
        for number in range(cell.start // size, (end - 1) // size + 1):
            first = max(cell.start, number * size)
            part = replace(cell, start=first - number * size, size=min(end, (number + 1) * size) - first)
            found[number] = (*found.get(number, ()), part)
    return found


def picture(objects: Sequence[DrawnObject], key: Key, notes: int = 8) -> str:
    """The SVG, well-formed whatever names and paths contain, with so many pixels for notes right of the lines."""
    parts: list[str] = []
    top = 8
    for each in objects:
        parts.append(_text(0, top + 14, "t", each.heading))
        top += _ROW + 2
        previous = -1
        for line in each.lines:
            if line.number != previous + 1:
                parts.append(_text(_LEFT, top + 10, "l", "..."))
                top += 14
            drawn, height = _line(line, each.line, top)
            parts += drawn
            top += height
            previous = line.number
        top += 12
    for number, (colour, meaning) in enumerate(key.colours):
        x = _LEFT + number * key.step
        parts.append(f'<rect x="{x}" y="{top}" width="14" height="14" fill={quoteattr(colour)} class="k"/>')
        parts.append(_text(x + 20, top + 11, "n", meaning))
    if key.about:
        parts.append(_text(_LEFT + len(key.colours) * key.step + 20, top + 11, "n", key.about))
    parts += [_text(_LEFT, top + 28 + _STEP * number, "l", text) for number, text in enumerate(key.below)]
    width, height = _LEFT + _WIDTH + notes, top + 26 + _STEP * len(key.below)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f'<style>{STYLE}</style>\n<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def beside(pictures: Sequence[tuple[str, str]]) -> str:
    parts, left, most = [], 0, 0
    for heading, each in pictures:
        width, height = map(int, re.findall(r'(?:width|height)="(\d+)"', each)[:2])
        parts += [_text(left + 8, 16, "t", heading), each.replace("<svg ", f'<svg x="{left}" y="22" ', 1)]
        left, most = left + width, max(most, height + 22)
    size = f'width="{left}" height="{most}" viewBox="0 0 {left} {most}"'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{ground}\n' + "\n".join(parts) + "</svg>\n"


def _plain(text: str) -> str:
    """Text without the characters that XML cannot represent: a path may have any byte."""
    return escape("".join(letter if letter.isprintable() else "?" for letter in text))


def _text(x: float, y: int, kind: str, text: str, ink: str = "") -> str:
    fill = f' fill="{ink}"' if ink else ""
    return f'<text x="{x:g}" y="{y}" class="{kind}"{fill}>{_plain(text)}</text>'


def _ink(colour: str) -> str:
    """What can be read best on a colour: white or black, by the luminance of WCAG."""
    found = re.fullmatch(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})", colour)
    red, green, blue = ((int(part, 16) / 255) ** 2.2 for part in (found.groups() if found else ("ff",) * 3))
    return "#fff" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.179 else "#000"


def _wrapped(name: str, width: float) -> list[str]:
    """The lines of a name in a cell, broken behind a dot, bracket or underscore if possible; none if it has no room."""
    room = int((width - 4) / _LETTER)
    lines: list[str] = []
    while name and room >= 3 and len(lines) <= _MOST_STEPS:
        cut = room
        if len(name) > room:
            places = [at + 1 for at in range(2, room) if name[at] in "._]"]
            cut = places[-1] if places else room
        lines.append(name[:cut])
        name = name[cut:]
    return lines if not name and len(lines) <= _MOST_STEPS else []


def _line(line: DrawnLine, size: int, top: int) -> tuple[list[str], int]:
    widths = [cell.size * _WIDTH / size for cell in line.cells]
    names = [_wrapped(cell.name, width) for cell, width in zip(line.cells, widths, strict=True)]
    high = _ROW - 2 + _STEP * (max(1, *map(len, names)) - 1 if names else 0)
    parts = [
        _text(0, top + 14, "l", line.label),
        f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{high}" class="h"/>',
    ]
    elsewhere: list[str] = []
    for cell, width, lines in zip(line.cells, widths, names, strict=True):
        x, ink = _LEFT + cell.start * _WIDTH / size, _ink(cell.colour)
        shown = lines
        if not lines:
            number = str(len(elsewhere) + 1)
            elsewhere.append(f"{number}: {cell.name}")
            shown = [number] if len(number) * _LETTER <= width else []
        title = "\n".join(_plain(each) for each in cell.about.split("\n"))
        texts = (_text(round(x + 2, 1), top + 13 + _STEP * row, "n", each, ink) for row, each in enumerate(shown))
        parts.append(
            f'<g><title>{title}</title><rect x="{x:.1f}" y="{top}" width="{width:.1f}" '
            f'height="{high}" fill={quoteattr(cell.colour)} class="c"/>{"".join(texts)}</g>'
        )
    if line.note:
        parts.append(_text(_LEFT + _WIDTH + 8, top + 13, "l", line.note))
    height = high + 2
    for text in (["; ".join(elsewhere)] if elsewhere else []) + list(line.below):
        for row in textwrap.wrap(text, _BELOW, subsequent_indent="    ", break_on_hyphens=False):
            parts.append(_text(_LEFT + 2, top + height + 10, "l", row))
            height += _STEP
    return parts, height + (4 if elsewhere or line.below else 0)
