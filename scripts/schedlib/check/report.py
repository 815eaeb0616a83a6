# SPDX-License-Identifier: GPL-2.0
"""verdict -> report: the document of a check, its other files, and its report for people."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import cast, get_type_hints

import msgspec

from schedlib.cache import write_atomic
from schedlib.check import check_results
from schedlib.check.check_results import (
    CheckChange,
    CheckResult,
    CheckTree,
    JudgedBoot,
    SaidPresence,
    problem_text,
    skips,
)
from schedlib.console.expected import tests_of
from schedlib.console.judge import Problem, TestOutcome, TestResult
from schedlib.formats import document, strict
from schedlib.formats.document import Document
from schedlib.formats.junit import junit_document
from schedlib.formats.strict import Strict
from schedlib.formats.tables import table
from schedlib.tree.changes import change_table
from schedlib.tree.compose import Composition
from schedlib.tree.kernel_tree import Tree
from schedlib.tree.suites import KunitSuite
from schedlib.verdict import Verdict, worst


def _of_dataclasses(whole: type, *parts: type) -> type[Document]:
    """The document that a result is: the dataclass `whole`, with others inside of it.

    Their modules, which need no library, name types of strict.py that they do not import.
    """
    known = dict(vars(strict))
    for kind in (*reversed(parts), whole):
        hints = get_type_hints(kind, localns=known, include_extras=True)
        named = [(each.name, hints[each.name]) for each in dataclasses.fields(kind)]
        bases = (Document if kind is whole else Strict,)
        known[kind.__name__] = msgspec.defstruct(
            kind.__name__, named, bases=bases, namespace={"__doc__": kind.__doc__}, frozen=True, kw_only=True
        )
    made: type[Document] = known[whole.__name__]
    return made


CheckDocument = _of_dataclasses(CheckResult, JudgedBoot, TestResult, Problem, CheckChange, CheckTree)

_MOST_REASONS = 8
"""So many reasons of skips are shown, unless --verbose: a report of a PASS then has at most 25 lines."""


@dataclass(frozen=True)
class Summary:
    """Everything that a report tells of one check."""

    result: CheckResult
    out: Path
    reproduce: str
    left_out: tuple[KunitSuite, ...] = ()


def check_result(
    started: datetime,
    tree: Tree,
    composition: Composition,
    boots: tuple[JudgedBoot, ...],
    fingerprint: dict[str, str],
) -> CheckResult:
    """The result of a check; its verdict is the worst of the guests' verdicts."""
    return CheckResult(
        started=started,
        fingerprint=fingerprint,
        status=worst(boot.verdict for boot in boots),
        tree=CheckTree(tree.origin, tree.base, tree.dirty),
        changes=tuple(_changes(composition, boots)),
        boots=boots,
    )


def _changes(composition: Composition, boots: Sequence[JudgedBoot]) -> Iterator[CheckChange]:
    """For each change: expected, what the kernel says of its presence, and the verdict of its rules."""
    pattern = re.compile(r"change ([\w-]+): (present|partial|absent|n/a)")
    logs = [Path(boot.log).read_text(errors="replace") for boot in boots]
    said = {match for log in logs for match in pattern.findall(log)}
    run = [test for boot in boots for test in boot.tests]
    lost = [problem.text for boot in boots for problem in boot.problems if problem.kind == "not-judged"]
    judged = [(row, change_table()[row.id].suite) for row in composition.states]
    for row, suite in (each for each in judged if each[1]):
        there = [each for name, each in said if name == row.id]
        present = cast(SaidPresence, there[0] if len(there) == 1 else "unknown")
        # Without tests of its own, its whole suite judges it.
        own = tests_of(row.id)
        outcomes = {test.outcome for test in run if (test.name in own if own else test.name.split(":")[0] == suite)}
        if outcomes & {TestOutcome.FAIL, TestOutcome.MISSING, TestOutcome.CRASHED}:
            verdict = Verdict.FAIL
        elif any(re.search(rf"\b(?:{row.id}|{suite})\b", text) for text in lost):
            verdict = Verdict.ERROR
        else:
            verdict = Verdict.PASS if TestOutcome.PASS in outcomes else Verdict.INCONCLUSIVE
        yield CheckChange(row.id, row.id in composition.expected, present, row.state.value, verdict)


def write(summary: Summary, also: Path | None) -> None:
    """Write results.json, junit.xml and results.ktap beside the logs, and the JSON also to `also`."""
    boots = summary.result.boots
    for file in (summary.out / "results.json", *([also] if also else [])):
        document.write_plain(file, CheckDocument, check_results.plain(summary.result))
    write_atomic(summary.out / "junit.xml", junit_document(check_results.junit_suites(boots)))
    write_atomic(summary.out / "results.ktap", check_results.ktap_text(boots))


def lines(summary: Summary, *, verbose: bool) -> tuple[str, ...]:
    """The report, failures first and the verdict last; if verbose, it names each skipped test."""
    out: list[str] = []
    result = summary.result
    failed: dict[tuple[str, TestOutcome], tuple[list[str], TestResult]] = {}
    for boot in result.boots:
        for test in boot.tests:
            if test.outcome not in (TestOutcome.PASS, TestOutcome.SKIP):
                failed.setdefault((test.name, test.outcome), ([], test))[0].append(boot.name)
    for (name, outcome), (boots, test) in failed.items():
        out.append(f"{outcome.name} {name} ({', '.join(boots)}): {test.reason}".removesuffix(": "))
        for line in test.diagnostics:
            out.append(f"    {re.sub(r'^ *# [a-z0-9_]+: ', '', line)}")
    for boot in result.boots:
        for problem in boot.problems:
            mark = "note" if problem.verdict is Verdict.PASS else problem.verdict.name
            out.append(f"{mark} {boot.name} {problem_text(problem)}")
    if tree := result.tree:
        out.append(f"tree: {tree.origin}" + (f" (dirty: {tree.dirty} files)" if tree.dirty else ""))
    changes = [("change", "expected", "source", "kernel", "rules")]
    for row in result.changes:
        rules = "skipped" if row.verdict is Verdict.INCONCLUSIVE else row.verdict.name
        changes.append((row.id, "yes" if row.expected else "no", row.state, row.present, rules))
    out += table(changes)
    guests = [["guest", "verdict", "passed", "failed", "skipped", "seconds", "log"]]
    for boot in result.boots:
        counts = Counter(test.outcome for test in boot.tests)
        good, idle = counts[TestOutcome.PASS], counts[TestOutcome.SKIP]
        numbers = [str(each) for each in (good, counts.total() - good - idle, idle)]
        guests.append([boot.name, boot.verdict.name, *numbers, f"{boot.seconds or 0:.1f}", boot.log])
    out += table(guests)
    for suite in summary.left_out:
        out.append(f"left out: {suite.name}: {suite.why}")
    skipped = skips(result.boots)
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
    out.append(f"verdict: {result.status.name}")
    return tuple(out)
