# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline c2c`: the programs that a guest can run, the objects that can be watched, the defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.kernel.targets import TARGETS
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.paths import CONFIGS, PROJECT

TRACED = tuple(name for name, target in TARGETS.items() if (CONFIGS / "kernel" / f"c2c-{target.arch}.config").is_file())
"""The targets that the plugin supports."""

QUANTA = (97, 100, 103)
CPUS = 16
LINES = (64, 128, 256)
TIMEOUT = 600.0
CLOCKS = (1, 2, 4)
"""Guest time for an instruction, in ns."""
CLOCK = 4

SOURCES = PROJECT / "scripts/c2c"
"""The plugin, and the programs that a guest runs between the markers."""


@dataclass(frozen=True)
class Workload:
    """A program of scripts/c2c/: what it does, default rounds of each thread, fragments of configs/kernel/ it needs."""

    name: str
    about: str
    rounds: int
    config: tuple[str, ...] = ()


PROGRAMS = ("c2c-programs",)
"""The fragment that all programs but the oldest need, and those of users: one kernel for all of them."""

WORKLOADS = {
    each.name: each
    for each in (
        Workload("rt", "RT overload: pushes, pulls and priorities of two SCHED_FIFO threads for each CPU", 200),
        Workload("wakeup", "pairs of fair threads that wake each other", 200),
        Workload("rt-wakeup", "the same with SCHED_FIFO threads, at eight priorities", 100),
        Workload("wakeup-idle", "pairs that answer each other through pipes, one for four CPUs, so most are idle", 500),
        Workload("balance", "more fair threads than CPUs, all moved to one CPU again and again", 40),
        Workload("partition", "a cpuset partition comes and goes, and its root_domain with it", 10, ("cpusets",)),
        Workload("map", "threads of one process map and unmap memory that nobody touches", 100, PROGRAMS),
        Workload("stat", "processes ask for the status of one file", 200, PROGRAMS),
        Workload("switch", "pairs in a cgroup that answer each other through pipes, two processes a CPU", 50, PROGRAMS),
    )
}


@dataclass(frozen=True)
class ObjectKind:
    """An object that --objects accepts.

    Attributes:
        symbol: the variable from which it is found.
        tag: its structure, or the variable's name where the type has none.
        hops: pointers to follow from the variable, each as (structure, pointer in it); an empty structure means that
            the variable itself is the pointer.
        part: the only member of its structure to watch; empty for the whole structure.
        masks: also watch the memory behind its pointers: off-stack masks, and arrays of one element for each CPU.
    """

    symbol: str
    tag: str
    per_cpu: bool = True
    hops: tuple[tuple[str, str], ...] = ()
    part: str = ""
    masks: bool = False


_RD = (("rq", "rd"),)
_SD = (("rq", "sd"),)

KINDS = {
    "rq": ObjectKind("runqueues", "rq"),
    "root_domain": ObjectKind("runqueues", "root_domain", hops=_RD, masks=True),
    "cpupri": ObjectKind("runqueues", "root_domain", hops=_RD, part="cpupri", masks=True),
    "cpudl": ObjectKind("runqueues", "root_domain", hops=_RD, part="cpudl", masks=True),
    "def_root_domain": ObjectKind("def_root_domain", "root_domain", per_cpu=False),
    "nohz": ObjectKind("nohz", "nohz", per_cpu=False, masks=True),
    "sched_domain": ObjectKind("runqueues", "sched_domain", hops=_SD),
    "sched_domain_shared": ObjectKind("sd_llc_shared", "sched_domain_shared", hops=(("", ""),)),
    "sched_group": ObjectKind("runqueues", "sched_group", hops=(*_SD, ("sched_domain", "groups"))),
    "sched_group_capacity": ObjectKind(
        "runqueues", "sched_group_capacity", hops=(*_SD, ("sched_domain", "groups"), ("sched_group", "sgc"))
    ),
}
"""The objects by name."""

DEFAULT = ("rq", "root_domain")

ALL = "all"
"""For --objects: all of the kernel's memory."""


TAGS = frozenset(
    {kind.tag for kind in KINDS.values()} | {"cpudl_item", "cpupri_leaf", "cpupri_place", "sbm", "sbm_leaf"}
)
"""The structures whose fields are needed."""


def owner_of(name: str) -> str:
    """The object to which belongs what --objects NAME watches: a part belongs to its structure."""
    return KINDS[name].tag if KINDS[name].part else name


@dataclass(frozen=True)
class OwnProgram:
    """A program or a script of the user, which a guest runs instead of a workload.

    Attributes:
        is_script: for busybox's shell.
        arguments: what follows its name.
        files: a directory whose files the guest has in /files, where the program is started.
        marked: count between `schedline-count start` and `schedline-count stop`, which it runs; else all of it.
    """

    file: Path
    is_script: bool = False
    arguments: tuple[str, ...] = ()
    files: Path | None = None
    marked: bool = False

    @property
    def name(self) -> str:
        """What a report calls it."""
        mark = " (marked)" if self.marked else ""
        return " ".join([self.file.name, *self.arguments]) + mark


@dataclass(frozen=True)
class C2cOptions:
    """The options of a measurement.

    Attributes:
        workload: a name in WORKLOADS; ignored if there is a program of the user.
        rounds: number of rounds of each thread; None for the workload's default.
        quanta: lengths of a CPU's turn in blocks of code; a guest boots for each.
        line: bytes of a cache line.
        clock: ns of the guest's time for an instruction of any CPU.
        cpupri: a variant of cpupri-split.
        timeout: seconds allowed for each guest.
        trace: file for the accesses, to play them again.
        blame: whether to count again with fields on lines of their own.
        latencies: a file of configs/latencies/, or one like it.
    """

    tree: TreeOptions
    changes: ChangeOptions
    on: str
    workload: str
    program: OwnProgram | None
    rounds: int | None
    cpus: int
    topology: str | None
    objects: tuple[str, ...]
    quanta: tuple[int, ...]
    line: int
    clock: int
    config: tuple[str, ...]
    cpupri: str | None
    timeout: float
    trace: Path | None
    blame: bool
    latencies: Path | None
    out: Path | None
    json: Path | None
    html: Path | None


@dataclass(frozen=True)
class C2cReplayOptions:
    """A trace to play again.

    Attributes:
        layout: where fields lie instead: a layout file, or a result of schedline c2c.
        line: bytes of a cache line; None for those of the trace.
        blame: whether to count again with fields on lines of their own.
    """

    trace: Path
    layout: Path | None
    line: int | None
    blame: bool
    latencies: Path | None
    out: Path | None
    json: Path | None
    html: Path | None


@dataclass(frozen=True)
class C2cDiffOptions:
    """Two results to compare: files, or directories that have them."""

    base: Path
    candidate: Path
    gates: Path
    json: Path | None


@dataclass(frozen=True)
class C2cImportOptions:
    """Samples of a real machine to read.

    Attributes:
        files: texts of perf, all of one kind.
        map: of the machine's objects (c2c-objects-1).
        build_id: of the kernel that ran, if neither the files nor the map say it; empty if not known.
        line: bytes of a cache line.
    """

    files: tuple[Path, ...]
    vmlinux: Path | None
    map: Path | None
    build_id: str
    line: int
    out: Path | None
    json: Path | None


@dataclass(frozen=True)
class C2cRecordOptions:
    """What to sample on this machine.

    Attributes:
        vmlinux: the running kernel, with debug information.
        objects: for the map, as --objects of c2c takes them.
        seconds: how long to sample.
        command: sample until it ends, instead.
        ldlat: the least latency of a load that is sampled, in cycles, where the CPU can choose; 0 leaves it to perf.
        without_map: do without drgn.
    """

    vmlinux: Path
    objects: tuple[str, ...]
    seconds: float
    command: tuple[str, ...]
    ldlat: int
    without_map: bool
    out: Path


WEIGHTS = (0.6, 0.25, 0.15)
"""Of lines of 64, 128 and 256 bytes, in this order."""

PRICE = 0.2
"""Percent of the misses that a member has to bring to be moved."""

RESTARTS = 20


@dataclass(frozen=True)
class SuggestOptions:
    """What is to be searched, and with what.

    Attributes:
        file: what declares the structure; None to find it.
        bytes: the largest size; None for today's, rounded up to whole lines.
        weights: of each of LINES.
        compare: other layouts, counted beside the suggestion.
        measure: whether the suggestion is also built and run.
    """

    struct: str
    trace: tuple[Path, ...]
    held_out: tuple[Path, ...]
    tree: TreeOptions
    changes: ChangeOptions
    file: str | None
    bytes: int | None
    weights: tuple[float, ...]
    price: float
    restarts: int
    seed: int
    compare: tuple[Path, ...]
    measure: bool
    out: Path | None
    json: Path | None

    def weight_of_lines(self) -> dict[int, float]:
        """The weight of each size of lines that has one; together 1."""
        total = sum(self.weights)
        return {line: weight / total for line, weight in zip(LINES, self.weights, strict=True) if weight}
