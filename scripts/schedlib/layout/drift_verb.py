# SPDX-License-Identifier: GPL-2.0
"""`schedline layout drift`: all contracts, from one kernel to the next."""

from __future__ import annotations

import argparse
import shlex
import sys

from schedlib.errors import SchedlineError
from schedlib.layout.drift_options import DriftOptions
from schedlib.layout.layout_options import add_column_options, add_pack_options, layout_operand, packs
from schedlib.names import pack_names
from schedlib.options import BASIC, Verbs, add_verb, new_file
from schedlib.verdict import Verdict

PAGE_LIBRARY = "report"


def add_parser(verbs: Verbs) -> None:
    """Add `schedline layout drift`."""
    parser = add_verb(
        verbs,
        "drift",
        "what became of all contracts from one kernel to the next",
        first=[
            "schedline layout drift 6.12 7.3                        two kernels of Debian",
            "schedline layout drift 7.3 ~/linux --html drift.html   your tree against a release",
        ],
        text="""
        Judges the contracts of the scheduler and of all packs on kernels in order of time. Says which rules no longer
        hold, which members moved between lines or came to lines that a contract speaks of, which lines are full, and
        which functions began to touch members far from their group. FAIL: a rule that held is broken, or a member of
        another class joined a line. In built kernels no source is seen: what functions touch is not compared.""",
        examples=[
            "schedline layout drift 6.1 6.12 7.2 7.3 --arch all --html drift.html --json drift.json",
            "schedline layout drift 7.2 7.3 --pack net,fs",
            "schedline layout drift a/vmlinux b/vmlinux",
            "schedline layout drift 7.3 7.3+rd-lines --pack sched",
        ],
        operands="A B [C ...]",
        read=_read,
        job=_drift,
        libraries=lambda wanted: (*BASIC, PAGE_LIBRARY) if wanted.html else BASIC,
    )
    what = "a series (7.3, or with a change 7.3+rd-lines), a tree, a vmlinux, BTF, or running; the oldest first"
    parser.add_argument("kernels", type=layout_operand, nargs="+", metavar="KERNEL", help=what)
    add_column_options(parser)
    add_pack_options(parser, more=("sched",))
    parser.add_argument("--html", type=new_file, metavar="FILE", help="write a page: contracts by kernels, and why")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write everything that was found")


def _read(arguments: argparse.Namespace) -> DriftOptions:
    kernels = tuple(arguments.kernels)
    if len(kernels) < 2:
        raise SchedlineError(
            f"{kernels[0].text} alone cannot drift: a kernel is compared with the one before it",
            "name two kernels or more, the oldest first: schedline layout drift 6.12 7.3",
        )
    for place, kernel in enumerate(kernels):
        if kernel in kernels[:place]:
            raise SchedlineError(f"{kernel.text} is named twice", "name each kernel once, the oldest first")
        if kernel.path and kernel.path.suffix == ".o":
            raise SchedlineError(
                f"{kernel.text} is an object; contracts of all subsystems need a whole kernel",
                "give a series, a tree, a vmlinux or BTF",
            )
    chosen, directories = packs(arguments)
    return DriftOptions(
        kernels,
        arguments.arch or (),
        arguments.config,
        chosen or ("sched", *pack_names()),
        directories,
        arguments.html,
        arguments.json,
        shlex.join(["schedline", *sys.argv[1:]]),
    )


def _drift(wanted: DriftOptions) -> Verdict:
    from schedlib.layout.drift_job import compare_all

    return compare_all(wanted)
