# SPDX-License-Identifier: GPL-2.0
"""The verbs `layout` and `status`, run as the command line runs them."""

from __future__ import annotations

import argparse
from typing import Any

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


def run(*words: str) -> Verdict:
    """Run a command line and return its verdict."""
    arguments = parser().parse_args(words)
    verdict = arguments.job(arguments.read(arguments))
    assert isinstance(verdict, Verdict)
    return verdict
