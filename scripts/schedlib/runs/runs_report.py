# SPDX-License-Identifier: GPL-2.0
"""The result of the runs of a plan: as text, for LAVA, and as one document."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from schedlib.cache import write_atomic
from schedlib.formats import document
from schedlib.formats.cover_letter import tell
from schedlib.formats.plan_document import RunPlan
from schedlib.formats.run_file import Run, read_run
from schedlib.formats.runs_document import RunsDocument, RunsPlan, RunsRow
from schedlib.runs.run_judge import JudgedRun, judge_all, judge_run
from schedlib.runs.run_options import RunOptions
from schedlib.runs.workload_suites import Suite
from schedlib.verdict import Verdict

Runs = Mapping[tuple[str, int], Run]
"""Runs by the name of their row and their number."""

_MARKS = {Verdict.PASS: "ok", Verdict.FAIL: "FAIL", Verdict.ERROR: "ERROR", Verdict.INCONCLUSIVE: "skip"}
_LAVA = {Verdict.PASS: "pass", Verdict.FAIL: "fail", Verdict.ERROR: "fail", Verdict.INCONCLUSIVE: "skip"}


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
    if thermal := sum(each.thermal_throttles or 0 for each in found):
        parts.append(f"{thermal} thermal throttles")
    if quota := sum(each.cgroup_throttles or 0 for each in found):
        parts.append(f"{quota} CPU quota throttles")
    return ", ".join(parts)


def table(suite: Suite, judged: Sequence[JudgedRun], runs: Runs) -> list[str]:
    """Lines of text: each row, its figures as median (minimum to maximum) over the runs, and its noise."""
    lines = []
    for row in suite.rows:
        mine = [each for each in judged if each.row == row.name]
        done = [runs[row.name, each.number] for each in mine if runs[row.name, each.number].status == "DONE"]
        verdicts = [each.verdict for each in mine]
        counts = ", ".join(f"{verdicts.count(each)} {mark}" for each, mark in _MARKS.items() if each in verdicts)
        timed = [run.seconds for run in done if run.process]
        lines.append(f"{row.name}: {counts or 'not run'}" + (f", {_figures(timed)} s" if timed else ""))
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


def _lava(suite: Suite, judged: Sequence[JudgedRun], runs: Runs) -> str:
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


def conclude(
    options: RunOptions, suite: Suite, plan: RunPlan, out: Path, machine: Mapping[str, str], started: str
) -> tuple[Verdict, bool]:
    """Read the runs of a plan from their files, judge and print them, and write the files that the options name.

    Returns:
        The verdict, and whether required programs are missing.
    """
    rows = {row.name: row for row in suite.rows}
    runs = {(run.row, run.number): read_run(out / run.file) for run in plan.order}
    ordered = sorted(plan.order, key=lambda run: (plan.rows.index(run.row), run.number))
    judged = [judge_run(rows[run.row], run.number, runs[run.row, run.number]) for run in ordered]
    verdict = judge_all(judged)
    for line in table(suite, judged, runs):
        tell(line)
    if options.json:
        found = RunsDocument(
            schema="runs-1",
            tool="schedline run",
            started=datetime.fromisoformat(started),
            fingerprint=dict(machine),
            status=verdict,
            plan=RunsPlan(plan.suite, plan.digest, plan.runs, plan.seed),
            runs=tuple(
                RunsRow(run.row, run.number, each.verdict, each.reason, runs[run.row, run.number].seconds, run.file)
                for run, each in zip(ordered, judged, strict=True)
            ),
        )
        document.write(options.json, found)
    if options.lava:
        write_atomic(options.lava, _lava(suite, judged, runs))
    return verdict, any(each.lacks_program for each in judged)
