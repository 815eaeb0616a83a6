# SPDX-License-Identifier: GPL-2.0
"""Noise indicators, the fingerprint of this machine, and settings that are restored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from workload_runs import Place, document

from conftest import write_files
from schedlib.kernel import machine
from schedlib.runs import tool_process
from schedlib.runs.measure import noise, snapshot

STAT = "cpu  {user} 0 100 5000 7 0 0 {steal} 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\nctxt 9\nprocs_running {running}\n"


def task(pid: int, started: int, switches: tuple[int, int]) -> dict[str, str]:
    fields = " ".join(["S", "1", *["0"] * 17, str(started)])
    status = f"Name:\tx\nvoluntary_ctxt_switches:\t{switches[0]}\nnonvoluntary_ctxt_switches:\t{switches[1]}\n"
    name = f"proc/{pid}/task/{pid}"
    return {f"{name}/stat": f"{pid} (a) b) {fields}\n", f"{name}/status": status}


def counters(user: int, steal: int, running: int, core: int, throttled: int) -> dict[str, str]:
    throttles = "sys/devices/system/cpu/cpu{}/thermal_throttle/{}_throttle_count"
    return {
        "proc/self/cgroup": "0::/mine\n",
        "proc/stat": STAT.format(user=user, steal=steal, running=running),
        throttles.format(0, "core"): f"{core}\n",
        throttles.format(1, "package"): "1\n",
        "sys/fs/cgroup/mine/cpu.stat": f"usage_usec 5\nnr_throttled {throttled}\n",
    }


def test_noise_is_what_others_did(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    write_files(before, counters(1000, 50, 4, 3, 2) | task(10, 5, (100, 10)) | task(11, 5, (7, 7)))
    # 10 goes on, 11 ended and its number was reused, 12 is new.
    others = task(10, 5, (150, 15)) | task(11, 99, (3, 0)) | task(12, 99, (1, 1))
    write_files(after, counters(1300, 70, 9, 5, 6) | others)
    found = noise(snapshot(before / "proc", before / "sys"), snapshot(after / "proc", after / "sys"), 1.25)
    assert found.steal_s == pytest.approx(0.2)
    assert found.foreign_cpu_s == pytest.approx(1.75)
    assert found.foreign_switches == 55 + 3 + 2
    assert (found.runnable_before, found.thermal_throttles, found.cgroup_throttles) == (3, 2, 4)


def test_what_is_not_counted_is_not_zero_and_a_clock_that_is_set_is_seen(tmp_path: Path) -> None:
    write_files(tmp_path, {"proc/stat": STAT.format(user=1, steal=0, running=1)})
    now = snapshot(tmp_path / "proc", tmp_path / "sys")
    found = noise(now, now, 5)
    assert (found.thermal_throttles, found.cgroup_throttles, found.foreign_cpu_s) == (None, None, 0)
    for seconds, step in ((60, 0), (-3540, -3600)):
        assert noise(now, replace(now, at=now.at + 60, wall=now.wall + seconds), 0).clock_step_s == step


def test_lists_of_cpus() -> None:
    assert machine.cpu_list({0, 1, 2, 3, 8, 10, 11}) == "0-3,8,10-11"
    assert machine._cpus("0-3,8,10-11\n") == {0, 1, 2, 3, 8, 10, 11}
    assert machine._count({0, 1, 2}, [frozenset({0, 1}), frozenset({2, 3})]) == 2
    assert machine._count({0, 4}, [frozenset({0, 1})]) == 0


@pytest.mark.guest
def test_runs_of_tools_and_of_our_own_name_one_machine(place: Place, tmp_path: Path) -> None:
    place.tiny("sleep_storm", "--json", tmp_path / "run.json")
    theirs, ours = document(tmp_path / "run.json")["fingerprint"], machine.fingerprint()
    names = set(theirs) & set(ours)
    assert {"machine_name", "machine", "kernel", "build_id", "configuration", "boot_id", "clocksource"} <= names
    assert {name: ours[name] for name in names} == {name: theirs[name] for name in names}


@pytest.fixture
def setting(tmp_path: Path) -> Path:
    path = tmp_path / "proc/sys/kernel/sched_rt_runtime_us"
    write_files(
        tmp_path,
        {
            "proc/sys/kernel/sched_rt_runtime_us": "950000\n",
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n",
        },
    )
    return path


def test_a_setting_that_a_tool_changed_is_put_back(
    setting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tool_process.settings(tmp_path)
    assert before[str(setting)] == "950000" and len(before) == 2
    monkeypatch.setattr(tool_process, "settings", lambda: before)
    with tool_process.kept_settings(tmp_path / "journal.json"):
        assert json.loads((tmp_path / "journal.json").read_text())["settings"] == before
        setting.write_text("-1\n")
    assert setting.read_text() == "950000"
    assert not (tmp_path / "journal.json").exists()
    assert "was changed from 950000 to -1: it is 950000 again" in capsys.readouterr().err
    # A boot in between has restored it: the present value is intended.
    (tmp_path / "journal.json").write_text(json.dumps({"boot_id": "earlier", "settings": {str(setting): "1"}}))
    assert tool_process.replay(tmp_path / "journal.json") == []
    assert setting.read_text() == "950000"
    assert not (tmp_path / "journal.json").exists()


def test_a_setting_that_cannot_be_put_back_is_said(
    setting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tool_process.settings(tmp_path)
    setting.write_text("-1\n")

    def refuse(*_: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(tool_process, "_put_back", refuse)
    (line,) = tool_process.put_back(before)
    assert "from 950000 to -1, and cannot be put back: Operation not permitted" in line
    # A setting that no longer exists is not restored.
    setting.unlink()
    assert tool_process.put_back(before) == []


def test_features_of_the_scheduler_are_put_back_one_by_one(tmp_path: Path) -> None:
    write_files(tmp_path, {"sys/kernel/debug/sched/features": "PLACE_LAG NO_HRTICK RUN_TO_PARITY\n"})
    path = tmp_path / "sys/kernel/debug/sched/features"
    before = tool_process.settings(tmp_path)
    path.write_text("PLACE_LAG HRTICK RUN_TO_PARITY\n")
    assert len(tool_process.put_back(before)) == 1
    # The kernel takes one word per write.
    assert path.read_text() == "NO_HRTICK"
