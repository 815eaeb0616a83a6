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
    LavaTrialOptions,
    MutantsOptions,
    NetCachelinesOptions,
    PlainTreeOptions,
    RetrodictOptions,
)
from schedlib.errors import SchedlineError
from schedlib.kernel.targets import TARGETS
from schedlib.names import incident_names, one_of, some_of, words
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
    "thresholds",
    "gate",
    "gate-speed",
    "fleet",
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
            "schedline dev bench --only thresholds   what the kselftests catch; an hour",
            "schedline dev bench --only gate         the gate's false alarms and power, on simulated campaigns",
            "schedline dev bench --only gate-speed   how long a gate takes, of 40 and of 100,000 runs",
        ],
        text="""
        Builds the test kernel and a stock KUnit kernel from nothing, then times what a user repeats. Nothing is
        asserted, but --only gate FAILs when the gate misses its goals.""",
        examples=[
            "schedline dev bench --only workloads   as root: what rt_wakeup and sleep_storm cost",
            "schedline dev bench --only fleet       simulated fleets of up to 10,000 machines; some minutes",
        ],
        read=lambda arguments: options_of(BenchOptions, arguments),
        job=_bench,
        libraries=("requirements-gate.txt", "requirements-history.txt", "requirements.txt"),
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
    tables = add_verb(
        verbs,
        "net-cachelines",
        "the kernel's tables of net_cachelines against the structures as compiled",
        first=[
            "schedline dev net-cachelines              what differs in Debian's 7.3; a minute",
            "schedline dev net-cachelines --out made   write the tables anew, too",
        ],
        text="""
        Compares each table of Documentation/networking/net_cachelines with its structure, the markers of groups and
        the assertions: rows without a member, members without a row, other claims. A table that is made anew has a
        row for each member and keeps what the old rows say. FAIL if anything differs.""",
        read=lambda arguments: options_of(NetCachelinesOptions, arguments, tree=options.tree_options(arguments)),
        job=_net_cachelines,
    )
    options.add_tree_options(tables)
    tables.add_argument("--out", type=options.new_path, metavar="DIR", help="write the tables made anew here")
    _add_retrodict(verbs)
    _add_plain_trees(verbs)


def _add_retrodict(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "retrodict",
        "what contracts and counts would have said of known layout incidents",
        first=[
            "schedline dev retrodict                        each incident of configs/incidents/",
            "schedline dev retrodict --out retrodiction.md  write the page, too",
            "schedline dev retrodict --quiet                changes that nobody complained of, too",
            "schedline dev retrodict --counts               the traffic of built-in workloads, too",
            "schedline dev retrodict --only dentry-lockref  one incident",
        ],
        text="""
        For each incident a contract is derived from the layout before, by configs/incidents-rules.toml. It has to
        name the right member in the bad layout, and to say nothing of the fix.

        With --counts, a kernel without carried changes is built, and built-in workloads run on it. Their accesses are
        kept, and played again with the bad layout and with the good one of each incident. FAIL if one is missed by
        the contract and by the counts.

        What was judged is kept in the cache. A run that was interrupted goes on where it was.""",
        read=lambda arguments: options_of(RetrodictOptions, arguments, tree=options.tree_options(arguments)),
        job=_retrodict,
    )
    options.add_tree_options(parser)
    about = "also try the differences between Debian's kernels, piece by piece: they are fetched"
    parser.add_argument("--quiet", action="store_true", help=about)
    about = "also play traces of built-in workloads with each layout: a kernel is built, and guests boot"
    parser.add_argument("--counts", action="store_true", help=about)
    chosen = one_of("incident", incident_names)
    parser.add_argument("--only", type=chosen, metavar="INCIDENT", help="one file of configs/incidents/")
    options.add_values(
        parser,
        ("--out", options.new_path, "FILE", "write the page here"),
        ("--json", options.new_path, "FILE", "write the document here"),
    )


def _retrodict(wanted: RetrodictOptions) -> Verdict:
    from schedlib.dev.retrodict import retrodict

    return retrodict(wanted)


def _add_own_tests(verbs: Verbs) -> None:
    libraries = ("requirements-test.txt",)
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
        ],
        text="""
        Applies each diff of configs/mutants/ to the patched tree, builds and boots it. One of the tests that its
        Killed-by header names has to fail. Answers are kept in the cache, so an interrupted run goes on.""",
        examples=["schedline dev mutants --from ~/my-diffs   diffs without headers: any failing test kills"],
        read=_read_mutants,
        job=_mutants,
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


def _add_plain_trees(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "test-tree",
        "the exported series in a plain kernel tree, without schedline",
        first=[
            "schedline dev test-tree                  in UML with 2, 8 and 64 CPUs, in QEMU, and with --alltests",
            "schedline dev test-tree --skip alltests  a quicker answer",
            "schedline dev test-tree --compile all    compiled alone: other architectures, compilers, options",
        ],
        examples=["schedline dev test-tree --skip uml-8,uml-2,qemu,alltests --boots 100   beside stress-ng"],
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
    parser = add_verb(
        verbs,
        "test-lava",
        "campaigns with real jobs of LAVA on two QEMU devices, as root",
        first=[
            "schedline dev test-lava                   Debian's 7.3, in a new directory in the cache",
            "schedline dev test-lava --out /tmp/trial  keep plans, jobs, logs and runs here",
        ],
        examples=[
            "schedline dev test-lava --server http://127.0.0.1:8000 --tags q1,q2   jobs are cancelled, not killed"
        ],
        text="""
        Builds three kernels, plans two campaigns, and runs their jobs with lava-run of Debian's lava-dispatcher, two
        at a time. In one campaign the kernels do not differ: a job is killed in the middle, which decides nothing,
        and after it was repeated the gate has to PASS. In the other one the candidate pins every task to the first
        CPU: the gate has to FAIL. Each job is collected twice, which must not change a file.""",
        read=_read_lava_trial,
        job=_test_lava,
        libraries=("requirements-gate.txt", "requirements-fleet.txt", "requirements.txt"),
    )
    options.add_tree_options(parser)
    parser.add_argument("--out", type=options.new_directory, metavar="DIR", help="directory for the campaigns")
    options.add_values(
        parser,
        ("--server", str, "URL", "use this server of LAVA, with two idle QEMU devices, in place of lava-run"),
        ("--tags", words, "TAG,TAG", "with --server: a tag that only the first device has, and one of the second"),
        ("--token", options.existing_path, "FILE", "file with a token for the server's API"),
    )
    parser.add_argument("--identity", default="default", metavar="NAME", help="lavacli's identity (default: default)")


def _read_lava_trial(arguments: argparse.Namespace) -> LavaTrialOptions:
    tags = tuple(arguments.tags or ())
    if len(set(tags)) != (2 if arguments.server else 0):
        why = "--server needs two --tags: a job that is repeated has to find its device again"
        raise SchedlineError(why if arguments.server else "--tags is for --server", "schedline dev test-lava --help")
    return options_of(LavaTrialOptions, arguments, tags=tags, tree=options.tree_options(arguments))


def _read_mutants(arguments: argparse.Namespace) -> MutantsOptions:
    tree = options.tree_options(arguments)
    require_tree(tree)
    return options_of(MutantsOptions, arguments, tree=tree)


def _own_tests(wanted: OwnTestsOptions) -> Verdict:
    from schedlib.dev.own_tests import quick, test

    return quick(wanted.k, wanted.seed) if wanted.quick else test(wanted.k, wanted.seed, long=wanted.long)


def _mutants(wanted: MutantsOptions) -> Verdict:
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


def _net_cachelines(wanted: NetCachelinesOptions) -> Verdict:
    from schedlib.dev.net_cachelines import compare_tables

    return compare_tables(wanted)


def _test_tree(wanted: PlainTreeOptions) -> Verdict:
    if wanted.compile:
        from schedlib.dev.compile_series import compile_series

        return compile_series(wanted)
    from schedlib.dev.plain_tree import run_series

    return run_series(wanted)


def _kselftest(wanted: KselftestOptions) -> Verdict:
    from schedlib.dev.kselftest import run_steps

    return run_steps(wanted.tree, wanted.json)


def _test_lava(wanted: LavaTrialOptions) -> Verdict:
    from schedlib.cache import cache_dir, results_directory
    from schedlib.dev.lava_trial import try_lava

    return try_lava(wanted, results_directory(cache_dir(), wanted.out))
