# SPDX-License-Identifier: GPL-2.0
"""Access groups: members that one function touches together, and the others that it touches (configs/layout.toml)."""

from __future__ import annotations

import re

from schedlib.layout.layout_data import Group, layout_data
from schedlib.layout.members import Member
from schedlib.layout.rule_judge import Layout


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


def drift(group: Group, source: str, layout: Layout) -> list[tuple[str, int]]:
    """Members that the function touches on other lines, and did not touch when the group was defined.

    Args:
        source: text of the group's file.

    Returns:
        Name and line of each.
    """
    start = re.search(rf"^[a-z].*\b{group.function}\([^;]*?\)\n\{{", source, re.M)
    structure = layout.structures.get(group.type)
    if start is None or structure is None:
        return []
    body = source[start.end() : source.find("\n}", start.end())]
    home = {layout.line_of(member.offset) for member in _found(group, layout)}
    names = dict.fromkeys(re.findall(r"\brq->(\w+)", body))
    touched = (structure.member(name) for name in names if name not in (*group.members, *group.also))
    return [
        (member.name, layout.line_of(member.offset))
        for member in touched
        if member and layout.line_of(member.offset) not in home
    ]
