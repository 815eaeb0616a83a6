# SPDX-License-Identifier: GPL-2.0
"""Which mutants are tried, how their logs are judged, and what becomes of the list of equivalents."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from schedlib.console.judge import judge
from schedlib.dev import made_pages
from schedlib.dev.c_mutants import CodeChange
from schedlib.dev.generated_mutants import (
    DATA,
    EQUIVALENT,
    STOP,
    Equivalent,
    EquivalentData,
    MutantData,
    MutantTarget,
    chosen,
    end_of,
    ended,
    is_reached,
    judged_equivalents,
    not_run,
    numbered,
    touched,
)
from schedlib.dev.mutants_page import End, GeneratedMutant, GeneratedMutantsDocument, recorded, score, share
from schedlib.formats.data_file import read_toml
from schedlib.formats.document import read
from schedlib.guest.boot import Ending, run_guest
from schedlib.paths import CONFIGS

TEXT = "int f(int a)\n{\n\tif (a > 1)\n\t\treturn 2;\n\treturn a;\n}\nint g(void)\n{\n\treturn 3;\n}\n"
TARGETS = (MutantTarget("a.c", ("f", "g"), "rd-lines", "sched_rt*"),)


def mutant(number: int, old: str = "a;", line: int = 1) -> CodeChange:
    return CodeChange("f", "drop-statement", line, old, "b;", "", "a.c", number)


def test_all_mutants_have_numbers_from_1_on() -> None:
    pool = numbered({"a.c": TEXT}, TARGETS)
    assert [each.number for each in pool] == list(range(1, len(pool) + 1))
    assert {each.function for each in pool} == {"f", "g"}


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    pool = numbered({"a.c": TEXT}, TARGETS)
    assert chosen(pool, (), 4, 1) == chosen(pool, (), 4, 1) != chosen(pool, (), 4, 2)
    assert len(chosen(pool, (), 4, 1)) == len(chosen(pool, ("f",), 4, 1)) + min(4, len(chosen(pool, ("g",), None, 1)))
    assert chosen(pool, (), None, 1) == pool
    assert {each.function for each in chosen(pool, ("g",), None, 1)} == {"g"}


def test_functions_that_a_diff_touches() -> None:
    assert touched({"a.c": TEXT}, {"a.c": TEXT}) == set()
    assert touched({"a.c": TEXT}, {"a.c": TEXT.replace("return 3", "return 4")}) == {"g"}
    assert touched({}, {"a.c": TEXT}) == {"f", "g"}


LOGS = Path(__file__).parents[1] / "logs"


@pytest.mark.parametrize(
    ("name", "ending", "end"),
    [
        ("pass", Ending.EXITED, End.SURVIVED),
        ("fail", Ending.EXITED, End.ASSERTION),
        ("panic", Ending.DIED, End.CRASH),
        ("hang", Ending.TIMED_OUT, End.HANG),
        ("warning_between_tests", Ending.EXITED, End.WARNING),
    ],
)
def test_how_a_log_ends(name: str, ending: Ending, end: End) -> None:
    log = (LOGS / f"{name}.log").read_bytes()
    assert end_of(judge(log, ending=ending), ending, ())[0] is end


def test_a_test_that_did_not_run_is_named() -> None:
    log = (LOGS / "pass.log").read_bytes()
    found = end_of(judge(log, ending=Ending.EXITED), Ending.EXITED, ["suite:gone"])
    assert found == (End.SURVIVED, ("not run: suite:gone",))


def test_a_mutant_of_a_statement_that_never_runs_is_not_booted() -> None:
    counters = [("a.c", "f", 3), ("a.c", "f", 5), ("a.c", "g", 1)]
    rows = {line: mutant(1, line=line) for line in (2, 3, 4, 5)}
    reached = {line: is_reached(each, counters, [counters[0]]) for line, each in rows.items()}
    assert reached == {2: True, 3: True, 4: True, 5: False}


def test_a_statement_that_never_runs_needs_a_reason() -> None:
    sources = {"a.c": "f\n\treturn 0;\ng\n\treturn 0;\n"}
    data = MutantData({}, (), (("f", "return 0;", "why"),))
    found = not_run([("a.c", "f", 2), ("a.c", "g", 4)], sources, data)
    assert found == (("a.c:4 g: return 0;",), frozenset({("a.c", "f", 2)}))


def test_an_equivalent_that_dies_or_is_gone_is_wrong() -> None:
    pool = [mutant(1), mutant(2, old="c;"), mutant(3, old="d;")]
    tried = [
        ended(pool[0], End.SURVIVED),
        ended(pool[1], End.ASSERTION, "default", ("x",)),
        ended(pool[2], End.SURVIVED),
    ]
    known = [Equivalent("f", old, "b;", "why") for old in ("a;", "c;", "e;")]
    found, wrong = judged_equivalents(tried, pool, known)
    assert [each.end for each in found] == [End.EQUIVALENT, End.ASSERTION, End.SURVIVED]
    assert wrong == [
        "no such mutant any more: f: e; => b;",
        "listed as equivalent, and it dies: a.c:1 f: c; => b; [assertion: x]",
    ]


def test_the_score_of_each_function() -> None:
    ends = (End.ASSERTION, End.CRASH, End.HANG, End.SURVIVED, End.EQUIVALENT, End.SAME_CODE)
    pairs = [*(("f", end) for end in ends), ("g", End.SURVIVED), ("g", End.NOT_TRIED)]
    rows = [GeneratedMutant("a.c", name, 1, "constant", "a", "b", end, "", ()) for name, end in pairs]
    assert list(score(rows)) == [("f", 4, 1, 2, 1, 2, 0), ("g", 1, 0, 0, 1, 0, 1)]
    assert (share(4, 1, 0), share(0, 0, 0), share(4, 1, 1)) == ("75%", "-", "-")
    ours, exported = "sched_cpupri:answers_match_a_simple_model", "sched_cpupri:find_returns:no_cpu_is_online"
    for failed, survived in (((ours,), 1), ((ours, exported), 0)):
        row = GeneratedMutant("a.c", "f", 1, "constant", "a", "b", End.ASSERTION, "", failed)
        assert list(score([row])) == [("f", 1, 1 - survived, 0, survived, 0, 0)]


def test_the_data_names_configurations_and_gives_reasons() -> None:
    data = read_toml(DATA, MutantData)
    assert {name for target in data.target for name in target.on} <= set(data.configuration)
    fragments = {path.stem for path in (CONFIGS / "kernel").glob("*.config")}
    assert {name for its in data.configuration.values() for name in its.fragments} <= fragments
    functions = [name for target in data.target for name in target.functions]
    assert len(functions) == len(set(functions))
    rows = read_toml(EQUIVALENT, EquivalentData).equivalent
    assert {row.function for row in rows} <= set(functions)


def test_a_guest_ends_early_at_a_line(tmp_path: Path) -> None:
    program = "import time; print('a\\nnot ok 1 x\\n', flush=True); time.sleep(60)"
    run = run_guest([sys.executable, "-c", program], tmp_path / "log", 50, re.compile(rb"^not ok \d+ \w+\s*$", re.M))
    assert run.ending is Ending.KILLED and run.seconds < 50


def test_a_failed_suite_ends_a_guest_when_its_line_is_whole() -> None:
    assert not STOP.search(b"[    1.0] not ok 1 sc")
    assert STOP.search(b"x\r\n[    1.0] not ok 1 sched_cluster\r\n")
    assert not STOP.search(b"    not ok 1 a_case\n")


def test_a_record_is_written_as_it_is_kept() -> None:
    for path in made_pages.MUTANTS_RECORDED.glob("*.json"):
        assert recorded(read(path, GeneratedMutantsDocument, "")) == path.read_text()
