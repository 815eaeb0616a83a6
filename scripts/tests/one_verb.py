# SPDX-License-Identifier: GPL-2.0
"""Run a verb in this process: parse its command line and do its job, without preparing libraries."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from schedlib.options import VerbParser
from schedlib.verdict import Verdict


def parsed(verb: ModuleType, words: Sequence[str]) -> argparse.Namespace:
    """The parsed form of a command line that begins with the verb's name."""
    top = VerbParser(prog="schedline")
    verb.add_parser(top.add_subparsers())
    return top.parse_args(words)


def main_of(verb: ModuleType) -> Callable[[Sequence[str]], int]:
    def main(words: Sequence[str]) -> int:
        arguments = parsed(verb, words)
        verdict: Verdict = arguments.job(arguments.read(arguments))
        return verdict.exit_code

    return main


_IMPORT = """\
import importlib, json, sys
from contextlib import suppress
sys.path.insert(0, sys.argv[1])
sys.modules.update(dict.fromkeys(json.loads(sys.argv[2])))
for name in sys.argv[3:]:
    with suppress(ImportError):
        importlib.import_module(name)
        print(name)
"""


def importable(*modules: str, without: Sequence[str]) -> tuple[str, ...]:
    """Those of some modules that can be imported, in this order, when some libraries are not installed."""
    argv = [sys.executable, "-c", _IMPORT, str(Path(__file__).parents[1]), json.dumps(without), *modules]
    return tuple(subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout.split())


_READ_ALONE = """\
import contextlib, importlib, io, json, sys
sys.path[:0] = json.loads(sys.argv[1])
from one_verb import parsed
verb, said = importlib.import_module(sys.argv[2]), []
for words in json.load(sys.stdin):
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            arguments = parsed(verb, words)
            arguments.read(arguments)
        said.append("")
    except BaseException as error:
        said.append(complaint.getvalue() + str(error))
print(json.dumps(said))
"""


def said_without_libraries(verb: ModuleType, lines: Sequence[Sequence[str]]) -> list[str]:
    """For each command line the error message when only the standard library is importable; "" if it is accepted."""
    places = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
    argv = [sys.executable, "-I", "-S", "-c", _READ_ALONE, json.dumps(places), verb.__name__]
    done = subprocess.run(argv, input=json.dumps(lines), capture_output=True, text=True, check=True, timeout=60)
    said: list[str] = json.loads(done.stdout)
    return said
