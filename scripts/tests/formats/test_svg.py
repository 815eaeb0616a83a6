# SPDX-License-Identifier: GPL-2.0
"""The writer of pictures: the order of rows, dots for omitted lines, and the key to the colours."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from golden import Golden
from schedlib.formats.svg import Cell, DrawnLine, DrawnObject, Key, by_line, picture

SPACE = "{http://www.w3.org/2000/svg}"
LINES = (
    DrawnLine(0, "0x0", (Cell(0, 8, "lock", "lock: offset 0", "#112233"),)),
    DrawnLine(3, "0xc0", (Cell(32, 32, "a_long_name" * 9, "long", '"#'),), "2 of 3"),
)


def test_a_picture_of_one_object(golden: Golden) -> None:
    """A long name has two lines in its cell, broken behind an underscore."""
    golden(
        "object.svg",
        picture([DrawnObject("rq <&>", 64, LINES)], Key((("#fff", "none"), ("#000", "all")), 50, "misses")),
    )


def test_no_name_is_cut_however_small_its_cell_is() -> None:
    names = ("a", "cpupri.pri_to_cpu[0].count", "x" * 300, "an_unbroken_name", "wide.enough")
    for size in (64, 256):
        cells = tuple(Cell(8 * at, at + 1, name, name, "#112233") for at, name in enumerate(names))
        drawn = picture([DrawnObject("o", size, (DrawnLine(0, "0x0", cells, below=("read by f",)),))], Key((), 1))
        root = ET.fromstring(drawn)  # noqa: S314 - ours
        told = "".join((each.text or "").strip() for each in root.iter(f"{SPACE}text"))
        assert [name for name in names if name not in told.replace(" ", "")] == []
        assert "read by f" in told
        # Nothing lies below the picture's end.
        places = [int(each.get("y", "0")) for each in root.iter(f"{SPACE}text")]
        assert max(places) < int(root.get("height", "0"))


def test_a_title_keeps_its_lines_and_nothing_else_that_is_not_printable() -> None:
    line = DrawnLine(0, "0", (Cell(0, 8, "a", "one <&>\ntwo\x07", "#112233"),))
    root = ET.fromstring(picture([DrawnObject("o", 64, (line,))], Key((), 1)))  # noqa: S314 - ours
    assert [each.text for each in root.iter(f"{SPACE}title")] == ["one <&>\ntwo?"]


def test_text_can_be_read_on_its_colour() -> None:
    cells = (Cell(0, 8, "dark", "", "#cb181d"), Cell(8, 8, "light", "", "#fafafa"))
    root = ET.fromstring(picture([DrawnObject("o", 64, (DrawnLine(0, "0", cells),))], Key((), 1)))  # noqa: S314 - ours
    inks = {each.text: each.get("fill") for each in root.iter(f"{SPACE}text") if each.get("fill")}
    assert inks == {"dark": "#fff", "light": "#000"}


def test_a_field_on_two_lines_is_drawn_on_both() -> None:
    """It was drawn beyond the edge of the first."""
    cells = [Cell(0, 8, "lock", "", "#112233"), Cell(56, 16, "list", "", "#112233")]
    found = {number: [(each.name, each.start, each.size) for each in its] for number, its in by_line(cells, 64).items()}
    assert found == {0: [("lock", 0, 8), ("list", 56, 8)], 1: [("list", 0, 8)]}
