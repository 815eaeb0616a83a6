# SPDX-License-Identifier: GPL-2.0
"""Runs that were brought home, from `schedline run` or from a tarball's programs: reported, and read by the gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from workload_runs import KNOWN, Place
from workload_runs import storm as run

from golden import Golden
from schedlib.dev.plain_tree import not_home
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.gate.boots import read_side
from schedlib.gate.comparable import refuse_differences
from schedlib.paths import PLAN
from schedlib.runs.plan import new_plan
from schedlib.runs.runs_report import report
from schedlib.runs.workload_suites import load_suite
from schedlib.verdict import Verdict


def keep(directory: Path, name: str, found: dict[str, Any]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text(json.dumps(found))
    return directory


NOTHING: dict[str, Any] = {"metrics": []}
ENDED: dict[str, tuple[dict[str, Any], Verdict]] = {
    "well": ({}, Verdict.PASS),
    "without work": (run(sleeps=0), Verdict.FAIL),
    "without a metric": ({"metrics": run()["metrics"][:1]}, Verdict.FAIL),
    # What a run says does nothing to the terminal.
    "killed": ({"status": "ERROR", "reason": "seen \u202egnp \x9b2J"} | NOTHING, Verdict.ERROR),
    "skipped": ({"status": "SKIP", "reason": "one CPU"} | NOTHING, Verdict.INCONCLUSIVE),
}


def test_the_text_of_runs_of_a_tarball(tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    """A PASS of two boots, and what did no work, which is no pass at home either."""
    for name, (changed, verdict) in ENDED.items():
        found = run() | changed
        found["fingerprint"] |= {"kernel": "7.3 \u2066 \x85"}
        keep(tmp_path / name, "sleep_storm.json", found)
        if not changed:
            second = run(minute=1) | {"fingerprint": found["fingerprint"]}
            keep(tmp_path / name / "second-boot", "sleep_storm.json", second)
        assert report(tmp_path / name) is verdict
    assert len(read_side(tmp_path / "well", "target").boots) == 1
    golden("run.txt", capsys.readouterr().out.replace(str(tmp_path), "RUNS"))


@pytest.mark.parametrize("missing", [False, True])
def test_a_run_of_the_plan_that_is_missing_is_an_error(missing: bool, tmp_path: Path) -> None:
    suite = load_suite("quick")
    plan = new_plan(suite, 1, 42, KNOWN)
    storm = next(run_ for run_ in plan.order if run_.row == "storm-quick")
    keep(tmp_path, storm.file, run() | {"plan": msgspec.to_builtins(plan.part(storm))})
    if missing:
        document.write(tmp_path / PLAN, plan)
    assert report(tmp_path) is (Verdict.ERROR if missing else Verdict.PASS)
    # The plan beside the runs is not taken for a run.
    assert read_side(tmp_path, "target").boots


def test_tools_have_versions_of_their_own(tmp_path: Path) -> None:
    for name, version in (("sleep_storm", ""), ("cyclictest", "V 2.40"), ("hackbench", "V 2.40")):
        found = run(name)
        found["fingerprint"] = KNOWN | {"command_line": name, "tool_version": version}
        keep(tmp_path, f"{name}.json", found)
    refuse_differences([read_side(tmp_path, "target")], frozenset())
    found = run("hackbench", minute=1)
    found["fingerprint"] = KNOWN | {"command_line": "hackbench", "tool_version": "V 2.41"}
    keep(tmp_path, "hackbench-2.json", found)
    with pytest.raises(SchedlineError, match="tool_version of hackbench differs"):
        refuse_differences([read_side(tmp_path, "target")], frozenset())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no run-1: it is no whole JSON document"),
        (json.dumps(run("another")), "no suite has a row for another"),
        (None, "holds no run file"),
    ],
)
def test_what_is_no_run_is_named(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "x.json").write_text(text)
    with pytest.raises(SchedlineError, match=message):
        report(tmp_path)


def test_each_workload_of_a_tarball_has_to_come_home(tmp_path: Path) -> None:
    keep(tmp_path, "sleep_storm.json", run())
    assert not not_home(tmp_path, ["sleep_storm"])
    assert [each.text for each in not_home(tmp_path, ["rt_wakeup"])] == ["rt_wakeup: No such file or directory"]
    keep(tmp_path, "sleep_storm.json", run() | {"status": "ERROR", "reason": "killed", "metrics": []})
    assert [each.text for each in not_home(tmp_path, ["sleep_storm"])] == ["sleep_storm: killed"]


@pytest.mark.guest
def test_what_a_program_leaves_is_told_and_read(place: Place, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    assert place.tiny("sleep_storm", SCHED_LATENCY_RESULTS=str(runs))[0] == 0
    assert report(runs) is Verdict.PASS
    assert read_side(runs, "target").boots
