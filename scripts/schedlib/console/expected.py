# SPDX-License-Identifier: GPL-2.0
"""The list of tests that a run must contain, such as kunit/tests.txt. That of the selftests is read from them.

Each line has one full name; `#` begins a comment. `classes=8,64` after the name means that only guests with 8 or 64
CPUs run the test. The exported series has a test only if the tree has the change that it tests: the one in
`needs=ID`, or the one after which its case is named. `needs=schedline` is for a test that only our own builds have.
`was=SUITE:CASE,...` names what the test was called before: `--only` and `--require` accept these names, too.
`each=rule` is a line for each rule in configs/contracts/sched/, which CHANGE and RULE in the name stand for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from schedlib.cache import read_text
from schedlib.errors import SchedlineError, in_words
from schedlib.names import change_ids, rule_ids
from schedlib.paths import KUNIT, PROJECT
from schedlib.tree.selftest_programs import DIRECTORY, FORMER_NAMES, selftest_names

LISTED = KUNIT / "tests.txt"
"""The tests of our own builds."""

_LONGEST = 1000
"""Characters of a line."""
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_FIELDS = re.compile(r"(?:^|\s+)(?=(?:classes|needs|was|each)=)")
_TEST = re.compile(r"\w[\w-]*(:\S+)+")


class _Listed(NamedTuple):
    """A line of a list. `classes`: CPU counts of its guests, none for all; `needs`: a change; `was`: older names."""

    name: str
    classes: tuple[int, ...]
    needs: str
    was: list[str]


def load_expected(path: Path, cpu_class: int | None, changes: Collection[str] | None = None) -> tuple[str, ...]:
    """The names in a list, in its order: only those for guests with so many CPUs, and for trees with these changes.

    Raises SchedlineError: the file cannot be read, a line is wrong or names a test twice, or nothing is left.
    """
    ids = set[str]() if changes is None else set(change_ids())
    kept = []
    for row in _listed(path):
        needs = {row.needs} if row.needs else {word.replace("_", "-") for word in row.name.split(":")[1:2]} & ids
        runs = cpu_class is None or not row.classes or cpu_class in row.classes
        if runs and (changes is None or needs <= set(changes)):
            kept.append(row.name)
    if not kept:
        for_class = "" if cpu_class is None else f" for {cpu_class} CPUs"
        raise SchedlineError(f"{path} lists no test{for_class}: any log would pass", "add a test, or name another list")
    return tuple(kept)


def _listed(path: Path) -> Iterator[_Listed]:
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
        for line in _each(raw if len(raw) > _LONGEST else _COMMENT.sub("", raw).strip()):
            row = _read_line(line) if len(line) <= _LONGEST else None
            if row is None:
                what = "`name  classes=8,64 needs=ID was=SUITE:CASE each=rule`"
                raise SchedlineError(f"{path}:{number}: {line[:_LONGEST]!r} is no {what}", "correct the line")
            for name in (row.name, *row.was):
                if name in seen:
                    raise SchedlineError(f"{path}:{number}: {name} is listed twice", "remove one of the lines")
                seen.add(name)
            yield row


def _each(line: str) -> Iterator[str]:
    if not line.endswith(" each=rule"):
        yield from [line] if line else ()
        return
    for rule, change in rule_ids().items():
        yield line.removesuffix("each=rule").replace("CHANGE", change.replace("-", "_")).replace("RULE", rule).strip()


def _read_line(line: str) -> _Listed | None:
    name, *fields = _FIELDS.split(line)
    given = dict(field.split("=", 1) for field in fields)
    classes, was = (given[key].split(",") if key in given else [] for key in ("classes", "was"))
    right = (
        "each" not in given
        and all(re.fullmatch("[0-9]{1,7}", value) for value in classes)
        and all(map(_TEST.fullmatch, was))
    )
    if not right or not name or not name.isprintable() or given.get("needs") == "" or len(given) < len(fields):
        return None
    return _Listed(name, tuple(map(int, classes)), given.get("needs", ""), was)


def current_name(name: str, separator: str = ":", *, selftests: bool = False) -> str:
    """What a test is called now. A name that no test had before is returned as it is.

    `name`: SUITE:CASE[:PARAMETER]; with "." as the separator SUITE.CASE, as for `--only`.
    """
    older = name.replace(separator, ":")
    for row in _listed(FORMER_NAMES if selftests else LISTED):
        if older in row.was:
            return row.name.replace(":", separator)
        # A case with parameters has its older name on the line of each.
        if older in {each.rpartition(":")[0] for each in row.was if each.count(":") > 1}:
            return ":".join(row.name.split(":")[: older.count(":") + 1]).replace(":", separator)
    return name


def tests_of(change: str) -> frozenset[str]:
    """The KUnit tests that the exported series has only in a tree with this change."""
    others = {*change_ids(), "schedline"} - {change}
    return frozenset(load_expected(LISTED, None)) - frozenset(load_expected(LISTED, None, others))


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
    names = selftest_names() if selftests else load_expected(LISTED, cpus, changes)
    parts = [name.split(":") for name in names]
    suite, _, case = (only or "*").partition(".")
    parts = [own for own in parts if own[0] not in without]
    kept = [":".join(own) for own in parts if fnmatchcase(own[0], suite) and fnmatchcase(own[1], case or "*")]
    if only and not kept:
        place = (DIRECTORY if selftests else LISTED).relative_to(PROJECT)
        see = f"suites are {', '.join(dict.fromkeys(own[0] for own in parts))}; see {place}"
        raise SchedlineError(f"--only: no test matches {only!r}", see)
    return tuple(kept)
