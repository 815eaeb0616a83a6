# SPDX-License-Identifier: GPL-2.0
"""The four verdicts, their exit codes and their precedence."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Verdict(Enum):
    """The result of a run, a test list or a whole check."""

    PASS = "PASS"
    FAIL = "FAIL"
    ERROR = "ERROR"
    INCONCLUSIVE = "INCONCLUSIVE"

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self]


_EXIT_CODES = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.ERROR: 2, Verdict.INCONCLUSIVE: 3}

MEANINGS = {
    Verdict.PASS: "all that had to run did run, and held",
    Verdict.FAIL: "a test or rule failed, a kernel crashed or is slower, or a test that had to run is missing",
    Verdict.ERROR: (
        "nothing was tested: wrong usage, something missing on the machine, a tree that does not build, a kernel that "
        "does not boot, or a bug in schedline"
    ),
    Verdict.INCONCLUSIVE: "nothing can be said: all tests skipped, lines not compiled, or too little measured",
}

# An environment problem must never hide a real failure, and "too few runs" must never hide an environment problem.
_PRIORITY = (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.PASS)

BISECT_SKIP = 125
"""`git bisect run` takes this exit code as "cannot be tested here"."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several verdicts; of none at all INCONCLUSIVE, never PASS."""
    seen = set(verdicts)
    return next((verdict for verdict in _PRIORITY if verdict in seen), Verdict.INCONCLUSIVE)
