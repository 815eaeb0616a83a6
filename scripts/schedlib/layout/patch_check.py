# SPDX-License-Identifier: GPL-2.0
"""What `schedline layout --patch` found, in the form that is asked for: checkpatch's lines, b4's JSON, or SARIF 2.1.0.

GitHub and others show SARIF beside the lines of a change.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from schedlib import TOOL
from schedlib.contracts.contract_rules import Rule
from schedlib.errors import SchedlineError
from schedlib.formats.b4_checks import B4Check, CheckRemark, checks_text, with_remarks
from schedlib.layout.patch_findings import Finding

_SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NAME, _, _VERSION = TOOL.partition(" ")


def as_sarif(rules: Sequence[Rule], found: Sequence[Finding]) -> str:
    """A SARIF document with one run."""
    ids = [rule.id for rule in rules]
    told = [{"id": rule.id, "shortDescription": {"text": rule.reason}} for rule in rules]
    driver = {"name": _NAME, "version": _VERSION, "rules": told}
    results = []
    for each in found:
        file, region = {"uri": each.file, "uriBaseId": "%SRCROOT%"}, {"startLine": max(each.line, 1)}
        told_of = {
            "level": "error" if each.error else "warning",
            "message": {"text": each.text},
            "locations": [{"physicalLocation": {"artifactLocation": file, "region": region}}],
        }
        results += [{"ruleId": rule, "ruleIndex": ids.index(rule)} | told_of for rule in each.rules]
    document = {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def remarks(found: Sequence[Finding]) -> list[CheckRemark]:
    """Each finding as a line of b4's details; what is only told is none."""
    return [
        CheckRemark("fail" if each.error else "warn", "; ".join(line.strip() for line in str(each).split("\n")))
        for each in found
        if not each.note
    ]


def as_b4(found: Sequence[Finding]) -> str:
    """One result with a remark for each finding; none when there are no findings."""
    said = remarks(found)
    broken = dict.fromkeys(rule for each in found if each.error for rule in each.rules)
    room = any(each.rule for each in found)
    summary = "takes room on lines that rules keep" if room else "changes lines that were not compiled"
    summary = f"breaks {', '.join(broken)}" if broken else summary
    return checks_text([with_remarks(_NAME, summary, said)] if said else [])


def render(rules: Sequence[Rule], found: Sequence[Finding], form: str) -> str:
    """The findings in a form: text, b4 or sarif; empty text when there is nothing to print."""
    if form == "sarif":
        return as_sarif(rules, found)
    return as_b4(found) if form == "b4" else "\n".join(map(str, found))


def refused(error: SchedlineError) -> str:
    """An error for b4, which would otherwise show an exit code alone."""
    return checks_text([B4Check(_NAME, "warn", error.observed, f"next: {error.next_step}")])
