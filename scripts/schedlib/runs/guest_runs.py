# SPDX-License-Identifier: GPL-2.0
"""`schedline run --in-guest`: boots the kernel that check builds, and runs a suite in it instead of the tests."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from schedlib import doctor
from schedlib.cache import cache_dir, scratch, write_atomic
from schedlib.console.judge import judge
from schedlib.formats import document
from schedlib.formats.plan_document import PlannedRun, RunPlan
from schedlib.guest import home, selftests
from schedlib.guest.busybox_guest import CPUS, TARGET, Guest, prepared_guest
from schedlib.kernel.machine import now
from schedlib.kernel.topology import flat, load_topology
from schedlib.progress import say, step
from schedlib.runs import in_guest
from schedlib.runs.conclude import conclude
from schedlib.runs.in_guest import COLLECTION, Errand
from schedlib.runs.measure import time_limit
from schedlib.runs.plan import new_plan, save_plan, shuffled
from schedlib.runs.run_options import GuestOptions, RunOptions
from schedlib.runs.workload_suites import Suite
from schedlib.tree.kernel_tree import Tree, open_tree
from schedlib.verdict import Verdict, worst

_BOOT = 300.0
"""Seconds allowed for everything before the first run and after the last one."""


def run_in_guest(options: RunOptions, guest: GuestOptions, suite: Suite, out: Path) -> Verdict:
    """Run a suite in a guest for each kernel, and return the worst verdict.

    Raises:
        SchedlineError: a kernel does not build, or the guest is impossible.
    """
    if not guest.cpupri:
        return _one(options, guest, suite, out)
    verdict = worst([_one(options.variant(name), guest.variant(name), suite, out / name) for name in guest.cpupri])
    print(f"verdict of {len(guest.cpupri)} cpupri variants: {verdict.value}")
    return verdict


def _one(options: RunOptions, wanted: GuestOptions, suite: Suite, out: Path) -> Verdict:
    out.mkdir(parents=True, exist_ok=True)
    shape = load_topology(wanted.topology) if wanted.topology else flat(wanted.cpus or CPUS)
    cache = cache_dir()
    doctor.require(["build", *wanted.tree.needs])
    tree = open_tree(cache, wanted.tree)
    with scratch(cache) as place:
        guest = prepared_guest(cache, tree, place, wanted.on or TARGET, shape, wanted.changes, wanted.config)
        return _measured(options, in_guest.for_guest(suite, shape.cpus), guest, tree, out, wanted.timeout)


def _measured(
    options: RunOptions, suite: Suite, guest: Guest, tree: Tree, out: Path, timeout: float | None = None
) -> Verdict:
    started, _ = now()
    seed = options.seed if options.seed is not None else secrets.randbelow(1 << 32)
    order = shuffled([row.name for row in suite.rows], options.runs or 1, seed)
    todo = in_guest.errands(suite, order, guest.target.arch)
    log = out / "console.log"
    with tempfile.TemporaryDirectory(dir=out, prefix=".now-") as name:
        place = Path(name)
        disk = home.empty_disk(place / "disk", len(todo))
        archive = _archive(guest, tree, todo, place)
        limit = timeout or _BOOT + sum(time_limit(errand.row) for errand in todo)
        with step(f"{len(todo)} runs in a guest with {guest.topology.cpus} CPUs, {limit / 60:.0f} min at most"):
            boot = guest.boot(archive, disk, log, limit)
        plan = _brought_home(suite, order, seed, todo, guest.target.arch, disk, out, started)
    expected = [f"{COLLECTION}:{errand.name}" for errand in todo]
    judgement = judge(log.read_bytes(), expected, ending=boot.ending, times=boot.times)
    verdict = Verdict.ERROR
    if plan:
        verdict, _ = conclude(suite, plan, out, plan.machine, started, options.json, options.lava)
    else:
        say("the guest returned no fingerprint, so none of its runs is kept")
    say("emulated CPUs: latencies and rates mean nothing; the runs show only whether each workload did its work")
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
    order: Sequence[PlannedRun],
    seed: int,
    todo: Sequence[Errand],
    arch: str,
    disk: Path,
    out: Path,
    started: str,
) -> RunPlan | None:
    """Write each run to a file, and the plan beside them. None if the guest did not report its fingerprint."""
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
        document.write(out / run.file, replace(measured.run, plan=plan.part(run)))
    return plan
