# SPDX-License-Identifier: GPL-2.0
"""What is said on a terminal: progress of long work, on stderr, and texts that others wrote.

Progress is one line for each step, which ends with the time that the step took.
"""

from __future__ import annotations

import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_TICK = 1.0
"""Seconds between two updates of a line on a terminal."""


class _Line:
    """The unfinished line of a running step; other text printed meanwhile starts a new line."""

    def __init__(self) -> None:
        self.muted = False
        self._open = ""
        self._guard = threading.Lock()

    def begin(self, text: str) -> None:
        with self._guard:
            self._close()
            self._write(f"{text} ... ")
            self._open = text

    def tick(self, text: str, seconds: float) -> None:
        with self._guard:
            if self._open == text:
                self._write(f"\r{text} ... {seconds:.0f} s")

    def end(self, text: str, seconds: float) -> None:
        with self._guard:
            if self._open != text:
                self._close()
                self._write(f"{text}: {seconds:.1f} s\n")
            else:
                begun = f"\r{text} ... " if sys.stderr.isatty() else ""
                self._write(f"{begun}{seconds:.1f} s\n")
            self._open = ""

    def say(self, text: str) -> None:
        with self._guard:
            self._close()
            self._write(f"{text}\n")

    def _close(self) -> None:
        if self._open:
            self._write("\n")
            self._open = ""

    def _write(self, text: str) -> None:
        if not self.muted:
            sys.stderr.write(text)
            sys.stderr.flush()


_line = _Line()


def say(text: str) -> None:
    _line.say(text)


@contextmanager
def only_on_a_terminal() -> Iterator[None]:
    """Print nothing meanwhile if stderr is no terminal: a program that reads it may take each line for a finding."""
    _line.muted = not sys.stderr.isatty()
    try:
        yield
    finally:
        _line.muted = False


@contextmanager
def step(text: str, *, after: float = 0.0) -> Iterator[None]:
    """Show that a step runs, and how long it took, unless it ends before `after` seconds; a terminal counts them."""
    start = time.monotonic()
    done = threading.Event()
    counter = threading.Thread(target=_count, args=(text, start, after, done), daemon=True)
    if not after:
        _line.begin(text)
    if after or sys.stderr.isatty():
        counter.start()
    ended = False
    try:
        yield
        ended = True
    finally:
        done.set()
        if counter.ident is not None:
            counter.join()
        seconds = time.monotonic() - start
        if seconds >= after and ended:
            _line.end(text, seconds)
        elif seconds >= after:
            _line.say(f"{text}: ended after {seconds:.1f} s")


def _count(text: str, start: float, after: float, done: threading.Event) -> None:
    if after:
        if done.wait(after):
            return
        _line.begin(text)
    while sys.stderr.isatty() and not done.wait(_TICK):
        _line.tick(text, time.monotonic() - start)


UNSAFE = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd"
)
"""For str.translate(): what begins an escape sequence, or changes the direction of reading."""


def counted(number: int, what: str, several: str = "") -> str:
    """A number and what is counted: `1 instance`, `2 instances`. several: where `s` does not make it."""
    return f"{number} {what if number == 1 else several or what + 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """The first names; dots stand for others."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def printable(text: str, keep: str = "") -> str:
    """Replace the characters, but those of `keep`, that cannot be printed or that change the direction of reading."""
    return "".join(char if char.isprintable() or char in keep else "\ufffd" for char in text)


def print_untrusted(text: str) -> None:
    """Print a line with text from elsewhere, such as a guest, without what a terminal obeys or cannot show."""
    encoding = sys.stdout.encoding or "utf-8"
    print(printable(text, "\t").encode(encoding, "replace").decode(encoding, "replace"))


LETTER = 72
"""Letters of a line in a cover letter."""


def wrapped(text: str, indent: int = 4) -> list[str]:
    """Text for a mail in lines, all but the first indented; characters that cannot be printed are replaced.

    A word that is longer than a line, such as a path, stays whole.
    """
    filled = textwrap.wrap(
        printable(text), LETTER, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False
    )
    return filled or [""]
