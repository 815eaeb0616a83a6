# SPDX-License-Identifier: GPL-2.0
"""`schedline check`: one tree, its guests, one verdict."""

from __future__ import annotations

import argparse
import re

from schedlib import options
from schedlib.check.check_options import CheckOptions
from schedlib.check.sanitize import SANITIZERS, TARGET
from schedlib.kernel.targets import TARGETS
from schedlib.names import change_ids, one_of, some_of, words
from schedlib.options import Verbs, add_verb
from schedlib.tree.source import require_tree
from schedlib.verdict import Verdict

_WORD = re.compile(r"[\w.,=:*?\[\]/-]+")


def add_parser(verbs: Verbs) -> None:
    """Add `schedline check`."""
    parser = add_verb(
        verbs,
        "check",
        "the main job: fetch, patch, build, boot, judge; one verdict",
        first=[
            "schedline check                  Debian's 7.3 with the changes, UML with 8 and 64 CPUs",
            "schedline check --kdir ~/linux   your tree as it is, uncommitted changes included",
        ],
        text="""
        Copies a kernel source, adds the KUnit tests and the changes, builds it, and boots it with several CPUs. The
        whole console log is judged against the list of tests that it must contain. Your tree is only read.

        A change that your tree lacks is skipped, unless --expect or --base says that it must be present.""",
        examples=[
            "schedline check --series 6.12                   6.12 in QEMU (its UML has one CPU)",
            "schedline check --series 6.1                    Debian 12's kernel with the cluster scan added",
            "schedline check --kdir ~/linux --base v7.3      the changes of v7.3 must be present",
            "schedline check --kdir ~/linux --with rd-lines  your tree with a carried change",
            "schedline check --without rd-lines              see the rules fail without the change",
            "schedline check --only sched_layout.rd_lines --cpus 8",
            "schedline check --on qemu-x86_64 --config numa",
            "schedline check --cpupri all                    cpupri's masks split by node and LLC: three kernels",
            "schedline check --sanitize kcsan                data races; also kasan, lockdep, ubsan",
            "schedline check --on qemu-arm64 --topology kunpeng920",
            "schedline check --on qemu-arm64 --topology jacobsville --selftests",
            "git bisect run schedline check --kdir . --expect rq-order --bisect",
        ],
        read=_read,
        job=_check,
    )
    options.add_tree_options(parser)
    options.add_change_options(parser)
    add = parser.add_argument
    about = f"{' or '.join(TARGETS)} (default: uml where it has SMP)"
    add("--on", type=one_of("target", lambda: TARGETS), metavar="TARGET", help=about)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--cpus", type=_cpus, default=(), metavar="N,...", help="CPUs of the guests (default: 8 and 64)")
    options.add_topology_option(shape, "boot one guest in QEMU with the shape in configs/topologies/NAME.toml")
    options.add_config_option(parser, "fragments of configs/kernel/, or paths, added in this order")
    options.add_cpupri_option(parser, "build and boot cpupri-split once for each variant")
    races = "configs/known-races.toml"
    about = f"build with this and boot {TARGET} with 8 CPUs; a report fails, except for the intended races in {races}"
    add("--sanitize", choices=sorted(SANITIZERS), help=about)
    add("--expect", type=some_of("change", change_ids), metavar="ID,...", help="changes that must be present")
    add("--base", metavar="REV", help="expect the changes that this revision of your tree has (default: @{upstream})")
    add("--require", type=words, default=(), metavar="TEST,...", help="a skip of these tests or suites is an error")
    add("--selftests", action="store_true", help="run the programs of selftests/ in the guests instead of KUnit")
    add(
        "--only",
        type=_word,
        metavar="SUITE[.CASE]",
        help="run only these (globs allowed): sched_layout.rd_lines for the printed sched_layout:rd_lines:rd-lines.R3; "
        "of the selftests: sched_latency.PROGRAM",
    )
    about = "a parameter for the guest kernel, such as sched_cpupri_kunit.seed=7"
    add("--kernel-arg", type=_word, action="append", default=[], metavar="ARG", help=about)
    add("--timeout", type=options.seconds, metavar="SECONDS", help="end a guest after this time")
    add("--verbose", action="store_true", help="list each skipped test")
    add("--json", type=options.new_path, metavar="FILE", help="write the results here too (--cpupri: FILE-NAME)")
    add("--out", type=options.new_path, metavar="DIR", help="directory for logs and results")
    add("--again", action="store_true", help="build and boot even if nothing has changed since an earlier verdict")
    add("--bisect", action="store_true", help="exit 125 unless the verdict is PASS or FAIL")


def _cpus(text: str) -> tuple[int, ...]:
    return tuple(options.cpu_count(word) for word in text.split(","))


def _word(text: str) -> str:
    if not _WORD.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} holds characters that a kernel command line cannot carry")
    return text


def _read(arguments: argparse.Namespace) -> CheckOptions:
    from schedlib.console.expected import current_name, expected_tests

    tree = options.tree_options(arguments)
    require_tree(tree)
    arguments.require = tuple(current_name(name, selftests=arguments.selftests) for name in arguments.require)
    if arguments.only:
        arguments.only = current_name(arguments.only, ".", selftests=arguments.selftests)
        expected_tests(options.MOST_CPUS, arguments.only, selftests=arguments.selftests)
    changes = options.change_options(arguments)
    kernel_args = tuple(arguments.kernel_arg)
    return options.options_of(CheckOptions, arguments, tree=tree, changes=changes, kernel_args=kernel_args)


def _check(wanted: CheckOptions) -> Verdict:
    from schedlib.check.check_job import check

    return check(wanted)
