# SPDX-License-Identifier: GPL-2.0
"""The tests that a guest has to run, from kunit/tests.txt or selftests/tests.txt."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection

from schedlib.console.expected import load_expected
from schedlib.errors import SchedlineError
from schedlib.paths import KUNIT, SELFTESTS


def expected_tests(
    cpus: int, only: str | None, without: Collection[str] = (), *, selftests: bool = False
) -> tuple[str, ...]:
    """The full names of the tests that a guest with this number of CPUs has to run, except suites in `without`."""
    listed = load_expected((SELFTESTS if selftests else KUNIT) / "tests.txt", cpus)
    names = [name for name in listed if name.split(":")[0] not in without]
    if only is None:
        return tuple(names)
    suite, _, case = only.partition(".")
    kept = tuple(
        name
        for name in names
        if fnmatch.fnmatchcase(name.split(":")[0], suite)
        and (not case or fnmatch.fnmatchcase(name.split(":")[1], case))
    )
    if not kept:
        suites = ", ".join(dict.fromkeys(name.split(":")[0] for name in names))
        raise SchedlineError(f"--only: no test matches {only!r}", f"suites are {suites}; see kunit/tests.txt")
    return kept
