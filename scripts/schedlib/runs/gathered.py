# SPDX-License-Identifier: GPL-2.0
"""Runs that were made elsewhere, by `schedline run` or by the programs of the tarball, and brought home as files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from schedlib.cache import read_json
from schedlib.errors import SchedlineError
from schedlib.formats.run_file import defect
from schedlib.runs.plan import saved_plan
from schedlib.runs.run_judge import Judged, judge_all, judge_run
from schedlib.runs.runs_report import table
from schedlib.runs.workload_suites import Row, Suite, load_suite, suite_names
from schedlib.verdict import Verdict

Runs = dict[tuple[str, int], dict[str, Any]]

_PLAIN = "quick"
"""Its rows say what a program has to tell that was run without a plan."""


def gathered(directory: Path) -> tuple[Suite, Runs]:
    """Every run below a directory, with the rows that they are runs of.

    Raises:
        SchedlineError: there is none, a file is no whole run, or nothing says what it has to hold.
    """
    rows: dict[str, Row] = {}
    runs: Runs = {}
    documents = []
    for path in sorted(directory.rglob("*.json")):
        found = read_json(path)
        wrong = defect(found)
        if wrong or found is None:
            raise SchedlineError(f"{path} is no whole run: {wrong}", "do that run again, or remove the file")
        documents.append((found["started"], found["uptime_s"], str(path), found))
    for *_, name, found in sorted(documents, key=lambda each: each[:3]):
        row = _row(found)
        if row is None:
            raise SchedlineError(f"{name}: no suite has a row for {found['tool']}", "remove the file")
        rows[row.name] = row
        number = 1 + sum(each == row.name for each, _ in runs)
        runs[row.name, number] = found
    if not rows:
        raise SchedlineError(f"{directory} holds no run file", "name a directory of run files: one run, one JSON")
    return Suite(directory.name, "brought home", tuple(rows[name] for name in sorted(rows))), runs


def _row(found: Mapping[str, Any]) -> Row | None:
    """What this run has to tell: by its plan, else as the workload of the same name in the plain suite."""
    plan = found.get("plan") or {"suite": _PLAIN}
    if plan["suite"] not in suite_names():
        return None
    for row in load_suite(plan["suite"]).rows:
        if row.name == plan.get("row"):
            return row
        if "row" not in plan and row.program == found["tool"]:
            return replace(row, name=row.program)
    return None


def report(directory: Path) -> int:
    """Print what the runs amount to, as after `schedline run`; the exit code of their verdict."""
    suite, runs = gathered(directory)
    rows = {row.name: row for row in suite.rows}
    judged = [judge_run(rows[name], number, found) for (name, number), found in runs.items()]
    plan = saved_plan(directory)
    for run in plan.order if plan else ():
        if not (directory / run.file).exists():
            print(f"{run.row}, run {run.number}: {run.file} is not there")
            judged.append(Judged(run.row, run.number, Verdict.ERROR, "not there"))
    for line in table(suite, judged, runs):
        print(line)
    for text in sorted({f"{run['fingerprint']['machine']}; {run['fingerprint']['kernel']}" for run in runs.values()}):
        print(f"measured on: {text}")
    verdict = judge_all(judged)
    print(f"verdict: {verdict.value}")
    return verdict.exit_code
