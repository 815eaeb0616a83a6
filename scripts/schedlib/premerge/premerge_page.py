# SPDX-License-Identifier: GPL-2.0
"""A premerge as one self-contained HTML file. Subjects of patches and what a kernel printed are untrusted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from schedlib.formats.html_page import rendered
from schedlib.formats.premerge_document import PremergeDocument
from schedlib.verdict import Verdict

QUESTIONS: Mapping[str, str] = {
    "layout": "does a layout rule break, on any architecture?",
    "kunit": "do the KUnit suites pass on base and head?",
    "c2c": "do emulated CPUs fetch more lines, or share more of them falsely?",
    "mutants": "can the tests still fail on the code that the series touches?",
    "runs": "is the head slower on a real machine?",
}
"""What each part asks."""


def page(document: PremergeDocument) -> str:
    """The page. The same document always gives the same page."""
    return rendered(
        Path(__file__).with_name("premerge_page.html.jinja"),
        found=document,
        banner=banner(document),
        questions=QUESTIONS,
        started=document.started.isoformat(" ", "seconds"),
    )


def banner(document: PremergeDocument) -> str:
    """What decided the verdict; for a PASS what was looked at."""
    if document.status is Verdict.PASS:
        return "looked at: " + ", ".join(part.name for part in document.parts if part.verdict is not None)
    decided = (f"{part.name}: {part.summary}" for part in document.parts if part.verdict is document.status)
    return "; ".join(decided) or "nothing was judged"
