# SPDX-License-Identifier: GPL-2.0
"""Judge the runs of a plan. Nothing here measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlib.formats.run_file import Run
from schedlib.runs.workload_suites import WorkloadRow
from schedlib.verdict import Verdict, worst


@dataclass(frozen=True)
class JudgedRun:
    """One run: its verdict, and the reason if it is not PASS.

    Attributes:
        lacks_program: a program that the run requires is not installed.
    """

    row: str
    number: int
    verdict: Verdict
    reason: str
    lacks_program: bool = False


def _lacking(row: WorkloadRow, found: Run) -> str:
    """What is missing from a run that claims to be done; empty if nothing is."""
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
    """Judge a run by its file. An exit status of 0 does not prove that it worked, nor 1 that it failed."""
    process = found.process
    if found.status == "SKIP":
        # A skip is INCONCLUSIVE. judge_all() ignores it if other runs measured something.
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
        return JudgedRun(row.name, number, Verdict.FAIL, "one of its tests failed: see its log")
    return JudgedRun(row.name, number, Verdict.PASS, "")


def judge_all(judged: Sequence[JudgedRun]) -> Verdict:
    """The verdict of all runs. Skips count only if there is nothing else."""
    found = [each.verdict for each in judged if each.verdict is not Verdict.INCONCLUSIVE]
    return worst(found)
