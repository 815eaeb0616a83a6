# SPDX-License-Identifier: GPL-2.0
"""`schedline judge`: the verdict on saved console logs."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from schedlib.cache import write_atomic, write_json
from schedlib.console.expected import load_expected
from schedlib.console.judge import Ending, Judgement, Outcome, TestResult, judge
from schedlib.console.races import load_known_races
from schedlib.errors import SchedlineError
from schedlib.formats.results import Boot, check_document, junit_document, problem_text
from schedlib.options import ids
from schedlib.verdict import Verdict, worst

_DESCRIPTION = """\
Judges saved console logs with KUnit or kselftest output as `schedline check` judges its own: from the whole log,
against the list of tests that had to run, with panics, splats, missing plans and lost tests as failures."""

_EXAMPLES = """\
examples:
  schedline judge console.log
  schedline judge --tests kunit/tests.txt --cpus 8 console.log
  schedline judge --require sched_layout --junit junit.xml uml-8.log uml-64.log
  dmesg | schedline judge -

A list of tests has one full name on each line (suite:case or suite:case:parameter), `#` comments, and after a name
optionally `classes=8,64`: only guests with so many CPUs run it.
"""

_ENDINGS = {ending.value.replace(" ", "-"): ending for ending in Ending}
_SHOWN_LINES = 60


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline judge`."""
    parser = subparsers.add_parser(
        "judge",
        help="the verdict on saved console logs",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("logs", nargs="+", metavar="LOG", help="console log; - is standard input")
    parser.add_argument("--tests", type=Path, metavar="FILE", help="list of the tests that had to run")
    parser.add_argument("--cpus", type=int, metavar="N", help="CPUs of the guest: which classes of the list count")
    parser.add_argument("--require", type=ids, default=(), metavar="ID,...", help="a skip of these is an error")
    parser.add_argument("--ending", choices=sorted(_ENDINGS), default="unknown", help="how the run ended, if you know")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON (schema check-1)")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the results as JUnit XML")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Judge the logs and print what was found; the exit code of the worst verdict."""
    started = datetime.now(UTC)
    expected = load_expected(args.tests, args.cpus) if args.tests else ()
    if args.cpus is not None and not args.tests:
        raise SchedlineError("--cpus chooses from a list of tests, and there is none", "add --tests FILE")
    ending = _ENDINGS[args.ending]
    boots, races = [], load_known_races()
    for name, log in zip(_names(args.logs), args.logs, strict=True):
        judgement = judge(_content(log), expected, ending=ending, require=args.require, known_races=races)
        boots.append(Boot(name, (), ending, Path(log), None, judgement))
    verdict = worst(boot.judgement.verdict for boot in boots)
    try:
        if args.json:
            write_json(args.json, check_document(started=started, fingerprint={}, verdict=verdict, boots=boots))
        if args.junit:
            write_atomic(args.junit, junit_document(boots))
    except OSError as error:
        raise SchedlineError(
            f"the results cannot be written: {error}", "name a file in a writable directory"
        ) from error
    for boot in boots:
        print("\n".join(_shown(boot, many=len(boots) > 1)))
    if len(boots) > 1:
        print(f"verdict: {verdict.name}")
    return verdict.exit_code


def _content(log: str) -> bytes:
    if log == "-":
        content = sys.stdin.buffer.read()
    else:
        try:
            content = Path(log).read_bytes()
        except OSError as error:
            raise SchedlineError(f"the log {log} cannot be read: {error.strerror}", "name a console log") from error
    if not content:
        raise SchedlineError(f"the log {log} is empty: there is nothing to judge", "save the whole console output")
    return content


def _names(logs: Sequence[str]) -> list[str]:
    """A name for each log: that of the file where it tells them apart, else the path."""
    short = ["stdin" if log == "-" else Path(log).stem or log for log in logs]
    return [name if short.count(name) == 1 else f"{index}-{name}" for index, name in enumerate(short, 1)]


def _shown(boot: Boot, *, many: bool) -> list[str]:
    """Failures first, then problems, counts, skips and the verdict."""
    judgement = boot.judgement
    out = [f"== {boot.log}"] if many else []
    for test in judgement.tests:
        if test.outcome not in (Outcome.PASS, Outcome.SKIP):
            out += _failure(test)
    for problem in judgement.problems:
        out.append(f"{'note' if problem.verdict is Verdict.PASS else problem.verdict.name}: {problem_text(problem)}")
    counts = Counter(test.outcome for test in judgement.tests)
    out.append(f"{len(judgement.tests)} tests: {', '.join(f'{counts[each]} {_COUNTED[each]}' for each in Outcome)}")
    for reason, names in _by_reason(judgement, Outcome.SKIP).items():
        out.append(f"skipped ({reason or 'no reason given'}): {', '.join(names)}")
    for reason, names in _by_reason(judgement, Outcome.PASS).items():
        if reason.startswith("expected failure"):
            out.append(f"{reason}: {', '.join(names)}")
    out.append(f"verdict: {judgement.verdict.name}")
    return [_printable(line) for line in out]


_COUNTED = {
    Outcome.PASS: "passed",
    Outcome.FAIL: "failed",
    Outcome.SKIP: "skipped",
    Outcome.MISSING: "missing",
    Outcome.CRASHED: "crashed",
}


def _failure(test: TestResult) -> list[str]:
    where = f", line {test.line}" if test.line else ""
    reason = f": {test.reason}" if test.reason else ""
    lines = [f"    {line}" for line in test.diagnostics[-_SHOWN_LINES:]]
    if len(test.diagnostics) > _SHOWN_LINES:
        lines.insert(0, f"    ({len(test.diagnostics) - _SHOWN_LINES} lines before)")
    return [f"{test.outcome.name} {test.name}{where}{reason}", *lines]


def _by_reason(judgement: Judgement, outcome: Outcome) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for test in judgement.tests:
        if test.outcome is outcome:
            found.setdefault(test.reason, []).append(test.name)
    return found


def _printable(line: str) -> str:
    """No control characters of a guest reach the terminal, and no character that it cannot show ends the command."""
    clean = "".join(char if char.isprintable() or char == "\t" else "\ufffd" for char in line)
    encoding = sys.stdout.encoding or "utf-8"
    return clean.encode(encoding, "replace").decode(encoding, "replace")
