# SPDX-License-Identifier: GPL-2.0
"""`schedline test`: every check of this project's own, one after the other; all of them run, one verdict."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path

from schedlib import doctor
from schedlib.environment import environment
from schedlib.layout.columns import ensure_tools
from schedlib.layout.compile import Column, arch_table
from schedlib.paths import PROJECT
from schedlib.process import clean_environment
from schedlib.progress import say, step
from schedlib.verdict import Verdict


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline test`."""
    parser = subparsers.add_parser(
        "test",
        help="this project's own tests",
        description="Checks style and types of the Python, the shell scripts and the kernel code, then runs pytest.\n"
        "The tests that boot a kernel use the builds of `schedline check`.",
        epilog="examples:\n  schedline test\n  schedline test -k judge\n  schedline test --long",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-k", metavar="EXPRESSION", help="only the tests that match (as pytest -k)")
    parser.add_argument("--long", action="store_true", help="those, too, that build a kernel for themselves alone")
    parser.set_defaults(run=_run)


def _shell_scripts() -> tuple[Path, ...]:
    """Every file that starts as a shell script does."""
    found = (path for folder in ("kunit", "selftests", "scripts", ".ci") for path in (PROJECT / folder).rglob("*"))
    shells = (b"#!/bin/sh", b"#!/usr/bin/env bash")
    return tuple(path for path in found if path.is_file() and path.read_bytes()[:64].startswith(shells))


def _chosen(arguments: argparse.Namespace) -> list[str]:
    """Which tests, in pytest's words."""
    return [*(["-k", arguments.k] if arguments.k else []), *(["-m", ""] if arguments.long else [])]


def _run(arguments: argparse.Namespace) -> int:
    doctor.ensure(["build", "fetch", "layout", "test"])
    ensure_tools([Column(arch) for arch in arch_table().values()])
    python = str(environment("requirements-test.txt"))
    jobs: list[tuple[str, Sequence[str]]] = [
        ("ruff check", [python, "-m", "ruff", "check", "scripts"]),
        ("ruff format", [python, "-m", "ruff", "format", "--check", "scripts"]),
        ("mypy --strict", [python, "-m", "mypy"]),
        ("shellcheck", ["shellcheck", *map(str, _shell_scripts())]),
        ("pytest", [python, "-m", "pytest", *_chosen(arguments)]),
    ]
    failed: list[str] = []
    for name, argv in jobs:
        with step(name):
            done = subprocess.run(argv, cwd=PROJECT, env=clean_environment(), stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            failed.append(name)
    say(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    return (Verdict.FAIL if failed else Verdict.PASS).exit_code
