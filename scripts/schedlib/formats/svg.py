# SPDX-License-Identifier: GPL-2.0
"""The one writer of pictures of cache lines: objects below each other, a row for each line, a cell for each field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

_ROW, _WIDTH, _LEFT, _TEXT = 20, 960, 76, 11
"""Pixels: height of a row with the gap below it, width of a cache line, width of the label left of it, font size."""

_NARROW = 6.2
"""Width of a letter in pixels: a name that does not fit its cell is cut."""

_STYLE = (
    f".t{{font:bold {_TEXT + 2}px sans-serif}}.l{{font:{_TEXT}px monospace;fill:#555}}"
    f".n{{font:{_TEXT}px monospace}}.c,.k{{stroke:#777;stroke-width:.6}}.h{{fill:#fff;stroke:#bbb;stroke-width:.6}}"
)


@dataclass(frozen=True)
class Cell:
    """A field on a line.

    Attributes:
        start, size: bytes, within the line.
        about: the text that is shown while the mouse is over the cell.
        colour: as `#rrggbb`.
    """

    start: int
    size: int
    name: str
    about: str
    colour: str


@dataclass(frozen=True)
class DrawnLine:
    """A line.

    Attributes:
        number: where numbers are not consecutive, dots show that lines are left out.
        label: text left of it.
        note: text right of it.
    """

    number: int
    label: str
    cells: tuple[Cell, ...]
    note: str = ""


@dataclass(frozen=True)
class DrawnObject:
    """An object.

    Attributes:
        line: bytes of a line.
    """

    heading: str
    line: int
    lines: tuple[DrawnLine, ...]


@dataclass(frozen=True)
class Key:
    """What the colours mean.

    Attributes:
        colours: each with its meaning.
        step: pixels from one to the next.
        about: text after the colours.
    """

    colours: tuple[tuple[str, str], ...]
    step: int
    about: str = ""


def picture(objects: Sequence[DrawnObject], key: Key, notes: int = 8) -> str:
    """The SVG. It is well-formed whatever the names and paths contain.

    Args:
        notes: pixels right of the lines.
    """
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
            parts += _line(line, each.line, top)
            top += _ROW
            previous = line.number
        top += 12
    parts += _key(key, top)
    width, height = _LEFT + _WIDTH + notes, top + 26
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f'<style>{_STYLE}</style>\n<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _plain(text: str) -> str:
    """Text without the characters that XML cannot represent: a path may have any byte."""
    return escape("".join(letter if letter.isprintable() else "?" for letter in text))


def _text(x: float, y: int, kind: str, text: str) -> str:
    return f'<text x="{x:g}" y="{y}" class="{kind}">{_plain(text)}</text>'


def _line(line: DrawnLine, size: int, top: int) -> Iterator[str]:
    yield _text(0, top + 14, "l", line.label)
    yield f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{_ROW - 2}" class="h"/>'
    for cell in line.cells:
        x, width = _LEFT + cell.start * _WIDTH / size, cell.size * _WIDTH / size
        yield (
            f'<g><title>{_plain(cell.about)}</title><rect x="{x:.1f}" y="{top}" width="{width:.1f}" '
            f'height="{_ROW - 2}" fill={quoteattr(cell.colour)} class="c"/>'
            f"{_text(x + 2, top + 13, 'n', cell.name[: int(width / _NARROW)])}</g>"
        )
    if line.note:
        yield _text(_LEFT + _WIDTH + 8, top + 13, "l", line.note)


def _key(key: Key, top: int) -> Iterator[str]:
    for number, (colour, meaning) in enumerate(key.colours):
        x = _LEFT + number * key.step
        yield f'<rect x="{x}" y="{top}" width="14" height="14" fill={quoteattr(colour)} class="k"/>'
        yield _text(x + 20, top + 11, "n", meaning)
    if key.about:
        yield _text(_LEFT + len(key.colours) * key.step + 20, top + 11, "n", key.about)
