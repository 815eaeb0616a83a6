# SPDX-License-Identifier: GPL-2.0
"""The judge: its verdicts on a corpus of misleading logs, and that no damage to a failing log makes it pass."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedlib.console.expected import current_name, load_expected
from schedlib.console.judge import Judgement, judge
from schedlib.console.judge import TestOutcome as Outcome
from schedlib.console.judge import TestResult as Result
from schedlib.console.log_lines import lines, sign
from schedlib.errors import SchedlineError
from schedlib.guest.boot import Ending
from schedlib.verdict import Verdict

LOGS = Path(__file__).parents[1] / "logs"
CASES: list[dict[str, Any]] = tomllib.loads((LOGS / "verdicts.toml").read_text())["case"]
REAL = [case for case in CASES if case.get("real")]


def content(case: dict[str, Any]) -> bytes:
    return (LOGS / f"{case['log']}.log").read_bytes()


def ending(case: dict[str, Any]) -> Ending:
    return Ending(case.get("ending", "unknown").replace("-", " "))


def judged(case: dict[str, Any], log: bytes | None = None) -> Judgement:
    raw = content(case) if log is None else log
    return judge(raw, case.get("tests", ()), ending=ending(case), require=case.get("require", ()))


def outcomes(judgement: Judgement) -> dict[str, str]:
    return {test.name: test.outcome.name for test in judgement.tests}


def case_id(case: dict[str, Any]) -> str:
    parts = (case["log"], case.get("ending"), "tests" in case and "list", "require" in case and "require")
    return "-".join(part for part in parts if part)


# The corpus.


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_corpus(case: dict[str, Any]) -> None:
    judgement = judged(case)
    kinds = {f"({problem.kind})" if problem.verdict is Verdict.PASS else problem.kind for problem in judgement.problems}
    assert (judgement.verdict.name, sorted(kinds)) == (case["verdict"], sorted(case.get("problems", "").split()))
    found = {f"{name} {outcome}" for name, outcome in outcomes(judgement).items()}
    assert found >= set(case.get("outcomes", ()))


def test_every_log_has_a_verdict() -> None:
    assert {path.stem for path in LOGS.glob("*.log")} == {case["log"] for case in CASES}


DRESSES: dict[str, Callable[[bytes], bytes]] = {
    "crlf": lambda log: log.replace(b"\n", b"\r\n"),
    "crcrlf": lambda log: log.replace(b"\n", b"\r\r\n"),
    "nul": lambda log: b"\0\0" + log.replace(b"ok", b"o\0k").replace(b"\n", b"\0\n"),
    "ansi": lambda log: re.sub(rb"(?m)^(.+)$", b"\x1b[2K\x1b[1;32m\\1\x1b[0m", log),
    "stamps": lambda log: re.sub(rb"(?m)^(?!\[|<|\d{4}-|- \{)", b"[   12.345678][    T1] ", log),
    "bad utf-8": lambda log: log.replace(b"\nKernel command line", b"\n\xff\xfe\xc3\nKernel command line"),
}


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_transport_does_not_matter(case: dict[str, Any]) -> None:
    log, plain = content(case), judged(case)
    for name, dress in DRESSES.items():
        dressed = judged(case, dress(log))
        assert (dressed.verdict, outcomes(dressed)) == (plain.verdict, outcomes(plain)), name


# The parts of a judgement.


def by_name(judgement: Judgement, name: str) -> Result:
    return next(test for test in judgement.tests if test.name == name)


def named(log: str) -> dict[str, Any]:
    return next(case for case in CASES if case["log"] == log)


def test_test_keeps_what_it_said() -> None:
    """A failed one all of it, one that passed without the noise of the kernel."""
    test = by_name(judged(named("fail")), "demo_fail:bad")
    assert "# bad: EXPECTATION FAILED at lib/kunit/judge_demo.c:16" in test.diagnostics[0]
    assert test.diagnostics[-1] == "count and mask share a line"
    assert by_name(judged(named("pass")), "demo_pass:noisy").diagnostics == ("    # noisy: seed 0x1234",)


@pytest.mark.parametrize(
    ("log", "test", "reason"),
    [
        ("pass", "demo_pass:skipped", "needs CONFIG_NUMA$"),
        ("ksft_mixed", "demo:skip_c", "needs CAP_SYS_NICE$"),
        ("ksft_mixed", "demo:skip.sh", "no such file"),
        ("ksft_half", "demo:half.sh", r".*plan 1\.\.2, last result is number 1"),
        ("ksft_xfail", "demo:xfail_c:#2", "expected failure: pull without RT_PUSH_IPI$"),
        ("panic", "demo_panic:panics", ".*Kernel panic - not syncing: demo panic"),
    ],
)
def test_reason(log: str, test: str, reason: str) -> None:
    assert re.match(reason, by_name(judged(named(log)), test).reason)


def test_splat_names_line_and_test() -> None:
    first, second = judged(named("warning_in_test")).problems
    text = content(named("warning_in_test")).decode().splitlines()
    assert text[first.line - 1] == first.text
    assert first.text.startswith("WARNING: lib/kunit/judge_demo.c:31 at ")
    assert (first.test, second.test) == ("demo_warn:warns", "demo_warn:warns_once")


@pytest.mark.parametrize(
    ("log", "end", "text"),
    [
        ("null_pointer", b"", "Segfault with no mm"),
        ("panic", b"---[ end Kernel panic - not syncing: demo panic ]---\n", "demo panic"),
    ],
)
def test_panic_is_one_problem(log: str, end: bytes, text: str) -> None:
    problems = judge(content(named(log)) + end).problems
    assert [each.text for each in problems if each.kind in ("panic", "splat")] == [
        f"Kernel panic - not syncing: {text}"
    ]


def test_nothing_at_all() -> None:
    for log in (b"", b"\n\n", b"\0" * 100, b"hello\n"):
        judgement = judge(log, ["a:b"])
        assert judgement.verdict is Verdict.ERROR
        assert outcomes(judgement) == {"a:b": "MISSING"}


def test_durations_come_from_the_kernels_clock() -> None:
    judgement = judged(named("pass_stamped"))
    assert by_name(judgement, "demo_pass:slow").duration_s == pytest.approx(0.3, abs=0.15)
    assert by_name(judged(named("pass")), "demo_pass:slow").duration_s is None


def test_durations_come_from_the_host_when_the_kernel_prints_none() -> None:
    log = content(named("pass"))
    good, noisy = log.index(b"    ok 1 good"), log.index(b"    ok 2 noisy")
    times = [(0, 1.0), (good, 2.5), (noisy, 4.0)]
    judgement = judge(log, times=times)
    assert by_name(judgement, "demo_pass:good").duration_s == 1.5
    assert by_name(judgement, "demo_pass:noisy").duration_s == 1.5
    assert by_name(judgement, "demo_pass:skipped").duration_s == 0.0


def test_duplicate_result_keeps_the_worst() -> None:
    good, bad = b"    ok 1 kunit_current_test\n", b"    not ok 1 kunit_current_test\n"
    for pair in (good + bad, bad + good):
        log = content(named("pass_three_suites")).replace(good, pair)
        assert by_name(judge(log), "kunit_current:kunit_current_test").outcome is Outcome.FAIL


def test_problems_of_one_kind_are_counted_not_listed() -> None:
    log = b"Linux version 7.3\nKTAP version 1\n1..1\n" + b"KTAP version 1\n" * 5000
    problems = judge(log).problems
    assert len(problems) < 60
    assert any(re.fullmatch(r"and \d{4} more", problem.text) for problem in problems)


def test_killed_run_does_not_blame_the_kernel_but_a_failure_stays() -> None:
    for log, verdict in ((content(named("hang")), Verdict.ERROR), (content(named("fail")), Verdict.FAIL)):
        assert judge(log, ending=Ending.KILLED).verdict is verdict


# Reports of the kernel, in the formats of 6.1 to 7.3 on x86, arm64 and UML, and what only looks like one.

SPLATS = (Path(__file__).parent / "splats.txt").read_text().splitlines()
HARMLESS = (Path(__file__).parent / "harmless.txt").read_text().splitlines()


def signs(text: str) -> list[str]:
    return [found.kind for line in lines(text.encode()) if (found := sign(line))]


@pytest.mark.parametrize("text", SPLATS)
def test_report_is_seen(text: str) -> None:
    for prefix in ("", "[   12.345678] ", "[    0.100000][    T1] ", "<4>", "<4>[    1.000000] ", "kern  :warn  : "):
        assert len(signs(prefix + text + "\n")) == 1, prefix
        good = content(named("pass"))
        assert judge(good + (prefix + text + "\n").encode()).verdict is Verdict.FAIL, prefix


@pytest.mark.parametrize("text", HARMLESS)
def test_remark_is_no_report(text: str) -> None:
    assert set(signs(text + "\n")) <= {"user"}


def test_carriage_return_begins_a_line_anew() -> None:
    log = content(named("pass")).replace(b"    ok 2 noisy", b"Loading 50%\rLoading 99%\r    ok 2 noisy")
    assert outcomes(judge(log)) == outcomes(judged(named("pass")))


def test_program_that_prints_the_version_is_no_restart() -> None:
    log = content(named("kunit_then_ksft_pass"))
    banner = log[: log.index(b"\n") + 1]
    log = log.replace(b"TAP version 13", banner + b"TAP version 13", 1)
    assert judge(log, ending=Ending.EXITED).verdict is Verdict.PASS


# The list of tests.


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tests.txt"
    path.write_text(text)
    return path


def test_list_of_tests(tmp_path: Path) -> None:
    path = write(tmp_path, "# comment\n\nb:2\na:1  classes=8,64\na:x y  # spaces are part of a name\nc:3 classes=64\n")
    assert load_expected(path, None) == ("b:2", "a:1", "a:x y", "c:3")
    assert load_expected(path, 8) == ("b:2", "a:1", "a:x y")
    assert load_expected(path, 64) == ("b:2", "a:1", "a:x y", "c:3")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "# nothing\n",
            "a:1\na:1\n",
            "a:1 classes=\n",
            "a:1 classes=x\n",
            "classes=8\n",
            "a:1 classes=64\n",
            "\xff",
        ),
        *("a:1 was=\n", "a:1 was=b\n", "a:1 was=a:2\na:2\n", "a:1 was=a:2\na:3 was=a:2\n", "a:1 was=a:2 was=a:3\n"),
        *("a:CHANGE:RULE each=x\n", "a:CHANGE:RULE each=rule needs=x\n", "a:1 each=rule\n"),
        *("a:1 needs=\n", "was=a:2\n", "a:1\na:two_wor"),
    ],
)
def test_list_of_tests_that_would_let_anything_pass(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tests.txt"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SchedlineError):
        load_expected(path, 8)


def test_a_test_answers_to_its_older_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a:a_sentence  needs=x was=a:old,b:older\na:rows_hold:row-1 was=a:rows:row-1 classes=8\na:c\n"
    assert load_expected(write(tmp_path, text), 8) == ("a:a_sentence", "a:rows_hold:row-1", "a:c")
    monkeypatch.setattr("schedlib.console.expected.LISTED", write(tmp_path, text))
    now = {"a:old": "a:a_sentence", "b:older": "a:a_sentence", "a:rows": "a:rows_hold"}
    now["a:rows:row-1"] = "a:rows_hold:row-1"
    assert {name: current_name(name) for name in now} == now
    assert current_name("a.old", ".") == "a.a_sentence"
    assert [current_name(name) for name in ("a:c", "a", "a:*", "nothing")] == ["a:c", "a", "a:*", "nothing"]


def test_list_of_tests_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(SchedlineError, match="cannot be read"):
            load_expected(path, None)


# Properties.


def accounted(judgement: Judgement, expected: list[str]) -> bool:
    names = [test.name for test in judgement.tests]
    return len(names) == len(set(names)) and set(expected) <= set(names)


SOME_BYTES = st.one_of(
    st.binary(max_size=400),
    st.lists(
        st.sampled_from(
            b"KTAP version 1|TAP version 13|1..2|1..0|    1..1|ok 1 a|not ok 2 b|    ok 1 c # SKIP why|ok|1..|"
            b"# selftests: x: y|# not ok 1 z|ok 1 selftests: x: y|    KTAP version 1|        KTAP version 1|  ok 1 d|"
            b"ok 2 # XFAIL|ok 99999999999 a|[    1.000000] ok 1 q|Bail out! x|# a: pass:1 fail:0 skip:0 total:1|\0|"
            b"# Totals: pass:1 fail:0 xfail:0 xpass:0 skip:0 error:0|Linux version 7.3|reboot: Power down|Call Trace:|"
            b'- {"dt": "x", "lvl": "target", "msg": "ok 1 a"}|Kernel panic - not syncing: x|    # Subtest: s|'
            b"\x1b[0m|\r|:::::::::".split(b"|")
        ),
        max_size=30,
    ).map(lambda parts: b"\n".join(parts) + b"\n"),
)
EXPECTED = st.lists(st.sampled_from(["a", "a:c", "s:c", "x:y", "x:y:z", "a:c:p", ":", "", "s"]), unique=True)


@given(SOME_BYTES, EXPECTED, st.sampled_from(Ending), EXPECTED)
@settings(max_examples=400, deadline=None)
def test_no_input_raises_and_every_expected_test_is_accounted_for(
    log: bytes, expected: list[str], how: Ending, require: list[str]
) -> None:
    judgement = judge(log, expected, ending=how, require=require)
    assert judgement.verdict.exit_code in (0, 1, 2, 3)
    assert accounted(judgement, expected)
    if judgement.verdict is Verdict.PASS:
        assert any(test.outcome is Outcome.PASS for test in judgement.tests)


def own_names(case: dict[str, Any]) -> list[str]:
    """The tests that the run of this log had to contain, as a list of tests would name them."""
    return list(case.get("tests", ())) or [test.name for test in judged(case).tests if ":" in test.name]


def form(row: bytes) -> str:
    """What the judge recognises in a row: a kernel message, or the kind of KTAP line and its level, or nothing."""
    line = next(lines(row))
    if found := sign(line):
        return found.kind
    known = re.match(r" *(?:# \w+:|#|(?:not )?ok\b|K?TAP|1\.\.)", line.text)
    return re.sub(r"\w+:", "w:", known[0]) if known else ""


MOST_ROWS = 40


def telling(rows: list[bytes]) -> tuple[list[bytes], list[int]]:
    """Rows of a log, and which of them to damage: all, or in a long log the first and last of each form.

    A long log is shortened: rows without a form are dropped, except next to rows with one.
    """
    if len(rows) <= MOST_ROWS:
        return rows, list(range(len(rows)))
    forms = ["", *map(form, rows), ""]
    kept = [place for place in range(len(rows)) if any(forms[place : place + 3])]
    rows, forms = [rows[place] for place in kept], [forms[place + 1] for place in kept]
    last = {each: place for place, each in enumerate(forms)}
    return rows, sorted({*last.values(), *(forms.index(each) for each in last)})


@pytest.mark.parametrize("case", REAL, ids=case_id)
def test_one_line_lost_doubled_or_last_never_hides_a_failure(case: dict[str, Any]) -> None:
    rows, places = telling(content(case).splitlines(keepends=True))
    names = own_names(case)
    assert judge(b"".join(rows), names, ending=ending(case)).verdict.name == case["verdict"]
    for index in places:
        row = rows[index]
        before, after = b"".join(rows[:index]), b"".join(rows[index + 1 :])
        half = row[: len(row) // 2]
        damaged = {before + after, before + row + row + after, before, before + half, before + half + after}
        damaged |= {before + row.replace(b"not ", b"") + after, before + row.replace(b"not ok", b"ok", 1) + after}
        for log in damaged:
            judgement = judge(log, names, ending=ending(case))
            assert judgement.verdict is not Verdict.PASS, (index + 1, log[-200:])
            assert accounted(judgement, names)


@given(st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_damage_to_a_failing_log_makes_it_pass(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([each for each in REAL if ending(each) is not Ending.UNKNOWN]), label="case")
    rows = content(case).splitlines(keepends=True)
    index = data.draw(st.integers(0, len(rows) - 1), label="row")
    row = rows[index]
    kind = data.draw(st.sampled_from(["garble", "insert", "cut", "flip", "swap", "truncate"]), label="damage")
    if kind == "garble":
        rows[index] = data.draw(st.binary(max_size=80)) + b"\n"
    elif kind == "insert":
        rows.insert(index, data.draw(SOME_BYTES) + b"\n")
    elif kind == "cut":
        start = data.draw(st.integers(0, len(row)))
        rows[index] = row[:start] + row[data.draw(st.integers(start, len(row))) :]
    elif kind == "flip":
        place = data.draw(st.integers(0, len(row) - 1))
        rows[index] = row[:place] + bytes([row[place] ^ data.draw(st.integers(1, 255))]) + row[place + 1 :]
    elif kind == "swap":
        other = data.draw(st.integers(0, len(rows) - 1))
        rows[index], rows[other] = rows[other], rows[index]
    else:
        rows = [*rows[:index], row[: data.draw(st.integers(0, len(row)))]]
    names = own_names(case)
    judgement = judge(b"".join(rows), names, ending=ending(case))
    assert judgement.verdict is not Verdict.PASS
    assert accounted(judgement, names)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_damage_to_a_passing_log_ends_in_one_of_four_codes(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([each for each in CASES if each["verdict"] == "PASS"]))
    raw = content(case)
    start = data.draw(st.integers(0, len(raw)))
    stop = data.draw(st.integers(start, min(len(raw), start + 4000)))
    judgement = judge(raw[:start] + data.draw(st.binary(max_size=60)) + raw[stop:], case.get("tests", ()))
    assert judgement.verdict.exit_code in (0, 1, 2, 3)
    assert accounted(judgement, case.get("tests", []))


# Size: the work grows linearly with the log, and the memory for one line is limited.


def counted(work: Callable[[], Judgement]) -> tuple[int, Judgement]:
    """The number of function calls in a piece of work, Python's own included. It does not depend on machine speed."""
    number = 0

    def count(*_: object) -> None:
        nonlocal number
        number += 1

    sys.setprofile(count)
    try:
        judgement = work()
    finally:
        sys.setprofile(None)
    return number, judgement


@pytest.mark.parametrize(
    "row",
    [
        b"demo: the same message again and again, as a driver prints it\n",
        b"[    1.000000] noise\n",
        b"    # noisy: seed 0x1234\n",
        b"    # noisy: EXPECTATION FAILED at lib/kunit/judge_demo.c:16\n",
        b"    ok 2 noisy\n",
        b"        KTAP version 1\n",
        b"KTAP version 1\n",
        b"WARNING: CPU: 0 PID: 33 at kernel/sched/core.c:812 set_rq_offline+0x3a/0x50\n",
        b"Call Trace:\n",
        b"BUG: KCSAN: data-race in a / b\n",
    ],
)
def test_time_grows_with_the_log_and_not_with_its_square(row: bytes) -> None:
    good = content(named("pass"))
    place = good.index(b"    ok 2 noisy")
    calls = []
    for rows in (250, 2000):
        log = good[:place] + row * rows + good[place:]
        number, judgement = counted(lambda log=log: judge(log, ending=Ending.EXITED))  # type: ignore[misc]
        calls.append(number)
        assert judgement.verdict is (
            Verdict.PASS if row.startswith((b"demo", b"[", b"    # noisy: seed")) else Verdict.FAIL
        )
        assert all(len(test.diagnostics) < 1000 for test in judgement.tests)
    assert calls[1] < 10 * calls[0], "eight times the log"


@pytest.mark.parametrize(
    "line", b"x|ok 1 |# | |[|\x1b[|not ok 1 a # SKIP |INFO: task |a: |1..0 # skip |\r|:".split(b"|")
)
def test_one_line_of_megabytes(line: bytes) -> None:
    log = content(named("pass")) + line * (8_000_000 // len(line))
    assert judge(log).verdict in (Verdict.PASS, Verdict.FAIL)


def test_nesting_has_a_bottom_and_a_long_line_is_cut() -> None:
    log = b"".join(b" " * depth + b"KTAP version 1\n" + b" " * depth + b"1..1\n" for depth in range(3000))
    assert judge(log).verdict is Verdict.FAIL
    (line,) = lines(b"x" * 100_000)
    assert len(line.text) < 20_000 and line.end == 100_000
