# SPDX-License-Identifier: GPL-2.0
"""What has to appear in the output of a plain tree's kunit.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schedlib.console.expected import expected_tests
from schedlib.dev.dev_verb import KUNIT_RUNS
from schedlib.dev.plain_tree import (
    PlainRun,
    boot_row,
    boots_text,
    clone_with_series,
    exported_tests,
    outcomes,
    run_kunit,
)
from schedlib.git import git
from schedlib.paths import KUNIT
from schedlib.tree.kernel_tree import Tree


def test_alltests_is_not_asked_for_what_it_does_not_build() -> None:
    """It was asked for all suites, and so it failed on every tree."""
    options = (KUNIT / "Kconfig").read_text().split("\nconfig ")
    on_request = {part.split()[0] for part in options if "\tbool" in part and "default KUNIT_ALL_TESTS" not in part}
    assert on_request == {"SCHED_TOPOLOGY_KUNIT_TEST"}
    makefile = (KUNIT / "Makefile").read_text()
    built = {
        name
        for line in re.findall(r"CONFIG_SCHED_(?:LAYOUT|CPUPRI)_KUNIT_TEST\) \+= (.*)", makefile)
        for name in line.split()
    }
    suites = {name.split(":")[0] for name in expected_tests(8, None, KUNIT_RUNS["alltests"].without)}
    assert {f"{suite}_kunit.o" for suite in suites} - {"sched_cpupri_private_kunit.o"} <= built
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
    row = boot_row((8, PlainRun(status, Path("log"), ended)))
    assert (row.cpus, row.bad) == (3, bad)
    said = list(boots_text([row]))
    assert said[0] == f" 3 possible CPUs: {0 if bad else 1} of 1 boots passed"
    assert said[1:] == ([f"boot-1, 3 possible CPUs: {bad}"] if bad else [])


def test_an_exported_tree_is_asked_only_for_the_tests_of_its_changes() -> None:
    ours, bare = set(expected_tests(8, None)), set(exported_tests(("cluster-scan",)))
    some = set(exported_tests(("cluster-scan", "rd-lines", "fix-share-id")))
    assert "sched_layout:changes" in ours - some
    assert {"sched_layout:rd_lines:rd-lines.R1", "sched_topology:no_cluster_is_not_the_first_cluster"} <= some - bare
    assert "sched_layout:root_domains_begin_a_line" in some - bare
    assert "sched_topology:cluster_key_survives_other_partitions" in ours - some
    # A model of cpupri stays at home.
    assert {name for name in ours - bare if name.startswith("sched_cpupri:")} == {
        "sched_cpupri:answers_match_a_simple_model"
    }
    assert {name.split(":")[0] for name in ours - bare} == {
        "sched_cpupri",
        "sched_layout",
        "sched_topology",
        "sched_root_domain",
        "sched_cpupri_private",
    }


@pytest.mark.guest
@pytest.mark.long
def test_what_is_taken_back_in_an_exported_tree_fails(series: Tree, tmp_path: Path) -> None:
    """It was skipped: a test looked for its change, and found that it was not there."""
    clone, changes = clone_with_series(series, tmp_path / "tree", ("fix-cluster-key", "fix-share-id"))
    good = run_kunit(clone, "uml", KUNIT_RUNS["uml"], changes)
    assert set(good.ended.values()) == {"PASS", "SKIP"}, good.said()
    assert good.ended["sched_topology:cluster_key_survives_other_partitions"] == "PASS"
    topology, header = clone / "kernel/sched/topology.c", clone / "kernel/sched/sched.h"
    fix = git(clone, "log", "-1", "--format=%H", "--grep=^sched/topology: Fix sched_cluster_active refcount")
    git(clone, "show", "-R", f"--output={tmp_path / 'revert'}", fix)
    git(clone, "apply", tmp_path / "revert")
    text = header.read_text()
    (moved,) = re.findall(r"^\tbool\t+overloaded\b.*____cacheline_aligned;\n", text, re.M)
    header.write_text(text.replace(moved, re.sub(r"\s+____cacheline_aligned", "", moved)))
    assert "had_cluster" not in topology.read_text()
    bad = run_kunit(clone, "uml", KUNIT_RUNS["uml"], changes)
    failed = {test for test, status in bad.ended.items() if status == "FAIL"}
    assert {"sched_topology:cluster_key_survives_other_partitions", "sched_layout:rd_lines:rd-lines.R3"} <= failed
    assert all(
        test.startswith(("sched_topology:cluster_key_survives_other_partitions", "sched_layout:rd_lines:"))
        for test in failed
    ), failed
