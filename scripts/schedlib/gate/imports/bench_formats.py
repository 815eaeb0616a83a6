# SPDX-License-Identifier: GPL-2.0
"""Outputs of general benchmarks: perf, stress-ng, sysbench."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from schedlib.formats.run_file import Absent, Direction, Metric, Reading
from schedlib.gate.imports.foreign import ForeignFormat, ForeignRun, ResultFile, kernel_of, wrapped_tool
from schedlib.runs.tools.tool import Unreadable, metric, number, quantiles, slug, work

# `perf bench sched all` prints dots.
_BENCH = re.compile(r"^# Running '?sched/(\w+)'? benchmark(?::|\.\.\.)", re.M)
_NUMBER = re.compile(r"[0-9]+\.[0-9]{3}\s*")
_SYSBENCH = re.compile(r"^sysbench (\d\S*)", re.M)
_STRESS = re.compile(r"^ +stress-ng-version: '?([0-9.]+)'?$", re.M)


def _perf_bench(file: ResultFile) -> Sequence[ForeignRun]:
    _, *parts = _BENCH.split(file.text)
    runs = []
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        took = number(r"^ +Total time: ([0-9.]+) \[sec\]$", text, "total time")
        settings = "; ".join(line.strip("# ") for line in text.splitlines() if line.startswith("#"))
        runs.append(ForeignRun(f"perf-bench-{name}", _bench_time(took), about={"settings": settings}))
    return runs


def one_number(file: ResultFile) -> bool:
    """Whether a file holds one number with three decimals alone, as perf bench --format=simple prints it."""
    return bool(_NUMBER.fullmatch(file.text))


def _perf_bench_simple(file: ResultFile) -> Sequence[ForeignRun]:
    return (ForeignRun("perf-bench", _bench_time(float(file.text))),)


def _bench_time(seconds: float) -> Reading:
    if not seconds:
        raise Unreadable("it took no time at all")
    return Reading((metric("time_s", "s", "lower", "exact", seconds),))


def _counters(file: ResultFile) -> list[dict[str, Any]]:
    """The lines of perf stat -j that are counters."""
    rows = [ResultFile(line).json for line in file.text.splitlines() if line.startswith("{")]
    return [row for row in rows if isinstance(row, dict) and "counter-value" in row and "event" in row]


_COSTS = frozenset({"cycles", "instructions", "task-clock", "duration_time"})
"""Counters of which less is better, if the same work is done."""


def _perf_stat(file: ResultFile) -> Sequence[ForeignRun]:
    rows = _counters(file)
    if any("interval" in row for row in rows):
        raise Unreadable("it was counted with -I, and intervals are no runs; leave out -I")
    # A line may be of a metric group, and no counter.
    others = [ResultFile(line) for line in file.text.splitlines() if line.startswith("{")]
    strange = sum(
        not (line.has("counter-value", "event") or line.has("metric-value") or line.has("metricgroup"))
        for line in others
    )
    if strange or not file.text.endswith("\n"):
        raise Unreadable("a line is neither a counter nor a metric (cut off?)")
    metrics, absent = [], []
    for row in rows:
        name, said = f"counted.{slug(row['event'])}", row["counter-value"]
        if said.startswith("<"):
            absent.append(Absent(name, f"perf stat: {said}"))
            continue
        direction: Direction = "lower" if row["event"].split(":")[0] in _COSTS else "neither"
        metrics.append(metric(name, row["unit"] or "events", direction, "exact", float(said)))
        # A multiplexed counter ran only part of the time; perf has scaled its value.
        if "pcnt-running" in row:
            metrics.append(metric(f"{name}.counted", "%", "neither", "exact", row["pcnt-running"]))
    if not metrics:
        raise Unreadable("perf could count nothing there")
    return (ForeignRun("perf-stat", Reading(tuple(metrics), tuple(absent))),)


def _stress_ng(file: ResultFile) -> Sequence[ForeignRun]:
    head, _, rest = file.text.partition("\nmetrics:\n")
    if not rest.rstrip().endswith("..."):
        raise Unreadable("it has no end (cut off?)")
    metrics: list[Metric] = []
    for part in re.split(r"^ +- stressor: ", rest, flags=re.M)[1:]:
        name = slug(part.partition("\n")[0])
        reading = wrapped_tool("stress-ng", out_yaml=part)
        metrics += [replace(each, name=f"{name}.{each.name}") for each in reading.metrics]
    said = {found[1]: found[2] for found in re.finditer(r"^ +([\w-]+): '?([^'\n]*)'?$", head, re.M)}
    started = datetime.fromtimestamp(int(said["epoch-secs"]), UTC)
    about = kernel_of(said) | {"tool_version": said["stress-ng-version"]}
    return (ForeignRun("stress-ng", Reading(tuple(metrics)), started, about),)


def _sysbench(file: ResultFile) -> Sequence[ForeignRun]:
    # "total time" in 0.4 and 1.0, "time elapsed" in 1.1.
    seconds = number(r"^ +(?:total time|time elapsed): +([0-9.]+)s$", file.text, "total time")
    events = number(r"^ +total number of events: +(\d+)$", file.text, "number of events")
    if not events or not seconds:
        raise Unreadable("it did nothing: no event, or no time")
    # 0.4 has the unit behind each number.
    _, *behind = re.split(r"\n(?:Latency \(ms\)| +per-request statistics):\n", file.text)
    latencies = "".join(behind)
    average = number(r"^ +avg: +([0-9.]+)(?:ms)?$", latencies, "average latency in ms")
    p95 = number(r"^ +(?:approx\. +)?95(?:th)? percentile: +([0-9.]+)(?:ms)?$", latencies, "95th percentile in ms")
    metrics = (
        work("events", "events", events),
        metric("events_per_s", "1/s", "higher", "rate", events / seconds, events),
        metric("latency.mean", "ms", "lower", "exact", average, events),
        *quantiles("latency", "ms", {"p95": p95}, events),
    )
    options = file.text.partition("following options:")[2].partition("Initializing worker threads")[0].splitlines()
    settings = "; ".join(line.strip() for line in options if line.strip() and not line.startswith("Initializing"))
    version = _SYSBENCH.search(file.text)
    about = {"settings": settings} | ({"tool_version": version[1]} if version else {})
    return (ForeignRun("sysbench", Reading(metrics), about=about),)


PERF_BENCH_SIMPLE = ForeignFormat(
    "perf bench --format=simple",
    "perf bench --format=simple sched pipe > FILE",
    (("time_s",),),
    # One number can be anything: it is read as this only if --perf-bench-simple asks for it.
    lambda file: False,
    _perf_bench_simple,
)

BENCH_FORMATS = (
    ForeignFormat(
        "perf bench",
        "perf bench sched messaging > FILE",
        (("time_s",),),
        lambda file: bool(_BENCH.search(file.text)),
        _perf_bench,
    ),
    PERF_BENCH_SIMPLE,
    ForeignFormat(
        "perf stat -j",
        "perf stat -j -o FILE COMMAND",
        (("counted.cycles",), ("counted.task_clock",), ("counted.duration_time",)),
        lambda file: bool(_counters(file)),
        _perf_stat,
    ),
    ForeignFormat(
        "stress-ng --yaml",
        "stress-ng --cyclic 1 --timeout 30 --metrics --yaml FILE",
        (("*.operations_per_s",),),
        lambda file: bool(_STRESS.search(file.text)),
        _stress_ng,
    ),
    ForeignFormat(
        "sysbench",
        "sysbench threads --time=30 run > FILE",
        (("events_per_s",),),
        lambda file: bool(_SYSBENCH.match(file.text)),
        _sysbench,
    ),
)
