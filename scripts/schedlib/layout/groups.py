# SPDX-License-Identifier: GPL-2.0
"""Access groups: members that one function touches together, and the others that it touches (configs/layout.toml)."""

from __future__ import annotations

from schedlib.layout.layout_data import Group, layout_data
from schedlib.layout.members import Member, resolve
from schedlib.layout.reads import code_of, touched
from schedlib.layout.rule_judge import Layout
from schedlib.layout.tables import Field


def groups() -> tuple[Group, ...]:
    """Every access group."""
    return tuple(layout_data().group.values())


def _found(group: Group, layout: Layout) -> list[Member]:
    structure = layout.structures.get(group.type)
    members = (structure.member(name) for name in group.members) if structure else ()
    return [member for member in members if member]


def lines_touched(group: Group, layout: Layout) -> int | None:
    """The number of lines that the members of a group are on; None if the structure is not known."""
    lines = {
        line
        for member in _found(group, layout)
        for line in range(layout.line_of(member.offset), layout.line_of(member.last) + 1)
    }
    return len(lines) or None


def place(layout: Layout, tag: str, path: str) -> Field | None:
    """A member, or a member inside of one: as exactly as the structures that are known tell its place."""
    outer = path.partition(".")[0].removesuffix("[0]")
    return resolve(layout.structures, tag, path) or resolve(layout.structures, tag, outer)


def drift(group: Group, source: str, layout: Layout) -> list[tuple[str, int]]:
    """Members that the function touches on other lines, and did not touch when the group was defined.

    Args:
        source: text of the group's file.

    Returns:
        Name and line of each.
    """
    paths = touched(code_of({group.file: source}), group.function, group.type, depth=0) or {}
    home = {layout.line_of(member.offset) for member in _found(group, layout)}
    places = {path: place(layout, group.type, path) for path in paths if path not in (*group.members, *group.also)}
    found = [(path, layout.line_of(field.offset)) for path, field in places.items() if field]
    return [(path, line) for path, line in found if line not in home]
