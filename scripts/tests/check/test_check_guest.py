# SPDX-License-Identifier: GPL-2.0
"""`schedline check` with real kernels, as a user runs it. They are built in the user's cache and stay there."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedlib.paths import PROJECT
from schedlib.tree.kernel_tree import Tree

pytestmark = pytest.mark.guest

SCHEDLINE = str(PROJECT / "scripts/schedline")


def check(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a check to its end, even if an earlier verdict is still valid."""
    argv = [SCHEDLINE, "check", "--again", *words]
    return subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def started_until(step: str, *words: str) -> subprocess.Popen[str]:
    """A check that has come to this step."""
    argv = [SCHEDLINE, "check", "--again", *words]
    runner = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert runner.stderr is not None
    for line in runner.stderr:
        if line.startswith(step):
            break
    return runner


def identity(directory: Path) -> str:
    """Digest over the status of every file, and over the content of those in .git."""
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and ".git" in path.parts else b""
        digest.update(f"{path} {status.st_mode} {status.st_size} {status.st_mtime_ns}".encode() + content)
    return digest.hexdigest()


def outcomes(results: Path) -> Iterator[tuple[str, str, str]]:
    """Name, outcome and reason of each test in each guest."""
    for boot in json.loads(results.read_text())["boots"]:
        for test in boot["tests"]:
            yield test["name"], test["outcome"], test["reason"]


def test_unpatched_user_tree_is_skipped_with_the_reason_and_not_written(user_tree: Path, tmp_path: Path) -> None:
    before = identity(user_tree)
    done = check("--kdir", str(user_tree), "--cpus", "8", "--json", str(tmp_path / "results.json"))
    assert identity(user_tree) == before
    assert done.returncode == 0, done.stdout + done.stderr
    assert "(dirty: 2 files)" in done.stdout
    rules = [row for row in outcomes(tmp_path / "results.json") if ":rd-lines." in row[0]]
    assert rules
    assert all(outcome == "SKIP" and "rd-lines is not in this tree" in reason for _, outcome, reason in rules)
    assert ("sched_layout:rq_order:rq-order.Q1", "PASS", "") in list(outcomes(tmp_path / "results.json"))


def test_unpatched_user_tree_fails_with_expect(user_tree: Path, tmp_path: Path) -> None:
    words = f"--kdir {user_tree} --cpus 8 --expect rd-lines --json {tmp_path / 'results.json'}"
    done = check(*words.split())
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAIL sched_layout:rd_lines:rd-lines.R1" in done.stdout
    assert re.search(r">\s+168\s+4\s+rto_loop_start", done.stdout)
    assert done.stdout.endswith("verdict: FAIL\n")
    failed = {name for name, outcome, _ in outcomes(tmp_path / "results.json") if outcome == "FAIL"}
    assert {f"sched_layout:rd_lines:rd-lines.R{number}" for number in range(1, 8)} <= failed


def test_tree_that_does_not_build_shows_the_compilers_error(user_tree: Path) -> None:
    header = user_tree / "kernel/sched/sched.h"
    text = header.read_text()
    header.write_text(text.replace("struct rq {", "struct rq {\n\tno_such_type\tmember;", 1))
    done = check("--kdir", str(user_tree))
    header.write_text(text)
    assert done.returncode == 2
    assert "no_such_type" in done.stderr
    assert "build.log" in done.stderr


def test_without_a_change_its_rules_fail(series: Tree) -> None:
    done = check("--without", "rd-lines", "--cpus", "8")
    assert done.returncode == 1, done.stdout + done.stderr
    words = " ".join(done.stdout.split())
    assert "rd-lines yes left out absent FAIL" in words
    assert "cpupri-lines yes applied present PASS" in words
    assert "rd-lines.R2: struct root_domain: ON_LINE pd rto_mask" in done.stdout


def test_the_last_line_of_a_structure_is_judged_in_the_kernel(series: Tree, tmp_path: Path) -> None:
    """The kernel's reader looked one byte too few behind it, and a new member at the end of cpupri_vec passed."""
    done = check("--cpus", "8", "--only", "sched_layout.cpupri_lines", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout + done.stderr
    log = (tmp_path / "out/uml-8.log").read_text()
    assert "cpupri-lines.C1" in log
    assert "a part is not judged" not in log


def test_kill_in_the_middle_of_a_build_leaves_nothing_trusted(series: Tree) -> None:
    # No other test builds this state, so a build is always needed.
    runner = started_until("building", "--cpus", "8", "--without", "cpupri-lines")
    runner.kill()
    runner.communicate()
    done = check("--cpus", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    # Another test may have built it first, while this one waited.
    assert "building" in done.stderr or "\nwaited " in done.stderr
    assert "PASS" in done.stdout


def test_interrupted_run_says_how_to_go_on(series: Tree) -> None:
    runner = started_until("booting", "--cpus", "64")
    runner.send_signal(signal.SIGINT)
    _, said = runner.communicate(timeout=60)
    assert runner.returncode == 2
    assert "interrupted" in said


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--cpus 8 --timeout 0.001", 2, "did not boot"),
        ("--cpus 8 --require rq-order.Q6", 2, "rq-order.Q6"),
        ("--cpus 8 --kernel-arg sched_layout_kunit.expect=rd-line", 1, "FAIL sched_layout:changes"),
        ("--config numa", 2, "asks for CONFIG_NUMA=y, Kconfig left it at n: "),
    ],
)
def test_what_is_wrong_is_told(words: str, code: int, said: str, series: Tree) -> None:
    done = check(*words.split())
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "split"),
    [(("--only", "sched_latency.cluster_partition"), "SKIP"), (("--with", "fix-cluster-key"), "PASS")],
)
def test_split_of_a_partition_seen_from_user_space(
    series: Tree, words: tuple[str, ...], split: str, tmp_path: Path
) -> None:
    where = ("--on", "qemu-arm64", "--topology", "jacobsville", "--selftests")
    done = check(*where, *words, "--json", str(tmp_path / "results.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = {name.rpartition(":")[2]: told for name, *told in outcomes(tmp_path / "results.json")}
    assert found["cluster_scanned"] == ["PASS", ""]
    assert found["other_partition_split"][0] == split
    assert ("known defect" in found["other_partition_split"][1]) is (split == "SKIP")


def test_guest_has_the_clusters_and_nodes_of_its_topology(series: Tree, tmp_path: Path) -> None:
    out = tmp_path / "out"
    # Use the selftests' kernel: all tests on arm64 then share one build.
    words = "--config selftests --only sched_layout --kernel-arg sched_verbose --kernel-arg loglevel=8"
    done = check("--on", "qemu-arm64", "--topology", "kunpeng920", *words.split(), "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    log = (out / "qemu-arm64-kunpeng920.log").read_text()
    assert "domain-0: span=0-3 level=CLS" in log
    assert "domain-1: span=0-31 level=MC" in log
    assert "domain-2: span=0-63 level=NUMA" in log
