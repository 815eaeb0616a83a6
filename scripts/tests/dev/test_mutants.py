# SPDX-License-Identifier: GPL-2.0
"""Mutant files are read strictly, and a fate is not better than what was seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedlib.dev.mutants import MUTANTS, Fate, Mutant, fate_of, read_mutant, read_mutants
from schedlib.errors import SchedlineError
from schedlib.paths import KUNIT

DIFF = "--- a/kernel/sched/cpupri.c\n+++ b/kernel/sched/cpupri.c\n@@ -1 +1 @@\n-a\n+b\n"


def mutant(tmp_path: Path, text: str) -> Mutant:
    """Read a mutant from text."""
    (tmp_path / "m.diff").write_text(text)
    return read_mutant(tmp_path / "m.diff", "change/m")


def test_headers(tmp_path: Path) -> None:
    read = mutant(tmp_path, f"Breaks: the order\nKilled-by: a:b, rd-lines.R1\nConfig: numa\nSeries: 7.3\n\n{DIFF}")
    assert (read.breaks, read.killed_by, read.config, read.series) == (
        "the order",
        ("a:b", "rd-lines.R1"),
        ("numa",),
        ("7.3",),
    )
    assert read.diff == DIFF.encode()


def test_diff_without_headers(tmp_path: Path) -> None:
    assert mutant(tmp_path, DIFF).killed_by == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Breaks: x\n", "holds no diff"),
        (f"Kiled-by: x\n{DIFF}", "unknown header"),
        (f"With: nothing\n{DIFF}", "no change"),
    ],
)
def test_what_is_wrong_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SchedlineError, match=message):
        mutant(tmp_path, text)


def test_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchedlineError, match="no mutants"):
        read_mutants(tmp_path)


@pytest.mark.parametrize(
    ("killed_by", "failed", "same_code", "fate"),
    [
        (("a:b",), {"a:b", "c:d"}, False, Fate.KILLED),
        (("a:b",), {"c:d"}, False, Fate.KILLED_BY_OTHERS),
        (("a:b",), set(), False, Fate.SURVIVED),
        (("a:b",), set(), True, Fate.EQUIVALENT),
        ((), {"c:d"}, False, Fate.KILLED),
        ((), set(), False, Fate.SURVIVED),
    ],
)
def test_fate(tmp_path: Path, killed_by: tuple[str, ...], failed: set[str], same_code: bool, fate: Fate) -> None:
    text = f"Killed-by: {', '.join(killed_by)}\n{DIFF}" if killed_by else DIFF
    assert fate_of(mutant(tmp_path, text), frozenset(failed), same_code) is fate


def test_each_mutant_of_the_project_names_what_kills_it() -> None:
    lines = [line.split("#")[0].split() for line in (KUNIT / "tests.txt").read_text().splitlines()]
    names = [words[0] for words in lines if words]
    known = {alias for name in names for alias in (name, ":".join(name.split(":")[:2]), name.split(":")[-1])}
    for each in read_mutants(MUTANTS):
        assert each.breaks, each.name
        assert each.killed_by, each.name
        assert set(each.killed_by) <= known | {"build", "panic"}, (each.name, each.killed_by)


TWINS = {
    "sched_layout:changes": "test_check_guest.py gives it a name that does not exist",
    "sched_layout:sizes": "it reports, and cannot fail",
}
"""Tests that no mutant of the kernel can break, and what shows instead that they can fail."""


def test_each_rule_and_case_has_a_mutant() -> None:
    lines = [line.split("#")[0].split() for line in (KUNIT / "tests.txt").read_text().splitlines()]
    killers = {killer for each in read_mutants(MUTANTS) for killer in each.killed_by}
    unproven = [
        words[0]
        for words in lines
        if words
        and words[0] not in TWINS
        and killers.isdisjoint({words[0], ":".join(words[0].split(":")[:2]), words[0].split(":")[-1]})
    ]
    assert unproven == []
