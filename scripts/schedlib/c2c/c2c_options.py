# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline c2c` and the verbs below it; the programs that a guest can run, the objects to watch."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.kernel.targets import TARGETS
from schedlib.names import one_of, shown_names, some_of, topology_names
from schedlib.options import (
    MOST_CPUS,
    ChangeOptions,
    TreeOptions,
    cpu_count,
    existing_directory,
    existing_file,
    existing_path,
    flag,
    fragments,
    new_directory,
    new_file,
    new_path,
    option,
    seconds,
)
from schedlib.paths import CONFIGS, PROJECT

TRACED = tuple(name for name, target in TARGETS.items() if (CONFIGS / "kernel" / f"c2c-{target.arch}.config").is_file())
"""The targets that the plugin supports."""

QUANTA = (97, 100, 103)
CPUS = 16
LINES = (64, 128, 256)
TIMEOUT = 600.0
CLOCKS, CLOCK = (1, 2, 4), 4
"""Guest time for an instruction, in ns."""

SOURCES = PROJECT / "scripts/c2c"
"""The plugin, and the programs that a guest runs between the markers."""


@dataclass(frozen=True)
class Workload:
    """What a program of scripts/c2c/ does: default rounds of each thread, and fragments of configs/kernel/ it needs.

    `source`: its file. A program with another name than its file has is a variant of it, which this name defines.
    """

    name: str
    about: str
    rounds: int
    source: str
    config: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """What its compiler is told beside the options of all."""
        own = self.name.replace("-", "_")
        return () if self.source == f"guest_{own}.c" else (f"-D{own.upper()}",)


PROGRAMS = ("c2c-programs",)
"""The fragment that all programs but the oldest need, and those of users: one kernel for all of them."""

_WORKLOAD = re.compile(r"^ \* Workload(?: ([\w-]+))?, (\d+) rounds(?:, ([\w-]+))?: (.*?)\n \*(?:/|\n)", re.M | re.S)


def _workloads() -> Iterator[Workload]:
    for path in sorted(SOURCES.glob("guest_*.c")):
        for variant, rounds, config, about in _WORKLOAD.findall(path.read_text()):
            name = variant or path.stem.removeprefix("guest_").replace("_", "-")
            yield Workload(name, about.replace("\n *", ""), int(rounds), path.name, (config,) if config else ())


WORKLOADS = {each.name: each for each in sorted(_workloads(), key=lambda each: each.name)}
"""As the programs say in their first comments."""


@dataclass(frozen=True)
class ObjectKind:
    """An object that --objects accepts, found from the variable `symbol`.

    Attributes:
        tag: its structure, or the variable's name where the type has none.
        hops: pointers to follow, each as (structure, pointer in it); no structure: the variable itself is the pointer.
            "a-b": the pointer before leads to the member b of the structure, as in a list.
        masks: also watch what its pointers lead to: off-stack masks, and arrays of one element for each CPU.
        allocated: the last pointer leads to memory of each CPU.
    """

    symbol: str
    tag: str
    per_cpu: bool = True
    hops: tuple[tuple[str, str], ...] = ()
    masks: bool = False
    allocated: bool = False


_SD = (("rq", "sd"),)
_SG = (*_SD, ("sched_domain", "groups"))
_FIRST_GROUP = (("task_group", "css.children"), ("task_group", "cfs_rq-css.sibling"))

KINDS = {
    "rq": ObjectKind("runqueues", "rq"),
    "root_domain": ObjectKind("runqueues", "root_domain", hops=(("rq", "rd"),), masks=True),
    "def_root_domain": ObjectKind("def_root_domain", "root_domain", per_cpu=False),
    "nohz": ObjectKind("nohz", "nohz", per_cpu=False, masks=True),
    "sched_domain": ObjectKind("runqueues", "sched_domain", hops=_SD),
    "sched_domain_shared": ObjectKind("sd_llc_shared", "sched_domain_shared", hops=(("", ""),)),
    "sched_group": ObjectKind("runqueues", "sched_group", hops=_SG),
    "sched_group_capacity": ObjectKind("runqueues", "sched_group_capacity", hops=(*_SG, ("sched_group", "sgc"))),
    "cfs_tg_state": ObjectKind("root_task_group", "cfs_tg_state", hops=_FIRST_GROUP, allocated=True),
}
"""The objects by name."""

DEFAULT = ("rq", "root_domain")

ALL = "all"
"""For --objects: all of the kernel's memory."""

_BEHIND = ("cpudl_item", "cpupri_leaf", "cpupri_place", "sbm", "sbm_leaf", "task_group")
TAGS = frozenset({*_BEHIND, *(kind.tag for kind in KINDS.values())})
"""The structures whose fields are needed."""


@dataclass(frozen=True)
class OwnProgram:
    """A program or a script of the user, which a guest runs in /files, with these files, instead of a workload.

    `marked`: count between `schedline-count start` and `schedline-count stop`, which it runs; else all of it.
    """

    file: Path
    arguments: tuple[str, ...] = ()
    files: Path | None = None
    marked: bool = False

    @property
    def is_script(self) -> bool:
        with self.file.open("rb") as file:
            return file.read(4) != b"\x7fELF"

    @property
    def name(self) -> str:
        """What a report calls it."""
        return " ".join([self.file.name, *self.arguments, *(["(marked)"] if self.marked else [])])


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 999999999")
    return int(text)


def _cpus(text: str) -> int:
    value = cpu_count(text)
    if value < 2:
        raise argparse.ArgumentTypeError("one CPU shares no lines; give 2 or more")
    return value


def _quanta(text: str) -> tuple[int, ...]:
    values = tuple(_number(word) for word in text.split(","))
    if len(set(values)) != len(values):
        raise argparse.ArgumentTypeError("a quantum is listed twice; name each once")
    return values


def _tag(text: str) -> str:
    if not text.isidentifier() or not text.isascii():
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a structure")
    return text


@dataclass(frozen=True)
class ResultOptions:
    blame: bool = option(
        "--no-blame",
        "leave out the fields to blame, which takes minutes where all of a busy kernel's memory is watched",
        default=True,
        action="store_false",
    )
    out: Path | None = option("--out DIR", "directory for the results", new_path)
    json: Path | None = option("--json FILE", "write the result here too (c2c-1)", new_path)
    html: Path | None = option("--html FILE", "write a page with lists and pictures here", new_path)


@dataclass(frozen=True)
class C2cOptions:
    """The options of a measurement. A guest boots for each of `quanta`."""

    tree: TreeOptions = field(default_factory=TreeOptions)
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    on: str = option(
        "--on",
        f"emulator and architecture (default: {TRACED[0]}); QEMU 7.2 has clusters on arm64 only",
        choices=TRACED,
        default=TRACED[0],
    )
    # rt is not the default that argparse knows: it would not see that it and --program contradict each other.
    workload: str | None = option(
        "--workload NAME",
        "the program that the guest runs, one of those above (default: rt)",
        choices=list(WORKLOADS),
        group="runs",
    )
    program: Path | None = option(
        "--program FILE",
        "run this program, or this script in busybox's shell; its arguments follow --, its libraries go along",
        existing_file,
        group="runs",
    )
    files: Path | None = option("--files DIR", "the files that it finds where it is started", existing_directory)
    marked: bool = flag(
        "--marked", "count from `schedline-count start` to `schedline-count stop`, which it runs (default: all of it)"
    )
    arguments: tuple[str, ...] = ()
    rounds: int | None = option("--rounds N", "how many rounds each thread makes", _number)
    cpus: int = option("--cpus N", f"2 to {MOST_CPUS} (default: {CPUS})", _cpus, default=CPUS, group="shape")
    topology: str | None = option(
        "--topology NAME",
        "the shape in configs/topologies/NAME.toml; its clusters, LLCs and nodes define near and far",
        one_of("topology", topology_names),
        group="shape",
    )
    objects: tuple[str, ...] = option(
        "--objects NAME,...",
        f"what to watch: {', '.join(KINDS)}, or {ALL} of the kernel's memory (default: {','.join(DEFAULT)})",
        some_of("object", lambda: [*KINDS, ALL]),
        default=DEFAULT,
    )
    quanta: tuple[int, ...] = option(
        "--quanta N,...",
        f"length of a CPU's turn in blocks of code, one guest for each (default: {','.join(map(str, QUANTA))})",
        _quanta,
        default=QUANTA,
    )
    line: int = option("--line", "bytes of a cache line (64)", int, choices=LINES, default=LINES[0])
    clock: int = option(
        "--clock",
        "guest time for an instruction of any CPU; less lets waiters spin longer before they sleep "
        f"(default: {CLOCK} ns)",
        int,
        choices=CLOCKS,
        default=CLOCK,
    )
    config: tuple[str, ...] = option(
        "--config FRAGMENT,...",
        "fragments of configs/kernel/, or paths, on top of those that c2c needs",
        fragments,
        default=(),
    )
    timeout: float = option(
        "--timeout SECONDS", f"end a guest after this time ({TIMEOUT:.0f})", seconds, default=TIMEOUT
    )
    trace: Path | None = option("--trace FILE", "keep the accesses in this file, for c2c replay", new_file)
    results: ResultOptions = field(default_factory=ResultOptions)

    def own_program(self) -> OwnProgram | None:
        """The program or script of the user; SchedlineError if an option has nothing that it could be for."""
        file = self.program
        given = {"--files": self.files, "--marked": self.marked, "words behind --": self.arguments}
        lonely = next((name for name, value in given.items() if value), "")
        if not file and lonely:
            raise SchedlineError(f"{lonely}: there is no program that it could be for", "add --program FILE")
        if file and self.rounds:
            raise SchedlineError("--rounds is for a --workload, and a program of yours is run once", "leave it out")
        return OwnProgram(file, self.arguments, self.files, self.marked) if file else None


@dataclass(frozen=True)
class C2cReplayOptions:
    trace: Path = option("TRACE", "a file that schedline c2c --trace has written", existing_path)
    layout: Path | None = option(
        "--layout FILE", "other offsets: a layout file, or a result of schedline c2c", existing_path
    )
    line: int | None = option("--line", "bytes of a cache line (default: those of the trace)", int, choices=LINES)
    results: ResultOptions = field(default_factory=ResultOptions)


@dataclass(frozen=True)
class C2cDiffOptions:
    base: Path = option("BASE", "a result, or the directory that has one", existing_path)
    candidate: Path = option("CANDIDATE", "the same for the other kernel", existing_path)
    gates: Path = option(
        "--gates FILE", "budgets (default: configs/gates/c2c.toml)", existing_path, default=CONFIGS / "gates/c2c.toml"
    )
    json: Path | None = option("--json FILE", "write the result here too (c2c-diff-1)", new_path)


@dataclass(frozen=True)
class C2cImportOptions:
    files: tuple[Path, ...] = option("FILE", "texts that perf script has printed", existing_file, default=(), nargs="+")
    vmlinux: Path = option(
        "--vmlinux FILE", "the kernel that ran, with debug information", existing_path, required=True
    )
    map: Path | None = option("--map FILE", "where its objects lay (c2c-objects-1)", existing_path)
    line: int = option("--line", "bytes of a cache line (64)", int, choices=LINES, default=LINES[0])
    out: Path | None = option("--out DIR", "directory for the results", new_path)
    json: Path | None = option("--json FILE", "write the result here too (c2c-measured-1)", new_path)


@dataclass(frozen=True)
class C2cRecordOptions:
    """What to sample on this machine: for some seconds, or until a command (`arguments`) ends."""

    vmlinux: Path = option(
        "--vmlinux FILE", "the kernel that runs, with debug information", existing_path, required=True
    )
    out: Path = option("--out DIR", "a directory without a recording", new_directory, required=True)
    objects: tuple[str, ...] = option(
        "--objects NAME,...",
        f"objects for the map: {', '.join(KINDS)} (default: {','.join(DEFAULT)})",
        some_of("object", lambda: [*KINDS]),
        default=DEFAULT,
    )
    seconds: float = option(
        "--seconds N",
        "how long to sample (default: 10); with a command after --, until it ends",
        seconds,
        default=10.0,
    )
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShowOptions:
    name: str = option("NAME", lambda: ", ".join(shown_names()), one_of("change or incident", shown_names))
    tree: TreeOptions = field(default_factory=TreeOptions)
    out: Path | None = option("--out DIR", "directory for the results", new_path)


@dataclass(frozen=True)
class SuggestOptions:
    struct: str = option("STRUCT", "the structure whose members may move", _tag)
    trace: tuple[Path, ...] = option(
        "--trace FILE",
        "accesses that schedline c2c --trace has kept; one file for each workload",
        existing_path,
        default=(),
        nargs="+",
        required=True,
    )
    held_out: tuple[Path, ...] = option(
        "--held-out FILE",
        "the same for workloads that the search does not see; without one there is no patch",
        existing_path,
        default=(),
        nargs="+",
    )
    tree: TreeOptions = field(default_factory=TreeOptions)
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    file: str | None = option("--file FILE", "the file that declares it, if several do")
    bytes: int | None = option(
        "--bytes N",
        "the largest size that it may have (default: today's, rounded up to whole lines)",
        _number,
    )
    measure: bool = option(
        "--no-measure", "do not build and run a kernel with the suggestion", default=True, action="store_false"
    )
    out: Path | None = option("--out DIR", "directory for the results", new_path)
    json: Path | None = option("--json FILE", "write the result here too (suggest-1)", new_path)
