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
from schedlib.guest import home, selftests
from schedlib.guest.busybox_guest import CPUS, TARGET, Guest, prepared_guest
from schedlib.kernel.machine import now
from schedlib.kernel.topology import flat, load_topology
from schedlib.progress import say, step
from schedlib.runs import in_guest
from schedlib.runs.in_guest import COLLECTION, Errand
from schedlib.runs.measure import time_limit
from schedlib.runs.plan import new_plan, shuffled
from schedlib.runs.run_options import PLAN, GuestOptions, RunOptions
from schedlib.runs.runs_report import conclude
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
    if guest.cpupri:
        variants = ((options.variant(name), guest.variant(name), suite, out / name) for name in guest.cpupri)
        verdict = worst([run_in_guest(*each) for each in variants])
        print(f"verdict of {len(guest.cpupri)} cpupri variants: {verdict.value}")
        return verdict
    out.mkdir(parents=True, exist_ok=True)
    shape = load_topology(guest.topology) if guest.topology else flat(guest.cpus or CPUS)
    cache = cache_dir()
    doctor.require(["build", *guest.tree.needs])
    tree = open_tree(cache, guest.tree)
    with scratch(cache) as place:
        booted = prepared_guest(cache, tree, place, guest.on or TARGET, shape, guest.changes, guest.config)
        return _measured(options, in_guest.for_guest(suite, shape.cpus), booted, tree, out, guest.timeout)


def _measured(
    options: RunOptions, suite: Suite, guest: Guest, tree: Tree, out: Path, timeout: float | None = None
) -> Verdict:
    started, _ = now()
    seed = options.seed if options.seed is not None else secrets.randbelow(1 << 32)
    runs, arch, log = options.runs or 1, guest.target.arch, out / "console.log"
    todo = in_guest.errands(suite, shuffled([row.name for row in suite.rows], runs, seed), arch)
    with tempfile.TemporaryDirectory(dir=out, prefix=".now-") as name:
        disk = home.empty_disk(Path(name, "disk"), len(todo))
        archive = _archive(guest, tree, todo, Path(name))
        limit = timeout or _BOOT + sum(time_limit(errand.row) for errand in todo)
        with step(f"{len(todo)} runs in a guest with {guest.topology.cpus} CPUs, {limit / 60:.0f} min at most"):
            boot = guest.boot(archive, disk, log, limit)
        machine = in_guest.identity(disk)
        plan = new_plan(suite, runs, seed, machine) if machine else None
        if plan:
            document.write(out / PLAN, plan)
            rows = {row.name: row for row in suite.rows}
            slots = {errand.name: slot for slot, errand in enumerate(todo)}
            for run in plan.order:
                slot = slots.get(f"{run.row}-{run.number}")
                if slot is None:
                    measured = in_guest.left_out(rows[run.row], arch, machine, started)
                else:
                    measured = in_guest.brought(todo[slot], slot, disk, machine)
                write_atomic(out / run.log, measured.log)
                document.write(out / run.file, replace(measured.run, plan=plan.part(run)))
    expected = [f"{COLLECTION}:{errand.name}" for errand in todo]
    judgement = judge(log.read_bytes(), expected, ending=boot.ending, times=boot.times)
    verdict = Verdict.ERROR
    if plan:
        verdict, _ = conclude(options, suite, plan, out, plan.machine, started)
    else:
        say("the guest returned no fingerprint, so none of its runs is kept")
    say("emulated CPUs: latencies and rates mean nothing; the runs show only whether each workload did its work")
    for problem in judgement.problems:
        if problem.verdict is not Verdict.PASS:
            print(f"console: {problem.kind}: {problem.text}")
    verdict = worst([verdict, judgement.verdict])
    print(f"runs: {out}; console: {log}\nverdict: {verdict.value}")
    return verdict


def _archive(guest: Guest, tree: Tree, todo: Sequence[Errand], place: Path) -> Path:
    (place / "files").mkdir()
    files = in_guest.files(todo, place / "files")
    (place / "epoch").write_text(f"{int(time.time())}\n")
    wanted = {errand.row.program for errand in todo}
    sources = {name: path for name, path in selftests.own_programs().items() if path.stem in wanted}
    own = selftests.compile_all(tree, sources, guest.kernel.build / "workloads", guest.target)
    archive = place / "initramfs.cpio"
    guest.pack("guest_runs.sh", files | own | {"/epoch": place / "epoch"}, archive)
    return archive
