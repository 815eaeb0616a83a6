# SPDX-License-Identifier: GPL-2.0
"""rt-tests. Their JSON has a colon inside two keys, no overflows, and a status separate from the exit status."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from schedlib.formats.run_file import Absent, CpuRow, Reading
from schedlib.runs.tools.tool import Output, Tool, Unreadable, metric, number, quantiles, sampled

_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}


def _quantile(histogram: Counter[int], n: int, share: float) -> int | None:
    """The bucket that contains the quantile; None if it is beyond the last bucket."""
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= share * n:
            return bucket
    return None


def _threads(found: dict[str, Any]) -> list[dict[str, Any]]:
    threads = found.get("thread")
    if not isinstance(threads, dict) or not threads:
        raise Unreadable("no thread in its results")
    return list(threads.values())


def _cyclictest(output: Output) -> Reading:
    found = output.json_file()
    sums: Counter[int] = Counter()
    samples = 0
    total = 0.0
    rows, maxima = [], []
    for thread in _threads(found):
        histogram = Counter({int(bucket): count for bucket, count in thread["histogram"].items()})
        cycles = thread["cycles"]
        sums.update(histogram)
        samples += cycles
        total += cycles * thread["avg"]
        maxima.append(thread["max"] if cycles else 0)
        quantile = {name: _quantile(histogram, cycles, share) for name, share in _SHARES.items()}
        if cycles and quantile["p50"] is not None and quantile["p99"] is not None:
            rows.append(
                CpuRow(
                    "latency", thread["cpu"], cycles, 1e3 * quantile["p50"], 1e3 * quantile["p99"], 1e3 * thread["max"]
                )
            )
    # Latencies beyond the histogram are in no field of the JSON, but they are counted as cycles.
    overflow = samples - sum(sums.values())
    metrics = [
        sampled("latency", samples),
        metric("latency.overflow", "samples", "lower", "exceedance", overflow, samples),
    ]
    absent = []
    for name, share in _SHARES.items():
        value = _quantile(sums, samples, share)
        if value is None:
            absent.append(Absent(f"latency.{name}", f"{overflow} of {samples} are beyond the histogram"))
        else:
            metrics += quantiles("latency", "us", {name: value}, samples)
    if samples:
        metrics.append(metric("latency.mean", "us", "lower", "exact", total / samples, samples))
    metrics += quantiles("latency", "us", {"max": max(maxima)}, samples)
    idle = sum(not thread["cycles"] for thread in _threads(found))
    metrics.append(metric("latency.idle_threads", "threads", "lower", "exact", idle, len(maxima)))
    return Reading(tuple(metrics), tuple(absent), tuple(rows), reported=found.get("return_code"))


def _pi_stress(output: Output) -> Reading:
    # pi_stress uses CPUs from 0 up, whether or not it may use them.
    if re.search(r"^creating \w+ thread: Invalid argument$", output.stdout + output.stderr, re.M):
        return Reading(cannot="pi_stress pins its threads to CPUs that may not be used here")
    found = output.json_file()
    inversions, seconds = found["inversion"], float(output.option("-D"))
    metrics = (
        metric("inversions", "inversions", "neither", "exact", inversions, inversions),
        metric("inversions_per_s", "1/s", "higher", "rate", inversions / seconds, inversions),
    )
    return Reading(metrics, reported=found["return_code"])


def _hackbench(output: Output) -> Reading:
    tasks = number(r"\(== (\d+) tasks\)", output.stdout, "number of tasks")
    each = number(r"will pass (\d+) messages", output.stdout, "number of messages")
    took = number(r"^Time: ([0-9.]+)$", output.stdout, "time")
    if not took:
        return Reading(error="it took no time at all")
    return Reading(
        (
            metric("tasks", "tasks", "neither", "exact", tasks),
            metric("messages_each", "messages", "neither", "exact", each),
            metric("time_s", "s", "lower", "exact", took),
        )
    )


_HELP = ("--help",)

TOOLS = (
    Tool("cyclictest", "rt-tests", _cyclictest, _HELP),
    Tool("pi_stress", "rt-tests", _pi_stress, ("--version",), good=frozenset({0, 1})),
    Tool("hackbench", "rt-tests", _hackbench, _HELP),
)
