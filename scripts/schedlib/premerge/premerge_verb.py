# SPDX-License-Identifier: GPL-2.0
"""`schedline premerge`: checks of a series before it is merged, on one page."""

from __future__ import annotations

import argparse

from schedlib import options
from schedlib.errors import SchedlineError
from schedlib.gate import gate_options
from schedlib.names import arch_names, some_of
from schedlib.options import BASIC, Verbs, add_verb
from schedlib.premerge import evidence_verb
from schedlib.premerge.premerge_options import PARTS, PremergeOptions, refuse_old
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `schedline premerge`, and `evidence` below it."""
    parser = add_verb(
        verbs,
        "premerge",
        "a series against its base: layout, suites, traffic, mutants and runs on one page",
        first=[
            "schedline premerge --kdir ~/linux --base origin/master             your branch",
            "schedline premerge --kdir ~/linux --base v7.3 --mbox series.mbox   mails, as b4 am writes them",
        ],
        text="""
        Compares a series with its base: the layout on each architecture, the KUnit suites on both, the cache-line
        traffic of both on emulated CPUs, the mutants of the files that the series touches, and runs of a real machine
        if there are some. Tests that already fail on the base are listed apart, because the series did not break them.

        `schedline premerge evidence DIR` makes a short text for a mail from the --out of a premerge.""",
        examples=[
            "schedline premerge --kdir ~/linux --base v7.3 --mbox series.mbox --skip mutants",
            "schedline premerge --kdir ~/linux --base v7.3 --runs runs/base runs/candidate",
            "schedline premerge evidence premerge-out -o evidence.txt",
            "git bisect run schedline premerge --kdir . --base v7.3 --skip mutants --bisect",
        ],
        operands="--kdir PATH --base REV",
        read=_read,
        job=_premerge,
        libraries=lambda wanted: gate_options.LIBRARIES if wanted.runs else BASIC,
    )
    parser.add_argument(
        "--kdir", type=options.existing_path, metavar="PATH", help="your kernel tree (git); it is only read"
    )
    parser.add_argument("--base", metavar="REV", help="the revision that the series is based on")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--head", metavar="REV", help="the last commit of the series (default: HEAD)")
    what.add_argument(
        "--mbox", type=options.existing_path, metavar="FILE", help="mails instead of commits, as b4 am writes them"
    )
    parser.add_argument(
        "--arch",
        type=some_of("architecture", arch_names, everything="all"),
        default=arch_names(),
        metavar="ARCH,...",
        help="architectures for the layout (default: all)",
    )
    parser.add_argument(
        "--skip",
        type=some_of("part", lambda: PARTS),
        default=(),
        metavar="PART,...",
        help=f"leave out some of {', '.join(PARTS)}",
    )
    parser.add_argument(
        "--runs",
        nargs=2,
        type=options.existing_directory,
        metavar=("BASE", "CANDIDATE"),
        help="runs of both kernels on a real machine, for the gate",
    )
    parser.add_argument(
        "--placebo", type=options.existing_directory, metavar="DIR", help="with --runs: runs of the placebo kernel"
    )
    parser.add_argument(
        "--gates",
        type=gate_options.gates_file,
        metavar="NAME|FILE",
        help="with --runs: the gates file, or its name in configs/gates",
    )
    parser.add_argument(
        "--out", type=options.new_directory, metavar="DIR", help="directory for logs, page, JSON, JUnit and KCIDB"
    )
    parser.add_argument("--json", type=options.new_file, metavar="FILE", help="write the page's JSON here too")
    parser.add_argument("--bisect", action="store_true", help="exit 125 unless the verdict is PASS or FAIL")
    more = parser.add_subparsers(prog=parser.prog, metavar="VERB", help="schedline premerge VERB --help")
    evidence_verb.add_parser(more)


def _read(arguments: argparse.Namespace) -> PremergeOptions:
    # If argparse required these two, it would also require them for `premerge evidence`.
    if arguments.kdir is None or arguments.base is None:
        raise SchedlineError(
            "premerge needs a kernel tree and the revision that the series is based on",
            "schedline premerge --kdir PATH --base REV, or schedline premerge evidence DIR",
        )
    if not (arguments.kdir / ".git").exists():
        raise SchedlineError(f"{arguments.kdir} is no git tree, and a series needs revisions", "give a git tree")
    if (arguments.placebo or arguments.gates) and not arguments.runs:
        raise SchedlineError("--placebo and --gates need the runs of base and candidate", "give --runs, too")
    if arguments.out:
        refuse_old(arguments.out)
    return PremergeOptions(
        kdir=arguments.kdir,
        base=arguments.base,
        head=arguments.head,
        mbox=arguments.mbox,
        archs=arguments.arch,
        skip=arguments.skip,
        runs=(arguments.runs[0], arguments.runs[1]) if arguments.runs else None,
        placebo=arguments.placebo,
        gates=arguments.gates,
        out=arguments.out,
        json=arguments.json,
    )


def _premerge(wanted: PremergeOptions) -> Verdict:
    from schedlib.premerge.premerge_job import premerge

    return premerge(wanted)
