# SPDX-License-Identifier: GPL-2.0
"""`schedline run` when it is killed, a tool hangs or a disk is full: nothing is left, and the next start goes on."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from suite_place import HACKBENCH, Place
from workload_runs import KNOWN

from schedlib.errors import SchedlineError
from schedlib.runs import run_job, workload_suites
from schedlib.runs.run_verb import RunOptions
from schedlib.verdict import Verdict


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_tool_that_hangs_is_ended(play: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from schedlib.runs import measure
    from schedlib.runs.workload_suites import WorkloadRow

    play.tool("hackbench", f"[ $# = 0 ] || exit 0; echo $$ > {play.directory}/pid; sleep 1000\n")
    monkeypatch.setenv("PATH", str(play.tools))
    monkeypatch.setattr(measure, "time_limit", lambda _: 1.0)
    place = play.directory / "place"
    place.mkdir()
    row = WorkloadRow(name="bench", tool="hackbench", seconds=1, work="tasks", metrics={"tasks": "tasks"})
    found = measure.measure(row, measure.Means(None, KNOWN, ""), place).run
    assert found.status == "ERROR"
    assert found.reason.startswith("stopped after 1 s")
    assert found.process and found.process.timed_out and found.process.exit_status is None
    assert not alive(int((play.directory / "pid").read_text()))


LINGERS = """\
case "$*" in *help*) exit 0;; esac
setsid sleep 1000 < /dev/null > /dev/null 2>&1 &
echo $$ $! > {0}/begun
sleep 1000
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_killed_leaves_nothing_and_goes_on(number: signal.Signals, play: Place) -> None:
    assert play.run("--runs", "2", "--only", "inversions,bench", "--seed", "1").returncode == 0
    (play.boot / "bench-2.json").unlink()
    play.tool("hackbench", LINGERS.format(play.directory))
    with play.start("--runs", "2", "--only", "inversions,bench") as process:
        tools = [os.pidfd_open(pid) for pid in play.begun(process)]
        assert select.select(tools, [], [], 0)[0] == []
        process.send_signal(number)
        process.wait()
        for tool in tools:
            select.select([tool], [], [])
            os.close(tool)
        assert process.stdout
        said = process.stdout.read()
    assert process.returncode != 0
    assert not (play.boot / "bench-2.json").exists()
    if number is not signal.SIGKILL:
        assert "next: schedline run --out" in said
        assert not list(play.boot.glob(".now-*"))
        assert not (play.directory / "cache/workloads/settings.json").exists()
    play.tool("hackbench", HACKBENCH)
    done = play.run("--runs", "2", "--only", "inversions,bench")
    assert done.returncode == 0, done.stderr
    assert "3 of 4 runs are done and valid" in done.stderr
    assert {path.name for path in play.out.glob(".*")} == {".lock"}


def test_after_a_crash_the_next_start_puts_back_what_was_changed_wherever_its_runs_go(play: Place) -> None:
    setting, journal = play.directory / "setting", play.directory / "cache/workloads/settings.json"
    play.tool("hackbench", LINGERS.format(play.directory))
    with play.start("--only", "bench") as process:
        play.begun(process)
        process.kill()
    found = json.loads(journal.read_text())
    setting.write_text("-1\n")
    journal.write_text(json.dumps(found | {"settings": {str(setting): "950000"}}))
    done = play.run("--only", "inversions", "--out", str(play.directory / "elsewhere"))
    assert done.returncode == 0
    assert "after a crash: " in done.stderr
    assert setting.read_text() == "950000"
    assert not journal.exists()


def test_what_a_tool_leaves_running_is_ended(play: Place) -> None:
    play.tool("hackbench", f"setsid sleep 1000 > /dev/null 2>&1 &\necho $! > {play.directory}/child\n{HACKBENCH}")
    assert play.run("--only", "bench").returncode == 0
    assert not alive(int((play.directory / "child").read_text()))


def test_a_full_disk_leaves_nothing_that_is_trusted(play: Place) -> None:
    # A limit on file sizes stands in for a full disk: the plan fits, but a run does not.
    limited = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500)); os.execv(%s)"
    done = play.run_limited([sys.executable, "-c", limited % "sys.argv[1], sys.argv[1:]"])
    assert done.returncode != 0
    # The path of the file shows which disk is full.
    assert f"File too large: '{play.boot}/" in done.stderr
    assert "Traceback" not in done.stderr
    assert (play.boot / "plan").exists()
    assert not list(play.boot.glob("*.json"))
    assert play.run().returncode == 0


def test_a_disk_that_a_tool_has_filled_is_said(
    play: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play.tool("hackbench", "exit 3\n")
    monkeypatch.setenv("PATH", str(play.tools))
    monkeypatch.setenv("SCHEDLINE_CACHE", str(play.directory / "cache"))
    monkeypatch.setattr(workload_suites, "SUITES", play.configs / "workloads")
    usage = shutil.disk_usage(play.directory)
    for free, expected in ((usage.free, "exit status 3"), (0, "is full: the output of bench was cut off")):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage._replace(free=free))
        wanted = RunOptions("play", only=("bench",), out=play.out)
        with suppress(SchedlineError) if free else pytest.raises(SchedlineError, match=expected):
            assert run_job.run(wanted) is Verdict.ERROR
        if free:
            assert expected in capsys.readouterr().err
