# SPDX-License-Identifier: GPL-2.0
"""What the project's own tests are run with."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
