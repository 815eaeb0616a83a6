# SPDX-License-Identifier: GPL-2.0
"""verdict -> report: the document of a check, its other files, and its report for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
from schedlib.tree.changes import State, change_table
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
        pattern = re.compile(rb"change ([\w-]+): (present|partial|absent|n/a)")
        said = {match for boot in self.boots for match in pattern.findall(boot.run.log.read_bytes())}
        judged = {name for name, change in change_table().items() if change.suite}
        rows = [row for row in self.composition.states if row.id in judged]
        return tuple(
            self._change(row.id, row.state, [there.decode() for name, there in said if name.decode() == row.id])
            for row in rows
        )

    def _change(self, change: str, state: State, said: Sequence[str]) -> CheckChange:
        own = tests_of(change)
        run = [test for boot in self.boots for test in boot.judgement.tests]
        tests = [test for test in run if test.name in own]
        if not own:  # its whole suite judges it
            tests = [test for test in run if test.name.split(":")[0] == change_table()[change].suite]
        present = cast(SaidPresence, said[0] if len(said) == 1 else "unknown")
        outcomes = {test.outcome for test in tests}
        if outcomes & {TestOutcome.FAIL, TestOutcome.MISSING, TestOutcome.CRASHED}:
            verdict = Verdict.FAIL
        else:
            verdict = Verdict.PASS if TestOutcome.PASS in outcomes else Verdict.INCONCLUSIVE
        return CheckChange(change, change in self.composition.expected, present, state.value, verdict)


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
    failed = _failed(summary.boots)
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
    guests = [("guest", "verdict", "passed", "failed", "skipped", "seconds", "log")]
    for boot in summary.boots:
        verdict, counts = boot.judgement.verdict.name, _counts(boot.judgement.tests)
        guests.append((boot.name, verdict, *counts, f"{boot.run.seconds:.1f}", str(boot.run.log)))
    out += table(guests)
    for suite in summary.left_out:
        out.append(f"left out: {suite.name}: {suite.why}")
    skipped = skips(summary.boots)
    number = sum(map(len, skipped.values()))
    if skipped:
        out.append(f"skipped in every guest: {number} tests{'' if verbose else ' (--verbose names them)'}, because")
    reasons = shown = list(skipped.items())
    if not verbose and len(reasons) > _MOST_REASONS:
        most = sorted(reasons, key=lambda each: -len(each[1]))[: _MOST_REASONS - 1]
        shown = [each for each in reasons if each in most]
    for reason, names in shown:
        out.append(f"  {reason}: {', '.join(names) if verbose else len(names)}")
    if len(shown) < len(reasons):
        rest = number - sum(len(names) for _, names in shown)
        out.append(f"  {len(reasons) - len(shown)} other reasons: {rest}")
    for (name, _), (boots, _) in list(failed.items())[: 1 if summary.reproduce else 0]:
        only = ".".join(name.split(":")[:2])
        shape = boots[0].rpartition("-")[2]
        option = "--cpus" if shape.isdigit() else "--topology"
        out.append(f"one test alone: {summary.reproduce} {option} {shape} --only {only}")
    out.append(f"results: {summary.out}/results.json, junit.xml, results.ktap")
    out.append(f"verdict: {summary.verdict.name}")
    return tuple(out)


def _failed(boots: Sequence[JudgedBoot]) -> dict[tuple[str, TestOutcome], tuple[list[str], TestResult]]:
    """Each test that did not pass, once, with the guests in which it did not, and the result in the first of them."""
    found: dict[tuple[str, TestOutcome], tuple[list[str], TestResult]] = {}
    for boot in boots:
        for test in boot.judgement.tests:
            if test.outcome not in (TestOutcome.PASS, TestOutcome.SKIP):
                found.setdefault((test.name, test.outcome), ([], test))[0].append(boot.name)
    return found


def _counts(tests: Sequence[TestResult]) -> tuple[str, str, str]:
    passed = sum(test.outcome is TestOutcome.PASS for test in tests)
    skipped = sum(test.outcome is TestOutcome.SKIP for test in tests)
    return str(passed), str(len(tests) - passed - skipped), str(skipped)
