# SPDX-License-Identifier: GPL-2.0
"""`schedline dev`: what only developers of schedline run."""

from __future__ import annotations

from schedlib import options
from schedlib.dev.dev_options import (
    BenchOptions,
    DocsOptions,
    LitmusOptions,
    MutantsOptions,
    OwnTestsOptions,
    PlainTreeOptions,
    QuickOptions,
)
from schedlib.errors import SchedlineError
from schedlib.options import TreeOptions, Verbs, add_verb
from schedlib.tree.source import require_tree


def add_parser(verbs: Verbs) -> None:
    """Add the verbs below `schedline dev`."""
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
        "style, types and the tests that need only Python and git, in parallel",
        first=["schedline dev quick           after each edit", "schedline dev quick -k judge  the tests that match"],
        text="No kernel, guest, browser, compiler or network is needed. The order is random; the seed is printed.",
        options=QuickOptions,
        job="dev.own_tests.quick",
        libraries=("test",),
    )
    _add_mutants(verbs)
    add_verb(
        verbs,
        "bench",
        "build and run times as ratios, measured in one run",
        first=[
            "schedline dev bench                   everything; leave the machine alone for twenty minutes",
            "schedline dev bench --only layout     layout beside pahole and a whole vmlinux",
        ],
        text="""
        Builds the test kernel and a stock KUnit kernel from nothing, then times what a user repeats. Nothing is
        asserted.""",
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
        Runs the litmus tests of kunit/litmus/ with herd7 and the memory model of a kernel tree, by the kernel's own
        scripts. Each test is run as it is, with each remedy of a known defect, and with each barrier left out, which
        has to make the bad outcome possible. The tests model cpupri of 6.12 and 7.3, not the tree's own.""",
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
        examples=[
            "schedline dev test-tree --boots 100   then 100 boots beside stress-ng",
        ],
        text="""
        Exports tests and changes, applies them with `git am` to a fresh clone, and runs the clone's own kunit.py: in
        UML, in QEMU, and with --alltests, which builds half the kernel. Each run shows how many tests passed and how
        many were skipped. From there on only the clone and Python's standard library are used. With --compile nothing
        is run: each row compiles kernel/sched/ with W=1, and a warning fails.""",
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
        install and pack the workloads as its users would. They run on this machine, for some minutes. The tarball
        runs in a guest, too, which has busybox, and neither compiler nor Python. Every log is judged against the list
        of the tests that had to run.""",
        options=TreeOptions,
        job="dev.kselftest.run_steps",
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
    schemas = add_verb(
        verbs,
        "schemas",
        "the JSON schema of a document that others read or write",
        first=["schedline dev schemas gate      of gate --json", "schedline dev schemas run       of a run file"],
        text="Prints the schema, made from the type that reads and writes the document.",
        operands="NAME",
        read=lambda arguments: arguments.name,
        job="formats.schemas.show",
    )
    schemas.add_argument("name", choices=("check", "contract", "gate", "layout", "premerge", "run"), metavar="NAME")


def _add_mutants(verbs: Verbs) -> None:
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

        --generated takes the functions of configs/generated-mutants.toml instead. Operators change each of them in one
        place at a time: they drop or negate a part of a condition, drop a statement or a barrier, change a constant,
        an operator, the order of arguments or what is returned. One kernel for each configuration has all of them, and
        each is booted. A mutant that survives fails, and so does a statement that no guest executes.""",
        examples=[
            "schedline dev mutants --from ~/my-diffs   diffs without headers: any failing test kills",
            "schedline dev mutants --generated --functions rto_next_cpu,cpupri_set",
            "schedline dev mutants --generated --since HEAD~3 --sample 50   what a series touches",
        ],
        options=MutantsOptions,
        read=_read_mutants,
        job="dev.mutants_job.mutants",
        libraries=lambda wanted: (*options.BASIC, "mutants") if wanted.generated else options.BASIC,
    )


def _read_mutants(wanted: MutantsOptions) -> MutantsOptions:
    require_tree(wanted.tree)
    if wanted.generated and (wanted.on or wanted.only or wanted.from_):
        raise SchedlineError("--generated tries no diffs", "drop --on, --only and --from")
    if not wanted.generated and (wanted.functions or wanted.since or wanted.sample or wanted.json):
        raise SchedlineError("--functions, --since, --sample and --json are for generated mutants", "add --generated")
    return wanted
