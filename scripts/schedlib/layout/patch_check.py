# SPDX-License-Identifier: GPL-2.0
"""`schedline layout --patch`: what one patch does to the layout, in the form that a reader expects: checkpatch's lines,
b4's JSON, or SARIF 2.1.0, which GitHub and others show beside the lines of a change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from schedlib import TOOL
from schedlib.contracts.contract_rules import Clause, Rule, Rules, has_member
from schedlib.errors import SchedlineError
from schedlib.formats.b4_checks import B4Check, CheckRemark, checks_text, with_remarks
from schedlib.git import git, try_git
from schedlib.layout.headroom import Guarded, guarded_lines, lines_with_less_room
from schedlib.layout.patch_text import added_lines
from schedlib.layout.picture import member_line
from schedlib.layout.rule_judge import Layout, RuleOutcome, RuleResult, concerned, describe, intruders, judge_rule
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


@dataclass(frozen=True)
class Finding:
    """One line of output.

    Attributes:
        error: a broken rule; else it is a warning.
        rule: the first that it is about; empty where there is none.
        note: it is neither: only told.
    """

    file: str
    line: int
    error: bool
    rule: str
    text: str
    note: bool = False

    def __str__(self) -> str:
        kind = "ERROR" if self.error else "NOTE" if self.note else "WARNING"
        return f"{self.file}:{self.line}: {kind}: {self.text}"


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


def _place(patch: bytes, before: Layout, after: Layout, tag: str) -> tuple[str, int]:
    """The added line that most likely caused a finding: a new member, a moved member, or the first line in a header."""
    lines = [row for row in added_lines(patch) if row[0].endswith(".h")] or list(added_lines(patch))
    old = before.structures.get(tag)
    new = after.structures.get(tag)
    if old and new:
        for fresh in (True, False):
            for member in new.members:
                was = old.member(member.name)
                if (was is None) is not fresh or (was and was.offset == member.offset):
                    continue
                for file, number, text in lines:
                    if re.search(rf"\b{re.escape(member.name)}\b", text):
                        return file, number
    if lines:
        return lines[0][:2]
    match = re.search(rb"^--- (?:a/)?(\S+\.h).*?^@@ -(\d+)", patch, re.M | re.S)
    return (match.group(1).decode(), int(match.group(2))) if match else ("-", 0)


def broken_rules(rules: Rules, before: Layout, after: Layout) -> Iterator[RuleResult]:
    """Each rule that held and no longer does, as it is now."""
    for rule in rules.rules:
        was, now = judge_rule(rules, rule.id, before), judge_rule(rules, rule.id, after, frozenset([rule.change]))
        if was.outcome is RuleOutcome.PASS and now.outcome is not RuleOutcome.PASS:
            yield now


def _concerned(rules: Rules, before: Layout, after: Layout) -> Rules:
    """The rules that two layouts may not agree on: they are about a structure that differs, or whose change does."""
    if (before.line, before.holds, before.unknown) != (after.line, after.holds, after.unknown):
        return rules
    same = {tag for tag, structure in after.structures.items() if before.structures.get(tag) == structure}

    def is_moved(clause: Clause) -> bool:
        names = (*clause.named, *clause.requires)
        return before.fields(clause.type, names) != after.fields(clause.type, names)

    owners = {clause.rule for clause in rules.clauses if clause.type not in same or is_moved(clause)}
    return replace(rules, rules=tuple(rule for rule in rules.rules if owners & {rule.id, rule.change}))


def findings(rules: Rules, patch: bytes, before: Layout, after: Layout) -> Iterator[Finding]:
    """Each rule that held before and is broken, then each guarded line with less room."""
    rules = _concerned(rules, before, after)
    broken: set[str] = set()
    for now in broken_rules(rules, before, after):
        rule = rules.rule(now.rule)
        broken.add(rule.id)
        results = [result for result in now.clauses if result.outcome is RuleOutcome.FAIL] or list(now.clauses)
        for result in results:
            tag = result.clause.type
            file, number = _place(patch, before, after, tag)
            places = "; ".join(member_line(field, after) for field in concerned(result, after))
            what = describe(result, after)
            state = "is broken" if now.outcome is RuleOutcome.FAIL else f"can no longer be judged ({now.reason})"
            found = intruders(result, after)
            there = f"; there now: {', '.join(found)}" if found else ""
            text = f"{rule.id}: {what}: {state} on {after.name}: {places}{there}. {rule.reason}"
            yield Finding(file, number, True, rule.id, text)
    for old, new in lines_with_less_room(guarded_lines(rules, before), guarded_lines(rules, after)):
        if broken.isdisjoint(new.rules):
            file, number = _place(patch, before, after, new.type)
            yield Finding(file, number, False, new.rules[0], _less_room(old, new, after.name))


def lost_members(
    rules: Rules, before: Callable[[str], str | None], after: Callable[[str], str | None]
) -> Iterator[Finding]:
    """Each member of a pack's contract that the declaring file no longer has: without it less is held.

    Args:
        before: returns the text of a file without the patch; None if there is no such file.
        after: the same with the patch.
    """
    for tag, names, _ in rules.members:
        file = rules.files[tag]
        old, new = before(file) or "", after(file) or ""
        if old != new and has_member(old, names) and not has_member(new, names):
            rule = next(clause.rule for clause in rules.clauses if clause.type == tag)
            what = f"struct {tag} no longer has {' or '.join(names)}, which its contract names"
            yield Finding(file, 1, True, rule, f"{rule}: {what}: correct the contract, or write both names: `old|new`")


def _less_room(old: Guarded, new: Guarded, kernel: str) -> str:
    """A guarded line with less room than before, and what to do about it."""
    said = []
    if new.free < old.free:
        said.append(f"{old.free} bytes of it were unused, now {new.free}")
    if new.left < old.left:
        said.append(
            f"{new.members[-1]}, the last of its members, ended {old.left} bytes before its end, now {new.left}"
        )
    holds = "hold" if len(new.rules) > 1 else "holds"
    full = ". The next pointer put before that member breaks the rule" if new.is_full else ""
    members = " ".join(new.members)
    return (
        f"{', '.join(new.rules)} still {holds} on {kernel}, but the patch takes room on cache line {new.line} of "
        f"struct {new.type}: {'; '.join(said)}{full}. If what it adds is not used together with {members}, move it to "
        f"another line (pahole -C {new.type} shows the holes); otherwise there is nothing to do"
    )


def as_sarif(rules: Sequence[Rule], found: Sequence[Finding]) -> str:
    """A SARIF document with one run."""
    ids = [rule.id for rule in rules]
    told = [{"id": rule.id, "shortDescription": {"text": rule.reason}} for rule in rules]
    driver = {"name": _NAME, "version": _VERSION, "rules": told}
    results = [
        {
            "ruleId": each.rule,
            "ruleIndex": ids.index(each.rule),
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
        if each.rule
    ]
    document = {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def remarks(found: Sequence[Finding]) -> list[CheckRemark]:
    """Each finding as a line of b4's details; what is only told is none."""
    return [CheckRemark("fail" if each.error else "warn", str(each)) for each in found if not each.note]


def as_b4(found: Sequence[Finding]) -> str:
    """One result with a remark for each finding; none when there are no findings."""
    said = remarks(found)
    broken = dict.fromkeys(each.rule for each in found if each.error)
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
