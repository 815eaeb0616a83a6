# SPDX-License-Identifier: GPL-2.0
"""The result files are valid and complete, and never better than the judgement."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_schema import validator
from schedlib.check import check_results
from schedlib.check.check_results import (
    CheckChange,
    CheckResult,
    JudgedBoot,
    judged_boot,
    junit_suites,
    ktap_text,
    plain,
)
from schedlib.console.judge import Judgement, Problem, judge
from schedlib.console.judge import TestOutcome as Outcome
from schedlib.console.judge import TestResult as Result
from schedlib.formats.junit import junit_document
from schedlib.guest.boot import Ending, GuestRun
from schedlib.verdict import Verdict, worst

LOGS = Path(__file__).parents[1] / "logs"
VALIDATOR = validator("check-1")


def boot(log: str, name: str = "uml-8", ending: Ending = Ending.UNKNOWN) -> JudgedBoot:
    run = GuestRun(("vmlinux", "ncpus=8"), LOGS / f"{log}.log", ending, 1.5)
    return judged_boot(name, run, judge(run.log.read_bytes(), ending=ending))


def document(*boots: JudgedBoot, changes: tuple[CheckChange, ...] = ()) -> Any:
    verdict, now = worst(each.verdict for each in boots), datetime.now(UTC)
    return json.loads(json.dumps(plain(CheckResult(started=now, status=verdict, boots=boots, changes=changes))))


EVERY_LOG = pytest.mark.parametrize("log", sorted(path.stem for path in LOGS.glob("*.log")))


@EVERY_LOG
def test_document_follows_the_schema(log: str) -> None:
    made = document(boot(log), changes=(CheckChange("rd-lines", True, "present", "applied", Verdict.PASS),))
    VALIDATOR.validate(made)
    assert made["status"] == made["boots"][0]["verdict"]
    assert len(made["boots"][0]["sha256"]) == 64


def test_document_holds_what_the_judge_found() -> None:
    made = document(boot("ksft_mixed"), boot("panic", "uml-64", Ending.DIED))
    tests = {test["name"]: test for test in made["boots"][0]["tests"]}
    assert tests["demo:skip_c"]["reason"] == "needs CAP_SYS_NICE"
    assert tests["demo:fail_c"]["outcome"] == "FAIL"
    assert made["boots"][1]["ending"] == "died"
    assert "panic" in {problem["kind"] for problem in made["boots"][1]["problems"]}
    assert made["status"] == "FAIL"


def test_log_that_is_gone_has_no_checksum(tmp_path: Path) -> None:
    gone = judged_boot("x", GuestRun((), tmp_path / "gone", Ending.UNKNOWN), judge(b"nothing"))
    made = document(gone)
    VALIDATOR.validate(made)
    assert made["boots"][0]["sha256"] is None


def test_junit() -> None:
    root = ET.fromstring(junit_document(junit_suites([boot("ksft_mixed"), boot("pass", "uml-64")])))  # noqa: S314
    suites = {suite.get("name"): suite for suite in root}
    assert set(suites) == {"uml-8.demo", "uml-8", "uml-64.demo_pass", "uml-64"}
    demo = suites["uml-8.demo"]
    assert (demo.get("tests"), demo.get("failures"), demo.get("skipped"), demo.get("errors")) == ("9", "2", "2", "0")
    cases = {case.get("name"): case for case in demo}
    skipped, failed = cases["skip_c"].find("skipped"), cases["fail_c"].find("failure")
    assert skipped is not None and skipped.get("message") == "needs CAP_SYS_NICE"
    assert failed is not None and failed.get("message") == "exit=1"
    assert "not ok 2 p99 below 50 us" in (failed.text or "")
    assert list(cases["plain.sh"]) == []
    assert root.find(".//system-out") is None


@EVERY_LOG
def test_no_file_is_greener_than_the_judgement(log: str) -> None:
    judged = boot(log, ending=Ending.EXITED)
    root = ET.fromstring(junit_document(junit_suites([judged])))  # noqa: S314
    bad = judged.verdict in (Verdict.FAIL, Verdict.ERROR)
    assert (root.find(".//failure") is not None or root.find(".//error") is not None) == bad
    again = judge(ktap_text([judged]).encode())
    assert (again.verdict is Verdict.PASS) == (judged.verdict is Verdict.PASS)
    assert (again.verdict is Verdict.FAIL) == bad


@EVERY_LOG
def test_ktap_is_sound_and_has_the_same_tests(log: str) -> None:
    judged = [boot(log), boot("pass", "uml-64")]
    again = judge(ktap_text(judged).encode())
    flaws = {problem.kind for problem in again.problems if problem.verdict is not Verdict.PASS}
    assert flaws <= {"all-skipped"}
    want = {
        (f"{each.name}:{_in_suite(test.name)}", test.outcome in (Outcome.PASS, Outcome.SKIP))
        for each in judged
        for test in each.tests
    }
    found = {(test.name, test.outcome in (Outcome.PASS, Outcome.SKIP)) for test in again.tests}
    assert want <= found


def _in_suite(name: str) -> str:
    return name if ":" in name else f"{name}:{name}"


TEXT = st.text(max_size=30) | st.sampled_from(
    ["a # SKIP b", "\n1..0", "\x1b[0m", "# x", "\ud800", "]]>", "&<", "ok 1 a", " "]
)
TESTS = st.builds(
    Result,
    name=st.builds("{}:{}".format, TEXT, TEXT),
    outcome=st.sampled_from(Outcome),
    reason=TEXT,
    duration_s=st.none() | st.floats(0, 1e6),
    diagnostics=st.lists(TEXT, max_size=3).map(tuple),
    line=st.integers(0, 10**9),
)
PROBLEMS = st.builds(Problem, st.just("splat"), st.integers(0, 9), TEXT, st.sampled_from(Verdict), TEXT)


@given(st.lists(TESTS, max_size=5), st.lists(PROBLEMS, max_size=3), TEXT)
@settings(max_examples=200, deadline=None)
def test_no_text_breaks_a_file(tests: list[Result], problems: list[Problem], name: str) -> None:
    judgement = Judgement(Verdict.PASS, tuple(tests), tuple(problems))
    boots = [judged_boot(name or "x", GuestRun((), Path("none"), Ending.EXITED), judgement)]
    VALIDATOR.validate(document(*boots))
    root = ET.fromstring(junit_document(junit_suites(boots)))  # noqa: S314
    assert len(root.findall(".//testcase")) == len(tests) + 1
    again = judge(ktap_text(boots).encode(), ending=Ending.EXITED)
    bad_test = any(test.outcome not in (Outcome.PASS, Outcome.SKIP) for test in tests)
    assert not bad_test or again.verdict is Verdict.FAIL
    assert {problem.kind for problem in again.problems} <= {"duplicate", "duplicate-name", "all-skipped"}


def test_skips_are_told_once_and_not_where_another_guest_ran_the_test() -> None:
    def guest(*tests: Result) -> JudgedBoot:
        return judged_boot("x", GuestRun((), Path("x"), Ending.EXITED, 1.0), Judgement(Verdict.PASS, tests, ()))

    few = guest(Result("s:a", Outcome.SKIP, "too few CPUs"), Result("s:b", Outcome.SKIP), Result("s:c", Outcome.PASS))
    many = guest(Result("s:a", Outcome.PASS), Result("s:b", Outcome.SKIP), Result("s:d", Outcome.SKIP))
    assert check_results.skips([few, many]) == {"no reason given": ["s:b", "s:d"]}
    assert check_results.skips([few]) == {"too few CPUs": ["s:a"], "no reason given": ["s:b"]}
