# SPDX-License-Identifier: GPL-2.0
"""Text that fits a mail: lines as long as those of a cover letter."""

from __future__ import annotations

import textwrap

from schedlib.progress import printable

WIDTH = 72


def wrapped(text: str, indent: int = 4) -> list[str]:
    """The text wrapped into lines, all but the first indented; characters that cannot be printed are replaced.

    A word that is longer than a line, such as a path, stays whole.
    """
    filled = textwrap.wrap(
        printable(text), WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False
    )
    return filled or [""]
