# SPDX-License-Identifier: GPL-2.0
"""A design's kernel, its guests, and their counts, which are kept in the cache: what was counted is not run again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from schedlib.c2c import plugin_guest
from schedlib.c2c.c2c_options import LINES, TAGS, WORKLOADS
from schedlib.c2c.counting import Subject, Wanted, observe, source
from schedlib.c2c.design_file import Design, DesignFile
from schedlib.c2c.kernel_map import kernel_map
from schedlib.c2c.moved_layout import relaid
from schedlib.c2c.observed import Observed, result_of
from schedlib.c2c.player import Player, played
from schedlib.c2c.plugin_guest import Setting
from schedlib.cache import scratch
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import TrafficResult, read_result
from schedlib.git import git
from schedlib.guest.boot import end_guests
from schedlib.kernel.build import KernelPlan, compiler_version, prepare_kernel
from schedlib.kernel.kconfig import Configuration
from schedlib.kernel.topology import shape_of
from schedlib.options import ChangeOptions
from schedlib.progress import say, step
from schedlib.tree.changes import apply_mail, hunks
from schedlib.tree.compose import TESTS_DIRECTORY, Composition, compose, refuse_conflicts, with_tests
from schedlib.tree.kernel_tree import Tree, put_files

_PLACEBO_FILE = "init/main.c"
_PLACEBO_TEXT = """
/* Nobody reads this page. What lies behind it moves; no structure changes. */
static const char schedline_placebo[4096] __used = { 1 };
"""


@dataclass(frozen=True)
class GuestRuns:
    """The guests of a design file, for one tree."""

    cache: Path
    tree: Tree
    wanted: DesignFile
    timeout: float

    def measurement(self, workload: str, quantum: int, config: Sequence[str] = ()) -> Wanted:
        """One guest. All workloads run the same kernel, with the options that any of them needs.

        Args:
            config: the fragments of the design.
        """
        chosen = self.wanted
        rounds = chosen.rounds.get(workload, WORKLOADS[workload].rounds)
        needed = dict.fromkeys(name for each in chosen.workloads for name in WORKLOADS[each].config)
        setting = Setting(shape_of(chosen.topology, chosen.cpus), LINES[0], 0, rounds, self.timeout)
        fragments = (*needed, *chosen.config, *config)
        return Wanted(workload, chosen.objects, (quantum,), setting, fragments)

    def plan(self, design: Design) -> KernelPlan:
        """The kernel of a design; nothing is built.

        Raises:
            SchedlineError: a change or the patch does not apply.
        """
        with_ = (*design.with_, *(["cpupri-split"] if design.cpupri else []))
        composition = compose(self.tree, with_=with_, without=design.without)
        try:
            refuse_conflicts(composition)
        except SchedlineError as error:
            raise SchedlineError(f"variant {design.name}: {error.observed}", error.next_step) from error
        if design.patch:
            composition = self._patched(design, composition)
        return self._planned(composition, design)

    def placebo(self, first: Design) -> KernelPlan:
        """The first kernel with a page of constants more."""
        before = self.plan(first)
        text = self.tree.read(_PLACEBO_FILE, before.commit)
        if text is None:
            raise SchedlineError(f"this tree has no {_PLACEBO_FILE}, which the placebo is added to", "use another tree")
        files = {_PLACEBO_FILE: (text + _PLACEBO_TEXT).encode()}
        commit = put_files(self.tree, before.commit, files, "init: Add a page of constants, as a placebo\n")
        return self._planned(replace(before.composition, commit=commit), first)

    def _patched(self, design: Design, composition: Composition) -> Composition:
        commit, drift = apply_mail(self.tree, composition.commit, Path(design.patch))
        if commit is None:
            observed = f"variant {design.name}: {design.patch} does not apply:{hunks(drift)}"
            raise SchedlineError(observed, "rebase it onto the tree and the changes of this variant")
        return replace(composition, commit=with_tests(self.tree, commit))

    def _planned(self, composition: Composition, design: Design) -> KernelPlan:
        own = (*([f"cpupri-{design.cpupri}"] if design.cpupri else []), *design.config)
        wanted = self.measurement(self.wanted.workloads[0], self.wanted.quanta[0], own)
        return source(self.tree, replace(wanted, changes=ChangeOptions()), composition)


@dataclass(frozen=True)
class PlannedDesign:
    """A design that is to be measured.

    Attributes:
        plan: its kernel; for a layout, that of the design whose accesses are played again.
        layout: for a layout its file.
    """

    name: str
    plan: KernelPlan
    layout: Path | None = None


class KeptCounts:
    """The results of guests, in the cache, by everything that they depend on."""

    def __init__(self, runs: GuestRuns, plan: KernelPlan) -> None:
        cache, target = runs.cache, plan.target
        self._place = cache / "c2c" / "variants"
        tools = [plugin_guest.plugin(cache).name, plugin_guest.replayer(cache).name]
        emulator, compiler = plugin_guest.refuse_other_qemu(target), compiler_version(target.compiler)
        self._kernel = f"{_content(runs.tree, plan.commit)} {plan.configuration.digest()} {compiler} {emulator} {tools}"
        self._programs = {name: plugin_guest.program(cache, name).name for name in runs.wanted.workloads}

    def path(self, guest: Wanted, line: int, layout: Path | None) -> Path:
        """The file for one guest."""
        moved = hashlib.sha256(layout.read_bytes()).hexdigest() if layout else ""
        setting = f"{guest.objects} {guest.quanta} {guest.setting}"
        depends = f"{self._kernel} {self._programs[guest.workload]} {setting} {line} {moved}"
        return self._place / f"{hashlib.sha256(depends.encode()).hexdigest()[:24]}.json"


def _content(tree: Tree, commit: str) -> str:
    """A hash of a commit's files without the KUnit tests, which these kernels do not contain."""
    rows: list[str] = []
    for parent in ("", "kernel/", "kernel/sched/"):
        rows += git(tree.src, "ls-tree", commit, *([parent] if parent else [])).splitlines()
    opened = ("kernel", "kernel/sched", TESTS_DIRECTORY)
    kept = [row for row in rows if row.partition("\t")[2] not in opened]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()


def counted(
    runs: GuestRuns, columns: Sequence[PlannedDesign], home: Configuration, logs: Path
) -> Mapping[str, list[Path]]:
    """Run the guests of one kernel that were not run before.

    Args:
        columns: the design whose kernel it is, and the layouts for its accesses.
        home: the configuration whose build directory to use.
        logs: directory for the console logs.

    Returns:
        For each column the results of all guests: by workload, then line, then quantum.

    Raises:
        SchedlineError: the kernel does not build, a guest failed, or a layout does not fit.
    """
    kept = KeptCounts(runs, columns[0].plan)
    guests = [runs.measurement(name, each) for name in runs.wanted.workloads for each in runs.wanted.quanta]
    missing = [
        guest
        for guest in guests
        if not all(kept.path(guest, line, each.layout).is_file() for line in LINES for each in columns)
    ]
    if missing:
        say(f"{columns[0].name}: {len(guests) - len(missing)} of {len(guests)} guests were counted before")
        with scratch(runs.cache) as place:
            subject = _built(runs.cache, columns[0].plan, home, place / "kernel")
            _run_all(runs, subject, columns, kept, missing, place, logs)
    else:
        say(f"{columns[0].name}: all {len(guests)} guests were counted before")
    by_column = {}
    for each in columns:
        by_column[each.name] = [
            kept.path(runs.measurement(name, quantum), line, each.layout)
            for name in runs.wanted.workloads
            for line in LINES
            for quantum in runs.wanted.quanta
        ]
    return by_column


def _built(cache: Path, plan: KernelPlan, home: Configuration, place: Path) -> Subject:
    """The kernel, with its symbols and types in the cache, so that the guests' threads only read them."""
    place.mkdir()
    subject = Subject(plan, prepare_kernel(cache, plan, place, home=home))
    with step("reading symbols and types"):
        kernel_map(subject.vmlinux, cache / "c2c", TAGS)
    return subject


def _run_all(
    runs: GuestRuns,
    subject: Subject,
    columns: Sequence[PlannedDesign],
    kept: KeptCounts,
    guests: Sequence[Wanted],
    place: Path,
    logs: Path,
) -> None:
    """As many guests at a time as there are CPUs: each takes one. What ended before an error is kept."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        tasks: list[Future[None]] = []
        for number, guest in enumerate(guests):
            here = place / f"guest-{number}"
            here.mkdir()
            tasks.append(pool.submit(_run_one, runs, subject, columns, kept, guest, here, logs / guest.workload))
        try:
            wait(tasks, return_when=FIRST_EXCEPTION)
        except BaseException:
            # Interrupted: nobody waits for guests that may take minutes, also for one that starts just now.
            running = [task for task in tasks if not task.cancel()]
            while wait(running, 0.1).not_done:
                end_guests()
            raise
        finally:
            for task in tasks:
                task.cancel()
    for task in tasks:
        if not task.cancelled():
            task.result()


def _run_one(
    runs: GuestRuns,
    subject: Subject,
    columns: Sequence[PlannedDesign],
    kept: KeptCounts,
    guest: Wanted,
    place: Path,
    logs: Path,
) -> None:
    full = replace(guest, config=subject.planned.configuration.names[1:])
    observed = observe(runs.cache, subject, full, place, logs, taped=True)
    player = Player(plugin_guest.replayer(runs.cache), observed.parameters)
    for number, each in enumerate(columns):
        moved = observed
        if each.layout:
            there = place / f"layout-{number}"
            there.mkdir()
            moved = relaid(observed, each.layout, there)
        for line in LINES:
            document.write(kept.path(guest, line, each.layout), _result(player, moved, line))
    for tape in (each.tape for each in observed.guests if each.tape):
        tape.unlink()


def _result(player: Player, observed: Observed, line: int) -> TrafficResult:
    return result_of(played(player, observed, line))


def read_kept(paths: Sequence[Path]) -> list[TrafficResult]:
    """What counted() named."""
    return [read_result(path) for path in paths]
