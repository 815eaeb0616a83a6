# SPDX-License-Identifier: GPL-2.0
"""A program that looks like a vmlinux: it has the scheduler's names, and structures small enough to check by hand."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def build(directory: Path, *flags: str) -> Path:
    """Compile it from the path that the unit has in the kernel."""
    source = directory / "kernel/sched/fair.c"
    source.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_name("toy_kernel.c"), source)
    program = directory / "vmlinux"
    argv = ["gcc", "-gdwarf-4", "-no-pie", "-Wl,--build-id", *flags, "-o", str(program), "kernel/sched/fair.c"]
    subprocess.run(argv, check=True, cwd=directory)
    return program
