# SPDX-License-Identifier: GPL-2.0
"""A suite is left out of a tree that is too old for it, everywhere and never silently."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import SCHED_H, git
from schedlib.console.expected import expected_tests, load_expected
from schedlib.errors import SchedlineError
from schedlib.export.export_job import export
from schedlib.kernel.kconfig import load
from schedlib.paths import KUNIT
from schedlib.tree.compose import TESTS_DIRECTORY, compose, with_tests
from schedlib.tree.kernel_tree import Tree, commit_tree, edit_tree, file_row, open_kdir
from schedlib.tree.source import without_hooks
from schedlib.tree.suites import feature_table, lacking_features, left_out, suite_table

FAIR_SUITES = '#include "tests/sched_cluster_kunit.c"\n#include "tests/sched_balance_kunit.c"\n'


@pytest.fixture
def old(kernel: Path, cache: Path) -> Tree:
    """A tree older than proxy execution."""
    (kernel / "kernel/sched/sched.h").write_text(SCHED_H.replace("*donor", "*curr"))
    git(kernel, "commit", "-q", "-a", "-m", "older")
    return open_kdir(cache, kernel)


def test_old_tree_lacks_the_layout_and_does_not_get_the_tests_to_keep(old: Tree, tmp_path: Path) -> None:
    (suite,) = left_out(old, ["cluster-scan"])
    assert (suite.name, suite.option) == ("sched_layout", "CONFIG_SCHED_LAYOUT_KUNIT_TEST")
    assert suite.why
    with pytest.raises(SchedlineError, match="rd-lines is expected, and sched_layout"):
        left_out(old, ["cluster-scan", "rd-lines"])
    with pytest.raises(SchedlineError, match="too old to include the tests"):
        export(old, tmp_path / "series", (), ())


def test_every_feature_is_found_and_missed(kernel: Path, cache: Path) -> None:
    tree = open_kdir(cache, kernel)
    assert lacking_features(tree, tree.base) == ()
    for name, feature in feature_table().items():
        files = {file: tree.read(file) for file in feature.files}
        bare = {file: re.sub(feature.pattern, "", text, flags=re.M) for file, text in files.items() if text}
        rows = [file_row(tree.src, file, text.encode()) for file, text in bare.items()]
        commit = commit_tree(tree.src, edit_tree(tree.src, tree.base, rows), tree.base, "old\n")
        assert lacking_features(tree, commit) == (name,)


def test_every_feature_is_replaced_and_every_replacement_has_one() -> None:
    used = set(re.findall(r"SCHED_KUNIT_LACKS_(\w+)", (KUNIT / "sched_kunit_compat.h").read_text()))
    optional = {name for name, feature in feature_table().items() if feature.optional}
    assert used | optional == set(feature_table())


def test_new_tree_has_all_suites_and_no_replacements(kernel: Path, cache: Path) -> None:
    tree = open_kdir(cache, kernel)
    assert left_out(tree, ()) == ()
    commit = compose(tree).commit
    assert tree.read(f"{TESTS_DIRECTORY}/sched_kunit_compat.h", commit) is None
    fair = tree.read("kernel/sched/fair.c", commit) or ""
    assert fair.endswith(f"#ifdef CONFIG_SCHED_TOPOLOGY_KUNIT_TEST\n{FAIR_SUITES}#endif\n")


def test_old_tree_gets_replacements_until_a_change_brings_the_original(kernel: Path, cache: Path) -> None:
    guard, file = "DEFINE_LOCK_GUARD_0(cpus_read_lock, ", "include/linux/cpuhplock.h"
    text = (kernel / file).read_text()
    (kernel / file).write_text(text.replace(guard, "// "))
    tree = open_kdir(cache, kernel)
    commit = compose(tree).commit
    header = tree.read(f"{TESTS_DIRECTORY}/sched_kunit_lacks.h", commit) or ""
    assert re.findall(r"LACKS_(\w+)", header) == ["CPUS_GUARD"]
    tail = f'#include "tests/sched_kunit_compat.h"\n{FAIR_SUITES}#endif\n'
    assert (tree.read("kernel/sched/fair.c", commit) or "").endswith(tail)
    row = file_row(tree.src, file, text.encode())
    commit = with_tests(tree, commit_tree(tree.src, edit_tree(tree.src, commit, [row]), commit, "guard\n"))
    assert "compat" not in (tree.read("kernel/sched/fair.c", commit) or "")


def test_tree_without_clusters_has_no_suites_of_domains(kernel: Path, cache: Path) -> None:
    file = kernel / "kernel/sched/topology.c"
    file.write_text(file.read_text().replace("sched_cluster_active", "sched_other_active"))
    names = [suite.name for suite in left_out(open_kdir(cache, kernel), ())]
    assert names == ["sched_topology", "sched_root_domain", "sched_cluster", "sched_balance", "sched_rt"]


def test_llc_mask_can_be_replaced_by_a_test_and_back(kernel: Path, cache: Path) -> None:
    file = kernel / "kernel/sched/topology.c"
    bare = f"#include <linux/sched/isolation.h>\n{file.read_text()}#define llc_mask(cpu) arch_llc_mask(cpu)\n"
    file.write_text(bare)
    tree = open_kdir(cache, kernel)
    found = tree.read("kernel/sched/topology.c", compose(tree).commit) or ""
    assert found.startswith("#include <kunit/static_stub.h>\n")
    assert "\tKUNIT_STATIC_STUB_REDIRECT(llc_mask, cpu);\n" in found
    assert without_hooks(found) == bare
    file.write_text(found)
    again = open_kdir(cache, kernel)
    assert again.read("kernel/sched/topology.c", compose(again).commit) == found


def test_suites_are_those_of_the_lists_and_of_the_files() -> None:
    listed = {name.split(":")[0] for name in load_expected(KUNIT / "tests.txt", None)}
    assert listed == set(suite_table())
    options = set(re.findall(r"^config (\w+)", (KUNIT / "Kconfig").read_text(), re.M))
    assert {f"CONFIG_{option}" for option in options} == {suite.option for suite in suite_table().values()}
    for suite in suite_table().values():
        assert f'"{suite.name}"' in (KUNIT / suite.source).read_text()


def test_tests_of_a_suite_left_out_are_not_waited_for() -> None:
    kept, every = expected_tests(64, None, ["sched_layout"]), expected_tests(64, None)
    assert {name.split(":")[0] for name in set(every) - set(kept)} == {"sched_layout"}
    assert "sched_cluster:select_idle_sibling_picks:idle_target_wins" in kept
    with pytest.raises(SchedlineError, match="no test matches"):
        expected_tests(64, "sched_layout", ["sched_layout"])
    # Its option is not asked for.
    whole = load(["qemu-x86_64"])
    less = whole.without(["CONFIG_SCHED_LAYOUT_KUNIT_TEST"])
    assert whole.values.keys() - less.values.keys() == {"CONFIG_SCHED_LAYOUT_KUNIT_TEST"}
    assert whole.digest() != less.digest()
