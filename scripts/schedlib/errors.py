# SPDX-License-Identifier: GPL-2.0
"""The one exception that ends a command with exit code 2 and a next step."""

from __future__ import annotations


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


class DoesNotBuild(SchedlineError):
    """A tree that does not compile or link."""
