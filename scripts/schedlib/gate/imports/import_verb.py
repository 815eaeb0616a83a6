# SPDX-License-Identifier: GPL-2.0
"""`schedline gate import`: result files of other tools, written as runs."""

from __future__ import annotations

import argparse

from schedlib import options
from schedlib.errors import SchedlineError
from schedlib.gate.imports.import_options import UNSAID_UNIT, ImportOptions, add_reading_options, reading_options
from schedlib.options import Verbs, add_verb
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
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
            "schedline gate import results --unit run --perf-bench-simple --out runs/base",
        ],
        operands="DIR --unit run|boot --out DIR2",
        read=_read,
        job=_import,
    )
    parser.add_argument("directory", type=options.existing_directory, metavar="DIR", help="files of other tools")
    parser.add_argument("--out", type=options.new_directory, metavar="DIR2", help="write the runs here")
    add_reading_options(parser)


def _read(arguments: argparse.Namespace) -> ImportOptions:
    if arguments.out is None:
        raise SchedlineError("there is no place for the runs", "add --out DIR2")
    if arguments.unit is None:
        raise SchedlineError("what one file is cannot be seen, and is not guessed", f"add {UNSAID_UNIT}")
    return ImportOptions(arguments.directory, arguments.out, reading_options(arguments))


def _import(wanted: ImportOptions) -> Verdict:
    from schedlib.gate.imports.import_job import import_runs

    print(import_runs(wanted))
    return Verdict.PASS
