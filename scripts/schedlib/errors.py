# SPDX-License-Identifier: GPL-2.0
"""The one exception that ends a command with exit code 2 and a next step."""

from __future__ import annotations

import re
from copyreg import __newobj__  # type: ignore[attr-defined]
from typing import Any

_OF_PYTHON = re.compile(r"invalid literal|could not convert|to unpack|isoformat|cannot convert|math domain")


class SchedlineError(Exception):
    """Usage, environment, or a tree that cannot be tested.

    Args:
        observed: what was seen, and why it matters, in one or two sentences.
        next_step: the command or action to try next.
    """

    def __init__(self, observed: str, next_step: str) -> None:
        super().__init__(f"{observed}\n  next: {next_step}")
        self.observed = observed
        self.next_step = next_step

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes: what is made anew has what this one has, whatever its class is made from."""
        return __newobj__, (type(self), *self.args), self.__dict__


def in_words(error: Exception) -> str:
    """What an exception that a document raised says about it. The words of Python itself are left out."""
    if isinstance(error, UnicodeError):
        return "it is not UTF-8 text"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]!r}"
    said = str(error)
    if isinstance(error, OverflowError) or "integer string conversion" in said:
        return "a number in it is too large"
    # TypeError and the like say what Python did, not what is wrong.
    ours = type(error).__module__ != "builtins" or (type(error) is ValueError and not _OF_PYTHON.search(said))
    return said if ours and said else "a part of it is not as expected"


class DoesNotBuild(SchedlineError):
    """A tree that does not compile or link."""
