# SPDX-License-Identifier: GPL-2.0
"""A table has its columns where its form says."""

from __future__ import annotations

from schedlib.formats.tables import markdown, table

ROWS = [("metric", "base", "", "verdict"), ("a long name", "1.5", "x", "PASS"), ("b", "12345678", "y", "")]


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(ROWS) == [
        "metric       base         verdict",
        "a long name  1.5       x  PASS",
        "b            12345678  y",
    ]


def test_numbers_least_widths_and_blanks() -> None:
    assert table(ROWS, "<4>10 <") == [
        "metric           base   verdict",
        "a long name       1.5 x PASS",
        "b            12345678 y",
    ]


def test_the_last_column_of_a_form_is_that_of_all_behind_it() -> None:
    assert table([("a", "b", "c"), ("aa", "1", "22")], "<  >") == ["a   b   c", "aa  1  22"]


def test_markdown() -> None:
    assert markdown(("a", "b"), [(1, "x")]) == ["| a | b |", "|---|---|", "| 1 | x |"]
