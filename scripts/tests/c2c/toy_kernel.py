# SPDX-License-Identifier: GPL-2.0
"""Programs that tests compile: one that looks like a vmlinux, small enough to check by hand, and those of guests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from schedlib.c2c import plugin_guest
from schedlib.c2c.c2c_options import SOURCES, OwnProgram


def build(directory: Path, *flags: str) -> Path:
    """Compile it from the path that the unit has in the kernel."""
    source = directory / "kernel/sched/fair.c"
    source.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_name("toy_kernel.c"), source)
    program = directory / "vmlinux"
    argv = ["gcc", "-gdwarf-4", "-no-pie", "-Wl,--build-id", *flags, "-o", str(program), "kernel/sched/fair.c"]
    subprocess.run(argv, check=True, cwd=directory)
    return program


def use_programs_of_tests(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a guest run guest_*.c of this folder like those of scripts/c2c/, by copies of both."""
    shutil.copytree(SOURCES, place / "sources")
    for path in Path(__file__).parent.glob("guest_*.c"):
        shutil.copy(path, place / "sources")
    monkeypatch.setattr(plugin_guest, "SOURCES", place / "sources")


def script(place: Path, text: str, *, marked: bool = False) -> OwnProgram:
    """A script of a user."""
    (place / "my.sh").write_text(f"{text}\n")
    return OwnProgram(place / "my.sh", marked=marked)
