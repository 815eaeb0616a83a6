# SPDX-License-Identifier: GPL-2.0
"""Every check of this project's own, one after the other: all of them run, then one verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from schedlib import doctor
from schedlib.environment import activate
from schedlib.paths import PROJECT
from schedlib.process import clean_environment
from schedlib.progress import say, step
from schedlib.verdict import Verdict

QUICK = "not guest and not long and not tools"
"""What pytest -m is given for the tests that need only Python and git."""

Checks = list[tuple[str, Sequence[str]]]


def test(expression: str | None, *, long: bool) -> Verdict:
    """Style, types, shell scripts and all tests.

    Raises:
        SchedlineError: a tool is missing.
    """
    doctor.require(doctor.JOBS["test"].needs, doctor.compilers())
    chosen = [*_chosen(expression), *(["-m", ""] if long else [])]
    python = _python()
    checks = _style(python)
    checks += [
        ("shellcheck", ["shellcheck", *map(str, _shell_scripts())]),
        ("pytest", [python, "-m", "pytest", *chosen]),
    ]
    return _all(checks)


def quick(expression: str | None) -> Verdict:
    """Style, types and the tests that need only Python and git, side by side."""
    python = _python()
    words = ["-n", str(os.cpu_count() or 1), "--dist", "worksteal", "-m", QUICK, "-q", *_chosen(expression)]
    return _all([*_style(python), ("pytest", [python, "-m", "pytest", *words])])


def _chosen(expression: str | None) -> list[str]:
    return ["-k", expression] if expression else []


def _python() -> str:
    return str(activate("requirements-test.txt"))


def _style(python: str) -> Checks:
    return [
        ("ruff check", [python, "-m", "ruff", "check", "scripts"]),
        ("ruff format", [python, "-m", "ruff", "format", "--check", "scripts"]),
        ("mypy --strict", [python, "-m", "mypy"]),
    ]


def _shell_scripts() -> tuple[Path, ...]:
    """Every file that starts as a shell script does."""
    found = (path for folder in ("kunit", "selftests", "scripts", ".ci") for path in (PROJECT / folder).rglob("*"))
    shells = (b"#!/bin/sh", b"#!/usr/bin/env bash")
    return tuple(path for path in found if path.is_file() and path.read_bytes()[:64].startswith(shells))


def _all(checks: Checks) -> Verdict:
    failed: list[str] = []
    for name, argv in checks:
        with step(name):
            done = subprocess.run(argv, cwd=PROJECT, env=clean_environment(), stdin=subprocess.DEVNULL, check=False)
        sys.stdout.flush()
        if done.returncode:
            failed.append(name)
    say(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    return Verdict.FAIL if failed else Verdict.PASS
