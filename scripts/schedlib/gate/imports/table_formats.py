# SPDX-License-Identifier: GPL-2.0
"""Outputs that are no tool's own: CSV files whose columns the user names, and durations in KTAP logs."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from io import StringIO
from typing import get_args

from schedlib.console.ktap import Reader, Status
from schedlib.console.log_lines import lines
from schedlib.formats.run_file import Direction, Metric, Reading
from schedlib.gate.imports.foreign import ForeignFormat, ForeignRun, ResultFile
from schedlib.runs.tools.tool import Unreadable, dotted_slug, metric, slug

_KTAP = re.compile(r"^(?:\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? )?K?TAP version \d+ *\r?$", re.M)
_KERNEL = re.compile(r"Linux version (\S+) .*?(#\d.*?)\r?$", re.M)
_DIRECTIONS: dict[str, Direction] = {each: each for each in get_args(Direction)}


def _csv(file: ResultFile) -> Sequence[ForeignRun]:
    runs: defaultdict[tuple[str, str, str, str], list[Metric]] = defaultdict(list)
    for number, words in enumerate(csv.reader(StringIO(file.text), strict=True), 1):
        row = dict(zip(file.columns, words, strict=False))
        if not words or (number == 1 and not _is_number(row.get("value", ""))):
            continue
        if len(words) != len(file.columns):
            raise Unreadable(f"line {number} has {len(words)} columns, and --columns names {len(file.columns)}")
        if not _is_number(row["value"]):
            raise Unreadable(f"line {number}: the value {row['value'][:40]!r} is no number")
        direction = row.get("direction", "neither")
        if direction not in _DIRECTIONS:
            raise Unreadable(f"line {number}: direction is {direction[:40]!r}, not lower, higher or neither")
        name, unit = dotted_slug(row["metric"]), row.get("unit") or "unknown"
        found = metric(name, unit, _DIRECTIONS[direction], "exact", float(row["value"]))
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
    try:
        float(text)
    except ValueError:
        return False
    return True


def _ktap(file: ResultFile) -> Sequence[ForeignRun]:
    reader = Reader()
    for line in lines(file.text.encode()):
        reader.feed(line)
    metrics = []
    first, last = float("inf"), 0.0
    for stream in reader.finish().streams:
        if not stream.complete:
            raise Unreadable("its tests did not come to an end")
        for test in stream.tests:
            if test.status not in (Status.OK, Status.SKIP, Status.XFAIL) or test.doubt:
                raise Unreadable(f"{test.name} failed, and the time of a failure is no measurement")
            began, ended = test.began.stamp, test.ended.stamp
            if began is None or ended is None:
                raise Unreadable("its lines have no time of the kernel (printk.time=1)")
            first, last = min(first, began), max(last, ended)
            if test.status is not Status.SKIP:
                name = f"{slug(test.name)}.duration_s"
                metrics.append(metric(name, "s", "lower", "exact", round(ended - began, 6)))
    if not metrics:
        raise Unreadable("it has no test that ran")
    metrics.append(metric("duration_s", "s", "lower", "exact", round(last - first, 6)))
    kernel = _KERNEL.search(file.text)
    about = {"kernel": f"{kernel[1]} {kernel[2]}"} if kernel else {}
    return (ForeignRun("ktap", Reading(tuple(metrics)), about=about),)


TABLE_FORMATS = (
    ForeignFormat(
        "KTAP durations",
        "dmesg > FILE",
        (("duration_s",),),
        lambda file: bool(_KTAP.search(file.text)),
        _ktap,
    ),
    ForeignFormat(
        "CSV",
        "any; add --columns metric,value,unit,direction",
        (("*",),),
        lambda file: bool(file.columns) and "," in file.text,
        _csv,
    ),
)
