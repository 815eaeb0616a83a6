# SPDX-License-Identifier: GPL-2.0
"""The verbs `layout` and `status`, run as the command line runs them."""

from __future__ import annotations

import argparse
import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from schedlib.layout import layout_verb, status_verb
from schedlib.options import VerbParser
from schedlib.verdict import Verdict


def parser() -> argparse.ArgumentParser:
    """A parser with these two verbs only."""
    top = VerbParser(prog="schedline")
    verbs: Any = top.add_subparsers(required=True, prog="schedline")
    layout_verb.add_parser(verbs)
    status_verb.add_parser(verbs)
    return top


def read(*words: str) -> object:
    """The options that a command line is parsed into."""
    arguments = parser().parse_args(words)
    return arguments.read(arguments)


def refusal(*words: str) -> str:
    """Why a command line is a usage error."""
    with redirect_stderr(StringIO()) as said, pytest.raises(SystemExit, match="2"):
        read(*words)
    return said.getvalue()


def run(*words: str) -> Verdict:
    """Run a command line and return its verdict."""
    arguments = parser().parse_args(words)
    verdict = arguments.job(arguments.read(arguments))
    assert isinstance(verdict, Verdict)
    return verdict


def heard(*words: str) -> tuple[Verdict, str, str]:
    """The verdict of a command line and both outputs."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as errors:
        verdict = run(*words)
    return verdict, out.getvalue(), errors.getvalue()


def said(*words: str) -> tuple[Verdict, str]:
    """The verdict of a command line and what it prints."""
    return heard(*words)[:2]


def document(path: Path, *words: str) -> dict[str, Any]:
    """The document that a command line writes to a path; its status is the verdict."""
    verdict = run(*words, "--json", str(path))
    found: dict[str, Any] = json.loads(path.read_text())
    assert found.get("status", verdict.name) == verdict.name
    return found
