# SPDX-License-Identifier: GPL-2.0
"""The code for a kernel tree could be sent upstream: checkpatch --strict, W=1 and sparse find nothing."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from schedlib.cache import cache_dir, lock
from schedlib.contracts.c_tables import TABLE
from schedlib.dev.dev_verb import COMPILE_ROWS, SPARSE
from schedlib.dev.plain_tree import clone_with_series, compile_row
from schedlib.kernel.build import build_directory, built, make_as_configured, plan_kernel
from schedlib.kernel.kconfig import load
from schedlib.kernel.targets import TARGETS
from schedlib.paths import KUNIT, PATCHES, SELFTESTS
from schedlib.tree.compose import TESTS_DIRECTORY, compose
from schedlib.tree.kernel_tree import Tree, checked_out, fetch_series
from schedlib.verdict import Verdict

pytestmark = pytest.mark.guest

SOURCES = sorted(path for path in KUNIT.iterdir() if path.suffix in (".c", ".h"))
PROGRAMS = sorted(path for path in SELFTESTS.rglob("*") if path.suffix in (".c", ".h"))
MAILS = sorted(PATCHES.rglob("*.patch"))


def checkpatch(tree: Tree, *words: str) -> str:
    """The findings of the tree's own checkpatch.pl."""
    argv = ["perl", str(tree.src / "scripts/checkpatch.pl"), "--strict", "--no-tree", "--terse", "--no-summary", *words]
    return subprocess.run(argv, check=False, capture_output=True, text=True, cwd=tree.src).stdout


@pytest.mark.parametrize("source", [*SOURCES, *PROGRAMS], ids=lambda path: path.name)
def test_sources_pass_checkpatch(series: Tree, source: Path) -> None:
    # A replacement of a KUnit macro, or a for_each loop, has to use its arguments more than once.
    loops = source.stem.endswith("_compat") or source.name == "sched_latency.h"
    ignored = "MACRO_ARG_REUSE,MACRO_ARG_PRECEDENCE" if loops else "NONE"
    assert checkpatch(series, "--ignore", ignored, "-f", str(source)) == ""


@pytest.mark.parametrize("mail", MAILS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_patches_pass_checkpatch(series: Tree, mail: Path) -> None:
    # A commit of Linus' tree is unknown in a tree without history. Nobody signs off a revert for tests, and a patch of
    # ours is signed off by the person who sends it.
    ours = mail.parent.name in ("revert", "placebo", "reports")
    unsigned = ours or mail.stem.startswith("fix-") or mail.stem in ("cpupri-split", "rq-readers")
    ignored = ["UNKNOWN_COMMIT_ID", *(["MISSING_SIGN_OFF"] if unsigned else [])]
    assert checkpatch(series, "--ignore", ",".join(ignored), str(mail)) == ""


def test_the_made_file_passes_checkpatch(series: Tree, tmp_path: Path) -> None:
    commit = compose(series, with_=["cpupri-split"]).commit
    (tmp_path / TABLE).write_text(series.read(f"{TESTS_DIRECTORY}/{TABLE}", commit) or "")
    assert checkpatch(series, "-f", str(tmp_path / TABLE)) == ""


def test_checkpatch_finds_what_is_wrong(series: Tree, tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text("int  a ;\n")
    assert "SPDX" in checkpatch(series, "-f", str(tmp_path / "bad.c"))


def test_no_warnings_from_the_compiler_and_sparse(series: Tree) -> None:
    directory = build_directory(cache_dir(), series, TARGETS["uml"], load(["uml"]))
    commit = compose(series).commit
    with built(cache_dir(), series, commit, TARGETS["uml"], load(["uml"])), checked_out(series, commit):
        # This kernel needs no replacements. fair.c and topology.c include the tests of static functions.
        for source in SOURCES:
            if (series.src / TESTS_DIRECTORY / source.name).exists():
                os.utime(series.src / TESTS_DIRECTORY / source.name)
        argv = ["make", "ARCH=um", f"O={directory}", "LOCALVERSION=", "W=1", "C=1", SPARSE, "kernel/sched/"]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=series.src)
    assert done.returncode == 0, done.stderr
    assert re.search(r"CHECK +\S*/sched_layout_kunit\.c", done.stdout), done.stdout
    # Debian's sparse 0.6.4 takes module_param()'s constants for bad ones; lib/kunit/ shows the same.
    findings = re.findall(
        rf"^.*{TESTS_DIRECTORY}.*: (?:warning|error): (?!bad constant expression).*$", done.stderr, re.M
    )
    assert findings == []


def test_the_suites_compile_in_an_older_kernel() -> None:
    """6.12 needs two headers that 7.3 includes by itself, and has constants where 7.3 has variables."""
    target = TARGETS["qemu-x86_64"]
    plan = plan_kernel(fetch_series(cache_dir(), "6.12"), target, ["balance"])
    directory = build_directory(cache_dir(), plan.tree, target, plan.configuration)
    with lock(directory.with_name(f"{directory.name}.lock")), checked_out(plan.tree, plan.commit):
        make_as_configured(plan.tree, directory, target.arch, plan.configuration, [], ["kernel/sched/"])
    assert {path.stem for path in (directory / TESTS_DIRECTORY).glob("*.o")} >= {
        "sched_cpupri_kunit",
        "sched_layout_kunit",
    }
    assert (directory / "kernel/sched/fair.o").exists()


def test_the_series_compiles_where_bpf_is_off(series: Tree, tmp_path: Path) -> None:
    """Without CONFIG_BPF_SYSCALL nothing declares bpf_get_btf_vmlinux()."""
    clone, _ = clone_with_series(series, tmp_path / "plain")
    row = COMPILE_ROWS["x86_64"]
    assert "CONFIG_BPF_SYSCALL" not in load(row.fragments).values
    verdict, said, found = compile_row(clone, tmp_path / "build", "x86_64", row)
    assert (verdict, found) == (Verdict.PASS, ()), said
