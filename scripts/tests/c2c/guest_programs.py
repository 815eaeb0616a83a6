# SPDX-License-Identifier: GPL-2.0
"""Guest programs that only tests run: guest_*.c of this folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from schedlib.c2c import plugin_guest
from schedlib.c2c.c2c_options import SOURCES


def use_programs_of_tests(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a guest run the programs of this folder like those of scripts/c2c/, by copies of both."""
    shutil.copytree(SOURCES, place / "sources")
    for path in Path(__file__).parent.glob("guest_*.c"):
        shutil.copy(path, place / "sources")
    monkeypatch.setattr(plugin_guest, "SOURCES", place / "sources")
