# SPDX-License-Identifier: GPL-2.0
"""Input from which no verdict follows: copies, unset clocks, half fingerprints, impossible figures, disturbed runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from campaigns import Campaign, metric, noise, rewrite, run
from msgspec.structs import replace

from schedlib.formats.document import Refused
from schedlib.formats.run_file import read_run, refuse_copies
from schedlib.gate.boots import Side, read_side
from schedlib.gate.comparable import disturbed, unequal_samples
from schedlib.main import start
from schedlib.runs.runs_report import judge_run, report
from schedlib.runs.workload_suites import load_suite

KEY = ("rt_wakeup", "timer.p99")
QUIET: dict[str, Any] = {
    "seconds": 10,
    "steal_s": 0,
    "foreign_cpu_s": 0,
    "foreign_switches": 0,
    "runnable_before": 0,
    "thermal_throttles": 0,
    "cgroup_throttles": None,
}


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    return Campaign(tmp_path)


@pytest.mark.parametrize(
    "values",
    [
        [9000.0, 9001.0, 9002.0, 9003.0, 9004.0] * 4,
        [1234.5] * 20,
        # A quotient has all digits of a float, and so may the nearest float of three digits.
        [24842 / 3] * 20,
        [0.009] * 20,
    ],
)
def test_equal_values_of_a_coarse_clock_are_no_copies(values: list[float], campaign: Campaign) -> None:
    campaign.boots(values, [value + 1 for value in values])
    assert len(read_side(campaign.base, "base").boots) == 20


def test_a_run_copied_to_the_other_kernel_is_refused(campaign: Campaign) -> None:
    values = noise(1)
    campaign.boots(values, [*noise(2, 9), values[3]])
    sides = [read_side(side, side.name) for side in (campaign.base, campaign.candidate)]
    with pytest.raises(Refused, match="in another directory"):
        refuse_copies(side.contents for side in sides)
    assert "in another directory" in campaign.told()[1]
    refuse_copies([sides[0].contents])
    other = Campaign(campaign.place / "other")
    other.boots(noise(3), noise(4))
    refuse_copies(read_side(side, side.name).contents for side in (other.base, other.candidate))


def test_a_tool_that_was_skipped_once_may_lack_its_version(campaign: Campaign) -> None:
    campaign.boots(noise(1), noise(2))
    rewrite(campaign.base, lambda run: run["fingerprint"].update(tool_version="1"))
    rewrite(campaign.base, lambda run: run["fingerprint"].pop("tool_version"), 1)
    assert read_side(campaign.base, "base").fingerprint["tool_version of rt_wakeup"] == {"1", "(not recorded)"}
    rewrite(campaign.base, lambda run: run.update(status="SKIP", reason="not installed", metrics=[]), 1)
    assert read_side(campaign.base, "base").fingerprint["tool_version of rt_wakeup"] == {"1"}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"n": 0}, "the metric timer.p99 is a quantile of no samples"),
        ({"kind": "exceedance", "value": 3, "n": 2}, "the metric timer.p99 counts 3 of 2 samples"),
        ({"kind": "exceedance", "value": 1, "n": 0}, "the metric timer.p99 counts 1 of 0 samples"),
    ],
)
def test_impossible_figures_are_refused_by_all(wrong: dict[str, Any], why: str, campaign: Campaign) -> None:
    path = campaign.save(campaign.base, run("base", "b", 0, [metric(5) | wrong]))
    for reader in (lambda: read_run(path), lambda: report(path.parent), lambda: read_side(path.parent, "base")):
        with pytest.raises(Refused, match=why):
            reader()
    path.write_text(json.dumps(run("base", "b", 0, [metric(0, kind="exceedance", n=0), metric(5, name="timer.p50")])))
    assert read_side(path.parent, "base").boots


def test_what_the_tool_itself_calls_failed_is_no_result(campaign: Campaign) -> None:
    ended = {"argv": ["x"], "exit_status": 0, "timed_out": False, "seconds": 1, "missing": False}
    campaign.boots(noise(1), noise(2))
    campaign.save(campaign.base, run("base", "b", 0, [metric(5)], process=ended | {"reported": 1}))
    code, said = campaign.told()
    assert code == 2 and "it reports the status 1" in said
    path = campaign.save(campaign.base, run("base", "c", 1, [metric(5)], process=ended | {"reported": 1}))
    row = next(row for row in load_suite("quick").rows.values() if row.program == "rt_wakeup")
    row = replace(row, work="timer.p99", metrics={"timer.p99": "ns"})
    assert judge_run(row, read_run(path))[1] == "it reports the status 1"


def test_no_control_character_of_a_name_reaches_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("base", "candidate"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a\x1b[2J\nverdict: PASS\x9b.json").write_text("{")
    assert start(["gate", str(tmp_path / "base"), str(tmp_path / "candidate")]) == 2
    assert start(["gate", str(tmp_path / "ba\x1b[2Jse"), str(tmp_path / "candidate")]) == 2
    found = capsys.readouterr()
    assert all(char.isprintable() or char == "\n" for char in found.out + found.err)
    assert "\nverdict" not in found.out + found.err


def sides(campaign: Campaign) -> tuple[Side, Side]:
    return read_side(campaign.base, "base"), read_side(campaign.candidate, "candidate")


@pytest.mark.parametrize(("samples", "said"), [(100_000, True), (5_001, True), (5_000, False), (999, False)])
def test_very_unequal_samples_are_noticed(samples: int, said: bool, campaign: Campaign) -> None:
    campaign.boots(noise(1), noise(2))
    campaign.save(campaign.candidate, run("candidate", "x", 500, [metric(9876, n=samples)]))
    found = unequal_samples(*sides(campaign), KEY)
    assert bool(found) is said
    if said:
        assert f"boot x has {samples}" in found and "has 1000 samples" in found


@pytest.mark.parametrize(
    ("base", "candidate", "why"),
    [
        ({}, {}, ""),
        ({}, {"steal_s": 0.9}, "steal in 0 of 10 boots of base and 10 of 10 boots of candidate"),
        ({}, {"steal_s": 0.7}, ""),  # 8 CPUs for 10 s: less than 1 %
        ({"steal_s": 0.9}, {"steal_s": 1.0}, ""),
        ({"steal_s": 0.9}, {"steal_s": 8}, "steal: 1.12 % of the CPU time in the median boot of base, 10 % of"),
        ({"thermal_throttles": 1}, {}, "throttling in 10 of 10 boots of base and 0 of 10 boots of candidate"),
        ({}, {"cgroup_throttles": 2}, "throttling in 0 of 10 boots of base"),
        ({}, {"foreign_cpu_s": 1.1}, "other work in 0 of 10 boots of base"),
        ({}, {"foreign_cpu_s": 0.9}, ""),
        ({"foreign_cpu_s": 30}, {"foreign_cpu_s": 50}, ""),
    ],
)
def test_noise_on_one_side_is_noticed(
    base: dict[str, Any], candidate: dict[str, Any], why: str, campaign: Campaign
) -> None:
    campaign.boots(noise(1), noise(2))
    rewrite(campaign.base, lambda run: run.update(noise=QUIET | base))
    rewrite(campaign.candidate, lambda run: run.update(noise=QUIET | candidate))
    one, other = sides(campaign)
    found = disturbed(one, other, "rt_wakeup")
    assert found.startswith(why) and bool(found) is bool(disturbed(other, one, "rt_wakeup")) is bool(why)


def test_the_worst_run_and_more_than_a_fifth_of_the_boots_count(campaign: Campaign) -> None:
    own: dict[str, Any] = dict.fromkeys(
        ("steal_percent", "interrupts_percent", "realtime_percent", "others_percent"), 0.0
    )
    own |= {"throttled": 0, "why": ""}
    for name in ("base", "candidate"):
        for place, value in enumerate(noise(len(name), 20)):
            boot, bad = place // 2, {"steal_percent": 2.0} if name == "base" and place in (0, 3) else {}
            content = run(name, f"{name}{boot}", place, [metric(value)], disturbance=own | bad)
            campaign.save(campaign.place / name, content)
    assert disturbed(*sides(campaign), "rt_wakeup") == ""
    content = run("base", "base5", 99, [metric(9999)], disturbance=own | {"steal_percent": 2.0})
    campaign.save(campaign.base, content)
    said = disturbed(*sides(campaign), "rt_wakeup")
    assert said == "steal in 3 of 10 boots of base and 0 of 10 boots of candidate"


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_noise_beside_one_kernel_decides_nothing(factor: float, campaign: Campaign) -> None:
    """Thermal throttling in all runs of the candidate was a FAIL without a word."""
    campaign.boots(noise(1), noise(2, factor=factor))
    assert campaign.told()[0] == (0 if factor == 1 else 1)
    rewrite(campaign.base, lambda run: run.update(noise=QUIET))
    rewrite(campaign.candidate, lambda run: run.update(noise=QUIET | {"thermal_throttles": 3}))
    code, said = campaign.told()
    why = "not comparable: throttling in 0 of 10 boots of base and 10 of 10 boots of candidate"
    assert code == 3 and why in said
