# SPDX-License-Identifier: GPL-2.0
"""Read the runs of a plan from their files, judge them, and print the result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from schedlib.cache import write_atomic
from schedlib.formats import document
from schedlib.formats.cover_letter import tell
from schedlib.formats.plan_document import RunPlan
from schedlib.formats.run_file import read_run
from schedlib.runs.run_judge import judge_all, judge_run
from schedlib.runs.runs_report import lava, summary, table
from schedlib.runs.workload_suites import Suite
from schedlib.verdict import Verdict


def conclude(
    suite: Suite,
    plan: RunPlan,
    out: Path,
    machine: Mapping[str, str],
    started: str,
    json_file: Path | None,
    lava_file: Path | None,
) -> tuple[Verdict, bool]:
    """Print the result of the runs, and write it to the files that are given.

    Returns:
        The verdict, and whether required programs are missing.
    """
    rows = {row.name: row for row in suite.rows}
    found = {(run.row, run.number): read_run(out / run.file) for run in plan.order}
    ordered = sorted(plan.order, key=lambda run: (plan.rows.index(run.row), run.number))
    judged = [judge_run(rows[run.row], run.number, found[run.row, run.number]) for run in ordered]
    verdict = judge_all(judged)
    for line in table(suite, judged, found):
        tell(line)
    if json_file:
        document.write(json_file, summary(plan, machine, started, judged, found, verdict))
    if lava_file:
        write_atomic(lava_file, lava(suite, judged, found))
    return verdict, any(each.lacks_program for each in judged)
