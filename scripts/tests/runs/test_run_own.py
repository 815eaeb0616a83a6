# SPDX-License-Identifier: GPL-2.0
"""Workloads of selftests/ as runs of a plan: their output is trusted only if their process ended by itself."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from workload_runs import KNOWN, TINY, Place, plain

from conftest import write_files, write_program
from schedlib.errors import SchedlineError
from schedlib.formats.run_file import Head, Metric, Reading, Run, run_of
from schedlib.guest.selftests import flags
from schedlib.kernel.machine import fingerprint
from schedlib.runs import measure as measure_module
from schedlib.runs.measure import measure, skipped
from schedlib.runs.runs_report import judge_all, judge_run, lacks_program
from schedlib.runs.tool_process import run_guarded, why_no_fifo
from schedlib.runs.tools import Output
from schedlib.runs.workload_suites import WorkloadRow
from schedlib.tree.selftest_programs import DIRECTORY
from schedlib.verdict import Verdict

STORM = WorkloadRow(
    name="storm",
    program="sleep_storm",
    arguments=TINY["sleep_storm"],
    seconds=1,
    work="sleeps",
    metrics={"sleeps": "sleeps"},
)


def run(programs: Path, place: Path) -> Run:
    place.mkdir()
    found = measure(STORM, place, programs=programs, fingerprint=fingerprint(), no_fifo="")[0]
    plain(found)
    return found


def played(directory: Path, text: str, ending: str) -> Path:
    """A fake program that writes this text as its run, and then ends as given."""
    write_files(directory, {"text": text})
    write_program(directory / "sleep_storm", f"echo 'not ok 1 slept'\ncat {directory}/text > run.json\n{ending}")
    return directory


def done(sleeps: float = 5) -> str:
    head = Head("sleep_storm", "2026-11-22T04:34:01Z", 1.5, fingerprint() | {"command_line": "sleep_storm"})
    return json.dumps(plain(run_of(head, Reading((Metric("sleeps", "sleeps", "neither", "exact", sleeps, 5),)))))


@pytest.mark.guest
def test_a_run_of_ours_is_one_of_the_plan(place: Place, tmp_path: Path) -> None:
    found = run(place.programs, tmp_path / "place")
    assert (found.tool, found.status) == ("sleep_storm", "DONE")
    assert found.process and found.process.argv[0] == "sleep_storm"
    assert found.process.exit_status == 0
    assert found.noise and found.noise.seconds > 0
    assert judge_run(STORM, found)[0] is Verdict.PASS


@pytest.mark.parametrize(
    ("text", "ending", "verdict", "reason"),
    [
        (done(), "exit 0", Verdict.PASS, ""),
        (done(), "exit 1", Verdict.FAIL, "one of its tests failed: see its log"),
        (done(0), "exit 0", Verdict.FAIL, "no work was done: sleeps is 0"),
        (done(), "kill -9 $$", Verdict.ERROR, "killed by SIGKILL"),
        (done()[:200], "exit 0", Verdict.ERROR, "it wrote no valid run: it is no whole JSON document (cut off?): "),
        ("", "exit 1", Verdict.ERROR, "it wrote no valid run: it is no whole JSON document (cut off?): "),
        (done(), "exit 3", Verdict.ERROR, "exit status 3: not ok 1 slept"),
    ],
)
def test_what_it_wrote_is_held_against_how_it_ended(
    text: str, ending: str, verdict: Verdict, reason: str, tmp_path: Path
) -> None:
    found = run(played(tmp_path / "programs", text, ending), tmp_path / "place")
    judged, why = judge_run(STORM, found)
    assert judged is verdict
    assert why.startswith(reason) if reason else not why


def test_a_guard_that_was_killed_is_said(tmp_path: Path) -> None:
    # The tool kills its parent, the guard. Its own child survives that kill, and must be ended, too.
    with pytest.raises(SchedlineError, match="the guard process of sh ended with -9"):
        run_guarded(["sh", "-c", "setsid sleep 1000 & echo $! > child; kill -9 $PPID; exec sleep 1000"], tmp_path, 60)
    assert not Path("/proc", (tmp_path / "child").read_text().strip()).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_tool_that_ends_its_group_ends_itself_alone(number: signal.Signals, tmp_path: Path) -> None:
    assert run_guarded(["sh", "-c", f"kill -{int(number)} 0; exit 0"], tmp_path, 60).exit_status == -number


SPINS = (
    "import os, time; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))\nwhile time.process_time() < 0.3: 1"
)


@pytest.mark.skipif(why_no_fifo() != "", reason="SCHED_FIFO is refused here")
@pytest.mark.parametrize(("rt_seconds", "ending"), [(0.05, {-signal.SIGXCPU, -signal.SIGKILL}), (60, {0})])
def test_an_rt_task_that_never_sleeps_is_ended_when_it_should_have_been_done(
    rt_seconds: float, ending: set[int], tmp_path: Path
) -> None:
    done = run_guarded([sys.executable, "-c", SPINS], tmp_path, 60, rt_seconds=rt_seconds)
    assert done.exit_status in ending


@pytest.mark.parametrize(("seconds", "status"), [(0.0, "DONE"), (-3600.0, "ERROR"), (5.0, "ERROR")])
def test_a_tool_is_not_trusted_when_the_clock_of_the_wall_was_set(
    seconds: float, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def guarded(*_: Any, rt_seconds: float, **__: Any) -> Output:
        assert rt_seconds > row.seconds, "a row may be awake for all of its time"
        wall = time.time
        monkeypatch.setattr(time, "time", lambda: wall() + seconds)
        said = "Running with 1 groups 40 fds (== 40 tasks)\nEach sender will pass 5 messages\nTime: 0.5\n"
        return Output((), 0, said, "", seconds=0.5, cpu_s=0.1)

    monkeypatch.setattr(measure_module, "run_guarded", guarded)
    monkeypatch.setattr(measure_module, "_version", lambda *_: "")
    monkeypatch.setattr(measure_module, "why_not", lambda *_: ("", False))
    row = WorkloadRow(name="bench", tool="hackbench", seconds=300, work="tasks", metrics={"tasks": "tasks"})
    found = measure(row, tmp_path, programs=None, fingerprint=fingerprint(), no_fifo="")[0]
    plain(found)
    assert found.status == status
    assert found.noise and found.noise.clock_step_s == pytest.approx(seconds, abs=0.09)


def test_our_own_programs_measure_by_a_clock_that_nobody_sets() -> None:
    for path in DIRECTORY.glob("*.[ch]"):
        text = path.read_text()
        assert not re.search(r"\b(gettimeofday|time\(NULL\)|CLOCK_TAI)\b", text), path.name
        # Only the start time of a run comes from the wall clock.
        assert text.count("CLOCK_REALTIME") == (path.name == "sched_latency.c"), path.name


def test_why_there_is_no_fifo_is_said_to_root_and_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "cpu.rt_runtime_us" in why_no_fifo()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "ulimit -r" in why_no_fifo()


def test_the_flags_are_those_of_the_makefile() -> None:
    assert flags((DIRECTORY / "Makefile").read_text()) == ["-O2", "-Wall", "-Wextra", "-pthread"]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], "INCONCLUSIVE"),
        (["INCONCLUSIVE", "INCONCLUSIVE"], "INCONCLUSIVE"),
        (["PASS", "INCONCLUSIVE"], "PASS"),
        (["PASS", "ERROR"], "ERROR"),
        (["FAIL", "ERROR", "PASS"], "FAIL"),
    ],
)
def test_a_failure_hides_an_error_and_a_skip_nothing(verdicts: list[str], expected: str) -> None:
    assert judge_all(Verdict[each] for each in verdicts).value == expected


def test_only_a_program_that_is_not_here_is_one_to_install() -> None:
    head = Head("sleep_storm", "2026-11-22T04:34:01Z", 1.5, KNOWN)
    failed = run_of(head, Reading(error="exit status 1: libnuma is not installed"))
    assert (judge_run(STORM, failed)[0], lacks_program(STORM, failed)) == (Verdict.ERROR, False)
    for required, verdict in ((True, Verdict.ERROR), (False, Verdict.INCONCLUSIVE)):
        found = skipped(head, STORM, "sleep_storm is somewhere else", missing=True)[0]
        row = msgspec.structs.replace(STORM, required=required)
        assert (judge_run(row, found)[0], lacks_program(row, found)) == (verdict, required)
