# SPDX-License-Identifier: GPL-2.0
"""The report of a check, and what it says about the changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from golden import Golden
from schedlib.check import report
from schedlib.check.check_results import judged_boot
from schedlib.console.judge import Problem, judge
from schedlib.guest.boot import Ending, GuestRun
from schedlib.progress import print_untrusted
from schedlib.tree.changes import ChangeState, State
from schedlib.tree.compose import Composition
from schedlib.tree.kernel_tree import Tree
from schedlib.tree.suites import KunitSuite
from schedlib.verdict import Verdict

LOG = """\
Linux version 6.1.0
KTAP version 1
1..1
    # sched_cluster: change cluster-scan: {presence}
    KTAP version 1
    # Subtest: sched_cluster
    1..1
        KTAP version 1
        # Subtest: decision_table
        {row}
    ok 1 decision_table
ok 1 sched_cluster
reboot: Power down
"""


APPLIED = ChangeState("cluster-scan", State.APPLIED)


def summary(tmp_path: Path, presence: str, row: str, names: Sequence[str] = ("row-1",)) -> report.Summary:
    """A summary of one guest with one row, from a kernel that is too old for the layout suite."""
    (tmp_path / "log").write_text(LOG.format(presence=presence, row=row))
    return of_log(tmp_path, [f"sched_cluster:decision_table:{name}" for name in names])


def of_log(tmp_path: Path, expected: list[str], change: ChangeState = APPLIED, lost: str = "") -> report.Summary:
    judgement = judge((tmp_path / "log").read_bytes(), expected)
    judgement = judgement.with_problems([Problem("not-judged", 0, lost, Verdict.ERROR)] if lost else [])
    composition = Composition("", "", (change,), frozenset({"cluster-scan"}))
    tree = Tree("6.1", tmp_path, "", "", "linux-source-6.1", is_user=False)
    boot = judged_boot("guest", GuestRun((), tmp_path / "log", Ending.EXITED, 1.0), judgement)
    result = report.check_result(datetime.now(UTC), tree, composition, (boot,), {})
    return report.Summary(result, tmp_path, "", (KunitSuite("sched_layout", "CONFIG_X", "a.c", why="too old"),))


@pytest.mark.parametrize(
    ("presence", "row", "verdict"),
    [
        ("present", "ok 1 row-1", Verdict.PASS),
        ("present", "not ok 1 row-1", Verdict.FAIL),
        ("absent", "ok 1 row-1 # SKIP cluster-scan is not in this tree", Verdict.INCONCLUSIVE),
    ],
)
def test_change_without_a_case_of_its_name_is_judged_by_its_suite(
    tmp_path: Path, presence: str, row: str, verdict: Verdict
) -> None:
    (change,) = summary(tmp_path, presence, row).result.changes
    assert (change.id, change.present, change.verdict) == ("cluster-scan", presence, verdict)


@pytest.mark.parametrize(
    ("own", "verdict"),
    [("ok 1 {} # SKIP x", Verdict.INCONCLUSIVE), ("ok 1 {}", Verdict.PASS), ("not ok 1 {}", Verdict.FAIL)],
)
def test_change_is_judged_by_its_own_tests_alone(tmp_path: Path, own: str, verdict: Verdict) -> None:
    """Its test had got another name, and the suite's other tests passed for it."""
    name = "cluster_key_survives_other_partitions"
    text = LOG.replace("sched_cluster", "sched_topology").replace("decision_table", "failed_install_leaves_no_trace")
    text = text.replace("    1..1\n        KTAP", f"    1..2\n    {own.format(name)}\n        KTAP", 1)
    text = text.replace("    ok 1 failed_", "    ok 2 failed_")
    (tmp_path / "log").write_text(text.format(presence="absent", row="ok 1 row-1"))
    found = of_log(tmp_path, [f"sched_topology:{name}"], ChangeState("fix-cluster-key", State.ABSENT))
    (change,) = found.result.changes
    assert change.verdict is verdict


@pytest.mark.parametrize(
    ("lost", "verdict"),
    [
        ("rq-order.Q1: this tree has no rq.nr_running", Verdict.PASS),
        ("cluster-scan.Q1, cluster-scan.Q2: this tree has no x", Verdict.ERROR),
        ("sched_cluster: kernel/sched/tests/sched_cluster_kunit.c:7:9: error: x", Verdict.ERROR),
    ],
)
def test_change_of_which_something_was_not_judged_does_not_pass(tmp_path: Path, lost: str, verdict: Verdict) -> None:
    (tmp_path / "log").write_text(LOG.format(presence="present", row="ok 1 row-1"))
    found = of_log(tmp_path, ["sched_cluster:decision_table:row-1"], lost=lost).result
    assert (found.changes[0].verdict, found.status) == (verdict, Verdict.ERROR)


def test_the_text(tmp_path: Path, golden: Golden) -> None:
    """The most frequent of many reasons: a check of the selftests printed fifteen. A suite was left out."""
    rows = [f"ok {number} row-{number} # SKIP reason {min(number, 15)}" for number in range(1, 18)]
    names = [f"row-{number}" for number in range(1, 20)]
    rows += ["# row-18: it is late", "not ok 18 row-18"]
    found = replace(summary(tmp_path, "absent", "\n        ".join(rows), names), reproduce="schedline check --on uml")
    text = "\n".join(("", *report.lines(found, verbose=False), "", *report.lines(found, verbose=True), ""))
    golden("report.txt", text.replace(str(tmp_path), "/out"))


@pytest.mark.parametrize("row", ["# row-1: {0}\n        not ok 1 row-1", "ok 1 row-1 # SKIP {0}"])
def test_what_a_guest_prints_does_nothing_to_the_terminal(
    row: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in report.lines(summary(tmp_path, "present", row.format("seen \u202egnp\x07 \x9b2J")), verbose=True):
        print_untrusted(line)
    said = capsys.readouterr().out
    assert "seen" in said
    assert all(char.isprintable() or char in "\n\t" for char in said)
