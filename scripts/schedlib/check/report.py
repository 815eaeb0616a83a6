# SPDX-License-Identifier: GPL-2.0
"""verdict -> report: the document of a check, its other files, and its report for people."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, cast

from msgspec import Meta, to_builtins

from schedlib.cache import write_atomic
from schedlib.check import check_results
from schedlib.check.check_results import JudgedBoot, problem_text, skips
from schedlib.console.expected import tests_of
from schedlib.console.judge import TestOutcome, TestResult
from schedlib.formats import document
from schedlib.formats.document import Document
from schedlib.formats.junit import junit_document
from schedlib.formats.strict import Amount, Count, Moment, Strict, Word
from schedlib.progress import table
from schedlib.tree.changes import change_table
from schedlib.tree.compose import Composition
from schedlib.tree.kernel_tree import Tree
from schedlib.tree.suites import KunitSuite
from schedlib.verdict import Verdict, worst

SaidPresence = Literal["present", "partial", "absent", "n/a", "unknown"]


class CheckTree(Strict, frozen=True):
    """Where the kernel's source came from. dirty: files that are modified or untracked."""

    origin: Word
    base: str
    dirty: Count


class CheckChange(Strict, frozen=True):
    """One change.

    Attributes:
        present: whether the running kernel says that it has the change; unknown when it says nothing.
        state: its state in the composed tree.
    """

    id: Word
    expected: bool
    present: SaidPresence
    state: str
    verdict: Verdict


class CheckTest(Strict, frozen=True):
    """One test.

    Attributes:
        name: suite:case or suite:case:parameter.
        line: line of the log, 0 if the log does not have it.
    """

    name: Word
    outcome: Literal["PASS", "FAIL", "SKIP", "MISSING", "CRASHED"]
    reason: str
    duration_s: Amount | None
    diagnostics: tuple[str, ...]
    line: Count


class CheckProblem(Strict, frozen=True):
    """A problem of the log as a whole.

    Attributes:
        verdict: PASS for a remark.
        test: the test that was running, or was the next to end.
    """

    kind: Annotated[str, Meta(pattern="^[a-z-]+$")]
    line: Count
    text: str
    verdict: Verdict
    test: str


class CheckBoot(Strict, frozen=True):
    """One guest, or one saved log."""

    name: Word
    command: tuple[str, ...]
    ending: Literal["exited", "timed out", "killed", "died", "unknown"]
    log: str
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None
    seconds: Amount | None
    verdict: Verdict
    tests: tuple[CheckTest, ...]
    problems: tuple[CheckProblem, ...]


class CheckDocument(Document, frozen=True, kw_only=True):
    """schedline check: the results of one or more judged boots.

    Attributes:
        tool: name and version of what wrote this file.
        started: with time zone.
        fingerprint: machine, kernel, build-id, configuration, command line, boot ids, tool versions.
    """

    schema: Literal["check-1"]
    tool: Word
    started: Moment
    fingerprint: dict[str, str]
    status: Verdict
    tree: CheckTree | None
    changes: tuple[CheckChange, ...]
    boots: tuple[CheckBoot, ...]


_MOST_REASONS = 8
"""So many reasons of skips are shown, unless --verbose: a report of a PASS then has at most 25 lines."""


@dataclass(frozen=True)
class Summary:
    """Everything that one check found."""

    started: datetime
    tree: Tree
    composition: Composition
    boots: tuple[JudgedBoot, ...]
    out: Path
    fingerprint: dict[str, str]
    reproduce: str
    left_out: tuple[KunitSuite, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst of the guests' verdicts."""
        return worst(boot.judgement.verdict for boot in self.boots)

    @cached_property
    def changes(self) -> tuple[CheckChange, ...]:
        """For each change: expected, what the kernel says of its presence, and the verdict of its rules."""
        pattern = re.compile(r"change ([\w-]+): (present|partial|absent|n/a)")
        logs = [boot.run.log.read_text(errors="replace") for boot in self.boots]
        said = {match for log in logs for match in pattern.findall(log)}
        run = [test for boot in self.boots for test in boot.judgement.tests]
        found = []
        judged = [(row, change_table()[row.id].suite) for row in self.composition.states]
        for row, suite in (each for each in judged if each[1]):
            there = [each for name, each in said if name == row.id]
            present = cast(SaidPresence, there[0] if len(there) == 1 else "unknown")
            # Without tests of its own, its whole suite judges it.
            own = tests_of(row.id)
            outcomes = {test.outcome for test in run if (test.name in own if own else test.name.split(":")[0] == suite)}
            if outcomes & {TestOutcome.FAIL, TestOutcome.MISSING, TestOutcome.CRASHED}:
                verdict = Verdict.FAIL
            else:
                verdict = Verdict.PASS if TestOutcome.PASS in outcomes else Verdict.INCONCLUSIVE
            expected = row.id in self.composition.expected
            found.append(CheckChange(row.id, expected, present, row.state.value, verdict))
        return tuple(found)


def write(summary: Summary, also: Path | None) -> None:
    """Write results.json, junit.xml and results.ktap beside the logs, and the JSON also to `also`."""
    found = check_results.check_document(
        started=summary.started,
        fingerprint=summary.fingerprint,
        verdict=summary.verdict,
        boots=summary.boots,
        changes=[to_builtins(change) for change in summary.changes],
        tree={"origin": summary.tree.origin, "base": summary.tree.base, "dirty": summary.tree.dirty},
    )
    for file in (summary.out / "results.json", *([also] if also else [])):
        document.write_plain(file, CheckDocument, found)
    write_atomic(summary.out / "junit.xml", junit_document(check_results.junit_suites(summary.boots)))
    write_atomic(summary.out / "results.ktap", check_results.ktap_text(summary.boots))


def lines(summary: Summary, *, verbose: bool) -> tuple[str, ...]:
    """The report, failures first and the verdict last; if verbose, it names each skipped test."""
    out: list[str] = []
    failed: dict[tuple[str, TestOutcome], tuple[list[str], TestResult]] = {}
    for boot in summary.boots:
        for test in boot.judgement.tests:
            if test.outcome not in (TestOutcome.PASS, TestOutcome.SKIP):
                failed.setdefault((test.name, test.outcome), ([], test))[0].append(boot.name)
    for (name, outcome), (boots, test) in failed.items():
        out.append(f"{outcome.name} {name} ({', '.join(boots)}): {test.reason}".removesuffix(": "))
        for line in test.diagnostics:
            out.append(f"    {re.sub(r'^ *# [a-z0-9_]+: ', '', line)}")
    for boot in summary.boots:
        for problem in boot.judgement.problems:
            mark = "note" if problem.verdict is Verdict.PASS else problem.verdict.name
            out.append(f"{mark} {boot.name} {problem_text(problem)}")
    out.append(f"tree: {summary.tree.origin}" + (f" (dirty: {summary.tree.dirty} files)" if summary.tree.dirty else ""))
    changes = [("change", "expected", "source", "kernel", "rules")]
    for row in summary.changes:
        rules = "skipped" if row.verdict is Verdict.INCONCLUSIVE else row.verdict.name
        changes.append((row.id, "yes" if row.expected else "no", row.state, row.present, rules))
    out += table(changes)
    guests = [["guest", "verdict", "passed", "failed", "skipped", "seconds", "log"]]
    for boot in summary.boots:
        counts = Counter(test.outcome for test in boot.judgement.tests)
        good, idle = counts[TestOutcome.PASS], counts[TestOutcome.SKIP]
        numbers = [str(each) for each in (good, counts.total() - good - idle, idle)]
        guests.append([boot.name, boot.judgement.verdict.name, *numbers, f"{boot.run.seconds:.1f}", str(boot.run.log)])
    out += table(guests)
    for suite in summary.left_out:
        out.append(f"left out: {suite.name}: {suite.why}")
    skipped = skips(summary.boots)
    number = sum(map(len, skipped.values()))
    if skipped:
        out.append(f"skipped in every guest: {number} tests{'' if verbose else ' (--verbose names them)'}, because")
    most = sorted(skipped, key=lambda reason: -len(skipped[reason]))
    if not verbose and len(skipped) > _MOST_REASONS:
        most = most[: _MOST_REASONS - 1]
    for reason in filter(most.__contains__, skipped):
        out.append(f"  {reason}: {', '.join(skipped[reason]) if verbose else len(skipped[reason])}")
    if len(most) < len(skipped):
        rest = number - sum(len(skipped[reason]) for reason in most)
        out.append(f"  {len(skipped) - len(most)} other reasons: {rest}")
    if failed and summary.reproduce:
        (name, _), (boots, _) = next(iter(failed.items()))
        only = ".".join(name.split(":")[:2])
        shape = boots[0].rpartition("-")[2]
        option = "--cpus" if shape.isdigit() else "--topology"
        out.append(f"one test alone: {summary.reproduce} {option} {shape} --only {only}")
    out.append(f"results: {summary.out}/results.json, junit.xml, results.ktap")
    out.append(f"verdict: {summary.verdict.name}")
    return tuple(out)
