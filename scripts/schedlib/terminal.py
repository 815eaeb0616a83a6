# SPDX-License-Identifier: GPL-2.0
"""Text that a terminal may show, whoever wrote it."""

from __future__ import annotations

import sys


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
