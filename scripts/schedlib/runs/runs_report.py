# SPDX-License-Identifier: GPL-2.0
"""Judges the runs of a plan, and reports them as text and for LAVA. Nothing here measures."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from schedlib.cache import write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats.run_file import Run, read_run, runs_below
from schedlib.paths import PLAN
from schedlib.progress import print_untrusted, printable
from schedlib.runs.plan import SAME, RunPlan, read_plan
from schedlib.runs.run_verb import RunOptions
from schedlib.runs.workload_suites import Suite, WorkloadRow, load_suite, suite_names
from schedlib.verdict import Verdict, worst

Runs = Mapping[tuple[str, int], Run]
"""Runs by the name of their row and their number."""

_MARKS = {Verdict.PASS: "ok", Verdict.FAIL: "FAIL", Verdict.ERROR: "ERROR", Verdict.INCONCLUSIVE: "skip"}
_LAVA = {Verdict.PASS: "pass", Verdict.FAIL: "fail", Verdict.ERROR: "fail", Verdict.INCONCLUSIVE: "skip"}


Judged = Mapping[tuple[str, int], tuple[Verdict, str]]
"""The same for their verdicts, with the reasons. INCONCLUSIVE: it was skipped."""


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


def lacks_program(row: WorkloadRow, found: Run) -> bool:
    return found.status == "SKIP" and bool(row.required and found.process and found.process.missing)


def judge_run(row: WorkloadRow, found: Run) -> tuple[Verdict, str]:
    """Judge a run by its file. An exit status of 0 does not prove that it worked, nor 1 that it failed."""
    process, verdict, reason = found.process, Verdict.ERROR, found.reason
    if found.status == "SKIP" and not lacks_program(row, found):
        # judge_all() ignores it if other runs measured something.
        verdict = Verdict.INCONCLUSIVE
    elif found.status == "DONE":
        reason = _lacking(row, found) or found.trouble
        if not reason and row.program and process and process.exit_status:
            reason = "one of its tests failed: see its log"
        verdict = Verdict.FAIL if reason else Verdict.PASS
    return verdict, reason


def judge_all(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of all runs. Skips count only if there is nothing else."""
    return worst(each for each in verdicts if each is not Verdict.INCONCLUSIVE)


def clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min" if whole < 7200 else f"{whole / 3600:.1f} h"


def _figures(values: Sequence[float]) -> str:
    middle = f"{statistics.median(values):.6g}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.4g} to {max(values):.4g})"


def _noise(runs: Sequence[Run]) -> str:
    found = [run.noise for run in runs if run.noise]
    if not found:
        return ""

    def total(name: str) -> float:
        return sum(getattr(each, name) or 0 for each in found)

    seconds = total("seconds") or 1
    parts = [
        f"steal {100 * total('steal_s') / seconds:.1f} %",
        f"other work {total('foreign_cpu_s') / seconds:.2f} CPUs",
        f"{total('foreign_switches') / seconds:.0f} switches/s",
    ]
    for name, what in (("thermal_throttles", "thermal throttles"), ("cgroup_throttles", "CPU quota throttles")):
        if times := total(name):
            parts.append(f"{times} {what}")
    return ", ".join(parts)


def _values(row: WorkloadRow, runs: Sequence[Run]) -> Iterator[tuple[str, str, list[float]]]:
    """The metrics of a row: name, unit, and the value in each run that has one."""
    for name, unit in row.metrics.items():
        yield name, unit, [value for run in runs if (value := run.value(name)) is not None]


def _tell_table(rows: Mapping[str, WorkloadRow], judged: Judged, runs: Runs) -> None:
    """Print each row, its figures as median (minimum to maximum) over the runs, and its noise."""
    for row in rows.values():
        mine = [each for (name, _), each in judged.items() if name == row.name]
        done = [run for (name, _), run in runs.items() if name == row.name and run.status == "DONE"]
        verdicts = [verdict for verdict, _ in mine]
        counts = ", ".join(f"{verdicts.count(each)} {mark}" for each, mark in _MARKS.items() if each in verdicts)
        timed = [run.seconds for run in done if run.process]
        print_untrusted(f"{row.name}: {counts or 'not run'}" + (f", {_figures(timed)} s" if timed else ""))
        for name, unit, values in _values(row, done):
            reasons = {why for run in done if (why := run.why_absent(name))}
            if values:
                print_untrusted(f"    {name}  {_figures(values)} {unit}")
            elif reasons:
                print_untrusted(f"    {name}  absent: {min(reasons)}")
        if noise := _noise(done):
            print_untrusted(f"    interference: {noise}")
        for reason in dict.fromkeys(reason for _, reason in mine if reason):
            print_untrusted(f"    {reason}")


def _lava(rows: Mapping[str, WorkloadRow], judged: Judged, runs: Runs) -> str:
    """The format that send-to-lava.sh of Linaro's test-definitions reads: test, result; metrics with value and unit."""
    lines = []
    for row in rows.values():
        mine = {key: verdict for key, (verdict, _) in judged.items() if key[0] == row.name}
        lines.append(f"{row.name} {_LAVA[judge_all(mine.values())]}")
        done = [runs[key] for key in mine if mine[key] is Verdict.PASS]
        for name, unit, values in _values(row, done):
            if values:
                lines.append(f"{row.name}.{name} pass {statistics.median(values):.9g} {unit}")
    return "\n".join(lines) + "\n"


def conclude(options: RunOptions, suite: Suite, plan: RunPlan, out: Path) -> tuple[Verdict, bool]:
    rows = suite.rows
    runs = {(run.row, run.number): read_run(out / run.file) for run in plan.order}
    ordered = sorted(runs, key=lambda key: (plan.rows.index(key[0]), key[1]))
    judged = {key: judge_run(rows[key[0]], runs[key]) for key in ordered}
    _tell_table(rows, judged, runs)
    if options.lava:
        write_atomic(options.lava, _lava(rows, judged, runs))
    verdict = judge_all(verdict for verdict, _ in judged.values())
    return verdict, any(lacks_program(rows[name], run) for (name, _), run in runs.items())


def _row(run: Run) -> WorkloadRow | None:
    """The row of this run: from its plan, or else the row of the suite `quick` for the same program."""
    if run.plan:
        return load_suite(run.plan.suite).rows.get(run.row) if run.plan.suite in suite_names() else None
    row = next((row for row in load_suite("quick").rows.values() if row.program == run.tool), None)
    return msgspec.structs.replace(row, name=row.program) if row else None


def report(directory: Path) -> Verdict:
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
    judged = {key: judge_run(rows[key[0]], run) for key, run in runs.items()}
    for plan in (*directory.glob(PLAN), *sorted(directory.glob(f"*/{PLAN}"))):
        for planned in read_plan(plan).order:
            if not plan.with_name(planned.file).exists():
                print(f"{planned.row}, run {planned.number}: {plan.with_name(planned.file)} is missing")
                # The runs above are numbered as they were found.
                judged[planned.row, -len(judged)] = Verdict.ERROR, "its file is missing"
    _tell_table(dict(sorted(rows.items())), judged, runs)
    machine = next(iter(runs.values())).fingerprint
    boots = {run.fingerprint["boot_id"] for run in runs.values()}
    print_untrusted(f"measured on: {machine['machine']}; {machine['kernel']}; boots: {len(boots)}")
    verdict = judge_all(each for each, _ in judged.values())
    print(f"verdict: {verdict.value}")
    return verdict
