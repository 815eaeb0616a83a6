# SPDX-License-Identifier: GPL-2.0
"""Access groups: how many lines a group takes."""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as changed
from toys import layout, structure, toy, toy_source

from schedlib.layout.compile import Group
from schedlib.layout.layout_diff import groups, lines_touched

GROUP = Group("g", "rq", ("a", "b"))
WHERE = layout(structure("rq", 512, ("a", 0, 8), ("b", 8, 8), ("near", 16, 8), ("far", 64, 8), ("also", 128, 8)))


def test_groups_of_the_project() -> None:
    found = groups()
    assert {group.name for group in found} >= {"load-balance", "clock"}
    for group in found:
        assert all(toy_source().find(group.type, name) for name in group.members), group


def test_lines_touched() -> None:
    assert lines_touched(GROUP, WHERE) == 1
    assert lines_touched(changed(GROUP, members=("a", "far")), WHERE) == 2
    assert lines_touched(changed(GROUP, members=("wide",)), layout(structure("rq", 256, ("wide", 60, 72)))) == 3
    assert lines_touched(changed(GROUP, members=("gone",)), WHERE) is None
    assert lines_touched(GROUP, replace(WHERE, structures={})) is None


def test_lines_touched_in_the_toy_kernel() -> None:
    (balance,) = (group for group in groups() if group.name == "load-balance")
    assert lines_touched(balance, toy()) == 1
    assert lines_touched(balance, toy("WIDE")) == 2
