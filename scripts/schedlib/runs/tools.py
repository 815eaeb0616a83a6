# SPDX-License-Identifier: GPL-2.0
"""The wrapped tools: how each is called, and how what it prints is parsed, when it works and when it does not.

Every quirk was observed: scripts/tests/tools/.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedlib.formats.run_file import BEYOND, Absent, CpuRow, Direction, Kind, Metric, Reading

JSON_FILE = "out.json"
"""The file that tools write their results to, if they write a file."""


class Unreadable(Exception):
    """The output is not what the tool prints when it has worked. The message says what was found instead."""


@dataclass(frozen=True)
class Output:
    """A tool that has ended, and what it has written.

    Attributes:
        exit_status: negative for a signal; None if it was not started or not waited for.
        problem, cannot: why it could not be started, or cannot have a private network.
        cpu_s: CPU time of the tool and all that it started.
    """

    argv: Sequence[str]
    exit_status: int | None
    stdout: str
    stderr: str
    files: Mapping[str, str] = field(default_factory=dict)
    timed_out: bool = False
    problem: str = ""
    cannot: str = ""
    seconds: float = 0.0
    cpu_s: float = 0.0

    def option(self, name: str) -> str:
        if name not in self.argv[:-1]:
            raise Unreadable(f"{name} was not given")
        return self.argv[list(self.argv).index(name) + 1]

    def json_file(self) -> dict[str, Any]:
        try:
            found = json.loads(self.files[JSON_FILE])
        except KeyError as error:
            raise Unreadable(f"it wrote no results: {last_line(self)}") from error
        except ValueError as error:
            raise Unreadable(f"its results are no JSON: {error}") from error
        if not isinstance(found, dict):
            raise Unreadable("its results are no JSON object")
        return found


@dataclass(frozen=True)
class Tool:
    """A tool that somebody else wrote.

    Attributes:
        package: the Debian package; empty if there is none. Then `variable` is the environment variable that names the
            program, and `build` says how to get it.
        version: arguments that print the version; empty if there are none.
        good: the exit statuses after a successful run.
        server, port: what it talks to on this TCP port; started before it, and ended with it.
        program: its executable, if that has another name.
        driver: the command that starts it, if it needs more than one process.
        data: files that it reads.
    """

    name: str
    package: str
    parse: Callable[[Output], Reading]
    version: tuple[str, ...] = ()
    good: frozenset[int] = frozenset({0})
    variable: str = ""
    build: str = ""
    server: tuple[str, ...] = ()
    port: int = 0
    program: str = ""
    driver: tuple[str, ...] = ()
    data: tuple[str, ...] = ()

    def path(self) -> str | None:
        named = os.environ.get(self.variable) if self.variable else None
        return shutil.which(named or self.program or self.name)

    def command(self) -> list[str]:
        return [*self.driver, self.path() or self.program or self.name]

    def missing(self) -> str:
        if self.package:
            return f"{self.program or self.name} is not installed: package {self.package}"
        return f"{self.name} is in no package: {self.build}, then {self.variable}=/path/to/{self.name}"


def last_line(output: Output) -> str:
    lines = [line.strip() for line in (output.stdout + "\n" + output.stderr).splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it printed nothing"


def number(pattern: str, text: str, what: str) -> float:
    if not (found := re.search(pattern, text, re.M)):
        raise Unreadable(f"no {what} in its output")
    return float(found.group(1))


def metric(name: str, unit: str, direction: Direction, kind: Kind, value: float, n: float = 1) -> Metric:
    """A metric; n may come from a parser as a float."""
    return Metric(name, unit, direction, kind, value, int(n))


def quantiles(name: str, unit: str, values: Mapping[str, float], n: float) -> list[Metric]:
    return [metric(f"{name}.{quantile}", unit, "lower", "quantile", value, n) for quantile, value in values.items()]


def work(name: str, unit: str, n: float) -> Metric:
    """How much was done, such as the number of samples: 0 means that the tool did not work."""
    return metric(name, unit, "neither", "exact", n, n)


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def dotted_slug(text: str) -> str:
    """A text as a metric's name: a slug of each part between dots."""
    return ".".join(filter(None, map(slug, text.split("."))))


def quantile(histogram: Mapping[int, int], n: int, share: float) -> int | None:
    """The bucket that contains the quantile; None if it is beyond the last bucket."""
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= share * n:
            return bucket
    return None


_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}


# The JSON of rt-tests has a colon inside two keys, no overflows, and a status separate from the exit status.
def _cyclictest(output: Output) -> Reading:
    found = output.json_file()
    if not isinstance(found.get("thread"), dict) or not found["thread"]:
        raise Unreadable("no thread in its results")
    per_us = _cyclictest_scale(found, output.argv)
    threads: list[dict[str, Any]] = list(found["thread"].values())
    sums: Counter[int] = Counter()
    rows = []
    for thread in threads:
        histogram = Counter({int(bucket): count for bucket, count in thread["histogram"].items()})
        cycles = thread["cycles"]
        sums.update(histogram)
        p50, p99 = (quantile(histogram, cycles, share) for share in (0.5, 0.99))
        # cyclictest 2.6 says -1 of a thread that is not bound to a CPU.
        if cycles and thread["cpu"] >= 0 and p50 is not None and p99 is not None:
            values = (1e3 * value / per_us for value in (p50, p99, thread["max"]))
            rows.append(CpuRow("latency", thread["cpu"], cycles, *values))
    samples = sum(thread["cycles"] for thread in threads)
    # Latencies beyond the histogram are in no field of the JSON, but they are counted as cycles.
    overflow = samples - sum(sums.values())
    metrics = [work("latency.samples", "samples", samples)]
    absent = []
    kept = bool(sums) or any(re.match(r"-[hH]|--hist", word) for word in output.argv)
    if kept:
        metrics.append(metric("latency.overflow", "samples", "lower", "exceedance", overflow, samples))
    else:
        absent = [Absent(f"latency.{name}", "it ran without a histogram (-h)") for name in _SHARES]
    for name, share in _SHARES.items() if kept else ():
        value = quantile(sums, samples, share)
        if value is None:
            absent.append(Absent(f"latency.{name}", f"{overflow} of {samples} are {BEYOND}"))
        else:
            metrics += quantiles("latency", "us", {name: value / per_us}, samples)
    if samples:
        total = sum(thread["cycles"] * thread["avg"] for thread in threads) / per_us
        metrics.append(metric("latency.mean", "us", "lower", "exact", total / samples, samples))
    most = max(thread["max"] if thread["cycles"] else 0 for thread in threads)
    metrics += quantiles("latency", "us", {"max": most / per_us}, samples)
    idle = sum(not thread["cycles"] for thread in threads)
    metrics.append(metric("latency.idle_threads", "threads", "lower", "exact", idle, len(threads)))
    return Reading(tuple(metrics), tuple(absent), tuple(rows), reported=found.get("return_code"))


def _cyclictest_scale(found: Mapping[str, Any], argv: Sequence[str]) -> int:
    """Units of its numbers in a microsecond: with -N they are nanoseconds."""
    asked = any(re.match(r"-[a-zA-MO-Z]*N|--nsecs", word) for word in argv)
    said = found.get("resolution_in_ns", int(asked))
    if said not in (0, 1) or asked > bool(said):
        raise Unreadable(f"its numbers are in an unknown unit: resolution_in_ns is {said!r}")
    return 1000 if said else 1


def _pi_stress(output: Output) -> Reading:
    # pi_stress uses CPUs from 0 up, whether or not it may use them.
    if re.search(r"^creating \w+ thread: Invalid argument$", output.stdout + output.stderr, re.M):
        return Reading(cannot="pi_stress pins its threads to CPUs that may not be used here")
    found = output.json_file()
    inversions, seconds = found["inversion"], float(output.option("-D"))
    metrics = (
        work("inversions", "inversions", inversions),
        metric("inversions_per_s", "1/s", "higher", "rate", inversions / seconds, inversions),
    )
    return Reading(metrics, reported=found["return_code"])


def _hackbench(output: Output) -> Reading:
    tasks = number(r"\(== (\d+) tasks\)", output.stdout, "number of tasks")
    each = number(r"will pass (\d+) messages", output.stdout, "number of messages")
    took = number(r"^Time: ([0-9.]+)$", output.stdout, "time")
    if not took:
        return Reading(error="it took no time at all")
    metrics = (
        metric("tasks", "tasks", "neither", "exact", tasks),
        metric("messages_each", "messages", "neither", "exact", each),
        metric("time_s", "s", "lower", "exact", took),
    )
    return Reading(metrics)


# It prints to stderr, 0.19 to stdout. Its YAML has the operations, its text the latencies of the first instance.
def _stress_ng(output: Output) -> Reading:
    said = output.stdout + output.stderr
    # It exits with 0 even if it has skipped every stressor.
    reason = r"^stress-ng: \w+: +\[\d+\] (.*(?:skipping this stressor|No stress workers).*)$"
    if refused := re.search(reason, said, re.M):
        return Reading(error=f"it ran nothing: {refused.group(1)}")
    if "out.yaml" not in output.files:
        raise Unreadable("it wrote no metrics")
    text = output.files["out.yaml"]
    operations = number(r"^ +bogo-ops: (\d+)$", text, "bogo-ops")
    rate = number(r"^ +bogo-ops-per-second-real-time: ([0-9.]+)$", text, "bogo-ops-per-second-real-time")
    metrics = [
        work("operations", "operations", operations),
        metric("operations_per_s", "1/s", "higher", "rate", rate, operations),
    ]
    if found := re.findall(r"cyclic: +([0-9.]+)%: +(\d+) ns", said):
        taken = min(operations, number(r"ns delay, (\d+) samples", said, "number of samples"))
        wanted = {"50.00": "p50", "90.00": "p90", "99.00": "p99", "99.90": "p99_9"}
        values = {wanted[share]: float(value) for share, value in found if share in wanted}
        values["max"] = number(r"cyclic: +min: \d+ ns, max: (\d+) ns", said, "maximum")
        metrics += quantiles("latency", "ns", values, taken)
    failed = re.search(r"stress-ng: fail:", said) is not None
    return Reading(tuple(metrics), reported=int(failed))


# perf exits with 0 even if it could count no event, so its output is parsed instead of its status.
def _perf_bench(output: Output) -> Reading:
    took = number(r"^([0-9.]+)$", output.stdout, "time")
    loops = float(output.option("-l"))
    if not took:
        return Reading(error="it took no time at all")
    metrics = (
        work("loops", "loops", loops),
        metric("loops_per_s", "1/s", "higher", "rate", loops / took, loops),
        metric("time_s", "s", "lower", "exact", took),
    )
    return Reading(metrics)


def _perf_stat(output: Output) -> Reading:
    if "out.csv" not in output.files:
        raise Unreadable(f"it wrote no counters: {last_line(output)}")
    metrics, absent = [], []
    for line in output.files["out.csv"].splitlines():
        words = line.split(",")
        if line.startswith("#") or len(words) < 5:
            continue
        name = "counted." + slug(words[2])
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


def _perf_c2c(output: Output) -> Reading:
    if output.exit_status:
        return Reading(cannot=f"perf c2c: {last_line(output)}")
    samples = number(r"\((\d+) samples\)", output.stderr, "number of samples")
    return Reading((work("samples", "samples", samples),))


def _tbench(output: Output) -> Reading:
    # tbench goes on without its clients, and exits with 0.
    if re.search(r"failed to connect|failed to start|Child failed", output.stdout + output.stderr):
        return Reading(error=f"its clients did not start: {last_line(output)}")
    rate = number(r"^Throughput ([0-9.]+) MB/sec", output.stdout, "Throughput")
    latency = number(r"max_latency=([0-9.]+) ms", output.stdout, "max_latency")
    operations = sum(int(n) for n in re.findall(r"^ \w+ +(\d+) +[0-9.]+ +[0-9.]+$", output.stdout, re.M))
    metrics = (
        work("operations", "operations", operations),
        metric("mb_per_s", "MB/s", "higher", "rate", rate, operations),
        *quantiles("latency", "ms", {"max": latency}, operations),
    )
    return Reading(metrics)


def _netperf(output: Output) -> Reading:
    rows = dict(line.split("=", 1) for line in output.stdout.splitlines() if re.match(r"[A-Z0-9_]+=", line))
    if rows.get("THROUGHPUT_UNITS") != "Trans/s":
        raise Unreadable(f"no transactions in its output: {last_line(output)}")
    rate, seconds = float(rows["THROUGHPUT"]), float(rows["ELAPSED_TIME"])
    done = round(rate * seconds)
    names = {"p50": "P50_LATENCY", "p90": "P90_LATENCY", "p99": "P99_LATENCY", "max": "MAX_LATENCY"}
    metrics = (
        work("transactions", "transactions", done),
        metric("transactions_per_s", "1/s", "higher", "rate", rate, done),
        *quantiles("latency", "us", {name: float(rows[key]) for name, key in names.items() if key in rows}, done),
    )
    return Reading(metrics)


# FFmpeg as the mails ran it: pinned_groups.py starts the instances and counts their frames.
def _ffmpeg(output: Output) -> Reading:
    if output.exit_status == 4:
        return Reading(cannot=last_line(output))
    found = output.json_file()
    frames, spent = found["frames"], found["user_s"] + found["system_s"]
    if wrong := [status for status in found["statuses"] if status not in (0, 255)]:
        return Reading(error=f"{len(wrong)} of {len(frames)} instances failed: {last_line(output)}")
    done = sum(frames)
    evenness = 100 * min(frames) * len(frames) / max(1, done)
    metrics = (
        work("groups.frames", "frames", done),
        metric("groups.frames_per_s", "frames/s", "higher", "rate", done / found["seconds"], done),
        metric("groups.evenness", "%", "higher", "rate", evenness, len(frames)),
        metric("groups.kernel_of_cpu_time", "%", "lower", "rate", 100 * found["system_s"] / spent),
    )
    return Reading(metrics)


# No package has schbench, which reviewers ask for: its path is in an environment variable.
def _schbench(output: Output) -> Reading:
    found = output.json_file().get("int", {})
    metrics: list[Metric] = []
    for name, key in (("wakeup", "wakeup_latency"), ("request", "request_latency")):
        # schbench reports every ten seconds; the last report covers the whole run.
        told = re.findall(rf"^{name.title()} Latencies .*\((\d+) total samples\)$", output.stderr, re.M)
        if not told:
            raise Unreadable(f"no number of {name} samples in its output")
        samples = float(told[-1])
        metrics.append(work(f"{name}.samples", "samples", samples))
        shares = {"p50": "pct50.0", "p90": "pct90.0", "p99": "pct99.0", "p99_9": "pct99.9", "max": "max"}
        values = {short: float(found[f"{key}_{long}"]) for short, long in shares.items() if f"{key}_{long}" in found}
        metrics += quantiles(name, "us", values, samples)
    if rate := re.search(r"^average rps: ([0-9.]+)$", output.stderr, re.M):
        metrics.append(metric("requests_per_s", "1/s", "higher", "rate", float(rate.group(1))))
    return Reading(tuple(metrics))


_HELP, _VERSION = ("--help",), ("--version",)
_NETSERVER = ("netserver", "-D", "-L", "127.0.0.1")
_PINNED = (sys.executable, "-I", "-S", str(Path(__file__).with_name("pinned_groups.py")))
_SCHBENCH = "https://git.kernel.org/pub/scm/linux/kernel/git/mason/schbench.git"

_ALL = (
    Tool("cyclictest", "rt-tests", _cyclictest, _HELP),
    Tool("pi_stress", "rt-tests", _pi_stress, _VERSION, good=frozenset({0, 1})),
    Tool("hackbench", "rt-tests", _hackbench, _HELP),
    Tool("stress-ng", "stress-ng", _stress_ng, _VERSION),
    Tool("perf-bench", "linux-perf", _perf_bench, _VERSION, program="perf"),
    Tool("perf-stat", "linux-perf", _perf_stat, _VERSION, program="perf"),
    # 255: memory events are not supported.
    Tool("perf-c2c", "linux-perf", _perf_c2c, _VERSION, good=frozenset({0, 255}), program="perf"),
    # Each has a private network, in which all ports are free and nobody else reaches the server. The port of tbench_srv
    # cannot be chosen.
    Tool("tbench", "dbench", _tbench, server=("tbench_srv",), port=7003, data=("/usr/share/dbench/client.txt",)),
    Tool("netperf", "netperf (Debian 12: non-free)", _netperf, ("-V",), server=_NETSERVER, port=12865),
    Tool("ffmpeg", "ffmpeg", _ffmpeg, ("-version",), good=frozenset({0, 1, 4}), driver=_PINNED),
    Tool("schbench", "", _schbench, variable="SCHBENCH", build=f"git clone {_SCHBENCH} && make -C schbench"),
)

TOOLS: dict[str, Tool] = {tool.name: tool for tool in _ALL}
