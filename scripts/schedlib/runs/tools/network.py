# SPDX-License-Identifier: GPL-2.0
"""Tools that talk to a server over the loopback of a private network: nobody else can reach the server."""

from __future__ import annotations

import re

from schedlib.formats.run_file import Reading
from schedlib.runs.tool_process import Server
from schedlib.runs.tools.tool import Output, Tool, Unreadable, last_line, metric, number, quantiles


def _tbench(output: Output) -> Reading:
    # tbench goes on without its clients, and exits with 0.
    if re.search(r"failed to connect|failed to start|Child failed", output.stdout + output.stderr):
        return Reading(error=f"its clients did not start: {last_line(output)}")
    rate = number(r"^Throughput ([0-9.]+) MB/sec", output.stdout, "Throughput")
    latency = number(r"max_latency=([0-9.]+) ms", output.stdout, "max_latency")
    operations = sum(int(n) for n in re.findall(r"^ \w+ +(\d+) +[0-9.]+ +[0-9.]+$", output.stdout, re.M))
    metrics = [
        metric("operations", "operations", "neither", "exact", operations, operations),
        metric("mb_per_s", "MB/s", "higher", "rate", rate, operations),
        *quantiles("latency", "ms", {"max": latency}, operations),
    ]
    return Reading(tuple(metrics))


def _netperf(output: Output) -> Reading:
    rows = dict(line.split("=", 1) for line in output.stdout.splitlines() if re.match(r"[A-Z0-9_]+=", line))
    if rows.get("THROUGHPUT_UNITS") != "Trans/s":
        raise Unreadable(f"no transactions in its output: {last_line(output)}")
    rate, seconds = float(rows["THROUGHPUT"]), float(rows["ELAPSED_TIME"])
    done = round(rate * seconds)
    names = {"p50": "P50_LATENCY", "p90": "P90_LATENCY", "p99": "P99_LATENCY", "max": "MAX_LATENCY"}
    metrics = [
        metric("transactions", "transactions", "neither", "exact", done, done),
        metric("transactions_per_s", "1/s", "higher", "rate", rate, done),
        *quantiles("latency", "us", {name: float(rows[key]) for name, key in names.items() if key in rows}, done),
    ]
    return Reading(tuple(metrics))


# In a private network all ports are free. The port of tbench_srv cannot be chosen.
TOOLS = (
    Tool("tbench", "dbench", _tbench, server=Server(("tbench_srv",), 7003), data=("/usr/share/dbench/client.txt",)),
    Tool(
        "netperf",
        "netperf (Debian 12: non-free)",
        _netperf,
        ("-V",),
        server=Server(("netserver", "-D", "-L", "127.0.0.1"), 12865),
    ),
)
