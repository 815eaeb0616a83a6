# SPDX-License-Identifier: GPL-2.0
"""Build a kernel, boot a guest for each quantum, or play a trace again; the result as text, picture and document."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from msgspec import structs

from schedlib import TOOL, doctor
from schedlib.c2c import c2c_page, plugin_guest, traffic_report
from schedlib.c2c.blame import blame
from schedlib.c2c.c2c_options import (
    ALL,
    CLOCKS,
    DEFAULT,
    PROGRAMS,
    TAGS,
    WORKLOADS,
    C2cOptions,
    C2cReplayOptions,
    ResultOptions,
)
from schedlib.c2c.kernel_map import KernelMap, cached_as, kernel_map
from schedlib.c2c.memory_map import memory_map, named, plan_lines
from schedlib.c2c.moved_layout import relaid
from schedlib.c2c.objects import PER_CPU_OFFSETS, Watch, watches
from schedlib.c2c.observed import Observed, Player, keep_trace, played, result_of, traced
from schedlib.c2c.plugin_guest import Measurement
from schedlib.cache import cache_dir, results_directory, scratch, write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import C2C_FILE, TrafficParameters, TrafficResult
from schedlib.git import git
from schedlib.guest.command_line import refuse_impossible
from schedlib.kernel.build import Kernel, KernelPlan, compiler_version, composed_kernel, plan_kernel, prepare_kernel
from schedlib.kernel.targets import TARGETS, Target
from schedlib.kernel.topology import shape_of
from schedlib.progress import printable, say, step
from schedlib.tree.compose import Composition
from schedlib.tree.kernel_tree import Tree, open_tree
from schedlib.verdict import Verdict

_TEXT, _PICTURE = "c2c.txt", "c2c.svg"
_FRAGMENT = "c2c"


@dataclass(frozen=True)
class BuiltKernel:
    planned: KernelPlan
    kernel: Kernel

    @property
    def vmlinux(self) -> Path:
        return self.kernel.build / "vmlinux"


def asked_for(options: C2cOptions) -> Measurement:
    """The measurement; SchedlineError if the emulator cannot give a guest the topology."""
    topology = shape_of(options.topology, options.cpus)
    if options.topology:
        refuse_impossible(TARGETS[options.on], topology)
    workload, own = WORKLOADS[options.workload or "rt"], options.own_program()
    parameters = TrafficParameters(
        on=options.on,
        workload=printable(own.name) if own else workload.name,
        rounds=1 if own else options.rounds or workload.rounds,
        line=options.line,
        shift=CLOCKS.index(options.clock),
        config=(*options.config, *(PROGRAMS if own else workload.config)),
        objects=options.objects,
        **plugin_guest.sharing(topology),
    )
    return Measurement(parameters, options.quanta, options.timeout, options.changes, own)


def require_guest(target: Target, more: Collection[str] = ()) -> None:
    """Raise SchedlineError if this machine lacks what a guest that counts needs, or `more` jobs of doctor."""
    doctor.require([*more, target.name, f"{target.name}-c2c"])
    plugin_guest.refuse_other_qemu(target)


def count(options: C2cOptions) -> Verdict:
    cache = cache_dir()
    asked = asked_for(options)
    if asked.program:
        plugin_guest.check(asked.program, asked.target.arch)
    shell = ["in-guest"] if asked.program and asked.program.is_script else []
    # pahole makes the types that the kernel shows to BPF programs.
    types = ["layout"] if "c2c-sched-ext" in asked.parameters.config else []
    require_guest(asked.target, ("build", *options.tree.needs, *shell, *types))
    planned = source(open_tree(cache, options.tree), asked)
    out = _results(cache, options.results.out)
    with scratch(cache) as place:
        is_taped = options.results.blame or options.trace is not None
        observed = observe(cache, built(cache, planned, place / "kernel"), asked, place, out, taped=is_taped)
        if options.trace:
            with step(f"writing {options.trace}"):
                keep_trace(options.trace, observed)
        _report(cache, observed, options.results, place, out)
    return Verdict.PASS


def replay(options: C2cReplayOptions) -> Verdict:
    cache = cache_dir()
    with scratch(cache) as place:
        with step(f"reading {options.trace}"):
            observed = traced(options.trace, place)
        if options.layout:
            observed = relaid(observed, options.layout, place)
        out = _results(cache, options.results.out)
        player = Player(plugin_guest.replayer(cache), observed.parameters)
        with step("counting"):
            observed = played(player, observed, options.line or observed.parameters.line)
        _report(cache, observed, options.results, place, out)
    return Verdict.PASS


def _results(cache: Path, wanted: Path | None) -> Path:
    """The directory for the results. If this run fails, files of an earlier run must not be taken for its results."""
    out = results_directory(cache, wanted)
    for name in (C2C_FILE, _TEXT, _PICTURE):
        (out / name).unlink(missing_ok=True)
    return out


def _report(cache: Path, observed: Observed, wanted: ResultOptions, place: Path, out: Path) -> None:
    """Write the result of guests; with the fields to blame if their accesses were kept for that."""
    result = result_of(observed)
    if wanted.blame:
        player = Player(plugin_guest.replayer(cache), observed.parameters)
        with step("counting again with fields on lines of their own"):
            result = structs.replace(result, blame=blame(player, observed, result, place))
    text = traffic_report.text(result)
    write_atomic(out / _TEXT, text)
    write_atomic(out / _PICTURE, c2c_page.picture(result))
    for path in (wanted.json, out / C2C_FILE):
        if path:
            document.write(path, result)
    if wanted.html:
        write_atomic(wanted.html, c2c_page.page(result))
    print(text, end="")
    say(f"results: {out}/{C2C_FILE}, {_TEXT}, {_PICTURE}")


def source(tree: Tree, asked: Measurement, composition: Composition | None = None) -> KernelPlan:
    """Plan the kernel that `check --on` would build for the target, with the options that c2c needs. Builds nothing.

    Without a `composition` it is made from the tree. SchedlineError if this QEMU is not supported.
    """
    target = asked.target
    require_guest(target)
    fragments = [_FRAGMENT, f"{_FRAGMENT}-{target.arch}", *asked.parameters.config]
    if composition:
        return composed_kernel(tree, target, composition, fragments)
    return plan_kernel(tree, target, fragments, changes=asked.changes)


def built(cache: Path, planned: KernelPlan, place: Path) -> BuiltKernel:
    """Build the kernel, and copy it to `place`, an empty directory."""
    say(planned.describe())
    return BuiltKernel(planned, prepare_kernel(cache, planned, place))


def plan(known: KernelMap, looked_at: Sequence[Watch]) -> str:
    """The plan file, which tells the plugin what to watch and how to know the kernel; see scripts/c2c/objects.h."""
    there = {}
    for name in ("linux_banner", PER_CPU_OFFSETS):
        symbol = known.symbol(name)
        if symbol is None:
            raise SchedlineError(f"this kernel has no {name}", "build it with CONFIG_SMP")
        there[name] = symbol.address
    banner = int.from_bytes(b"Linux ve", "little")
    lines = [f"expect {there['linux_banner']:x} {banner:x}", f"offsets {there[PER_CPU_OFFSETS]:x}"]
    for watch in looked_at:
        kind = "allocated" if watch.allocated else "percpu" if watch.per_cpu else "static"
        lines.append(f"watch {watch.key} {kind} {watch.address:x} {' '.join(map(str, (watch.size, *watch.hops)))}")
    return "".join(f"{line}\n" for line in lines)


def observe(
    cache: Path, made: BuiltKernel, asked: Measurement, place: Path, logs: Path, *, taped: bool = False
) -> Observed:
    """Boot a guest for each quantum; the consoles go to `logs`. `taped`: keep the accesses, too, in `place`."""
    started = datetime.now(UTC).replace(microsecond=0)
    with step("reading symbols and types"):
        known = kernel_map(made.vmlinux, cache / "c2c", TAGS)
    chosen = asked.parameters
    looked_at = watches(known, tuple(name for name in chosen.objects if name != ALL) or DEFAULT, chosen.cpus)
    text, memory = plan(known, looked_at), None
    if asked.everything:
        memory = memory_map(made.vmlinux, cache / "c2c", known)
        known = replace(known, structures={**memory.structures, **known.structures})
        text += plan_lines(memory)
    (place / "plan").write_text(text)
    library, planned = plugin_guest.plugin(cache), made.planned
    files = plugin_guest.files_for(cache, asked, planned.target)
    archive = plugin_guest.archive_of(made.kernel, files, place, asked.program)
    guests = []
    for quantum in asked.quanta:
        out = place / f"quantum-{quantum}.raw"
        tape = place / f"quantum-{quantum}.tape" if taped else None
        words = plugin_guest.argv(asked, quantum, made.kernel.image, archive, library, place / "plan", out, tape)
        with step(f"{chosen.workload} on {chosen.cpus} CPUs, quantum {quantum}"):
            guest = plugin_guest.measured(words, logs / f"quantum-{quantum}.log", out, asked)
        there = {each.key for each in guest.instances}
        for watch in looked_at:
            if watch.key not in there and not (watch.prefix or watch.optional):
                raise SchedlineError(
                    f"--objects: no CPU of this guest has a {watch.owner}: the pointer to it is NULL on all CPUs",
                    "leave it out, or give the guest a --topology in which it has one",
                )
        if memory:
            named_too, instances = named(known, memory, guest)
            there = {watch.key for watch in looked_at}
            looked_at += tuple(watch for watch in named_too if watch.key not in there)
            guest = replace(guest, instances=guest.instances + instances)
        guests.append(replace(guest, quantum=quantum, tape=tape))
    binaries = (library, *(files[name] for name in sorted(files)))
    fingerprint = {
        "tree": planned.tree.origin,
        "commit": planned.composition.commit,
        "build_id": known.build_id,
        "configuration": "+".join(planned.configuration.names),
        "configuration_sha256": hashlib.sha256((made.kernel.build / ".config").read_bytes()).hexdigest(),
        "compiler": made.kernel.compiler,
        "emulator": plugin_guest.refuse_other_qemu(planned.target),
        "mode": plugin_guest.mode(planned.target, chosen.shift),
        "plugin": hashlib.sha256(b"".join(path.read_bytes() for path in binaries)).hexdigest()[:16],
    }
    changes = {row.id: row.state.value for row in planned.composition.states}
    return Observed(TOOL, started, fingerprint, changes, chosen, known, looked_at, tuple(guests))


def remembered(
    cache: Path, tree: Tree, options: C2cOptions, logs: Path, composition: Composition | None = None
) -> TrafficResult:
    """What `schedline c2c` measures with a workload of ours, without blame, from the cache if possible.

    Without a `composition` it is made from the tree. `logs` is created only if a guest has to boot.
    """
    asked = asked_for(options)
    planned = source(tree, asked, composition)
    emulator = plugin_guest.refuse_other_qemu(planned.target)
    content = git(tree.src, "rev-parse", f"{planned.commit}^{{tree}}")
    binaries = plugin_guest.plugin(cache), plugin_guest.program(cache, asked.parameters.workload)
    programs = [path.name for path in binaries]
    compiler = compiler_version(planned.target.compiler)
    depends = (TrafficResult.kind(), content, planned.configuration.digest(), compiler, emulator, programs, asked)

    def measured() -> TrafficResult:
        logs.mkdir(parents=True, exist_ok=True)
        with scratch(cache) as place:
            return result_of(observe(cache, built(cache, planned, place / "kernel"), asked, place, logs))

    return cached_as(TrafficResult, cache / "c2c", depends, measured)
