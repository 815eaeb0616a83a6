# SPDX-License-Identifier: GPL-2.0
"""Measures the tool's cost against a bare build, as ratios in one run. There are goals, but no assertions."""

from __future__ import annotations

import difflib
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir
from schedlib.check.check_boots import CheckPlan, boot_and_judge
from schedlib.check.mutants import MUTANTS, read_mutants
from schedlib.contracts.contract_rules import our_rules
from schedlib.dev.dev_verb import BenchOptions
from schedlib.kernel.build import Kernel, build_directory, built, make
from schedlib.kernel.kconfig import load
from schedlib.kernel.targets import TARGETS
from schedlib.layout.vmlinux import RUNNING_BTF
from schedlib.options import TreeOptions
from schedlib.paths import PROGRAM
from schedlib.process import must, run
from schedlib.progress import step
from schedlib.tree.compose import compose, refuse_conflicts
from schedlib.tree.kernel_tree import Tree, apply_diff, checked_out, open_tree, put_files
from schedlib.verdict import Verdict

_SCHEDLINE = str(PROGRAM)
_STOCK = "CONFIG_KUNIT=y\nCONFIG_SMP=y\n"
"""The configuration of the stock build with which ours is compared."""
_HEADER = "kernel/sched/sched.h"
_TARGET = TARGETS["uml"]
_ASKED = (
    ("rq", _HEADER, "kernel/sched/core.o"),
    ("mm_struct", "include/linux/mm_types.h", "kernel/fork.o"),
    ("page_counter", "include/linux/page_counter.h", "mm/page_counter.o"),
    ("tcp_sock", "include/linux/tcp.h", "net/ipv4/tcp.o"),
)
"""A structure, its header, and an object that sees it."""


def _row(name: str, ours: float, goal: str, reference: float | None = None) -> str:
    """One measurement: our seconds and those of the reference, and the goal for their ratio or for ours."""

    def figure(value: float) -> str:
        return f"{value:.2f} s" if value >= 0.01 else f"{value * 1e9:.1f} ns"

    ratio = "" if reference is None else f" / {figure(reference)} = {ours / reference:.3f}"
    return f"{name}: {figure(ours)}{ratio} (goal {goal})"


def _timed(name: str, work: Callable[[], object]) -> float:
    start = time.monotonic()
    with step(name):
        work()
    return time.monotonic() - start


def _built(place: Path, tree: Tree, commit: str) -> Kernel:
    """Build a kernel, and use it in its build directory: nobody else builds there during the measurement."""
    with built(place, tree, commit, _TARGET, load(["uml"])) as kernel:
        return kernel


def _builds(cache: Path, tree: Tree, commit: str) -> Iterator[str]:
    """Cold builds, and the rebuild after a change of sched.h, each with its reference."""
    place = cache / "bench"
    shutil.rmtree(place, ignore_errors=True)
    stock = place / "stock"
    stock.mkdir(parents=True)
    (stock / ".kunitconfig").write_text(_STOCK)
    jobs = str(os.cpu_count() or 1)
    words = [sys.executable, "tools/testing/kunit/kunit.py", "build", f"--build_dir={stock}", "--jobs", jobs]
    with checked_out(tree, commit):
        reference = _timed("stock kunit.py build", lambda: must(words, cwd=tree.src))
    ours = _timed("our build", lambda: _built(place, tree, commit))
    yield _row("cold build / stock kunit.py build", ours, "0.6", reference)
    header = tree.read(_HEADER, commit) or ""
    one, two = (
        put_files(tree, commit, {_HEADER: f"{header}/* {text} */\n".encode()}, f"{text}\n") for text in ("one", "two")
    )
    directory = build_directory(place, tree, _TARGET, load(["uml"]))
    with checked_out(tree, one):
        bare = _timed("bare make after a change of sched.h", lambda: make(tree.src, directory, "um", ["vmlinux"]))
    ours = _timed("our build after a change of sched.h", lambda: _built(place, tree, two))
    yield _row("rebuild after sched.h / bare make", ours, "1.15", bare)
    shutil.rmtree(place)


def _checks(cache: Path, tree: Tree, commit: str, expected: frozenset[str]) -> Iterator[str]:
    def guest(commit: str) -> float:
        start = time.monotonic()
        kernel = _built(cache, tree, commit)
        boot_and_judge(CheckPlan(_TARGET, (8,), expected), kernel, cache / "results/bench", "tcg")
        return time.monotonic() - start

    guest(commit)
    yield _row("all suites, UML with 8 CPUs", guest(commit), "under 5 s")
    # Mutants that need only the default tree and configuration.
    plain = [each for each in read_mutants(MUTANTS) if not (each.config or each.series or each.on or each.without)]
    for file, goal in (("kernel/sched/cpupri.c", "12 s"), (_HEADER, "30 s")):
        mutant = next(each for each in plain if f"+++ b/{file}\n".encode() in each.diff)
        if broken := apply_diff(tree, commit, mutant.diff, f"mutant {mutant.name}\n"):
            yield _row(f"a mutant in {file}", guest(broken), goal)
    guest(commit)


def _layouts() -> Iterator[str]:
    everything = partial(run, [_SCHEDLINE, "layout", "--arch", "all", "--config", "all"])
    _timed("the whole matrix", everything)
    yield _row("the whole matrix from cache", _timed("again", everything), "under 3 s")
    if RUNNING_BTF.exists():
        judged = _timed("--running", partial(run, [_SCHEDLINE, "layout", "--running"]))
        types = ",".join(our_rules().types())
        bare = _timed("pahole", partial(run, ["pahole", "-C", types, str(RUNNING_BTF)]))
        name = f"layout --running ({RUNNING_BTF.stat().st_size / (1 << 20):.1f} MB of BTF) / pahole alone"
        yield _row(name, judged, "under 1 s", bare)


def _answers(cache: Path, tree: Tree, commit: str) -> Iterator[str]:
    """A new member in a tree that its owner has built, beside make of an object that sees the structure."""
    place = cache / "bench"
    shutil.rmtree(place, ignore_errors=True)
    build, patch = place / "own", place / "patch"
    build.mkdir(parents=True)
    with checked_out(tree, commit):
        for goals in (["defconfig"], [unit for _, _, unit in _ASKED]):
            make(tree.src, build, "x86_64", goals)
        for name, header, unit in _ASKED:
            old = (tree.src / header).read_text()
            new = re.sub(rf"^struct {name} {{\n", r"\g<0>\tu64 bench_member;\n", old, count=1, flags=re.M)
            before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
            patch.write_text("".join(difflib.unified_diff(before, after, f"a/{header}", f"b/{header}")))
            words: list[str | Path] = [_SCHEDLINE, "layout", "--kdir", tree.src, "--build", build, "--patch", patch]
            first, second = (_timed(f"{name}, {which}", partial(run, words)) for which in ("first", "again"))
            (build / unit).unlink()
            bare = _timed(f"make {unit}", partial(make, tree.src, build, "x86_64", [unit]))
            yield _row(f"layout --patch, struct {name} / make {unit}", first, "5 s", bare)
            yield _row(f"the same again, struct {name}", second, "2 s")
    shutil.rmtree(place)


def _starts() -> Iterator[str]:
    def best(name: str, *words: str) -> float:
        return min(_timed(name, partial(run, [sys.executable, *words])) for _ in range(5))

    bare = best("python3 -c pass", "-c", "pass")
    for words in (["--help"], ["layout", "--patch", "/dev/null"]):
        run([sys.executable, _SCHEDLINE, *words])
        ours = best(f"schedline {words[0]}", _SCHEDLINE, *words)
        yield _row(f"start of schedline {' '.join(words)} / of Python", ours, "10", bare)


def bench(wanted: BenchOptions) -> Verdict:
    rows, origin = list[str](), ""
    cache, chosen = cache_dir(), TreeOptions()
    if wanted.only != "start":
        doctor.require(["build", "layout", *chosen.needs, *(["uml"] if wanted.only != "layout" else [])])
        tree = open_tree(cache, chosen)
        made = compose(tree)
        origin = f", {tree.origin}"
    if wanted.only in (None, "check"):
        refuse_conflicts(made)
        rows += [*_builds(cache, tree, made.commit), *_checks(cache, tree, made.commit, made.expected)]
    if wanted.only in (None, "start"):
        rows += _starts()
    if wanted.only in (None, "check"):
        check = partial(run, [_SCHEDLINE, "check"])
        check()
        rows.append(_row("check, nothing changed", _timed("check", check), "under 3 s"))
    if wanted.only in (None, "layout"):
        rows += [*_answers(cache, tree, made.commit), *_layouts()]
    load_now = f"{os.getloadavg()[0]:.1f}"
    print(f"conditions: {platform.machine()}, {os.cpu_count()} CPUs, load {load_now}, {platform.release()}{origin}")
    print(*rows, sep="\n")
    return Verdict.PASS
