# SPDX-License-Identifier: GPL-2.0
"""`schedline gate history`: the gates of the past, together."""

from __future__ import annotations

import shlex

from schedlib import options
from schedlib.cache import write_atomic
from schedlib.gate.gate_options import HISTORY_LIBRARY, LIBRARIES, PAGE_LIBRARIES, HistoryOptions, keep_fonts
from schedlib.options import Verbs, add_verb, options_of
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `history` below `schedline gate`."""
    parser = add_verb(
        verbs,
        "history",
        "verdicts over time, creep below the budget, and FAILs that were withdrawn",
        first=[
            "schedline gate history gates                     what gate --history has kept in gates/",
            "schedline gate history gates --html page.html    and each metric drawn over time",
        ],
        text="""
        Reads the lines that `schedline gate BASE CANDIDATE --history DIR` appends. A metric creeps if it became worse
        by more than its budget over several gates. That is FAIL if the gates' own changes say so, too, and
        INCONCLUSIVE if the machine may have done it, or if there are fewer than 8 gates.

        Lines that cannot be read are told with their numbers, and the others count.""",
        operands="DIR",
        read=lambda arguments: options_of(HistoryOptions, arguments),
        job=_history,
        libraries=lambda wanted: (*(PAGE_LIBRARIES if wanted.html else LIBRARIES), HISTORY_LIBRARY),
    )
    options.add_values(
        parser,
        ("directory", options.new_directory, "DIR", "what was given to gate --history"),
        ("--json", options.new_file, "FILE", "write the result here too (schema gate-history-1)"),
        ("--html", options.new_file, "FILE", "write a page with a picture of each metric here"),
    )


def _history(wanted: HistoryOptions) -> Verdict:
    from schedlib.formats import document
    from schedlib.gate.creep import history_of
    from schedlib.gate.history import read_history
    from schedlib.gate.history_report import history_page, history_text

    gates, bad = read_history(wanted.directory)
    found = history_of(gates, bad)
    if wanted.json:
        document.write(wanted.json, found)
    print(history_text(found, gates))
    if wanted.html:
        keep_fonts()
        command = shlex.join(["schedline", "gate", "history", str(wanted.directory), "--html", str(wanted.html)])
        write_atomic(wanted.html, history_page(found, gates, command))
        print(f"page: {wanted.html}")
    print(f"verdict: {found.status.name}")
    return found.status
