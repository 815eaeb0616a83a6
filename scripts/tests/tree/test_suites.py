# SPDX-License-Identifier: GPL-2.0
"""A suite is left out of a tree that is too old for it, everywhere and never silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import SCHED_H
from schedlib.console.expected import expected_tests
from schedlib.errors import SchedlineError
from schedlib.export.export_job import export
from schedlib.kernel.kconfig import load
from schedlib.tree.changes import left_out
from schedlib.tree.kernel_tree import Tree, open_kdir


@pytest.fixture
def old(kernel: Path, cache: Path) -> Tree:
    """A tree older than proxy execution."""
    (kernel / "kernel/sched/sched.h").write_text(SCHED_H.replace("*donor", "*curr"))
    return open_kdir(cache, kernel)


def test_new_tree_has_all_suites(kernel: Path, cache: Path) -> None:
    assert left_out(open_kdir(cache, kernel), ()) == ()


def test_old_tree_lacks_the_layout(old: Tree) -> None:
    suite, other = left_out(old, ["cluster-scan"])
    assert (suite.name, suite.option) == ("sched_layout", "CONFIG_SCHED_LAYOUT_KUNIT_TEST")
    assert other.name == "sched_wakeup"
    assert suite.why


def test_what_stands_in_is_not_there_in_the_tree_alone(kernel: Path, cache: Path) -> None:
    (kernel / "kernel/sched/sched.h").write_text(SCHED_H.replace("h_nr_idle", "idle_h_nr_running"))
    tree = open_kdir(cache, kernel)
    assert left_out(tree, ()) == ()
    assert [suite.name for suite in left_out(tree, (), in_tree=True)] == ["sched_cluster"]


def test_expected_change_that_nothing_judges_is_refused(old: Tree) -> None:
    with pytest.raises(SchedlineError, match="rd-lines is expected, and sched_layout"):
        left_out(old, ["cluster-scan", "rd-lines"])


def test_tests_of_a_suite_left_out_are_not_waited_for() -> None:
    kept, every = expected_tests(64, None, ["sched_layout"]), expected_tests(64, None)
    assert {name.split(":")[0] for name in set(every) - set(kept)} == {"sched_layout"}
    assert "sched_cluster:decision_table:row-1" in kept
    with pytest.raises(SchedlineError, match="no test matches"):
        expected_tests(64, "sched_layout", ["sched_layout"])


def test_its_option_is_not_asked_for() -> None:
    whole = load(["qemu-x86_64"])
    less = whole.without(["CONFIG_SCHED_LAYOUT_KUNIT_TEST"])
    assert whole.values.keys() - less.values.keys() == {"CONFIG_SCHED_LAYOUT_KUNIT_TEST"}
    assert whole.digest() != less.digest()


def test_old_tree_is_not_given_the_tests_to_keep(old: Tree, tmp_path: Path) -> None:
    with pytest.raises(SchedlineError, match="too old to include the tests"):
        export(old, tmp_path / "series", (), ())
