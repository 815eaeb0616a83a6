# SPDX-License-Identifier: GPL-2.0
"""`schedline run --in-guest`: the kernel that check builds, with a suite in place of its tests."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from schedlib import options
from schedlib.cache import write_atomic, write_json
from schedlib.check.check_verb import CPUPRI_VARIANTS, split, variants
from schedlib.console.judge import judge
from schedlib.errors import SchedlineError
from schedlib.guest import home, selftests
from schedlib.guest.busybox_guest import CPUS, TARGET, Guest, built
from schedlib.kernel.topology import MOST_CPUS, flat, load_topology
from schedlib.progress import say, step
from schedlib.runs import in_guest
from schedlib.runs.conclude import conclude
from schedlib.runs.in_guest import COLLECTION, Errand
from schedlib.runs.machine import now
from schedlib.runs.measure import time_limit
from schedlib.runs.plan import PLAN, Plan, Run, new_plan, save_plan, shuffled
from schedlib.runs.workload_suites import Suite
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict, worst

_BOOT = 300.0
"""Seconds, at most, before the first run and after the last one."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """--in-guest, and which guest."""
    group = parser.add_argument_group(
        "in a guest", "The kernel is chosen as for check; 7.3 with all changes unless these say otherwise."
    )
    group.add_argument("--in-guest", action="store_true", help="boot a kernel in QEMU and run the suite there (quick)")
    options.add_tree_options(parser)
    options.add_change_options(parser)
    group.add_argument("--on", metavar="TARGET", help=f"qemu-x86_64 or qemu-arm64 ({TARGET})")
    shape = group.add_mutually_exclusive_group()
    shape.add_argument("--cpus", type=_cpus, metavar="N", help=f"CPUs of the guest ({CPUS})")
    shape.add_argument("--topology", metavar="NAME", help="its shape, in configs/topologies/NAME.toml")
    group.add_argument(
        "--config",
        type=options.ids,
        default=(),
        metavar="FRAGMENT,...",
        help="fragments of configs/kernel/, or paths, added in this order",
    )
    group.add_argument(
        "--cpupri",
        type=variants,
        default=(),
        metavar="NAME,...",
        help=f"cpupri-split by {', '.join(CPUPRI_VARIANTS)}, or all: a guest for each",
    )
    group.add_argument("--timeout", type=float, metavar="SECONDS", help="end the guest after this time")


def _cpus(text: str) -> int:
    value = int(text)
    if not 1 <= value <= MOST_CPUS:
        raise ValueError
    return value


def refuse_without_guest(arguments: argparse.Namespace) -> None:
    """The words that only a guest understands.

    Raises:
        SchedlineError: one of them is there without --in-guest.
    """
    names = ("kdir", "series", "with_", "without", "on", "cpus", "topology", "config", "cpupri", "timeout")
    given = [name for name in names if getattr(arguments, name)]
    if given and not arguments.in_guest:
        raise SchedlineError(
            f"--{given[0].strip('_')} chooses a guest, and the workloads would run on this machine", "add --in-guest"
        )


def run_in_guest(arguments: argparse.Namespace, suite: Suite, out: Path) -> int:
    """A guest for each kernel; what came home, and the worst verdict."""
    if not arguments.cpupri:
        return _one(arguments, suite, out).exit_code
    parts = [split(arguments, name, out) for name in dict.fromkeys(arguments.cpupri)]
    verdict = worst([_one(part, suite, part.out) for part in parts])
    print(f"verdict of {len(parts)} cpupri variants: {verdict.value}")
    return verdict.exit_code


def _one(arguments: argparse.Namespace, suite: Suite, out: Path) -> Verdict:
    if (out / PLAN).exists():
        raise SchedlineError(
            f"{out} has runs of another machine or boot, and a guest begins anew", "name another directory with --out"
        )
    out.mkdir(parents=True, exist_ok=True)
    shape = load_topology(arguments.topology) if arguments.topology else flat(arguments.cpus or CPUS)
    with options.opened_tree(arguments) as (cache, tree):
        guest = built(
            cache,
            tree,
            arguments.on or TARGET,
            shape,
            with_=arguments.with_,
            without=arguments.without,
            config=arguments.config,
        )
        return _measured(arguments, in_guest.for_guest(suite, shape.cpus), guest, tree, out)


def _measured(arguments: argparse.Namespace, suite: Suite, guest: Guest, tree: Tree, out: Path) -> Verdict:
    started, _ = now()
    seed = arguments.seed if arguments.seed is not None else time.time_ns() & 0xFFFFFFFF
    order = shuffled([row.name for row in suite.rows], arguments.runs or 1, seed)
    todo = in_guest.errands(suite, order, guest.target.arch)
    log = out / "console.log"
    with tempfile.TemporaryDirectory(dir=out, prefix=".now-") as name:
        place = Path(name)
        disk = home.empty_disk(place / "disk", len(todo))
        archive = _archive(guest, tree, todo, place)
        limit = arguments.timeout or _BOOT + sum(time_limit(errand.row) for errand in todo)
        with step(f"{len(todo)} runs in a guest with {guest.topology.cpus} CPUs, {limit / 60:.0f} min at most"):
            boot = guest.boot(archive, disk, log, limit)
        plan = _brought_home(suite, order, seed, todo, guest.target.arch, disk, out, started)
    expected = [f"{COLLECTION}:{errand.name}" for errand in todo]
    judgement = judge(log.read_bytes(), expected, ending=boot.ending, times=boot.times)
    verdict = Verdict.ERROR
    if plan:
        verdict, _ = conclude(suite, plan, out, plan.machine, started, arguments.json, arguments.lava)
    else:
        say("nothing came home that tells which guest it was, so none of its runs is kept")
    say("emulated CPUs: the latencies and rates say nothing of a machine; each workload did its work, or did not")
    for problem in judgement.problems:
        if problem.verdict is not Verdict.PASS:
            print(f"console: {problem.kind}: {problem.text}")
    verdict = worst([verdict, judgement.verdict])
    print(f"runs: {out}; console: {log}")
    print(f"verdict: {verdict.value}")
    return verdict


def _archive(guest: Guest, tree: Tree, todo: Sequence[Errand], place: Path) -> Path:
    (place / "files").mkdir()
    files = in_guest.files(todo, place / "files")
    (place / "epoch").write_text(f"{int(time.time())}\n")
    directory = guest.kernel.build / "workloads"
    wanted = {errand.row.program for errand in todo}
    sources = {name: path for name, path in selftests.own_programs().items() if path.stem in wanted}
    own = selftests.compile_all(tree, sources, directory, guest.target)
    archive = place / "initramfs.cpio"
    guest.pack("guest_runs.sh", files | own | {"/epoch": place / "epoch"}, archive)
    return archive


def _brought_home(
    suite: Suite,
    order: Sequence[Run],
    seed: int,
    todo: Sequence[Errand],
    arch: str,
    disk: Path,
    out: Path,
    started: str,
) -> Plan | None:
    """Each run as a file, the plan beside them; nothing where the guest did not tell what it is."""
    place = disk.parent / "home"
    place.mkdir()
    machine = in_guest.identity(disk, place)
    if not machine:
        return None
    plan = new_plan(suite, len(order) // len(suite.rows), seed, machine)
    save_plan(plan, out)
    rows = {row.name: row for row in suite.rows}
    slots = {errand.name: slot for slot, errand in enumerate(todo)}
    for run in order:
        slot = slots.get(f"{run.row}-{run.number}")
        place = disk.parent / f"home-{run.row}-{run.number}"
        place.mkdir()
        measured = (
            in_guest.left_out(rows[run.row], arch, machine, started)
            if slot is None
            else in_guest.brought(todo[slot], slot, disk, machine, place)
        )
        write_atomic(out / run.log, measured.log)
        write_json(out / run.file, measured.document | {"plan": plan.part(run)})
    return plan
