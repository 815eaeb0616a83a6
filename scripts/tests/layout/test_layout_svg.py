# SPDX-License-Identifier: GPL-2.0
"""Pictures are well-formed, whatever the names of members and files are. `before` is drawn above `after`."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

from toys import layout, structure, toy

from schedlib.layout.layout_diff import draw
from schedlib.layout.rule_judge import Layout

SVG = "{http://www.w3.org/2000/svg}"
BEFORE = replace(layout(structure("rq", 320, ("idle", 0, 8), ("other", 64, 8), ("clock", 192, 8))), name="before")
AFTER = replace(layout(structure("rq", 320, ("idle", 8, 8), ("other", 72, 8), ("clock", 128, 8))), name="after")


def picture(*layouts: Layout) -> ET.Element:
    """A picture, read by an XML parser."""
    return ET.fromstring(draw(layouts))  # noqa: S314  its own output


def texts(root: ET.Element, kind: str) -> list[tuple[int, str]]:
    """The y position and text of each element of a class."""
    found = root.iter(f"{SVG}text")
    return [(int(each.get("y", "0")), each.text or "") for each in found if each.get("class") == kind]


def titles(root: ET.Element) -> list[str]:
    """The titles of the cells."""
    return [each.text or "" for each in root.iter(f"{SVG}title")]


def test_before_above_after() -> None:
    heads = texts(picture(BEFORE, AFTER), "t")
    assert [text.split(":")[0] for _, text in sorted(heads)] == ["struct rq, before", "struct rq, after"]
    assert [text.split(":")[0] for _, text in sorted(texts(picture(AFTER, BEFORE), "t"))] == [
        "struct rq, after",
        "struct rq, before",
    ]


def test_cells() -> None:
    cells = titles(picture(BEFORE))
    assert cells == ["idle: offset 0, 8 bytes", "other: offset 64, 8 bytes", "clock: offset 192, 8 bytes"]
    fills = [rect.get("fill") for rect in picture(BEFORE, AFTER).iter(f"{SVG}rect") if rect.get("class") == "c"]
    assert len(fills) == 6 and len(set(fills[:5])) == 1 and fills[5] != fills[0], "clock is on another line"
    assert [text for _, text in texts(picture(BEFORE), "l")] == ["0", "64", "...", "192"]


def test_member_across_lines_has_a_cell_on_each() -> None:
    across = layout(structure("rq", 128, ("idle", 60, 8)), structure("cpupri", 64))
    assert titles(picture(across)) == ["idle: offset 60, 8 bytes"]
    both = layout(structure("rq", 128, ("idle", 60, 8), ("clock", 72, 8)))
    assert len(titles(picture(both))) == 3


def test_hostile_names_are_escaped() -> None:
    name = "<script>alert(\"1\" & '2')</script>]]>"
    root = picture(replace(layout(structure("rq", 64, (name, 0, 64))), name=f"a\x1b\udcff\x00{name}"))
    assert [each.tag for each in root.iter() if "script" in each.tag] == []
    assert titles(root) == [f"{name}: offset 0, 64 bytes"]
    assert texts(root, "t")[0][1].startswith(f"struct rq, a???{name}: 64 bytes")
    assert titles(picture(replace(BEFORE, structures={}))) == titles(picture()) == []


def test_equal_structures_are_drawn_when_nothing_differs() -> None:
    heads = [text for _, text in texts(picture(toy(), toy()), "t")]
    assert [head.split()[1].rstrip(",") for head in heads] == [
        tag for tag in ("rq", "root_domain", "cpupri_vec", "cpupri") for _ in range(2)
    ]


def test_toy_kernel() -> None:
    root = picture(toy("OLD_RD"), toy())
    heads = [text for _, text in texts(root, "t")]
    assert [head.split()[1].rstrip(",") for head in heads] == ["root_domain", "root_domain"]
    cells = [text for text in titles(root) if text.startswith("pd:")]
    assert len(cells) == 2 and cells[0] != cells[1]
    assert int(root.get("height", "0")) > max(height for height, _ in texts(root, "n"))
