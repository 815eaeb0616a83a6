# SPDX-License-Identifier: GPL-2.0
"""`schedline gate` on files of other tools: one command, a verdict that says what it rests on."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import Campaign, cyclictest, hackbench, noise, rewrite, told

from schedlib.formats import document
from schedlib.formats.gate_document import GateDocument

SCHBENCH = Path(__file__).parent / "recorded/schbench/2025-09-28-mmtests-1.txt"


def gate(*words: object) -> tuple[int | None, str]:
    return told("gate", *words)


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    return hackbench(tmp_path / "base", noise(1, 20)), hackbench(tmp_path / "candidate", noise(2, 20))


RUN, TRUSTED = ("--unit", "run"), ("--unit", "run", "--trust")
ENTRIES = "build_id, command_line of hackbench, configuration, kernel, machine, machine_name not recorded"


def test_one_command_gives_a_verdict_that_says_what_is_trusted(sides: tuple[Path, Path], tmp_path: Path) -> None:
    result, page = tmp_path / "gate.json", tmp_path / "page.html"
    code, said = gate(*sides, *TRUSTED, "--json", result, "--html", page)
    assert code == 0 and said.endswith("verdict: PASS") and "A/A" not in said
    notes = document.read(result, GateDocument, "").notes
    assert f"trusted: {ENTRIES}" in notes
    for text in (said, page.read_text(), "\n".join(notes)):
        assert f"trusted: {ENTRIES}" in text and "WARNING: these are runs of one boot of each kernel" in text
    assert "--unit run --trust" in page.read_text()


def test_without_trust_nothing_passes_or_fails(sides: tuple[Path, Path], tmp_path: Path) -> None:
    slow = hackbench(tmp_path / "slow", noise(4, 20, 1.5))
    assert gate(sides[0], slow, *TRUSTED)[0] == 1
    for other in (sides[1], slow):
        code, said = gate(sides[0], other, *RUN)
        assert code == 3 and "FAIL" not in said and said.count("PASS") == said.count("a PASS ")
        assert f"not recorded: {ENTRIES[:37]}" in said and "add --trust" in said


def test_other_settings_are_refused(tmp_path: Path) -> None:
    base, other = hackbench(tmp_path / "base", noise(1)), hackbench(tmp_path / "other", noise(2), groups=4)
    assert "settings of hackbench differs: " in gate(base, other, *TRUSTED)[1]


def test_another_runtime_and_other_threads_are_other_settings(tmp_path: Path) -> None:
    """Sides of 30 s and 100 s, and of two threads and one, were compared."""
    text, lot = SCHBENCH.read_text(), np.random.default_rng(1)
    for side, runtime in (("base", 30), ("candidate", 100)):
        (tmp_path / side).mkdir()
        for number in range(10):
            found = text.replace("runtime 100 (s)", f"runtime {runtime} (s)")
            (tmp_path / side / f"{number}.txt").write_text(found.replace("176.23", f"{lot.normal(176, 2):.2f}"))
    said = gate(tmp_path / "base", tmp_path / "candidate", *TRUSTED)[1]
    assert "settings of schbench differs: 'runtime 30 (s)' in base, 'runtime 100 (s)' in candidate" in said
    base = cyclictest(tmp_path / "two", "7.3.4", range(0, 20, 2))
    other = cyclictest(tmp_path / "one", "7.3.5", range(1, 21, 2))
    rewrite(other, lambda found: found["thread"].pop("1"))
    said = gate(base, other, *TRUSTED)[1]
    assert "settings of cyclictest differs: " in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # The unit is never guessed.
        ([], "holds files of other tools: hackbench"),
        ([], "add --unit run if all files of a directory are from one boot, --unit boot if"),
        (["--columns", "metric,value"], "--unit"),
        (["--budget", "3"], "--unit"),
        ([*RUN, "--budget", "5", "--detect", "4"], "less than the budget"),
        ([*RUN, "--budget", "4", "--gates", "default"], "without a gates file"),
    ],
)
def test_words_that_are_refused(words: list[str], said: str, sides: tuple[Path, Path]) -> None:
    code, text = gate(*sides, *words)
    assert code is None and said in text


def test_boots_in_turn_need_no_order_on_trust(tmp_path: Path) -> None:
    turns = [4 * place + at for place in range(10) for at in (0, 3)]
    base = cyclictest(tmp_path / "base", "7.3.4", turns)
    same = cyclictest(tmp_path / "same", "7.3.5", [slot + 1 if slot % 2 == 0 else slot - 1 for slot in turns])
    code, said = gate(base, same, "--unit", "boot", "--trust")
    assert code == 0 and "trusted: build_id, configuration, machine not recorded" in said and "WARNING" not in said
    block = cyclictest(tmp_path / "block", "7.3.5", range(40, 60))
    code, said = gate(base, block, "--unit", "boot", "--trust")
    assert code == 3 and "a drift could look like a change" in said


@pytest.mark.parametrize(("later", "code"), [(60, 0), (10, None)])
def test_boots_of_csv_files_that_were_at_the_same_time(later: int, code: int | None, tmp_path: Path) -> None:
    """later: minutes from a boot of the base, which has runs for half an hour, to one of the candidate."""
    start, values = datetime(2026, 11, 23, tzinfo=UTC), np.random.default_rng(1).normal(50, 0.3, 80)
    for side, minutes, drawn in (("base", 0, values[:40]), ("candidate", later, values[40:])):
        (tmp_path / side).mkdir()
        rows = []
        for place, value in enumerate(drawn):
            when = start + timedelta(hours=2 * (place // 2), minutes=minutes + 30 * (place % 2))
            rows.append(f"{when},{side}{place // 2},t,{value},lower\n")
        (tmp_path / side / "a.csv").write_text("".join(rows))
    columns = ("--columns", "started,boot,metric,value,direction")
    found, said = gate(tmp_path / "base", tmp_path / "candidate", "--unit", "boot", "--trust", *columns)
    assert found == code and ("were at the same time" in said) == (code is None)


def test_a_result_that_was_cut_is_no_other_program_s(tmp_path: Path) -> None:
    """It was left out as an output of "another program of rt-tests"."""
    base = cyclictest(tmp_path / "base", "7.3.4", range(0, 20, 2))
    other = cyclictest(tmp_path / "other", "7.3.5", range(1, 21, 2))
    path = other / "3.json"
    path.write_text(path.read_text()[:1500])
    code, said = gate(base, other, "--unit", "boot", "--trust")
    assert code is None and "3.json: it is no whole JSON document (cut off?)" in said


def test_a_file_that_looks_like_a_result_by_its_name_and_has_none(sides: tuple[Path, Path]) -> None:
    """A run that was killed was left out with the files that are no results."""
    (sides[1] / "killed.txt").write_text("Killed\n")
    code, said = gate(*sides, *TRUSTED)
    assert code is None and "killed.txt: not a format that is known" in said


def test_boots_whose_order_only_the_file_system_knows(sides: tuple[Path, Path]) -> None:
    code, said = gate(*sides, "--unit", "boot", "--trust")
    assert code == 0 and "order of hackbench not recorded" in said


def test_a_bad_boot_is_named_by_its_file(sides: tuple[Path, Path], tmp_path: Path) -> None:
    """It was "boot e47cc0b22f949b19", which nobody can find."""
    (sides[1] / "003.txt").write_text((sides[1] / "003.txt").read_text().replace("Time: ", "Time: 7"))
    code, said = gate(*sides, "--unit", "boot", "--trust")
    assert code == 3 and "bad boots: 1 of 20 of the candidate (boot 003.txt " in said


def test_a_metric_that_the_candidate_lost_is_an_error(tmp_path: Path) -> None:
    """Latencies beyond the histogram have no quantile; the mean does not take its place."""
    base = cyclictest(tmp_path / "base", "7.3.4", range(0, 20, 2))
    far = cyclictest(tmp_path / "far", "7.3.5", range(1, 21, 2))

    def cut(end: int, found: dict[str, Any]) -> None:
        for thread in found["thread"].values():
            thread["histogram"] = {at: count for at, count in thread["histogram"].items() if int(at) < end}

    rewrite(far, partial(cut, 60))
    code, said = gate(base, far, *TRUSTED)
    assert code == 2 and "candidate lacks it" in said
    # Both lack it: p50 alone passed, and the mean alone if both quantiles are beyond.
    for end, names in ((60, "latency.p99"), (1, "latency.p50, latency.p99")):
        for side in (base, far):
            rewrite(side, partial(cut, end))
        code, said = gate(base, far, *TRUSTED)
        assert code == 3 and f"{names}: not measured here: " in said[: said.index(" base: ")]


def test_files_of_two_tools_are_no_boots_of_both(tmp_path: Path) -> None:
    """Half of the boots were told to lack the other tool, because they had crashed."""
    base = cyclictest(tmp_path / "base", "7.3.4", range(0, 40, 2))
    hackbench(base, noise(1, 20))
    code, said = gate(base, base, "--unit", "boot", "--trust")
    assert code is None and "holds files of several tools (9.json of cyclictest, 019.txt of hackbench)" in said


@pytest.mark.parametrize("odd", ["base", "candidate"])
def test_a_boot_with_more_runs_than_the_others(odd: str, tmp_path: Path) -> None:
    """All boots of the base were told to have too few."""
    for side, start in (("base", 0), ("candidate", 1)):
        (tmp_path / side).mkdir()
        rows = [(place, run) for place in range(20) for run in range(1 + (side == odd and place == 7))]
        times = [datetime.fromtimestamp(1.7e9 + 600 * (2 * place + start), UTC) for place, _ in rows]
        lines = [
            f"lat,{value:.3f},lower,{side}-{place},{run},{at}\n"
            for (place, run), value, at in zip(rows, noise(start, len(rows)), times, strict=True)
        ]
        (tmp_path / side / "all.csv").write_text("".join(lines))
    words = ("--unit", "boot", "--columns", "metric,value,direction,boot,run,started", "--trust")
    code, said = gate(tmp_path / "base", tmp_path / "candidate", *words)
    assert code == 2 and said.startswith(f"ERROR: lat: {odd}: more than 1 run of csv in 1 of 20 boots (boot {odd}-7)")


def test_budget_and_detect(sides: tuple[Path, Path], tmp_path: Path) -> None:
    result = tmp_path / "gate.json"
    assert gate(*sides, *TRUSTED, "--budget", "5", "--detect", "30", "--json", result)[0] == 0
    metric = document.read(result, GateDocument, "").metrics[0]
    assert (metric.name, metric.budget, metric.detect) == ("time_s", 5, 30)


def test_a_gates_file_is_used_as_always(sides: tuple[Path, Path], tmp_path: Path) -> None:
    gates = tmp_path / "gates.toml"
    gates.write_text(
        '[gate]\norder = "any"\n[[metric]]\ntool = "hackbench"\nname = "time_s"\ndirection = "lower"\n'
        'method = "rank"\nbudget = 9\ndetect = 20\n'
    )
    code, said = gate(*sides, *TRUSTED, "--gates", gates)
    assert code == 0 and "gates: gates;" in said


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("metric,value\nrate,7\n", "add a column direction"),
        # It is no header: the metric has a row below.
        ("rate,timeout\nrate,7\n", "line 1: the value 'timeout' is no number"),
    ],
)
def test_a_csv_file_of_which_nothing_can_be_judged(text: str, why: str, tmp_path: Path) -> None:
    for side in ("base", "candidate"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "a.csv").write_text(text)
    _, said = gate(tmp_path / "base", tmp_path / "candidate", *RUN, "--columns", "metric,value")
    assert why in said


@pytest.mark.parametrize(
    ("direction", "more", "said"),
    [
        ("neither", [], "csv rate has another unit, direction or kind in another directory"),
        ("higher", ["--detect", "120"], "detect = 120 % is all of it"),
    ],
)
def test_a_direction_that_does_not_fit(direction: str, more: list[str], said: str, tmp_path: Path) -> None:
    """A metric that has a direction in the base alone was not judged, and a PASS; the other one was a traceback."""
    lot = np.random.default_rng(1)
    for side, named in (("base", "higher"), ("candidate", direction)):
        (tmp_path / side).mkdir()
        for number, values in enumerate(lot.normal(50, 0.3, (10, 2))):
            text = f"t,{values[0]},lower\nrate,{values[1]},{named}\n"
            (tmp_path / side / f"{number}.csv").write_text(text)
    columns = ("--columns", "metric,value,direction")
    code, text = gate(tmp_path / "base", tmp_path / "candidate", *TRUSTED, *columns, *more)
    assert code is None and said in text


def test_a_candidate_with_fewer_files(sides: tuple[Path, Path]) -> None:
    """Its 13 files passed against 20 of the base: what crashes writes none."""
    hackbench(sides[0], noise(3), first=20)
    hackbench(sides[1], noise(4, 3), first=20)
    for unit in ("run", "boot"):
        code, said = gate(*sides, "--unit", unit, "--trust")
        assert code == 3 and "the candidate has 23 boots and the base 30" in said
        code, said = gate(*sides, "--unit", unit, "--trust", "--incomplete", "the disk was full")
        assert code == 0 and ("candidate lost 0 of 23 attempts. No plan: " in said) == (unit == "boot")


def test_a_copy_is_told_with_its_directory(tmp_path: Path) -> None:
    for side in ("base", "candidate"):
        cyclictest(tmp_path / side, "7.3.4", [1])
    rewrite(tmp_path / "candidate", lambda found: found.update(start_time="Mon, 23 Nov 2026 15:01:00 +0000"))
    _, said = gate(tmp_path / "base", tmp_path / "candidate", *TRUSTED)
    assert re.search(rf"{tmp_path}/candidate/0.json .*: {tmp_path}/base/0.json has the same", said)


@pytest.mark.parametrize("where", ["base", "candidate", "from base to candidate"])
def test_copies_of_files_without_a_start_time(where: str, sides: tuple[Path, Path]) -> None:
    """With other times of the files they were boots of their own."""
    copied = sides[where == "candidate"]
    for number, path in enumerate(sorted(copied.iterdir())):
        copy = (sides[1] if "from" in where else copied) / f"copy{number}.txt"
        copy.write_text(path.read_text())
        os.utime(copy, (1.8e9 + number, 1.8e9 + number))
    code, said = gate(*sides, *TRUSTED)
    assert code is None and "20 of 60 runs repeat others. Chance hardly does that" in said


def test_times_that_are_equal_because_the_clock_is_coarse_are_no_copies(tmp_path: Path) -> None:
    sides = [hackbench(tmp_path / name, noise(seed, factor=0.01)) for seed, name in ((1, "base"), (2, "candidate"))]
    assert gate(*sides, *TRUSTED)[0] is not None


def test_what_was_skipped_is_said(sides: tuple[Path, Path]) -> None:
    (sides[1] / "README").write_text("My results\n")
    code, said = gate(*sides, *TRUSTED)
    assert code == 0 and "candidate: skipped 1 file: not a format that is known (cyclictest --json" in said


def test_runs_of_schedline_are_judged_as_before(tmp_path: Path) -> None:
    """Beside them the output of a tool is no run, and hides no error."""
    campaign = Campaign(tmp_path)
    campaign.boots(noise(1), noise(2))
    assert "which knows its boot" in gate(campaign.base, campaign.candidate, *RUN)[1]
    code, said = campaign.told()
    assert code == 0 and not re.search("trusted|not recorded|WARNING", said)
    hackbench(campaign.base, noise(3))
    assert campaign.told()[0] == 0
    for path in campaign.candidate.glob("*.json"):
        path.write_text(path.read_text().replace("performance", "powersave"))
    assert "governor differs" in campaign.told()[1]
    campaign.save(campaign.base, "{")
    assert "it is no whole JSON document" in campaign.told()[1]


def test_a_directory_for_each_boot_is_no_lost_boot(tmp_path: Path) -> None:
    """Files of other tools are not called *.json."""
    lot = np.random.default_rng(1)
    for side in ("base", "candidate"):
        for number, value in enumerate(1000 * np.exp(0.03 * lot.standard_normal(20))):
            hackbench(tmp_path / side / str(number), [float(value)], first=2 * number + (side == "candidate"))
    words = ("gate", tmp_path / "base", tmp_path / "candidate", "--unit", "boot", "--trust", "--detect", "25")
    code, said = told(*words)
    assert code == 0 and "candidate lost 0 of 20 attempts" in said
