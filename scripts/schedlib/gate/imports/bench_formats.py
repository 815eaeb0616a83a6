# SPDX-License-Identifier: GPL-2.0
"""Outputs of general benchmarks: perf, stress-ng, sysbench, hyperfine, Google Benchmark, fio."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any

from msgspec.structs import replace

from schedlib.formats.run_file import Absent, Direction, Metric, Reading
from schedlib.gate.imports.foreign import Foreign, ForeignFormat, Told, kernel_of, wrapped_tool
from schedlib.runs.tools.tool import Unreadable, metric, number, quantiles, slug, work

_BENCH = re.compile(r"^# Running '?sched/(\w+)'? benchmark:", re.M)
_NUMBER = re.compile(r"[0-9]+\.[0-9]{3}\s*")
_SYSBENCH = re.compile(r"^sysbench (\d\S*)", re.M)
_STRESS = re.compile(r"^ +stress-ng-version: '?([0-9.]+)'?$", re.M)


def _perf_bench(file: Foreign) -> Sequence[Told]:
    _, *parts = _BENCH.split(file.text)
    runs = []
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        took = number(r"^ +Total time: ([0-9.]+) \[sec\]$", text, "total time")
        settings = "; ".join(line.strip("# ") for line in text.splitlines() if line.startswith("#"))
        runs.append(Told(f"perf-bench-{name}", _bench_time(took), about={"settings": settings}))
    return runs


def one_number(file: Foreign) -> bool:
    """Whether a file holds one number with three decimals alone, as perf bench --format=simple prints it."""
    return bool(_NUMBER.fullmatch(file.text))


def _perf_bench_simple(file: Foreign) -> Sequence[Told]:
    return (Told("perf-bench", _bench_time(float(file.text))),)


def _bench_time(seconds: float) -> Reading:
    if not seconds:
        raise Unreadable("it took no time at all")
    return Reading((metric("time_s", "s", "lower", "exact", seconds),))


def _counters(file: Foreign) -> list[dict[str, Any]]:
    """The lines of perf stat -j that are counters."""
    rows = [Foreign(line).json for line in file.text.splitlines() if line.startswith("{")]
    return [row for row in rows if isinstance(row, dict) and "counter-value" in row and "event" in row]


_COSTS = frozenset({"cycles", "instructions", "task-clock", "duration_time"})
"""Counters of which less is better, if the same work is done."""


def _perf_stat(file: Foreign) -> Sequence[Told]:
    rows = _counters(file)
    if any("interval" in row for row in rows):
        raise Unreadable("it was counted with -I, and intervals are no runs; leave out -I")
    if sum(line.startswith("{") for line in file.text.splitlines()) > len(rows) or not file.text.endswith("\n"):
        raise Unreadable("a line is no counter (cut off?)")
    metrics, absent = [], []
    for row in rows:
        name, said = f"counted.{slug(row['event'])}", row["counter-value"]
        if said.startswith("<"):
            absent.append(Absent(name, f"perf stat: {said}"))
            continue
        direction: Direction = "lower" if row["event"].split(":")[0] in _COSTS else "neither"
        metrics.append(metric(name, row["unit"] or "events", direction, "exact", float(said)))
        # A multiplexed counter ran only part of the time; perf has scaled its value.
        metrics.append(metric(f"{name}.counted", "%", "neither", "exact", row["pcnt-running"]))
    if not metrics:
        raise Unreadable("perf could count nothing there")
    return (Told("perf-stat", Reading(tuple(metrics), tuple(absent))),)


def _stress_ng(file: Foreign) -> Sequence[Told]:
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
    return (Told("stress-ng", Reading(tuple(metrics)), started, about),)


def _sysbench(file: Foreign) -> Sequence[Told]:
    # "total time" in 1.0, "time elapsed" in 1.1.
    seconds = number(r"^ +(?:total time|time elapsed): +([0-9.]+)s$", file.text, "total time")
    events = number(r"^ +total number of events: +(\d+)$", file.text, "number of events")
    if not events or not seconds:
        raise Unreadable("it did nothing: no event, or no time")
    _, _, latencies = file.text.partition("\nLatency (ms):\n")
    average = number(r"^ +avg: +([0-9.]+)$", latencies, "average latency in ms")
    p95 = number(r"^ +95th percentile: +([0-9.]+)$", latencies, "95th percentile in ms")
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
    return (Told("sysbench", Reading(metrics), about=about),)


def _hyperfine(file: Foreign) -> Sequence[Told]:
    results = file.json["results"]
    metrics = []
    for each in results:
        if failed := [code for code in each["exit_codes"] if code != 0]:
            raise Unreadable(f"{len(failed)} of its {len(each['exit_codes'])} commands failed")
        name = "time" if len(results) == 1 else f"{slug(each['command'])}.time"
        metrics.append(metric(name, "s", "lower", "exact", median(each["times"]), len(each["times"])))
    commands = " / ".join(each["command"] for each in results)
    return (Told("hyperfine", Reading(tuple(metrics)), about={"command_line": commands}),)


def _google_benchmark(file: Foreign) -> Sequence[Told]:
    context = file.json["context"]
    rows: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in file.json["benchmarks"]:
        if row.get("error_occurred"):
            raise Unreadable(f"{row['name']} failed: {row.get('error_message', 'no reason given')}")
        if row["run_type"] == "iteration" or row.get("aggregate_name") == "median":
            rows[row["run_name"]].append(row)
    metrics = []
    for name, found in rows.items():
        # With --benchmark_report_aggregates_only there is the median alone.
        each = [row for row in found if row["run_type"] == "iteration"] or found
        units = {row["time_unit"] for row in each}
        if len(units) > 1:
            raise Unreadable(f"{name} has times in {' and '.join(sorted(units))}")
        for kind in ("real_time", "cpu_time"):
            value = median(row[kind] for row in each)
            metrics.append(metric(f"{slug(name)}.{kind}", each[0]["time_unit"], "lower", "exact", value, len(each)))
    about = {
        "machine_name": context["host_name"],
        "settings": f"{context['executable']}, library {context['library_build_type']}",
        "tool_version": context.get("library_version", ""),
    }
    started = datetime.fromisoformat(context["date"])
    return (
        Told("google-benchmark", Reading(tuple(metrics)), started, {key: said for key, said in about.items() if said}),
    )


def _fio(file: Foreign) -> Sequence[Told]:
    metrics: list[Metric] = []
    settings = {"global": file.json.get("global options", {})}
    for job in file.json["jobs"]:
        if job["error"]:
            raise Unreadable(f"job {job['jobname']} ended with error {job['error']}")
        settings[job["jobname"]] = job["job options"]
        for way in ("read", "write", "trim"):
            done = job[way]["total_ios"]
            if not done:
                continue
            name = f"{slug(job['jobname'])}.{way}"
            metrics.append(metric(f"{name}.iops", "1/s", "higher", "rate", job[way]["iops"], done))
            shares = {"p50": "50.000000", "p99": "99.000000", "p99_9": "99.900000"}
            times = job[way]["clat_ns"].get("percentile", {})
            values = {short: times[long] for short, long in shares.items() if long in times}
            metrics += quantiles(f"{name}.latency", "ns", values, done)
    started = datetime.fromtimestamp(file.json["timestamp_ms"] / 1000, UTC)
    told = {"settings": json.dumps(settings, sort_keys=True), "tool_version": file.json["fio version"]}
    return (Told("fio", Reading(tuple(metrics)), started, told),)


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
    ForeignFormat(
        "hyperfine --export-json",
        "hyperfine --export-json FILE COMMAND",
        (("time",), ("*.time",)),
        lambda file: file.has("results") and "exit_codes" in file.text,
        _hyperfine,
    ),
    ForeignFormat(
        "Google Benchmark JSON",
        "./benchmark --benchmark_out=FILE --benchmark_out_format=json",
        (("*.real_time",),),
        lambda file: file.has("context", "benchmarks"),
        _google_benchmark,
    ),
    ForeignFormat(
        "fio --output-format=json",
        "fio job.fio --output-format=json --output=FILE",
        (("*.iops",),),
        lambda file: file.has("fio version", "jobs"),
        _fio,
    ),
)
