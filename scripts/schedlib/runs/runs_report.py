# SPDX-License-Identifier: GPL-2.0
"""The runs of a plan for people, and as one document."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from schedlib.formats.run_file import value_of, why_absent
from schedlib.runs.plan import Plan
from schedlib.runs.run_judge import Judged, judge_all
from schedlib.runs.workload_suites import Suite
from schedlib.verdict import Verdict

_MARKS = {Verdict.PASS: "ok", Verdict.FAIL: "FAIL", Verdict.ERROR: "ERROR", Verdict.INCONCLUSIVE: "skip"}


def clock(seconds: float) -> str:
    """A duration for people."""
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min" if whole < 7200 else f"{whole / 3600:.1f} h"


def duration(found: Mapping[str, Any]) -> float:
    """How long a run took."""
    return float((found.get("process") or {}).get("seconds") or 0)


def _figures(values: Sequence[float]) -> str:
    middle = f"{statistics.median(values):.6g}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.4g} to {max(values):.4g})"


def _noise(runs: Sequence[Mapping[str, Any]]) -> str:
    found = [run["noise"] for run in runs if run.get("noise")]
    if not found:
        return ""
    seconds = sum(each["seconds"] for each in found) or 1
    parts = [
        f"steal {100 * sum(each['steal_s'] for each in found) / seconds:.1f} %",
        f"other work {sum(each['foreign_cpu_s'] for each in found) / seconds:.2f} CPUs",
        f"{sum(each['foreign_switches'] for each in found) / seconds:.0f} switches/s",
    ]
    for name, text in (("thermal_throttles", "thermal throttles"), ("cgroup_throttles", "ends of the CPU quota")):
        events = [each[name] for each in found if each[name] is not None]
        if any(events):
            parts.append(f"{sum(events)} {text}")
    return ", ".join(parts)


def table(suite: Suite, judged: Sequence[Judged], runs: Mapping[tuple[str, int], Mapping[str, Any]]) -> list[str]:
    """Lines for people: each row, its figures as median (least to most) over the runs, and its noise."""
    lines = []
    for row in suite.rows:
        mine = [each for each in judged if each.row == row.name]
        done = [runs[row.name, each.number] for each in mine if runs[row.name, each.number]["status"] == "DONE"]
        counts = ", ".join(
            f"{sum(each.verdict is verdict for each in mine)} {mark}"
            for verdict, mark in _MARKS.items()
            if any(each.verdict is verdict for each in mine)
        )
        timed = [duration(run) for run in done if run.get("process")]
        times = f", {_figures(timed)} s" if timed else ""
        lines.append(f"{row.name}: {counts or 'not run'}{times}")
        for name, unit in row.metrics.items():
            values = [value for run in done if (value := value_of(run, name)) is not None]
            reasons = {why for run in done if (why := why_absent(run, name))}
            if values:
                lines.append(f"    {name}  {_figures(values)} {unit}")
            elif reasons:
                lines.append(f"    {name}  absent: {min(reasons)}")
        if noise := _noise(done):
            lines.append(f"    beside it: {noise}")
        for reason in dict.fromkeys(each.reason for each in mine if each.reason):
            lines.append(f"    {reason}")
    return lines


_LAVA = {Verdict.PASS: "pass", Verdict.FAIL: "fail", Verdict.ERROR: "fail", Verdict.INCONCLUSIVE: "skip"}


def lava(suite: Suite, judged: Sequence[Judged], runs: Mapping[tuple[str, int], Mapping[str, Any]]) -> str:
    """As send-to-lava.sh of Linaro's test-definitions reads it: test, result, and for metrics value and unit."""
    lines = []
    for row in suite.rows:
        mine = [each for each in judged if each.row == row.name]
        lines.append(f"{row.name} {_LAVA[judge_all(mine)]}")
        done = [runs[row.name, each.number] for each in mine if each.verdict is Verdict.PASS]
        for name, unit in row.metrics.items():
            values = [value for run in done if (value := value_of(run, name)) is not None]
            if values:
                lines.append(f"{row.name}.{name} pass {statistics.median(values):.9g} {unit}")
    return "\n".join(lines) + "\n"


def summary(
    plan: Plan,
    fingerprint: Mapping[str, str],
    started: str,
    judged: Sequence[Judged],
    runs: Mapping[tuple[str, int], Mapping[str, Any]],
    verdict: Verdict,
) -> dict[str, Any]:
    """The same as a document: schema runs-1."""
    return {
        "schema": "runs-1",
        "tool": "schedline run",
        "started": started,
        "fingerprint": dict(fingerprint),
        "status": verdict.value,
        "plan": {"suite": plan.suite, "digest": plan.digest, "runs": plan.runs, "seed": plan.seed},
        "runs": [
            {
                "row": each.row,
                "run": each.number,
                "verdict": each.verdict.value,
                "reason": each.reason,
                "seconds": duration(runs[each.row, each.number]),
                "file": f"{each.row}-{each.number}.json",
            }
            for each in judged
        ],
    }
