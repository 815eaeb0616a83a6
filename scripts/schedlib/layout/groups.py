# SPDX-License-Identifier: GPL-2.0
"""Members that one function touches together, and what it touches beside them (configs/layout.toml)."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache

from schedlib.layout.members import Member
from schedlib.layout.rule_judge import Layout
from schedlib.paths import CONFIGS


@dataclass(frozen=True)
class Group:
    """An access group.

    Attributes:
        name: "load-balance".
        function, file: who touches the members, and where.
        type: tag of the structure.
        members: that should be together.
        also: what the function touched beside them when they were grouped.
    """

    name: str
    function: str
    file: str
    type: str
    members: tuple[str, ...]
    also: tuple[str, ...]


@cache
def groups() -> tuple[Group, ...]:
    """Every access group."""
    rows = tomllib.loads((CONFIGS / "layout.toml").read_text())["group"]
    return tuple(
        Group(name, row["function"], row["file"], row["type"], tuple(row["members"]), tuple(row["also"]))
        for name, row in rows.items()
    )


def _found(group: Group, layout: Layout) -> list[Member]:
    structure = layout.structures.get(group.type)
    members = (structure.member(name) for name in group.members) if structure else ()
    return [member for member in members if member]


def lines_touched(group: Group, layout: Layout) -> int | None:
    """How many lines the members of a group lie on; None where the structure is not known."""
    lines = {
        line
        for member in _found(group, layout)
        for line in range(layout.line_of(member.offset), layout.line_of(member.last) + 1)
    }
    return len(lines) or None


def drift(group: Group, source: str, layout: Layout) -> list[tuple[str, int]]:
    """Members that the function touches on other lines, and did not when its members were grouped.

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
