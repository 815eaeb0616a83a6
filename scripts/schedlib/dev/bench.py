# SPDX-License-Identifier: GPL-2.0
"""Measures the tool's cost against a bare build, as ratios in one run. There are goals, but no assertions."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir
from schedlib.check.check_boots import CheckPlan, boot_and_judge
from schedlib.check.mutants import MUTANTS, read_mutants
from schedlib.contracts.contract_rules import our_rules
from schedlib.dev.dev_verb import BenchOptions
from schedlib.kernel.build import Kernel, build_directory, built, make
from schedlib.kernel.kconfig import Configuration, load
from schedlib.kernel.targets import TARGETS, Target
from schedlib.layout.vmlinux import RUNNING_BTF
from schedlib.options import TreeOptions
from schedlib.paths import PROGRAM
from schedlib.process import must, run
from schedlib.progress import step
from schedlib.tree.compose import Composition, compose, refuse_conflicts
from schedlib.tree.kernel_tree import Tree, apply_diff, checked_out, commit_tree, edit_tree, file_row, open_tree
from schedlib.verdict import Verdict

_SCHEDLINE = str(PROGRAM)

_STOCK = "CONFIG_KUNIT=y\nCONFIG_SMP=y\n"
"""The configuration of the stock build with which ours is compared."""

_HEADER = "kernel/sched/sched.h"


@dataclass(frozen=True)
class BenchRow:
    """One measurement: our value and the reference value, and the goal for their ratio or for our value."""

    name: str
    ours: float
    reference: float | None
    goal: str
    unit: str = "s"


def row_text(row: BenchRow) -> str:
    """A row as one line of text."""

    def figure(value: float) -> str:
        if row.unit != "s":
            return f"{value:.1f} {row.unit}"
        return f"{value:.2f} s" if value >= 0.01 else f"{value * 1e9:.1f} ns"

    ratio = "" if row.reference is None else f" / {figure(row.reference)} = {row.ours / row.reference:.3f}"
    return f"{row.name}: {figure(row.ours)}{ratio} (goal {row.goal})"


def _timed(name: str, work: Callable[[], object]) -> float:
    start = time.monotonic()
    with step(name):
        work()
    return time.monotonic() - start


def _built(place: Path, tree: Tree, commit: str, target: Target, configuration: Configuration) -> Kernel:
    """Build a kernel, and use it in its build directory: nobody else builds there during the measurement."""
    with built(place, tree, commit, target, configuration) as kernel:
        return kernel


def _with_comment(tree: Tree, commit: str, text: str) -> str:
    """A commit whose sched.h differs by a comment at its end."""
    header = (tree.read(_HEADER, commit) or "") + f"/* {text} */\n"
    row = file_row(tree.src, _HEADER, header.encode())
    return commit_tree(tree.src, edit_tree(tree.src, commit, [row]), commit, f"{text}\n")


def _builds(cache: Path, tree: Tree, commit: str) -> list[BenchRow]:
    """Cold builds, and the rebuild after a change of sched.h, each with its reference."""
    place, target, configuration = cache / "bench", TARGETS["uml"], load(["uml"])
    shutil.rmtree(place, ignore_errors=True)
    stock = place / "stock"
    stock.mkdir(parents=True)
    (stock / ".kunitconfig").write_text(_STOCK)
    jobs = str(os.cpu_count() or 1)
    words = [sys.executable, "tools/testing/kunit/kunit.py", "build", f"--build_dir={stock}", "--jobs", jobs]
    with checked_out(tree, commit):
        reference = _timed("stock kunit.py build", lambda: must(words, cwd=tree.src))
    ours = _timed("our build", lambda: _built(place, tree, commit, target, configuration))
    rows = [BenchRow("cold build / stock kunit.py build", ours, reference, "0.6")]
    directory = build_directory(place, tree, target, configuration)
    with checked_out(tree, _with_comment(tree, commit, "one")):
        bare = _timed("bare make after a change of sched.h", lambda: make(tree.src, directory, "um", ["vmlinux"]))
    second = _with_comment(tree, commit, "two")
    ours = _timed("our build after a change of sched.h", lambda: _built(place, tree, second, target, configuration))
    rows.append(BenchRow("rebuild after sched.h / bare make", ours, bare, "1.15"))
    shutil.rmtree(place)
    return rows


def _guest(cache: Path, tree: Tree, commit: str, expected: frozenset[str]) -> float:
    """Seconds from a commit to the verdict, with 8 CPUs."""
    target = TARGETS["uml"]
    start = time.monotonic()
    kernel = _built(cache, tree, commit, target, load(["uml"]))
    plan = CheckPlan(target, (8,), expected)
    boot_and_judge(plan, kernel, cache / "results/bench", "tcg")
    return time.monotonic() - start


def _layouts_from_cache() -> list[BenchRow]:
    """Judging without compiling. The first run of the matrix fills the cache."""
    everything = [_SCHEDLINE, "layout", "--arch", "all", "--config", "all"]
    _timed("the whole matrix", partial(run, everything))
    rows = [BenchRow("the whole matrix from cache", _timed("again", partial(run, everything)), None, "under 3 s")]
    if RUNNING_BTF.exists():
        name = f"layout --running ({RUNNING_BTF.stat().st_size / (1 << 20):.1f} MB of BTF)"
        rows.append(_beside_pahole(name, ["--running"], RUNNING_BTF, "under 1 s"))
    return rows


def _beside_pahole(name: str, words: list[str], file: Path, goal: str) -> BenchRow:
    judged = _timed(words[0], partial(run, [_SCHEDLINE, "layout", *words]))
    bare = _timed("pahole", partial(run, ["pahole", "-C", ",".join(our_rules().types()), str(file)]))
    return BenchRow(f"{name} / pahole alone", judged, bare, goal)


def _checks(cache: Path, tree: Tree, composition: Composition) -> list[BenchRow]:
    """The time from a commit to a verdict: for a kernel that is already built, and for mutants."""
    commit, expected = composition.commit, composition.expected
    _guest(cache, tree, commit, expected)
    rows = [BenchRow("all suites, UML with 8 CPUs", _guest(cache, tree, commit, expected), None, "under 5 s")]
    # Mutants that need only the default tree and configuration.
    plain = [each for each in read_mutants(MUTANTS) if not (each.config or each.series or each.on or each.without)]
    for file, goal in (("kernel/sched/cpupri.c", "12 s"), (_HEADER, "30 s")):
        mutant = next(each for each in plain if f"+++ b/{file}\n".encode() in each.diff)
        broken = apply_diff(tree, commit, mutant.diff, f"mutant {mutant.name}\n")
        if broken:
            rows.append(BenchRow(f"a mutant in {file}", _guest(cache, tree, broken, expected), None, goal))
    _guest(cache, tree, commit, expected)
    return rows


def _of_tree() -> tuple[list[BenchRow], str]:
    """The figures that need a kernel tree, and the name of the tree."""
    cache = cache_dir()
    chosen = TreeOptions()
    doctor.require(["build", *chosen.needs, "uml"])
    tree = open_tree(cache, chosen)
    composition = compose(tree)
    refuse_conflicts(composition)
    rows = _builds(cache, tree, composition.commit) + _checks(cache, tree, composition)
    return rows, f", {tree.origin}"


def _starts() -> list[BenchRow]:
    """The start-up time of the command, against Python's own."""
    bare = min(_timed("python3 -c pass", lambda: run([sys.executable, "-c", "pass"])) for _ in range(5))
    rows = []
    for words in (["--help"], ["layout", "--patch", "/dev/null"]):
        command = [sys.executable, _SCHEDLINE, *words]
        run(command)
        ours = min(_timed(f"schedline {words[0]}", lambda argv=command: run(argv)) for _ in range(5))  # type: ignore[misc]
        rows.append(BenchRow(f"start of schedline {' '.join(words)} / of Python", ours, bare, "10"))
    return rows


def bench(wanted: BenchOptions) -> Verdict:
    """Measure everything, or the figures of one kind, and print them with the conditions."""
    only = wanted.only
    rows, origin = _of_tree() if only in (None, "check") else ([], "")
    if only in (None, "start"):
        rows += _starts()
    if only in (None, "check"):
        command = [_SCHEDLINE, "check"]
        run(command)
        rows.append(BenchRow("check, nothing changed", _timed("check", lambda: run(command)), None, "under 3 s"))
    if only in (None, "layout"):
        doctor.require([*TreeOptions().needs, "layout"])
        rows += _layouts_from_cache()
    load_now = f"{os.getloadavg()[0]:.1f}"
    print(f"conditions: {platform.machine()}, {os.cpu_count()} CPUs, load {load_now}, {platform.release()}{origin}")
    for row in rows:
        print(row_text(row))
    return Verdict.PASS
