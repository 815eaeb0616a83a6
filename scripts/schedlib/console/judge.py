# SPDX-License-Identifier: GPL-2.0
"""log -> verdict: one whole console log against the list of tests that it must contain.

Everything unusual in a log is a problem, and most problems are a FAIL. Two kinds need rules of their own:

A failed expectation or assertion of KUnit (`# x: EXPECTATION FAILED at ...`) anywhere in a line is a FAIL by itself,
unless the next result is `not ok`. KUnit forgets the failure if the case is then skipped, and does not count failures
that other tasks print.

The end of a log may be missing. The program that ran the guest knows how it ended. A saved log (Ending.UNKNOWN) has to
show its end, by the rules that `schedline judge --help` states: _saved_end() has them in the same order.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar

from schedlib.console.ktap import PROGRAM, Reader, Report, Status, Stream, Test, first_reason, short_name
from schedlib.console.log_lines import (
    Explain,
    Framing,
    LogEvent,
    LogLine,
    RaceReader,
    RaceReport,
    framing,
    lines,
    reports,
    sign,
)
from schedlib.guest.boot import Ending
from schedlib.verdict import Verdict, worst

if TYPE_CHECKING:  # whoever judges a log needs no library
    from schedlib.formats.strict import Amount, Count, Kind, Word


class TestOutcome(Enum):
    """The outcome of one test."""

    PASS = "PASS"
    FAIL = "FAIL"
    SKIP = "SKIP"
    MISSING = "MISSING"
    CRASHED = "CRASHED"


@dataclass(frozen=True)
class TestResult:
    """One test.

    Attributes:
        name: suite:case or suite:case:parameter; collection:program[:inner test] for kselftests.
        line: line of the log, 0 if the log does not have it.
    """

    name: Word
    outcome: TestOutcome
    reason: str = ""
    duration_s: Amount | None = None
    diagnostics: tuple[str, ...] = ()
    line: Count = 0
    xfail: ClassVar[bool] = False


@dataclass(frozen=True)
class ExpectedFailure(TestResult):
    """A test that failed as it should, which counts as passed."""

    xfail: ClassVar[bool] = True


@dataclass(frozen=True)
class Problem:
    """A problem of the log as a whole.

    Attributes:
        verdict: PASS for a remark.
        test: the test that was running, or was the next to end.
    """

    kind: Kind
    line: Count
    text: str
    verdict: Verdict
    test: str = ""


@dataclass(frozen=True)
class Judgement:
    """The verdict on one log, with what it is based on."""

    verdict: Verdict
    tests: tuple[TestResult, ...]
    problems: tuple[Problem, ...]

    def with_problems(self, problems: Sequence[Problem]) -> Judgement:
        """The judgement with more problems added; its verdict is the worst of all."""
        verdict = worst([self.verdict, *(problem.verdict for problem in problems)])
        return Judgement(verdict, self.tests, (*self.problems, *problems))


_OUTCOMES = {
    Status.OK: TestOutcome.PASS,
    Status.XFAIL: TestOutcome.PASS,
    Status.SKIP: TestOutcome.SKIP,
    Status.NOT_OK: TestOutcome.FAIL,
    Status.NONE: TestOutcome.CRASHED,
}
_BROKEN = frozenset({Status.NOT_OK, Status.NONE})

_WORST_FIRST = (TestOutcome.FAIL, TestOutcome.CRASHED, TestOutcome.MISSING, TestOutcome.SKIP, TestOutcome.PASS)
_FLAWS = {
    "duplicate-name": Verdict.PASS,
    "skip-as-pass": Verdict.PASS,
    "interleaved": Verdict.ERROR,
    "other-totals": Verdict.INCONCLUSIVE,
}
"""Flaws of a log that are not a FAIL."""
# These kinds only say that the log stops early. If the run was interrupted, that is not the kernel's fault.
_STOPPED = frozenset({"truncated", "missing-suite", "bad-plan", "missing-plan", "no-result", "no-tests", "no-shutdown"})
OPEN_END = "open-end"
"""The problem that has to be printed with a PASS: all planned tests ended, but the log does not show what followed."""
_CLOCK_SLACK_S = 0.1
_BOOT_S = 1.0
"""The kernel prints its version before this, by its own clock."""
MOST_PROBLEMS = 50
"""Problems of one kind that are listed; a log of 50 MB can hold a million."""


@dataclass
class _Log:
    """A log, read once.

    Attributes:
        banner: line of the kernel's version, 0 if there is none; the other line numbers follow the same rule.
        newest: line of the last banner.
        began: line of the last message with which a kernel begins.
        shutdown: line of the last message of the kernel, or of the lab that ran it, if no kernel started after it.
        job: line of the lab's first such message.
        restarted: line where the kernel started again without such a message.
        runner: line of the last message of kunit.py.
        asked: whether the command line asks KUnit to shut the kernel down after the tests.
        cut: whether the last line has no newline.
        back: line at which the kernel's clock went back among the tests.
    """

    cut: bool
    races: list[RaceReport]
    report: Report
    signs: list[LogEvent] = field(default_factory=list)
    last_line: int = 0
    banner: int = 0
    newest: int = 0
    began: int = 0
    shutdown: int = 0
    job: int = 0
    restarted: int = 0
    runner: int = 0
    asked: bool = False
    back: int = 0


def judge(
    log: bytes,
    expected: Collection[str] = (),
    *,
    ending: Ending = Ending.UNKNOWN,
    require: Collection[str] = (),
    times: Sequence[tuple[int, float]] = (),
    known_races: Explain | None = None,
) -> Judgement:
    """Judge a console log.

    Args:
        log: the raw bytes of the whole log.
        expected: full names of the tests that had to run; if empty, the plans in the log decide.
        ending: how the emulator ended, or UNKNOWN: then the log has to show its end by the rules of this module.
        require: tests, suites or public ids that must not be skipped.
        times: (offset, seconds) of each piece as it arrived, for logs without the kernel's clock.
        known_races: selects the KCSAN reports of intended races, which are only remarks; called only if there are
            reports.
    """
    if log.startswith((b"\xff\xfe", b"\xfe\xff")):
        log = log.decode("utf-16", errors="replace").encode(errors="replace")
    log = log if b"\n" in log else log.replace(b"\r", b"\n")
    learned = framing(log)
    seen = _scan(log, learned)
    intended = known_races(seen.races) if known_races and seen.races else ()
    own = {number for report, _ in intended for number in report.own}
    seen.signs = [each for each in seen.signs if each.line not in own]
    alive = bool(seen.banner or seen.report.streams)
    flaws = [(flaw, _FLAWS.get(flaw.kind, Verdict.FAIL)) for flaw in seen.report.flaws]
    doubts = {flaw.test: flaw.text for flaw, bad in flaws if bad is Verdict.FAIL}
    listed = frozenset(expected)
    named = [result for stream in seen.report.streams for result in _results(stream, listed, doubts, times)]
    problems = [*_signs(seen, named, bool(expected)), *_ending(seen, ending)]
    problems += [
        Problem(flaw.kind, flaw.line, flaw.text, bad, short_name(flaw.test))
        for flaw, bad in flaws
        if flaw.kind != "no-subtests" or flaw.test not in listed
    ]
    problems += _framed(seen, learned)
    crash = next((problem for problem in problems if problem.kind in ("panic", "hang", "died", "timeout")), None)
    tests = _accounted(named, expected, seen, crash, alive)
    problems += [Problem("known-race", report.line, f"{report.text}: {why}", Verdict.PASS) for report, why in intended]
    problems += _unexpected(tests, expected)
    problems += _required(tests, require)
    if not alive:
        if report := _KUNIT_PY.search(log):
            return _of_kunit_py(report[1].decode(errors="replace"), log.count(b"\n", 0, report.start()) + 1)
        said = "the log is empty" if not log.strip() else "no 'Linux version' line and no KTAP"
        problems = [replace(problem, verdict=Verdict.ERROR) for problem in problems if problem.kind != "no-tests"]
        problems.insert(0, Problem("no-banner", 0, f"the kernel did not boot: {said}", Verdict.ERROR))
    elif ending is Ending.KILLED:
        problems = [replace(each, verdict=Verdict.ERROR) if each.kind in _STOPPED else each for each in problems]
    if {test.outcome for test in tests} == {TestOutcome.SKIP}:
        problems.append(Problem("all-skipped", 0, "every test was skipped: nothing was tested", Verdict.INCONCLUSIVE))
    lost = Verdict.ERROR if not alive or ending is Ending.KILLED else Verdict.FAIL
    known = {TestOutcome.PASS: Verdict.PASS, TestOutcome.MISSING: lost, TestOutcome.CRASHED: lost}
    ran = [known.get(test.outcome, Verdict.FAIL) for test in tests if test.outcome is not TestOutcome.SKIP]
    return Judgement(worst([*ran, *(problem.verdict for problem in problems)]), tests, tuple(_few(problems)))


_KUNIT_PY = re.compile(rb"\] (?:\x1b\[[\d;]*m)?(Testing complete\. [^\r\n\x1b]{1,200})")


def _of_kunit_py(said: str, line: int) -> Judgement:
    """A report of kunit.py shows no message of the kernel for a test that passed."""
    bad = re.search(r"(?:failed|crashed|errors): [1-9]|\b[1-9]\d* (?:failed|crashed)", said, re.IGNORECASE)
    text = f"kunit.py reports: {said}. What the kernel said is only in its raw log, test.log in the build directory"
    verdict = Verdict.FAIL if bad else Verdict.INCONCLUSIVE
    return Judgement(verdict, (), (Problem("kunit-py", line, text, verdict),))


def _scan(log: bytes, learned: Framing | None) -> _Log:
    reader, races = Reader(), RaceReader()
    seen = _Log(bool(log) and not log.endswith(b"\n"), races.reports, Report((), (), 0))
    clock = 0.0
    for line in lines(log, learned):
        number = seen.last_line = line.number
        reader.feed(line)
        if line.stamp is not None:
            # Messages of several CPUs are not in order to the microsecond.
            if reader.started and line.stamp < clock - _CLOCK_SLACK_S:
                seen.back = seen.back or number
            clock = line.stamp
        found = sign(line)
        if found is not None or races.open:
            races.feed(line)
        if found is None:
            continue
        if found.kind == "banner":
            # Programs print the banner, too (/proc/version), but without the clock of a kernel that begins.
            if line.stamp is not None and line.stamp < _BOOT_S:
                _begins(seen, number, reader.last_line)
            seen.banner = seen.banner or number
            seen.newest = number
        elif found.kind == "start":
            _begins(seen, number, reader.last_line)
            seen.asked = seen.asked or "kunit_shutdown=" in found.text
        elif found.kind in ("shutdown", "job"):
            seen.shutdown = number
            seen.job = seen.job or (number if found.kind == "job" else 0)
        elif found.kind == "runner":
            seen.runner = number
        else:
            seen.signs.append(found)
    seen.report = reader.finish()
    seen.shutdown = seen.shutdown if seen.shutdown > seen.newest else 0
    return seen


def _begins(seen: _Log, number: int, tested: int) -> None:
    """A kernel begins. A second console replays the messages of the first one, but only before the tests."""
    if seen.banner and tested > seen.began and not seen.shutdown:
        seen.restarted = seen.restarted or number
    seen.began, seen.shutdown = number, 0


# Tests.


def _seconds(began: LogLine, ended: LogLine, times: Sequence[tuple[int, float]]) -> float | None:
    """By the kernel's clock or else the host's."""
    if began.stamp is not None and ended.stamp is not None:
        return round(max(0.0, ended.stamp - began.stamp), 6)
    first, last = (bisect_right(times, max(0, at.end - 1), key=itemgetter(0)) - 1 for at in (began, ended))
    return None if min(first, last) < 0 else round(max(0.0, times[last][1] - times[first][1]), 6)


def _results(
    stream: Stream, expected: frozenset[str], doubts: Mapping[str, str], times: Sequence[tuple[int, float]]
) -> Iterator[TestResult]:
    """Innermost tests, programs, listed tests, and failed tests without a failed subtest."""
    if stream.skipped is not None and not stream.tests:
        yield TestResult(f"plan of line {stream.line}", TestOutcome.SKIP, stream.skipped, line=stream.line)
    pending = [("", test, 0) for test in reversed(stream.tests)]
    while pending:
        above, test, depth = pending.pop()
        name = f"{above}:{test.name}" if above else short_name(test.name)
        pending.extend((name, each, depth + 1) for each in reversed(test.tests or ()))
        program = depth == 0 and test.name.startswith(PROGRAM)
        unexplained = test.status is Status.NOT_OK and _BROKEN.isdisjoint(each.status for each in test.tests or ())
        empty = test.tests is None or (not test.tests and test.status is Status.SKIP)
        if empty or program or unexplained or name in expected:
            yield _result(name, test, times, doubts.get(test.name, "") if program else "")


def _result(name: str, test: Test, times: Sequence[tuple[int, float]], doubt: str) -> TestResult:
    outcome, reason = _OUTCOMES[test.status], test.reason
    xfail = test.status is Status.XFAIL
    if xfail:
        reason = f"expected failure: {reason}".rstrip(": ")
    inside = {each.status for each in test.tests or ()}
    if inside & _BROKEN and test.status not in _BROKEN:
        outcome, reason = TestOutcome.FAIL, "a test inside it failed"
    elif test.status is Status.OK and inside == {Status.SKIP}:
        outcome, reason = TestOutcome.SKIP, first_reason(test.tests or ())
    elif test.doubt:
        outcome, reason = TestOutcome.FAIL, test.doubt
    elif doubt and outcome is TestOutcome.PASS:
        outcome, reason = TestOutcome.FAIL, doubt
    told = [line.rstrip() for line in test.log]
    if outcome in (TestOutcome.PASS, TestOutcome.SKIP):
        told = [line for line in told if line.lstrip().startswith("#")]
    seconds = _seconds(test.began, test.ended, times)
    kind = ExpectedFailure if xfail and outcome is TestOutcome.PASS else TestResult
    return kind(name, outcome, reason, seconds, tuple(told), test.line)


def _accounted(
    named: Sequence[TestResult], expected: Collection[str], seen: _Log, crash: Problem | None, alive: bool
) -> tuple[TestResult, ...]:
    """One result for each name, the expected ones that are not in the log behind the others."""
    found: dict[str, TestResult] = {}
    for result in named:
        before = found.get(result.name)
        if before is None or _WORST_FIRST.index(result.outcome) < _WORST_FIRST.index(before.outcome):
            found[result.name] = result
    running = _running(seen, found, expected)
    why = f"{crash.kind}: {crash.text}" if crash else ("not in the log" if alive else "the kernel did not boot")
    if running:
        before = found.get(running, TestResult(running, TestOutcome.CRASHED))
        reason = f"was running when the log stopped ({why})"
        found[running] = replace(before, outcome=TestOutcome.CRASHED, reason=reason)
    for name in expected:
        if name not in found:
            found[name] = _absent(name, found, why)
    return tuple(found.values())


def _running(seen: _Log, found: dict[str, TestResult], expected: Collection[str]) -> str:
    """The test that was running when the log stopped, as far as the log and the list show."""
    if not seen.report.streams or not seen.report.streams[-1].running:
        return ""
    path = seen.report.streams[-1].running
    name = ":".join((short_name(path[0]), *path[1:]))
    if path[0].startswith(PROGRAM):
        return name
    if len(path) > 1 and name in expected:
        return name
    # KUnit names a case only when it ends. So take the first listed test of the suite that has no result.
    ordered = expected if isinstance(expected, Sequence) else ()
    return next((each for each in ordered if each.startswith(f"{path[0]}:") and each not in found), name)


def _absent(name: str, found: dict[str, TestResult], why: str) -> TestResult:
    """A listed test without a result: SKIP if its case or suite was skipped, else MISSING."""
    for above in (found[prefix] for prefix in reversed(_prefixes(name)[:-1]) if prefix in found):
        if above.outcome is TestOutcome.SKIP:
            return TestResult(name, TestOutcome.SKIP, above.reason, line=above.line)
        if above.outcome is TestOutcome.FAIL:
            return TestResult(name, TestOutcome.MISSING, f"{above.name} failed before it", line=above.line)
    return TestResult(name, TestOutcome.MISSING, why)


def _prefixes(name: str) -> list[str]:
    """The suite, its case, ... and the name itself."""
    parts = name.split(":", 7)
    return [":".join(parts[:length]) for length in range(1, len(parts) + 1)]


# Problems.


def _signs(seen: _Log, named: Sequence[TestResult], listed: bool) -> Iterator[Problem]:
    """Panics and splats, each with the test that ended next."""
    ends = sorted((result.line, result.name) for result in named)
    for each in reports(seen.signs):
        place = bisect_left(ends, (each.line, ""))
        test = ends[place][1] if place < len(ends) else ""
        yield Problem(each.kind, each.line, each.text, Verdict.FAIL, test)
    for each in seen.signs:
        if each.kind in ("kunit", "disabled"):
            # If there is a list of tests, the list decides whether KUnit had to run.
            meant = listed and each.kind == "disabled"
            yield Problem("kunit", each.line, each.text, Verdict.PASS if meant else Verdict.FAIL)
        elif each.kind == "lost" and seen.report.streams and each.line > seen.report.streams[0].line:
            text = f"messages of the kernel are missing among the tests: {each.text}"
            yield Problem("lost", each.line, text, Verdict.INCONCLUSIVE)
        elif each.kind == "runner-error" or (each.kind == "exit" and each.line > seen.report.last_line):
            yield Problem("runner", each.line, each.text, Verdict.INCONCLUSIVE)
    if seen.restarted:
        yield Problem("restart", seen.restarted, "the kernel started again without having shut down", Verdict.FAIL)
    elif seen.back:
        text = "the kernel's clock goes back: this is more than one boot, or lines are missing"
        yield Problem("clock", seen.back, text, Verdict.INCONCLUSIVE)
    if seen.job and seen.job < max(seen.report.last_line, seen.newest):
        text = "the log goes on after the end of LAVA's job: judge each job by itself"
        yield Problem("two-jobs", seen.job, text, Verdict.INCONCLUSIVE)


def _framed(seen: _Log, learned: Framing | None) -> Iterator[Problem]:
    """What a transport put before the lines: a remark if it was understood, and no pass if not."""
    if learned and learned.alien:
        text = f"KTAP begins behind {learned.example!r}, and this line of KTAP does not"
        yield Problem("framing", learned.alien, text, Verdict.INCONCLUSIVE)
    elif learned:
        yield Problem("framing", 0, f"taken off each line: {learned.example!r}", Verdict.PASS)
    for each in seen.signs:
        if each.kind == "framed":
            text = f"a report of the kernel behind something that is not understood: {each.text}"
            yield Problem("framing", each.line, text, Verdict.INCONCLUSIVE)


def _ending(seen: _Log, ending: Ending) -> Iterator[Problem]:
    streams = seen.report.streams
    panicked = any(each.kind == "panic" for each in seen.signs)
    running = streams[-1].running if streams else ()
    if not streams:
        yield Problem("no-tests", seen.last_line, "no KTAP in the log: no test ran", Verdict.FAIL)
    if ending is Ending.TIMED_OUT:
        if running:
            # KUnit prints the result of a case without a newline, so the console shows it only with the next message.
            held = "; the last result may be held back in the kernel" if streams[-1].kunit else ""
            text = f"the log stops inside {':'.join(running)} and the run timed out{held}"
            yield Problem("hang", seen.last_line, text, Verdict.FAIL, running[-1])
        else:
            yield Problem("timeout", seen.last_line, f"timed out {_where(streams)}", Verdict.FAIL)
    elif ending is Ending.DIED and not panicked:
        yield Problem("died", seen.last_line, f"the emulator died {_where(streams)}", Verdict.ERROR)
    elif ending is Ending.KILLED:
        yield Problem("killed", seen.last_line, f"the run was interrupted {_where(streams)}", Verdict.ERROR)
    elif ending is Ending.EXITED and seen.banner and not seen.shutdown and not panicked:
        text = "the kernel exited, but the log does not show that it shut down"
        yield Problem("no-shutdown", seen.last_line, text, Verdict.FAIL)
    elif ending is Ending.UNKNOWN and not panicked and (seen.banner or streams):
        yield from _saved_end(seen)


def _saved_end(seen: _Log) -> Iterator[Problem]:
    streams, behind = seen.report.streams, seen.report.last_line
    last = streams[-1] if streams else None
    if seen.shutdown and seen.shutdown >= behind:
        return
    if last and not seen.banner and (last.totals or seen.runner > behind or not last.complete):
        return  # the runner's last message, or an incomplete plan, which is a flaw already
    if seen.shutdown:
        why = f"tests follow the shutdown in line {seen.shutdown}"
    elif seen.asked:
        why = "the command line asks for a shutdown after the tests (kunit_shutdown=), and the log has none"
    elif seen.cut:
        why = "the last line is cut off"
    elif last and last.complete and (last.stamped or not seen.banner):
        text = "all planned tests ended, but the log does not show what followed: it passes as far as it goes"
        yield Problem(OPEN_END, seen.last_line, text, Verdict.PASS)
        return
    else:
        why = "the last message of the kernel is missing"
    advice = "save the log to its end" + ("" if seen.banner else ", or say --ending exited if you saw it end")
    text = f"the end of the log may be missing: {why}; {advice}"
    yield Problem("no-shutdown", seen.last_line, text, Verdict.INCONCLUSIVE)


def _where(streams: Sequence[Stream]) -> str:
    if not streams:
        return "before the first test"
    return "after the last test" if all(stream.complete for stream in streams) else "between two tests"


def _unexpected(tests: Iterable[TestResult], expected: Collection[str]) -> Iterator[Problem]:
    """Tests of a listed suite that are not in the list."""
    listed = set(expected)
    suites = {name.split(":")[0] for name in listed}
    above = {prefix for name in listed for prefix in _prefixes(name)[:-1]}
    for test in tests:
        if test.name.split(":")[0] not in suites or test.name in above:
            continue
        if listed.isdisjoint(_prefixes(test.name)):
            text = f"unexpected test: {test.name} (the list of tests is stale)"
            yield Problem("unexpected", test.line, text, Verdict.FAIL, test.name)


def _required(tests: Sequence[TestResult], require: Collection[str]) -> Iterator[Problem]:
    for wanted in require:
        # A test, its case or suite, its public id (`rd-lines.R1`) or its change (`rd-lines`).
        matching = [
            test
            for test, last in ((test, test.name.rpartition(":")[2]) for test in tests)
            if wanted in (test.name, last) or test.name.startswith(f"{wanted}:") or last.startswith(f"{wanted}.")
        ]
        if not matching:
            yield Problem("require", 0, f"--require {wanted}: no such test", Verdict.ERROR)
        for test in matching:
            if test.outcome is TestOutcome.SKIP:
                text = f"--require {wanted}: {test.name} was skipped ({test.reason or 'no reason given'})"
                yield Problem("require", test.line, text, Verdict.ERROR, test.name)


def _few(problems: Sequence[Problem]) -> Iterator[Problem]:
    """The first problems of each kind, and how many more there are."""
    kinds: dict[str, list[Problem]] = {}
    for problem in problems:
        same = kinds.setdefault(problem.kind, [])
        same.append(problem)
        if len(same) <= MOST_PROBLEMS:
            yield problem
    for kind, same in kinds.items():
        if more := same[MOST_PROBLEMS:]:
            yield Problem(kind, more[0].line, f"and {len(more)} more", worst(problem.verdict for problem in same))
