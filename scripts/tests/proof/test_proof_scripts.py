# SPDX-License-Identifier: GPL-2.0
"""The proofs stay outside of the product."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import schedlib
from proof.__main__ import HERE, scripts

MOST_LINES = 3300


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_the_product_imports_no_proof() -> None:
    found = [
        path.name
        for path in Path(schedlib.__file__).parent.rglob("*.py")
        if any(name.partition(".")[0] == "proof" for name in imported(path))
    ]
    assert not found


def test_each_script_says_what_it_shows() -> None:
    assert "gate_rates" in scripts()
    assert all(scripts().values())


def test_they_stay_small() -> None:
    assert sum(len(path.read_text().splitlines()) for path in HERE.glob("*.py")) <= MOST_LINES
