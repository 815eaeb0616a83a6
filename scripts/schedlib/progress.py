# SPDX-License-Identifier: GPL-2.0
"""Progress of long work: a live line on a terminal, plain lines elsewhere. All of it goes to stderr."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

console = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """One line for the person who waits."""
    console.print(escape(text), soft_wrap=True)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Show that a step runs, and how long it took when it ends well."""
    start = time.monotonic()
    if console.is_terminal:
        with console.status(escape(text)):
            yield
    else:
        say(f"{text} ...")
        yield
    say(f"{text}: {time.monotonic() - start:.1f} s")
