# SPDX-License-Identifier: GPL-2.0
"""The four verdicts, their exit codes and the order in which one hides another."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Verdict(Enum):
    """What a run, a test list or a whole check amounts to."""

    PASS = "PASS"
    FAIL = "FAIL"
    ERROR = "ERROR"
    INCONCLUSIVE = "INCONCLUSIVE"

    @property
    def exit_code(self) -> int:
        """PASS 0, FAIL 1, ERROR 2, INCONCLUSIVE 3."""
        return _EXIT_CODES[self]


_EXIT_CODES = {
    Verdict.PASS: 0,
    Verdict.FAIL: 1,
    Verdict.ERROR: 2,
    Verdict.INCONCLUSIVE: 3,
}

# A real failure must never hide behind an environment problem, nor that behind "too few runs".
_PRIORITY = (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.PASS)

BISECT_SKIP = 125
"""`git bisect run` takes this exit code as "cannot be tested here"."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The one verdict of several; nothing at all is INCONCLUSIVE, never a pass."""
    seen = set(verdicts)
    return next((verdict for verdict in _PRIORITY if verdict in seen), Verdict.INCONCLUSIVE)
