# SPDX-License-Identifier: GPL-2.0
"""What the runs of a plan amount to. Nothing here measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlib.formats.run_file import value_of, why_absent
from schedlib.runs.workload_suites import Row
from schedlib.verdict import Verdict, worst


@dataclass(frozen=True)
class Judged:
    """One run: its verdict, and why where it is not PASS."""

    row: str
    number: int
    verdict: Verdict
    reason: str


def _lacking(row: Row, found: Mapping[str, Any]) -> str:
    """What a run that says it was done did not do."""
    if value_of(found, row.work) is None and why_absent(found, row.work) is None:
        return f"{row.work} was not measured"
    if value_of(found, row.work) == 0:
        return f"no work was done: {row.work} is 0"
    units = {metric["name"]: metric["unit"] for metric in found["metrics"]}
    for name, unit in row.metrics.items():
        if name not in units:
            if why_absent(found, name) is None:
                return f"{name} was not measured"
        elif units[name] != unit:
            return f"{name} is in {units[name]}, not in {unit}"
    return ""


def judge_run(row: Row, number: int, found: Mapping[str, Any]) -> Judged:
    """A run by its file alone: a status of 0 is no proof of work, and one of 1 no proof of a failure."""
    process = found.get("process") or {}
    if found["status"] == "SKIP":
        # A skip is INCONCLUSIVE by itself, and a PASS beside what was measured.
        verdict = Verdict.ERROR if row.required and process.get("missing") else Verdict.INCONCLUSIVE
        return Judged(row.name, number, verdict, found["reason"])
    if found["status"] == "ERROR":
        return Judged(row.name, number, Verdict.ERROR, found["reason"])
    lacking = _lacking(row, found)
    if lacking:
        return Judged(row.name, number, Verdict.FAIL, lacking)
    if process.get("reported"):
        return Judged(row.name, number, Verdict.FAIL, f"it reports the status {process['reported']}")
    if value_of(found, "latency.idle_threads"):
        return Judged(row.name, number, Verdict.FAIL, "not every thread ran")
    if row.program and process.get("exit_status"):
        return Judged(row.name, number, Verdict.FAIL, "a test of it failed: see its log")
    return Judged(row.name, number, Verdict.PASS, "")


def judge_all(judged: Sequence[Judged]) -> Verdict:
    """The one verdict: skips count only where nothing else is there."""
    found = [each.verdict for each in judged if each.verdict is not Verdict.INCONCLUSIVE]
    return worst(found)
