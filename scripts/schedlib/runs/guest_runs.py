# SPDX-License-Identifier: GPL-2.0
"""`schedline run --in-guest`: boots the kernel that check builds, and runs a suite in it instead of the tests."""

from __future__ import annotations

import re
import secrets
import shlex
import shutil
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from schedlib import doctor
from schedlib.cache import cache_dir, scratch
from schedlib.console.judge import judge
from schedlib.formats import document, run_file
from schedlib.formats.document import Refused
from schedlib.formats.run_file import Reading, run_of
from schedlib.guest import home, selftests
from schedlib.guest.busybox_guest import CPUS, TARGET, Guest, prepared_guest, why_not_for
from schedlib.guest.home import bring_home
from schedlib.guest.shared_libraries import with_libraries
from schedlib.kernel.machine import now
from schedlib.kernel.targets import Target
from schedlib.kernel.topology import shape_of
from schedlib.paths import PLAN
from schedlib.progress import say, step
from schedlib.runs.measure import OWN_JSON, Measured, command, head_of, read_run, skipped, time_limit, why_not
from schedlib.runs.plan import boots_in, new_plan, refuse_another, runs_wanted, shuffled
from schedlib.runs.run_verb import GuestOptions, RunOptions
from schedlib.runs.runs_report import conclude
from schedlib.runs.tool_process import said_in
from schedlib.runs.tools import TOOLS, Output
from schedlib.runs.workload_suites import Suite, WorkloadRow
from schedlib.tree.kernel_tree import Tree, open_tree
from schedlib.verdict import Verdict, worst

_BOOT = 300.0
"""Seconds allowed for everything before the first run and after the last one."""

COLLECTION = "guest"
"""The collection in which the guest's console reports its runs."""

OWN = Path("/sched_latency")
"""The directory of the workloads in the guest."""

SLOWER = 4
"""How much longer a run may take on emulated CPUs."""

_KILLED = 128 + 9


Queue = Mapping[str, WorkloadRow]
"""What the guest has to run, in this order. Its console reports each by its name."""

IDENTITY = WorkloadRow(
    name="identity",
    program="sleep_storm",
    arguments=("-c", "1", "-l", "1"),
    seconds=1,
    work="sleeps",
    metrics={"sleeps": "sleeps"},
)
"""Runs first, and belongs to no suite. Its run has the guest's fingerprint, which runs of tools lack."""


def run_in_guest(options: RunOptions, guest: GuestOptions, suite: Suite, out: Path) -> Verdict:
    out.mkdir(parents=True, exist_ok=True)
    shape = shape_of(guest.topology, guest.cpus or CPUS)
    cache = cache_dir()
    target = guest.on or TARGET
    doctor.require(["build", *options.tree.needs, target, f"{target}-selftests", "in-guest"])
    tree = open_tree(cache, options.tree)
    with scratch(cache) as place:
        booted = prepared_guest(cache, tree, place, target, shape, options.changes, guest.config)
        return _measured(options, for_guest(suite, shape.cpus), booted, tree, out, guest.timeout)


def _measured(
    options: RunOptions, suite: Suite, guest: Guest, tree: Tree, out: Path, timeout: float | None = None
) -> Verdict:
    started, _ = now()
    seed = options.seed if options.seed is not None else secrets.randbelow(1 << 32)
    boots = boots_in(out)
    runs, log = runs_wanted(options.runs, boots), out / "console.log"
    for _, other in boots:
        refuse_another(other, new_plan(suite, runs, seed, other.machine), out)
    left_out = rows_left_out(suite, guest.target.arch)
    todo = queued(suite, runs, seed, left_out)
    with tempfile.TemporaryDirectory(dir=out, prefix=".now-") as name:
        disk = home.empty_disk(Path(name, "disk"), len(todo))
        archive = _archive(guest, tree, todo, Path(name))
        limit = timeout or _BOOT + sum(map(time_limit, todo.values()))
        with step(f"{len(todo)} runs in a guest with {guest.topology.cpus} CPUs, {limit / 60:.0f} min at most"):
            boot = guest.boot(archive, disk, log, limit)
        machine, verdict = identity(disk), Verdict.ERROR
        if machine:
            plan = new_plan(suite, runs, seed, machine)
            for _, other in boots:
                refuse_another(other, plan, out)
            place = out / machine["boot_id"]
            document.write(place / PLAN, plan)
            log = log.replace(place / log.name)
            slots = {name: slot for slot, name in enumerate(todo)}
            for planned in plan.order:
                row, slot = suite.rows[planned.row], slots.get(planned.name)
                if slot is None:
                    found = skipped(head_of(row, machine, started, 0), row, *left_out[row.name])
                else:
                    found = brought(row, slot, disk, machine)
                plan.keep(place, planned, *found)
            verdict, _ = conclude(options, suite, plan, place)
        else:
            say("the guest returned no fingerprint, so none of its runs is kept")
    expected = [f"{COLLECTION}:{name}" for name in todo]
    judgement = judge(log.read_bytes(), expected, ending=boot.ending, times=boot.times)
    say("emulated CPUs: latencies and rates mean nothing; the runs show only whether each workload did its work")
    for problem in judgement.problems:
        if problem.verdict is not Verdict.PASS:
            print(f"console: {problem.kind}: {problem.text}")
    verdict = worst([verdict, judgement.verdict])
    print(f"runs: {log.parent}; console: {log}\nverdict: {verdict.value}")
    return verdict


def _archive(guest: Guest, tree: Tree, todo: Queue, place: Path) -> Path:
    files, epoch, archive = place / "files", place / "epoch", place / "initramfs.cpio"
    files.mkdir()
    epoch.write_text(f"{int(time.time())}\n")
    programs = compiled_for(tree, todo, guest.kernel.build / "workloads", guest.target)
    guest.pack("guest_runs.sh", guest_files(todo, files) | programs | {"/epoch": epoch}, archive)
    return archive


def compiled_for(tree: Tree, todo: Queue, place: Path, target: Target) -> dict[str, Path]:
    """Compile our own programs for a guest; their paths here, by those in the guest."""
    wanted = {row.program for row in todo.values()}
    sources = {name: path for name, path in selftests.own_programs().items() if path.stem in wanted}
    return selftests.compile_all(tree, sources, place, target)


def for_guest(suite: Suite, cpus: int, *, emulated: bool = True) -> Suite:
    """The suite as a guest runs it: with the guest's number of CPUs, and longer durations on emulated ones."""
    slower = SLOWER if emulated else 1
    rows = {
        name: replace(row, arguments=tuple(row.to_argv(cpus)), seconds=slower * row.seconds)
        for name, row in suite.rows.items()
    }
    return replace(suite, rows=rows)


def _programs(row: WorkloadRow) -> list[Path]:
    if not row.tool:
        return []
    tool = TOOLS[row.tool]
    started = [word for word in row.to_argv() if word in TOOLS]
    names = [tool.path() or tool.name, *tool.server[:1], *started]
    return [Path(found) for name in names if (found := shutil.which(name))]


def why_not_in_guest(row: WorkloadRow, arch: str) -> tuple[str, bool]:
    """Why a row cannot be run in a guest, and whether a program is missing. Root can use SCHED_FIFO in the guest."""
    why, missing = why_not(row, "")
    if not why and row.tool and TOOLS[row.tool].driver:
        why = "it needs Python, which the guest lacks"
    return why or next(filter(None, (why_not_for(program, arch) for program in _programs(row))), ""), missing


def rows_left_out(suite: Suite, arch: str) -> dict[str, tuple[str, bool]]:
    return {name: found for name, row in suite.rows.items() if (found := why_not_in_guest(row, arch))[0]}


def queued(suite: Suite, runs: int, seed: int, left_out: Collection[str] = ()) -> Queue:
    """Runs in the order of the plan. The first one finds out which machine and kernel this is."""
    order = shuffled([*suite.rows], runs, seed)
    return {IDENTITY.name: IDENTITY} | {each.name: suite.rows[each.row] for each in order if each.row not in left_out}


def guest_files(todo: Queue, place: Path) -> dict[str, Path]:
    """The files that the guest needs, by their path there. `place`: an empty directory for those that are written."""
    found: dict[str, Path] = {}

    def write(name: str, text: str) -> None:
        found[name] = place / name.lstrip("/").replace("/", "-")
        found[name].write_text(text)

    def script(name: str, argv: Sequence[str]) -> None:
        write(name, f"#!/bin/sh\nexec {shlex.join(argv)}\n")

    tools = [TOOLS.get(row.tool) for row in todo.values()]
    for number, (name, row, tool) in enumerate(zip(todo, todo.values(), tools, strict=True)):
        run, about = f"/runs/{number:03}", f"{name} {time_limit(row):.0f}"
        if tool and tool.server:
            about += f" {tool.port:04X}"
            script(f"{run}/server", tool.server)
        write(f"{run}/about", f"{about}\n")
        script(f"{run}/command", command(row, OWN))
    programs = [program for row in todo.values() for program in _programs(row)]
    data = {name for tool in tools if tool for name in tool.data if Path(name).exists()}
    return found | with_libraries(programs) | {name: Path(name) for name in data}


_ENDING = re.compile(r"\s*(\S+)\s+(\d{1,9}(?:\.\d{1,9})?)\s+(\d{1,9}(?:\.\d{1,9})?)(?:\s+(\d{1,3}))?\s*", re.ASCII)


def _finished(place: Path, limit: float) -> tuple[str, float, Output]:
    """How a run ended, as guest_runs.sh has written it: its start by both clocks, and how its process ended."""
    found = _ENDING.fullmatch(said_in(place / "ending"))
    if not found:
        raise ValueError("it is no ending")
    started, before, seconds = found[1], float(found[2]), float(found[3]) - float(found[2])
    code = int(found[4]) if found[4] else None
    late = code == _KILLED and seconds >= limit - 1
    # A shell reports death by a signal as 128 plus its number. Larger ones, such as 255, are a program's exit status.
    ended = None if late else 128 - code if code and 128 < code < 128 + 65 else code
    problem, stdout, stderr = (said_in(place / name) for name in ("problem", "stdout", "stderr"))
    return started, before, Output((), ended, stdout, stderr, timed_out=late, problem=problem.strip(), seconds=seconds)


def identity(disk: Path) -> dict[str, str]:
    """The fingerprint of the guest, without what belongs to one run; empty if the guest left none."""
    with tempfile.TemporaryDirectory(dir=disk.parent) as place:
        bring_home(disk, 0, Path(place))
        try:
            found = run_file.read_run(Path(place, OWN_JSON))
        except Refused:
            return {}
    return {name: value for name, value in found.fingerprint.items() if name != "command_line"}


def brought(row: WorkloadRow, slot: int, disk: Path, fingerprint: Mapping[str, str], why: str = "") -> Measured:
    """Read a run that the guest had to make. why: it is known that nothing came home."""
    with tempfile.TemporaryDirectory(dir=disk.parent) as name:
        place = Path(name)
        why = why or bring_home(disk, slot, place)
        if not why and not (place / "ending").exists():
            why = "it did not end in the guest"
        if not why:
            try:
                started, uptime, finished = _finished(place, time_limit(row))
                head = head_of(row, fingerprint, started, uptime)
                run_of(head, Reading())
            except ValueError:
                why = "the guest wrote no valid ending"
            else:
                return read_run(row, head, command(row, OWN), finished, place)
    head = head_of(row, fingerprint, "1970-01-01T00:00:00Z", 0)
    return run_of(head, Reading(error=why)), ""
