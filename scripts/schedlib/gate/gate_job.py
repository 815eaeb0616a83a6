# SPDX-License-Identifier: GPL-2.0
"""Compare directories of runs: one verdict, with details as text, JSON and a page."""

from __future__ import annotations

import os

from schedlib.cache import cache_path, write_atomic
from schedlib.formats import document
from schedlib.gate import gate_report
from schedlib.gate.comparison import compare
from schedlib.gate.gate_options import GateOptions, read_svg
from schedlib.verdict import Verdict


def gate(options: GateOptions) -> Verdict:
    """Compare, write the requested files, and print the text.

    Raises:
        SchedlineError: bad input, or runs of different machines.
    """
    found = compare(options)
    if options.json:
        document.write(options.json, gate_report.document(found))
    print(gate_report.text(found))
    if options.html:
        # matplotlib caches a list of this machine's fonts. It reads the cache's location when it is imported.
        os.environ.setdefault("MPLCONFIGDIR", str(cache_path() / "matplotlib"))
        from schedlib.gate.page import page

        pictures = [(path.name, read_svg(path)) for path in options.pictures]
        write_atomic(options.html, page(found, [options.command()], pictures))
        print(f"page: {options.html}")
    print(f"verdict: {found.verdict.name}")
    return found.verdict
