# SPDX-License-Identifier: GPL-2.0
"""The writer of pictures: the order of rows, dots for omitted lines, and the key to the colours."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from schedlib.formats.svg import Cell, DrawnLine, DrawnObject, Key, picture

SPACE = "{http://www.w3.org/2000/svg}"
LINES = (
    DrawnLine(0, "0x0", (Cell(0, 8, "lock", "lock: offset 0", "#112233"),)),
    DrawnLine(3, "0xc0", (Cell(32, 32, "a_long_name" * 9, "long", '"#'),), "2 of 3"),
)


def test_a_picture_of_one_object() -> None:
    drawn = picture([DrawnObject("rq <&>", 64, LINES)], Key((("#fff", "none"), ("#000", "all")), 50, "misses"))
    root = ET.fromstring(drawn)  # noqa: S314 - ours
    told = [each.text for each in root.iter(f"{SPACE}text")]
    cut = ("a_long_name" * 9)[:77]
    assert told == ["rq <&>", "0x0", "lock", "...", "0xc0", cut, "2 of 3", "none", "all", "misses"]
    cells = [each.attrib for each in root.iter(f"{SPACE}rect") if each.get("class") == "c"]
    assert [(each["x"], each["width"], each["fill"]) for each in cells] == [
        ("76.0", "120.0", "#112233"),
        ("556.0", "480.0", '"#'),
    ]
