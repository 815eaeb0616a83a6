# SPDX-License-Identifier: GPL-2.0
"""Compiles the scheduler with the exported series, for other architectures, compilers and options."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir, lock
from schedlib.dev.dev_options import COMPILE_ROWS, CompileRow, PlainTreeOptions
from schedlib.dev.plain_tree import clone_with_series
from schedlib.errors import DoesNotBuild, SchedlineError
from schedlib.kernel.build import make
from schedlib.kernel.kconfig import configure, load, parse_config
from schedlib.progress import step
from schedlib.tree.kernel_tree import open_tree
from schedlib.verdict import Verdict, worst


def warnings_of(log: str, judged: str) -> tuple[str, ...]:
    """The warnings about files below a directory in the output of make, each once.

    Debian's sparse 0.6.4 takes module_param()'s constants for bad ones.
    """
    found = re.findall(rf"^.*\b{judged}\S+ (?:warning|error): (?!bad constant expression).*$", log, re.M)
    return tuple(dict.fromkeys(line.strip() for line in found))


def compile_row(src: Path, build: Path, name: str, row: CompileRow) -> tuple[Verdict, str, tuple[str, ...]]:
    """Compile the scheduler of a source as a row says. Returns the verdict, what was seen, and the warnings.

    A compiler that is not installed, or a checker that make left out, is an ERROR: nothing was looked at.
    """
    if not shutil.which(row.compiler):
        return Verdict.ERROR, f"{row.compiler} is not installed", ()
    started = time.monotonic()
    try:
        with step(f"compiling {name}"):
            configure(src, build, row.arch, load(row.fragments), row.words)
            make(src, build, row.arch, [*row.words, "W=1", "kernel/sched/"])
    except DoesNotBuild as error:
        return Verdict.FAIL, error.observed, ()
    except SchedlineError as error:
        return Verdict.ERROR, error.observed, ()
    log = (build / "build.log").read_text(errors="replace")
    if "C=2" in row.words and "\n  CHECK " not in log:
        return Verdict.ERROR, f"make ran no {row.compiler}: see {build / 'build.log'}", ()
    found = warnings_of(log, row.judged)
    objects = sum(1 for _ in (build / "kernel/sched").rglob("*.o"))
    compiler = parse_config((build / ".config").read_text())["CONFIG_CC_VERSION_TEXT"].strip('"')
    said = f"{objects} objects, {len(found)} warnings, {compiler}, {time.monotonic() - started:.0f} s"
    return (Verdict.FAIL if found else Verdict.PASS), said, found


def compile_series(options: PlainTreeOptions) -> Verdict:
    """Export tests and changes into a clone of a tree, and compile its scheduler as the chosen rows say.

    Raises:
        SchedlineError: the tree is not available, or the series does not apply.
    """
    doctor.require(["build", *options.tree.needs, "objtool"])
    cache = cache_dir()
    tree = open_tree(cache, options.tree)
    verdicts = []
    with lock(cache / "compile-series.lock"):
        place = cache / "compile-series"
        clone, _ = clone_with_series(tree, place)
        for name in options.compile:
            row = COMPILE_ROWS[name]
            verdict, said, found = compile_row(clone, place / "build" / name, name, row)
            verdicts.append(verdict)
            print(f"{verdict.name} {name}: {said}", flush=True)
            for line in found[:10]:
                print(f"    {line}")
    return worst(verdicts)
