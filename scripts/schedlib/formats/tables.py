# SPDX-License-Identifier: GPL-2.0
"""Tables, for a terminal and in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_COLUMN = re.compile(r"( *)([<>])(\d*)")


def table(rows: Sequence[Sequence[str]], form: str = "<  <") -> list[str]:
    """The lines of a table; each column is as wide as its widest cell.

    `form` has for each column the blanks in front of it, `<` or (for numbers) `>`, and its least width. The last one is
    for all columns behind it, too.
    """
    columns = _COLUMN.findall(form)
    columns += columns[-1:] * (len(rows[0]) - len(columns))
    cells = zip(*rows, strict=True)
    widths = [max(int(least or 0), *map(len, its)) for (_, _, least), its in zip(columns, cells, strict=True)]
    forms = [f"{gap}{{:{side}{width}}}" for (gap, side, _), width in zip(columns, widths, strict=True)]
    return ["".join(forms).format(*row).rstrip() for row in rows]


def markdown(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table in Markdown."""
    return [markdown_row(heads), "|---" * len(heads) + "|", *map(markdown_row, rows)]


def markdown_row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
