# SPDX-License-Identifier: GPL-2.0
"""results -> files: JSON (schema check-1), JUnit XML and one merged KTAP, from the judged boots."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from schedlib import TOOL
from schedlib.console.judge import Judgement, Problem, TestOutcome, TestResult
from schedlib.formats.junit import JUnitCase, JUnitSuite, Mark
from schedlib.guest.boot import GuestRun
from schedlib.verdict import Verdict


@dataclass(frozen=True)
class JudgedBoot:
    """One guest that was run and judged, or one saved log."""

    name: str
    run: GuestRun
    judgement: Judgement


def by_reason(tests: Iterable[TestResult]) -> dict[str, list[str]]:
    """The names of tests, once each, by the reason that they give."""
    found: dict[str, list[str]] = {}
    for test in tests:
        names = found.setdefault(test.reason or "no reason given", [])
        if test.name not in names:
            names.append(test.name)
    return found


def skips(boots: Sequence[JudgedBoot]) -> dict[str, list[str]]:
    """Tests that no guest ran, by the reason."""
    tests = [test for boot in boots for test in boot.judgement.tests]
    ran = {test.name for test in tests if test.outcome is not TestOutcome.SKIP}
    return by_reason(test for test in tests if test.name not in ran)


def check_document(
    *,
    started: datetime,
    fingerprint: Mapping[str, str],
    verdict: Verdict,
    boots: Sequence[JudgedBoot],
    changes: Sequence[Mapping[str, object]] = (),
    tree: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """The content of results.json."""
    return {
        "schema": "check-1",
        "tool": TOOL,
        "started": started.isoformat(),
        "fingerprint": dict(fingerprint),
        "status": verdict.name,
        "tree": dict(tree) if tree is not None else None,
        "changes": [*changes],
        "boots": [_boot_document(boot) for boot in boots],
    }


def _boot_document(boot: JudgedBoot) -> dict[str, object]:
    checksum = None
    with suppress(OSError), boot.run.log.open("rb") as file:  # a pipe, or a log that was removed, has none
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    judged = boot.judgement
    return {
        "name": boot.name,
        "command": list(boot.run.argv),
        "ending": boot.run.ending.value,
        "log": str(boot.run.log),
        "sha256": checksum,
        "seconds": boot.run.seconds if boot.run.argv else None,
        "verdict": judged.verdict.name,
        "tests": [
            {key: each for key, each in vars(test).items() if key != "xfail"} | {"outcome": test.outcome.name}
            for test in judged.tests
        ],
        "problems": [vars(problem) | {"verdict": problem.verdict.name} for problem in judged.problems],
    }


def junit_suites(boots: Sequence[JudgedBoot]) -> tuple[JUnitSuite, ...]:
    """A JUnit suite for each suite of each boot. The problems of a boot's log are the test `console`."""
    found: list[JUnitSuite] = []
    for boot in boots:
        for suite, tests in _suites(boot.judgement.tests).items():
            found.append((f"{boot.name}.{suite}", [_junit_case(test) for test in tests]))
        found.append((boot.name, [_junit_case(_console(boot.judgement))]))
    return tuple(found)


_MARKS: dict[TestOutcome, Mark] = {TestOutcome.SKIP: "skipped", TestOutcome.FAIL: "failure"}


def _junit_case(test: TestResult) -> JUnitCase:
    detail = "" if test.outcome is TestOutcome.SKIP else "\n".join(test.diagnostics)
    mark = None if test.outcome is TestOutcome.PASS else _MARKS.get(test.outcome, "error")
    return JUnitCase(_below(test), mark, _reason(test), detail, test.duration_s)


def ktap_text(boots: Sequence[JudgedBoot]) -> str:
    """All boots as one KTAP stream: boot, suite, test. Output of tests follows `# |`: it may look like KTAP itself."""
    out = ["KTAP version 1", f"1..{len(boots)}"]
    for number, boot in enumerate(boots, 1):
        suites = _suites(boot.judgement.tests)
        out += ["    KTAP version 1", f"    # Subtest: {_word(boot.name)}", f"    1..{len(suites) + 1}"]
        for place, (suite, tests) in enumerate(suites.items(), 1):
            out += ["        KTAP version 1", f"        # Subtest: {_word(suite)}", f"        1..{len(tests)}"]
            for index, test in enumerate(tests, 1):
                if test.outcome is not TestOutcome.PASS:
                    out += [f"        # | {_word(line)}" for line in test.diagnostics]
                out.append(f"        {_ktap_line(index, test)}")
            out.append(f"    {_status(tests)} {place} {_word(suite)}{_all_skipped(tests)}")
        console = _console(boot.judgement)
        out += [f"    # | {_word(line)}" for line in console.diagnostics]
        out.append(f"    {_ktap_line(len(suites) + 1, console)}")
        everything = [*boot.judgement.tests, console]
        out.append(f"{_status(everything)} {number} {_word(boot.name)}{_all_skipped(everything)}")
    return "\n".join(out) + "\n"


def _ktap_line(number: int, test: TestResult) -> str:
    directive = {TestOutcome.SKIP: "SKIP ", TestOutcome.FAIL: ""}.get(test.outcome, "ERROR ")
    remark = "" if test.outcome is TestOutcome.PASS else f" # {directive}{_word(_reason(test))}"
    return f"{_status([test])} {number} {_word(_below(test))}{remark}"


def _status(tests: Sequence[TestResult]) -> str:
    return "ok" if all(test.outcome in (TestOutcome.PASS, TestOutcome.SKIP) for test in tests) else "not ok"


def _all_skipped(tests: Sequence[TestResult]) -> str:
    return " # SKIP" if all(test.outcome is TestOutcome.SKIP for test in tests) else ""


_BREAKS = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]+")


def _word(text: str) -> str:
    """Text that neither ends its KTAP line nor begins a directive."""
    return _BREAKS.sub(" ", text).replace(" #", " ").strip().lstrip("-# ")


def _suites(tests: Sequence[TestResult]) -> dict[str, list[TestResult]]:
    found: dict[str, list[TestResult]] = {}
    for test in tests:
        found.setdefault(test.name.split(":")[0], []).append(test)
    return found


def _below(test: TestResult) -> str:
    """The name of a test within its suite; a suite without tests stands for itself."""
    return test.name.partition(":")[2] or test.name


def _reason(test: TestResult) -> str:
    if test.outcome in (TestOutcome.MISSING, TestOutcome.CRASHED):
        return f"{test.outcome.name.lower()}: {test.reason}"
    return test.reason or {TestOutcome.SKIP: "no reason given", TestOutcome.FAIL: "failed"}.get(test.outcome, "")


def _console(judgement: Judgement) -> TestResult:
    """One result for the problems: a file that only lists tests must not look green for a kernel that panicked."""
    bad = [problem for problem in judgement.problems if problem.verdict in (Verdict.FAIL, Verdict.ERROR)]
    if not bad:
        nothing = next((each.text for each in judgement.problems if each.verdict is Verdict.INCONCLUSIVE), "")
        return TestResult("console", TestOutcome.SKIP if nothing else TestOutcome.PASS, nothing)
    texts = tuple(problem_text(each) for each in bad)
    return TestResult("console", TestOutcome.FAIL, texts[0], diagnostics=texts)


def problem_text(problem: Problem) -> str:
    """A problem in one line, with the place in the log."""
    during = f" (during {problem.test})" if problem.test and problem.test not in problem.text else ""
    where = f", line {problem.line}" if problem.line else ""
    return f"{problem.kind}{where}{during}: {problem.text.strip()}"
