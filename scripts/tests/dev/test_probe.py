# SPDX-License-Identifier: GPL-2.0
"""kunit/probe.sh finds the features of a kernel. The tests use the machine's compiler and made-up headers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import write_files
from schedlib.console.expected import load_expected
from schedlib.paths import KUNIT

pytestmark = pytest.mark.tools

FEATURES = {
    "ADD_ACTION": ("include/kunit/test.h", "extern int kunit_add_action_or_reset(void);"),
    "CLUSTER_EQUAL_CAP": (
        "kernel/sched/fair.c",
        "bool cluster_equal_cap = static_branch_unlikely(&sched_cluster_active) &&",
    ),
    "CLUSTER_SCAN": ("kernel/sched/sched.h", "extern int sched_cluster_active;"),
    "CPUS_GUARD": ("include/linux/cpu.h", "typedef int class_cpus_read_lock_t;"),
    "H_NR_IDLE": ("kernel/sched/sched.h", "struct cfs_rq { int h_nr_idle; };"),
    "IDLE_POLICY": ("kernel/sched/fair.c", "static int choose_idle_cpu(int cpu, struct task_struct *p)"),
    "LLC_ID_ALLOC": ("kernel/sched/sched.h", "extern void sched_domains_free_llc_id(int cpu);"),
    "NOTHING_ALLOWED": ("kernel/sched/fair.c", "if (!cpumask_and(cpus, sched_domain_span(sd), p->cpus_ptr))"),
    "PARAM_DESC": (
        "include/kunit/test.h",
        "#define KUNIT_ARRAY_PARAM_DESC(name, array, member) static void name##_gen_params(void) { }",
    ),
    "PARAM_SKIP": ("lib/kunit/test.c", "enum { KUNIT_LEVEL_CASE_PARAM };"),
    "REMOVE_CPU": ("include/linux/cpu.h", "extern int remove_cpu(unsigned int cpu);"),
    "UTIL_EST_WORD": ("kernel/sched/sched.h", "struct task_struct { struct { struct { int util_est; } avg; } se; };"),
    "SD_SHARE_LLC": ("include/linux/cpu.h", "enum { SD_SHARE_LLC };"),
}
"""For each feature, the file that has it in a kernel, and a text that is enough for the probe."""

HEADERS = {
    "include/kunit/test.h": "#define __maybe_unused __attribute__((unused))\n",
    "include/linux/cleanup.h": "#define guard(name) class_##name##_t held; (void)held; next\nint next(void);\n",
    "include/linux/cpu.h": "",
    "include/linux/mmu_context.h": "",
    "include/linux/sched/cputime.h": "",
    "kernel/sched/sched.h": "",
    "kernel/sched/fair.c": "",
    "lib/kunit/test.c": "",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The headers that the probe includes, without any of the features."""
    write_files(tmp_path, HEADERS)
    (tmp_path / "kernel/sched/tests").mkdir()
    shutil.copy(KUNIT / "probe.sh", tmp_path / "kernel/sched/tests")
    return tmp_path


def add(tree: Path, feature: str) -> None:
    """Give the tree a feature."""
    name, text = FEATURES[feature]
    (tree / name).write_text((tree / name).read_text() + text + "\n")


def probe(tree: Path, *compiler: str) -> subprocess.CompletedProcess[str]:
    """Run the script in the top directory, as make does."""
    argv = ["sh", "kernel/sched/tests/probe.sh", *(compiler or ("gcc", "-Iinclude"))]
    return subprocess.run(argv, check=False, capture_output=True, text=True, cwd=tree)


def found(tree: Path) -> set[str]:
    """The features that the script finds."""
    done = probe(tree)
    assert (done.returncode, done.stderr) == (0, "")
    head, *defines = done.stdout.splitlines()
    assert head.startswith("/*")
    return {line.removeprefix("#define SCHED_KUNIT_HAS_") for line in defines}


def test_nothing_is_found_in_a_kernel_without_features(tree: Path) -> None:
    assert found(tree) == set()


@pytest.mark.parametrize("feature", FEATURES)
def test_each_feature_is_found_alone(tree: Path, feature: str) -> None:
    add(tree, feature)
    assert found(tree) == {feature}


def test_all_features_are_found(tree: Path) -> None:
    for feature in FEATURES:
        add(tree, feature)
    assert found(tree) == set(FEATURES)


def test_every_feature_is_used_and_every_use_is_probed() -> None:
    sources = [path for path in KUNIT.iterdir() if path.suffix in (".c", ".h")]
    used = {word for path in sources for word in path.read_text().split() if word.startswith("SCHED_KUNIT_HAS_")}
    assert used == {f"SCHED_KUNIT_HAS_{feature}" for feature in FEATURES}


def test_headers_that_do_not_compile_are_no_answer(tree: Path) -> None:
    (tree / "include/linux/cpu.h").write_text("int broken = ;\n")
    done = probe(tree)
    assert done.returncode != 0
    assert "cpu.h:1" in done.stderr


def test_compiler_that_accepts_everything_is_no_answer(tree: Path) -> None:
    (tree / "cc").write_text("#!/bin/sh\nexec cat > /dev/null\n")
    (tree / "cc").chmod(0o755)
    done = probe(tree, "./cc")
    assert done.returncode != 0
    assert "errors of ./cc are not understood" in done.stderr
    assert "#define" not in done.stdout


def test_headers_are_listed_for_make(tree: Path) -> None:
    probe(tree, "gcc", "-Iinclude", "-Wp,-MMD,deps")
    deps = (tree / "deps").read_text()
    assert all(name in deps for name in ("linux/cpu.h", "sched.h", "lib/kunit/test.c"))


def test_stand_in_has_every_case_of_the_suites() -> None:
    suites = ("sched_cluster", "sched_topology", "sched_root_domain")
    names = (name.split(":") for name in load_expected(KUNIT / "tests.txt", None))
    listed = {words[1] for words in names if words[0] in suites}
    text = (KUNIT / "sched_cluster_absent.c").read_text()
    assert {line.split('"')[1] for line in text.splitlines() if ".run_case" in line} == listed
