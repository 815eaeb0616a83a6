# SPDX-License-Identifier: GPL-2.0
"""The tables of `schedline c2c variants` as a page."""

from __future__ import annotations

from pathlib import Path

from schedlib.c2c import variants_report
from schedlib.formats.html_page import rendered
from schedlib.formats.variants_document import VariantsDocument

_TEMPLATE = Path(__file__).with_name("variants_page.html.jinja")


def variants_page(found: VariantsDocument) -> str:
    """One table for the bytes, and one for each workload. What the file of designs names is escaped."""
    return rendered(_TEMPLATE, head=list(variants_report.head(found)), tables=variants_report.tables(found))
