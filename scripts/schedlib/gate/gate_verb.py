# SPDX-License-Identifier: GPL-2.0
"""`schedline gate`: base against candidate, one verdict."""

from __future__ import annotations

import argparse

from schedlib import options
from schedlib.errors import SchedlineError
from schedlib.gate.gate_options import LIBRARIES, PAGE_LIBRARIES, GateOptions, gates_file, read_svg
from schedlib.options import Verbs, add_verb
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `schedline gate`."""
    parser = add_verb(
        verbs,
        "gate",
        "base against candidate: one verdict from the runs of two kernels",
        first=[
            "schedline gate runs/base runs/candidate                    the verdict, and a table for a mail",
            "schedline gate runs/base runs/candidate --html page.html   and a page with each boot drawn",
        ],
        text="""
        BASE and CANDIDATE are directories of run files, one JSON for each run, as `schedline run` writes them. They are
        compared boot by boot; the runs of a boot are averaged.

        Boot both kernels in turn (ABBA or random pairs), at least as often as the gates file says. A FAIL needs a
        confirmation: as many boots again, in the same directories or given by --confirm. Without it a difference is
        INCONCLUSIVE. Later boots are not judged. Results of different machines or settings are rejected.

        The page of --html is one file that needs no network and no script: the verdict, the table, each metric drawn
        boot by boot, the environment, what was skipped, the command.""",
        examples=[
            "schedline gate runs/base runs/candidate --gates configs/gates/default.toml --json gate.json",
            "schedline gate runs/base runs/candidate --confirm again/base again/candidate",
            "schedline gate runs/base runs/candidate --placebo runs/placebo    how much comes from the layout",
            "schedline gate runs/base runs/candidate --html page.html --picture lines.svg",
            "schedline gate runs/6.12 runs/7.3 --expect-improvement            which of the mails' claims hold",
        ],
        operands="BASE CANDIDATE",
        read=_read,
        job=_gate,
        libraries=lambda wanted: PAGE_LIBRARIES if wanted.html else LIBRARIES,
    )
    runs = options.existing_directory
    parser.add_argument("base", type=runs, metavar="BASE", help="runs of the kernel without the change")
    parser.add_argument("candidate", type=runs, metavar="CANDIDATE", help="runs of the kernel with it")
    parser.add_argument(
        "--gates",
        type=gates_file,
        metavar="NAME|FILE",
        help="gates file, or its name in configs/gates (default: default; for claims: claims)",
    )
    parser.add_argument(
        "--confirm",
        nargs=2,
        type=runs,
        metavar=("BASE", "CANDIDATE"),
        help="runs of a second batch of both kernels, measured after the first",
    )
    parser.add_argument(
        "--placebo",
        type=runs,
        metavar="DIR",
        help="runs of the placebo kernel, to see how much of a change comes from the layout",
    )
    parser.add_argument(
        "--expect-improvement", action="store_true", help="say which claims of the gates file the runs confirm"
    )
    parser.add_argument(
        "--json", type=options.new_file, metavar="FILE", help="write the result here too (schema gate-1)"
    )
    parser.add_argument("--html", type=options.new_file, metavar="FILE", help="write the page here")
    parser.add_argument(
        "--picture",
        type=options.existing_path,
        action="append",
        default=[],
        metavar="FILE",
        help="an SVG for the page, as layout diff --svg draws it; may be repeated",
    )


def _read(arguments: argparse.Namespace) -> GateOptions:
    if arguments.expect_improvement:
        for given, observed in (
            (arguments.confirm, "--expect-improvement takes all boots as one batch: it has no --confirm"),
            (arguments.placebo, "claims are compared with the base alone: --expect-improvement has no --placebo"),
            (arguments.html, "the page shows metrics, not claims: --expect-improvement has no --html"),
        ):
            if given:
                raise SchedlineError(observed, "leave out one of the two")
    if arguments.picture and not arguments.html:
        raise SchedlineError("--picture adds to a page, and --html is missing", "add --html FILE")
    for picture in arguments.picture:
        read_svg(picture)
    return GateOptions(
        base=arguments.base,
        candidate=arguments.candidate,
        gates=arguments.gates,
        confirm=(arguments.confirm[0], arguments.confirm[1]) if arguments.confirm else None,
        placebo=arguments.placebo,
        expect_improvement=arguments.expect_improvement,
        json=arguments.json,
        html=arguments.html,
        pictures=tuple(arguments.picture),
    )


def _gate(wanted: GateOptions) -> Verdict:
    from schedlib.gate.gate_job import gate

    return gate(wanted)
