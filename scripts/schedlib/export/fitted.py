# SPDX-License-Identifier: GPL-2.0
"""Tests and texts as they fit a tree: for the changes that it has, without what only our own builds need.

In kunit/, symbols mark code that not every tree gets: `#ifndef SCHED_KUNIT_EXPORTED` what only our own builds need,
`#ifndef SCHED_KUNIT_NO_SIGNS` what only the signs of changes use,
`#ifndef SCHED_KUNIT_NO_<change>` the tests of a change, `#ifndef SCHED_KUNIT_RQ_ORDER_ALONE` what the rules of rq-order
do not use, `#ifdef SCHED_KUNIT_LACKS_<feature>` what an older kernel
needs. Our own builds define only the last, and only for such a kernel. Here the tree's own unifdef resolves all of
them, so that an exported file has no dead branches.

In a text, a line `[needs: NAME ...]` stands in front of lines that are only true of some series. They end at the next
such line or at an empty line, and stay if the series has all the names: changes, suites, tests (suite:case), or
documents of Documentation/process/. So a finding can only be told where the test that shows it is.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from schedlib.console.expected import load_expected
from schedlib.contracts.c_tables import TABLE, rule_table
from schedlib.contracts.contract_rules import our_rules
from schedlib.errors import SchedlineError
from schedlib.paths import KUNIT
from schedlib.process import must, run
from schedlib.tree.changes import change_table
from schedlib.tree.compose import declarations_of, hooks, kunit_files
from schedlib.tree.kernel_tree import Tree
from schedlib.tree.suites import KunitSuite, feature_table, lacking_features, suite_table

_UNIFDEF = "scripts/unifdef.c"

_OPTIONS = {
    "cpupri-split": (
        "CONFIG_SCHED_CPUPRI_GLOBAL",
        "CONFIG_SCHED_CPUPRI_ARRAYS",
        "CONFIG_SCHED_CPUPRI_SBM",
        "CONFIG_SCHED_CPUPRI_SPLIT",
        "CONFIG_SCHED_RTO_COUNT_SPLIT",
    )
}
"""Options that a change adds. Without the change they are undefined."""

_PARTS = {"Makefile": "\n\n", ".kunitconfig": "\n\n", "Kconfig": "\n(?=config )"}
"""The files that grow with the suites, and what separates their parts."""


@contextmanager
def built_unifdef(tree: Tree) -> Iterator[Path]:
    """The tree's unifdef, built for this machine; SchedlineError if the tree has none."""
    source = tree.read(_UNIFDEF, tree.head)
    if source is None:
        raise SchedlineError(f"{tree.origin} has no {_UNIFDEF}, which adapts the tests to a tree", "use a whole tree")
    with tempfile.TemporaryDirectory(prefix="schedline-") as scratch:
        program, file = Path(scratch, "unifdef"), Path(scratch, "unifdef.c")
        file.write_text(source)
        must(["gcc", "-w", "-o", program, file])
        yield program


def _symbols(there: Collection[str], lacking: Collection[str]) -> list[str]:
    """What is defined, or not, for a tree that has some of the changes, and lacks some of the features."""
    symbols = ["-DSCHED_KUNIT_EXPORTED", "-DSCHED_KUNIT_NO_SIGNS"]
    symbols += [f"-{'D' if name in lacking else 'U'}SCHED_KUNIT_LACKS_{name}" for name in feature_table()]
    for change in change_table():
        symbols.append(f"-{'U' if change in there else 'D'}SCHED_KUNIT_NO_{change.upper().replace('-', '_')}")
    alone = all(rule.change == "rq-order" for rule in our_rules().only(there).rules)
    symbols.append(f"-{'D' if alone else 'U'}SCHED_KUNIT_RQ_ORDER_ALONE")
    for change, names in _OPTIONS.items():
        symbols += [f"-U{name}" for name in names if change not in there]
    return symbols


def _resolved(unifdef: Path, text: bytes, symbols: Sequence[str]) -> bytes:
    """A C file with the branches that these symbols leave."""
    done = run([unifdef, "-B", *symbols], stdin=text)
    if done.returncode > 1:
        raise SchedlineError(f"unifdef failed: {done.stderr.decode(errors='replace')}", "report it")
    return done.stdout


def kept_tests(
    tree: Tree, commit: str, unifdef: Path, suites: Sequence[KunitSuite], there: Collection[str]
) -> dict[str, bytes]:
    """The files of some suites for kernel/sched/tests/, for a commit that has some of the changes."""
    symbols = _symbols(there, lacking_features(tree, commit))
    texts = {
        name: _resolved(unifdef, path.read_bytes(), symbols) if path.suffix in (".c", ".h") else path.read_bytes()
        for name, path in kunit_files().items()
    }
    texts[TABLE] = rule_table(our_rules().only(there), declarations_of(tree, commit)).encode()
    grown = {name: _grown(texts[name].decode(), split, suites) for name, split in _PARTS.items()}
    roots = [f"{name}.c" for name in re.findall(r"(\w+)\.o\b", grown["Makefile"])]
    roots += [name for _, names in hooks(suites).values() for name in names]
    found = closure(roots, texts)
    return {name: texts[name] for name in found} | {name: text.encode() for name, text in grown.items()}


def _grown(text: str, split: str, suites: Sequence[KunitSuite]) -> str:
    """The parts of a file that name no suite but these."""
    known = frozenset[str]().union(*(suite.words for suite in suites))
    others = frozenset[str]().union(*(suite.words for suite in suite_table().values())) - known
    parts = [part for part in re.split(split, text) if others.isdisjoint(re.findall(r"[\w.]+", part))]
    return ("\n" if "(?=" in split else split).join(parts).rstrip("\n") + "\n"


def closure(roots: Sequence[str], texts: Mapping[str, bytes]) -> list[str]:
    """The files that some files need: those that they #include, and so on."""
    found: list[str] = []
    todo = [name for name in roots if name in texts]
    while todo:
        name = todo.pop(0)
        if name not in found:
            found.append(name)
            todo += [each for each in re.findall(r'^#include "([^"/]+)"$', texts[name].decode(), re.M) if each in texts]
    return found


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
