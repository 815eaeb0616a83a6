# SPDX-License-Identifier: GPL-2.0
"""Pictures of layouts: one row for each cache line, members as cells, access groups in colour, before above after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from schedlib.layout.groups import groups
from schedlib.layout.members import STRUCTURES
from schedlib.layout.rule_judge import Layout

_COLOURS = {"load-balance": "#9ecae1", "idle": "#9ecae1", "clock": "#a1d99b"}
_PLAIN, _SHARED = "#eeeeee", "#fdae6b"
_ROW, _WIDTH, _LEFT, _TEXT = 20, 960, 76, 11
_NARROW = 6.2
"""Pixels that a letter takes: a name that does not fit its cell is cut."""


def _colour(tag: str, name: str) -> str:
    for group in groups():
        if group.type == tag and name in group.members:
            return _COLOURS.get(group.name, _SHARED)
    return _PLAIN


def plain_text(value: str) -> str:
    """Text without what XML cannot hold: a path may have any byte."""
    return escape("".join(letter if letter.isprintable() else "?" for letter in value))


def lines_to_draw(tag: str, layouts: Sequence[Layout]) -> list[int]:
    """Lines on which something named by a rule or a group begins in any of the layouts."""
    wanted: set[int] = set()
    names = {member for group in groups() if group.type == tag for member in group.members}
    for layout in layouts:
        names |= {name.split(".")[0] for kind, name in layout.fields if kind == tag}
    for layout in layouts:
        structure = layout.structures.get(tag)
        for member in structure.members if structure else ():
            if member.name in names:
                wanted.add(layout.line_of(member.offset))
    return sorted(wanted)


def _row(tag: str, line: int, layout: Layout, top: int) -> Iterator[str]:
    """The cells of one line."""
    start, end = line * layout.line, (line + 1) * layout.line
    yield f'<text x="0" y="{top + 14}" class="l">{start}</text>'
    yield f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{_ROW - 2}" class="h"/>'
    for member in layout.structures[tag].members:
        first, last = max(member.offset, start), min(member.offset + member.size, end)
        if first >= last:
            continue
        x = _LEFT + (first - start) * _WIDTH / layout.line
        width = (last - first) * _WIDTH / layout.line
        place = f"{member.name}: offset {member.offset}, {member.size} bytes"
        yield (
            f'<g><title>{plain_text(place)}</title><rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{_ROW - 2}" '
            f'fill={quoteattr(_colour(tag, member.name))} class="c"/>'
        )
        name = member.name[: int(width / _NARROW)]
        yield f'<text x="{x + 2:.1f}" y="{top + 13}" class="n">{plain_text(name)}</text></g>'


def draw(layouts: Sequence[Layout]) -> str:
    """One picture of the structures that differ, or else of all, in all layouts; later ones below earlier ones."""
    parts: list[str] = []
    top = 8
    differing = [tag for tag in STRUCTURES if len({layout.structures.get(tag) for layout in layouts}) > 1]
    for tag in differing or STRUCTURES:
        lines = lines_to_draw(tag, layouts)
        for layout in layouts:
            if tag not in layout.structures:
                continue
            size = layout.types[tag].size
            head = f"struct {tag}, {layout.name}: {size} bytes, {layout.lines(size)} lines of {layout.line}"
            parts.append(f'<text x="0" y="{top + 14}" class="t">{plain_text(head)}</text>')
            top += _ROW + 2
            previous = -1
            for line in lines:
                if line * layout.line >= size:
                    continue
                if line != previous + 1:
                    parts.append(f'<text x="{_LEFT}" y="{top + 10}" class="l">...</text>')
                    top += 14
                parts += _row(tag, line, layout, top)
                top += _ROW
                previous = line
            top += 12
    keys = "".join(
        f'<rect x="{_LEFT + number * 200}" y="{top}" width="14" height="14" fill="{_COLOURS[name]}"/>'
        f'<text x="{_LEFT + number * 200 + 20}" y="{top + 11}" class="n">{name} group</text>'
        for number, name in enumerate(("load-balance", "clock"))
    )
    style = (
        f".t{{font:bold {_TEXT + 2}px sans-serif}}.l{{font:{_TEXT}px monospace;fill:#555}}"
        f".n{{font:{_TEXT}px monospace}}.c{{stroke:#666;stroke-width:.6}}.h{{fill:#fff;stroke:#bbb;stroke-width:.6}}"
    )
    width, height = _LEFT + _WIDTH + 8, top + 26
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f'<style>{style}</style>\n<rect width="100%" height="100%" fill="#fff"/>\n'
        + "\n".join(parts)
        + f"\n{keys}\n</svg>\n"
    )
