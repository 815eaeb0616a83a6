# SPDX-License-Identifier: GPL-2.0
"""Pictures of layouts: one row for each cache line, members as cells, access groups in colour, before above after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedlib.contracts.contract_rules import our_rules
from schedlib.formats.svg import Cell, DrawnLine, DrawnObject, Key, picture
from schedlib.layout.groups import groups
from schedlib.layout.rule_judge import Layout

_COLOURS = {"load-balance": "#9ecae1", "idle": "#9ecae1", "clock": "#a1d99b"}
_PLAIN, _SHARED = "#eeeeee", "#fdae6b"
_KEY = Key(tuple((_COLOURS[name], f"{name} group") for name in ("load-balance", "clock")), 200)


def _colour(tag: str, name: str) -> str:
    for group in groups():
        if group.type == tag and name in group.members:
            return _COLOURS.get(group.name, _SHARED)
    return _PLAIN


def lines_to_draw(tag: str, layouts: Sequence[Layout]) -> list[int]:
    """Lines on which, in any of the layouts, a member begins that a rule or a group names."""
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


def _cells(tag: str, line: int, layout: Layout) -> Iterator[Cell]:
    """The members on one line."""
    start, end = line * layout.line, (line + 1) * layout.line
    for member in layout.structures[tag].members:
        first, last = max(member.offset, start), min(member.offset + member.size, end)
        if first < last:
            about = f"{member.name}: offset {member.offset}, {member.size} bytes"
            yield Cell(first - start, last - first, member.name, about, _colour(tag, member.name))


def _object(tag: str, layout: Layout, lines: Sequence[int]) -> DrawnObject:
    size = layout.types[tag].size
    heading = f"struct {tag}, {layout.name}: {size} bytes, {layout.lines(size)} lines of {layout.line}"
    shown = (line for line in lines if line * layout.line < size)
    drawn = (DrawnLine(line, str(line * layout.line), tuple(_cells(tag, line, layout))) for line in shown)
    return DrawnObject(heading, layout.line, tuple(drawn))


def draw(layouts: Sequence[Layout]) -> str:
    """One picture of the structures that differ, or of all if none differs; later layouts below earlier ones."""
    differing = [tag for tag in our_rules().types() if len({layout.structures.get(tag) for layout in layouts}) > 1]
    objects = [
        _object(tag, layout, lines_to_draw(tag, layouts))
        for tag in differing or our_rules().types()
        for layout in layouts
        if tag in layout.structures
    ]
    return picture(objects, _KEY)
