# SPDX-License-Identifier: GPL-2.0
"""What the project's own tests are run with."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from schedlib import doctor
from schedlib.dev import own_tests
from schedlib.dev.dev_verb import OwnTestsOptions, QuickOptions
from schedlib.dev.own_tests import quick_tests
from schedlib.verdict import Verdict


def test_seed_is_told_and_passed_on() -> None:
    name, words = quick_tests(QuickOptions("judge", 7))
    assert "SEED=7" in name
    assert "--randomly-seed=7" in words
    assert words[-2:] == ["-k", "judge"]


def chooses(words: Sequence[str], marks: Collection[str]) -> bool:
    def has(name: str, /, **_: str | int | bool | None) -> bool:
        return name in marks

    return Expression.compile(words[words.index("-m") + 1]).evaluate(has)


@pytest.mark.parametrize(
    "wanted", [OwnTestsOptions(long=True), OwnTestsOptions(k="judge", long=True), OwnTestsOptions()]
)
def test_make_test_runs_each_test_once(wanted: OwnTestsOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []
    monkeypatch.setattr(own_tests, "_all", lambda _, __, more: asked.append(more[0][1]))
    monkeypatch.setattr(doctor, "require", lambda *_: None)
    own_tests.test(wanted)
    asked.append(quick_tests(wanted)[1])
    for marks in itertools.product(*([name, ""] for name in ("guest", "tools", "slow", "long"))):
        times = sum(chooses(words, marks) for words in asked)
        assert times == (wanted.long or "long" not in marks), marks


def test_each_run_draws_an_order() -> None:
    assert len({quick_tests(QuickOptions())[0] for _ in range(5)}) > 1


@pytest.mark.parametrize(("statuses", "verdict"), [((0, 5), "PASS"), ((5, 5), "FAIL"), ((0, 1), "FAIL")])
def test_an_expression_that_nothing_matches_fails(
    statuses: tuple[int, int], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest ends with 5 where nothing was left to run: fine for one of the two kinds of tests, not for both."""
    programs = [[sys.executable, "-c", f"raise SystemExit({status})"] for status in statuses]
    monkeypatch.setattr(own_tests, "activate", lambda _: sys.executable)
    monkeypatch.setattr(own_tests, "_STYLE", ())
    monkeypatch.setattr(doctor, "require", lambda *_: None)
    waiting = iter([["true"], *programs])
    real = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda _, **more: real(next(waiting), **more))
    assert own_tests.test(OwnTestsOptions()) is Verdict[verdict]


def test_make_test_needs_each_guest_that_a_test_boots() -> None:
    """The tests of arm64 guests failed on a machine that make test had found ready."""
    files = (path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    booted = {name for text in files if "mark.guest" in text for name in re.findall(r'"(uml|qemu-\w+)"', text)}
    assert {"uml", "qemu-x86_64", "qemu-arm64"} <= booted <= {*doctor.JOBS["test"].needs}
