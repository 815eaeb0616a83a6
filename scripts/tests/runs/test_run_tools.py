# SPDX-License-Identifier: GPL-2.0
"""The parsers of the wrapped tools, on recorded real output, good and bad: tools/, made by record_tool.py."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from workload_runs import plain

from conftest import write_program
from schedlib.formats.run_file import Head, Reading, run_of
from schedlib.runs import pinned_groups
from schedlib.runs.measure import read_output
from schedlib.runs.tool_process import run_guarded, why_no_fifo
from schedlib.runs.tools import TOOLS, Output

RECORDED = Path(__file__).parents[1] / "tools"

HEAD = Head(
    "tool",
    "2026-11-22T04:34:01Z",
    1.5,
    dict.fromkeys(("machine_name", "machine", "kernel", "build_id", "configuration", "boot_id", "command_line"), "x"),
)


def output(name: str) -> Output:
    found = json.loads((RECORDED / f"{name}.json").read_text())
    return Output(found["argv"], found["exit_status"], found["stdout"], found["stderr"], found["files"])


def read(tool: str, name: str) -> Reading:
    return read_output(TOOLS[tool], output(name))


def values(reading: Reading) -> dict[str, float]:
    assert not reading.error, reading.error
    return {metric.name: metric.value for metric in reading.metrics}


GOOD: dict[str, tuple[str, dict[str, Any]]] = {
    "cyclictest-good": ("cyclictest", {"latency.idle_threads": 0, "latency.mean": 22.744813}),
    "cyclictest-mails": ("cyclictest", {"latency.samples": 19874, "latency.overflow": 2152, "latency.max": 3958}),
    "cyclictest-terminated": ("cyclictest", {"latency.idle_threads": 0}),
    "pi_stress-good": ("pi_stress", {"inversions": 24842, "inversions_per_s": 24842 / 3}),
    "pi_stress-zero": ("pi_stress", {"inversions": 0, "inversions_per_s": 0}),
    "hackbench-good": ("hackbench", {"tasks": 40, "messages_each": 200, "time_s": 0.515}),
    "stress-ng-good": (
        "stress-ng",
        {
            "operations": 22114,
            "operations_per_s": 7367.471283,
            "latency.p50": 32377,
            "latency.p99": 120219,
            "latency.max": 561705,
        },
    ),
    "stress-ng-stdout": ("stress-ng", {"operations": 23793, "latency.p99_9": 133476, "latency.max": 614719}),
    "stress-ng-mutex": ("stress-ng", {}),
    "stress-ng-mails": ("stress-ng", {}),
    "perf-messaging-good": ("perf-bench", {"loops": 100, "time_s": 0.496}),
    "perf-pipe-good": ("perf-bench", {"loops": 20000, "loops_per_s": 20000 / 0.28}),
    "perf-stat": (
        "perf-stat",
        {"counted.context_switches": 4296, "counted.cpu_migrations": 68, "counted.task_clock": 158.67},
    ),
    "tbench-good": ("tbench", {"mb_per_s": 32.1415, "latency.max": 13.698}),
    "netperf-TCP_RR": ("netperf", {"transactions_per_s": 6972.26, "latency.p99": 2262, "latency.max": 45423}),
    "netperf-UDP_RR": ("netperf", {"transactions_per_s": 30378.82, "latency.p50": 13}),
    "ffmpeg-good": (
        "ffmpeg",
        {
            "groups.frames": 758,
            "groups.frames_per_s": 758 / 2.153862476996437,
            "groups.evenness": 100,
            "groups.kernel_of_cpu_time": 13.8548 / 3.66608,
        },
    ),
    "schbench-good": (
        "schbench",
        {"wakeup.samples": 315, "wakeup.p50": 24, "wakeup.p99": 17888, "request.p99": 41280, "requests_per_s": 105},
    ),
    "schbench-intervals": ("schbench", {"wakeup.samples": 175, "wakeup.p99": 41664, "requests_per_s": 35}),
}

BAD = {
    "cyclictest-nobody": ("cyclictest", "it wrote no results: Probably missing capabilities"),
    "cyclictest-killed": ("cyclictest", "it wrote no results: WARN: distance is ignored"),
    "pi_stress-nobody": ("pi_stress", "it wrote no results: main: boosting to max priority: 0x1"),
    "pi_stress-killed": ("pi_stress", "it wrote no results: it printed nothing"),
    "hackbench-killed": ("hackbench", "no time in its output"),
    "hackbench-zero": ("hackbench", "no number of tasks in its output"),
    "stress-ng-nobody": ("stress-ng", "it ran nothing: cyclic stressor needs to be run with CAP_SYS_NICE"),
    "stress-ng-stdout-nobody": ("stress-ng", "it ran nothing: cyclic stressor needs to be run with CAP_SYS_NICE"),
    "stress-ng-killed": ("stress-ng", "it wrote no metrics"),
    "perf-pipe-killed": ("perf-bench", "no time in its output"),
    "tbench-refused": ("tbench", "its clients did not start"),
    "tbench-killed": ("tbench", "no Throughput in its output"),
    "netperf-refused": ("netperf", "no transactions in its output: establish_control could not establish"),
    "netperf-killed": ("netperf", "no transactions in its output"),
    "ffmpeg-bad": ("ffmpeg", "1 of 1 instances failed: Unknown encoder 'nothing'"),
    "ffmpeg-killed": ("ffmpeg", "it wrote no results"),
    "schbench-killed": ("schbench", "it wrote no results"),
    "schbench-text": ("schbench", "it wrote no results"),
}


def test_every_recording_is_used_and_every_tool_has_a_good_and_a_bad_one() -> None:
    special = {"pi_stress-elsewhere", "perf-c2c"}
    assert {path.stem for path in RECORDED.glob("*.json")} == {*GOOD, *BAD, *special}
    assert {tool for tool, _ in GOOD.values()} == set(TOOLS) - {"perf-c2c"}
    # A counter that cannot be counted is absent, which is no error.
    assert {tool for tool, _ in BAD.values()} == set(TOOLS) - {"perf-c2c", "perf-stat"}


@pytest.mark.parametrize("name", GOOD)
def test_good_output_is_measured(name: str) -> None:
    tool, expected = GOOD[name]
    reading = read(tool, name)
    found = values(reading)
    assert {key: found[key] for key in expected} == pytest.approx(expected)
    assert not reading.reported
    assert plain(run_of(HEAD, reading))["status"] == "DONE"


@pytest.mark.parametrize("name", BAD)
def test_bad_output_is_an_error_with_the_reason(name: str) -> None:
    tool, message = BAD[name]
    reading = read(tool, name)
    assert reading.error.startswith(message)
    made = plain(run_of(HEAD, reading))
    assert (made["status"], made["metrics"]) == ("ERROR", [])


@pytest.mark.parametrize("name", GOOD)
def test_output_that_stops_early_is_never_taken_for_a_measurement_of_nothing(name: str) -> None:
    tool, _ = GOOD[name]
    whole = output(name)
    for share in range(0, 100, 7):
        cut = replace(
            whole,
            stdout=whole.stdout[: len(whole.stdout) * share // 100],
            stderr=whole.stderr[: len(whole.stderr) * share // 100],
            files={key: text[: len(text) * share // 100] for key, text in whole.files.items()},
        )
        plain(run_of(HEAD, read_output(TOOLS[tool], cut)))


ABSENT = {
    "cyclictest-mails": {"latency.p99": "2152 of 19874 are beyond the histogram"},
    "perf-stat": dict.fromkeys(("counted.cycles", "counted.instructions"), "perf stat: <not supported>"),
}


@pytest.mark.parametrize("name", ABSENT)
def test_what_a_tool_could_not_measure_is_absent(name: str) -> None:
    reading = read(GOOD[name][0], name)
    absent = {each.name: each.reason for each in reading.absent}
    assert absent.items() >= ABSENT[name].items() and not absent.keys() & values(reading).keys()


def test_what_is_said_of_each_cpu_and_of_how_many_samples() -> None:
    cpus = read("cyclictest", "cyclictest-good").cpus
    assert [row.cpu for row in cpus] == [0, 1]
    assert all(0 < row.p50_ns <= row.p99_ns <= row.max_ns for row in cpus)
    # The latencies of stress-ng are of its first samples, and it may lack them.
    metrics = {metric.name: metric.n for metric in read("stress-ng", "stress-ng-good").metrics}
    assert (metrics["latency.p50"], metrics["operations_per_s"]) == (10000, 22114)
    assert "latency.p50" not in values(read("stress-ng", "stress-ng-mutex"))
    assert values(read("stress-ng", "stress-ng-mails"))["operations"] > 0


def test_a_thread_that_never_woke_is_seen() -> None:
    whole = output("cyclictest-good")
    found = json.loads(whole.files["out.json"])
    found["thread"]["1"] |= {"cycles": 0, "histogram": {}, "min": 0, "max": 0}
    idle = read_output(TOOLS["cyclictest"], replace(whole, files={"out.json": json.dumps(found)}))
    assert values(idle)["latency.idle_threads"] == 1


def test_some_tools_cannot() -> None:
    """perf c2c needs hardware, and pi_stress cannot leave out CPUs."""
    assert read("pi_stress", "pi_stress-elsewhere").cannot.startswith("pi_stress pins its threads")
    assert read("perf-c2c", "perf-c2c").cannot == "perf c2c: failed: memory events not supported"
    said = "[ perf record: Captured and wrote 0.012 MB perf.data (17 samples) ]\n"
    there = replace(output("perf-c2c"), exit_status=0, stderr=said)
    assert values(read_output(TOOLS["perf-c2c"], there)) == {"samples": 17}


def test_a_failure_that_a_tool_reports_is_kept_apart() -> None:
    whole = output("pi_stress-good")
    failed = whole.files["out.json"].replace('"return_code": 0', '"return_code": 1')
    assert read_output(TOOLS["pi_stress"], replace(whole, files={"out.json": failed})).reported == 1
    whole = output("stress-ng-good")
    said = whole.stderr + "stress-ng: fail:  [1] cyclic: something was wrong\n"
    assert read_output(TOOLS["stress-ng"], replace(whole, stderr=said)).reported == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_what_is_no_number_is_no_measurement(value: float) -> None:
    reading = read("hackbench", "hackbench-good")
    bad = replace(reading, metrics=(msgspec.structs.replace(reading.metrics[0], value=value), *reading.metrics[1:]))
    assert run_of(HEAD, bad).reason == "tasks is negative or not finite"


def test_a_missing_tool_is_told_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert TOOLS["cyclictest"].path() is None
    assert TOOLS["cyclictest"].missing() == "cyclictest is not installed: package rt-tests"
    assert "SCHBENCH=/path/to/schbench" in TOOLS["schbench"].missing()
    (tmp_path / "mine").touch(mode=0o755)
    monkeypatch.setenv("SCHBENCH", str(tmp_path / "mine"))
    assert TOOLS["schbench"].path() == str(tmp_path / "mine")


# The driver that starts an FFmpeg in each group of CPUs. A script stands in for FFmpeg.

FFMPEG = TOOLS["ffmpeg"]


def test_groups_are_of_eight_or_of_all() -> None:
    assert pinned_groups.groups([0, 1]) == [{0, 1}]
    assert pinned_groups.groups(list(range(8))) == [set(range(8))]
    assert pinned_groups.groups([0, *range(2, 20)]) == [{0, *range(2, 9)}, set(range(9, 17))]
    assert len(pinned_groups.groups(list(range(480)))) == 60


def test_without_throttling_it_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "limit").write_text("-1\n")
    monkeypatch.setattr(pinned_groups, "THROTTLING", tmp_path / "limit")
    monkeypatch.setattr(pinned_groups, "start", lambda *_: pytest.fail("it was started"))
    monkeypatch.setattr(sys, "argv", ["pinned_groups.py", "ffmpeg", "--seconds", "1"])
    status = pinned_groups.main()
    reading = FFMPEG.parse(Output((), status, "", capsys.readouterr().err))
    assert reading.cannot.endswith("without RT throttling the threads would block the machine")


PLAYED = """\
# A signal that comes early, on a busy machine, ends it no sooner.
trap 'ended=yes' INT
echo "$*" > said; chrt -p $$ >> said; taskset -cp $$ >> said
echo frame=3; echo frame=7
{ending}
"""


def ffmpeg(directory: Path, ending: str, seconds: str) -> tuple[Output, int]:
    program, place = write_program(directory / "ffmpeg", PLAYED.format(ending=ending)), directory / "place"
    place.mkdir()
    done = run_guarded([*FFMPEG.driver, str(program), "--seconds", seconds, "-f", "null", "-"], place, 60)
    files = {path.name: path.read_text() for path in place.glob("out.*")}
    return Output((), done.exit_status, done.stdout, done.stderr, files), done.exit_status or 0


@pytest.mark.skipif(why_no_fifo() != "", reason="SCHED_FIFO is refused here")
def test_instances_run_pinned_and_realtime_until_they_are_told_to_end(tmp_path: Path) -> None:
    output, status = ffmpeg(tmp_path, 'while [ -z "$ended" ]; do sleep 0.01; done; echo frame=9; exit 255', "0.2")
    assert status == 0
    said = (tmp_path / "place" / "said").read_text().splitlines()
    assert said[0] == "-f null -"
    assert said[1].endswith("SCHED_FIFO") and said[2].endswith("priority: 99")
    found = {metric.name: metric.value for metric in FFMPEG.parse(output).metrics}
    assert found["groups.frames"] == 9 * len(pinned_groups.groups(sorted(os.sched_getaffinity(0))))
    assert json.loads(output.files["out.json"])["seconds"] >= 0.2


@pytest.mark.skipif(why_no_fifo() != "", reason="SCHED_FIFO is refused here")
def test_an_instance_that_fails_ends_the_run(tmp_path: Path) -> None:
    output, status = ffmpeg(tmp_path, "echo no such codec >&2; exit 1", "1000")
    assert status == 1
    assert FFMPEG.parse(output).error.endswith("instances failed: no such codec")
