# SPDX-License-Identifier: GPL-2.0
"""`schedline judge`: the verdict on saved console logs. It needs neither the cache nor any library."""

from __future__ import annotations

import argparse

from schedlib.check.saved_logs import JudgeOptions, judge_logs
from schedlib.errors import SchedlineError
from schedlib.guest.boot import Ending
from schedlib.names import words
from schedlib.options import Verbs, add_verb, existing_path, new_path, options_of

_ENDINGS = {ending.value.replace(" ", "-"): ending for ending in Ending}


def add_parser(verbs: Verbs) -> None:
    """Add `schedline judge`."""
    parser = add_verb(
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
        read=_read,
        job=judge_logs,
        libraries=(),
    )
    add = parser.add_argument
    add("logs", nargs="+", metavar="LOG", help="console log; - is standard input")
    add("--tests", type=existing_path, metavar="FILE", help="list of the tests that must have run")
    add("--cpus", type=int, metavar="N", help="CPUs of the guest, to select tests by their classes=")
    add("--require", type=words, default=(), metavar="ID,...", help="a skip of these is an error")
    add("--ending", choices=sorted(_ENDINGS), default="unknown", help="how the run ended, if you saw it")
    add("--json", type=new_path, metavar="FILE", help="write the results as JSON (schema check-1)")
    add("--junit", type=new_path, metavar="FILE", help="write the results as JUnit XML")


def _read(arguments: argparse.Namespace) -> JudgeOptions:
    if arguments.cpus is not None and not arguments.tests:
        raise SchedlineError("--cpus selects tests from a list, and no list is given", "add --tests FILE")
    return options_of(JudgeOptions, arguments, logs=tuple(arguments.logs), ending=_ENDINGS[arguments.ending])
