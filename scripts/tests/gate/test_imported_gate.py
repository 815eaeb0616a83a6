# SPDX-License-Identifier: GPL-2.0
"""`schedline gate` on files of other tools: one command, a verdict that says what it rests on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from campaigns import Campaign, main, noise, rewrite
from foreign_files import cyclictest, hackbench

from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.gate_document import GateDocument


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.replace("\n    ", " ")


def gate(*words: object) -> int:
    return main(["gate", *map(str, words)])


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    return hackbench(tmp_path / "base", noise(1)), hackbench(tmp_path / "candidate", noise(2))


def test_one_command_gives_a_verdict_that_says_what_is_trusted(
    sides: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, page = tmp_path / "gate.json", tmp_path / "page.html"
    assert gate(*sides, "--unit", "run", "--trust", "--json", result, "--html", page) == 0
    said = printed(capsys)
    trusted = "trusted: build_id, command_line of hackbench, configuration, kernel, machine, machine_name not recorded"
    assert trusted in said
    assert "WARNING: these are runs of one boot of each kernel" in said
    assert "A/A" not in said
    assert said.endswith("verdict: PASS\n")
    found = document.read(result, GateDocument, "")
    assert trusted in found.notes
    assert any("WARNING: these are runs of one boot" in note for note in found.notes)
    assert trusted in page.read_text() and "WARNING: these are runs of one boot" in page.read_text()
    assert "--unit run --trust" in page.read_text()


def test_without_trust_nothing_passes_or_fails(
    sides: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = hackbench(hackbench(tmp_path / "slow", noise(2, factor=1.5)), noise(4, factor=1.5), first=10)
    hackbench(sides[0], noise(3), first=10)
    assert gate(sides[0], slow, "--unit", "run", "--trust") == 1
    for other in (sides[1], slow):
        capsys.readouterr()
        assert gate(sides[0], other, "--unit", "run") == 3
        said = printed(capsys)
        assert "FAIL" not in said and said.count("PASS") == said.count("a PASS excludes")
        assert "not recorded: build_id, command_line of hackbench" in said and "add --trust" in said


def test_other_settings_are_refused(tmp_path: Path) -> None:
    base, other = hackbench(tmp_path / "base", noise(1)), hackbench(tmp_path / "other", noise(2), groups=4)
    with pytest.raises(SchedlineError, match="settings of hackbench differs between base and candidate"):
        gate(base, other, "--unit", "run", "--trust")


def test_the_unit_is_never_guessed(sides: tuple[Path, Path]) -> None:
    with pytest.raises(SchedlineError) as error:
        gate(*sides)
    assert "holds files of other tools: hackbench" in str(error.value)
    assert "add --unit run if all files of a directory are from one boot, --unit boot if" in str(error.value)
    for words in (["--columns", "metric,value"], ["--budget", "3"]):
        with pytest.raises(SchedlineError, match="--unit"):
            gate(*sides, *words)


def test_boots_in_turn_need_no_order_on_trust(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = [0, 3, 4, 7, 8, 11, 12, 15, 16, 19]
    base = cyclictest(tmp_path / "base", "7.3.4", turns)
    same = cyclictest(tmp_path / "same", "7.3.5", [slot + 1 if slot % 2 == 0 else slot - 1 for slot in turns])
    assert gate(base, same, "--unit", "boot", "--trust") == 0
    said = printed(capsys)
    assert "trusted: build_id, configuration, machine not recorded" in said
    assert "WARNING" not in said
    block = cyclictest(tmp_path / "block", "7.3.5", range(30, 40))
    assert gate(base, block, "--unit", "boot", "--trust") == 3
    assert "a drift could look like a change" in printed(capsys)


def test_boots_whose_order_only_the_file_system_knows(
    sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(*sides, "--unit", "boot", "--trust") == 0
    assert "order of hackbench not recorded" in printed(capsys)


def test_a_metric_that_the_candidate_lost_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Latencies beyond the histogram have no quantile; the mean does not take its place."""
    base = cyclictest(tmp_path / "base", "7.3.4", range(0, 20, 2))
    far = cyclictest(tmp_path / "far", "7.3.5", range(1, 21, 2))

    def cut(found: dict[str, Any]) -> None:
        for thread in found["thread"].values():
            thread["histogram"] = {at: count for at, count in thread["histogram"].items() if int(at) < 60}

    rewrite(far, cut)
    assert gate(base, far, "--unit", "run", "--trust") == 2
    assert "candidate lacks it" in printed(capsys)


def test_budget_and_detect(sides: tuple[Path, Path], tmp_path: Path) -> None:
    result = tmp_path / "gate.json"
    assert gate(*sides, "--unit", "run", "--trust", "--budget", "5", "--detect", "30", "--json", result) == 0
    metric = document.read(result, GateDocument, "").metrics[0]
    assert (metric.name, metric.budget, metric.detect) == ("time_s", 5, 30)
    with pytest.raises(SchedlineError, match="less than the budget"):
        gate(*sides, "--unit", "run", "--budget", "5", "--detect", "4")


def test_a_gates_file_is_used_as_always(
    sides: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = tmp_path / "gates.toml"
    gates.write_text(
        '[gate]\norder = "any"\n[[metric]]\ntool = "hackbench"\nname = "time_s"\ndirection = "lower"\n'
        'method = "rank"\nbudget = 9\ndetect = 20\n'
    )
    assert gate(*sides, "--unit", "run", "--trust", "--gates", gates) == 0
    assert "gates: gates;" in printed(capsys)
    with pytest.raises(SchedlineError, match="without a gates file"):
        gate(*sides, "--unit", "run", "--budget", "4", "--gates", gates)


def test_nothing_is_judged_without_a_direction(tmp_path: Path) -> None:
    for side in ("base", "candidate"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "a.csv").write_text("metric,value\nrate,7\n")
    with pytest.raises(SchedlineError, match="add a column direction"):
        gate(tmp_path / "base", tmp_path / "candidate", "--unit", "run", "--columns", "metric,value")


def test_a_candidate_with_fewer_files(sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Its 13 files passed against 20 of the base: what crashes writes none."""
    hackbench(sides[0], noise(3), first=10)
    hackbench(sides[1], noise(4, 3), first=10)
    for unit in ("run", "boot"):
        assert gate(*sides, "--unit", unit, "--trust") == 3
        assert "the candidate has 13 boots and the base 20" in printed(capsys)
        assert gate(*sides, "--unit", unit, "--trust", "--incomplete", "the disk was full") == 0
        assert ("candidate lost 0 of 13 attempts. No plan is" in printed(capsys)) == (unit == "boot")


def test_a_copy_is_told_with_its_directory(tmp_path: Path) -> None:
    for side in ("base", "candidate"):
        cyclictest(tmp_path / side, "7.3.4", [1])
    rewrite(tmp_path / "candidate", lambda found: found.update(start_time="Mon, 23 Nov 2026 15:01:00 +0000"))
    with pytest.raises(SchedlineError, match=rf"{tmp_path}/candidate/0.json .*: {tmp_path}/base/0.json has the same"):
        gate(tmp_path / "base", tmp_path / "candidate", "--unit", "run", "--trust")


def test_what_was_skipped_is_said(sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    (sides[1] / "README").write_text("My results\n")
    assert gate(*sides, "--unit", "run", "--trust") == 0
    assert "candidate: skipped 1 file: not a format that is known (cyclictest --json" in printed(capsys)


def test_runs_of_schedline_are_judged_as_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside them the output of a tool is no run, and hides no error."""
    campaign = Campaign(tmp_path)
    campaign.boots(noise(1), noise(2))
    with pytest.raises(SchedlineError, match="which knows its boot"):
        gate(campaign.base, campaign.candidate, "--unit", "run")
    assert main(campaign.words()) == 0
    said = printed(capsys)
    assert "trusted" not in said and "not recorded" not in said and "WARNING" not in said
    hackbench(campaign.base, noise(3))
    assert main(campaign.words()) == 0
    for path in campaign.candidate.glob("*.json"):
        path.write_text(path.read_text().replace("performance", "powersave"))
    with pytest.raises(SchedlineError, match="governor differs"):
        main(campaign.words())
    campaign.save(campaign.base, "{")
    with pytest.raises(SchedlineError, match="it is no whole JSON document"):
        main(campaign.words())
