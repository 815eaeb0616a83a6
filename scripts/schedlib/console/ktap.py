# SPDX-License-Identifier: GPL-2.0
"""A strict reader of KTAP and TAP 13 in console logs.

The kernel's own parser is lenient. This one records everything unusual as a flaw and leaves the verdict to the judge.
It reads KUnit (nested, four spaces a level) and run_kselftest.sh (flat; the output of a program follows `# `). It never
raises, and the cost of a line does not depend on its position.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from schedlib.console.log_lines import EXPECTATION, LogLine


class Status(Enum):
    """What a result line says."""

    OK = "ok"
    NOT_OK = "not ok"
    SKIP = "skip"
    XFAIL = "xfail"
    NONE = "no result line"


class Flaw(NamedTuple):
    """Something that a well-formed stream does not have."""

    kind: str
    line: int
    text: str
    test: str = ""


@dataclass(frozen=True, slots=True)
class Test:
    """One test with its subtests.

    Attributes:
        tests: None for a test that announced no subtests.
        doubt: why it counts as failed although its result does not say so; else empty.
    """

    name: str
    status: Status
    reason: str
    line: int
    began: LogLine
    ended: LogLine
    log: tuple[str, ...]
    tests: tuple[Test, ...] | None = None
    doubt: str = ""

    def leaves(self) -> Iterator[Test]:
        """The innermost tests. Not recursive, because the input decides the depth."""
        pending = [self]
        while pending:
            test = pending.pop()
            if test.tests is None:
                yield test
            else:
                pending.extend(reversed(test.tests))


@dataclass(frozen=True, slots=True)
class Stream:
    """One run of a harness: from its version line to the next stream, or to the end of the log.

    Attributes:
        kunit: whether its results are suites, each with a nested stream of its own.
        running: names of the tests that have begun and have no result, outermost first.
        complete: whether the number of the last result is that of the plan.
        skipped: the reason, if the plan says that there is nothing to run (`1..0 # SKIP reason`).
        stamped: whether the last result carries the kernel's clock, as dmesg prints it.
        totals: whether the harness printed its totals after the last result, as run_kselftest.sh does.
    """

    line: int
    kunit: bool
    tests: tuple[Test, ...]
    running: tuple[str, ...]
    complete: bool
    skipped: str | None
    stamped: bool
    totals: bool


@dataclass(frozen=True, slots=True)
class Report:
    """All streams of a log, all flaws, and the number of the last line that is a result, a plan or a version."""

    streams: tuple[Stream, ...]
    flaws: tuple[Flaw, ...]
    last_line: int


_HEADER = re.compile(r"(K?TAP) version \d{1,3} *$", re.ASCII)
_PLAN = re.compile(r"1\.\.(\d{1,9}) *(?:# *skip\w*:? *(.*))?$", re.IGNORECASE | re.ASCII)
_RESULT = re.compile(r"(not )?ok (\d{1,9})(?: (.*))?$", re.ASCII)
_DIRECTIVE = re.compile(r"(skip|xfail|todo|timeout|error|xpass)\w*:? *(.*)$", re.IGNORECASE | re.ASCII)
_DESCRIBED = re.compile(r"([a-z][a-z0-9.-]*): ")
"""The description of a parameter: its public name, and what it stands for."""

_FAILED_REMARK = re.compile(r"(?:timeout|error)\b|exit=[1-9]", re.IGNORECASE)
_ALMOST = re.compile(r"(?:not )?ok(?:\s|$)|K?TAP version|1\.\.\d")
_SUBTEST = re.compile(r"# Subtest: (.*)$")
_PROGRAM = re.compile(r"# selftests: (?!Totals:)([^ :]+): (\S.*)$")
_COUNTS = re.compile(r"# (.{1,200}): pass:(\d{1,9}) fail:(\d{1,9}) skip:(\d{1,9}) total:(\d{1,9})$")
_TOTALS = re.compile(
    r"# Totals: pass:(\d{1,9}) fail:(\d{1,9}) xfail:(\d{1,9}) xpass:(\d{1,9}) skip:(\d{1,9}) error:(\d{1,9})$"
)
_SIGNAL = (
    "Aborted|Segmentation fault|Bus error|Illegal instruction|Floating point exception|Killed|Trace/breakpoint trap"
)
_DIED = re.compile(
    rf"(?:# *)*(?:(?:{_SIGNAL})(?: +\(core dumped\))?$|.{{0,200}}: line \d+: +\d+ (?:{_SIGNAL})\b|"
    r"(?:=+\d+=+ ?)?ERROR: (?:Address|HWAddress|Leak|Memory|Thread)Sanitizer: |.{0,200}: Assertion `.*' failed\.$|"
    r"\*\*\* stack smashing detected|(?:free|malloc|realloc|munmap_chunk)\(\): |double free or corruption|"
    r"timeout: the monitored command dumped core|.{0,200}: Test terminated (?:unexpectedly )?by |"
    r"FAILED: \d{1,6} / \d{1,6} tests passed|.{0,40}Summary: .{1,60}, [1-9]\d* FAILED|"
    r"SUMMARY: PASS=\d+ SKIP=\d+ FAIL=[1-9]|(?:of|Tests) failed: +[1-9]|[1-9]\d* tests? failed\b|"
    r"\w+: failed [1-9]\d* out of |.{0,200}: Exec format error$)"
)
"""What a shell, libc or a sanitizer says of a program that died, and a program of its tests that failed."""
_DIED_WORDS = re.compile(
    r"bort|fault|error|Illegal|exception|Kill|trap|Sanitizer|failed|smashing|terminated|FAIL|\(\): |double|dumped"
)
_PARAMETER = re.compile(r"# [\w-]{1,200}: (not )?ok (\d{1,9})(?: (.*))?$", re.ASCII)
"""The result of a parameter in kernels before 5.19."""
_HINT = re.compile(r"# ([\w-]{1,200}): ")
_FIRST = frozenset("onKT1B")

PROGRAM = "selftests: "
"""Test names of run_kselftest.sh begin with this."""
_NOTHING = "1..0"
DEEPEST = 8
LONGEST_LOG = 500
"""The maximum number of log lines kept for one test; older lines are dropped."""
LONGEST_QUOTE = 500
"""Characters of a line that a flaw quotes."""


@dataclass(slots=True)
class _Frame:
    """A level that is being read: a stream, or the subtests of a test whose result is still to come."""

    indent: int
    began: LogLine
    name: str = ""
    header: bool = True
    plan: int | None = None
    skipped: str | None = None
    number: int = 0
    tests: list[Test] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    totals: bool = False


class Reader:
    """Reads a log: feed() takes each line, finish() returns the report.

    With `inner` it reads the output of a kselftest program, from which `# ` is removed.
    """

    def __init__(self, *, inner: bool = False) -> None:
        self._inner = inner
        self._stack: list[_Frame] = []
        self._kunit = False
        self._streams: list[Stream] = []
        self._flaws: list[Flaw] = []
        self._suites: set[str] = set()
        self._log: deque[str] = deque(maxlen=LONGEST_LOG)
        self._counts: list[tuple[int, str, tuple[int, ...]]] = []
        self._here = self._line = LogLine(0, 0, None, "")
        self._hint = ""
        self._parameters: list[Test] = []
        self._program: tuple[str, LogLine] | None = None
        self._inside: Reader | None = None
        self._failed: LogLine | None = None  # the first failed expectation that is not accounted for yet
        self._died: LogLine | None = None  # a program died, and no result says so yet
        self._not_ok: set[str] = set()
        self.last_line = 0

    @property
    def started(self) -> bool:
        """Whether there was any KTAP so far."""
        return bool(self._stack or self._streams)

    def _headed(self) -> bool:
        """Whether the KTAP so far began with a version line."""
        return bool(self._streams or (self._stack and self._stack[0].header))

    def feed(self, line: LogLine) -> None:
        body = line.text.lstrip(" ")
        first = body[:1]
        if self._failed is None and not self._inner and "FAILED at " in body:
            found = EXPECTATION.search(body)
            if found and found[1] not in self._not_ok:
                self._failed = line
        if self._died is None and self._stack and not self._inner and not self._kunit and _DIED_WORDS.search(body):
            self._died = line if _DIED.match(body) else None
        if first == "#":
            self._line = line
            self._comment(body, len(line.text) - len(body))
        elif first in _FIRST and _ALMOST.match(body):
            self._line = line
            self._ktap(body.rstrip(), len(line.text) - len(body))
        elif first == "B" and body.startswith("Bail out!"):
            self._line = line
            self._flaw("bail-out", body)
        elif self._stack:
            self._log.append(line.text)

    def finish(self) -> Report:
        self._close_stream(at_end=True)
        self._unaccounted()
        return Report(tuple(self._streams), tuple(self._flaws), self.last_line)

    # Lines.

    def _ktap(self, body: str, indent: int) -> None:
        if header := _HEADER.match(body):
            self._header(header[1] == "KTAP", indent)
        elif plan := _PLAN.match(body):
            self._plan(int(plan[1]), plan[2], indent)
        elif result := _RESULT.match(body):
            self._result(result[1] is None, int(result[2]), result[3] or "", indent)
        else:
            if self._stack:
                self._flaw("malformed", body)
                self._log.append(self._line.text)
            return
        if self._line.cut:
            self._flaw({"printk": "interleaved", "end": "truncated"}[self._line.cut], body)
        self._here = self._line
        self.last_line = self._line.number

    def _comment(self, body: str, indent: int) -> None:
        body = body.rstrip()
        if subtest := _SUBTEST.match(body):
            self._subtest(subtest[1], indent)
            return
        if not self._stack:
            return
        top = self._stack[-1]
        if found := _COUNTS.match(body):
            self._counts.append((self._line.number, found[1], tuple(int(value) for value in found.groups()[1:])))
        elif found := _TOTALS.match(body):
            passed, failed, xfail, xpass, skipped, error = map(int, found.groups())
            counts = (passed + xfail + xpass, failed + error, skipped)
            self._compare(self._line.number, "Totals", (*counts, sum(counts)), top.tests)
            top.totals = True
        elif len(self._stack) > 1 and (found := _PARAMETER.match(body)):
            said = self._split(found[1] is None, int(found[2]), found[3] or "")
            self._parameters.append(Test(*said, self._line.number, self._line, self._line, ()))
        elif "Planned tests != run tests" in body:
            self._flaw("other-totals", body)
        elif len(self._stack) == 1 and not self._inner and indent == 0:
            if found := _PROGRAM.match(body):
                if self._program:
                    self._unfinished(*self._program)
                self._program = (f"{PROGRAM}{found[1]}: {found[2]}", self._line)
                self._log.clear()
                self._inside = Reader(inner=True)
                return
            if self._inside:
                self._inside.feed(self._line._replace(text=body[2:]))
        elif (hint := _HINT.match(body)) and top.plan is not None:
            self._hint = hint[1]  # attributes (`# module: x`) come before the plan, messages of a case after it
        self._log.append(self._line.text)

    def _header(self, ktap: bool, indent: int) -> None:
        if not self._stack or indent <= self._stack[0].indent:
            self._close_stream()
            self._unaccounted()
            self._open_stream(_Frame(indent, self._line), kunit=ktap)
            return
        while len(self._stack) > 1 and self._stack[-1].indent >= indent:
            self._orphan(self._stack.pop())
        self._open(_Frame(indent, self._line))

    def _subtest(self, name: str, indent: int) -> None:
        if not self._stack or indent < self._stack[0].indent:
            return
        top = self._stack[-1]
        # Kernels before 6.2 begin the subtests with only this line; in newer ones it follows the version line.
        if indent > top.indent:
            self._open(_Frame(indent, self._line))
        elif indent < top.indent or top.name or top.tests:
            self._flaw("missing-header", f"# Subtest: {name}")
            return
        self._stack[-1].name = name

    def _plan(self, count: int, skipped: str | None, indent: int) -> None:
        top = self._frame_at(indent, "plan")
        if top.indent != indent:
            self._flaw("stray-plan", self._line.text)
        elif top.plan is not None:
            self._flaw("duplicate-plan", self._line.text)
        else:
            # TAP allows the plan at the end; KUnit prints it first.
            if top.tests and self._kunit:
                self._flaw("late-plan", self._line.text)
            top.plan, top.skipped = count, None if count else skipped
            if count == 0 and skipped is None and len(self._stack) == 1:
                self._flaw("empty-plan", self._line.text)

    def _frame_at(self, indent: int, what: str) -> _Frame:
        """The open level of an indentation. If its version line is missing, open the level and record a flaw."""
        if not self._stack:
            if not self._inner:
                self._flaw("missing-header", f"{what} before any version line: {self._line.text.strip()}")
            self._open_stream(_Frame(indent, self._line, header=False), kunit=False)
        elif self._stack[-1].indent < indent:
            self._flaw("missing-header", f"{what} without a version line: {self._line.text.strip()}")
            self._open(_Frame(indent, self._line, header=False))
        return self._stack[-1]

    def _result(self, ok: bool, number: int, text: str, indent: int) -> None:
        name, status, reason = self._split(ok, number, text)
        if len(self._stack) > 2 and self._kunit and (described := _DESCRIBED.match(name)):
            name = described[1]
        tests: tuple[Test, ...] | None = None
        began = self._here if self._stack else self._line
        while len(self._stack) > 1 and self._stack[-1].indent > indent:
            if self._stack[-2].indent < indent:
                break
            frame = self._stack.pop()
            if self._stack[-1].indent > indent:
                self._orphan(frame)
                continue
            self._check(frame)
            tests, began = tuple(frame.tests), frame.began
            if frame.plan == 0 and status is not Status.SKIP:
                self._flaw("empty-plan", f"{name!r} has no tests and is not skipped", name)
            if frame.name and frame.name != name:
                self._flaw("name-mismatch", f"result of {name!r} after the subtests of {frame.name!r}", name)
        if tests is None and self._parameters:
            tests = tuple(self._parameters)
        self._parameters.clear()
        top = self._frame_at(indent, "result")
        if top.indent != indent:
            self._flaw("malformed", f"unexpected indentation: {self._line.text}")
        doubt = ""
        if status is Status.NOT_OK:
            self._failed = self._died = None
            if tests is None:
                self._not_ok.add(name)
        elif self._failed:
            doubt = f"one of its expectations failed, but its result is {status.value!r}"
            self._unaccounted(f"the result of {name!r} is {status.value!r}", name)
        elif self._died:
            if status is Status.OK:
                said = self._died.text.strip()[:LONGEST_QUOTE]
                doubt = f"a program died or failed before it, in line {self._died.number}: {said}"
            self._died = None
        test = Test(name, status, reason, self._line.number, began, self._line, tuple(self._log), tests, doubt)
        if len(self._stack) == 1 and not self._inner:
            if name.startswith(PROGRAM):
                self._kunit = False
            test = self._program_result(test)
        self._log.clear()
        self._add(top, self._consistent(test), number)

    def _split(self, ok: bool, number: int, text: str) -> tuple[str, Status, str]:
        name, _, remark = text.partition("# ") if text.startswith("# ") else text.partition(" # ")
        if text.endswith(" #"):
            name = text[:-2]
        name, remark = name.removeprefix("- ").strip(), remark.strip()
        status = Status.OK if ok else Status.NOT_OK
        if directive := _DIRECTIVE.match(remark):
            word = directive[1].lower()
            excused = ok or not self._kunit  # KUnit has no expected failures, and its skips are `ok`
            if word == "skip" and excused:
                return name or f"#{number}", Status.SKIP, directive[2]
            if word in ("xfail", "todo") and excused:
                return name or f"#{number}", Status.XFAIL, directive[2]
        if ok and _FAILED_REMARK.match(remark):
            self._flaw("contradiction", self._line.text.strip(), name)
            status = Status.NOT_OK
        return name or f"#{number}", status, remark

    # Levels.

    def _open_stream(self, frame: _Frame, *, kunit: bool) -> None:
        self._stack = [frame]
        self._kunit = kunit and not self._inner
        self._here = frame.began
        self._inside = None if self._inner else Reader(inner=True)
        self._program = None
        self._hint = ""
        self._log.clear()
        self._counts.clear()

    def _open(self, frame: _Frame) -> None:
        if len(self._stack) >= DEEPEST:
            self._flaw("too-deep", self._line.text.strip())
            return
        self._stack.append(frame)
        self._here = frame.began
        self._hint = ""

    def _orphan(self, frame: _Frame, *, at_end: bool = False) -> None:
        """Add a level without a result line to its parent, with its tests."""
        name = frame.name or "?"
        self._flaw("truncated" if at_end else "no-result", f"no result line for {name!r}", name)
        self._check(frame)
        lost = Test(
            name, Status.NONE, "no result line", frame.began.number, frame.began, self._here, (), tuple(frame.tests)
        )
        self._stack[-1].tests.append(lost)

    def _check(self, frame: _Frame) -> None:
        """Compare the plan of a level that ends here with the number of its last result."""
        # KUnit prints no plan for parameters that a generator makes, and a shell test may print bare result lines.
        optional = len(self._stack) >= 2 or (self._inner and not frame.header)
        where = frame.name or f"the stream of line {frame.began.number}"
        if frame.plan is None:
            if not optional:
                self._flaw("missing-plan", f"no plan for {where}", frame.name)
        elif frame.plan != frame.number and not (self._inner and frame.skipped is not None):
            few = not self._stack and not self._inner and frame.number < frame.plan
            kind = "missing-suite" if few else "bad-plan"
            self._flaw(kind, f"{where}: plan 1..{frame.plan}, last result is number {frame.number}", frame.name)

    def _close_stream(self, *, at_end: bool = False) -> None:
        if not self._stack:
            return
        running = [frame.name or "?" for frame in self._stack[1:]]
        while len(self._stack) > 1:
            self._orphan(self._stack.pop(), at_end=at_end)
        if running and self._hint:
            running.append(self._hint)
        if self._program:
            running.append(self._program[0])
            self._unfinished(*self._program)
        elif self._inside and self._inside._headed():
            self._flaw("no-result", "output of a program without its result line")
        frame = self._stack.pop()
        self._check(frame)
        if self._died:
            self._flaws.append(Flaw("program-died", self._died.number, self._died.text.strip()[:LONGEST_QUOTE]))
            self._died = None
        inside = (frame.began.number, self._kunit, tuple(frame.tests), tuple(running), frame.plan == frame.number)
        self._streams.append(Stream(*inside, frame.skipped, self._here.stamp is not None, frame.totals))

    def _add(self, frame: _Frame, test: Test, number: int) -> None:
        if number != frame.number + 1:
            self._flaw("bad-number", f"result {number} follows {frame.number}: {self._line.text.strip()}", test.name)
        frame.number = number
        frame.totals = False
        suite = len(self._stack) == 1 and self._kunit
        if test.name in frame.names or (suite and test.name in self._suites):
            if self._inner or not (self._kunit or test.name.startswith(PROGRAM)):
                # A program may use a name again: its tests are known by their numbers.
                test = replace(test, name=f"{test.name} (result {number})")
            else:
                # Parameters may share a description; a case or a suite that appears twice ran twice.
                kind = "duplicate-name" if len(self._stack) > 2 else "duplicate"
                self._flaw(kind, f"{test.name!r} appears twice", test.name)
        frame.names.add(test.name)
        if suite:
            self._suites.add(test.name)
            if test.tests is None and test.status in (Status.OK, Status.XFAIL):
                self._flaw("no-subtests", f"{test.name!r} passed without any test in it", test.name)
        frame.tests.append(test)
        self._hint = ""

    # Consistency of a result with its subtests.

    def _consistent(self, test: Test) -> Test:
        inside = test.tests or ()
        for line, name, counts in self._counts:
            if name in (test.name, "Totals"):
                self._compare(line, name, counts, test.leaves() if name == "Totals" else inside or (test,))
        self._counts.clear()
        if test.tests is None:
            return test
        statuses = {each.status for each in inside}
        if test.status is not Status.NOT_OK and statuses & {Status.NOT_OK, Status.NONE}:
            self._flaw("parent-ok", f"{test.name!r} is {test.status.value} although one of its tests failed", test.name)
        elif test.status is Status.SKIP and Status.OK in statuses and not test.name.startswith(PROGRAM):
            self._flaw("contradiction", f"{test.name!r} is skipped although one of its tests ran", test.name)
        elif test.status is Status.OK and statuses == {Status.SKIP}:
            self._flaw("skip-as-pass", f"{test.name!r} passed although all of its tests were skipped", test.name)
        elif test.status is Status.OK and test.tests == () and len(self._stack) > 1:
            self._flaw("no-subtests", f"{test.name!r} passed without any test in it", test.name)
        if test.status is Status.SKIP and not test.reason:
            return replace(test, reason=first_reason(inside))
        return test

    def _compare(self, line: int, name: str, counts: tuple[int, ...], tests: Iterable[Test]) -> None:
        found = [each.status for each in tests if each.status is not Status.NONE]
        failed, skipped = found.count(Status.NOT_OK), found.count(Status.SKIP)
        seen = (len(found) - failed - skipped, failed, skipped, len(found))
        if seen != counts:
            said = "pass:{} fail:{} skip:{} total:{}"
            text = f"{name}: log says {said.format(*counts)}, found {said.format(*seen)}"
            self._flaws.append(Flaw("bad-totals" if counts[1] > failed else "other-totals", line, text, name))

    # kselftest programs.

    def _unfinished(self, name: str, began: LogLine) -> None:
        self._flaw("no-result", f"no result line for {name!r}", name)
        tests = self._take_inner(name)
        lost = Test(name, Status.NONE, "no result line", began.number, began, self._here, tuple(self._log), tests)
        self._stack[0].tests.append(lost)

    def _take_inner(self, name: str) -> tuple[Test, ...] | None:
        """The tests that the program printed as TAP of its own; also starts a new reader for the next program."""
        self._program = None
        if self._inside is None or not self._inside.started:
            return None
        report = self._inside.finish()
        self._inside = Reader(inner=True)
        self._flaws.extend(flaw._replace(test=name) for flaw in report.flaws)
        tests = [test for stream in report.streams for test in stream.tests]
        for stream in report.streams:
            if stream.skipped is not None:
                tests.append(Test(_NOTHING, Status.SKIP, stream.skipped, stream.line, self._line, self._line, ()))
        return tuple(tests)

    def _program_result(self, test: Test) -> Test:
        """The result of a program, with the tests that it printed as its subtests."""
        if self._program:
            if self._program[0].endswith(f": {test.name}"):
                test = replace(test, name=self._program[0])
            elif self._program[0] != test.name:
                text = f"result of {test.name!r} after the start of {self._program[0]!r}"
                self._flaw("name-mismatch", text, test.name)
            test = replace(test, began=self._program[1])
        if self._inside and not (self._program or test.name.startswith(PROGRAM) or self._inside._headed()):
            # Remarks that begin with `ok 7` are no results of a program.
            self._inside = Reader(inner=True)
        inner = self._take_inner(test.name)
        if test.status is Status.SKIP and test.name.startswith(PROGRAM):
            # The harness prints no reason. It is in the program's own plan or result, or else in its last line.
            said = test.log[-1].removeprefix("# ") if test.log else ""
            test = replace(test, reason=test.reason or first_reason(inner or ()) or said)
            inner = tuple(each for each in inner or () if each.name != _NOTHING) or None
        return test if inner is None else replace(test, tests=(test.tests or ()) + inner)

    def _unaccounted(self, why: str = "no result follows to which it could belong", test: str = "") -> None:
        """Record a flaw if a failed expectation is not followed by a failed result."""
        if self._failed:
            text = f"{self._failed.text.strip()[:LONGEST_QUOTE]}: {why}"
            self._flaws.append(Flaw("expectation", self._failed.number, text, test))
            self._failed = None

    def _flaw(self, kind: str, text: str, test: str = "") -> None:
        self._flaws.append(Flaw(kind, self._line.number, text, test))


def short_name(name: str) -> str:
    """`collection:program` of `selftests: collection: program`; other names as they are."""
    return name.removeprefix(PROGRAM).replace(": ", ":", 1) if name.startswith(PROGRAM) else name


def first_reason(tests: Iterable[Test]) -> str:
    """The reason of the first skipped test that has one."""
    return next((test.reason for test in tests if test.status is Status.SKIP and test.reason), "")
