# SPDX-License-Identifier: GPL-2.0
"""Runs one of the scripts beside it, with the libraries of the tests."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def scripts() -> dict[str, str]:
    """What each script shows, by its name. The other files here are parts of them."""
    texts = {path.stem: path.read_text() for path in sorted(HERE.glob("[a-z]*.py"))}
    return {
        name: (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
        for name, text in texts.items()
        if "\ndef main(" in text
    }


def start(words: list[str]) -> None:
    """Run the script that the first word names; without a word, list them."""
    known = scripts()
    if not words or words[0] not in known:
        lines = [f"  {name:16}{about}" for name, about in known.items()]
        sys.exit("\n".join(["python3 scripts/proof NAME [arguments]", *lines]))
    sys.path.insert(0, str(HERE.parent))
    from schedlib.environment import activate
    from schedlib.errors import SchedlineError

    activate("test")
    sys.argv = [f"{HERE}/{words[0]}.py", *words[1:]]
    try:
        runpy.run_module(f"proof.{words[0]}", run_name="__main__", alter_sys=True)
    except SchedlineError as error:
        sys.exit(f"{error.observed}\n  next: {error.next_step}")


if __name__ == "__main__":
    start(sys.argv[1:])
