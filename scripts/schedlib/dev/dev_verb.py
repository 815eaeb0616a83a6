# SPDX-License-Identifier: GPL-2.0
"""`schedline dev`: what only developers of schedline run."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from schedlib import doctor, options
from schedlib.dev.dev_options import (
    ATTACK,
    ATTACK_PACKS,
    COMPILE_ROWS,
    EMULATED,
    KUNIT_RUNS,
    GeneratedOptions,
    MutantsOptions,
    PlainTreeOptions,
)
from schedlib.errors import SchedlineError
from schedlib.kernel.targets import TARGETS
from schedlib.names import one_of, some_of, words
from schedlib.options import TreeOptions, Verbs, add_verb, options_of
from schedlib.tree.source import require_tree
from schedlib.verdict import Verdict

_KINDS = (
    "start",
    "check",
    "wakeup",
    "cpupri",
    "layout",
    "c2c",
    "workloads",
)


@dataclass(frozen=True)
class OwnTestsOptions:
    """Which tests run; see --help. `quick`: only those that need Python and git alone."""

    k: str | None
    seed: int | None
    long: bool
    quick: bool


@dataclass(frozen=True)
class BenchOptions:
    """Which figures, and where they are written."""

    only: str | None
    json: Path | None


@dataclass(frozen=True)
class LitmusOptions:
    """The tree whose memory model is used, and a glob for the names of the tests."""

    tree: TreeOptions
    only: str


@dataclass(frozen=True)
class KselftestOptions:
    """The tree, and the file for each step's verdict."""

    tree: TreeOptions
    json: Path | None


def add_parser(verbs: Verbs) -> None:
    """Add the verbs below `schedline dev`."""
    _add_own_tests(verbs)
    _add_mutants(verbs)
    bench = add_verb(
        verbs,
        "bench",
        "build and run times as ratios, measured in one run",
        first=[
            "schedline dev bench --json bench.json   everything; leave the machine alone for twenty minutes",
            "schedline dev bench --only workloads    as root: what rt_wakeup and sleep_storm cost",
        ],
        text="""
        Builds the test kernel and a stock KUnit kernel from nothing, then times what a user repeats. Nothing is
        asserted.""",
        read=lambda arguments: options_of(BenchOptions, arguments),
        job=_bench,
    )
    bench.add_argument("--only", choices=_KINDS, help="only the figures of one kind")
    bench.add_argument("--json", type=options.new_path, metavar="FILE", help="write the figures here")
    litmus = add_verb(
        verbs,
        "litmus",
        "what the kernel's memory model says of cpupri's barriers, each left out once",
        first=[
            "schedline dev litmus                        all tests, with the model of Debian's 7.3",
            "schedline dev litmus --only 'cpupri-rise*'  those whose name matches",
        ],
        text="""
        Runs the litmus tests of kunit/litmus/ with herd7 and the memory model of a kernel tree, by the kernel's own
        scripts. Each test is run as it is, with each remedy of a known defect, and with each barrier left out, which
        has to make the bad outcome possible. The tests model cpupri of 6.12 and 7.3, not the tree's own.""",
        read=lambda arguments: options_of(LitmusOptions, arguments, tree=options.tree_options(arguments)),
        job=_litmus,
    )
    options.add_tree_options(litmus)
    litmus.add_argument("--only", metavar="GLOB", default="*", help="the tests whose name matches")
    _add_plain_trees(verbs)
    _add_schemas(verbs)


def _add_own_tests(verbs: Verbs) -> None:
    libraries = ("test",)
    everything = add_verb(
        verbs,
        "test",
        "everything: style, types, shell scripts, kernel code, all tests",
        first=["schedline dev test           before a commit", "schedline dev test -k judge  the tests that match"],
        text="Tests that boot a kernel use the builds of `schedline check`.",
        read=lambda arguments: options_of(OwnTestsOptions, arguments, quick=False),
        job=_own_tests,
        libraries=libraries,
    )
    about = "also the tests that build a kernel only for themselves"
    everything.add_argument("--long", action="store_true", help=about)
    quick = add_verb(
        verbs,
        "quick",
        "style, types and the tests that need only Python and git, in parallel",
        first=["schedline dev quick           after each edit", "schedline dev quick -k judge  the tests that match"],
        text="No kernel, guest, browser, compiler or network is needed. The order is random; the seed is printed.",
        read=lambda arguments: options_of(OwnTestsOptions, arguments, long=False, quick=True),
        job=_own_tests,
        libraries=libraries,
    )
    for parser in (everything, quick):
        parser.add_argument("-k", "--k", metavar="EXPRESSION", help="only the tests that match (as pytest -k)")
        parser.add_argument("--seed", type=int, metavar="N", help="of the random order, to repeat one that failed")


def _add_mutants(verbs: Verbs) -> None:
    parser = add_verb(
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

        --generated takes the functions of configs/generated-mutants.toml instead. Operators change each of them in one
        place at a time: they drop or negate a part of a condition, drop a statement or a barrier, change a constant,
        an operator, the order of arguments or what is returned. One kernel for each configuration has all of them, and
        each is booted. A mutant that survives fails, and so does a statement that no guest executes.""",
        examples=[
            "schedline dev mutants --from ~/my-diffs   diffs without headers: any failing test kills",
            "schedline dev mutants --generated --functions rto_next_cpu,cpupri_set",
            "schedline dev mutants --generated --since HEAD~3 --sample 50   what a series touches",
        ],
        read=_read_mutants,
        job=_mutants,
        libraries=lambda wanted: (*options.BASIC, "mutants") if isinstance(wanted, GeneratedOptions) else options.BASIC,
    )
    options.add_tree_options(parser)
    traffic = (
        f"{EMULATED}: count the traffic of mutants with a Traffic header; {ATTACK}, {ATTACK_PACKS}: attack contracts"
    )
    options.add_values(
        parser,
        (
            "--on",
            one_of("target", lambda: (*TARGETS, EMULATED, ATTACK, ATTACK_PACKS)),
            "TARGET",
            f"{', '.join(TARGETS)}; {traffic}",
        ),
        ("--only", str, "GLOB", "only those whose <change>/<slug> matches"),
        ("--json", options.new_path, "FILE", "write the table here"),
    )
    diffs = options.existing_path
    parser.add_argument("--from", dest="from_", type=diffs, metavar="DIR", help="diffs of your own instead")
    parser.add_argument("--generated", action="store_true", help="mutants that operators make")
    options.add_values(
        parser,
        ("--functions", words, "NAME,...", "--generated: only of these functions"),
        ("--since", str, "REV", "--generated: only of the functions that differ from this revision of the tree"),
        ("--sample", options.positive, "N", "--generated: so many of each function, drawn at random"),
        ("--seed", int, "N", "--generated: for --sample (default: 1)"),
    )
    parser.set_defaults(seed=1, functions=())


def _add_plain_trees(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "test-tree",
        "the exported series in a plain kernel tree, without schedline",
        first=[
            "schedline dev test-tree                  UML with 1 to 64 CPUs, QEMU (x86_64, threads, arm64), --alltests",
            "schedline dev test-tree --skip alltests  a quicker answer",
            "schedline dev test-tree --compile all    compiled alone: other architectures, compilers, options",
        ],
        examples=[
            "schedline dev test-tree --boots 100   then 100 boots beside stress-ng",
        ],
        text="""
        Exports tests and changes, applies them with `git am` to a fresh clone, and runs the clone's own kunit.py: in
        UML, in QEMU, and with --alltests, which builds half the kernel. Each run shows how many tests passed and how
        many were skipped. From there on only the clone and Python's standard library are used. With --compile nothing
        is run: each row compiles kernel/sched/ with W=1, and a warning fails.""",
        read=lambda arguments: options_of(PlainTreeOptions, arguments, tree=options.tree_options(arguments)),
        job=_test_tree,
    )
    options.add_tree_options(parser)
    runs, about = some_of("run", lambda: KUNIT_RUNS), f"leave out some of {', '.join(KUNIT_RUNS)}"
    parser.add_argument("--skip", type=runs, default=(), metavar="RUN,...", help=about)
    rows, about = some_of("row", lambda: COMPILE_ROWS, everything="all"), f"all, or some of {', '.join(COMPILE_ROWS)}"
    parser.add_argument("--compile", type=rows, default=(), metavar="ROW,...", help=about)
    about = "boot the suites so often in UML, beside `stress-ng --cpu`, with other numbers of CPUs in turn"
    parser.add_argument("--boots", type=options.positive, default=0, metavar="N", help=about)
    parser = add_verb(
        verbs,
        "kselftest",
        "the workloads in a plain kernel tree: make kselftest, an installation, the tarball",
        first=[
            "schedline dev kselftest                 Debian's 7.3",
            "schedline dev kselftest --kdir ~/linux  your tree",
        ],
        text="""
        Exports the series, applies it with `git am` to a fresh clone, and lets the clone configure, build, run,
        install and pack the workloads as its users would. They run on this machine, for some minutes. The tarball
        runs in a guest, too, which has busybox, and neither compiler nor Python. Every log is judged against the list
        of the tests that had to run.""",
        read=lambda arguments: options_of(KselftestOptions, arguments, tree=options.tree_options(arguments)),
        job=_kselftest,
    )
    options.add_tree_options(parser)
    parser.add_argument("--json", type=options.new_path, metavar="FILE", help="write each step's verdict here")


def _read_mutants(arguments: argparse.Namespace) -> MutantsOptions | GeneratedOptions:
    tree = options.tree_options(arguments)
    require_tree(tree)
    if arguments.generated:
        if arguments.on or arguments.only or arguments.from_:
            raise SchedlineError("--generated tries no diffs", "drop --on, --only and --from")
        return options_of(GeneratedOptions, arguments, tree=tree)
    if arguments.functions or arguments.since or arguments.sample:
        raise SchedlineError("--functions, --since and --sample choose generated mutants", "add --generated")
    return options_of(MutantsOptions, arguments, tree=tree)


def _own_tests(wanted: OwnTestsOptions) -> Verdict:
    from schedlib.dev.own_tests import quick, test

    return quick(wanted.k, wanted.seed) if wanted.quick else test(wanted.k, wanted.seed, long=wanted.long)


def _mutants(wanted: MutantsOptions | GeneratedOptions) -> Verdict:
    if isinstance(wanted, GeneratedOptions):
        from schedlib.dev.generated_mutants import try_generated

        return try_generated(wanted)
    from schedlib.dev.mutants_job import try_mutants

    return try_mutants(wanted)


def _bench(wanted: BenchOptions) -> Verdict:
    from schedlib.dev.bench import bench

    return bench(wanted.only, wanted.json)


def _litmus(wanted: LitmusOptions) -> Verdict:
    from schedlib.cache import cache_dir
    from schedlib.dev.litmus import check
    from schedlib.tree.kernel_tree import open_tree

    doctor.require(wanted.tree.needs)
    tree = open_tree(cache_dir(), wanted.tree)
    verdict, said = check(tree, wanted.only)
    print(f"{said}tree: {tree.origin}\nverdict: {verdict.name}")
    return verdict


def _test_tree(wanted: PlainTreeOptions) -> Verdict:
    if wanted.compile:
        from schedlib.dev.compile_series import compile_series

        return compile_series(wanted)
    from schedlib.dev.plain_tree import run_series

    return run_series(wanted)


def _kselftest(wanted: KselftestOptions) -> Verdict:
    from schedlib.dev.kselftest import run_steps

    return run_steps(wanted.tree, wanted.json)


def _add_schemas(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "schemas",
        "the JSON schema of a document that others read or write",
        first=["schedline dev schemas gate      of gate --json", "schedline dev schemas run       of a run file"],
        text="Prints the schema, made from the type that reads and writes the document.",
        operands="NAME",
        read=lambda arguments: arguments.name,
        job=_schemas,
    )
    parser.add_argument("name", choices=("check", "contract", "gate", "layout", "premerge", "run"), metavar="NAME")


def _schemas(name: str) -> Verdict:
    from schedlib.formats.schemas import text

    print(text(name))
    return Verdict.PASS
