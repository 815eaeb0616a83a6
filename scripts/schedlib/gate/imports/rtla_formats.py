# SPDX-License-Identifier: GPL-2.0
"""Outputs of rtla: the histograms and the tables of timerlat and osnoise."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from schedlib.formats.run_file import Absent, Metric, Reading
from schedlib.gate.imports.foreign import ForeignFormat, ForeignRun, ResultFile
from schedlib.runs.tools.tool import Unreadable, metric, quantile, quantiles, work

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


def _histogram(text: str) -> tuple[list[Metric], list[Absent]]:
    """The quantiles of each kind of column, over all CPUs."""
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
                absent.append(Absent(f"{kind}.{name}", f"it is beyond the histogram; {n} samples"))
            else:
                metrics += quantiles(kind, unit[1], {name: value}, n)
    return metrics, absent


def _timerlat_hist(file: ResultFile) -> Sequence[ForeignRun]:
    metrics, absent = _histogram(file.text)
    return (ForeignRun("rtla-timerlat", Reading(tuple(metrics), tuple(absent))),)


def _osnoise_hist(file: ResultFile) -> Sequence[ForeignRun]:
    metrics, absent = _histogram(file.text)
    if not (found := _DURATION.search(file.text)):
        raise Unreadable("no duration in its output")
    days, hours, minutes, seconds = map(int, found.groups())
    if not (took := ((days * 24 + hours) * 60 + minutes) * 60 + seconds):
        raise Unreadable("it ran for less than a second")
    noises = sum(each.value for each in metrics if each.name == "noise.samples")
    metrics.append(metric("noises_per_s", "1/s", "lower", "rate", noises / took, noises or 1))
    return (ForeignRun("rtla-osnoise", Reading(tuple(metrics), tuple(absent))),)


# Without -q it prints its table again and again; the last one covers the whole run.
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


def _osnoise_top(file: ResultFile) -> Sequence[ForeignRun]:
    text = file.text.rpartition("Operating System Noise")[2]
    rows = [(int(runtime), int(noise)) for runtime, noise in _OSNOISE_ROW.findall(text)]
    runtime, noise = (sum(values) for values in zip(*rows, strict=True)) if rows else (0, 0)
    if "| time is in us\n" not in text:
        raise Unreadable("no time in us in its output")
    if not runtime:
        raise Unreadable("no CPU that was measured in its output")
    metrics = (
        work("runtime_us", "us", runtime),
        metric("noise_percent", "%", "lower", "exact", 100 * noise / runtime),
    )
    return (ForeignRun("rtla-osnoise-top", Reading(metrics)),)


RTLA_FORMATS = (
    ForeignFormat(
        "rtla timerlat hist",
        "rtla timerlat hist -d 60s > FILE",
        (("thread.p50", "thread.p99"),),
        lambda file: "# RTLA timerlat histogram\n" in file.text,
        _timerlat_hist,
    ),
    ForeignFormat(
        "rtla timerlat top",
        "rtla timerlat top -q -d 60s > FILE",
        (("thread.mean",),),
        lambda file: "IRQ Timer Latency (" in file.text,
        _timerlat_top,
    ),
    ForeignFormat(
        "rtla osnoise hist",
        "rtla osnoise hist -d 60s > FILE",
        (("noises_per_s", "noise.p99"),),
        lambda file: "# RTLA osnoise histogram\n" in file.text,
        _osnoise_hist,
    ),
    ForeignFormat(
        "rtla osnoise top",
        "rtla osnoise top -q -d 60s > FILE",
        (("noise_percent",),),
        lambda file: "Operating System Noise" in file.text,
        _osnoise_top,
    ),
)
