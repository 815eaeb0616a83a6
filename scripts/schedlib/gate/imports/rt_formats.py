# SPDX-License-Identifier: GPL-2.0
"""Outputs of programs that measure the scheduler: cyclictest, hackbench, schbench."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from email.utils import parsedate_to_datetime

from schedlib.formats.run_file import Absent, Metric, Reading
from schedlib.gate.imports.foreign import ForeignFormat, ForeignRun, ResultFile, kernel_of, wrapped_tool
from schedlib.runs.tools.tool import Unreadable, metric, number, quantiles, work

_HACKBENCH = re.compile(r"^Running in (?:process|threaded) mode with \d+ groups", re.M)
_SCHBENCH = re.compile(r"^Wakeup Latencies percentiles \(usec\)", re.M)


# cyclictest writes a colon into two of its keys, and some versions do not.
def _key(file: ResultFile, name: str) -> str:
    return name if file.has(name) else f"{name}:"


def _cyclictest(file: ResultFile) -> Sequence[ForeignRun]:
    found, command = file.json, file.json[_key(file, "cmdline")]
    reading = wrapped_tool("cyclictest", shlex.split(command), out_json=file.text)
    if any(thread["max"] < thread["min"] for thread in found["thread"].values()):
        raise Unreadable("a thread has a maximum below its minimum")
    about = {"command_line": command, "tool_version": found[_key(file, "rt_test_version")]}
    if file.has("sysinfo"):
        about |= kernel_of(found["sysinfo"])
    started = parsedate_to_datetime(found["start_time"]) if file.has("start_time") else None
    return (ForeignRun("cyclictest", reading, started, about),)


def _hackbench(file: ResultFile) -> Sequence[ForeignRun]:
    starts = [found.start() for found in _HACKBENCH.finditer(file.text)]
    runs = []
    for start, end in zip(starts, [*starts[1:], len(file.text)], strict=True):
        text = file.text[start:end]
        settings = "; ".join(text.splitlines()[:2])
        runs.append(ForeignRun("hackbench", wrapped_tool("hackbench", stdout=text), about={"settings": settings}))
    return runs


# schbench reports every ten seconds; the last report covers the whole run.
def _schbench(file: ResultFile) -> Sequence[ForeignRun]:
    metrics: list[Metric] = []
    absent = []
    # With -p it passes bytes through pipes, and has no requests.
    piped = re.search(r"^avg worker transfer: ", file.text, re.M)
    names = {"50.0": "p50", "90.0": "p90", "99.0": "p99", "99.9": "p99_9"}
    for name in ("wakeup",) if piped else ("wakeup", "request"):
        report = file.text.rpartition(f"{name.title()} Latencies percentiles (usec)")[2]
        samples = number(r"\((\d+) total samples\)", report, f"number of {name} samples")
        lines = report.partition("min=")[0].splitlines()
        shares = {found[1]: float(found[2]) for line in lines if (found := re.match(r"\s\*? *([\d.]+)th: (\d+)", line))}
        metrics.append(work(f"{name}.samples", "samples", samples))
        metrics += quantiles(name, "us", {short: shares[long] for long, short in names.items()}, samples)
    if piped:
        absent = [Absent(name, "schbench -p has no requests") for name in ("request", "requests_per_s")]
    else:
        rate = number(r"^average rps: ([0-9.]+)$", file.text, "average rps")
        metrics.append(metric("requests_per_s", "1/s", "higher", "rate", rate))
    return (ForeignRun("schbench", Reading(tuple(metrics), tuple(absent))),)


RT_FORMATS = (
    ForeignFormat(
        "cyclictest --json",
        "cyclictest -m -S -p 95 -i 200 -h 400 -D 60 -q --json=FILE",
        (("latency.p50", "latency.p99"), ("latency.mean",)),
        lambda file: file.has(_key(file, "cmdline"), _key(file, "rt_test_version"), "thread"),
        _cyclictest,
    ),
    ForeignFormat(
        "hackbench",
        "hackbench -g 4 -l 1000 > FILE",
        (("time_s",),),
        lambda file: bool(_HACKBENCH.search(file.text)),
        _hackbench,
    ),
    ForeignFormat(
        "schbench",
        "schbench -m 2 -t 16 -r 30 2> FILE",
        (("wakeup.p99", "requests_per_s"), ("wakeup.p99",)),
        lambda file: bool(_SCHBENCH.search(file.text)),
        _schbench,
    ),
)
