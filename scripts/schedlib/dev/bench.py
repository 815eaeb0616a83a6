# SPDX-License-Identifier: GPL-2.0
"""`schedline bench`: what the tool costs beside a bare build, as ratios in one run. Goals, never assertions."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from statistics import median

from schedlib import doctor, options
from schedlib.c2c import counting as c2c
from schedlib.cache import cache_dir, write_json
from schedlib.check import sanitize
from schedlib.check.check_verb import CPUPRI_VARIANTS, Plan, boot_and_judge
from schedlib.dev import c2c_cost as c2c_cost
from schedlib.dev import workload_cost
from schedlib.dev.mutants import MUTANTS, Mutant, read_mutants
from schedlib.gate.gate_verb import load_libraries
from schedlib.kernel.build import build, build_directory, make
from schedlib.kernel.kconfig import load
from schedlib.kernel.targets import TARGETS
from schedlib.layout.columns import ensure_tools
from schedlib.layout.compile import UNIT, Column, chosen_archs, made
from schedlib.layout.members import STRUCTURES
from schedlib.layout.vmlinux import RUNNING_BTF
from schedlib.paths import PROJECT
from schedlib.process import must, run
from schedlib.progress import step
from schedlib.runs.programs import compiled
from schedlib.tree.compose import Composition, compose, refuse_conflicts
from schedlib.tree.kernel_tree import Tree, apply_diff, commit_tree, edit_tree, file_row, sync
from schedlib.verdict import Verdict

_STOCK = "CONFIG_KUNIT=y\nCONFIG_SMP=y\n"
"""What the stock build that ours is compared with is asked for."""

_HEADER = "kernel/sched/sched.h"


def _figure(value: float, unit: str) -> str:
    if unit != "s":
        return f"{value:.1f} {unit}"
    return f"{value:.2f} s" if value >= 0.01 else f"{value * 1e9:.1f} ns"


@dataclass(frozen=True)
class Row:
    """One measurement: ours and the reference, and the goal for their ratio or for ours."""

    name: str
    ours: float
    reference: float | None
    goal: str
    unit: str = "s"

    def text(self) -> str:
        """As one line."""
        figure = _figure(self.ours, self.unit)
        if self.reference is not None:
            figure += f" / {_figure(self.reference, self.unit)} = {self.ours / self.reference:.3f}"
        return f"{self.name}: {figure} (goal {self.goal})"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline bench`."""
    parser = subparsers.add_parser(
        "bench",
        help="build and run times as ratios, measured in one run",
        description="Builds the test kernel and a stock KUnit kernel from nothing, then times what a user repeats.\n"
        "Nothing is asserted. It takes about twenty minutes on two CPUs; leave the machine alone meanwhile.",
        epilog="examples:\n  schedline bench --json bench.json\n  schedline bench --only layout\n"
        "  schedline bench --only workloads            as root: what rt_wakeup and sleep_storm cost; two minutes\n"
        "  schedline bench --only gate                 the gate's false alarms and power, on made-up campaigns",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only",
        choices=("check", "wakeup", "cpupri", "layout", "c2c", "workloads", "gate"),
        help="the figures of one verb",
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


def _guest(
    cache: Path, tree: Tree, commit: str, expected: frozenset[str], only: str | None = None, *arguments: str
) -> float:
    """Seconds from a commit to the verdict of all suites with 8 CPUs, or of one."""
    target = TARGETS["uml"]
    start = time.monotonic()
    kernel = build(cache, tree, commit, target, load(["uml"]))
    plan = Plan(target, (8,), expected, arguments, only, target.timeout)
    boot_and_judge(plan, kernel, cache / "results/bench", (), "tcg")
    return time.monotonic() - start


def _layouts(cache: Path, tree: Tree, commit: str) -> list[Row]:
    """One object beside a whole vmlinux of the same configuration, and what is judged without compiling."""
    rows: list[Row] = []
    command = [str(PROJECT / "scripts/schedline"), "layout"]
    for arch in chosen_archs(("x86_64", "arm64")):
        column, place = Column(arch), cache / "bench"
        ensure_tools([column])
        made(cache, tree, commit, column, UNIT)
        changed = _with_comment(tree, commit, f"{arch.name} {time.time_ns()}")
        ours = _timed("one object", partial(made, cache, tree, changed, column, UNIT))
        shutil.rmtree(place, ignore_errors=True)
        whole = _timed("vmlinux of the same configuration", partial(made, place, tree, commit, column, "vmlinux"))
        rows.append(Row(f"layout for {arch.name} / vmlinux", ours, whole, "0.05"))
        vmlinux = next(place.glob("builds/*/vmlinux"))
        judged = _timed("--vmlinux", partial(run, [*command, "--vmlinux", str(vmlinux)]))
        bare = _timed("pahole", partial(run, ["pahole", "-C", ",".join(STRUCTURES), str(vmlinux)]))
        size = f"{vmlinux.stat().st_size >> 20} MB"
        rows.append(Row(f"layout --vmlinux of {arch.name} ({size}, DWARF) / pahole alone", judged, bare, "-"))
        shutil.rmtree(place)
    return rows


def _layouts_from_cache() -> list[Row]:
    """What is judged without compiling; the first run of the matrix fills the cache."""
    command = [str(PROJECT / "scripts/schedline"), "layout"]
    everything = [*command, "--arch", "all", "--config", "all"]
    _timed("the whole matrix", partial(run, everything))
    rows = [Row("the whole matrix from cache", _timed("again", partial(run, everything)), None, "under 3 s")]
    if RUNNING_BTF.exists():
        judged = _timed("--running", partial(run, [*command, "--running"]))
        bare = _timed("pahole", partial(run, ["pahole", "-C", ",".join(STRUCTURES), str(RUNNING_BTF)]))
        size = f"{RUNNING_BTF.stat().st_size / (1 << 20):.1f} MB of BTF"
        rows.append(Row(f"layout --running ({size}) / pahole alone", judged, bare, "under 1 s"))
    return rows


def _mutant(mutants: tuple[Mutant, ...], file: str) -> Mutant:
    """The first one that changes a file and needs nothing but the default tree and configuration."""
    plain = (each for each in mutants if not (each.config or each.series or each.on or each.without))
    return next(mutant for mutant in plain if f"+++ b/{file}\n".encode() in mutant.diff)


def _checks(cache: Path, tree: Tree, composition: Composition) -> list[Row]:
    """From a commit to a verdict, again and with mutants."""
    commit, expected = composition.commit, composition.expected
    _guest(cache, tree, commit, expected)
    rows = [Row("all suites, UML with 8 CPUs", _guest(cache, tree, commit, expected), None, "under 5 s")]
    for file, goal in (("kernel/sched/cpupri.c", "12 s"), (_HEADER, "30 s")):
        mutant = _mutant(read_mutants(MUTANTS), file)
        broken = apply_diff(tree, commit, mutant.diff, f"mutant {mutant.name}\n")
        if broken:
            rows.append(Row(f"a mutant in {file}", _guest(cache, tree, broken, expected), None, goal))
    _guest(cache, tree, commit, expected)
    return rows


def _wakeups(cache: Path, tree: Tree, composition: Composition) -> list[Row]:
    """The table of the wake-up path, and random cases on random machines against the model."""
    measured = partial(_guest, cache, tree, composition.commit, composition.expected)
    measured()
    many = ("sched_cluster_kunit.machines=50", "sched_cluster_kunit.cases=2000")
    return [
        Row("the rows of the wake-up path, UML", measured("sched_cluster.rows"), None, "under 5 s"),
        Row("3 x 10^5 random cases on 50 machines", measured("sched_cluster.random_cases", *many), None, "180 s"),
        Row("wake-ups of real tasks", measured("sched_wakeup"), None, "-"),
    ]


_COST = re.compile(r"cost: (\d+) CPUs: set (\d+) ps, find one (\d+) ps, find all (\d+) ps")
_COST_BOOTS = 5


def _cpupri(cache: Path, tree: Tree, stock: Composition, split: Composition) -> list[Row]:
    """What set and find take in each variant of cpupri-split beside stock: medians of guests booted in turn."""
    target = TARGETS["uml"]
    chosen = {"stock": (stock, ["uml"])}
    chosen |= {name: (split, ["uml", f"cpupri-{name}"]) for name in CPUPRI_VARIANTS}
    figures: dict[tuple[str, str], list[float]] = {}
    for boot in range(_COST_BOOTS):
        for name, (composition, fragments) in chosen.items():
            kernel = build(cache, tree, composition.commit, target, load(fragments))
            plan = Plan(target, (8,), composition.expected, (), "sched_cpupri_private.cost", target.timeout)
            (booted,) = boot_and_judge(plan, kernel, cache / f"results/bench/cost-{name}-{boot}", (), "tcg")
            for cpus, *picoseconds in _COST.findall(booted.log.read_text(errors="replace")):
                for what, value in zip(("set", "find one", "find all"), picoseconds, strict=True):
                    figures.setdefault((name, f"{what}, {cpus} CPUs"), []).append(float(value) / 1e12)
    return [
        Row(f"{what}: {name} / stock", median(values), median(figures["stock", what]), "-")
        for (name, what), values in figures.items()
        if name != "stock"
    ]


def _races(cache: Path, tree: Tree, split: Composition) -> list[Row]:
    """How long an emulated x86-64 guest takes for the cases in which threads race, and for all with KCSAN."""
    target = TARGETS[sanitize.TARGET]
    rows: list[Row] = []
    for fragments, only, goal in (
        (["cpupri-llc"], "sched_cpupri*", "under 60 s"),
        (["kcsan", "cpupri-llc"], None, "under 600 s"),
    ):
        kernel = build(cache, tree, split.commit, target, load([target.name, *fragments]))
        plan = Plan(target, (8,), split.expected, (), only, 10 * target.timeout)
        name = f"{only or 'all suites'}, {'+'.join((target.name, *fragments))}, 8 CPUs"
        booted = partial(boot_and_judge, plan, kernel, cache / "results/bench/races", (), "tcg")
        rows.append(Row(name, _timed(name, booted), None, goal))
    return rows


def _c2c(cache: Path, tree: Tree) -> list[Row]:
    """What the plugin of c2c adds to a guest that counts instructions."""
    made = c2c.subject(cache, tree, c2c_cost.wanted(32))
    costs = [c2c_cost.cost(cache, made, cpus) for cpus in (16, 32)]
    return [
        Row(f"CPU time of c2c's guest, {each.cpus} CPUs: plugin / none", each.plugin, each.without, "1.25")
        for each in costs
    ]


def _unchanged() -> list[Row]:
    command = [str(PROJECT / "scripts/schedline"), "check"]
    run(command)
    return [Row("check, nothing changed", _timed("check", lambda: run(command)), None, "under 3 s")]


def _workloads() -> list[Row]:
    """The programs of selftests/ beside what they stand for."""
    doctor.ensure(["build", "run"])
    programs = compiled(cache_dir(), ["rt_wakeup", "sleep_storm"])
    rounds = workload_cost.beside_cyclictest(programs)
    ours = median(each.ours.cpu_per_sample for each in rounds)
    theirs = median(timers.cpu_per_sample for each in rounds for timers in (each.before, each.after))
    rows = [Row("CPU time of a sample: rt_wakeup / cyclictest", ours, theirs, "1.1")]
    for name in ("p50", "p99"):
        difference, spread = workload_cost.apart(rounds, attrgetter(name))
        rows.append(Row(f"{name}: rt_wakeup from cyclictest / cyclictest from itself", difference, spread, "1"))
    start = workload_cost.start_of_storm(programs)
    rows.append(Row("sleep_storm: 4800 children ready / forked", start.ready_s, start.forked_s, "2"))
    if start.kb_per_child is not None:
        rows.append(Row("sleep_storm: memory of a child", start.kb_per_child, None, "under 200 kB", "kB"))
    return rows


def _gate(file: Path | None) -> int:
    """No figure of time: how often the gate is wrong. It needs no kernel, and FAILs when it misses its goals."""
    load_libraries()
    from schedlib.dev.gate_proof import proof

    lines = proof.measure()
    print(proof.text(lines))
    if file:
        write_json(file, {"schema": "bench-gate-1", "lines": proof.document(lines)})
    verdict = Verdict.PASS if proof.met(lines) else Verdict.FAIL
    print(f"verdict: {verdict.name}")
    return verdict.exit_code


def _of_tree(arguments: argparse.Namespace) -> tuple[list[Row], str]:
    """What needs a kernel tree, and which one it was."""
    rows: list[Row] = []
    with options.opened_tree(arguments) as (cache, tree):
        doctor.ensure(["uml", "layout", "qemu-x86_64"])
        composition = compose(tree)
        refuse_conflicts(composition)
        if arguments.only in (None, "check"):
            rows += _builds(cache, tree, composition.commit) + _checks(cache, tree, composition)
        if arguments.only in (None, "wakeup"):
            rows += _wakeups(cache, tree, composition)
        if arguments.only in (None, "cpupri"):
            split = compose(tree, with_=["cpupri-split"])
            refuse_conflicts(split)
            rows += _cpupri(cache, tree, composition, split) + _races(cache, tree, split)
        if arguments.only in (None, "layout"):
            rows += _layouts(cache, tree, composition.commit)
        if arguments.only in (None, "c2c"):
            rows += _c2c(cache, tree)
    return rows, f", {tree.origin}"


def _run(arguments: argparse.Namespace) -> int:
    if arguments.only == "gate":
        return _gate(arguments.json)
    rows, origin = ([], "") if arguments.only == "workloads" else _of_tree(arguments)
    if arguments.only in (None, "check"):
        rows += _unchanged()
    if arguments.only in (None, "layout"):
        rows += _layouts_from_cache()
    if arguments.only in (None, "workloads"):
        rows += _workloads()
    conditions = f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}{origin}"
    print(f"conditions: {conditions}")
    for row in rows:
        print(row.text())
    if arguments.json:
        write_json(
            arguments.json, {"schema": "bench-1", "conditions": conditions, "rows": [asdict(row) for row in rows]}
        )
    return 0
