# SPDX-License-Identifier: GPL-2.0
"""The result of a check, which its JSON (schema check-1) has as it is; from it, JUnit XML and one merged KTAP."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from schedlib import TOOL
from schedlib.cache import open_regular
from schedlib.console.judge import Judgement, Problem, TestOutcome, TestResult
from schedlib.formats.junit import JUnitCase, JUnitSuite, Mark
from schedlib.guest.boot import Ending, GuestRun
from schedlib.verdict import Verdict

if TYPE_CHECKING:  # `schedline judge` needs no library
    from schedlib.formats.strict import Amount, Checksum, Count, Moment, Word

SaidPresence = Literal["present", "partial", "absent", "n/a", "unknown"]


@dataclass(frozen=True)
class CheckTree:
    """Where the kernel's source came from. dirty: files that are modified or untracked."""

    origin: Word
    base: str
    dirty: Count


@dataclass(frozen=True)
class CheckChange:
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


@dataclass(frozen=True)
class JudgedBoot:
    """One guest, or one saved log."""

    name: Word
    command: tuple[str, ...]
    ending: Ending
    log: str
    sha256: Checksum | None
    seconds: Amount | None
    verdict: Verdict
    tests: tuple[TestResult, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """schedline check: the results of one or more judged boots.

    Attributes:
        tool: name and version of what wrote this file.
        started: with time zone.
        fingerprint: machine, kernel, build-id, configuration, command line, boot ids, tool versions.
    """

    schema: Literal["check-1"] = "check-1"
    tool: Word = TOOL
    started: Moment
    fingerprint: dict[str, str] = field(default_factory=dict)
    status: Verdict
    tree: CheckTree | None = None
    changes: tuple[CheckChange, ...] = ()
    boots: tuple[JudgedBoot, ...]


def judged_boot(name: str, run: GuestRun, judged: Judgement) -> JudgedBoot:
    """A guest that was run, or a saved log, with its judgement."""
    checksum = None
    with suppress(OSError), open_regular(run.log) as file:  # a pipe, or a log that was removed, has none
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    seconds = run.seconds if run.argv else None
    given = (judged.verdict, judged.tests, judged.problems)
    return JudgedBoot(name, tuple(run.argv), run.ending, str(run.log), checksum, seconds, *given)


def plain(value: Any) -> Any:
    """A result as its JSON has it."""
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return value.isoformat() if isinstance(value, datetime) else value


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
    tests = [test for boot in boots for test in boot.tests]
    ran = {test.name for test in tests if test.outcome is not TestOutcome.SKIP}
    return by_reason(test for test in tests if test.name not in ran)


def junit_suites(boots: Sequence[JudgedBoot]) -> tuple[JUnitSuite, ...]:
    """A JUnit suite for each suite of each boot. The problems of a boot's log are the test `console`."""
    found: list[JUnitSuite] = []
    for boot in boots:
        for suite, tests in _suites(boot.tests).items():
            found.append((f"{boot.name}.{suite}", [_junit_case(test) for test in tests]))
        found.append((boot.name, [_junit_case(_console(boot))]))
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
        suites = _suites(boot.tests)
        out += ["    KTAP version 1", f"    # Subtest: {_word(boot.name)}", f"    1..{len(suites) + 1}"]
        for place, (suite, tests) in enumerate(suites.items(), 1):
            out += ["        KTAP version 1", f"        # Subtest: {_word(suite)}", f"        1..{len(tests)}"]
            for index, test in enumerate(tests, 1):
                if test.outcome is not TestOutcome.PASS:
                    out += [f"        # | {_word(line)}" for line in test.diagnostics]
                out.append(f"        {_ktap_line(index, test)}")
            out.append(f"    {_status(tests)} {place} {_word(suite)}{_all_skipped(tests)}")
        console = _console(boot)
        out += [f"    # | {_word(line)}" for line in console.diagnostics]
        out.append(f"    {_ktap_line(len(suites) + 1, console)}")
        everything = [*boot.tests, console]
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


def _console(boot: JudgedBoot) -> TestResult:
    """One result for the problems: a file that only lists tests must not look green for a kernel that panicked."""
    bad = [problem for problem in boot.problems if problem.verdict in (Verdict.FAIL, Verdict.ERROR)]
    if not bad:
        nothing = next((each.text for each in boot.problems if each.verdict is Verdict.INCONCLUSIVE), "")
        return TestResult("console", TestOutcome.SKIP if nothing else TestOutcome.PASS, nothing)
    texts = tuple(problem_text(each) for each in bad)
    return TestResult("console", TestOutcome.FAIL, texts[0], diagnostics=texts)


def problem_text(problem: Problem) -> str:
    """A problem in one line, with the place in the log."""
    during = f" (during {problem.test})" if problem.test and problem.test not in problem.text else ""
    where = f", line {problem.line}" if problem.line else ""
    return f"{problem.kind}{where}{during}: {problem.text.strip()}"
