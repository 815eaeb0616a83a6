# SPDX-License-Identifier: GPL-2.0
"""The list of tests that a run must contain, such as kunit/tests.txt or selftests/tests.txt.

Each line has one full name; `#` begins a comment. `classes=8,64` after the name means that only guests with 8 or 64
CPUs run the test. The exported series has a test only if the tree has the change that it tests: the one in
`needs=ID`, or the one after which its case is named. `needs=schedline` is for a test that only our own builds have.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.names import change_ids
from schedlib.paths import KUNIT, PROJECT, SELFTESTS

_COMMENT = re.compile(r"(?:^|\s)#.*$")
_CLASSES = re.compile(r"\s+classes=(\S*)$")
_NEEDS = re.compile(r"\s+needs=([\w-]+)$")


def load_expected(path: Path, cpu_class: int | None, changes: Collection[str] | None = None) -> tuple[str, ...]:
    """The names in a list, in its order.

    Args:
        cpu_class: only those that a guest with that number of CPUs has to run.
        changes: only those that the exported series has in a tree with these changes.

    Raises:
        SchedlineError: the file cannot be read, a line is wrong or names a test twice, or nothing is left.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SchedlineError(f"the list of tests {path} cannot be read: {said}", "name another file") from error
    seen: set[str] = set()
    kept: list[str] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", raw).strip()
        if not line:
            continue
        needs = _NEEDS.search(line)
        line = line[: needs.start()] if needs else line
        classes = _CLASSES.search(line)
        name = line[: classes.start()] if classes else line
        values = classes[1].split(",") if classes else []
        if name.startswith("classes=") or not all(value.isascii() and value.isdigit() for value in values):
            raise SchedlineError(f"{path}:{number}: {line!r} is no `name  classes=8,64`", "correct the line")
        if name in seen:
            raise SchedlineError(f"{path}:{number}: {name} is listed twice", "remove one of the lines")
        seen.add(name)
        if changes is not None and not set(changes) >= ({needs[1]} if needs else _named_after(name)):
            continue
        if cpu_class is None or not classes or cpu_class in map(int, values):
            kept.append(name)
    if not kept:
        for_class = "" if cpu_class is None else f" for {cpu_class} CPUs"
        raise SchedlineError(f"{path} lists no test{for_class}: any log would pass", "add a test, or name another list")
    return tuple(kept)


def _named_after(test: str) -> set[str]:
    """The change after which a test's case is named."""
    return {word.replace("_", "-") for word in test.split(":")[1:2]} & set(change_ids())


def tests_of(change: str) -> frozenset[str]:
    """The KUnit tests that the exported series has only in a tree with this change."""
    others = {*change_ids(), "schedline"} - {change}
    listed = KUNIT / "tests.txt"
    return frozenset(load_expected(listed, None)) - frozenset(load_expected(listed, None, others))


def expected_tests(
    cpus: int,
    only: str | None,
    without: Collection[str] = (),
    *,
    selftests: bool = False,
    changes: Collection[str] | None = None,
) -> tuple[str, ...]:
    """The full names of the tests that a guest with this number of CPUs has to run, except suites in `without`.

    Args:
        changes: those of a tree to which the exported series was applied; None for our own builds.
    """
    file = (SELFTESTS if selftests else KUNIT) / "tests.txt"
    listed = load_expected(file, cpus, changes)
    parts = {name: name.split(":") for name in listed if name.split(":")[0] not in without}
    suite, _, case = (only or "*").partition(".")
    kept = [name for name, own in parts.items() if fnmatchcase(own[0], suite) and fnmatchcase(own[1], case or "*")]
    if only and not kept:
        suites = ", ".join(dict.fromkeys(own[0] for own in parts.values()))
        see = f"suites are {suites}; see {file.relative_to(PROJECT)}"
        raise SchedlineError(f"--only: no test matches {only!r}", see)
    return tuple(kept)
