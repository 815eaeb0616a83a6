# SPDX-License-Identifier: GPL-2.0
"""This project's own checks, one after the other. All of them run, then there is one verdict."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Sequence

from schedlib import doctor
from schedlib.dev.dev_verb import OwnTestsOptions, QuickOptions
from schedlib.environment import activate
from schedlib.errors import SchedlineError
from schedlib.paths import INSTALLED, PROJECT
from schedlib.process import clean_environment
from schedlib.progress import say, step
from schedlib.verdict import Verdict

_BARE = "not guest and not long and not tools"
"""The pytest -m expression for the tests that need only Python, git and make."""

_WORKERS = str(os.cpu_count() or 1)

_BY_FILE = ("-p", "no:randomly", "-n", _WORKERS, "--dist", "loadfile", "--no-loadscope-reorder")
"""Not in random order: tests of the same kernel are next to each other, so that it is built once."""

_NO_TESTS = 5
"""pytest's exit status if no test was selected."""

Checks = list[tuple[str, Sequence[str]]]

_STYLE = (
    ("ruff check", ["ruff", "check", "scripts"]),
    ("ruff format", ["ruff", "format", "--check", "scripts"]),
    ("mypy --strict", ["mypy"]),
)


def test(wanted: OwnTestsOptions) -> Verdict:
    doctor.require(doctor.JOBS["test"].needs, doctor.compilers())
    rest = "guest or tools" if wanted.k else "guest or tools or slow"  # quick_tests() has the slow ones that match
    others = f"{rest} or long" if wanted.long else f"({rest}) and not long"
    found = (path for folder in ("kunit", "selftests", "scripts", ".ci") for path in (PROJECT / folder).rglob("*"))
    shells = (b"#!/bin/sh", b"#!/usr/bin/env bash")
    scripts = [str(path) for path in found if path.is_file() and path.read_bytes()[:64].startswith(shells)]
    words = [*_BY_FILE, "-q", "--durations=20", *_chosen(wanted, others)]
    return _all(wanted, [("shellcheck", ["shellcheck", *scripts])], [("pytest", ["pytest", *words])])


def quick(wanted: QuickOptions) -> Verdict:
    return _all(wanted, [], [])


def quick_tests(wanted: QuickOptions) -> tuple[str, Sequence[str]]:
    """The tests that need only Python, git and make: in parallel, and in random order. The step's name has the seed.

    The slow ones are among them if they match `wanted.k`.
    """
    drawn = secrets.randbelow(1 << 31) if wanted.seed is None else wanted.seed
    marks = _BARE if wanted.k else f"{_BARE} and not slow"
    words = ["-n", _WORKERS, "--dist", "worksteal", f"--randomly-seed={drawn}", "-q", *_chosen(wanted, marks)]
    return f"pytest, what needs only Python, git and make (SEED={drawn})", ["pytest", *words]


def _chosen(wanted: QuickOptions, marks: str) -> list[str]:
    return ["-m", marks, *(["--golden"] if wanted.golden else []), *(["-k", wanted.k] if wanted.k else [])]


def _environment() -> dict[str, str]:
    """Keep compiled modules in the cache, whatever the user's shell says: without them each start takes longer.

    numpy gets one thread: there is a worker for each CPU already, and its threads spin while they wait.
    """
    ours = clean_environment({"OPENBLAS_NUM_THREADS": "1"})
    kept = {name: value for name, value in ours.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | ({"PYTHONPYCACHEPREFIX": sys.pycache_prefix} if sys.pycache_prefix else {})


def _all(wanted: QuickOptions, programs: Checks, more: Checks) -> Verdict:
    if INSTALLED:
        raise SchedlineError("schedline's own tests are not installed", "make quick, in a clone of schedline")
    python = [str(activate("test")), "-m"]
    checks: Checks = [(name, [*python, *words]) for name, words in _STYLE]
    checks += [*programs, *((name, [*python, *words]) for name, words in (quick_tests(wanted), *more))]
    failed: list[str] = []
    pytests: list[int] = []
    for name, argv in checks:
        with step(name):
            done = subprocess.run(argv, cwd=PROJECT, env=_environment(), stdin=subprocess.DEVNULL, check=False)
        sys.stdout.flush()
        if "pytest" in argv:
            pytests.append(done.returncode)
        if done.returncode and not ("pytest" in argv and done.returncode == _NO_TESTS):
            failed.append(name)
    if all(code == _NO_TESTS for code in pytests):
        failed.append(
            "pytest (no test has such a name)" if more else "pytest (no quick test has such a name: make test)"
        )
    say(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    return Verdict.FAIL if failed else Verdict.PASS
