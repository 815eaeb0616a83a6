# SPDX-License-Identifier: GPL-2.0
"""Hold an import against a result of schedline c2c."""

from __future__ import annotations

from schedlib.c2c.agreement import compare, compare_text
from schedlib.c2c.c2c_options import C2cCompareOptions
from schedlib.formats import document
from schedlib.formats.c2c_document import read_result
from schedlib.formats.c2c_measured_document import read_measured
from schedlib.formats.published_file import read_published
from schedlib.progress import tell
from schedlib.verdict import Verdict


def compare_sides(options: C2cCompareOptions) -> Verdict:
    """Print the table; SchedlineError if a file is no result, or both sides have nothing in common."""
    measured, emulated = read_measured(options.measured), read_result(options.emulated)
    found = compare(measured, emulated, read_published(options.mail) if options.mail else None)
    if options.json:
        document.write(options.json, found)
    for line in compare_text(found).splitlines():
        tell(line)
    return Verdict.PASS
