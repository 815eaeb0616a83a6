# SPDX-License-Identifier: GPL-2.0
"""The outputs of other tools: how each is recognised and read, and what of it is judged.

A new format is a function with @_format here, and recordings in scripts/tests/gate/recorded/.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase
from functools import cached_property
from io import StringIO
from typing import Any, get_args

from msgspec.structs import replace

from schedlib.formats.document import keys_once
from schedlib.formats.run_file import BEYOND, Absent, Direction, Metric, Reading
from schedlib.runs.tools import TOOLS, Output, Unreadable, dotted_slug, metric, number, quantile, quantiles, slug, work


@dataclass(frozen=True)
class ResultFile:
    """The content of a file.

    Attributes:
        columns: what --columns says of a CSV file, else empty.
        name: without its directory. Only for a format whose content alone does not tell what it is.
    """

    text: str
    columns: tuple[str, ...] = ()
    name: str = ""

    @cached_property
    def json(self) -> Any:
        """Its JSON value, or None if it is not JSON."""
        try:
            # int() refuses NaN and Infinity, which JSON does not have.
            return json.loads(self.text, parse_constant=int, object_pairs_hook=keys_once)
        except (ValueError, RecursionError):
            return None

    def has(self, *keys: str) -> bool:
        """Whether it is a JSON object with these keys."""
        return isinstance(self.json, dict) and self.json.keys() >= set(keys)


@dataclass(frozen=True)
class ForeignRun:
    """One run, as its file tells it.

    Attributes:
        started: with time zone; None if the file does not tell it.
        about: fingerprint entries that the file tells: kernel, machine_name, command_line, settings, tool_version.
        boot: the boot that it belongs to, if the file tells it. A file without it is one boot, or part of one.
    """

    tool: str
    reading: Reading
    started: datetime | None = None
    about: Mapping[str, str] = field(default_factory=dict)
    boot: str = ""


@dataclass(frozen=True)
class ForeignFormat:
    """A kind of result file.

    Attributes:
        make: the command that writes such a file.
        judged: patterns of names of metrics that are judged without a gates file. Of several alternatives the first
            counts that a run has.
        recognises: whether a file is of this kind, by its content.
        read: the runs in a file; Unreadable, or any error of a lookup, if it is not what the tool writes.
    """

    name: str
    make: str
    judged: tuple[tuple[str, ...], ...]
    recognises: Callable[[ResultFile], bool]
    read: Callable[[ResultFile], Sequence[ForeignRun]]


FOREIGN_FORMATS: list[ForeignFormat] = []
"""All, in the order in which they are tried."""

_Reader = Callable[[ResultFile], Sequence[ForeignRun]]


def _format(
    name: str, make: str, judged: str, recognises: str | Callable[[ResultFile], bool]
) -> Callable[[_Reader], _Reader]:
    """Add a format, which the function below reads. judged: alternatives with | between them; recognises: or a sign."""
    sign = re.compile(recognises, re.M) if isinstance(recognises, str) else None

    def add(read: _Reader) -> _Reader:
        patterns = tuple(tuple(each.split()) for each in judged.split("|"))
        is_one = (lambda file: bool(sign.search(file.text))) if sign else recognises
        FOREIGN_FORMATS.append(ForeignFormat(name, make, patterns, is_one, read))  # type: ignore[arg-type]
        return read

    return add


def wrapped_tool(name: str, argv: Sequence[str] = (), stdout: str = "", **files: str) -> Reading:
    """Read an output with the parser that `schedline run` has for this tool.

    files: those that the tool wrote, by name; `_` stands for the dot. Raises Unreadable: the tool prints no such thing.
    """
    written = {key.replace("_", "."): text for key, text in files.items()}
    reading = TOOLS[name].parse(Output(argv, 0, stdout, "", written))
    if wrong := reading.error or reading.cannot:
        raise Unreadable(wrong)
    if reading.reported:
        raise Unreadable(f"{name} reports that it failed: {reading.reported}")
    return reading


def kernel_of(system: Mapping[str, str]) -> dict[str, str]:
    """Fingerprint entries from what uname told: release, version, nodename."""
    return {"kernel": f"{system['release']} {system['version']}", "machine_name": system["nodename"]}


# cyclictest writes a colon into two of its keys, and some versions do not.
def _key(file: ResultFile, name: str) -> str:
    return name if file.has(name) else f"{name}:"


def _is_cyclictest(file: ResultFile) -> bool:
    if not file.has(_key(file, "cmdline"), _key(file, "rt_test_version"), "thread"):
        return False
    # The other programs of rt-tests have the same keys.
    words = str(file.json[_key(file, "cmdline")]).split()
    return bool(words) and words[0].rpartition("/")[2] == "cyclictest"


@_format(
    "cyclictest --json",
    "cyclictest -m -S -p 95 -i 200 -h 400 -D 60 -q --json=FILE",
    "latency.p50 latency.p99 | latency.mean",
    _is_cyclictest,
)
def _cyclictest(file: ResultFile) -> Sequence[ForeignRun]:
    found, command = file.json, file.json[_key(file, "cmdline")]
    reading = wrapped_tool("cyclictest", shlex.split(command), out_json=file.text)
    if any(thread["max"] < thread["min"] for thread in found["thread"].values()):
        raise Unreadable("a thread has a maximum below its minimum")
    about = {"command_line": command, "tool_version": found[_key(file, "rt_test_version")]}
    # -S, and -t without a number, make one for each CPU.
    about["settings"] = f"{len(found['thread'])} threads"
    if file.has("sysinfo"):
        about |= kernel_of(found["sysinfo"])
    started = parsedate_to_datetime(found["start_time"]) if file.has("start_time") else None
    return (ForeignRun("cyclictest", reading, started, about),)


_HACKBENCH = r"^Running in (?:process|threaded) mode with \d+ groups"


@_format("hackbench", "hackbench -g 4 -l 1000 > FILE", "time_s", _HACKBENCH)
def _hackbench(file: ResultFile) -> Sequence[ForeignRun]:
    runs = []
    for text in re.split(f"(?={_HACKBENCH})", file.text, flags=re.M)[1:]:
        settings = "; ".join(text.splitlines()[:2])
        runs.append(ForeignRun("hackbench", wrapped_tool("hackbench", stdout=text), about={"settings": settings}))
    return runs


_SCHBENCH = r"^Wakeup Latencies percentiles \(usec\)"


# schbench reports every ten seconds; the last report covers the whole run.
@_format("schbench", "schbench -m 2 -t 16 -r 30 2> FILE", "wakeup.p99 requests_per_s", _SCHBENCH)
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
    told = re.findall(_SCHBENCH + r" (runtime \d+ \(s\))", file.text, re.M)
    about = {"settings": told[-1]} if told else {}
    return (ForeignRun("schbench", Reading(tuple(metrics), tuple(absent)), about=about),)


# ---- rtla ----

_SHARES = {"p50": 0.5, "p99": 0.99, "p99_9": 0.999}
_KINDS = {"IRQ": "irq", "Thr": "thread", "Usr": "user", "CPU": "noise"}
_DURATION = re.compile(r"^# Duration: +(\d+) (\d\d):(\d\d):(\d\d)$", re.M)
_TIMERLAT_ROW = re.compile(r"^ *\d+ #(\d+) +\|(.*)$", re.M)
_OSNOISE_ROW = re.compile(r"^ *\d+ #\d+ +(\d+) +(\d+) +\d+\.\d{5} ", re.M)


def _table(text: str) -> Mapping[str, list[str]]:
    """The rows of a histogram by what they begin with; Index has the names of the columns."""
    rows: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, *values = line.split() or [""]
        if name == "ALL:":
            break
        if name and not name.startswith("#"):
            rows[name] = values
    if not {"Index", "over:", "count:"} <= rows.keys():
        raise Unreadable("its histogram has no end (cut off?)")
    if not rows["Index"] and rows["count:"] in ([], ["0"]):
        return {"Index": []}
    if any(len(values) != len(rows["Index"]) for values in rows.values()):
        raise Unreadable("a row of its histogram has not a value for each column")
    return rows


def _histogram(text: str) -> Reading:
    unit = re.search(r"^# Time unit is \w+ \((\w+)\)$", text, re.M)
    if not unit:
        raise Unreadable("no time unit in its output")
    rows = _table(text)
    counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
    samples: Counter[str] = Counter()
    for place, column in enumerate(rows["Index"]):
        kind = _KINDS[column.split("-")[0]]
        buckets = {int(name): int(values[place]) for name, values in rows.items() if name.isdecimal()}
        counts[kind].update(buckets)
        samples[kind] += int(rows["count:"][place])
        if sum(buckets.values()) + int(rows["over:"][place]) != int(rows["count:"][place]):
            raise Unreadable(f"the buckets of {column} do not add up to its count")
    metrics, absent = [], []
    for kind, histogram in counts.items():
        n = samples[kind]
        metrics.append(work(f"{kind}.samples", "samples", n))
        for name, share in _SHARES.items():
            value = quantile(histogram, n, share)
            if value is None:
                absent.append(Absent(f"{kind}.{name}", f"it is {BEYOND}; {n} samples"))
            else:
                metrics += quantiles(kind, unit[1], {name: value}, n)
    return Reading(tuple(metrics), tuple(absent))


@_format(
    "rtla timerlat hist", "rtla timerlat hist -d 60s > FILE", "thread.p50 thread.p99", r"# RTLA timerlat histogram\n"
)
def _timerlat_hist(file: ResultFile) -> Sequence[ForeignRun]:
    return (ForeignRun("rtla-timerlat", _histogram(file.text)),)


# Without -q it prints its table again and again; the last one covers the whole run.
@_format("rtla timerlat top", "rtla timerlat top -q -d 60s > FILE", "thread.mean", r"IRQ Timer Latency \(")
def _timerlat_top(file: ResultFile) -> Sequence[ForeignRun]:
    head, _, text = file.text.rpartition("IRQ Timer Latency (")
    unit = text.partition(")")[0]
    found = [(int(n), rest.split("|")) for n, rest in _TIMERLAT_ROW.findall(text)]
    rows = [(n, [part.split() for part in parts]) for n, parts in found if n]
    if not head or not rows or any(len(part) != 4 for _, parts in rows for part in parts):
        raise Unreadable("no whole table with samples in its output")
    metrics = []
    samples = sum(n for n, _ in rows)
    for place, kind in enumerate(("irq", "thread", "user")[: len(rows[0][1])]):
        mean = sum(n * int(parts[place][2]) for n, parts in rows) / samples
        metrics.append(metric(f"{kind}.mean", unit, "lower", "exact", mean, samples))
    return (ForeignRun("rtla-timerlat-top", Reading((work("samples", "samples", samples), *metrics))),)


@_format("rtla osnoise hist", "rtla osnoise hist -d 60s > FILE", "noises_per_s noise.p99", "# RTLA osnoise histogram\n")
def _osnoise_hist(file: ResultFile) -> Sequence[ForeignRun]:
    reading = _histogram(file.text)
    if not (found := _DURATION.search(file.text)):
        raise Unreadable("no duration in its output")
    days, hours, minutes, seconds = map(int, found.groups())
    if not (took := ((days * 24 + hours) * 60 + minutes) * 60 + seconds):
        raise Unreadable("it ran for less than a second")
    noises = sum(each.value for each in reading.metrics if each.name == "noise.samples")
    rate = metric("noises_per_s", "1/s", "lower", "rate", noises / took, noises or 1)
    return (ForeignRun("rtla-osnoise", Reading((*reading.metrics, rate), reading.absent)),)


@_format("rtla osnoise top", "rtla osnoise top -q -d 60s > FILE", "noise_percent", "Operating System Noise")
def _osnoise_top(file: ResultFile) -> Sequence[ForeignRun]:
    text = file.text.rpartition("Operating System Noise")[2]
    rows = [(int(runtime), int(noise)) for runtime, noise in _OSNOISE_ROW.findall(text)]
    runtime, noise = (sum(values) for values in zip(*rows, strict=True)) if rows else (0, 0)
    if "| time is in us\n" not in text:
        raise Unreadable("no time in us in its output")
    if not runtime:
        raise Unreadable("no CPU that was measured in its output")
    metrics = (work("runtime_us", "us", runtime), metric("noise_percent", "%", "lower", "exact", 100 * noise / runtime))
    return (ForeignRun("rtla-osnoise-top", Reading(metrics)),)


# ---- perf and stress-ng ----

# `perf bench sched all` prints dots.
_BENCH = re.compile(r"^# Running '?sched/([\w-]+)'? benchmark(?::|\.\.\.)", re.M)


@_format("perf bench", "perf bench sched messaging > FILE", "time_s", _BENCH.pattern)
def _perf_bench(file: ResultFile) -> Sequence[ForeignRun]:
    _, *parts = _BENCH.split(file.text)
    runs = []
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        if not (took := number(r"^ +Total time: ([0-9.]+) \[sec\]$", text, "total time")):
            raise Unreadable("it took no time at all")
        settings = "; ".join(line.strip("# ") for line in text.splitlines() if line.startswith("#"))
        reading = Reading((metric("time_s", "s", "lower", "exact", took),))
        runs.append(ForeignRun(f"perf-bench-{name}", reading, about={"settings": settings}))
    return runs


def _json_lines(file: ResultFile) -> list[ResultFile]:
    return [ResultFile(line) for line in file.text.splitlines() if line.startswith("{")]


_COST = re.compile(r"(?:\w+/)?(?:(?:cpu-)?cycles|instructions|task-clock|duration_time)(?:[:/]\w*)?")
"""Counters of which less is better, if the same work is done. perf adds the PMU of a hybrid CPU, or :u."""


@_format(
    "perf stat -j",
    "perf stat -j -o FILE COMMAND",
    "counted.*cycles* | counted.task_clock* | counted.duration_time",
    lambda file: any(line.has("counter-value", "event") for line in _json_lines(file)),
)
def _perf_stat(file: ResultFile) -> Sequence[ForeignRun]:
    lines = _json_lines(file)
    rows = [line.json for line in lines if line.has("counter-value", "event")]
    if any("interval" in row for row in rows):
        raise Unreadable("it was counted with -I, and intervals are no runs; leave out -I")
    # A line may be of a metric group, and no counter.
    kinds = (("counter-value", "event"), ("metric-value",), ("metricgroup",))
    if not all(any(line.has(*keys) for keys in kinds) for line in lines) or not file.text.endswith("\n"):
        raise Unreadable("a line is neither a counter nor a metric (cut off?)")
    metrics, absent = [], []
    for row in rows:
        name, said = f"counted.{slug(row['event'])}", row["counter-value"]
        if said.startswith("<"):
            absent.append(Absent(name, f"perf stat: {said}"))
            continue
        direction: Direction = "lower" if _COST.fullmatch(row["event"]) else "neither"
        metrics.append(metric(name, row["unit"] or "events", direction, "exact", float(said)))
        # A multiplexed counter ran only part of the time; perf has scaled its value.
        if "pcnt-running" in row:
            metrics.append(metric(f"{name}.counted", "%", "neither", "exact", row["pcnt-running"]))
    if not metrics:
        raise Unreadable("perf could count nothing there")
    return (ForeignRun("perf-stat", Reading(tuple(metrics), tuple(absent))),)


@_format(
    "stress-ng --yaml",
    "stress-ng --cyclic 1 --timeout 30 --metrics --yaml FILE",
    "*.operations_per_s",
    r"^ +stress-ng-version: '?([0-9.]+)'?$",
)
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


def _printed_by(tool: str) -> _Reader:
    """Read a file with what a tool that `schedline run` has, too, printed in one run."""
    return lambda file: (ForeignRun(tool, wrapped_tool(tool, stdout=file.text)),)


_TBENCH = r"^Throughput [0-9.]+ MB/sec .*max_latency="
_format("tbench", "tbench -t 60 4 SERVER > FILE", "mb_per_s", _TBENCH)(_printed_by("tbench"))
_format(
    "netperf -k",
    "netperf -t TCP_RR -- -k THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME,P99_LATENCY > FILE",
    "transactions_per_s latency.p99 | transactions_per_s",
    r"^THROUGHPUT_UNITS=Trans/s$",
)(_printed_by("netperf"))


# ---- what test frameworks keep, and CSV ----

_LKP_DIRECTIONS: dict[str, Direction] = {
    "*.per_process_ops": "higher",
    "*.per_thread_ops": "higher",
    "hackbench.throughput": "higher",
    "unixbench.throughput": "higher",
    "schbench.wakeup_latency_99%_us": "lower",
    "perf-bench-sched-messaging.total_time_sec": "lower",
}
"""The statistics of lkp-tests that are judged, by their names there. Of all others nothing says what is better."""


# avg.json and stddev.json, which lkp-tests writes one level higher, have the same form. They are no runs.
def _is_stats(file: ResultFile) -> bool:
    return (
        file.name == "stats.json"
        and isinstance(file.json, dict)
        and bool(file.json)
        and all("." in key and type(value) in (int, float) for key, value in file.json.items())
    )


@_format("LKP stats.json", "lkp run JOB.yaml", "*", _is_stats)
def _stats(file: ResultFile) -> Sequence[ForeignRun]:
    metrics: dict[str, Metric] = {}
    for key, value in file.json.items():
        name = dotted_slug(key)
        found = [better for pattern, better in _LKP_DIRECTIONS.items() if fnmatchcase(key, pattern)]
        # will-it-scale writes 0 for the mode, processes or threads, that it did not run.
        if found and value != 0:
            metrics[name] = metric(name, "unknown", found[0], "exact", value)
        elif not found and value >= 0 and name not in metrics:
            metrics[name] = metric(name, "unknown", "neither", "exact", value)
    return (ForeignRun("lkp", Reading(tuple(metrics.values()))),)


_BETTER: dict[str, Direction] = {each: each for each in get_args(Direction)}


@_format(
    "CSV",
    "any; add --columns metric,value,unit,direction",
    "*",
    lambda file: bool(file.columns) and "," in file.text,
)
def _csv(file: ResultFile) -> Sequence[ForeignRun]:
    runs: defaultdict[tuple[str, str, str, str], list[Metric]] = defaultdict(list)
    rows = list(csv.reader(StringIO(file.text), strict=True))
    names = {dict(zip(file.columns, words, strict=False)).get("metric") for words in rows[1:]}
    for line, words in enumerate(rows, 1):
        row = dict(zip(file.columns, words, strict=False))
        # The first row may have the names of the columns, but not a metric that has no number.
        if not words or (line == 1 and not _is_number(row.get("value", "")) and row.get("metric") not in names):
            continue
        if len(words) != len(file.columns):
            raise Unreadable(f"line {line} has {len(words)} columns, and --columns names {len(file.columns)}")
        if not _is_number(row["value"]):
            raise Unreadable(f"line {line}: the value {row['value'][:40]!r} is no number")
        direction = row.get("direction", "neither")
        if direction not in _BETTER:
            raise Unreadable(f"line {line}: direction is {direction[:40]!r}, not lower, higher or neither")
        name, unit = dotted_slug(row["metric"]), row.get("unit") or "unknown"
        found = metric(name, unit, _BETTER[direction], "exact", float(row["value"]))
        runs[row.get("boot", ""), row.get("run", ""), row.get("tool") or "csv", row.get("started", "")].append(found)
    told = []
    for (boot, run, tool, started), metrics in runs.items():
        when = datetime.fromisoformat(started) if started else None
        if when and when.tzinfo is None:
            raise Unreadable(f"started has no time zone: {started[:40]!r}")
        counts = Counter(each.name for each in metrics)
        if twice := next((name for name, count in counts.items() if count > 1), None):
            where = f" in run {run}" if run else "; if it has several runs, name a column run"
            raise Unreadable(f"{twice} appears twice{where}")
        told.append(ForeignRun(tool, Reading(tuple(metrics)), when, boot=boot))
    if not told:
        raise Unreadable("it has no row with a number")
    return told


def _is_number(text: str) -> bool:
    """Whether it is a plain number. Python also takes `1_000`, digits of other scripts, and nan."""
    return bool(re.fullmatch(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?\s*", text, re.ASCII))
