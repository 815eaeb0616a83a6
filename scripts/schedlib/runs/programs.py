# SPDX-License-Identifier: GPL-2.0
"""The programs of selftests/sched_latency/, compiled into the cache as their Makefile does."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from schedlib import doctor
from schedlib.cache import contents_of, digest_of
from schedlib.errors import SchedlineError
from schedlib.guest.selftests import compile_program
from schedlib.options import DEFAULT_SERIES, TreeOptions
from schedlib.paths import BUNDLE, BUNDLED_PROGRAMS
from schedlib.process import must
from schedlib.progress import step
from schedlib.runs.workload_suites import OWN
from schedlib.tree.kernel_tree import Tree, cached_series, open_tree

_KEPT = 5
"""How many versions of the programs stay in the cache."""


def header_tree(cache: Path, wanted: TreeOptions | None = None) -> Tree:
    """A user's tree, or a kernel source in the cache: the programs include its kselftest.h. Nothing is downloaded."""
    if wanted and wanted.kdir:
        return open_tree(cache, wanted)
    name = (wanted and wanted.series) or DEFAULT_SERIES
    tree = cached_series(cache, name)
    if tree is None:
        raise SchedlineError(
            f"the programs include the kernel's kselftest.h, and {cache} has no kernel source. Nothing is downloaded "
            "to a machine that is measured",
            "schedline run --pack FILE on another machine; the bundle needs nothing but Python here. "
            f"Or schedline fetch --series {name} (about 170 MB; it disturbs running measurements)",
        )
    return tree


def compiled(cache: Path, names: Collection[str]) -> Path:
    """Compile these programs, and return their directory. A bundle has all of them compiled."""
    if BUNDLE.exists():
        return BUNDLED_PROGRAMS
    doctor.require(["compile"])
    gcc = must(["gcc", "--version"])
    place = cache / "workloads" / digest_of(gcc, *contents_of([OWN]))
    lacking = [name for name in sorted(set(names)) if not (place / name).exists()]
    if lacking:
        place.mkdir(parents=True, exist_ok=True)
        tree = header_tree(cache)
        with step(f"compiling {len(lacking)} workloads"):
            for name in lacking:
                with tempfile.TemporaryDirectory(dir=place) as scratch:
                    new = Path(scratch, name)
                    compile_program(tree, OWN / f"{name}.c", new)
                    new.replace(place / name)
    os.utime(place)
    places = [each for each in (cache / "workloads").iterdir() if each.is_dir()]
    for old in sorted(places, key=lambda each: each.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return place
