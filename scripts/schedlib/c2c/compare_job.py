# SPDX-License-Identifier: GPL-2.0
"""Hold an import, or published figures, against a result of schedline c2c."""

from __future__ import annotations

from schedlib.c2c.agreement import compare, compare_text
from schedlib.c2c.c2c_options import C2cCompareOptions
from schedlib.c2c.published_top import emulated_top, top_text
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import read_result
from schedlib.formats.c2c_measured_document import read_measured
from schedlib.formats.published_file import read_published
from schedlib.progress import tell
from schedlib.verdict import Verdict


def compare_sides(options: C2cCompareOptions) -> Verdict:
    """Print the table; SchedlineError if a file is no result, or both sides have nothing in common."""
    if options.measured is None:
        return _published_alone(options)
    measured, emulated = read_measured(options.measured), read_result(options.emulated)
    found = compare(measured, emulated, read_published(options.mail) if options.mail else None)
    if options.json:
        document.write(options.json, found)
    for line in compare_text(found).splitlines():
        tell(line)
    return Verdict.PASS


def _published_alone(options: C2cCompareOptions) -> Verdict:
    if options.mail is None or options.json:
        observed = "--json needs --measured" if options.mail else "there is nothing to compare the counts with"
        raise SchedlineError(observed, "name an import with --measured, or published figures with --mail, or both")
    published = read_published(options.mail)
    for line in top_text(published, emulated_top(published, read_result(options.emulated))).splitlines():
        tell(line)
    return Verdict.PASS
