# SPDX-License-Identifier: GPL-2.0
"""What the runs of a plan amount to. Nothing here measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlib.formats.run_file import Run
from schedlib.runs.workload_suites import WorkloadRow
from schedlib.verdict import Verdict, worst


@dataclass(frozen=True)
class JudgedRun:
    """One run: its verdict, and why where it is not PASS.

    Attributes:
        lacks_program: a program is not installed that the run requires.
    """

    row: str
    number: int
    verdict: Verdict
    reason: str
    lacks_program: bool = False


def _lacking(row: WorkloadRow, found: Run) -> str:
    """What a run that says it was done did not do."""
    if found.value(row.work) is None and found.why_absent(row.work) is None:
        return f"{row.work} was not measured"
    if found.value(row.work) == 0:
        return f"no work was done: {row.work} is 0"
    units = {metric.name: metric.unit for metric in found.metrics}
    for name, unit in row.metrics.items():
        if name not in units:
            if found.why_absent(name) is None:
                return f"{name} was not measured"
        elif units[name] != unit:
            return f"{name} is in {units[name]}, not in {unit}"
    return ""


def judge_run(row: WorkloadRow, number: int, found: Run) -> JudgedRun:
    """A run by its file alone: a status of 0 is no proof of work, and one of 1 no proof of a failure."""
    process = found.process
    if found.status == "SKIP":
        # A skip is INCONCLUSIVE by itself, and a PASS beside what was measured.
        lacks_program = bool(row.required and process and process.missing)
        verdict = Verdict.ERROR if lacks_program else Verdict.INCONCLUSIVE
        return JudgedRun(row.name, number, verdict, found.reason, lacks_program)
    if found.status == "ERROR":
        return JudgedRun(row.name, number, Verdict.ERROR, found.reason)
    lacking = _lacking(row, found)
    if lacking:
        return JudgedRun(row.name, number, Verdict.FAIL, lacking)
    if process and process.reported:
        return JudgedRun(row.name, number, Verdict.FAIL, f"it reports the status {process.reported}")
    if found.value("latency.idle_threads"):
        return JudgedRun(row.name, number, Verdict.FAIL, "not every thread ran")
    if row.program and process and process.exit_status:
        return JudgedRun(row.name, number, Verdict.FAIL, "a test of it failed: see its log")
    return JudgedRun(row.name, number, Verdict.PASS, "")


def judge_all(judged: Sequence[JudgedRun]) -> Verdict:
    """The one verdict: skips count only where nothing else is there."""
    found = [each.verdict for each in judged if each.verdict is not Verdict.INCONCLUSIVE]
    return worst(found)
