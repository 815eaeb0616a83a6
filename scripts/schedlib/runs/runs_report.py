# SPDX-License-Identifier: GPL-2.0
"""The runs of a plan as text, for LAVA, and as one document."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime

from schedlib.formats.plan_document import PlannedRun, RunPlan
from schedlib.formats.run_file import Run
from schedlib.formats.runs_document import RunsDocument, RunsPlan, RunsRow
from schedlib.runs.run_judge import JudgedRun, judge_all
from schedlib.runs.workload_suites import Suite
from schedlib.verdict import Verdict

_MARKS = {Verdict.PASS: "ok", Verdict.FAIL: "FAIL", Verdict.ERROR: "ERROR", Verdict.INCONCLUSIVE: "skip"}


def clock(seconds: float) -> str:
    """A duration as text."""
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min" if whole < 7200 else f"{whole / 3600:.1f} h"


def _figures(values: Sequence[float]) -> str:
    middle = f"{statistics.median(values):.6g}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.4g} to {max(values):.4g})"


def _noise(runs: Sequence[Run]) -> str:
    found = [run.noise for run in runs if run.noise]
    if not found:
        return ""
    seconds = sum(each.seconds for each in found) or 1
    parts = [
        f"steal {100 * sum(each.steal_s for each in found) / seconds:.1f} %",
        f"other work {sum(each.foreign_cpu_s for each in found) / seconds:.2f} CPUs",
        f"{sum(each.foreign_switches for each in found) / seconds:.0f} switches/s",
    ]
    for events, text in (
        (sum(each.thermal_throttles or 0 for each in found), "thermal throttles"),
        (sum(each.cgroup_throttles or 0 for each in found), "CPU quota throttles"),
    ):
        if events:
            parts.append(f"{events} {text}")
    return ", ".join(parts)


def table(suite: Suite, judged: Sequence[JudgedRun], runs: Mapping[tuple[str, int], Run]) -> list[str]:
    """Lines of text: each row, its figures as median (minimum to maximum) over the runs, and its noise."""
    lines = []
    for row in suite.rows:
        mine = [each for each in judged if each.row == row.name]
        done = [runs[row.name, each.number] for each in mine if runs[row.name, each.number].status == "DONE"]
        counts = ", ".join(
            f"{sum(each.verdict is verdict for each in mine)} {mark}"
            for verdict, mark in _MARKS.items()
            if any(each.verdict is verdict for each in mine)
        )
        timed = [run.seconds for run in done if run.process]
        times = f", {_figures(timed)} s" if timed else ""
        lines.append(f"{row.name}: {counts or 'not run'}{times}")
        for name, unit in row.metrics.items():
            values = [value for run in done if (value := run.value(name)) is not None]
            reasons = {why for run in done if (why := run.why_absent(name))}
            if values:
                lines.append(f"    {name}  {_figures(values)} {unit}")
            elif reasons:
                lines.append(f"    {name}  absent: {min(reasons)}")
        if noise := _noise(done):
            lines.append(f"    interference: {noise}")
        for reason in dict.fromkeys(each.reason for each in mine if each.reason):
            lines.append(f"    {reason}")
    return lines


_LAVA = {Verdict.PASS: "pass", Verdict.FAIL: "fail", Verdict.ERROR: "fail", Verdict.INCONCLUSIVE: "skip"}


def lava(suite: Suite, judged: Sequence[JudgedRun], runs: Mapping[tuple[str, int], Run]) -> str:
    """The format that send-to-lava.sh of Linaro's test-definitions reads: test, result; metrics with value and unit."""
    lines = []
    for row in suite.rows:
        mine = [each for each in judged if each.row == row.name]
        lines.append(f"{row.name} {_LAVA[judge_all(mine)]}")
        done = [runs[row.name, each.number] for each in mine if each.verdict is Verdict.PASS]
        for name, unit in row.metrics.items():
            values = [value for run in done if (value := run.value(name)) is not None]
            if values:
                lines.append(f"{row.name}.{name} pass {statistics.median(values):.9g} {unit}")
    return "\n".join(lines) + "\n"


def summary(
    plan: RunPlan,
    fingerprint: Mapping[str, str],
    started: str,
    judged: Sequence[JudgedRun],
    runs: Mapping[tuple[str, int], Run],
    verdict: Verdict,
) -> RunsDocument:
    """The runs as a document."""
    rows = (
        RunsRow(
            each.row,
            each.number,
            each.verdict,
            each.reason,
            runs[each.row, each.number].seconds,
            PlannedRun(each.row, each.number).file,
        )
        for each in judged
    )
    return RunsDocument(
        schema="runs-1",
        tool="schedline run",
        started=datetime.fromisoformat(started),
        fingerprint=dict(fingerprint),
        status=verdict,
        plan=RunsPlan(plan.suite, plan.digest, plan.runs, plan.seed),
        runs=tuple(rows),
    )
