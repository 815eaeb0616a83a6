# SPDX-License-Identifier: GPL-2.0
"""`schedline layout --patch`: the commits without and with a patch, and what is found, in the form that is asked for.

These are checkpatch's lines, b4's JSON, or SARIF 2.1.0, which GitHub and others show beside the lines of a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from schedlib import TOOL
from schedlib.contracts.contract_rules import Rule
from schedlib.errors import SchedlineError
from schedlib.formats.b4_checks import B4Check, CheckRemark, checks_text, with_remarks
from schedlib.git import git, try_git
from schedlib.layout.patch_findings import Finding
from schedlib.tree.changes import drift_of, hunks
from schedlib.tree.compose import Composition
from schedlib.tree.kernel_tree import Tree, apply_diff

_HISTORY = 100
"""The number of last commits that are searched for a patch that the tree already has."""


_SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NAME, _, _VERSION = TOOL.partition(" ")


@dataclass(frozen=True)
class Steps:
    """The commits without and with a patch."""

    before: str
    after: str


def steps(tree: Tree, composition: Composition, patch: bytes) -> Steps:
    """The commits of a composed tree without and with the patch.

    If the tree has the patch already, the commit without it is made or found. Without applied changes this includes a
    patch that is among the tree's last commits.

    Raises:
        SchedlineError: the patch neither applies nor is in the tree.
    """
    message = "patch on standard input\n"
    is_plain = composition.commit == composition.tests
    # The tests add lines to a Makefile. A patch that does so, too, applies only to the tree without the tests.
    for base in (composition.commit, tree.base) if is_plain else (composition.commit,):
        if after := apply_diff(tree, base, patch, message):
            return Steps(base, after)
        if before := apply_diff(tree, base, patch, message, "--reverse"):
            return Steps(before, base)
    own = _patch_ids(tree, patch) if is_plain else {}
    if own:
        # The first commit, or the last one of a shallow clone, adds the whole kernel.
        only = [f"-{_HISTORY}", "-p", "--no-merges", "--min-parents=1"]
        log = try_git(tree.src, "log", *only, tree.head, "--", "*.h", "*Kconfig*").stdout
        for commit in _patch_ids(tree, log).values():
            shown = try_git(tree.src, "show", commit).stdout
            if set(_patch_ids(tree, shown)) == set(own):
                return Steps(git(tree.src, "rev-parse", f"{commit}^"), commit)
    # As `git am -3` does: by the blobs that the patch names.
    for base in (composition.commit, tree.base) if is_plain else (composition.commit,):
        if after := apply_diff(tree, base, patch, message, "--3way"):
            return Steps(base, after)
    where = f", and is not among its last {_HISTORY} commits" if is_plain else " with the changes that it was given"
    raise SchedlineError(
        f"the patch does not apply to {tree.origin}{where}:{hunks(drift_of(tree, composition.tests, patch))}",
        "rebase it, or check out what it was made for",
    )


def _patch_ids(tree: Tree, text: bytes) -> dict[str, str]:
    """The commits of a log with patches, by patch id."""
    rows = try_git(tree.src, "patch-id", "--stable", stdin=text).stdout.decode().split("\n")
    return {row.split()[0]: row.split()[1] for row in rows if row}


def as_sarif(rules: Sequence[Rule], found: Sequence[Finding]) -> str:
    """A SARIF document with one run."""
    ids = [rule.id for rule in rules]
    told = [{"id": rule.id, "shortDescription": {"text": rule.reason}} for rule in rules]
    driver = {"name": _NAME, "version": _VERSION, "rules": told}
    results = [
        {
            "ruleId": rule,
            "ruleIndex": ids.index(rule),
            "level": "error" if each.error else "warning",
            "message": {"text": each.text},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": each.file, "uriBaseId": "%SRCROOT%"},
                        "region": {"startLine": max(each.line, 1)},
                    }
                }
            ],
        }
        for each in found
        for rule in each.rules
    ]
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
