# SPDX-License-Identifier: GPL-2.0
"""Tools that talk to a server over a loopback of their own: nothing listens where anybody else could reach it."""

from __future__ import annotations

import json
import re

from schedlib.formats.run_file import Reading
from schedlib.runs.tool_process import Server
from schedlib.runs.tools.tool import Output, Tool, Unreadable, last_line, metric, number, quantiles, sampled


def _tbench(output: Output) -> Reading:
    # It goes on without its clients, and ends with 0.
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


def _iperf3(output: Output) -> Reading:
    try:
        found = json.loads(output.stdout)
    except ValueError as error:
        raise Unreadable(f"no JSON: {last_line(output)}") from error
    # With --json it ends with 0 after an error.
    if found.get("error"):
        return Reading(error=found["error"], reported=1)
    received = found["end"]["sum_received"]
    metrics = (
        metric("bytes", "bytes", "neither", "exact", received["bytes"], received["bytes"]),
        metric("bits_per_s", "bit/s", "higher", "rate", received["bits_per_second"], received["bytes"]),
    )
    return Reading(metrics, reported=0)


def _sockperf(output: Output) -> Reading:
    text = re.sub(r"\x1b\[[0-9;]*m", "", output.stdout)
    # It ends with 0 after an error.
    wrong = re.search(r"ERROR: (.*)", text)
    if wrong:
        return Reading(error=wrong.group(1), reported=1)
    done = number(r"Valid Duration\].*ReceivedMessages=(\d+)", text, "number of messages")
    seconds = number(r"Valid Duration\] RunTime=([0-9.]+)", text, "duration")
    names = {"50.000": "p50", "90.000": "p90", "99.000": "p99", "99.900": "p99_9"}
    found = re.findall(r"percentile ([0-9.]+) = +([0-9.]+)", text)
    values = {names[share]: float(value) for share, value in found if share in names}
    values["max"] = number(r"<MAX> observation = +([0-9.]+)", text, "maximum")
    dropped = number(r"dropped messages = (\d+)", text, "number of dropped messages")
    metrics = [
        sampled("latency", done),
        metric("messages_per_s", "1/s", "higher", "rate", done / seconds if seconds else 0, done),
        metric("dropped", "messages", "lower", "exact", dropped, done),
        *quantiles("latency", "us", values, done),
    ]
    return Reading(tuple(metrics), reported=0)


# A network of its own has all ports free; tbench_srv cannot be told where to listen.
TOOLS = (
    Tool(
        "tbench", "dbench", _tbench, server=Server(("tbench_srv",), "tcp", 7003), data=("/usr/share/dbench/client.txt",)
    ),
    Tool(
        "netperf",
        "netperf (Debian 12: non-free)",
        _netperf,
        ("-V",),
        server=Server(("netserver", "-D", "-L", "127.0.0.1"), "tcp", 12865),
    ),
    Tool("iperf3", "iperf3", _iperf3, ("--version",), server=Server(("iperf3", "-s", "-B", "127.0.0.1"), "tcp", 5201)),
    Tool(
        "sockperf-tcp",
        "sockperf",
        _sockperf,
        ("--version",),
        program="sockperf",
        server=Server(("sockperf", "server", "-i", "127.0.0.1", "--tcp"), "tcp", 11111),
    ),
    Tool(
        "sockperf-udp",
        "sockperf",
        _sockperf,
        ("--version",),
        program="sockperf",
        server=Server(("sockperf", "server", "-i", "127.0.0.1"), "udp", 11111),
    ),
)
