# SPDX-License-Identifier: GPL-2.0
"""Reports on run files that were made elsewhere, by `schedline run` or by the programs of the tarball."""

from __future__ import annotations

from pathlib import Path

import msgspec

from schedlib.errors import SchedlineError
from schedlib.formats.cover_letter import printable, tell
from schedlib.formats.run_file import Run, runs_below
from schedlib.runs.plan import SAME, saved_plan
from schedlib.runs.run_judge import JudgedRun, judge_all, judge_run
from schedlib.runs.runs_report import table
from schedlib.runs.workload_suites import Suite, WorkloadRow, load_suite, suite_names
from schedlib.verdict import Verdict

_PLAIN = "quick"
"""The suite whose rows apply to programs that were run without a plan."""


def gathered(directory: Path) -> tuple[Suite, dict[tuple[str, int], Run]]:
    """Every run below a directory, with the rows that they belong to.

    Raises:
        SchedlineError: there are no runs, a file is not a run, the runs are of several machines or kernels, or no
            suite has a row for a run.
    """
    rows: dict[str, WorkloadRow] = {}
    runs: dict[tuple[str, int], Run] = {}
    found = sorted(runs_below(directory), key=lambda each: (each[1].started, each[1].uptime_s, each[0]))
    for name in SAME:
        if len(values := sorted({run.fingerprint[name] for _, run in found})) > 1:
            shown = " / ".join(map(printable, values[:3]))
            raise SchedlineError(
                f"{directory} mixes runs whose {name.replace('_', ' ')} differs: {shown}",
                "keep the runs of one machine and kernel in a directory",
            )
    for path, run in found:
        row = _row(run)
        if row is None:
            raise SchedlineError(f"{path}: no suite has a row for {run.row}", "move the file elsewhere")
        rows[row.name] = row
        runs[row.name, 1 + sum(each == row.name for each, _ in runs)] = run
    return Suite(directory.name, "brought home", tuple(rows[name] for name in sorted(rows))), runs


def _row(run: Run) -> WorkloadRow | None:
    """The row of this run: from its plan, or else the row in the suite _PLAIN for the same program."""
    if run.plan:
        suite = load_suite(run.plan.suite) if run.plan.suite in suite_names() else None
        return next((row for row in suite.rows if row.name == run.row), None) if suite else None
    row = next((row for row in load_suite(_PLAIN).rows if row.program == run.tool), None)
    return msgspec.structs.replace(row, name=row.program) if row else None


def report(directory: Path) -> Verdict:
    """Print the result of the runs, as `schedline run` does."""
    suite, runs = gathered(directory)
    rows = {row.name: row for row in suite.rows}
    judged = [judge_run(rows[name], number, found) for (name, number), found in runs.items()]
    plan = saved_plan(directory)
    for run in plan.order if plan else ():
        if not (directory / run.file).exists():
            print(f"{run.row}, run {run.number}: {run.file} is missing")
            judged.append(JudgedRun(run.row, run.number, Verdict.ERROR, "its file is missing"))
    for line in table(suite, judged, runs):
        tell(line)
    machine = next(iter(runs.values())).fingerprint
    tell(f"measured on: {machine['machine']}; {machine['kernel']}")
    verdict = judge_all(judged)
    print(f"verdict: {verdict.value}")
    return verdict
