# SPDX-License-Identifier: GPL-2.0
"""Build a kernel, boot a guest for each quantum, and merge the counts into one result."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from schedlib import TOOL, doctor
from schedlib.c2c import plugin_guest
from schedlib.c2c.c2c_options import ALL, CPUS, DEFAULT, LINES, TAGS, TIMEOUT, WORKLOADS, OwnProgram
from schedlib.c2c.kernel_map import KernelMap, kernel_map
from schedlib.c2c.memory_map import memory_map, named, plan_lines
from schedlib.c2c.objects import PER_CPU_OFFSETS, Watch, watches
from schedlib.c2c.observed import Observed, ObservedGuest, located, result_of
from schedlib.c2c.plugin_guest import Setting
from schedlib.cache import scratch
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import TrafficParameters, TrafficResult, read_result
from schedlib.git import git
from schedlib.kernel.build import Kernel, KernelPlan, compiler_version, composed_kernel, plan_kernel, prepare_kernel
from schedlib.kernel.targets import Target
from schedlib.kernel.topology import flat
from schedlib.options import ChangeOptions
from schedlib.progress import say, step
from schedlib.tree.compose import Composition
from schedlib.tree.kernel_tree import Tree

_FRAGMENT = "c2c"


@dataclass(frozen=True)
class Wanted:
    """What to measure: what C2cOptions says, for one target.

    `setting` is how the guests run; its quantum is ignored, because a guest boots for each of `quanta`. `config` comes
    on top of the fragments of configs/kernel/ that c2c needs. With a program of the user, `workload` is its name.
    """

    workload: str
    objects: tuple[str, ...]
    quanta: tuple[int, ...]
    setting: Setting
    config: tuple[str, ...] = ()
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    target: Target = plugin_guest.DEFAULT_TARGET
    program: OwnProgram | None = None


@dataclass(frozen=True)
class Subject:
    """A built kernel that can be measured."""

    planned: KernelPlan
    kernel: Kernel

    @property
    def vmlinux(self) -> Path:
        """The vmlinux file, with debug information."""
        return self.kernel.build / "vmlinux"


def source(tree: Tree, wanted: Wanted, composition: Composition | None = None) -> KernelPlan:
    """Plan the kernel that `check --on` would build for the target, with the options that c2c needs. Builds nothing.

    Args:
        composition: what to build; None composes it from the tree.

    Raises:
        SchedlineError: a change does not apply, or this QEMU is not supported.
    """
    target = wanted.target
    doctor.require([f"{target.name}-c2c"])
    plugin_guest.refuse_other_qemu(target)
    fragments = [_FRAGMENT, f"{_FRAGMENT}-{target.arch}", *wanted.config]
    if composition:
        return composed_kernel(tree, target, composition, fragments)
    return plan_kernel(tree, target, fragments, changes=wanted.changes)


def built(cache: Path, planned: KernelPlan, place: Path) -> Subject:
    """Build the kernel, and copy it to `place`, an empty directory; SchedlineError if it does not build."""
    say(planned.describe())
    return Subject(planned, prepare_kernel(cache, planned, place))


def plan(known: KernelMap, looked_at: Sequence[Watch]) -> str:
    """The text of the plan file, which tells the plugin what to watch and how to know the kernel; see objects.h.

    Raises:
        SchedlineError: the kernel lacks a symbol that is needed to find objects.
    """
    addresses = []
    for name in ("linux_banner", PER_CPU_OFFSETS):
        symbol = known.symbol(name)
        if symbol is None:
            raise SchedlineError(f"this kernel has no {name}", "build it with CONFIG_SMP")
        addresses.append(symbol.address)
    lines = [f"expect {addresses[0]:x} {int.from_bytes(b'Linux ve', 'little'):x}", f"offsets {addresses[1]:x}"]
    for watch in looked_at:
        kind = "percpu" if watch.per_cpu else "static"
        words = ["watch", watch.key, kind, f"{watch.address:x}", str(watch.size), *map(str, watch.hops)]
        lines.append(" ".join(words))
    return "\n".join(lines) + "\n"


def measure(cache: Path, made: Subject, wanted: Wanted, place: Path, logs: Path) -> TrafficResult:
    """Boot a guest for each quantum, and count; see observe()."""
    return result_of(observe(cache, made, wanted, place, logs, taped=False))


def observe(cache: Path, made: Subject, wanted: Wanted, place: Path, logs: Path, *, taped: bool) -> Observed:
    """Boot a guest for each quantum.

    Args:
        place: a scratch directory.
        logs: directory for the console logs.
        taped: also keep each guest's accesses, in `place`.

    Raises:
        SchedlineError: a guest did not finish, or an object was not found.
    """
    started = datetime.now(UTC).replace(microsecond=0)
    with step("reading symbols and types"):
        known = kernel_map(made.vmlinux, cache / "c2c", TAGS)
    cpus = wanted.setting.topology.cpus
    looked_at = watches(known, tuple(name for name in wanted.objects if name != ALL) or DEFAULT, cpus)
    text, memory = plan(known, looked_at), None
    if ALL in wanted.objects:
        memory = memory_map(made.vmlinux, cache / "c2c", known)
        known = replace(known, structures={**memory.structures, **known.structures})
        text += plan_lines(memory)
    (place / "plan").write_text(text)
    library, own, target = plugin_guest.plugin(cache), wanted.program, made.planned.target
    if own:
        files = plugin_guest.files_for(cache, own, target)
        archive = plugin_guest.archive_with(made.kernel, own, files, place)
    else:
        files = {"/init": plugin_guest.program(cache, wanted.workload, target)}
        archive = plugin_guest.archive_of(made.kernel, files["/init"], place)
    guests = []
    for quantum in wanted.quanta:
        setting = replace(wanted.setting, quantum=quantum, everything=memory is not None)
        out = place / f"quantum-{quantum}.raw"
        tape = place / f"quantum-{quantum}.tape" if taped else None
        words = plugin_guest.argv(target, made.kernel.image, archive, setting, library, place / "plan", out, tape)
        with step(f"{wanted.workload} on {cpus} CPUs, quantum {quantum}"):
            operations, raw = plugin_guest.measured(words, logs / f"quantum-{quantum}.log", out, setting.timeout, own)
        located(looked_at, raw)
        if memory:
            named_too, instances = named(known, memory, raw)
            there = {watch.key for watch in looked_at}
            looked_at += tuple(watch for watch in named_too if watch.key not in there)
            raw = replace(raw, instances=raw.instances + instances)
        guests.append(ObservedGuest(quantum, operations, raw, tape))
    chosen = wanted.setting
    parameters = TrafficParameters(
        on=made.planned.target.name,
        workload=wanted.workload,
        cpus=cpus,
        rounds=chosen.rounds,
        line=chosen.line,
        topology=chosen.topology.name,
        per_cluster=chosen.per_cluster,
        per_llc=chosen.per_llc,
        per_node=chosen.per_node,
        shift=chosen.shift,
        config=tuple(wanted.config),
        objects=tuple(wanted.objects),
    )
    return Observed(
        tool=TOOL,
        started=started,
        fingerprint=_fingerprint(made, known, chosen.shift, library, *(files[name] for name in sorted(files))),
        changes={row.id: row.state.value for row in made.planned.composition.states},
        parameters=parameters,
        known=known,
        watches=looked_at,
        guests=tuple(guests),
    )


def _fingerprint(made: Subject, known: KernelMap, shift: int, *binaries: Path) -> dict[str, str]:
    config = (made.kernel.build / ".config").read_bytes()
    return {
        "tree": made.planned.tree.origin,
        "commit": made.planned.composition.commit,
        "build_id": known.build_id,
        "configuration": "+".join(made.planned.configuration.names),
        "configuration_sha256": hashlib.sha256(config).hexdigest(),
        "compiler": made.kernel.compiler,
        "emulator": plugin_guest.refuse_other_qemu(made.planned.target),
        "mode": plugin_guest.mode(made.planned.target, shift),
        "plugin": hashlib.sha256(b"".join(path.read_bytes() for path in binaries)).hexdigest()[:16],
    }


def remembered(
    cache: Path, tree: Tree, quanta: tuple[int, ...], logs: Path, composition: Composition | None = None
) -> TrafficResult:
    """What `schedline c2c` measures by default, from the cache if possible; raises what source() and measure() do.

    Args:
        composition: what to measure; None composes it from the tree.
        logs: directory for the console logs; created only if a guest has to boot.
    """
    workload = "rt"
    wanted = Wanted(workload, DEFAULT, quanta, Setting(flat(CPUS), LINES[0], 0, WORKLOADS[workload].rounds, TIMEOUT))
    planned = source(tree, wanted, composition)
    emulator = plugin_guest.refuse_other_qemu(planned.target)
    content = git(tree.src, "rev-parse", f"{planned.commit}^{{tree}}")
    programs = [path.name for path in (plugin_guest.plugin(cache), plugin_guest.program(cache, workload))]
    compiler = compiler_version(planned.target.compiler)
    depends = f"{content} {planned.configuration.digest()} {compiler} {emulator} {programs} {wanted}"
    kept = cache / "c2c" / f"result-{hashlib.sha256(depends.encode()).hexdigest()[:20]}.json"
    if kept.is_file():
        return read_result(kept)
    logs.mkdir(parents=True, exist_ok=True)
    with scratch(cache) as place:
        result = measure(cache, built(cache, planned, place / "kernel"), wanted, place, logs)
    document.write(kept, result)
    return result
