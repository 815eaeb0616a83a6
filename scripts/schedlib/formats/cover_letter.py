# SPDX-License-Identifier: GPL-2.0
"""Text that fits a mail: lines as long as those of a cover letter."""

from __future__ import annotations

import sys
import textwrap

WIDTH = 72


def printable(text: str, keep: str = "") -> str:
    """Replace the characters of a text that cannot be printed or that change the direction of reading.

    Args:
        keep: characters that are left as they are.
    """
    return "".join(char if char.isprintable() or char in keep else "\ufffd" for char in text)


def tell(text: str) -> None:
    """Print a line that may contain text from elsewhere, such as a guest.

    No control character reaches the terminal, and a character that the terminal cannot show raises no error.
    """
    encoding = sys.stdout.encoding or "utf-8"
    print(printable(text, "\t").encode(encoding, "replace").decode(encoding, "replace"))


def wrapped(text: str, indent: int = 4) -> list[str]:
    """The text wrapped into lines, all but the first indented; characters that cannot be printed are replaced."""
    return textwrap.wrap(printable(text), WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False) or [""]
