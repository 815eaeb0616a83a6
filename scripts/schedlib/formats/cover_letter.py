# SPDX-License-Identifier: GPL-2.0
"""Text that fits a mail: lines as long as those of a cover letter."""

from __future__ import annotations

import textwrap

WIDTH = 72


def printable(text: str) -> str:
    """A text in which what cannot be printed, or turns the direction of reading, is replaced."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def wrapped(text: str, indent: int = 4) -> list[str]:
    """The lines of a text, those behind the first indented; what cannot be printed is replaced."""
    return textwrap.wrap(printable(text), WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False) or [""]
