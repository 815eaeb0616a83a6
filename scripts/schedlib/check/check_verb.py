# SPDX-License-Identifier: GPL-2.0
"""`schedline check`: one tree, its guests, one verdict."""

from __future__ import annotations

from dataclasses import replace

from schedlib.check.check_options import CheckOptions
from schedlib.options import MOST_CPUS, Verbs, add_verb
from schedlib.tree.source import require_tree


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
            "schedline check --cpupri all                    cpupri's masks split in each way",
            "schedline check --sanitize kcsan                data races; also kasan, lockdep, ubsan",
            "schedline check --on qemu-arm64 --topology kunpeng920",
            "schedline check --on qemu-arm64 --topology jacobsville --selftests",
            "git bisect run schedline check --kdir . --expect rq-order --bisect",
        ],
        options=CheckOptions,
        read=_checked,
        job="check.check_job.check",
    )
    parser.add_argument("--bisect", action="store_true", help="exit 125 unless the verdict is PASS or FAIL")


def _checked(options: CheckOptions) -> CheckOptions:
    """The options with the names that tests have now."""
    from schedlib.console.expected import current_name, expected_tests

    require_tree(options.tree)
    selftests, only = options.selftests, options.only
    require = tuple(current_name(name, selftests=selftests) for name in options.require)
    if only:
        only = current_name(only, ".", selftests=selftests)
        expected_tests(MOST_CPUS, only, selftests=selftests)
    return replace(options, require=require, only=only)
