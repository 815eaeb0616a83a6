# SPDX-License-Identifier: GPL-2.0
"""`schedline judge`: the verdict on saved console logs. It needs neither the cache nor any library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from schedlib.cache import read_text, write_atomic, write_json
from schedlib.check.check_results import (
    CheckResult,
    JudgedBoot,
    by_reason,
    judged_boot,
    junit_suites,
    plain,
    problem_text,
    skips,
)
from schedlib.console.expected import load_expected
from schedlib.console.judge import OPEN_END, TestOutcome, TestResult, judge
from schedlib.console.log_lines import RaceReport
from schedlib.environment import activate
from schedlib.errors import SchedlineError
from schedlib.formats.junit import junit_document
from schedlib.guest.boot import Ending, GuestRun
from schedlib.names import split_list
from schedlib.options import Verbs, add_verb, existing_path, new_path, option
from schedlib.progress import print_untrusted
from schedlib.verdict import Verdict, worst

_ENDINGS = {ending.value.replace(" ", "-"): ending for ending in Ending}
_SHOWN_LINES = 60


@dataclass(frozen=True)
class JudgeOptions:
    """What is judged, and against what."""

    logs: tuple[str, ...] = option("LOG", "console log; - is standard input", default=(), nargs="+")
    tests: Path | None = option("--tests FILE", "list of the tests that must have run", existing_path)
    cpus: int | None = option("--cpus N", "CPUs of the guest, to select tests by their classes=", int)
    require: tuple[str, ...] = option("--require ID,...", "a skip of these is an error", split_list, default=())
    ending: str = option("--ending", "how the run ended, if you saw it", choices=sorted(_ENDINGS), default="unknown")
    json: Path | None = option("--json FILE", "write the results as JSON (schema check-1)", new_path)
    junit: Path | None = option("--junit FILE", "write the results as JUnit XML", new_path)


def add_parser(verbs: Verbs) -> None:
    """Add `schedline judge`."""
    add_verb(
        verbs,
        "judge",
        "the verdict on saved console logs",
        first=[
            "schedline judge console.log                                   KUnit or kselftest output in a log",
            "schedline judge --tests kunit/tests.txt --cpus 8 console.log  against a list of tests",
        ],
        text="""
        Judges logs as `schedline check` judges its own guests: the whole log, against the list of tests that had to
        run. A panic, a splat, a missing plan, a lost test, and a failed expectation before an `ok` are failures.

        A saved log must show its end. With a boot, the last message of the kernel (`reboot: Power down`) or of LAVA
        must follow all tests; without a boot, the totals of run_kselftest.sh or the elapsed time of kunit.py. If the
        end is missing, the log is INCONCLUSIVE if kunit_shutdown= asks for a shutdown, if the last line is cut off, or
        if the log contains the boot and its lines have no time stamps. Other logs, such as a capture of dmesg, pass if
        all planned tests ended, and the verdict says "as far as the log goes".

        A list of tests has one full name on each line (suite:case or suite:case:parameter) and # comments. After a
        name, classes=8,64 means that the test runs only in guests with 8 or 64 CPUs.""",
        examples=[
            "schedline judge --require sched_layout --junit junit.xml uml-8.log uml-64.log",
            "dmesg | schedline judge -",
        ],
        operands="LOG ...",
        options=JudgeOptions,
        read=_checked,
        job=judge_logs,
        libraries=(),
    )


def _checked(options: JudgeOptions) -> JudgeOptions:
    if options.cpus is not None and not options.tests:
        raise SchedlineError("--cpus selects tests from a list, and no list is given", "add --tests FILE")
    return options


def judge_logs(options: JudgeOptions) -> Verdict:
    """Judge saved logs and print the findings; the worst verdict. SchedlineError if a file cannot be used."""
    started = datetime.now(UTC)
    expected = load_expected(options.tests, options.cpus) if options.tests else ()
    ending, require = _ENDINGS[options.ending], options.require
    boots = []
    for name, log in zip(_names(options.logs), options.logs, strict=True):
        judgement = judge(_content(log), expected, ending=ending, require=require, known_races=_known_races)
        boots.append(judged_boot(name, GuestRun((), Path(log), ending), judgement))
    verdict = worst(boot.verdict for boot in boots)
    try:
        if options.json:
            write_json(options.json, plain(CheckResult(started=started, status=verdict, boots=tuple(boots))))
        if options.junit:
            write_atomic(options.junit, junit_document(junit_suites(boots)))
    except OSError as error:
        raise SchedlineError(
            f"the results cannot be written: {error.strerror or error}", "name a file in a writable directory"
        ) from error
    for boot in boots:
        for line in _shown(boot, many=len(boots) > 1):
            print_untrusted(line)
    if len(boots) > 1:
        print(_verdict(boots))
    return verdict


def _known_races(reports: Sequence[RaceReport]) -> Sequence[tuple[RaceReport, str]]:
    """The reports of intended races. Only a log with race reports needs the library that reads the list of them."""
    activate("core")
    from schedlib.console.known_races import explained

    return explained(reports)


def _content(log: str) -> bytes:
    try:
        if content := read_text(log):
            return content
    except OSError as error:
        raise SchedlineError(f"the log {log} cannot be read: {error.strerror}", "name a console log") from error
    raise SchedlineError(f"the log {log} is empty: there is nothing to judge", "save the whole console output")


def _names(logs: Sequence[str]) -> list[str]:
    short = ["stdin" if log == "-" else Path(log).stem or log for log in logs]
    return [name if short.count(name) == 1 else f"{index}-{name}" for index, name in enumerate(short, 1)]


def _shown(boot: JudgedBoot, *, many: bool) -> list[str]:
    out = [f"== {boot.log}"] if many else []
    for test in boot.tests:
        if test.outcome not in (TestOutcome.PASS, TestOutcome.SKIP):
            out += _failure(test)
    for problem in boot.problems:
        out.append(f"{'note' if problem.verdict is Verdict.PASS else problem.verdict.name}: {problem_text(problem)}")
    counts = Counter(test.outcome for test in boot.tests)
    xfail = sum(test.xfail for test in boot.tests)
    counted = [f"{counts[each] - xfail * (each is TestOutcome.PASS)} {_COUNTED[each]}" for each in TestOutcome]
    if xfail:
        counted.insert(1, f"{xfail} xfail")
    out.append(f"{len(boot.tests)} tests: {', '.join(counted)}")
    for reason, names in skips([boot]).items():
        out.append(f"skipped ({reason}): {', '.join(names)}")
    for reason, names in by_reason(test for test in boot.tests if test.xfail).items():
        out.append(f"{reason}: {', '.join(names)}")
    out.append(_verdict([boot]))
    return out


_COUNTED = dict(zip(TestOutcome, ("passed", "failed", "skipped", "missing", "crashed"), strict=True))


def _failure(test: TestResult) -> list[str]:
    where = f", line {test.line}" if test.line else ""
    reason = f": {test.reason}" if test.reason else ""
    lines = [f"    {line}" for line in test.diagnostics[-_SHOWN_LINES:]]
    if len(test.diagnostics) > _SHOWN_LINES:
        lines.insert(0, f"    ({len(test.diagnostics) - _SHOWN_LINES} lines before)")
    return [f"{test.outcome.name} {test.name}{where}{reason}", *lines]


def _verdict(boots: Sequence[JudgedBoot]) -> str:
    """The line with the worst verdict. It says so if a log that passes does not show its end."""
    verdict = worst(each.verdict for each in boots)
    open_end = any(problem.kind == OPEN_END for each in boots for problem in each.problems)
    told = ", as far as the log goes" if open_end and verdict is Verdict.PASS else ""
    return f"verdict: {verdict.name}{told}"
