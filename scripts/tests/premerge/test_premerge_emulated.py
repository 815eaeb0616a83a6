# SPDX-License-Identifier: GPL-2.0
"""The cache-line traffic of a series: measured on base and head, judged from both result files, and remembered."""

from __future__ import annotations

from pathlib import Path

import pytest
import toy_results
from msgspec.structs import replace
from toy_results import measured

from schedlib import doctor
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import TrafficResult
from schedlib.premerge import parts
from schedlib.premerge.premerge_verb import TRAFFIC
from schedlib.premerge.series import PatchSeries
from schedlib.tree.kernel_tree import Tree, open_kdir
from schedlib.verdict import Verdict

TOUCHED = PatchSeries("a" * 40, "b" * 40, (), b"--- a/kernel/sched/core.c\n+++ b/kernel/sched/core.c\n")


def traffic(false: int) -> TrafficResult:
    rows = (toy_results.row("rto_count", 0, false, 4000), toy_results.row("overloaded", 40, 100, 300))
    return toy_results.result(rows, rows, rows, build_id=str(false))


def both(out: Path, base: int, head: int) -> None:
    for side, false in (("base", base), ("head", head)):
        document.write(out / TRAFFIC / f"{side}.json", traffic(false))


@pytest.mark.parametrize(("head", "verdict"), [(1000, Verdict.PASS), (10, Verdict.PASS), (9000, Verdict.FAIL)])
def test_judged_from_what_both_left(tmp_path: Path, head: int, verdict: Verdict) -> None:
    both(tmp_path, 1000, head)
    part = parts.compared(tmp_path)
    assert part.verdict is verdict
    assert bool(part.lines) == (verdict is Verdict.FAIL)
    if part.lines:
        assert "root_domain, false_shared: 1100 -> 9100" in part.lines[0]


def test_other_settings_are_refused(tmp_path: Path) -> None:
    both(tmp_path, 1, 1)
    other = replace(traffic(1), parameters=replace(traffic(1).parameters, cpus=32))
    document.write(tmp_path / TRAFFIC / "head.json", other)
    with pytest.raises(SchedlineError, match="cpus is 8 in BASE and 32"):
        parts.compared(tmp_path)


def test_samples_of_a_machine_are_shown_and_judge_nothing(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "refuse_other_qemu", lambda: "QEMU 7.2")
    monkeypatch.setattr(doctor, "require", lambda names: None)
    monkeypatch.setattr(parts, "remembered", lambda cache, tree, quanta, logs: traffic(1000))
    samples = tmp_path / "measured"
    document.write(samples / "measured.json", measured(rto_count=600, overloaded=200, a_name_of_thirty_characters_ok=9))
    elsewhere = PatchSeries("a" * 40, "b" * 40, (), b"--- a/mm/slub.c\n+++ b/mm/slub.c\n")
    part = parts.emulated(tmp_path, tree, elsewhere, samples, tmp_path)
    assert part.verdict is Verdict.PASS
    assert part.lines[0].startswith("measured on a machine: 0 of 3 fields agree")
    assert part.lines[2].split() == ["root_domain.rto_count", "74.2%", "71.0%", "77.1%", "92.6%"]
    assert part.lines[4] == "root_domain.a_name_of_thirty_characters_ok" and max(map(len, part.lines)) <= 70
    document.write(samples / "measured.json", measured("inode", i_count=5))
    with pytest.raises(SchedlineError, match="no sample lies in what was emulated"):
        parts.emulated(tmp_path, tree, elsewhere, samples, tmp_path)


@pytest.fixture
def tree(kernel: Path, cache: Path) -> Tree:
    return open_kdir(cache, kernel)


def test_nothing_of_the_scheduler(tree: Tree, tmp_path: Path) -> None:
    series = PatchSeries("a" * 40, "b" * 40, (), b"--- a/mm/slub.c\n+++ b/mm/slub.c\n")
    assert parts.emulated(tmp_path, tree, series, None, tmp_path).verdict is Verdict.PASS


def test_another_qemu_is_a_skip(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise SchedlineError("c2c needs QEMU 7.2; this is QEMU 10.0", "")

    monkeypatch.setattr(parts, "refuse_other_qemu", refuse)
    monkeypatch.setattr(doctor, "require", lambda names: None)
    part = parts.emulated(tmp_path, tree, TOUCHED, None, tmp_path)
    assert part.verdict is None and "QEMU 10.0" in part.summary


def test_a_missing_tool_is_a_skip_with_its_reason_in_a_line(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    part = parts.emulated(tmp_path, tree, TOUCHED, None, tmp_path)
    assert part.verdict is None
    assert "this machine lacks: " in part.summary and "qemu-system-x86_64" in part.summary
    assert "\n" not in part.summary


def test_both_are_measured(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "refuse_other_qemu", lambda: "QEMU 7.2")
    monkeypatch.setattr(doctor, "require", lambda names: None)
    said = {TOUCHED.base: 1000, TOUCHED.head: 9000}
    monkeypatch.setattr(parts, "remembered", lambda cache, tree, quanta, logs: traffic(said[tree.head]))
    assert parts.emulated(tmp_path, tree, TOUCHED, None, tmp_path).verdict is Verdict.FAIL
    said[TOUCHED.head] = 900
    assert parts.emulated(tmp_path, tree, TOUCHED, None, tmp_path).verdict is Verdict.PASS
