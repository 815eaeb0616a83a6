# SPDX-License-Identifier: GPL-2.0
"""The programs of selftests/sched_latency/, compiled into the cache as their Makefile does."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from schedlib import options
from schedlib.guest.selftests import compile_program
from schedlib.process import must
from schedlib.progress import step
from schedlib.runs.workload_suites import OWN


def _key() -> str:
    text = hashlib.sha256(must(["gcc", "--version"], next_step="apt-get install gcc").encode())
    for path in sorted((*OWN.glob("*.[ch]"), OWN / "Makefile")):
        text.update(path.name.encode() + b"\0" + path.read_bytes())
    return text.hexdigest()[:16]


def compiled(cache: Path, names: Collection[str]) -> Path:
    """A directory with these programs; the kernel's kselftest.h comes from the default series.

    Raises:
        SchedlineError: one does not compile, or the kernel cannot be fetched.
    """
    place = cache / "workloads" / _key()
    lacking = [name for name in sorted(set(names)) if not (place / name).exists()]
    if lacking:
        place.mkdir(parents=True, exist_ok=True)
        with options.opened(None, None) as (_, tree), step(f"compiling {len(lacking)} workloads"):
            for name in lacking:
                with tempfile.TemporaryDirectory(dir=place) as scratch:
                    new = Path(scratch, name)
                    compile_program(tree, OWN / f"{name}.c", new)
                    new.replace(place / name)
    os.utime(place)
    return place


def forget_old(cache: Path, kept: int = 5) -> None:
    """Remove the programs of older sources."""
    places = sorted(
        (each for each in (cache / "workloads").iterdir() if each.is_dir()), key=lambda p: p.stat().st_mtime
    )
    for place in places[:-kept]:
        shutil.rmtree(place, ignore_errors=True)
