# SPDX-License-Identifier: GPL-2.0
"""Findings on a patch in the form that a reader expects: checkpatch's lines, b4's JSON, SARIF."""

from __future__ import annotations

from collections.abc import Sequence

from schedlib.contracts.contract_rules import Rule
from schedlib.errors import SchedlineError
from schedlib.formats.b4_checks import B4Check, CheckRemark, checks_text, with_remarks
from schedlib.formats.sarif import SarifResult, sarif_text
from schedlib.layout.patch_check import Finding

_TOOL = "schedline"


def as_sarif(rules: Sequence[Rule], found: Sequence[Finding]) -> str:
    """A SARIF document."""
    return sarif_text(
        {rule.id: rule.reason for rule in rules},
        [
            SarifResult(each.rule, "error" if each.error else "warning", each.text, each.file, each.line)
            for each in found
            if each.rule
        ],
    )


def remarks(found: Sequence[Finding]) -> list[CheckRemark]:
    """Each finding as a line of b4's details; what is only told is none."""
    return [CheckRemark("fail" if each.error else "warn", str(each)) for each in found if not each.note]


def as_b4(found: Sequence[Finding]) -> list[B4Check]:
    """One result with a remark for each finding; none when there are no findings."""
    if not remarks(found):
        return []
    broken = dict.fromkeys(each.rule for each in found if each.error)
    room = any(each.rule for each in found)
    summary = "takes room on lines that rules keep" if room else "changes lines that were not compiled"
    summary = f"breaks {', '.join(broken)}" if broken else summary
    return [with_remarks(_TOOL, summary, remarks(found))]


def shown(rules: Sequence[Rule], found: Sequence[Finding], form: str) -> str:
    """The findings in a form: text, b4 or sarif; empty text when there is nothing to print."""
    match form:
        case "b4":
            return checks_text(as_b4(found))
        case "sarif":
            return as_sarif(rules, found)
        case _:
            return "\n".join(map(str, found))


def refused(error: SchedlineError) -> str:
    """An error for b4, which would otherwise show an exit code alone."""
    return checks_text([B4Check(_TOOL, "warn", error.observed, f"next: {error.next_step}")])
