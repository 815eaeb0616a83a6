# SPDX-License-Identifier: GPL-2.0
"""perf exits with 0 even if it could count no event, so its output is parsed instead of its status."""

from __future__ import annotations

import re

from schedlib.formats.run_file import Absent, Reading
from schedlib.runs.tools.tool import Output, Tool, Unreadable, last_line, metric, number

CSV_FILE = "out.csv"


def _bench(output: Output) -> Reading:
    took = number(r"^([0-9.]+)$", output.stdout, "time")
    loops = float(output.option("-l"))
    if not took:
        return Reading(error="it took no time at all")
    return Reading(
        (
            metric("loops", "loops", "neither", "exact", loops, loops),
            metric("loops_per_s", "1/s", "higher", "rate", loops / took, loops),
            metric("time_s", "s", "lower", "exact", took),
        )
    )


def _stat(output: Output) -> Reading:
    if CSV_FILE not in output.files:
        raise Unreadable(f"it wrote no counters: {last_line(output)}")
    metrics, absent = [], []
    for line in output.files[CSV_FILE].splitlines():
        words = line.split(",")
        if line.startswith("#") or len(words) < 5:
            continue
        name = "counted." + re.sub(r"[^a-z0-9]+", "_", words[2].lower()).strip("_")
        try:
            value = float(words[0])
        except ValueError:
            absent.append(Absent(name, f"perf stat: {words[0]}"))
            continue
        # A multiplexed counter ran only part of the time; perf has scaled its value.
        metrics.append(metric(name, words[1] or "events", "neither", "exact", value))
        metrics.append(metric(f"{name}.counted", "%", "neither", "exact", float(words[4])))
    if not metrics:
        return Reading(cannot="perf can count nothing here")
    return Reading(tuple(metrics), tuple(absent))


def _c2c(output: Output) -> Reading:
    if output.exit_status:
        return Reading(cannot=f"perf c2c: {last_line(output)}")
    samples = number(r"\((\d+) samples\)", output.stderr, "number of samples")
    return Reading((metric("samples", "samples", "neither", "exact", samples, samples),))


_VERSION = ("--version",)

TOOLS = (
    Tool("perf-bench", "linux-perf", _bench, _VERSION, program="perf"),
    Tool("perf-stat", "linux-perf", _stat, _VERSION, program="perf"),
    # 255: memory events are not supported.
    Tool("perf-c2c", "linux-perf", _c2c, _VERSION, good=frozenset({0, 255}), program="perf"),
)
