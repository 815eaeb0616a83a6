# SPDX-License-Identifier: GPL-2.0
"""Mutant files are parsed strictly, and a mutant's fate is never better than the observed results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from conftest import git
from schedlib.check import mutants
from schedlib.check.check_results import judged_boot
from schedlib.check.mutants import MUTANTS, Fate, Mutant, failed_names, fate_of, read_mutant, read_mutants, try_mutant
from schedlib.console.expected import LISTED, load_expected
from schedlib.console.judge import Judgement, Problem
from schedlib.errors import DoesNotBuild, SchedlineError
from schedlib.guest.boot import Ending, GuestRun
from schedlib.kernel.build import KernelPlan
from schedlib.paths import KUNIT
from schedlib.tree.kernel_tree import open_kdir
from schedlib.tree.selftest_programs import selftest_names
from schedlib.verdict import Verdict

DIFF = "--- a/kernel/sched/cpupri.c\n+++ b/kernel/sched/cpupri.c\n@@ -1 +1 @@\n-a\n+b\n"


def mutant(tmp_path: Path, text: str) -> Mutant:
    """Read a mutant from text."""
    (tmp_path / "m.diff").write_text(text)
    return read_mutant(tmp_path / "m.diff", "change/m")


def test_headers(tmp_path: Path) -> None:
    read = mutant(tmp_path, f"Breaks: the order\nKilled-by: a:b, rd-lines.R1\nConfig: numa\nSeries: 7.3\n\n{DIFF}")
    killed_by = ("a:b", "rd-lines.R1")
    values = {"breaks": "the order", "killed_by": killed_by, "config": ("numa",), "series": ("7.3",)}
    assert read == Mutant("change/m", **values, diff=DIFF.encode())  # type: ignore[arg-type]
    assert mutant(tmp_path, DIFF).killed_by == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Breaks: x\n", "holds no diff"),
        (f"Kiled-by: x\n{DIFF}", "unknown header"),
        (f"With: nothing\n{DIFF}", "no change"),
        ("", "no mutants"),
    ],
)
def test_what_is_wrong_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SchedlineError, match=message):
        mutant(tmp_path, text) if text else read_mutants(tmp_path)


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


def aliases(name: str) -> set[str]:
    """How a mutant may name a test."""
    return {name, ":".join(name.split(":")[:2]), name.split(":")[-1]}


def test_code_of_other_files_was_not_compared() -> None:
    """A mutant of kernel/time/hrtimer.c that nothing noticed was equivalent, since kernel/sched/ was the same."""
    diff = b"--- a/kernel/time/hrtimer.c\n+++ b/kernel/time/hrtimer.c\n"
    assert fate_of(Mutant("x", killed_by=("a:b",), diff=diff), frozenset(), True) is Fate.SURVIVED


def test_each_mutant_of_the_project_names_what_kills_it() -> None:
    listed = (*load_expected(LISTED, None), *selftest_names())
    known = {alias for name in listed for alias in aliases(name)}
    for each in read_mutants(MUTANTS):
        assert each.breaks, each.name
        assert each.killed_by, each.name
        assert set(each.killed_by) <= known | {"build", "panic"}, (each.name, each.killed_by)


TWINS = {
    "sched_cpupri_private:counts_are_the_weights_of_the_masks": "the case of sched_cpupri, on a copy of the code",
    "sched_cpupri_private:rising_cpu_is_never_missed": "the case of sched_cpupri, on a copy of the code",
    "sched_layout:changes": "test_check_guest.py gives it a name that does not exist",
}
"""Tests that no kernel mutant can break, and what shows instead that they can fail."""


def test_each_rule_and_case_has_a_mutant() -> None:
    killers = {killer for each in read_mutants(MUTANTS) for killer in each.killed_by}
    for record in (Path(__file__).parents[1] / "dev/generated-mutants").rglob("*.json"):
        killers |= {name for each in json.loads(record.read_bytes())["mutants"] for name in each["failed"]}
    listed = load_expected(LISTED, None)
    assert [name for name in listed if name not in TWINS and killers.isdisjoint(aliases(name))] == []


def test_what_only_remarks_kills_nothing() -> None:
    verdicts = {"kunit": Verdict.PASS, "all-skipped": Verdict.INCONCLUSIVE, "panic": Verdict.FAIL}
    problems = tuple(Problem(kind, 1, "", verdict) for kind, verdict in verdicts.items())
    boot = judged_boot("x", GuestRun((), Path("x"), Ending.EXITED), Judgement(Verdict.FAIL, (), problems))
    assert failed_names([boot]) == {"panic"}


@pytest.mark.tools
@pytest.mark.parametrize(
    ("killed_by", "fate"), [(("sched_layout",), Fate.DOES_NOT_BUILD), (("build", "sched_layout"), Fate.KILLED)]
)
def test_only_a_compiler_that_failed_makes_a_mutant_that_does_not_build(
    killed_by: tuple[str, ...], fate: Fate, kernel: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = kernel / "kernel/sched/sched.h"
    header.write_text(header.read_text().replace("nr_running", "nr_walking"))
    mutant = Mutant("x/y", killed_by=killed_by, diff=git(kernel, "diff").encode())
    git(kernel, "checkout", "-q", ".")
    tree = open_kdir(cache, kernel)
    errors: list[SchedlineError] = []

    def built(cache: Path, plan: KernelPlan, place: Path, program: str | None) -> tuple[None, str]:
        if plan.commit != plan.composition.commit:
            raise errors[-1]
        return None, "code"

    monkeypatch.setattr(mutants, "_built", built)
    errors.append(SchedlineError("the disk is full, so the kernel does not build", ""))
    with pytest.raises(SchedlineError, match="the disk is full"):
        try_mutant(cache, tree, mutant, None, tmp_path / "out")
    errors.append(DoesNotBuild("error: 'struct rq' has no member", ""))
    assert try_mutant(cache, tree, mutant, None, tmp_path / "out")[:2] == (fate, frozenset({"build"}))


def test_no_assertion_ends_a_test_with_a_lock() -> None:
    """It ends the thread, which unwinds no guard: the test's own clean-up waited for the mutex for ever."""
    for file in KUNIT.glob("*.c"):
        text = re.sub(r"^#else.*?^#endif", "", file.read_text(), flags=re.M | re.S)
        for body in re.findall(r"^\{\n(.*?)^\}", text, re.M | re.S):
            for held in re.finditer(r"^(\t+)(scoped_)?guard\(.*?(\{?)\n", body, re.M):
                end = rf"^{held[1]}\}}" if held[3] else ";\n" if held[2] else rf"^{held[1][1:]}\}}"
                inside = re.split(end, body[held.end() :], maxsplit=1, flags=re.M)[0]
                assert not re.search("KUNIT_ASSERT|kunit_skip", inside), f"{file.name}: {held[0]}"


def test_no_expectation_waits() -> None:
    """KUnit prints the text of what it was given: that of a loop fills a record of printk, and the message is lost."""
    for file in KUNIT.glob("*.c"):
        for given in re.findall(r"KUNIT_(?:EXPECT|ASSERT)_\w+\(([^;]*);", file.read_text()):
            assert not re.search(r"\w+_wait_for\(|per_cpu\(|rcu_\w+\(per", given.partition('"')[0]), (
                f"{file.name}: {given}"
            )
