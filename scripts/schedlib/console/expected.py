# SPDX-License-Identifier: GPL-2.0
"""The list of tests that a run must contain, such as kunit/tests.txt or selftests/tests.txt.

Each line has one full name; `#` begins a comment. `classes=8,64` after the name means that only guests with 8 or 64
CPUs run the test. The exported series has a test only if the tree has the change that it tests: the one in
`needs=ID`, or the one after which its case is named. `needs=schedline` is for a test that only our own builds have.
`was=SUITE:CASE,...` names what the test was called before: `--only` and `--require` accept these names, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from schedlib.cache import read_text
from schedlib.errors import SchedlineError, in_words
from schedlib.names import change_ids
from schedlib.paths import KUNIT, PROJECT, SELFTESTS

_LONGEST = 1000
"""Characters of a line."""
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_WORD = re.compile(r"\s+(classes|needs|was)=(\S*)$")
_TEST = re.compile(r"\w[\w-]*(:\S+)+")


@dataclass(frozen=True)
class Listed:
    """A line of a list: a test's name, the CPU counts of its guests (none: all), the change it needs, older names."""

    name: str
    classes: tuple[int, ...] = ()
    needs: str = ""
    was: tuple[str, ...] = ()


def load_expected(path: Path, cpu_class: int | None, changes: Collection[str] | None = None) -> tuple[str, ...]:
    """The names in a list, in its order.

    Args:
        cpu_class: only those that a guest with that number of CPUs has to run.
        changes: only those that the exported series has in a tree with these changes.

    Raises SchedlineError: the file cannot be read, a line is wrong or names a test twice, or nothing is left.
    """
    kept = [
        row.name
        for row in _listed(path)
        if (cpu_class is None or not row.classes or cpu_class in row.classes)
        and (changes is None or set(changes) >= ({row.needs} if row.needs else _named_after(row.name)))
    ]
    if not kept:
        for_class = "" if cpu_class is None else f" for {cpu_class} CPUs"
        raise SchedlineError(f"{path} lists no test{for_class}: any log would pass", "add a test, or name another list")
    return tuple(kept)


def _listed(path: Path) -> Iterator[Listed]:
    try:
        text = read_text(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else in_words(error)
        raise SchedlineError(f"the list of tests {path} cannot be read: {said}", "name another file") from error
    if text.strip() and not text.endswith(("\n", "\r")):
        last = text.splitlines()[-1][-100:]
        raise SchedlineError(f"{path} may be cut off: its last line, {last!r}, has no end", "end it with a newline")
    seen: set[str] = set()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw if len(raw) > _LONGEST else _COMMENT.sub("", raw).strip()
        if not line:
            continue
        row = _read_line(line) if len(line) <= _LONGEST else None
        if row is None:
            what = "`name  classes=8,64 needs=ID was=SUITE:CASE`"
            raise SchedlineError(f"{path}:{number}: {line[:_LONGEST]!r} is no {what}", "correct the line")
        for name in (row.name, *row.was):
            if name in seen:
                raise SchedlineError(f"{path}:{number}: {name} is listed twice", "remove one of the lines")
            seen.add(name)
        yield row


def _read_line(line: str) -> Listed | None:
    """A line of a list; None if it is none."""
    name, words = line, dict[str, str]()
    while match := _WORD.search(name):
        if match[1] in words:
            return None
        words[match[1]] = match[2]
        name = name[: match.start()]
    classes = words["classes"].split(",") if "classes" in words else []
    was = tuple(words["was"].split(",")) if "was" in words else ()
    right = all(value.isascii() and value.isdigit() and len(value) < 8 for value in classes)
    right = right and all(map(_TEST.fullmatch, was))
    if _WORD.match(f" {name}") or not right or words.get("needs") == "" or not name.isprintable():
        return None
    return Listed(name, tuple(map(int, classes)), words.get("needs", ""), was)


def current_name(name: str, separator: str = ":", *, selftests: bool = False) -> str:
    """What a test is called now. A name that no test had before is returned as it is.

    `name`: SUITE:CASE[:PARAMETER]; with "." as the separator SUITE.CASE, as for `--only`.
    """
    older = name.replace(separator, ":")
    for row in _listed((SELFTESTS if selftests else KUNIT) / "tests.txt"):
        if older in row.was:
            return row.name.replace(":", separator)
        # A case with parameters has its older name on the line of each.
        if older in {each.rpartition(":")[0] for each in row.was if each.count(":") > 1}:
            return ":".join(row.name.split(":")[: older.count(":") + 1]).replace(":", separator)
    return name


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

    `changes`: those of a tree to which the exported series was applied; None for our own builds.
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
