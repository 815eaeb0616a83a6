# SPDX-License-Identifier: GPL-2.0
"""Text that fits a mail: lines as long as those of a cover letter."""

from __future__ import annotations

import sys
import textwrap

WIDTH = 72


def printable(text: str, keep: str = "") -> str:
    """A text in which what cannot be printed, or turns the direction of reading, is replaced.

    Args:
        keep: characters that are left as they are.
    """
    return "".join(char if char.isprintable() or char in keep else "\ufffd" for char in text)


def tell(text: str) -> None:
    """Print a line that holds what others said, a guest perhaps: no control character of it reaches the terminal, and
    no character that the terminal cannot show ends the command."""
    encoding = sys.stdout.encoding or "utf-8"
    print(printable(text, "\t").encode(encoding, "replace").decode(encoding, "replace"))


def wrapped(text: str, indent: int = 4) -> list[str]:
    """The lines of a text, those behind the first indented; what cannot be printed is replaced."""
    return textwrap.wrap(printable(text), WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False) or [""]
