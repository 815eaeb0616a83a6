# SPDX-License-Identifier: GPL-2.0
"""Write the results of the parts as a page of text, as JUnit, for KernelCI's database, and as a document."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime

from schedlib import TOOL
from schedlib.formats.cover_letter import wrapped
from schedlib.formats.junit import JUnitCase, JUnitSuite, Mark, junit_document
from schedlib.formats.premerge_document import PremergeDocument, PremergePart
from schedlib.premerge.parts import Part
from schedlib.premerge.series import PatchSeries
from schedlib.verdict import Verdict

_ORIGIN = "schedline"

# KCIDB's DONE: the test ran, and neither passed nor failed.
_STATUS = {
    Verdict.PASS: "PASS",
    Verdict.FAIL: "FAIL",
    Verdict.ERROR: "ERROR",
    Verdict.INCONCLUSIVE: "DONE",
    None: "SKIP",
}
_MARKS = {
    Verdict.PASS: None,
    Verdict.FAIL: Mark.FAILURE,
    Verdict.ERROR: Mark.ERROR,
    Verdict.INCONCLUSIVE: Mark.ERROR,
    None: Mark.SKIPPED,
}


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
            for line in part.lines:
                lines += [line] if part.name == "runs" else wrapped(f"  {line}", 6)
    lines += ["", f"verdict: {verdict.name}"]
    return "\n".join(lines) + "\n"


def junit(found: Sequence[Part]) -> bytes:
    """One suite for each part. Tests without a verdict are skipped; inconclusive tests are errors."""
    suites = []
    for part in found:
        cases = (JUnitCase(name, _MARKS[verdict], said.split("\n")[0], said) for name, verdict, said in part.judged)
        suites.append(JUnitSuite(f"premerge.{part.name}", tuple(cases)))
    return junit_document(suites)


def kcidb(started: datetime, series: PatchSeries, found: Sequence[Part]) -> dict[str, object]:
    """A submission to KernelCI's database, by kcidb-io's schema 5.3: one checkout, one build for each part.

    The series may not be public, so it is identified by the base and a hash of the patches.
    """
    hashes = "".join(f"{patch.sha256}\n" for patch in series.patches)
    patchset = hashlib.sha256(hashes.encode()).hexdigest()
    name = f"{_ORIGIN}:{series.base}+{patchset[:12]}"
    return {
        "version": {"major": 5, "minor": 3},
        "checkouts": [
            {
                "id": name,
                "origin": _ORIGIN,
                "git_commit_hash": series.base,
                "patchset_hash": patchset,
                "start_time": started.isoformat(),
                "valid": True,
                "comment": "; ".join(patch.subject for patch in series.patches)[:500],
            }
        ],
        "builds": [
            {"id": f"{name}-{part.name}", "origin": _ORIGIN, "checkout_id": name, "config_name": part.name}
            for part in found
        ],
        "tests": [
            {
                "id": f"{name}-{part.name}-{number}",
                "origin": _ORIGIN,
                "build_id": f"{name}-{part.name}",
                "path": ".".join((_ORIGIN, part.name, re.sub(r"[^a-zA-Z0-9_-]", "_", test))),
                "status": _STATUS[verdict],
                "comment": said[:500],
            }
            for part in found
            for number, (test, verdict, said) in enumerate(part.judged)
        ],
    }


def premerge_document(
    started: datetime, origin: str, series: PatchSeries, found: Sequence[Part], verdict: Verdict
) -> PremergeDocument:
    """The page as a document. `origin`: where the tree came from."""
    return PremergeDocument(
        schema="premerge-1",
        tool=TOOL,
        started=started,
        status=verdict,
        tree=origin,
        base=series.base,
        head=series.head,
        patches=series.patches,
        parts=tuple(PremergePart(part.name, part.verdict, part.summary, part.lines) for part in found),
    )
