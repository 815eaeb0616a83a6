# SPDX-License-Identifier: GPL-2.0
"""`schedline gate`: base against candidate, one verdict; and the verbs below it, but for `plan`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from schedlib import options
from schedlib.cache import write_atomic
from schedlib.errors import SchedlineError
from schedlib.gate import plan_verb
from schedlib.gate.gate_options import (
    BUDGET,
    DETECT,
    HISTORY_LIBRARY,
    LIBRARIES,
    PAGE_LIBRARIES,
    UNSAID_UNIT,
    FleetOptions,
    GateOptions,
    HistoryOptions,
    ImportOptions,
    add_reading_options,
    gates_file,
    keep_fonts,
    percent,
    read_svg,
    reading_options,
)
from schedlib.options import Verbs, add_verb, options_of
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
        boot by boot, the environment, what was skipped, the command. --markdown writes a report for a pull request.""",
        examples=[
            "schedline gate runs/base runs/candidate --gates configs/gates/default.toml --json gate.json",
            "schedline gate results/base results/candidate --unit run --trust     files of cyclictest, hackbench, ...",
            "schedline gate runs/base runs/candidate --placebo runs/placebo    how much comes from the layout",
            "schedline gate runs/base runs/candidate --html page.html --picture lines.svg",
            "schedline gate runs/base runs/candidate --history gates          keep the verdict; gate history reads it",
            "schedline gate --fleet fleet --json fleet.json                    many machines: which models regress",
            "schedline gate plan --help                                        plan the boots, and have them made",
        ],
        operands="BASE CANDIDATE",
        read=_read,
        job=_gate,
        libraries=_libraries,
    )
    runs, new, names = options.existing_directory, options.new_file, "(default: default)"
    for name, about in (("base", "runs of the kernel without the change"), ("candidate", "runs of the kernel with it")):
        parser.add_argument(name, nargs="?", type=runs, metavar=name.upper(), help=about)
    options.add_values(
        parser,
        ("--gates", gates_file, "NAME|FILE", f"gates file, or its name in configs/gates {names}"),
        ("--placebo", runs, "DIR", "runs of the placebo kernel, to see how much of a change comes from the layout"),
        ("--json", new, "FILE", "write the result here too (schema gate-4)"),
        ("--html", new, "FILE", "write the page here"),
        ("--markdown", new, "FILE", "write the report for a pull request here"),
        ("--history", options.new_directory, "DIR", "add the verdict to the history in DIR (schema history-1)"),
        ("--budget", percent, "PERCENT", "files of other tools: how much worse a metric may become (default: 3)"),
        ("--detect", percent, "PERCENT", "files of other tools: the change that a PASS excludes (default: 15)"),
    )
    add_reading_options(parser)
    parser.add_argument("--trust", action="store_true", help="judge runs that do not tell their machine or settings")
    about = "why some boots have no runs of a tool, if it is not that they crashed; the result says so"
    parser.add_argument("--incomplete", metavar="REASON", default="", help=about)
    about = (
        "compare on many machines: DIR has a directory for each, with base/ and candidate/ in it (schema fleet-gate-1)"
    )
    parser.add_argument("--fleet", type=options.existing_directory, metavar="DIR", help=about)
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
    _add_history(below)
    _add_import(below)
    plan_verb.add_parser(below)


def _read(arguments: argparse.Namespace) -> GateOptions | FleetOptions:
    if arguments.fleet:
        return _read_fleet(arguments)
    if arguments.pictures and not arguments.html:
        raise SchedlineError("--picture adds to a page, and --html is missing", "add --html FILE")
    for picture in arguments.pictures:
        read_svg(picture)
    if not arguments.base or not arguments.candidate:
        lacking = "CANDIDATE" if arguments.base else "BASE and CANDIDATE"
        raise SchedlineError(f"{lacking}: no directory of runs was named", "schedline gate runs/base runs/candidate")
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
    "incomplete",
    "pictures",
)


def _read_fleet(arguments: argparse.Namespace) -> FleetOptions:
    for name in _NOT_OF_A_FLEET:
        if getattr(arguments, name):
            word = name.upper() if name in ("base", "candidate") else f"--{name.replace('_', '-')}"
            raise SchedlineError(f"--fleet compares runs on many machines: it has no {word}", f"leave out {word}")
    return options_of(FleetOptions, arguments)


def _libraries(wanted: GateOptions | FleetOptions) -> Sequence[str]:
    """Only a page needs more than the verdict."""
    return PAGE_LIBRARIES if isinstance(wanted, GateOptions) and wanted.html else LIBRARIES


def _gate_of_a_fleet(wanted: FleetOptions) -> Verdict:
    from schedlib.formats import document
    from schedlib.gate.fleet_gate import compare_fleet, fleet_text

    found = compare_fleet(wanted)
    if wanted.json:
        document.write(wanted.json, found)
    print(fleet_text(found))
    print(f"verdict: {found.status.name}")
    return found.status


def _gate(wanted: GateOptions | FleetOptions) -> Verdict:
    """Compare, write the requested files, and print the text."""
    from schedlib.formats import document
    from schedlib.gate import gate_report
    from schedlib.gate.comparison import compare

    if isinstance(wanted, FleetOptions):
        return _gate_of_a_fleet(wanted)
    found = compare(wanted)
    if wanted.json:
        document.write(wanted.json, found)
    print(gate_report.text(found))
    if wanted.history:
        from schedlib.gate import history

        history.append(wanted.history, history.record(found, wanted.gates or "default"))
    if wanted.markdown:
        write_atomic(wanted.markdown, gate_report.markdown(found))
        print(f"markdown: {wanted.markdown}")
    if wanted.html:
        keep_fonts()
        from schedlib.gate.gate_page import page

        write_atomic(wanted.html, page(found, [(path.name, read_svg(path)) for path in wanted.pictures]))
        print(f"page: {wanted.html}")
    slower = gate_report.slower(found)
    print(f"verdict: {found.status.name}{', ' + slower if slower else ''}")
    return found.status


def _add_history(verbs: Verbs) -> None:
    """Add `history` below `schedline gate`."""
    parser = add_verb(
        verbs,
        "history",
        "verdicts over time, creep below the budget, and FAILs that were withdrawn",
        first=[
            "schedline gate history gates                     what gate --history has kept in gates/",
            "schedline gate history gates --json history.json",
        ],
        text="""
        Reads the lines that `schedline gate BASE CANDIDATE --history DIR` appends. A metric creeps if it became worse
        by more than its budget over several gates. That is FAIL if the gates' own changes say so, too, and
        INCONCLUSIVE if the machine may have done it, or if there are fewer than 8 gates.

        Lines that cannot be read are told with their numbers, and the others count.""",
        operands="DIR",
        read=lambda arguments: options_of(HistoryOptions, arguments),
        job=_history,
        libraries=(*LIBRARIES, HISTORY_LIBRARY),
    )
    options.add_values(
        parser,
        ("directory", options.new_directory, "DIR", "what was given to gate --history"),
        ("--json", options.new_file, "FILE", "write the result here too (schema gate-history-1)"),
    )


def _history(wanted: HistoryOptions) -> Verdict:
    from schedlib.formats import document
    from schedlib.gate.history import history_of, history_text, read_history

    gates, bad = read_history(wanted.directory)
    found = history_of(gates, bad)
    if wanted.json:
        document.write(wanted.json, found)
    print(history_text(found, gates))
    print(f"verdict: {found.status.name}")
    return found.status


def _add_import(verbs: Verbs) -> None:
    """Add `schedline gate import`."""
    parser = add_verb(
        verbs,
        "import",
        "result files of other tools, written as runs",
        first=[
            "schedline gate import results --unit run --out runs/base    all files are from one boot",
            "schedline gate import results --unit boot --out runs/base   each file is a boot of its own",
        ],
        text="""
        Reads the files below DIR, knows each format by the file's content, and writes a run for each. What a file does
        not tell (machine, kernel, command line) is written down as not recorded. `schedline gate` reads such
        directories itself, with the same options; then there is no need to import them.

        docs/gate.md lists the formats.""",
        examples=[
            "schedline gate import results --unit run --columns metric,value,unit,direction --out runs/base",
        ],
        operands="DIR --unit run|boot --out DIR2",
        read=_read_import,
        job=_import,
    )
    parser.add_argument("directory", type=options.existing_directory, metavar="DIR", help="files of other tools")
    parser.add_argument("--out", type=options.new_directory, metavar="DIR2", help="write the runs here")
    add_reading_options(parser)


def _read_import(arguments: argparse.Namespace) -> ImportOptions:
    if arguments.out is None:
        raise SchedlineError("there is no place for the runs", "add --out DIR2")
    if arguments.unit is None:
        raise SchedlineError("what one file is cannot be seen, and is not guessed", f"add {UNSAID_UNIT}")
    return ImportOptions(arguments.directory, arguments.out, reading_options(arguments))


def _import(wanted: ImportOptions) -> Verdict:
    from schedlib.gate.result_files import import_runs

    print(import_runs(wanted))
    return Verdict.PASS
