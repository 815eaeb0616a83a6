# SPDX-License-Identifier: GPL-2.0
"""Forms of other tools' files that were refused for a false reason, or read wrongly: units, subsets, old versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schedlib.errors import SchedlineError
from schedlib.gate.gate_options import ReadingOptions
from schedlib.gate.result_files import imported


def read(place: Path, text: str) -> dict[str, float]:
    """The metrics of one file."""
    (place / "file.txt").write_text(text)
    found = imported(place, ReadingOptions(unit="run"))
    return {f"{run.tool}:{metric.name}": metric.value for _, run in found.runs for metric in run.metrics}


def cyclictest(**more: object) -> str:
    thread = {"histogram": {"2000": 90, "3500": 10}, "cycles": 100, "min": 1500, "max": 3500, "avg": 2150.0}
    thread |= {"cpu": 0, "node": 0}
    plain = {"cmdline": "cyclictest -q --json=f", "rt_test_version": "2.40", "num_threads": 1, "thread": {"0": thread}}
    return json.dumps(plain | more)


@pytest.mark.parametrize(
    ("more", "p50"),
    [
        ({"resolution_in_ns": 1}, 2.0),
        ({"resolution_in_ns": 1, "cmdline": "cyclictest -qN -h 5000 --json=f"}, 2.0),
        ({"resolution_in_ns": 0}, 2000.0),
        ({}, 2000.0),
        ({"cmdline": "cyclictest --nsecs -q"}, 2.0),
    ],
)
def test_cyclictest_says_its_unit(more: dict[str, object], p50: float, tmp_path: Path) -> None:
    """With -N its numbers are nanoseconds: they were read as microseconds."""
    found = read(tmp_path, cyclictest(**more))
    assert found["cyclictest:latency.p50"] == p50
    assert found["cyclictest:latency.max"] == 1.75 * p50
    assert found["cyclictest:latency.mean"] == pytest.approx(1.075 * p50)


@pytest.mark.parametrize("more", [{"resolution_in_ns": 1000}, {"resolution_in_ns": 0, "cmdline": "cyclictest -N"}])
def test_an_unknown_unit_is_refused(more: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(SchedlineError, match="in an unknown unit: resolution_in_ns is"):
        read(tmp_path, cyclictest(**more))


def test_perf_bench_sched_all(tmp_path: Path) -> None:
    text = "# Running sched/messaging benchmark...\n# 9 groups\n\n     Total time: 0.250 [sec]\n\n"
    text += "# Running sched/pipe benchmark...\n\n     Total time: 3.500 [sec]\n\n       3.5 usecs/op\n"
    assert read(tmp_path, text) == {"perf-bench-messaging:time_s": 0.25, "perf-bench-pipe:time_s": 3.5}


PERF_STAT = [
    {"counter-value": "77.000000", "unit": "", "event": "cpu_core/cycles/", "event-runtime": 5, "pcnt-running": 100.0},
    {"counter-value": "12.500000", "unit": "msec", "event": "task-clock"},
    {"event-runtime": 5, "pcnt-running": 100.0, "metricgroup": "TopdownL1"},
    {"metric-value": "21.4", "metric-unit": "%  tma_retiring"},
]


def test_perf_stat_with_metric_groups(tmp_path: Path) -> None:
    text = "".join(f"{json.dumps(row)}\n" for row in PERF_STAT)
    found = read(tmp_path, text)
    assert found["perf-stat:counted.cpu_core_cycles"] == 77
    assert found["perf-stat:counted.task_clock"] == 12.5
    assert not any("tma" in name for name in found)
    with pytest.raises(SchedlineError, match="neither a counter nor a metric"):
        read(tmp_path, text + '{"event": "x"}\n')
    with pytest.raises(SchedlineError, match="cut off"):
        read(tmp_path, text.rstrip("\n"))


SCHBENCH = """\
Wakeup Latencies percentiles (usec) runtime 30 (s) (5000 total samples)
\t  50.0th: 9          (2500 samples)
\t  90.0th: 20         (2000 samples)
\t* 99.0th: 41         (450 samples)
\t  99.9th: 88         (45 samples)
\t  min=1, max=300
"""


def test_schbench_without_requests(tmp_path: Path) -> None:
    """With -p it has none, and is no file that was cut off."""
    found = read(tmp_path, SCHBENCH + "avg worker transfer: 100.5 ops/sec 1.2MB/s\n")
    assert (found["schbench:wakeup.p99"], "schbench:requests_per_s" in found) == (41, False)
    [(_, run)] = imported(tmp_path, ReadingOptions(unit="run")).runs
    assert {each.name: each.reason for each in run.absent}["requests_per_s"] == "schbench -p has no requests"
    with pytest.raises(SchedlineError, match=r"no number of request samples|no average rps"):
        read(tmp_path, SCHBENCH)


def test_no_error_of_python_reaches_the_user(tmp_path: Path) -> None:
    with pytest.raises(SchedlineError) as caught:
        read(tmp_path, cyclictest(thread={"0": {"cycles": 1}}))
    assert "it has no 'histogram'" in caught.value.observed
    with pytest.raises(SchedlineError) as caught:
        read(tmp_path, cyclictest(thread={"0": 7}))
    assert "a part of it is not what this tool writes" in caught.value.observed
    assert "Error" not in caught.value.observed
