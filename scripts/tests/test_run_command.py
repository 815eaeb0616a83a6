# SPDX-License-Identifier: GPL-2.0
"""`schedline run` with tools that only play: verdicts, files, what a kill leaves, and how it goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from schedlib import results
from schedlib.paths import PROJECT
from workload_runs import SCHEMA

SCHEMAS = Path(results.__file__).parent / "schemas"

DRIVER = """
import signal, sys
from pathlib import Path
from schedlib.workloads import suites
from schedlib.errors import SchedlineError
signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
suites.SUITES = Path(sys.argv[1])
from schedlib.cli import main
try:
    sys.exit(main(sys.argv[2:]))
except (SchedlineError, OSError) as error:
    sys.exit(f"schedline: {error}")
"""

HACKBENCH = "echo 'groups (== 40 tasks)'; echo 'Each sender will pass 5 messages'; echo 'Time: 0.5'\n"
PI_STRESS = """echo '{"inversion": %d, "return_code": %d}' > out.json\n"""

SUITE = """
about = "tools that play"

[rows.bench]
tool = "hackbench"
seconds = 1
work = "tasks"
required = true
metrics = { "tasks" = "tasks", "time_s" = "s" }

[rows.inversions]
tool = "pi_stress"
arguments = ["-D", "2", "-g", "{half_cpus}"]
seconds = 1
work = "inversions"
metrics = { "inversions" = "inversions" }
"""


class Place:
    """A suite, tools in a PATH of their own, and where the runs go."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.out = directory / "out"
        self.tools = directory / "bin"
        self.tools.mkdir()
        (directory / "suites").mkdir()
        (directory / "suites" / "play.toml").write_text(SUITE)
        for name in ("sh", "cat", "env", "sleep", "setsid", "echo", "rm"):
            (self.tools / name).symlink_to(Path("/bin", name))
        self.tool("hackbench", HACKBENCH)
        self.tool("pi_stress", PI_STRESS % (7, 0))

    def tool(self, name: str, script: str) -> None:
        path = self.tools / name
        path.write_text(f"#!/bin/sh\necho {name} >> {self.directory}/called\n{script}")
        path.chmod(0o755)

    def called(self) -> list[str]:
        path = self.directory / "called"
        # Its version is asked for, too.
        return path.read_text().split() if path.exists() else []

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": str(self.tools), "PYTHONPATH": f"{PROJECT / 'scripts'}:{':'.join(sys.path)}",
            "SCHEDLINE_CACHE": str(self.directory / "cache"), "HOME": str(self.directory),
        }  # fmt: skip

    def argv(self, *words: str) -> list[str]:
        out = [] if "--out" in words else ["--out", str(self.out)]
        return [sys.executable, "-c", DRIVER, str(self.directory / "suites"), "run", "--suite", "play", *out, *words]

    def run(self, *words: str, wrapper: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*wrapper, *self.argv(*words)], check=False, capture_output=True, text=True, env=self.environment
        )  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment,
            start_new_session=True,
        )  # fmt: skip

    def document(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / name).read_text())
        jsonschema.validate(found, SCHEMA)
        return found


@pytest.fixture
def play(tmp_path: Path) -> Place:
    return Place(tmp_path)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_each_run_is_a_file_and_a_log(play: Place) -> None:
    done = play.run("--runs", "3", "--json", str(play.directory / "all.json"))
    assert done.returncode == 0, done.stderr
    assert "verdict: PASS" in done.stdout
    assert "tasks  40 (40 to 40) tasks" in done.stdout
    assert "6 of 6: " in done.stderr and " left" in done.stderr
    names = {path.name for path in play.out.iterdir() if not path.name.startswith(".")}
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
    whole = json.loads((play.directory / "all.json").read_text())
    jsonschema.validate(whole, json.loads((SCHEMAS / "runs-1.json").read_text()))
    assert [(each["row"], each["run"]) for each in whole["runs"]][:4] == [
        ("bench", 1), ("bench", 2), ("bench", 3), ("inversions", 1),
    ]  # fmt: skip


def test_lava_reads_verdicts_and_figures(play: Place) -> None:
    play.tool("pi_stress", PI_STRESS % (0, 0))
    assert play.run("--runs", "2", "--lava", str(play.directory / "result.txt")).returncode == 1
    assert (play.directory / "result.txt").read_text().splitlines() == [
        "bench pass",
        "bench.tasks pass 40 tasks",
        "bench.time_s pass 0.5 s",
        "inversions fail",
    ]


def test_a_seed_gives_its_order(play: Place) -> None:
    for name in ("a", "b"):
        assert play.run("--runs", "6", "--seed", "5", "--out", str(play.directory / name)).returncode == 0
    first, second = (json.loads((play.directory / name / "plan").read_text())["order"] for name in ("a", "b"))
    assert first == second
    assert sorted(first[:2]) == [["bench", 1], ["inversions", 1]]


def test_nothing_is_run_twice(play: Place) -> None:
    assert play.run("--runs", "2").returncode == 0
    before = play.called()
    done = play.run("--runs", "2")
    assert done.returncode == 0
    assert "4 of 4 are there and valid" in done.stderr
    assert play.called() == before
    # One that was damaged is made again, and only that one.
    (play.out / "bench-2.json").write_text("{")
    assert play.run("--runs", "2").returncode == 0
    assert play.document("bench-2.json")["status"] == "DONE"
    assert "inversions" not in play.called()[len(before) :]


def test_suite_and_runs_are_in_the_directory(play: Place) -> None:
    assert play.run("--runs", "2", "--only", "bench").returncode == 0
    argv = [word for word in play.argv() if word not in ("--suite", "play")]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=play.environment)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 are there and valid" in done.stderr


def test_success_without_work_is_no_pass(play: Place) -> None:
    play.tool("pi_stress", PI_STRESS % (0, 0))
    done = play.run()
    assert done.returncode == 1
    assert play.document("inversions-1.json")["process"]["exit_status"] == 0
    assert "no work was done: inversions is 0" in done.stdout
    assert "verdict: FAIL" in done.stdout


def test_a_failure_that_the_tool_reports_is_one(play: Place) -> None:
    play.tool("pi_stress", PI_STRESS % (7, 1))
    done = play.run()
    assert done.returncode == 1
    assert (
        play.document("inversions-1.json")["process"] | {"exit_status": 0, "reported": 1}
        == (play.document("inversions-1.json")["process"])
    )
    assert "it reports the status 1" in done.stdout


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'no memory' >&2; exit 3\n", "exit status 3: no memory"),
        ("kill -9 $$\n", "killed by SIGKILL"),
        ("", "no number of tasks in its output"),
    ],
)
def test_a_run_that_came_to_nothing_is_an_error(script: str, reason: str, play: Place) -> None:
    play.tool("hackbench", script)
    done = play.run()
    assert done.returncode == 2
    found = play.document("bench-1.json")
    assert (found["status"], found["reason"]) == ("ERROR", reason)
    assert "verdict: ERROR" in done.stdout
    # It is tried again.
    play.tool("hackbench", HACKBENCH)
    assert play.run().returncode == 0


def test_a_required_tool_that_is_missing_is_an_error_and_another_a_skip(play: Place) -> None:
    (play.tools / "pi_stress").unlink()
    done = play.run()
    assert done.returncode == 0
    assert play.document("inversions-1.json")["reason"] == "pi_stress is not installed: package rt-tests"
    assert "pi_stress is not installed: package rt-tests" in done.stdout
    (play.tools / "hackbench").unlink()
    done = play.run("--out", str(play.directory / "second"))
    assert done.returncode == 2
    assert "schedline doctor" in done.stderr


def test_nothing_that_could_be_run_is_inconclusive(play: Place) -> None:
    (play.tools / "pi_stress").unlink()
    done = play.run("--only", "inversions")
    assert done.returncode == 3
    assert "verdict: INCONCLUSIVE" in done.stdout


def test_a_tool_that_hangs_is_ended(play: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from schedlib.workloads import measure
    from schedlib.workloads.suites import Row

    play.tool("hackbench", f"[ $# = 0 ] || exit 0; echo $$ > {play.directory}/pid; sleep 1000\n")
    monkeypatch.setenv("PATH", str(play.tools))
    monkeypatch.setattr(measure, "time_limit", lambda _: 1.0)
    place = play.directory / "place"
    place.mkdir()
    row = Row("bench", "hackbench", "", (), 1, "tasks", {"tasks": "tasks"}, True, False, "")
    found = measure.measure(row, measure.Means(None, {}, True), place).document
    assert found["status"] == "ERROR"
    assert found["reason"].startswith("ended after 1 s")
    assert (found["process"]["timed_out"], found["process"]["exit_status"]) == (True, None)
    assert not alive(int((play.directory / "pid").read_text()))


LINGERS = """\
case "$*" in *help*) exit 0;; esac
setsid sleep 1000 < /dev/null > /dev/null 2>&1 &
echo $! > {0}/child
echo $$ > {0}/pid.new && mv {0}/pid.new {0}/pid
sleep 1000
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_killed_leaves_nothing_and_goes_on(number: signal.Signals, play: Place) -> None:
    (play.tools / "mv").symlink_to("/bin/mv")
    assert play.run("--runs", "2", "--only", "inversions,bench", "--seed", "1").returncode == 0
    (play.out / "bench-2.json").unlink()
    play.tool("hackbench", LINGERS.format(play.directory))
    with play.start("--runs", "2", "--only", "inversions,bench") as process:
        while not (play.directory / "pid").exists():
            assert process.poll() is None
        pids = [int((play.directory / name).read_text()) for name in ("pid", "child")]
        assert all(alive(pid) for pid in pids)
        process.send_signal(number)
        process.wait()
        while any(alive(pid) for pid in pids):
            pass
        assert process.stdout
        said = process.stdout.read()
    assert process.returncode != 0
    assert not (play.out / "bench-2.json").exists()
    if number is not signal.SIGKILL:
        assert "next: schedline run --out" in said
        assert not list(play.out.glob(".now-*"))
        assert not (play.out / ".settings.json").exists()
    play.tool("hackbench", HACKBENCH)
    done = play.run("--runs", "2", "--only", "inversions,bench")
    assert done.returncode == 0, done.stderr
    assert "3 of 4 are there and valid" in done.stderr
    assert {path.name for path in play.out.glob(".*")} == {".lock"}


def test_what_a_tool_leaves_running_is_ended(play: Place) -> None:
    play.tool("hackbench", f"setsid sleep 1000 > /dev/null 2>&1 &\necho $! > {play.directory}/child\n{HACKBENCH}")
    assert play.run().returncode == 0
    assert not alive(int((play.directory / "child").read_text()))


def test_a_place_that_cannot_be_written_is_named(play: Place) -> None:
    (play.directory / "file").write_text("")
    done = play.run("--out", str(play.directory / "file" / "out"))
    assert done.returncode != 0
    assert "the runs cannot be written to" in done.stderr
    assert "next: name another directory" in done.stderr
    assert not play.called()


def test_a_full_disk_leaves_nothing_that_is_trusted(play: Place) -> None:
    # A limit on the size of files stands in for the disk: it is enough for the plan, and not for a run.
    limited = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500)); os.execv(%s)"
    done = play.run(wrapper=[sys.executable, "-c", limited % "sys.argv[1], sys.argv[1:]"])
    assert done.returncode != 0
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert (play.out / "plan").exists()
    assert not list(play.out.glob("bench-*.json")) and not list(play.out.glob("inversions-*.json"))
    assert play.run().returncode == 0


def test_another_plan_is_refused(play: Place) -> None:
    assert play.run().returncode == 0
    for words, message in (
        (["--runs", "2"], "was begun with --runs 1, not 2"),
        (["--only", "bench"], "has runs of the suite play"),
        (["--seed", "1"], "was begun with --seed"),
    ):
        done = play.run(*words)
        assert done.returncode != 0
        assert message in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--suite", "nothing"], "no suite 'nothing'"),
        (["--only", "nothing"], "play has no row 'nothing'"),
    ],
)
def test_bad_words_are_named(words: list[str], message: str, play: Place) -> None:
    done = play.run(*words)
    assert done.returncode != 0
    assert message in done.stderr
    assert "next: choose" in done.stderr


def test_list_runs_nothing(play: Place) -> None:
    (play.tools / "pi_stress").unlink()
    done = play.run("--list")
    assert done.returncode == 0
    assert "bench: hackbench" in done.stdout
    assert "about 1 s; required" in done.stdout
    assert "pi_stress is not installed: package rt-tests" in done.stdout
    assert not play.called() and not play.out.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may have a network of its own")
def test_a_server_is_started_first_and_can_be_reached_by_nobody_else(play: Place) -> None:
    from schedlib.workloads.process import Server, run_guarded

    server = "import socket; s = socket.create_server(('', 7003)); c = s.accept()[0]; c.sendall(b'from within')"
    # As netperf asks for it.
    asks = "socket.getaddrinfo('127.0.0.1', 7003, socket.AF_INET, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)"
    client = f"import socket; {asks}; print(socket.create_connection(('127.0.0.1', 7003)).recv(99).decode())"
    place = play.directory / "place"
    place.mkdir()
    done = run_guarded([sys.executable, "-c", client], place, 60,
                       server=Server((sys.executable, "-c", server), "tcp", 7003))  # fmt: skip
    assert (done.problem, done.cannot, done.exit_status, done.stdout) == ("", "", 0, "from within\n")
    outside = subprocess.run([sys.executable, "-c", client], check=False, capture_output=True)
    assert b"from within" not in outside.stdout
    broken = Server((sys.executable, "-c", "raise SystemExit(5)"), "tcp", 7003)
    assert "ended with 5" in run_guarded(["true"], place, 60, server=broken).problem
    silent = Server(("sleep", "1000"), "udp", 7003)
    assert "does not listen on port 7003" in run_guarded(["true"], place, 0.5, server=silent).problem
