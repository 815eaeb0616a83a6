# SPDX-License-Identifier: GPL-2.0
"""`schedline run` with fake tools: verdicts, files, which runs are repeated, and what is left when it is killed."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from suite_place import HACKBENCH, PI_STRESS, Place
from workload_runs import KNOWN

from schedlib.errors import SchedlineError
from schedlib.gate.boots import read_side
from schedlib.runs import measure, run_job, workload_suites
from schedlib.runs.run_verb import RunOptions
from schedlib.runs.tool_process import run_guarded
from schedlib.runs.workload_suites import WorkloadRow
from schedlib.verdict import Verdict

pytestmark = pytest.mark.slow


def test_each_run_is_a_file_and_a_log(play: Place) -> None:
    done = play.run("--runs", "3")
    assert "tasks  40 (40 to 40) tasks" in done.stdout
    assert "6 of 6: " in done.stderr and " left" in done.stderr
    names = {path.name for path in play.boot.iterdir() if not path.name.startswith(".")}
    rows = [f"{row}-{number}" for row in ("bench", "inversions") for number in (1, 2, 3)]
    assert names == {"plan", *(f"{row}.{kind}" for row in rows for kind in ("json", "log"))}
    seeds = set()
    for row in rows:
        found = play.document(f"{row}.json")
        assert found["status"] == "DONE"
        assert found["plan"]["suite"] == "play"
        seeds.add(found["plan"]["seed"])
        assert found["noise"]["seconds"] > 0
        assert found["fingerprint"]["boot_id"]
    assert f"seed {seeds.pop()}" in done.stderr and not seeds
    found = play.document("inversions-2.json")
    assert found["process"]["argv"][:3] == ["pi_stress", "-D", "2"]
    assert (found["process"]["exit_status"], found["process"]["reported"]) == (0, 0)
    assert found["fingerprint"]["command_line"].startswith("pi_stress -D 2 -g ")


def test_lava_reads_verdicts_and_figures(play: Place) -> None:
    play.tool("pi_stress", PI_STRESS % (0, 0))
    play.run("--runs", "2", "--lava", str(play.directory / "result.txt"), code=1)
    assert (play.directory / "result.txt").read_text().splitlines() == [
        "bench pass",
        "bench.tasks pass 40 tasks",
        "bench.time_s pass 0.5 s",
        "inversions fail",
    ]


def test_nothing_is_run_twice(play: Place) -> None:
    play.run("--runs", "2")
    before = play.called()
    done = play.run("--runs", "2")
    assert "4 of 4 runs are done and valid" in done.stderr
    assert play.called() == before
    # Only a damaged run is repeated.
    (play.boot / "bench-2.json").write_text("{")
    play.run("--runs", "2")
    assert play.document("bench-2.json")["status"] == "DONE"
    assert play.called()[len(before) :] == ["hackbench"]


def test_ten_boots_of_one_command_are_ten_boots(play: Place) -> None:
    """The second boot found the runs of the first, ran nothing, and printed PASS."""
    done = [play.run("--runs", "2", boot=f"boot-{number}") for number in range(10)]
    assert len(play.called()) >= 10 * 4
    assert all(f"boot {number} in {play.out}: " in each.stderr for number, each in enumerate(done, 1))
    side = read_side(play.out, "base")
    assert {boot.id for boot in side.boots} == {f"boot-{number}" for number in range(10)}
    assert {boot.runs["hackbench"] for boot in side.boots} == {2}
    assert len({json.loads(path.read_text())["seed"] for path in play.out.glob("*/plan")}) == 10
    # The suite of fake tools is known to play.run() alone.
    assert "bench: 20 ok" in play.run("--report", str(play.out), suite=False).stdout
    (play.out / "boot-3/bench-2.json").unlink()
    report = play.run("--report", str(play.out), suite=False, code=2)
    assert "boot-3/bench-2.json is missing" in report.stdout and "boots: 10" in report.stdout


def test_the_only_boot_lacks_a_run(play: Place) -> None:
    """It was a KeyError: no other boot has a run of that number."""
    play.run("--runs", "2", boot="first")
    (play.out / "first/bench-2.json").unlink()
    found = play.run("--report", str(play.out), suite=False, code=2)
    assert "bench: 1 ok, 1 ERROR" in found.stdout and "its file is missing" in found.stdout


def test_a_new_boot_needs_no_words(play: Place) -> None:
    play.run("--runs", "2", "--only", "bench", boot="first")
    play.run(suite=False, boot="second")
    assert play.document("bench-2.json", boot="second")["fingerprint"]["boot_id"] == "second"
    assert not (play.out / "second/inversions-1.json").exists()
    # Every boot has the same runs.
    assert "was started with --runs 2, not 3" in play.run("--runs", "3", "--only", "bench", boot="third", code=2).stderr
    assert "has runs of the suite play: bench" in play.run("--runs", "2", boot="third", code=2).stderr


def test_a_boot_that_was_cut_short_is_told(play: Place) -> None:
    play.run("--runs", "2", boot="first")
    assert "lacks" not in play.run("--runs", "2", boot="second").stderr
    (play.out / "first/bench-1.json").unlink()
    assert f"boot first lacks 1 of 4 runs: remove {play.out}/first" in play.run("--runs", "2", boot="second").stderr


def test_runs_beside_the_boots_are_refused_with_the_command_that_moves_them(play: Place) -> None:
    play.run(boot="first")
    for path in (play.out / "first").iterdir():
        path.rename(play.out / path.name)
    (play.out / "first").rmdir()
    done = play.run(boot="second", code=2)
    assert "has a plan beside its runs" in done.stderr
    command = done.stderr.partition("next: ")[2].partition(", or ")[0]
    subprocess.run(["sh", "-c", command], check=True)
    done = play.run(boot="second")
    assert "boot 2 in " in done.stderr


@pytest.mark.parametrize(
    ("inversions", "reported", "said"), [(0, 0, "no work was done: inversions is 0"), (7, 1, "it reports the status 1")]
)
def test_an_exit_status_of_0_is_no_success(inversions: int, reported: int, said: str, play: Place) -> None:
    play.tool("pi_stress", PI_STRESS % (inversions, reported))
    done = play.run("--only", "inversions", code=1)
    process = play.document("inversions-1.json")["process"]
    assert (process["exit_status"], process["reported"]) == (0, reported)
    assert said in done.stdout


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'no memory' >&2; exit 3\n", "exit status 3: no memory"),
        (
            "kill -9 $$\n",
            "killed by SIGKILL: by a user, by the OOM killer (see dmesg), or because an RT task did not sleep",
        ),
        ("kill -15 $$\n", "killed by SIGTERM"),
        ("", "no number of tasks in its output"),
    ],
)
def test_a_run_that_came_to_nothing_is_an_error(script: str, reason: str, play: Place) -> None:
    play.tool("hackbench", script)
    play.run("--only", "bench", code=2)
    found = play.document("bench-1.json")
    assert (found["status"], found["reason"]) == ("ERROR", reason)
    # A run that ended with ERROR is repeated.
    play.tool("hackbench", HACKBENCH)
    play.run("--only", "bench")


def test_a_required_tool_that_is_missing_is_an_error_and_another_a_skip(play: Place) -> None:
    (play.tools / "pi_stress").unlink()
    done = play.run()
    assert play.document("inversions-1.json")["reason"] == "pi_stress is not installed: package rt-tests"
    assert "pi_stress is not installed: package rt-tests" in done.stdout
    (play.tools / "hackbench").unlink()
    done = play.run("--out", str(play.directory / "second"), code=2)
    assert "schedline doctor" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--suite", "nothing"], "there is no suite 'nothing'. Known: play"),
        (["--only", "benc"], "there is no row 'benc'. Did you mean bench?"),
        (["--runs", "0"], "'0' is no number from 1 to 1000"),
        (["--out", ""], "the path is empty"),
        (["--out", "/proc/version/out"], "/proc/version is no directory"),
        (["--without", "rd-lines"], "--without is for a guest"),
        (["--in-guest", "--on", "uml"], "there is no guest 'uml'. Known: qemu-x86_64, qemu-arm64"),
        (["--in-guest", "--with", "rd-line"], "Did you mean rd-lines?"),
        (["--in-guest", "--topology", "nothing"], "there is no topology 'nothing'"),
        (["--in-guest", "--kdir", "/nonexistent"], "no such file or directory"),
    ],
)
def test_bad_words_are_named_before_anything_is_done(words: list[str], message: str, play: Place) -> None:
    """A wrong suite, row or directory was rejected only if the cache existed, and guest options only after a fetch."""
    done = play.run(*words, code=2)
    assert message in done.stderr
    assert not (play.directory / "cache").exists() and not play.out.exists()


def test_nothing_is_known_without_a_suite(play: Place) -> None:
    done = play.run(suite=False, code=2)
    assert "no suite is named" in done.stderr and "next: --suite with one of play" in done.stderr


def test_one_measures_and_the_other_waits(play: Place) -> None:
    """Also in different directories: two measurements disturb each other."""
    gate = play.directory / "gate"
    os.mkfifo(gate)
    play.tool("hackbench", f'case "$*" in *help*) exit 0;; esac\ncat {gate}\n{HACKBENCH}')
    with play.start("--only", "bench") as first, gate.open("w") as held:
        other = ["--only", "inversions", "--out", str(play.directory / "other")]
        with play.start(*other) as second:
            assert second.stdout
            said = second.stdout.readline()
            assert said.startswith("waiting for `schedline ") and "workloads/lock" in said
            assert "pi_stress" not in play.called()
            held.close()
            assert (first.wait(), second.wait()) == (0, 0)
    assert play.called()[-1] == "pi_stress"


def test_list_runs_nothing(play: Place) -> None:
    (play.tools / "pi_stress").unlink()
    done = play.run("--list")
    assert "bench: hackbench" in done.stdout
    assert "about 1 s; required" in done.stdout
    assert "pi_stress is not installed: package rt-tests" in done.stdout
    assert not play.called() and not play.out.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may have a network of its own")
def test_a_server_is_started_first_and_can_be_reached_by_nobody_else(play: Place) -> None:
    server = "import socket; s = socket.create_server(('', 7003)); c = s.accept()[0]; c.sendall(b'from within')"
    # netperf asks in the same way.
    asks = "socket.getaddrinfo('127.0.0.1', 7003, socket.AF_INET, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)"
    client = f"import socket; {asks}; print(socket.create_connection(('127.0.0.1', 7003)).recv(99).decode())"
    place = play.directory / "place"
    place.mkdir()
    done = run_guarded([sys.executable, "-c", client], place, 60, server=(sys.executable, "-c", server), port=7003)
    assert (done.problem, done.cannot, done.exit_status, done.stdout) == ("", "", 0, "from within\n")
    outside = subprocess.run([sys.executable, "-c", client], check=False, capture_output=True)
    assert b"from within" not in outside.stdout
    broken, silent = (sys.executable, "-c", "raise SystemExit(5)"), ("sleep", "1000")
    assert "ended with 5" in run_guarded(["true"], place, 60, server=broken, port=7003).problem
    assert "does not listen on port 7003" in run_guarded(["true"], place, 0.5, server=silent, port=7003).problem


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_tool_that_hangs_is_ended(play: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    play.tool("hackbench", f"[ $# = 0 ] || exit 0; echo $$ > {play.directory}/pid; sleep 1000\n")
    monkeypatch.setenv("PATH", str(play.tools))
    monkeypatch.setattr(measure, "time_limit", lambda _: 1.0)
    place = play.directory / "place"
    place.mkdir()
    row = WorkloadRow(name="bench", tool="hackbench", seconds=1, work="tasks", metrics={"tasks": "tasks"})
    found = measure.measure(row, place, programs=None, fingerprint=KNOWN, no_fifo="")[0]
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
    play.run("--runs", "2", "--only", "inversions,bench", "--seed", "1")
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
    assert "after a crash: " in done.stderr
    assert setting.read_text() == "950000"
    assert not journal.exists()


def test_what_a_tool_leaves_running_is_ended(play: Place) -> None:
    play.tool("hackbench", f"setsid sleep 1000 > /dev/null 2>&1 &\necho $! > {play.directory}/child\n{HACKBENCH}")
    play.run("--only", "bench")
    assert not alive(int((play.directory / "child").read_text()))


def test_a_full_disk_leaves_nothing_that_is_trusted(play: Place) -> None:
    # A limit on file sizes stands in for a full disk: the plan fits, but a run does not.
    limited = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500)); os.execv(%s)"
    done = play.run_limited([sys.executable, "-c", limited % "sys.argv[1], sys.argv[1:]"])
    assert done.returncode != 0
    # The path of the file shows which disk is full.
    assert re.search(rf"{play.boot}/\S+: File too large", done.stderr)
    assert "Traceback" not in done.stderr
    assert (play.boot / "plan").exists()
    assert not list(play.boot.glob("*.json"))
    play.run()


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
