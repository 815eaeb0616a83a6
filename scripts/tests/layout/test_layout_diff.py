# SPDX-License-Identifier: GPL-2.0
"""Two layouts are compared: what moved, which rules changed, exact figures, and pictures that are well-formed."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
import toys
from msgspec import to_builtins
from toys import clause, layout, rules_of, structure, toy

from golden import Golden
from schedlib.formats.contract_file import ClauseKind
from schedlib.layout.compile import Group
from schedlib.layout.layout_diff import (
    ChangedRule,
    LayoutDiffDocument,
    MovedMember,
    compare,
    draw,
    groups,
    lines_touched,
    text,
)
from schedlib.layout.rule_judge import Layout, RuleOutcome

pytestmark = pytest.mark.tools

RULES = rules_of(clause(ClauseKind.APART, "a b"))
BEFORE = layout(structure("rq", 120, ("a", 0, 8), ("b", 64, 8), ("gone", 72, 8)))
AFTER = layout(structure("rq", 200, ("a", 0, 8), ("b", 56, 8), ("new", 128, 8)))


def metrics(difference: LayoutDiffDocument) -> dict[str, tuple[int | None, int | None]]:
    """The figures by name."""
    return {metric.name: (metric.before, metric.value) for metric in difference.metrics}


def test_difference() -> None:
    found = compare(RULES, BEFORE, AFTER)
    assert found.moved == (MovedMember("rq.b", 1, 0), MovedMember("rq.gone", 1, None), MovedMember("rq.new", None, 2))
    assert found.rules == (ChangedRule("x.R1", RuleOutcome.PASS, RuleOutcome.FAIL),)
    figures = metrics(found)
    assert (figures["rq size"], figures["rq lines"]) == ((120, 200), (2, 4))
    assert figures["rq holes"] == (120 - 24, 200 - 24)
    assert figures["cpupri size"] == figures["cpupri holes"] == (None, None)
    first = {"name": "rq size", "unit": "bytes", "direction": "lower", "kind": "exact", "n": 1}
    assert to_builtins(found.metrics[0]) == first | {"before": 120, "value": 200}


def test_no_difference() -> None:
    found = compare(RULES, BEFORE, BEFORE)
    assert (found.moved, found.rules) == ((), ())
    assert all(before == after for before, after in metrics(found).values())
    shifted = layout(structure("rq", 120, ("a", 8, 8), ("b", 96, 8), ("gone", 72, 8)))
    assert compare(RULES, BEFORE, shifted).moved == ()
    assert compare(RULES, BEFORE, replace(shifted, line=32)).moved != ()


def test_the_text(golden: Golden) -> None:
    later = replace(AFTER, name="after", line=128)
    lines = [
        *text(compare(RULES, BEFORE, AFTER), BEFORE, later),
        "",
        *text(compare(RULES, BEFORE, BEFORE), BEFORE, BEFORE),
    ]
    golden("differences.txt", "\n".join([*lines, ""]))


def test_toy_kernel_before_and_after_a_change() -> None:
    found = compare(toys.real_rules(), toy("OLD_RD"), toy())
    moved = {each.member for each in found.moved}
    assert {"root_domain.rto_mask", "root_domain.overloaded"} <= moved
    assert {"root_domain.refcount", "rq.idle"}.isdisjoint(moved)
    assert {each.id for each in found.rules} == {f"rd-lines.R{number}" for number in range(1, 10)}
    assert {(each.before, each.after) for each in found.rules} == {(RuleOutcome.NA, RuleOutcome.PASS)}
    assert metrics(compare(toys.real_rules(), toy(), toy("WIDE")))["load-balance lines touched"] == (1, 2)


def test_groups_of_the_project() -> None:
    assert {group.name for group in groups()} >= {"load-balance", "clock"}
    for group in groups():
        assert all(toys.toy_source().find(group.type, name) for name in group.members), group


@pytest.mark.parametrize(
    ("members", "lines"),
    [(("a", "b"), 1), (("a", "far"), 2), (("wide",), 3), (("gone",), None)],
)
def test_lines_touched(members: tuple[str, ...], lines: int | None) -> None:
    places = (("a", 0, 8), ("b", 8, 8), ("near", 16, 8), ("far", 64, 8), ("wide", 124, 72))
    assert lines_touched(Group("g", "rq", members), layout(structure("rq", 512, *places))) == lines
    assert lines_touched(Group("g", "rq", members), layout()) is None


SVG = "{http://www.w3.org/2000/svg}"
ABOVE = replace(layout(structure("rq", 320, ("idle", 0, 8), ("other", 64, 8), ("clock", 192, 8))), name="before")
BELOW = replace(layout(structure("rq", 320, ("idle", 8, 8), ("other", 72, 8), ("clock", 128, 8))), name="after")


def picture(*layouts: Layout) -> ET.Element:
    """A picture, read by an XML parser."""
    return ET.fromstring(draw(layouts))  # noqa: S314  its own output


def texts(root: ET.Element, kind: str) -> list[str]:
    """The texts of a class, from top to bottom."""
    found = [(int(each.get("y", "0")), each) for each in root.iter(f"{SVG}text") if each.get("class") == kind]
    return [each.text or "" for _, each in sorted(found, key=lambda row: row[0])]


def titles(root: ET.Element) -> list[str]:
    """The titles of the cells."""
    return [each.text or "" for each in root.iter(f"{SVG}title")]


def test_the_picture(golden: Golden) -> None:
    """Before above after; clock, which is on another line, has another colour; dots for lines that are left out."""
    golden("lines.svg", draw([ABOVE, BELOW]))
    # A member across lines has a cell on each of them that is drawn.
    across = layout(structure("rq", 128, ("idle", 60, 8)), structure("cpupri", 64))
    assert titles(picture(across)) == ["idle: offset 60, 8 bytes"]
    assert len(titles(picture(layout(structure("rq", 128, ("idle", 60, 8), ("clock", 72, 8)))))) == 3


def test_hostile_names_are_escaped() -> None:
    name = "<script>alert(\"1\" & '2')</script>]]>"
    root = picture(replace(layout(structure("rq", 64, (name, 0, 64))), name=f"a\x1b\udcff\x00{name}"))
    assert [each.tag for each in root.iter() if "script" in each.tag] == []
    assert titles(root) == [f"{name}: offset 0, 64 bytes"]
    assert texts(root, "t")[0].startswith(f"struct rq, a???{name}: 64 bytes")
    assert titles(picture(replace(ABOVE, structures={}))) == titles(picture()) == []


def test_what_differs_is_drawn_and_all_if_nothing_does() -> None:
    drawn = [
        [head.split()[1].rstrip(",") for head in texts(picture(toy(*old), toy()), "t")] for old in ((), ("OLD_RD",))
    ]
    assert drawn[0] == [tag for tag in ("rq", "root_domain", "cpupri_vec", "cpupri") for _ in range(2)]
    assert drawn[1] == ["root_domain", "root_domain"]
    root = picture(toy("OLD_RD"), toy())
    cells = [title for title in titles(root) if title.startswith("pd:")]
    assert len(cells) == 2 and cells[0] != cells[1]
    names = (int(each.get("y", "0")) for each in root.iter(f"{SVG}text") if each.get("class") == "n")
    assert int(root.get("height", "0")) > max(names)
