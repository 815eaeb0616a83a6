# SPDX-License-Identifier: GPL-2.0
"""The texts of a series, without what the series does not hold.

A line `[needs: NAME ...]` stands in front of lines that are only true of some series. They end at the next such line
or at an empty line, and stay if the series has all the names: changes, suites, tests (suite:case), or documents of
Documentation/process/. So a finding can only be told where the test that shows it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from schedlib.console.expected import load_expected
from schedlib.errors import SchedlineError
from schedlib.paths import KUNIT
from schedlib.tree.changes import change_table

PROCESS = ("generated-content", "coding-assistants")
"""What a kernel may say about tools, in Documentation/process/NAME.rst."""

_TAG = re.compile(r"\[needs: (.+)\]$")


def holds(changes: Collection[str] | None, suites: Collection[str] | None) -> frozenset[str]:
    """The names that a series holds which has these changes and these suites; None: all."""
    tests = load_expected(KUNIT / "tests.txt", None, changes)
    found = set(change_table() if changes is None else changes)
    for test in tests:
        if suites is None or test.split(":")[0] in suites:
            found.update(test[: match.start()] for match in re.finditer(r":|$", test))
    return frozenset(found)


def told(file: Path, held: Collection[str]) -> str:
    """The text of a file, as it is true of a series that holds these names.

    Raises SchedlineError: a line needs a name that no series has.
    """
    known = holds(None, None).union(PROCESS)
    kept: list[str] = []
    keep = True
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if tag := _TAG.match(line):
            names = set(tag[1].split())
            if unknown := sorted(names - known):
                raise SchedlineError(f"{file}:{number}: no series has {unknown[0]}", "name a change, a suite or a test")
            keep = names <= set(held)
        elif not line:
            keep = True
            kept += [""] if kept and kept[-1] else []
        elif keep:
            kept.append(line)
    return "\n".join(kept).strip("\n") + "\n"
