# SPDX-License-Identifier: GPL-2.0
"""A table has its columns where its form says."""

from __future__ import annotations

from schedlib.formats.tables import markdown, table

ROWS = [("metric", "base", "", "verdict"), ("a long name", "1.5", "x", "PASS"), ("b", "12345678", "y", "")]


def test_columns() -> None:
    """They are as wide as their widest cell, or have the form's alignment, least width and blanks."""
    assert table(ROWS) == [
        "metric       base         verdict",
        "a long name  1.5       x  PASS",
        "b            12345678  y",
    ]
    assert table(ROWS, "<4>10 <") == [
        "metric           base   verdict",
        "a long name       1.5 x PASS",
        "b            12345678 y",
    ]
    # The last column of a form is that of all behind it.
    assert table([("a", "b", "c"), ("aa", "1", "22")], "<  >") == ["a   b   c", "aa  1  22"]
    assert markdown(("a", "b"), [(1, "x")]) == ["| a | b |", "|---|---|", "| 1 | x |"]
