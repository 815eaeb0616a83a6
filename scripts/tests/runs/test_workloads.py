# SPDX-License-Identifier: GPL-2.0
"""The workloads of selftests/, built as for a guest, and really run for a very short time."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from workload_runs import ENDLESS, EXCUSE, MOVED, TINY, WORKLOADS, Place, compile_program, document, ended, metrics

from schedlib.runs.tool_process import why_no_fifo
from schedlib.tree.kernel_tree import Tree
from schedlib.tree.selftest_programs import DIRECTORY, experiments, program_sources, read_tests

pytestmark = pytest.mark.guest


needs_realtime = pytest.mark.skipif(why_no_fifo() != "", reason="SCHED_FIFO is refused here")


def tools(*names: str) -> Sequence[Any]:
    """Parameters for a test. The tools that need SCHED_FIFO are skipped where it is not allowed."""
    return [pytest.param(name, marks=needs_realtime if name.startswith("rt_") else ()) for name in names or WORKLOADS]


@pytest.mark.parametrize("tool", tools())
def test_a_run_is_a_file_by_the_schema(tool: str, place: Place, tmp_path: Path) -> None:
    said = ended(place.tiny(tool, "--json", tmp_path / "run.json"))
    assert "not ok" not in said
    found = document(tmp_path / "run.json")
    assert (found["tool"], found["status"]) == (tool, "DONE")
    assert tool in found["fingerprint"]["command_line"]
    assert Path("/proc/sys/kernel/random/boot_id").read_text().strip() == found["fingerprint"]["boot_id"]
    # A runner may name a directory for the last run of each workload.
    place.tiny(tool, "--json", tmp_path / "run.json", SCHED_LATENCY_RESULTS=str(tmp_path))
    assert document(tmp_path / f"{tool}.json") == document(tmp_path / "run.json")
    assert not list(tmp_path.rglob("*.new"))


@pytest.mark.parametrize("tool", tools(*sorted(set(WORKLOADS) - experiments())))
def test_output_is_ktap_with_a_plan_and_the_listed_names(tool: str, place: Place) -> None:
    _, said = place.tiny(tool)
    if "1..0 # SKIP" in said:
        pytest.skip(said)
    lines = said.splitlines()
    assert lines[0] == "TAP version 13"
    printed = [line.split()[2] for line in lines if line.startswith("ok ")]
    assert lines[1] == f"1..{len(printed)}"
    assert [*read_tests(program_sources()[tool])] == printed


@pytest.mark.parametrize("tool", tools())
def test_several_runs_are_several_files(tool: str, place: Place, tmp_path: Path) -> None:
    said = ended(place.tiny(tool, "--runs", "2", "--json", tmp_path / "a.b" / "run.json"), 1)
    assert "Bail out! --json" in said
    assert "No such file or directory" in said
    said = ended(place.tiny(tool, "--runs", "2", "--json", tmp_path / "run.json"))
    for name in ("run.json", "run-2.json"):
        assert document(tmp_path / name)["status"] == "DONE"


@pytest.mark.parametrize("tool", tools())
def test_help_has_each_option(tool: str, place: Place) -> None:
    said = ended(place.run(tool, "--help"))
    assert said.startswith(f"usage: {tool} [options]\n")
    for word in ("--json WORD", "--runs N", "--record", *(w for w in TINY[tool] if w.startswith("--"))):
        assert word in said
    assert all(len(line) < 100 for line in said.splitlines())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--runs", "0"), "--runs 0: not a whole number from 1 to 100"),
        (("--runs", "2.5"), "--runs 2.5: not a whole number from 1 to 100"),
        (("--inject-delay-us", "nan"), "--inject-delay-us nan: not a number from 0 to 1000000"),
        (("--cpus", "3-1"), "--cpus 3-1: not a list such as 0-3,8"),
        (("--cpus", "8191"), "--cpus: some are offline or may not be used"),
        (("--cpus", "8192"), "--cpus 8192: not a list such as 0-3,8"),
        (("--runs",), "--runs is no option, or lacks its value"),
        (("--bogus",), "--bogus is no option"),
        (("word",), "word is no option"),
        (("--limits", "/dev/null/x"), "/dev/null/x: Not a directory"),
        (("-a", "3-1"), "--cpus 3-1: not a list such as 0-3,8"),
    ],
)
def test_bad_input_is_named(words: Sequence[str], message: str, place: Place) -> None:
    # All workloads parse their options in the same way: one program is enough.
    said = ended(place.run("sleep_storm", *words), 1)
    assert f"Bail out! {message}" in said


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("tool", tools())
def test_one_cpu_is_enough_and_no_other_is_used(tool: str, allowed: bool, place: Place, tmp_path: Path) -> None:
    cpu = (max if allowed else min)(os.sched_getaffinity(0))
    before, behind = (("taskset", "-c", str(cpu)), ()) if allowed else ((), ("--cpus", str(cpu)))
    ended(place.command(*before, place.programs / tool, *TINY[tool], *behind, "--json", tmp_path / "run.json"))
    found = document(tmp_path / "run.json")
    assert {row["cpu"] for row in found["cpus"]} <= {cpu}
    assert not allowed or f"CPUs {cpu}, " in found["fingerprint"]["machine"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("tool", tools())
def test_full_disk_is_said(tool: str, place: Place, tmp_path: Path) -> None:
    # A limit on file sizes stands in for a full disk. The incomplete file is removed.
    limited = f'ulimit -f 1; exec "$0" "$@" --json {tmp_path}/run.json'
    said = ended(place.command("sh", "-c", f"trap '' XFSZ; {limited}", place.programs / tool, *TINY[tool]), 1)
    assert f"Bail out! --json {tmp_path}/run.json: File too large" in said
    assert not list(tmp_path.rglob("run.json*")) and not list(tmp_path.rglob("*.new"))


def endless(place: Place, tool: str, *words: str | Path) -> subprocess.Popen[str]:
    argv: list[str | Path] = [place.programs / tool, *ENDLESS[tool], *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=place.environment)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descendants(pid: int) -> list[int]:
    return [each for child in children(pid) for each in (child, *descendants(child))]


@pytest.mark.parametrize("tool", tools(*ENDLESS))
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_leaves_nothing_behind(number: signal.Signals, tool: str, place: Place, tmp_path: Path) -> None:
    with endless(place, tool) as process:
        assert process.stdout
        while not descendants(process.pid):
            assert process.poll() is None
        process.send_signal(number)
        # Every process of the run holds the pipe: it is closed when the last one has ended.
        process.stdout.read()
    assert process.returncode == -number
    assert not list(tmp_path.rglob("*.json*"))


def test_what_the_caller_is_does_not_count(place: Place) -> None:
    # A caller that is real-time would make its ordinary tasks real-time, too.
    argv: list[str | Path] = ["chrt", "--idle", "0", place.programs / "sleep_storm", *ENDLESS["sleep_storm"]]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=place.environment) as process:
        while not (found := descendants(process.pid)):
            assert process.poll() is None
        policies = {os.sched_getscheduler(pid) for pid in found}
        process.kill()
    assert policies == {os.SCHED_OTHER}
    ended(place.command("env", "--ignore-signal=CHLD", place.programs / "sleep_storm", *TINY["sleep_storm"]))


@pytest.mark.parametrize("tool", tools(*ENDLESS))
def test_a_killed_run_is_no_result(tool: str, place: Place, tmp_path: Path) -> None:
    with endless(place, tool, "--json", tmp_path / "run.json") as process:
        assert process.stdout
        while not children(process.pid):
            assert process.poll() is None
        os.kill(children(process.pid)[0], signal.SIGKILL)
        said = process.stdout.read()
    assert process.returncode == 1
    assert "Bail out! the run was killed: Killed" in said
    found = document(tmp_path / "run.json")
    assert (found["status"], found["reason"]) == ("ERROR", "the run was killed: Killed")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU: threads cannot change CPUs to be moved to")
@pytest.mark.parametrize("tool", tools(*MOVED))
def test_a_cpu_that_goes_away_is_seen(tool: str, place: Place) -> None:
    # Move the threads as the kernel does if the CPU to which they are pinned goes offline.
    stays, goes, *_ = sorted(os.sched_getaffinity(0))
    argv = [str(place.programs / tool), *MOVED[tool], "--cpus", str(goes)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=place.environment) as process:
        assert process.stdout
        while process.poll() is None:
            with suppress(OSError):
                for each in descendants(process.pid):
                    for task in Path(f"/proc/{each}/task").iterdir():
                        os.sched_setaffinity(int(task.name), {stays})
        said = process.stdout.read()
    assert process.returncode == 1, said
    assert "Bail out! a thread ran on CPU " in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up what root may")
@pytest.mark.parametrize("tool", tools(*(name for name in TINY if name.startswith("rt_"))))
def test_without_rights_rt_is_a_skip(tool: str, place: Place, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    program = tmp_path / tool
    shutil.copy(place.programs / tool, program)
    # The path to the directory may be closed to other users, so make it the working directory.
    user = ["env", "-C", str(tmp_path), "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    said = ended(place.command(*user, f"./{tool}", "--json", "run.json", TMPDIR="."), 4)
    assert "1..0 # SKIP SCHED_FIFO needs root" in said
    found = document(tmp_path / "run.json")
    assert found["status"] == "SKIP"
    assert found["reason"].startswith("SCHED_FIFO needs root")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up what root may")
def test_a_limit_of_what_cannot_be_measured_is_a_skip(place: Place) -> None:
    words = (*TINY["task_moves"], "--limit", "pushed_after.p50=5ms")
    said = ended(place.command("setpriv", "--bounding-set=-all", place.programs / "task_moves", *words))
    assert re.search(r"^ok \d+ within_limits # SKIP SCHED_FIFO ", said, re.M), said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can lock much memory")
def test_what_is_never_used_is_not_locked(place: Place) -> None:
    with endless(place, "rt_wakeup") as process:
        while not (there := children(process.pid)):
            assert process.poll() is None
        status, locked, used, threads = Path(f"/proc/{there[0]}/status"), 0, 0, 0
        # Its threads are started when it is locked.
        while not (locked and threads > 1) and process.poll() is None:
            text = status.read_text()
            locked, used, threads = (
                int(re.findall(rf"^{name}:\s+(\d+)", text, re.M)[0]) for name in ("VmLck", "VmRSS", "Threads")
            )
        process.kill()
    assert 0 < used < 20_000, text


def test_pingpong_waits_for_sleepers_and_sees_where_they_ran(place: Place, tmp_path: Path) -> None:
    ended(place.tiny("wakeup_pingpong", "--json", tmp_path / "run.json"))
    found = metrics(tmp_path / "run.json")
    values = {name: each["value"] for name, each in found.items()}
    for way in ("futex", "eventfd", "pipe"):
        same = f"{way}_same_cpu"
        assert 0 < values[f"{same}.samples"] <= found[f"{same}.mean_turn"]["n"] and values[f"{same}.mean_turn"] > 0
        quantiles = [values[f"{same}.{name}"] for name in ("p50", "p90", "p99", "p99_9", "max")]
        assert quantiles == sorted(quantiles)
        assert len(os.sched_getaffinity(0)) == 1 or values[f"{way}_free.samples"] > 0


def test_storm_is_as_large_as_asked(place: Place, tmp_path: Path) -> None:
    ended(place.run("sleep_storm", "-c", "5", "-l", "4", "-m", "2", "--json", tmp_path / "run.json"))
    found = metrics(tmp_path / "run.json")
    assert found["sleeps"]["value"] == found["oversleep.samples"]["value"] == 5 * 2**4
    # Each child sleeps 16 times for 2 ms, on any machine.
    assert found["storm_s"]["value"] >= 0.032
    assert sum(row["n"] for row in document(tmp_path / "run.json")["cpus"]) == 80


def test_a_child_of_the_storm_that_is_killed_is_seen(place: Place) -> None:
    with endless(place, "sleep_storm") as process:
        assert process.stdout
        while len(descendants(process.pid)) < 2:
            assert process.poll() is None
        os.kill(children(children(process.pid)[0])[0], signal.SIGKILL)
        said = process.stdout.read()
    assert process.returncode == 1
    assert "Bail out! a child " in said


@pytest.mark.parametrize("tool", tools(*sorted(set(WORKLOADS) - experiments())))
def test_wake_ups_that_are_late_by_20_ms_fail_without_a_baseline(tool: str, place: Place) -> None:
    """Of each workload, also of one that is new: its tests of AT_MOST."""
    code, said = place.run(tool, *TINY[tool], "--inject-delay-us", "20000")
    if "1..0 # SKIP" in said:
        pytest.skip(said)
    found = {name: (result, skip) for result, name, skip in re.findall(r"^(ok|not ok) \d+ (\w+)(.*)", said, re.M)}
    listed = re.findall(r'\.name = "(\w+)", \.rule = AT_MOST', (DIRECTORY / f"{tool}.c").read_text())
    assert listed
    for test in listed:
        result, skip = found[test]
        # What others had of the CPUs is an excuse, but never makes a pass of it.
        assert result == "not ok" or re.search(EXCUSE, skip), said
    assert code == 1 or re.search(EXCUSE, said)


def test_task_moves_needs_two_cpus_of_an_llc(place: Place, tmp_path: Path) -> None:
    code, said = place.run("task_moves", "--cpus", "0")
    assert (code, "no two of these CPUs share an LLC" in said or "sysfs shows no caches" in said) == (4, True)
    code, said = place.run("task_moves", "--json", tmp_path / "run.json")
    if code == 4:
        return
    assert "not ok" not in said
    assert re.findall(r"^ok \d+ (\w+)", said, re.M) == [*read_tests(DIRECTORY / "task_moves.c")]
    if not why_no_fifo():
        assert metrics(tmp_path / "run.json")["pushed"]["value"] > 50
        assert metrics(tmp_path / "run.json")["pulled"]["value"] > 50


def test_two_tasks_take_turns_on_each_cpu(place: Place, tmp_path: Path) -> None:
    code, said = place.run("take_turns", "--json", tmp_path / "run.json")
    assert code == 0 or "not ok" in said, said
    assert "ok 1 every_cpu_took_turns" in said
    found = document(tmp_path / "run.json")
    assert len(found["cpus"]) == len(os.sched_getaffinity(0))
    # Not the time between two looks at the clock.
    assert metrics(tmp_path / "run.json")["turn.p90"]["value"] > 100_000


def test_cluster_wakeup_needs_a_cluster(place: Place, tmp_path: Path) -> None:
    code, said = place.run("cluster_wakeup", "--wakeups", "20", "--json", tmp_path / "run.json")
    found = document(tmp_path / "run.json")
    if code == 4:
        assert found["status"] == "SKIP"
        assert f"1..0 # SKIP {found['reason']}" in said
    else:
        assert code == 0, said
        assert 0 < metrics(tmp_path / "run.json")["cluster.chance"]["value"] < 100


@needs_realtime
def test_push_pull_runs_the_profile_that_was_asked_for(place: Place, tmp_path: Path) -> None:
    for profile, has, lacks in (
        ("overload", "overload.bursts", "groups"),
        ("pinned-groups", "groups.frames_per_s", "over"),
    ):
        code, said = place.tiny("rt_push_pull", "--profile", profile, "--json", tmp_path / "run.json")
        assert code == 0, said
        found = metrics(tmp_path / "run.json")
        assert found[has]["value"] > 0
        rows = document(tmp_path / "run.json")["cpus"]
        late = sum(row["n"] for row in rows if row["group"] == "overload.late")
        assert late == (found[has]["value"] if profile == "overload" else 0)
        assert not any(name.startswith(lacks) for name in found)
        assert "# SKIP another profile was asked for" in said
    said = ended(place.run("rt_push_pull", "--profile", "other"), 1)
    assert "Bail out! --profile other: overload, pinned-groups or both" in said


@needs_realtime
def test_rt_wakeup_counts_each_cycle(place: Place, tmp_path: Path) -> None:
    ended(place.tiny("rt_wakeup", "--json", tmp_path / "run.json"))
    cpus = len(os.sched_getaffinity(0))
    assert metrics(tmp_path / "run.json")["timer.samples"]["value"] == 50 * cpus
    assert [row["n"] for row in document(tmp_path / "run.json")["cpus"]] == [50] * cpus


@needs_realtime
def test_intervals_that_were_missed_are_late_ones(place: Place) -> None:
    # Stopped for five sixths of the time, it wakes up in time for the few intervals that are left.
    with subprocess.Popen(
        [place.programs / "rt_wakeup", "--seconds", "2"],
        stdout=subprocess.PIPE, text=True, env=place.environment, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout and process.stdout.readline()
        while process.poll() is None:
            for pid in children(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(0.15)
                    os.kill(pid, signal.SIGCONT)
            time.sleep(0.03)
        said = process.stdout.read()
    assert re.search(r"^not ok 3 timers_in_time # timer.p50_with_missed|^ok 3 timers_in_time # SKIP", said, re.M), said


@needs_realtime
def test_intervals_that_one_cpu_missed_are_late_ones(place: Place) -> None:
    # Less than half of those of all CPUs.
    work = (
        f"import os, time\nos.sched_setaffinity(0, {{{max(os.sched_getaffinity(0))}}})\n"
        "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))\n"
        "while True:\n    end = time.monotonic() + 0.1\n    while time.monotonic() < end: pass\n    time.sleep(0.03)\n"
    )
    with subprocess.Popen(["timeout", "60", "python3", "-c", work]) as process:
        time.sleep(0.5)
        _, said = place.run("rt_wakeup", "--seconds", "2")
        process.terminate()
    assert re.search(r"^ok 3 timers_in_time # SKIP timer\S+ \S+ ms, ", said, re.M), said


# What the workloads share: lists of CPUs, and histograms, checked against Python.


@pytest.fixture(scope="module")
def library(series: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("library") / "library"
    compile_program(series, Path(__file__).with_name("given_library.c"), built)
    return built


def run_library(library: Path, *words: str, numbers: str = "") -> tuple[int, str]:
    done = subprocess.run([library, *words], check=False, capture_output=True, text=True, input=numbers)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0", "1 0"),
        ("0-3,8", "5 0-3,8"),
        ("8,0-2,3", "5 0-3,8"),
        ("1023,1024,8191", "3 1023-1024,8191"),
        ("63-64,127-128", "4 63-64,127-128"),
        ("0-8191", "8192 0-8191"),
    ],
)
def test_lists_of_cpus(text: str, said: str, library: Path) -> None:
    assert run_library(library, text) == (0, said + "\n")


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "3-2", "8192", "1,,2", "1;2", "1-2-3", "0x1", "1 2"])
def test_what_is_no_list(text: str, library: Path) -> None:
    assert run_library(library, text)[0] == 1


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_are_near_the_true_ones(seed: int, library: Path) -> None:
    drawn = random.Random(seed)  # noqa: S311
    numbers = sorted(int(drawn.lognormvariate(8 + seed, 1 + seed / 3)) for _ in range(2000))
    said = ended(run_library(library, numbers=" ".join(map(str, numbers))))
    n, most, *quantiles = map(float, said.split())
    assert (n, most) == (2000, numbers[-1])
    for percent, quantile in enumerate(quantiles):
        true = numbers[max(0, -(-percent * 2000 // 100) - 1)]
        if true < 2**40:
            assert quantile == pytest.approx(true, rel=1 / 64, abs=1)


def test_what_is_too_long_is_never_less_than_the_truth(library: Path) -> None:
    said = ended(run_library(library, numbers=f"5 {2**40 - 1} {2**40} {2**44}"))
    n, most, *quantiles = map(float, said.split())
    assert (n, most) == (4, 2**44)
    assert quantiles[100] == quantiles[75] == 2**44
