# SPDX-License-Identifier: GPL-2.0
"""The reader: what it understands, what it reports as a flaw, and that no input makes it fail."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlib.console import ktap
from schedlib.console.ktap import Reader, Report, Status
from schedlib.console.log_lines import lines


def read(log: bytes) -> Report:
    """All streams and flaws of a log."""
    reader = Reader()
    for line in lines(log):
        reader.feed(line)
    return reader.finish()


def stream(text: str) -> Report:
    return read(text.encode())


def tree(tests: tuple[ktap.Test, ...] | None) -> object:
    """(name, status) of tests, nested."""
    return [
        (test.name, test.status.value) if test.tests is None else (test.name, test.status.value, tree(test.tests))
        for test in tests or ()
    ]


NESTED = """\
KTAP version 1
1..2
    KTAP version 1
    # Subtest: layout
    # module: layout
    1..3
    ok 1 sizes
        KTAP version 1
        # Subtest: rules
        1..2
        ok 1 rd-lines.R1
        ok 2 rd-lines.R2 # SKIP lines of 128 bytes
    # rules: pass:1 fail:0 skip:1 total:2
    ok 2 rules
    # live: rq of CPU 3 at offset 16
    not ok 3 live
# layout: pass:2 fail:1 skip:0 total:3
# Totals: pass:2 fail:1 skip:1 total:4
not ok 1 layout
ok 2 cpupri # SKIP no cpupri
"""


def test_nested() -> None:
    report = stream(NESTED)
    assert report.flaws == ()
    (found,) = report.streams
    assert (found.kunit, found.complete, found.running) == (True, True, ())
    rules = ("rules", "ok", [("rd-lines.R1", "ok"), ("rd-lines.R2", "skip")])
    assert tree(found.tests) == [("layout", "not ok", [("sizes", "ok"), rules, ("live", "not ok")]), ("cpupri", "skip")]
    layout = found.tests[0]
    assert layout.tests is not None
    assert layout.tests[2].log == ("    # live: rq of CPU 3 at offset 16",)
    assert [test.name for test in layout.leaves()] == ["sizes", "rd-lines.R1", "rd-lines.R2", "live"]


TWO_SPACES = (
    "KTAP version 1\n1..1\n  KTAP version 1\n  1..1\n    KTAP version 1\n    1..1\n    ok 1 a\n  ok 1 b\nok 1 c\n"
)
"""A level, as the specification has it."""
BEFORE_6_2 = "KTAP version 1\n1..1\n    # Subtest: s\n    1..1\n    ok 1 a\nok 1 s\n"
"""No version line below the first."""
DESCRIBED = BEFORE_6_2.replace("    ok 1", "        # Subtest: a\n        ok 1 row-1: what it is\n    ok 1")
"""A parameter says what it stands for."""


@pytest.mark.parametrize(
    ("text", "tests"),
    [
        (TWO_SPACES, [("c", "ok", [("b", "ok", [("a", "ok")])])]),
        (BEFORE_6_2, [("s", "ok", [("a", "ok")])]),
        (DESCRIBED, [("s", "ok", [("a", "ok", [("row-1", "ok")])])]),
    ],
)
def test_other_forms_of_levels(text: str, tests: object) -> None:
    report = stream(text)
    assert (report.flaws, tree(report.streams[0].tests)) == ((), tests)


@pytest.mark.parametrize(
    ("line", "name", "status", "reason"),
    [
        ("ok 1 a", "a", "ok", ""),
        ("ok 1 - a", "a", "ok", ""),
        ("ok 1 a b: c", "a b: c", "ok", ""),
        ("ok 1 a # remark", "a", "ok", "remark"),
        ("ok 1 a#b", "a#b", "ok", ""),
        ("ok 1", "#1", "ok", ""),
        ("ok 1 a # SKIP", "a", "skip", ""),
        ("ok 1 a # SKIP needs root", "a", "skip", "needs root"),
        ("ok 1 # SKIP needs root", "#1", "skip", "needs root"),
        ("not ok 1 a # skip: needs root", "a", "skip", "needs root"),
        ("ok 1 a # SKIPPED", "a", "skip", ""),
        ("ok 1 a # XFAIL known", "a", "xfail", "known"),
        ("not ok 1 a # XFAIL known", "a", "xfail", "known"),
        ("not ok 1 a # TODO later", "a", "xfail", "later"),
        ("not ok 1 a", "a", "not ok", ""),
        ("not ok 1 a # TIMEOUT 45 seconds", "a", "not ok", "TIMEOUT 45 seconds"),
        ("not ok 1 a # exit=139", "a", "not ok", "exit=139"),
        ("not ok 1 a # ERROR fork failed", "a", "not ok", "ERROR fork failed"),
    ],
)
def test_result_line(line: str, name: str, status: str, reason: str) -> None:
    (test,) = stream(f"TAP version 13\n1..1\n{line}\n").streams[0].tests
    assert (test.name, test.status.value, test.reason) == (name, status, reason)


GOOD = "KTAP version 1\n1..1\n    KTAP version 1\n    # Subtest: s\n    1..2\n    ok 1 a\n    ok 2 b\nok 1 s\n"


FAILED = "    # a: EXPECTATION FAILED at a.c:1\n"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (f"{FAILED}    not ok 1 a\n", []),
        (f"    not ok 1 a\n{FAILED}", []),
        (f"    ok 1 a\n{FAILED}", [("b", 7)]),
        (f"{FAILED}{FAILED}    ok 1 a # SKIP no\n", [("a", 6)]),
    ],
)
def test_failed_expectation_belongs_to_the_next_result_or_to_its_own(new: str, expected: list[tuple[str, int]]) -> None:
    flaws = stream(GOOD.replace("    ok 1 a\n", new, 1).replace("\nok 1 s", "\nnot ok 1 s")).flaws
    assert [(flaw.test, flaw.line) for flaw in flaws if flaw.kind == "expectation"] == expected


def test_what_was_running() -> None:
    text = GOOD[: GOOD.index("    ok 2")] + "    # b: about to hang\n"
    (found,) = stream(text).streams
    assert found.running == ("s", "b")
    (suite,) = found.tests
    assert (suite.status, tree(suite.tests)) == (Status.NONE, [("a", "ok")])


KSELFTEST = """\
TAP version 13
1..2
# timeout set to 45
# selftests: sched: rt
# TAP version 13
# 1..2
# ok 1 push
# # p99 is 71 us
# not ok 2 pull
# # Totals: pass:1 fail:1 xfail:0 xpass:0 skip:0 error:0
not ok 1 selftests: sched: rt # exit=1
# selftests: sched: wake
# [   10.000000] WARNING: quoted
ok 2 selftests: sched: wake
# Totals: pass:1 fail:1 xfail:0 xpass:0 skip:0 error:0
"""


def test_kselftest() -> None:
    report = stream(KSELFTEST)
    assert report.flaws == ()
    (found,) = report.streams
    assert not found.kunit
    assert tree(found.tests) == [
        ("selftests: sched: rt", "not ok", [("push", "ok"), ("pull", "not ok")]),
        ("selftests: sched: wake", "ok"),
    ]


def test_moments_point_into_the_log() -> None:
    (found,) = stream(GOOD).streams
    (suite,) = found.tests
    assert suite.tests is not None
    assert [test.ended.end for test in suite.tests] == [GOOD.index("a\n") + 2, GOOD.index("b\n") + 2]
    assert suite.ended.end == len(GOOD)
    assert suite.line == len(GOOD.splitlines())


@given(st.binary(max_size=2000))
@settings(max_examples=300, deadline=None)
def test_lines_account_for_every_byte(log: bytes) -> None:
    found = list(lines(log))
    ends = [line.end for line in found]
    assert ends == sorted(ends)
    assert (ends[-1] if ends else 0) == len(log)
    assert all("\n" not in line.text for line in found)


KTAPISH = st.lists(
    st.tuples(
        st.sampled_from(["", "  ", "    ", "        ", "# ", "# # ", "[    1.000000] "]),
        st.sampled_from(
            [
                *("KTAP version 1", "TAP version 13", "1..0", "1..1", "1..2", "# Subtest: s", "ok 1 s", "not ok 1 s"),
                *("ok 2 t", "ok 1 a # SKIP", "ok", "", "# selftests: d: p", "ok 1 selftests: d: p"),
                "# s: pass:1 fail:0 skip:0 total:1",
            ]
        ),
    ),
    max_size=40,
)


@given(KTAPISH)
@settings(max_examples=500, deadline=None)
def test_any_order_of_lines_is_read(parts: list[tuple[str, str]]) -> None:
    text = "\n".join(indent + body for indent, body in parts)
    report = stream(text)
    results = sum(1 for found in report.streams for test in found.tests for _ in test.leaves())
    assert results <= 2 * len(parts)
    assert [found.line for found in report.streams] == sorted(found.line for found in report.streams)
