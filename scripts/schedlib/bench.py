# SPDX-License-Identifier: GPL-2.0
"""`schedline bench`: what the tool costs beside a bare build, as ratios in one run. Goals, never assertions."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from schedlib import doctor, options
from schedlib.build import build, build_directory, make
from schedlib.cache import write_json
from schedlib.check import Plan, boot_and_judge, expect_arguments
from schedlib.command import must, run
from schedlib.compose import compose, refuse_conflicts
from schedlib.kconfig import load
from schedlib.mutants import MUTANTS, Mutant, read_mutants
from schedlib.paths import PROJECT
from schedlib.progress import step
from schedlib.targets import TARGETS
from schedlib.trees import Tree, apply_diff, commit_tree, edit_tree, file_row, sync

_STOCK = "CONFIG_KUNIT=y\nCONFIG_SMP=y\n"
"""What the stock build that ours is compared with is asked for."""

_HEADER = "kernel/sched/sched.h"


@dataclass(frozen=True)
class Row:
    """One measurement: ours and the reference in seconds, and the goal for their ratio or for ours."""

    name: str
    ours: float
    reference: float | None
    goal: str

    def text(self) -> str:
        """As one line."""
        figure = f"{self.ours:.1f} s"
        if self.reference is not None:
            figure += f" / {self.reference:.1f} s = {self.ours / self.reference:.2f}"
        return f"{self.name}: {figure} (goal {self.goal})"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline bench`."""
    parser = subparsers.add_parser(
        "bench",
        help="build and run times as ratios, measured in one run",
        description="Builds the test kernel and a stock KUnit kernel from nothing, then times what a user repeats.\n"
        "Nothing is asserted. It takes about ten minutes on two CPUs; leave the machine alone meanwhile.",
        epilog="examples:\n  schedline bench --json bench.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    parser.set_defaults(run=_run, kdir=None, series=None)


def _timed(name: str, work: Callable[[], object]) -> float:
    start = time.monotonic()
    with step(name):
        work()
    return time.monotonic() - start


def _with_comment(tree: Tree, commit: str, text: str) -> str:
    """A commit whose sched.h differs by a comment at its end."""
    header = (tree.read(_HEADER, commit) or "") + f"/* {text} */\n"
    row = file_row(tree.src, _HEADER, header.encode())
    return commit_tree(tree.src, edit_tree(tree.src, commit, [row]), commit, f"{text}\n")


def _builds(cache: Path, tree: Tree, commit: str) -> list[Row]:
    """Cold builds, and the rebuild after sched.h changed, each beside its reference."""
    place, target, configuration = cache / "bench", TARGETS["uml"], load(["uml"])
    shutil.rmtree(place, ignore_errors=True)
    sync(tree, commit)
    stock = place / "stock"
    stock.mkdir(parents=True)
    (stock / ".kunitconfig").write_text(_STOCK)
    jobs = str(os.cpu_count() or 1)
    words = [sys.executable, "tools/testing/kunit/kunit.py", "build", f"--build_dir={stock}", "--jobs", jobs]
    reference = _timed("stock kunit.py build", lambda: must(words, cwd=tree.src))
    ours = _timed("our build", lambda: build(place, tree, commit, target, configuration))
    rows = [Row("cold build / stock kunit.py build", ours, reference, "0.6")]
    directory = build_directory(place, tree, target, configuration)
    sync(tree, _with_comment(tree, commit, "one"))
    bare = _timed("bare make after a change of sched.h", lambda: make(tree.src, directory, "um", ["vmlinux"]))
    second = _with_comment(tree, commit, "two")
    ours = _timed("our build after a change of sched.h", lambda: build(place, tree, second, target, configuration))
    rows.append(Row("rebuild after sched.h / bare make", ours, bare, "1.15"))
    shutil.rmtree(place)
    return rows


def _guest(cache: Path, tree: Tree, commit: str, expected: frozenset[str]) -> float:
    """Seconds from a commit to the verdict of all suites with 8 CPUs."""
    target = TARGETS["uml"]
    start = time.monotonic()
    kernel = build(cache, tree, commit, target, load(["uml"]))
    plan = Plan(target, (8,), expect_arguments(expected), None, target.timeout)
    boot_and_judge(plan, kernel, cache / "results/bench", (), "tcg")
    return time.monotonic() - start


def _mutant(mutants: tuple[Mutant, ...], file: str) -> Mutant:
    """The first one that changes a file and needs nothing but the default tree and configuration."""
    plain = (each for each in mutants if not (each.config or each.series or each.on or each.without))
    return next(mutant for mutant in plain if f"+++ b/{file}\n".encode() in mutant.diff)


def _run(arguments: argparse.Namespace) -> int:
    with options.opened_tree(arguments) as (cache, tree):
        doctor.ensure(["uml"])
        composition = compose(tree)
        refuse_conflicts(composition)
        rows = _builds(cache, tree, composition.commit)
        _guest(cache, tree, composition.commit, composition.expected)
        seconds = _guest(cache, tree, composition.commit, composition.expected)
        rows.append(Row("all suites, UML with 8 CPUs", seconds, None, "under 5 s"))
        for file, goal in (("kernel/sched/cpupri.c", "12 s"), (_HEADER, "30 s")):
            mutant = _mutant(read_mutants(MUTANTS), file)
            commit = apply_diff(tree, composition.commit, mutant.diff, f"mutant {mutant.name}\n")
            if commit:
                seconds = _guest(cache, tree, commit, composition.expected)
                rows.append(Row(f"a mutant in {file}", seconds, None, goal))
        _guest(cache, tree, composition.commit, composition.expected)
    command = [str(PROJECT / "scripts/schedline"), "check"]
    run(command)
    rows.append(Row("check, nothing changed", _timed("check", lambda: run(command)), None, "under 3 s"))
    conditions = f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {tree.origin}"
    print(f"conditions: {conditions}")
    for row in rows:
        print(row.text())
    if arguments.json:
        write_json(
            arguments.json, {"schema": "bench-1", "conditions": conditions, "rows": [asdict(row) for row in rows]}
        )
    return 0
