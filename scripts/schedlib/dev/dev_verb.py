# SPDX-License-Identifier: GPL-2.0
"""`schedline dev`: what only developers of schedline run, and the tables of what `test-tree` runs and compiles."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from schedlib.errors import SchedlineError
from schedlib.kernel.targets import TARGETS
from schedlib.names import one_of, some_of, split_list
from schedlib.options import BASIC, TreeOptions, Verbs, add_verb, existing_path, flag, new_path, option, positive
from schedlib.tree.source import require_tree

ATTACK, ATTACK_PACKS = "attack", "attack-packs"
"""For --on: new members and moves in every contracted structure, or on x86-64 in those of packs."""

EMULATED = "c2c"
"""For --on: count the cache-line traffic of mutants whose Traffic header says what has to rise."""


@dataclass(frozen=True)
class QuickOptions:
    k: str | None = option("-k --k EXPRESSION", "only the tests that match (as pytest -k)")
    seed: int | None = option("--seed N", "of the random order, to repeat one that failed", int)
    golden: bool = flag("--golden", "write the texts that tests hold anew; git diff shows what changed")


@dataclass(frozen=True)
class OwnTestsOptions(QuickOptions):
    long: bool = flag("--long", "also the tests that build a kernel only for themselves")


@dataclass(frozen=True)
class DocsOptions:
    check: bool = flag("--check", "name what differs, and write nothing")


@dataclass(frozen=True)
class SchemasOptions:
    name: str = option("NAME", "the document", choices=("check", "contract", "gate", "layout", "premerge", "run"))


@dataclass(frozen=True)
class BenchOptions:
    only: str | None = option("--only", "only the figures of one kind", choices=("start", "check", "layout"))


@dataclass(frozen=True)
class LitmusOptions:
    tree: TreeOptions = field(default_factory=TreeOptions)
    only: str = option("--only GLOB", "the tests whose name matches", default="*")


@dataclass(frozen=True)
class MutantsOptions:
    tree: TreeOptions = field(default_factory=TreeOptions)
    functions: tuple[str, ...] = option(
        "--functions NAME,...", "--generated: only of these functions", split_list, default=()
    )
    since: str | None = option(
        "--since REV", "--generated: only of the functions that differ from this revision of the tree"
    )
    sample: int | None = option("--sample N", "--generated: so many of each function, drawn at random", positive)
    seed: int = option("--seed N", "--generated: for --sample (default: 1)", int, default=1)
    json: Path | None = option("--json FILE", "--generated: write the table here", new_path)
    on: str | None = option(
        "--on TARGET",
        f"{', '.join(TARGETS)}; {EMULATED}: count the traffic of mutants with a Traffic header; {ATTACK}, "
        f"{ATTACK_PACKS}: attack contracts",
        one_of("target", lambda: (*TARGETS, EMULATED, ATTACK, ATTACK_PACKS)),
    )
    only: str | None = option("--only GLOB", "only those whose <change>/<slug> matches")
    from_: Path | None = option("--from DIR", "diffs of your own instead", existing_path)
    generated: bool = flag("--generated", "mutants that operators make")


@dataclass(frozen=True)
class KunitRun:
    """One run of kunit.py.

    The timeout, in seconds and with the build, is there for what hangs. Runs of one configuration share a `build`.
    `without`: the suites that it does not build. `exec` boots what `run` has built.
    """

    words: tuple[str, ...]
    timeout: float
    build: str
    without: tuple[str, ...] = ()
    verb: Literal["run", "exec"] = "run"


_TESTS = "--kunitconfig=kernel/sched/tests"


def _uml(*arguments: str, words: tuple[str, ...] = ()) -> KunitRun:
    return KunitRun((_TESTS, *(f"--kernel_args={each}" for each in arguments), *words), 3600, "uml")


def _qemu(cpus: str, *words: str, arch: str = "x86_64", build: str = "qemu") -> KunitRun:
    return KunitRun((_TESTS, f"--arch={arch}", *words, f"--qemu_args=-smp {cpus}"), 7200, build)


def _possible(cpus: int) -> KunitRun:
    return _uml("seccomp=on", f"ncpus={cpus}", words=("--timeout=900",))


KUNIT_RUNS = {
    "uml": _uml("seccomp=on", "ncpus=64", "maxcpus=8"),
    # Without arguments UML has one CPU.
    "uml-1": _uml(),
    **{f"uml-{cpus}": _possible(cpus) for cpus in (2, 8, 24, 64)},
    # Tests skip where a CPU that they need is isolated.
    "uml-isolated": _uml("seccomp=on", "ncpus=8", "isolcpus=3"),
    "qemu": _qemu("8"),
    "qemu-240": _qemu("8,maxcpus=240", "--kconfig_add=CONFIG_NR_CPUS=240", build="qemu-240"),
    "qemu-threads": _qemu("8,threads=2"),
    "qemu-arm64": _qemu(
        "8",
        "--cross_compile=aarch64-linux-gnu-",
        *(f"--kconfig_add=CONFIG_{name}=y" for name in ("CPU_FREQ_GOV_SCHEDUTIL", "CPU_FREQ", "UCLAMP_TASK")),
        arch="arm64",
        build="qemu-arm64",
    ),
    # These rebuild sched domains, so their options have no `default KUNIT_ALL_TESTS`.
    "alltests": KunitRun(
        ("--alltests",),
        14400,
        "alltests",
        ("sched_topology", "sched_root_domain", "sched_cluster", "sched_balance", "sched_rt"),
    ),
}

BOOT_CPUS = (2, 3, 4, 5, 8, 12, 16)
"""Possible CPUs of the guests of --boots, in turn."""


def one_boot(number: int) -> KunitRun:
    """The boot of this number, in the build directory of the run `uml`."""
    return replace(_possible(BOOT_CPUS[number % len(BOOT_CPUS)]), timeout=1000, verb="exec")


_RICH = ("layout", "sched-features")
_ALL = (*_RICH, "smp-suites")
_CLANG = "LLVM=-19"


@dataclass(frozen=True)
class CompileRow:
    """One way to compile the scheduler; a warning about a file below `judged` fails."""

    arch: str
    compiler: str
    words: tuple[str, ...]
    fragments: tuple[str, ...]
    judged: str = "kernel/sched/"


def _cross(arch: str, triplet: str, *fragments: str) -> CompileRow:
    return CompileRow(arch, f"{triplet}-gcc", (f"CROSS_COMPILE={triplet}-",), (*_ALL, *fragments))


def _x86(*fragments: str, words: tuple[str, ...] = (), compiler: str = "gcc") -> CompileRow:
    return CompileRow("x86_64", compiler, words, (*_ALL, "x86_64", *fragments))


SPARSE = "CHECK=sparse -D__typeof_unqual__=__typeof__"
"""Debian's sparse 0.6.4 does not know __typeof_unqual__. Without that make leaves it out, and only says so."""

COMPILE_ROWS = {
    "x86_64": _x86("numa"),
    "clang": _x86("numa", words=(_CLANG,), compiler="clang-19"),
    "clang-lto-thin": _x86("numa", "lto-thin", words=(_CLANG,), compiler="clang-19"),
    "i386": CompileRow("i386", "gcc", (), (*_ALL, "i386")),
    "arm": _cross("arm", "arm-linux-gnueabihf", "arm"),
    "arm64": _cross("arm64", "aarch64-linux-gnu", "arm64"),
    "riscv64": _cross("riscv", "riscv64-linux-gnu", "riscv64"),
    "s390x": _cross("s390", "s390x-linux-gnu", "s390x"),
    "ppc64le": _cross("powerpc", "powerpc64le-linux-gnu", "ppc64le"),
    "ppc64": _cross("powerpc", "powerpc64-linux-gnu", "ppc64"),
    "up": CompileRow("x86_64", "gcc", (), (*_RICH, "x86_64", "up")),
    "preempt-rt": _x86("preempt-rt"),
    "randstruct": _x86("numa", "randstruct"),
    # sparse has complaints about the kernel's own files.
    "sparse": replace(_x86("numa", words=("C=2", SPARSE), compiler="sparse"), judged="kernel/sched/tests/"),
}
"""What `schedline dev test-tree --compile` takes, by name."""


@dataclass(frozen=True)
class PlainTreeOptions:
    tree: TreeOptions = field(default_factory=TreeOptions)
    skip: tuple[str, ...] = option(
        "--skip RUN,...", f"leave out some of {', '.join(KUNIT_RUNS)}", some_of("run", lambda: KUNIT_RUNS), default=()
    )
    compile: tuple[str, ...] = option(
        "--compile ROW,...",
        f"all, or some of {', '.join(COMPILE_ROWS)}",
        some_of("row", lambda: COMPILE_ROWS, everything="all"),
        default=(),
    )
    boots: int = option(
        "--boots N",
        "boot the suites so often in UML, beside `stress-ng --cpu`, with other numbers of CPUs in turn",
        positive,
        default=0,
    )


def add_parser(verbs: Verbs) -> None:
    add_verb(
        verbs,
        "test",
        "everything: style, types, shell scripts, kernel code, all tests",
        first=["schedline dev test           before a commit", "schedline dev test -k judge  the tests that match"],
        text="Tests that boot a kernel use the builds of `schedline check`.",
        options=OwnTestsOptions,
        job="dev.own_tests.test",
        libraries=("test",),
    )
    add_verb(
        verbs,
        "quick",
        "style, types and the tests that need only Python, git and make, in parallel",
        first=["schedline dev quick           after each edit", "schedline dev quick -k judge  the tests that match"],
        text="No kernel, guest, browser, compiler or network is needed. The order is random; the seed is printed.",
        options=QuickOptions,
        job="dev.own_tests.quick",
        libraries=("test",),
    )
    add_verb(
        verbs,
        "mutants",
        "prove that each test can fail",
        first=[
            "schedline dev mutants                      all of configs/mutants/; hours with an empty cache",
            "schedline dev mutants --only 'rd-lines/*'  those of one change",
            "schedline dev mutants --on attack          a new member at every place of the contracted structures",
            "schedline dev mutants --generated          those that operators make of the functions under test; hours",
        ],
        text="""
        Applies each diff of configs/mutants/ to the patched tree, builds and boots it. One of the tests that its
        Killed-by header names has to fail. Answers are kept in the cache, so an interrupted run goes on.

        --generated takes the functions of configs/generated-mutants.toml. Operators change them in one place at a time:
        they drop or negate a part of a condition, drop a statement or a barrier, change a constant, an operator, the
        order of arguments or what is returned. A mutant that survives fails, and so does a statement that no guest
        executes.""",
        examples=[
            "schedline dev mutants --from ~/my-diffs   diffs without headers: any failing test kills",
            "schedline dev mutants --generated --functions rto_next_cpu,cpupri_set",
            "schedline dev mutants --generated --since HEAD~3 --sample 50   what a series touches",
        ],
        options=MutantsOptions,
        read=_read_mutants,
        job="dev.mutants_job.mutants",
        libraries=lambda wanted: (*BASIC, "mutants") if wanted.generated else BASIC,
    )
    add_verb(
        verbs,
        "bench",
        "build and run times as ratios, measured in one run",
        first=[
            "schedline dev bench                   everything; leave the machine alone for twenty minutes",
            "schedline dev bench --only layout     layout beside pahole",
        ],
        text="""
        Builds the test kernel and a stock KUnit kernel from nothing, then times what a user repeats.""",
        options=BenchOptions,
        job="dev.bench.bench",
    )
    add_verb(
        verbs,
        "litmus",
        "what the kernel's memory model says of cpupri's barriers, each left out once",
        first=[
            "schedline dev litmus                        all tests, with the model of Debian's 7.3",
            "schedline dev litmus --only 'cpupri-rise*'  those whose name matches",
        ],
        text="""
        Runs the litmus tests of kunit/litmus/, which model cpupri of 6.12 and 7.3, with herd7 and the memory model of a
        kernel tree. A barrier that is left out has to make the bad outcome possible.""",
        options=LitmusOptions,
        job="dev.litmus.litmus",
    )
    add_verb(
        verbs,
        "test-tree",
        "the exported series in a plain kernel tree, without schedline",
        first=[
            "schedline dev test-tree                  UML with 1 to 64 CPUs, QEMU (x86_64, threads, arm64), --alltests",
            "schedline dev test-tree --skip alltests  a quicker answer",
            "schedline dev test-tree --compile all    compiled alone: other architectures, compilers, options",
        ],
        examples=["schedline dev test-tree --boots 100   then 100 boots beside stress-ng"],
        text="""
        Exports tests and changes, applies them with `git am` to a fresh clone, and runs the clone's own kunit.py: in
        UML, in QEMU, and with --alltests, which builds half the kernel. With --compile nothing is run: each row
        compiles kernel/sched/ with W=1, and a warning fails.""",
        options=PlainTreeOptions,
        job="dev.plain_tree.test_tree",
    )
    add_verb(
        verbs,
        "kselftest",
        "the workloads in a plain kernel tree: make kselftest, an installation, the tarball",
        first=[
            "schedline dev kselftest                 Debian's 7.3",
            "schedline dev kselftest --kdir ~/linux  your tree",
        ],
        text="""
        Exports the series, applies it with `git am` to a fresh clone, and lets the clone configure, build, run,
        install and pack the workloads. They run on this machine, for some minutes, and the tarball in a guest that has
        neither compiler nor Python. Every log is judged against the list of the tests that had to run.""",
        options=TreeOptions,
        job="dev.plain_tree.kselftest",
    )
    add_verb(
        verbs,
        "docs",
        "writes the tables, transcripts, counts and pictures of the pages",
        first=[
            "schedline dev docs           after a change of a rule, a workload, a format or a verb",
            "schedline dev docs --check   name what differs; exit code 1",
        ],
        text="""
        Between <!-- made: NAME --> and <!-- end --> the pages have what is made of code, configs and recorded runs. A
        test fails where a page differs. It takes seconds; no kernel is built.""",
        options=DocsOptions,
        job="dev.made_pages.docs",
        libraries=("test",),
    )
    add_verb(
        verbs,
        "schemas",
        "the JSON schema of a document that others read or write",
        first=["schedline dev schemas gate      of gate --json", "schedline dev schemas run       of a run file"],
        text="Prints the schema, made from the type that reads and writes the document.",
        operands="NAME",
        options=SchemasOptions,
        job="dev.schemas.show",
    )


def _read_mutants(wanted: MutantsOptions) -> MutantsOptions:
    require_tree(wanted.tree)
    if wanted.generated and (wanted.on or wanted.only or wanted.from_):
        raise SchedlineError("--generated tries no diffs", "drop --on, --only and --from")
    if not wanted.generated and (wanted.functions or wanted.since or wanted.sample or wanted.json):
        raise SchedlineError("--functions, --since, --sample and --json are for generated mutants", "add --generated")
    return wanted
