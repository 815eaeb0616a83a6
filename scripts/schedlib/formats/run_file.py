# SPDX-License-Identifier: GPL-2.0
"""One run as a file: schema run-1, which selftests/sched_latency/run_file.h writes, too."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Direction = Literal["lower", "higher", "neither"]
Kind = Literal["exact", "quantile", "rate", "exceedance"]

_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
_REQUIRED: dict[str, type | tuple[type, ...]] = {
    "schema": str,
    "tool": str,
    "started": str,
    "uptime_s": (int, float),
    "fingerprint": dict,
    "status": str,
    "reason": str,
    "metrics": list,
    "absent": list,
    "cpus": list,
}


@dataclass(frozen=True)
class Metric:
    """A number with its unit, no judgement; n is how many samples it is made from."""

    name: str
    unit: str
    direction: Direction
    kind: Kind
    value: float
    n: int = 1


@dataclass(frozen=True)
class Absent:
    """What cannot be shown here: the metrics whose name begins so."""

    name: str
    reason: str


@dataclass(frozen=True)
class CpuRow:
    """The latencies of one CPU."""

    group: str
    cpu: int
    n: int
    p50_ns: float
    p99_ns: float
    max_ns: float


@dataclass(frozen=True)
class Reading:
    """What the output of a tool says.

    Attributes:
        reported: the status that the tool itself reports, apart from that of its process; 0 is good.
        error: why the run came to nothing.
        cannot: why this machine cannot do it.
    """

    metrics: tuple[Metric, ...] = ()
    absent: tuple[Absent, ...] = ()
    cpus: tuple[CpuRow, ...] = ()
    reported: int | None = None
    error: str = ""
    cannot: str = ""


@dataclass(frozen=True)
class Head:
    """What is known of a run before it starts."""

    tool: str
    started: str
    uptime_s: float
    fingerprint: Mapping[str, str] = field(default_factory=dict)


def document(head: Head, reading: Reading) -> dict[str, Any]:
    """A run by the schema; a metric that is no finite number makes it an ERROR."""
    bad = next((each.name for each in reading.metrics if not math.isfinite(each.value)), None)
    error = reading.error or (f"{bad} is no number" if bad else "")
    status = "ERROR" if error else "SKIP" if reading.cannot else "DONE"
    if status == "DONE" and not reading.metrics:
        status, error = "ERROR", "nothing was measured"
    kept = reading if status == "DONE" else Reading()
    return {
        "schema": "run-1",
        "tool": head.tool,
        "started": head.started,
        "uptime_s": head.uptime_s,
        "fingerprint": dict(head.fingerprint),
        "status": status,
        "reason": error or reading.cannot,
        "metrics": [asdict(each) for each in kept.metrics],
        "absent": [asdict(each) for each in kept.absent],
        "cpus": [asdict(each) for each in kept.cpus],
    }


def defect(found: Mapping[str, Any] | None) -> str | None:
    """Why this is no run that can be trusted; None where it is one."""
    if found is None:
        return "no JSON object"
    wrong = [name for name, kind in _REQUIRED.items() if not isinstance(found.get(name), kind)]
    if wrong:
        return f"{wrong[0]} is missing, or of another type"
    if found["schema"] != "run-1" or found["status"] not in ("DONE", "SKIP", "ERROR"):
        return f"schema {found['schema']}, status {found['status']}"
    if (found["status"] == "DONE") != (found["reason"] == "") or (found["status"] == "DONE" and not found["metrics"]):
        return f"status {found['status']} with {len(found['metrics'])} metrics and the reason {found['reason']!r}"
    for metric in found["metrics"]:
        if not isinstance(metric, dict) or not isinstance(metric.get("value"), int | float):
            return "a metric without a value"
        if not _NAME.fullmatch(str(metric.get("name"))) or not isinstance(metric.get("n"), int):
            return f"the metric {metric.get('name')}"
    return None


def value_of(found: Mapping[str, Any], name: str) -> float | None:
    """The value of a metric, where the run has it."""
    return next((float(metric["value"]) for metric in found["metrics"] if metric["name"] == name), None)


def why_absent(found: Mapping[str, Any], name: str) -> str | None:
    """The reason that is given for a metric, or for all that its name begins with."""
    rows: Sequence[Mapping[str, str]] = found["absent"]
    return next((row["reason"] for row in rows if name == row["name"] or name.startswith(f"{row['name']}.")), None)
