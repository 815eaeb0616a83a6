# SPDX-License-Identifier: GPL-2.0
"""Directories of results that test frameworks keep: the stats.json of lkp-tests, and the log directories of mmtests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from schedlib.formats.run_file import Direction, Metric, Reading
from schedlib.gate.imports.foreign import ForeignFormat, ForeignRun, ResultFile
from schedlib.runs.tools.tool import dotted_slug, metric

_DIRECTIONS: dict[str, Direction] = {
    "*.per_process_ops": "higher",
    "*.per_thread_ops": "higher",
    "hackbench.throughput": "higher",
    "unixbench.throughput": "higher",
    "schbench.wakeup_latency_99%_us": "lower",
    "perf-bench-sched-messaging.total_time_sec": "lower",
}
"""The statistics of lkp-tests that are judged, by their names there. Of all others nothing says what is better."""

_MMTESTS = re.compile(r"/iter-\d+/[^/]+/logs/[A-Za-z]+-(\d+)(?:-_-\d+)?(?:\.log)?$")


def mmtests_size(path: str) -> str:
    """The number of threads or groups in the name of a log of mmtests, with a dash; nothing for another file."""
    found = _MMTESTS.search(path)
    return f"-{found[1]}" if found else ""


# avg.json and stddev.json, which lkp-tests writes one level higher, have the same form. They are no runs.
def _is_stats(file: ResultFile) -> bool:
    return (
        file.name == "stats.json"
        and isinstance(file.json, dict)
        and bool(file.json)
        and all("." in key and type(value) in (int, float) for key, value in file.json.items())
    )


def _stats(file: ResultFile) -> Sequence[ForeignRun]:
    metrics: dict[str, Metric] = {}
    for key, value in file.json.items():
        name = dotted_slug(key)
        found = [better for pattern, better in _DIRECTIONS.items() if fnmatchcase(key, pattern)]
        # will-it-scale writes 0 for the mode, processes or threads, that it did not run.
        if found and value != 0:
            metrics[name] = metric(name, "unknown", found[0], "exact", value)
        elif not found and value >= 0 and name not in metrics:
            metrics[name] = metric(name, "unknown", "neither", "exact", value)
    return (ForeignRun("lkp", Reading(tuple(metrics.values()))),)


RESULT_ROOT_FORMATS = (
    ForeignFormat(
        "LKP stats.json",
        "lkp run JOB.yaml",
        (("*",),),
        _is_stats,
        _stats,
    ),
)
