# SPDX-License-Identifier: GPL-2.0
"""Text that fits a mail: lines as long as those of a cover letter."""

from __future__ import annotations

import textwrap

WIDTH = 72


def wrapped(text: str, indent: int = 4) -> list[str]:
    """The lines of a text, those behind the first indented; what cannot be printed is replaced."""
    clean = "".join(char if char.isprintable() else "\ufffd" for char in text)
    return textwrap.wrap(clean, WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False) or [""]
