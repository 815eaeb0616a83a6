# SPDX-License-Identifier: GPL-2.0
"""The programs of selftests/sched_latency/, as their sources say: a new one is one file.

What a program tests is read from its rows (struct test), or from its calls of ksft_test_result(). What its patch says
is its first comment. Only what cannot be seen there is written down: in the Makefile, which programs test no kernel; in
former-names.txt, what a test was called before; in library.txt, what the patch of the library says.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.paths import COLLECTION, SELFTESTS

DIRECTORY = SELFTESTS / COLLECTION
LIBRARY = DIRECTORY / f"{COLLECTION}.c"
"""What the programs share; each is linked with it."""

FORMER_NAMES = SELFTESTS / "former-names.txt"
TEXT_OF_LIBRARY = SELFTESTS / "library.txt"

_COMMENT = re.compile(r"\A// SPDX-[^\n]*\n/\*\n(.*?)\n \*/\n", re.S)
_ROWS = re.compile(r"^static const struct test tests\[\] = \{\n(.*?)^\};", re.M | re.S)
_NAMING_MACRO = re.compile(r'^#define (\w+)\((\w+)[^)]*\)\s*\\\n\t\{ \.name = #\2 "(\w*)"', re.M)
_ROW = re.compile(r'\.name = "(\w+)"|\b([A-Z]+)\((\w+)')
_RESULT = re.compile(r'\bksft_test_result(?:_code\(\w+, "(\w+)"|\([^;]*?"(\w+)\\n")')


def program_sources() -> dict[str, Path]:
    """Each program's source by its name, those that only measure last: so they come in a series."""
    found = [path for path in sorted(DIRECTORY.glob("*.c")) if path != LIBRARY]
    last = experiments()
    return {path.stem: path for path in sorted(found, key=lambda path: path.stem in last)}


def experiments() -> frozenset[str]:
    """The programs that only measure, and test no kernel."""
    listed = re.search(r"^TEST_GEN_PROGS_EXTENDED := (.*)$", (DIRECTORY / "Makefile").read_text(), re.M)
    return frozenset(listed[1].split() if listed else ())


def selftest_names() -> tuple[str, ...]:
    """The public name of each program that tests, and of each of its tests: collection:program[:test]."""
    names: list[str] = []
    measuring = experiments()
    for program, source in program_sources().items():
        if program not in measuring:
            whole = f"{COLLECTION}:{program}"
            names += [whole, *(f"{whole}:{test}" for test in read_tests(source))]
    return tuple(names)


def read_tests(source: Path) -> tuple[str, ...]:
    """The names of a program's tests, in their order; SchedlineError if there are none."""
    text = source.read_text()
    if rows := _ROWS.search(text):
        endings = {macro: ending for macro, _, ending in _NAMING_MACRO.findall(text)}
        found = [
            name or f"{first}{endings[macro]}"
            for name, macro, first in _ROW.findall(rows[1])
            if name or macro in endings
        ]
    else:
        found = [one or other for one, other in _RESULT.findall(text)]
    if not found:
        raise SchedlineError(f"{source} has no test that can be read: any log would pass", "see CONTRIBUTING.md")
    return tuple(dict.fromkeys(found))


def message(program: str) -> str:
    """The text of the patch that adds a program: its first comment; SchedlineError if it has none."""
    source = program_sources()[program]
    found = _COMMENT.match(source.read_text())
    if not found:
        raise SchedlineError(f"{source} does not begin with a comment, which is the text of its patch", "write one")
    lines = [line.removeprefix(" *").removeprefix(" ") for line in found[1].splitlines()]
    paragraphs = [textwrap.fill(" ".join(each.split()), 72) for each in "\n".join(lines).split("\n\n")]
    return "\n\n".join([f"selftests/{COLLECTION}: Add {program}", *paragraphs]) + "\n"


def files_of(some: Collection[str]) -> dict[str, bytes]:
    """The files that some programs need in a tree, by their path in its directory. Its Makefile lists the programs."""
    chosen = [name for name in program_sources() if name in some]
    others = ("Makefile", ".gitignore", "config", "settings", LIBRARY.name, f"{COLLECTION}.h")
    files = {name: (DIRECTORY / name).read_bytes() for name in (*others, *(f"{name}.c" for name in chosen))}
    measuring = experiments()
    listed = [f"TEST_GEN_PROGS{'_EXTENDED' if name in measuring else ''} += {name}" for name in chosen]
    parts = files["Makefile"].decode().split("\n\n")
    kept = ["\n".join(listed) if "$(wildcard" in part else part for part in parts]
    return files | {"Makefile": "\n\n".join(part for part in kept if part).encode()}
