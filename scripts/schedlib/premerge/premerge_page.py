# SPDX-License-Identifier: GPL-2.0
"""Write the results of the parts as a page of text, as JUnit, and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from schedlib import TOOL
from schedlib.formats.cover_letter import wrapped
from schedlib.formats.junit import JUnitCase, JUnitSuite, Mark, junit_document
from schedlib.formats.premerge_document import PremergeDocument, PremergePart
from schedlib.premerge.parts import Part
from schedlib.premerge.series import PatchSeries
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict


def text(series: PatchSeries, found: Sequence[Part], verdict: Verdict) -> str:
    """The page, in 72 columns, except for the output of the gate."""
    lines = [f"series of {len(series.patches)} on {series.base[:12]}"]
    lines += [line for patch in series.patches for line in wrapped(f"  {patch.commit[:12]} {patch.subject}", 6)]
    lines.append("")
    for part in found:
        name = part.verdict.name if part.verdict is not None else "not run"
        lines += wrapped(f"{part.name:8} {name:12} {part.summary}", 22)
    for part in found:
        if part.lines:
            lines += ["", f"{part.name}:"]
            lines += [
                each for line in part.lines for each in ([line] if part.name == "runs" else wrapped(f"  {line}", 6))
            ]
    lines += ["", f"verdict: {verdict.name}"]
    return "\n".join(lines) + "\n"


_MARKS = {Verdict.PASS: None, Verdict.FAIL: Mark.FAILURE, Verdict.ERROR: Mark.ERROR, Verdict.INCONCLUSIVE: Mark.ERROR}


def junit(found: Sequence[Part]) -> bytes:
    """One suite for each part. Tests without a verdict are skipped; inconclusive tests are errors."""
    return junit_document(
        [JUnitSuite(f"premerge.{part.name}", tuple(_case(*row) for row in part.judged)) for part in found]
    )


def _case(name: str, verdict: Verdict | None, said: str) -> JUnitCase:
    mark = Mark.SKIPPED if verdict is None else _MARKS[verdict]
    return JUnitCase(name, mark, said.split("\n")[0], said)


def premerge_document(
    started: datetime, tree: Tree, series: PatchSeries, found: Sequence[Part], verdict: Verdict
) -> PremergeDocument:
    """The page as a document."""
    return PremergeDocument(
        schema="premerge-1",
        tool=TOOL,
        started=started,
        status=verdict,
        tree=tree.origin,
        base=series.base,
        head=series.head,
        patches=series.patches,
        parts=tuple(PremergePart(part.name, part.verdict, part.summary, part.lines) for part in found),
    )
