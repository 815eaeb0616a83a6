# SPDX-License-Identifier: GPL-2.0
"""The proofs stay outside of the product."""

from __future__ import annotations

import re
from pathlib import Path

import schedlib
from proof.__main__ import HERE, scripts

MOST_LINES = 3000


def test_the_product_imports_no_proof() -> None:
    texts = {path.name: path.read_text() for path in Path(schedlib.__file__).parent.rglob("*.py")}
    assert not [name for name, text in texts.items() if re.search(r"^ *(from|import) proof\b", text, re.M)]


def test_each_script_says_what_it_shows() -> None:
    assert "gate_rates" in scripts()
    assert all(scripts().values())


def test_they_stay_small() -> None:
    assert sum(len(path.read_text().splitlines()) for path in HERE.glob("*.py")) <= MOST_LINES
