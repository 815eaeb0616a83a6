# SPDX-License-Identifier: GPL-2.0
"""A plain tree is judged by what its kunit.py, make and runner show, whatever their exit status."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import read_words, write_program
from schedlib.console.expected import expected_tests
from schedlib.dev import dev_verb
from schedlib.dev.dev_verb import COMPILE_ROWS, KUNIT_RUNS, CompileRow
from schedlib.dev.plain_tree import (
    PlainRun,
    Step,
    boots_text,
    clone_with_series,
    compile_row,
    exported_tests,
    outcomes,
    run_kunit,
    run_step,
    steps,
    warnings_of,
)
from schedlib.git import git
from schedlib.kernel.kconfig import load
from schedlib.paths import KUNIT
from schedlib.tree.compose import TESTS_DIRECTORY
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict


def test_words_of_the_verb() -> None:
    assert read_words(dev_verb, "test-tree", "--skip", "qemu,alltests").skip == ("qemu", "alltests")
    assert f"--kunitconfig={TESTS_DIRECTORY}" in KUNIT_RUNS["uml"].words
    with pytest.raises(SystemExit) as error:
        read_words(dev_verb, "test-tree", "--skip", "emu")
    assert error.value.code == 2


# ---- kunit.py ----


def test_alltests_is_not_asked_for_what_it_does_not_build() -> None:
    """It was asked for all suites, and so it failed on every tree."""
    options = (KUNIT / "Kconfig").read_text().split("\nconfig ")
    on_request = {part.split()[0] for part in options if "\tbool" in part and "default KUNIT_ALL_TESTS" not in part}
    assert on_request == {"SCHED_TOPOLOGY_KUNIT_TEST"}
    makefile = (KUNIT / "Makefile").read_text()
    lines = re.findall(r"CONFIG_SCHED_(?:LAYOUT|CPUPRI)_KUNIT_TEST\) \+= (.*)", makefile)
    suites = {name.split(":")[0] for name in expected_tests(8, None, KUNIT_RUNS["alltests"].without)}
    assert {f"{suite}_kunit.o" for suite in suites} - {"sched_cpupri_private_kunit.o"} <= {*" ".join(lines).split()}
    assert "sched_layout" in suites


def test_every_test_of_a_document_is_counted() -> None:
    cases = [{"name": "a", "status": "PASS"}, {"name": "b", "status": "SKIP"}, {"name": "c", "status": "FAIL"}]
    rows = [{"name": "rows", "test_cases": [{"name": "row-1: an idle target wins", "status": "PASS"}]}]
    document: dict[str, object] = {"sub_groups": [{"name": "suite", "test_cases": cases, "sub_groups": rows}]}
    found = outcomes(document)
    assert found == {"suite:a": "PASS", "suite:b": "SKIP", "suite:c": "FAIL", "suite:rows:row-1": "PASS"}
    ran = PlainRun(1, Path("log"), found | {"suite:d": "MISSING"})
    assert ran.said() == "2 passed, 1 skipped, 1 FAIL, 1 MISSING"


@pytest.mark.parametrize(
    ("status", "ended", "bad"),
    [
        (0, {"a": "PASS", "b": "SKIP"}, ""),
        (1, {"a": "PASS", "b": "FAIL"}, "FAIL b; kunit.py exit 1"),
        # kunit.py says success of a log that was cut off.
        (0, {"a": "PASS", "b": "MISSING", "c": "MISSING"}, "2 tests are missing"),
        (0, {"a": "SKIP"}, "no test passed"),
        (0, {}, "no test passed"),
    ],
)
def test_a_boot_is_good_only_if_every_test_came_back(status: int, ended: dict[str, str], bad: str) -> None:
    good = PlainRun(0, Path("log"), {"a": "PASS"})
    said = list(boots_text([*[good] * 8, PlainRun(status, Path("log"), ended)]))
    assert said[:2] == [
        " 2 possible CPUs: 2 of 2 boots passed",
        f" 3 possible CPUs: {1 if bad else 2} of 2 boots passed",
    ]
    assert said[7:] == ([f"boot-9, 3 possible CPUs: {bad}"] if bad else [])


def test_an_exported_tree_is_asked_only_for_the_tests_of_its_changes() -> None:
    ours, bare = set(expected_tests(8, None)), set(exported_tests(("cluster-scan",)))
    some = set(exported_tests(("cluster-scan", "rd-lines", "fix-share-id")))
    assert {"sched_layout:changes", "sched_topology:cluster_key_survives_other_partitions"} <= ours - some
    assert {"sched_layout:rd_lines:rd-lines.R1", "sched_topology:no_cluster_is_not_the_first_cluster"} <= some - bare
    assert "sched_layout:root_domains_begin_a_line" in some - bare
    # A model of cpupri stays at home.
    cpupri = {name for name in ours - bare if name.startswith("sched_cpupri:")}
    assert cpupri == {"sched_cpupri:answers_match_a_simple_model"}
    suites = ("balance", "cpupri", "layout", "topology", "root_domain", "cpupri_private")
    assert {name.split(":")[0] for name in ours - bare} == {f"sched_{name}" for name in suites}


@pytest.mark.guest
@pytest.mark.long
def test_what_is_taken_back_in_an_exported_tree_fails(series: Tree, tmp_path: Path) -> None:
    """It was skipped: a test looked for its change, and found that it was not there."""
    clone, changes = clone_with_series(series, tmp_path / "tree", ("fix-cluster-key", "fix-share-id"))
    good = run_kunit(clone, "uml", KUNIT_RUNS["uml"], changes)
    assert set(good.ended.values()) == {"PASS", "SKIP"}, good.said()
    key = "sched_topology:cluster_key_survives_other_partitions"
    assert good.ended[key] == "PASS"
    header = clone / "kernel/sched/sched.h"
    fix = git(clone, "log", "-1", "--format=%H", "--grep=^sched/topology: Fix sched_cluster_active refcount")
    git(clone, "show", "-R", f"--output={tmp_path / 'revert'}", fix)
    git(clone, "apply", tmp_path / "revert")
    text = header.read_text()
    (moved,) = re.findall(r"^\tbool\t+overloaded\b.*____cacheline_aligned;\n", text, re.M)
    header.write_text(text.replace(moved, re.sub(r"\s+____cacheline_aligned", "", moved)))
    assert "had_cluster" not in (clone / "kernel/sched/topology.c").read_text()
    bad = run_kunit(clone, "uml", KUNIT_RUNS["uml"], changes)
    failed = {test for test, status in bad.ended.items() if status == "FAIL"}
    assert {key, "sched_layout:rd_lines:rd-lines.R3"} <= failed
    assert all(test.startswith((key, "sched_layout:rd_lines:")) for test in failed), failed


# ---- make ----

MAKEFILE = """\
allnoconfig:
\tprintf 'CONFIG_A=y\\nCONFIG_CC_VERSION_TEXT="gcc 1"\\n' > $(O)/.config
kernel/sched/:
\tmkdir -p $(O)/kernel/sched
\ttouch $(O)/kernel/sched/core.o
\t@echo '%s'
"""
WARNING = "/src/kernel/sched/tests/sched_cpupri_kunit.c:10:5: warning: unused"


@pytest.mark.parametrize(
    ("said", "row", "verdict", "text", "found"),
    [
        pytest.param(*row, marks=pytest.mark.tools if row[1][0] == "make" else ())
        for row in (
            ("mm/slub.c:1:2: warning: unused", ("make",), Verdict.PASS, "1 objects, 0 warnings, gcc 1", ()),
            (WARNING, ("make",), Verdict.FAIL, "1 objects, 1 warnings, gcc 1", (WARNING,)),
            ("x'; exit 1; echo '", ("make",), Verdict.FAIL, "does not build", ()),
            ("", ("no-such-gcc",), Verdict.ERROR, "no-such-gcc is not installed", ()),
            # Debian's sparse is too old for make, which only said so: the row passed without it.
            ("Makefile:1311: C=2 specified, but", ("make", "C=2"), Verdict.ERROR, "make ran no make", ()),
            ("  CHECK   kernel/sched/core.c", ("make", "C=2"), Verdict.PASS, "1 objects", ()),
        )
    ],
)
def test_a_row_of_the_compile_table(
    said: str, row: tuple[str, ...], verdict: Verdict, text: str, found: tuple[str, ...], tmp_path: Path
) -> None:
    """A toy kernel whose make prints one line."""
    (tmp_path / "Makefile").write_text(MAKEFILE % said)
    (tmp_path / "a.config").write_text("CONFIG_A=y\n")
    asked = CompileRow("x86_64", row[0], row[1:], (str(tmp_path / "a.config"),))
    ended, told, warnings = compile_row(tmp_path, tmp_path / "build", "toy", asked)
    assert (ended, warnings) == (verdict, found)
    assert text in told


def test_a_warning_that_is_printed_twice_is_one() -> None:
    one = "../kernel/sched/sched.h:3:1: warning: x\n"
    assert warnings_of(f"{one}  CC kernel/sched/core.o\n{one}", "kernel/sched/") == (one.strip(),)
    assert warnings_of("include/linux/sched/topology.h:3:1: warning: x\n", "kernel/sched/") == ()
    assert warnings_of(one, "kernel/sched/tests/") == ()


@pytest.mark.parametrize("name", COMPILE_ROWS)
def test_every_row_asks_for_the_suites_that_it_can_have(name: str) -> None:
    values = load(COMPILE_ROWS[name].fragments).values
    suites = {"LAYOUT", "CPUPRI"} | ({"TOPOLOGY"} if values["CONFIG_SMP"] == "y" else set())
    assert all(values[f"CONFIG_SCHED_{suite}_KUNIT_TEST"] == "y" for suite in suites)


# ---- kselftest: to test its steps, run them ----

RUNNER = """\
# As run_kselftest.sh does: /dev/stdout is opened anew, and the exit status is 0.
echo "TAP version 13" >> /dev/stdout
echo "1..1" >> /dev/stdout
echo "# timeout set to 300" >> /dev/stdout
echo "# selftests: sched_latency: rt_wakeup" > /dev/stdout
echo "# TAP version 13"
echo "# 1..1"
echo "# {result} 1 timer_wakeups"
echo "{result} 1 selftests: sched_latency: rt_wakeup" >> /dev/stdout
"""
EXPECTED = ("sched_latency:rt_wakeup", "sched_latency:rt_wakeup:timer_wakeups")


def one(place: Path, runner: str, *more: str) -> Step:
    """A step that runs one program."""
    write_program(place / "run", runner)
    return Step("one", ("./run",), place, (*EXPECTED, *more))


@pytest.mark.parametrize(
    ("result", "more", "verdict"),
    [
        ("ok", (), Verdict.PASS),
        ("not ok", (), Verdict.FAIL),
        ("ok", ("sched_latency:sleep_storm",), Verdict.FAIL),
    ],
)
def test_the_result_is_that_of_the_log(result: str, more: tuple[str, ...], verdict: Verdict, tmp_path: Path) -> None:
    found, said = run_step(one(tmp_path / "installed", RUNNER.format(result=result), *more))
    assert (tmp_path / "one.log").read_bytes().startswith(b"TAP version 13\n1..1\n")
    assert found is verdict
    assert all(name in said for name in more)


def test_missing_plan_is_that_of_the_list(tmp_path: Path) -> None:
    rows = RUNNER.format(result="ok").splitlines(keepends=True)
    planned = one(tmp_path / "linux", "".join(row for row in rows if '1..1" >>' not in row and '"TAP' not in row))
    assert run_step(planned)[0] is Verdict.FAIL
    assert run_step(replace(planned, planned=False))[0] is Verdict.PASS


def test_step_without_tests_has_its_exit_status(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    for program, is_good in (("false", False), ("true", True), ("./no-such-program", False)):
        assert (run_step(Step("make", (program,), tmp_path / "tree"))[0] is Verdict.PASS) == is_good


def test_every_run_knows_what_has_to_run(tmp_path: Path) -> None:
    for step in steps(tmp_path / "linux"):
        assert bool(step.expected) is step.name.startswith("run"), step.name
