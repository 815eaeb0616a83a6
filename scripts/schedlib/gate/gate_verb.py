# SPDX-License-Identifier: GPL-2.0
"""`schedline gate`: base against candidate, one verdict."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from schedlib import options
from schedlib.cache import write_atomic
from schedlib.errors import SchedlineError
from schedlib.gate import history_verb, plan_verb
from schedlib.gate.gate_options import (
    BUDGET,
    DETECT,
    LIBRARIES,
    PAGE_LIBRARIES,
    FleetOptions,
    GateOptions,
    RedrawOptions,
    gates_file,
    keep_fonts,
    percent,
    read_svg,
)
from schedlib.gate.imports import import_verb
from schedlib.gate.imports.import_options import add_reading_options, reading_options
from schedlib.options import BASIC, Verbs, add_verb, options_of
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `schedline gate` and the verbs below it."""
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

        Boot both kernels in turn, in an order drawn by lot. The gate looks at 8, 12, 16 and 20 boots of each kernel;
        the gates file may say other numbers. It ends at the first look that decides, and does not judge later boots.
        FAIL: a metric is worse, and over its budget. PASS: no metric is worse by `detect` or more. INCONCLUSIVE:
        neither is shown yet; the text says how many boots are needed. Results of different machines or settings are
        rejected.

        With --unit the directories may hold files that other tools wrote, such as cyclictest --json; docs/gate.md lists
        them. What such files do not tell makes the result INCONCLUSIVE; --trust says that both sides are alike.

        With --fleet there is a directory for each machine, with its runs in base/ and candidate/. Effects are judged
        over all machines and for each model, which the runs name. A model that regresses is told by name, and a machine
        that cannot be judged is left out by name. docs/fleet.md says how.

        The page of --html is one file that needs no network and no script: the verdict, the table, each metric drawn
        boot by boot, the environment, what was skipped, the command. --markdown writes a report for a pull request.
        --json keeps all that a report needs, and --from draws it again.""",
        examples=[
            "schedline gate runs/base runs/candidate --gates configs/gates/default.toml --json gate.json",
            "schedline gate results/base results/candidate --unit run --trust     files of cyclictest, hackbench, ...",
            "schedline gate runs/base runs/candidate --placebo runs/placebo    how much comes from the layout",
            "schedline gate runs/base runs/candidate --html page.html --picture lines.svg",
            "schedline gate runs/base runs/candidate --history gates          keep the verdict; gate history reads it",
            "schedline gate --from gate.json --html page.html --markdown report.md    draw the report again",
            "schedline gate --fleet fleet --json fleet.json                    many machines: which models regress",
            "schedline gate runs/6.12 runs/7.3 --expect-improvement            which of the mails' claims hold",
            "schedline gate plan --help                                        plan the boots, and have them made",
        ],
        operands="BASE CANDIDATE",
        read=_read,
        job=_gate,
        libraries=_libraries,
    )
    runs, new, names = options.existing_directory, options.new_file, "(default: default; for claims: claims)"
    for name, about in (("base", "runs of the kernel without the change"), ("candidate", "runs of the kernel with it")):
        parser.add_argument(name, nargs="?", type=runs, metavar=name.upper(), help=about)
    options.add_values(
        parser,
        ("--gates", gates_file, "NAME|FILE", f"gates file, or its name in configs/gates {names}"),
        ("--placebo", runs, "DIR", "runs of the placebo kernel, to see how much of a change comes from the layout"),
        ("--json", new, "FILE", "write the result here too (schema gate-2)"),
        ("--html", new, "FILE", "write the page here"),
        ("--markdown", new, "FILE", "write the report for a pull request here"),
        ("--history", options.new_directory, "DIR", "add the verdict to the history in DIR (schema history-1)"),
        ("--budget", percent, "PERCENT", "files of other tools: how much worse a metric may become (default: 3)"),
        ("--detect", percent, "PERCENT", "files of other tools: the change that a PASS excludes (default: 15)"),
    )
    add_reading_options(parser)
    parser.add_argument("--trust", action="store_true", help="judge runs that do not tell their machine or settings")
    about = (
        "compare on many machines: DIR has a directory for each, with base/ and candidate/ in it (schema fleet-gate-1)"
    )
    parser.add_argument("--fleet", type=options.existing_directory, metavar="DIR", help=about)
    again = "draw the report of this file, which --json wrote, in place of BASE and CANDIDATE"
    parser.add_argument("--from", dest="from_", type=options.existing_path, metavar="FILE", help=again)
    claims = "say which claims of the gates file the runs show"
    parser.add_argument("--expect-improvement", action="store_true", help=claims)
    parser.add_argument(
        "--picture",
        dest="pictures",
        type=options.existing_path,
        action="append",
        default=[],
        metavar="FILE",
        help="an SVG for the page, as layout diff --svg draws it; may be repeated",
    )
    below = options.verbs_below(parser)
    history_verb.add_parser(below)
    import_verb.add_parser(below)
    plan_verb.add_parser(below)


def _read(arguments: argparse.Namespace) -> GateOptions | RedrawOptions | FleetOptions:
    if arguments.fleet:
        return _read_fleet(arguments)
    if arguments.pictures and not arguments.html:
        raise SchedlineError("--picture adds to a page, and --html is missing", "add --html FILE")
    for picture in arguments.pictures:
        read_svg(picture)
    if arguments.from_:
        for name in (
            "base",
            "candidate",
            "gates",
            "placebo",
            "expect_improvement",
            "json",
            "history",
            "unit",
            "trust",
            "budget",
            "detect",
        ):
            if getattr(arguments, name):
                word = name.upper() if name in ("base", "candidate") else f"--{name.replace('_', '-')}"
                raise SchedlineError(f"--from draws a verdict that was reached: it has no {word}", f"leave out {word}")
        return options_of(RedrawOptions, arguments, pictures=tuple(arguments.pictures))
    if not arguments.base or not arguments.candidate:
        lacking = "CANDIDATE" if arguments.base else "BASE and CANDIDATE"
        raise SchedlineError(f"{lacking}: no directory of runs was named", "schedline gate runs/base runs/candidate")
    if arguments.expect_improvement:
        for given, observed in (
            (arguments.placebo, "claims are compared with the base alone: --expect-improvement has no --placebo"),
            (arguments.history, "a history keeps metrics, not claims: --expect-improvement has no --history"),
        ):
            if given:
                raise SchedlineError(observed, "leave out one of the two")
    reading, limits = reading_options(arguments), arguments.budget or arguments.detect
    if limits and (arguments.gates or not reading.unit):
        raise SchedlineError(
            "--budget and --detect are for files of other tools without a gates file",
            "leave them out, or add --unit and leave out --gates",
        )
    if limits and (arguments.budget or BUDGET) > (arguments.detect or DETECT):
        raise SchedlineError("a PASS cannot exclude less than the budget", "give --detect PERCENT above --budget")
    return options_of(GateOptions, arguments, pictures=tuple(arguments.pictures), reading=reading)


_NOT_OF_A_FLEET = (
    *("base", "candidate", "placebo", "html", "markdown", "history", "budget", "detect", "unit", "trust"),
    *("from_", "expect_improvement", "pictures"),
)


def _read_fleet(arguments: argparse.Namespace) -> FleetOptions:
    for name in _NOT_OF_A_FLEET:
        if getattr(arguments, name):
            word = name.upper() if name in ("base", "candidate") else f"--{name.strip('_').replace('_', '-')}"
            raise SchedlineError(f"--fleet compares runs on many machines: it has no {word}", f"leave out {word}")
    return options_of(FleetOptions, arguments)


def _libraries(wanted: GateOptions | RedrawOptions | FleetOptions) -> Sequence[str]:
    """Only a page and a new verdict need more than the basic libraries."""
    if isinstance(wanted, FleetOptions):
        return LIBRARIES
    return PAGE_LIBRARIES if wanted.html else BASIC if isinstance(wanted, RedrawOptions) else LIBRARIES


def _gate_of_a_fleet(wanted: FleetOptions) -> Verdict:
    from schedlib.formats import document
    from schedlib.gate.fleet_gate import compare_fleet, fleet_text

    found = compare_fleet(wanted)
    if wanted.json:
        document.write(wanted.json, found)
    print(fleet_text(found))
    print(f"verdict: {found.status.name}")
    return found.status


def _gate(wanted: GateOptions | RedrawOptions | FleetOptions) -> Verdict:
    """Compare, or read what was compared; write the requested files, and print the text."""
    from schedlib.formats import document
    from schedlib.formats.gate_document import GateDocument
    from schedlib.gate import gate_report

    if isinstance(wanted, FleetOptions):
        return _gate_of_a_fleet(wanted)
    if isinstance(wanted, RedrawOptions):
        found = document.read(wanted.from_, GateDocument, "make it again: schedline gate BASE CANDIDATE --json FILE")
    else:
        from schedlib.gate.gate_record import recorded
        from schedlib.gate.imports.foreign_gate import compare_all

        found = recorded(compare_all(wanted))
        if wanted.json:
            document.write(wanted.json, found)
    print(gate_report.text(found))
    if isinstance(wanted, GateOptions) and wanted.history:
        from schedlib.gate import history

        history.append(wanted.history, history.record(found, wanted.gates or "default"))
    if wanted.markdown:
        write_atomic(wanted.markdown, gate_report.markdown(found))
        print(f"markdown: {wanted.markdown}")
    if wanted.html:
        keep_fonts()
        from schedlib.gate.page import page

        write_atomic(wanted.html, page(found, [(path.name, read_svg(path)) for path in wanted.pictures]))
        print(f"page: {wanted.html}")
    print(f"verdict: {found.status.name}")
    return found.status
