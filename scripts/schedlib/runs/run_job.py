# SPDX-License-Identifier: GPL-2.0
"""Plan the runs of a suite, make them on this machine or in a guest, write their files, and judge them."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from schedlib.cache import cache_dir, lock, write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.plan_document import PlannedRun, RunPlan
from schedlib.kernel.machine import fingerprint, now
from schedlib.progress import say, step
from schedlib.runs import guest_runs, restore
from schedlib.runs.measure import KEPT, Means, measure
from schedlib.runs.plan import new_plan, refuse_another, saved_plan, why_not_kept
from schedlib.runs.programs import compiled
from schedlib.runs.run_options import PLAN, RunOptions
from schedlib.runs.runs_report import clock, conclude
from schedlib.runs.tool_process import why_no_fifo
from schedlib.runs.tools.tool_table import TOOLS
from schedlib.runs.workload_suites import Suite, chosen, load_suite
from schedlib.verdict import Verdict


def list_rows(options: RunOptions) -> Verdict:
    """Print the rows of a suite, their commands and durations."""
    suite = _suite(options)
    print(f"{suite.name}: {suite.about}")
    for row in suite.rows:
        words = " ".join([TOOLS[row.tool].program or row.tool if row.tool else row.program, *row.words()])
        needs = ", ".join(word for word, there in (("required", row.required), ("SCHED_FIFO", row.realtime)) if there)
        missing = row.tool and not TOOLS[row.tool].path()
        told = [f"about {clock(row.seconds)}", needs, TOOLS[row.tool].missing() if missing else ""]
        print(f"{row.name}: {words}\n    {'; '.join(filter(None, told))}")
    print(f"one run of each: about {clock(sum(row.seconds for row in suite.rows))}")
    return Verdict.PASS


def run(options: RunOptions) -> Verdict:
    """Make the runs of a suite that do not exist yet, and judge all of them.

    Raises:
        SchedlineError: the directory belongs to other runs, or the machine or the kernel does not allow them.
    """
    suite = _suite(options)
    cache = cache_dir()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    out = (options.out or cache / "runs" / f"{suite.name}-{stamp}-{os.getpid()}").absolute()
    # One journal for all directories: after a crash, the next command may use another directory.
    journal = cache / "workloads" / "settings.json"
    # Two measurements at a time would disturb each other.
    with lock(out / ".lock"), lock(cache / "workloads" / "lock"):
        _remains(out, journal)
        if options.guest:
            return guest_runs.run_in_guest(options, options.guest, suite, out)
        return _run_here(options, suite, out, cache, journal)


def _suite(options: RunOptions) -> Suite:
    """The rows that the options name, or those of the plan in the directory."""
    saved = saved_plan(options.out) if options.out and not options.suite else None
    if options.suite is None and saved is None:
        raise SchedlineError(f"{options.out} has no plan", "name a suite with --suite")
    suite = load_suite(options.suite or (saved.suite if saved else ""))
    return chosen(suite, options.only or (saved.rows if saved else ()))


def _remains(out: Path, journal: Path) -> None:
    """Clean up after a runner that was killed."""
    for line in restore.replay(journal):
        say(f"after a crash: {line}")
    for place in out.glob(".now-*"):
        shutil.rmtree(place, ignore_errors=True)
    for pattern in (".plan.*", ".*.json.*", ".*.log.*"):
        for file in out.glob(pattern):
            file.unlink(missing_ok=True)


def _run_here(options: RunOptions, suite: Suite, out: Path, cache: Path, journal: Path) -> Verdict:
    started, _ = now()
    machine = fingerprint()
    plan = _plan(options, suite, out, machine)
    todo = [run for run in plan.order if why_not_kept(plan, run, out)]
    again = f"schedline run --out {shlex.quote(str(out))}"
    say(f"suite {plan.suite}: {len(suite.rows)} workloads, runs of each: {plan.runs}, seed {plan.seed}; {out}")
    if len(todo) < len(plan.order):
        say(f"{len(plan.order) - len(todo)} of {len(plan.order)} runs are done and valid")
    own = {row.program for row in suite.rows if row.program and any(run.row == row.name for run in todo)}
    programs = compiled(cache, own) if own else None
    document.write(out / PLAN, plan)
    try:
        _measure_all(suite, plan, todo, out, Means(programs, machine, why_no_fifo()), journal)
    except (KeyboardInterrupt, SystemExit):
        say(f"stopped; finished runs are kept. next: {again}")
        raise
    verdict, missing = conclude(options, suite, plan, out, machine, started)
    if missing:
        say("next: schedline doctor says what to install; then " + again)
    print(f"runs: {out}\nverdict: {verdict.value}")
    return verdict


def _plan(options: RunOptions, suite: Suite, out: Path, machine: dict[str, str]) -> RunPlan:
    saved = saved_plan(out)
    seed = options.seed if options.seed is not None else saved.seed if saved else secrets.randbelow(1 << 32)
    wanted = new_plan(suite, options.runs or (saved.runs if saved else 1), seed, machine)
    if saved:
        refuse_another(saved, wanted, out)
        if options.seed is not None and options.seed != saved.seed:
            raise SchedlineError(f"{out} was started with --seed {saved.seed}", "name another directory with --out")
    return saved or wanted


def _measure_all(
    suite: Suite, plan: RunPlan, todo: Sequence[PlannedRun], out: Path, means: Means, journal: Path
) -> None:
    """Make the runs that are left, in the order of the plan."""
    rows = {row.name: row for row in suite.rows}
    expected = {row.name: row.seconds for row in suite.rows}
    for done, run in enumerate(todo):
        row = rows[run.row]
        left = sum(expected[each.row] for each in todo[done:])
        text = f"{done + 1} of {len(todo)}: {run.row}, run {run.number}, {clock(left)} left"
        # Use the disk of the results, so that a full disk is noticed.
        with tempfile.TemporaryDirectory(dir=out, prefix=".now-") as place, step(text):
            with restore.kept_settings(journal):
                measured = measure(row, means, Path(place))
            if measured.run.status == "ERROR" and not shutil.disk_usage(place).free:
                full = f"the disk of {out} is full: the output of {run.row} was cut off"
                raise SchedlineError(full, "make room: df -h")
            if (Path(place) / KEPT).exists():
                shutil.copyfile(Path(place) / KEPT, out / f"{run.row}-{run.number}.{KEPT}")
        found = replace(measured.run, plan=plan.part(run))
        if found.status != "DONE":
            say(f"    {found.status}: {found.reason}")
        expected[run.row] = found.seconds if found.status != "ERROR" else row.seconds
        write_atomic(out / run.log, measured.log)
        document.write(out / run.file, found)
