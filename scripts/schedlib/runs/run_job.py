# SPDX-License-Identifier: GPL-2.0
"""Plan the runs of a suite, make them on this machine or in a guest, write their files, and judge them."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from schedlib.cache import cache_dir, lock
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.kernel.machine import fingerprint
from schedlib.paths import PLAN
from schedlib.progress import say, step
from schedlib.runs.measure import KEPT, Measured, measure
from schedlib.runs.plan import PlannedRun, RunPlan, boots_in, new_plan, refuse_another, runs_wanted, why_not_kept
from schedlib.runs.programs import compiled, pack
from schedlib.runs.run_verb import PackOptions, RunOptions
from schedlib.runs.runs_report import clock, conclude, report
from schedlib.runs.tool_process import kept_settings, replay, why_no_fifo
from schedlib.runs.tools import TOOLS
from schedlib.runs.workload_suites import Suite, WorkloadRow, chosen, load_suite
from schedlib.verdict import Verdict


def run(wanted: RunOptions | PackOptions) -> Verdict:
    """Make the runs of a suite, sum up what was measured, list the rows of a suite, or pack a bundle."""
    if isinstance(wanted, PackOptions):
        return pack(wanted)
    if wanted.report:
        return report(wanted.report)
    boots = boots_in(wanted.out) if wanted.out else []
    saved = boots[-1][1] if boots and not wanted.suite else None
    suite = load_suite(wanted.suite or (saved.suite if saved else ""))
    suite = chosen(suite, wanted.only or (saved.rows if saved else ()))
    if wanted.listing:
        return _list(suite)
    cache = cache_dir()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    out = (wanted.out or cache / "runs" / f"{suite.name}-{stamp}-{os.getpid()}").absolute()
    # One journal for all directories: after a crash, the next command may use another directory.
    journal = cache / "workloads" / "settings.json"
    # Two measurements at a time would disturb each other.
    with lock(out / ".lock"), lock(cache / "workloads" / "lock"):
        _clean_up(out, journal)
        if wanted.guest:
            from schedlib.runs.guest_runs import run_in_guest

            return run_in_guest(wanted, wanted.guest, suite, out)
        return _run_here(wanted, suite, out, cache, journal)


def _list(suite: Suite) -> Verdict:
    print(f"{suite.name}: {suite.about}")
    for row in suite.rows.values():
        words = " ".join([TOOLS[row.tool].program or row.tool if row.tool else row.program, *row.to_argv()])
        needs = ", ".join(word for word, there in (("required", row.required), ("SCHED_FIFO", row.realtime)) if there)
        missing = row.tool and not TOOLS[row.tool].path()
        told = [f"about {clock(row.seconds)}", needs, TOOLS[row.tool].missing() if missing else ""]
        print(f"{row.name}: {words}\n    {'; '.join(filter(None, told))}")
    print(f"one run of each: about {clock(sum(row.seconds for row in suite.rows.values()))}")
    return Verdict.PASS


def _clean_up(out: Path, journal: Path) -> None:
    """Remove what a runner left that was killed, and restore the settings."""
    for line in replay(journal):
        say(f"after a crash: {line}")
    for boot in (out, *(plan.parent for plan in out.glob(f"*/{PLAN}"))):
        for place in boot.glob(".now-*"):
            shutil.rmtree(place, ignore_errors=True)
        for pattern in (".plan.*", ".*.json.*", ".*.log.*"):
            for file in boot.glob(pattern):
                file.unlink(missing_ok=True)


def _run_here(options: RunOptions, suite: Suite, out: Path, cache: Path, journal: Path) -> Verdict:
    machine = fingerprint()
    boots = boots_in(out)
    place = out / machine["boot_id"]
    saved = dict(boots).get(place)
    seed = options.seed if options.seed is not None else saved.seed if saved else secrets.randbelow(1 << 32)
    wanted = new_plan(suite, runs_wanted(options.runs, boots), seed, machine)
    for _, plan in boots:
        refuse_another(plan, wanted, out)
    if saved and saved.seed != seed:
        raise SchedlineError(f"{place} was started with --seed {saved.seed}", "name another directory with --out")
    plan = saved or wanted
    todo = [run for run in plan.order if why_not_kept(plan, run, place)]
    again = f"schedline run --out {shlex.quote(str(out))}"
    earlier = [boot for boot, _ in boots if boot != place]
    say(f"suite {plan.suite}: {len(suite.rows)} workloads, runs of each: {plan.runs}, seed {plan.seed}")
    say(f"boot {len(earlier) + 1} in {out}: {place.name}")
    if len(todo) < len(plan.order):
        say(f"{len(plan.order) - len(todo)} of {len(plan.order)} runs are done and valid")
    own = {program for run in todo if (program := suite.rows[run.row].program)}
    programs = compiled(cache, own) if own else None
    document.write(place / PLAN, plan)
    try:
        make = partial(measure, programs=programs, fingerprint=machine, no_fifo=why_no_fifo())
        _measure_all(suite, plan, todo, place, make, journal)
    except (KeyboardInterrupt, SystemExit):
        say(f"stopped; finished runs are kept. next: {again}")
        raise
    verdict, missing = conclude(options, suite, plan, place)
    if missing:
        say("next: schedline doctor says what to install; then " + again)
    for boot, other in boots:
        if boot != place and (lacking := sum(why_not_kept(other, run, boot) is not None for run in other.order)):
            say(
                f"boot {boot.name} lacks {lacking} of {len(other.order)} runs: remove {boot} before you compare kernels"
            )
    print(f"runs: {place}\nverdict: {verdict.value}")
    return verdict


def _measure_all(
    suite: Suite,
    plan: RunPlan,
    todo: Sequence[PlannedRun],
    out: Path,
    make: Callable[[WorkloadRow, Path], Measured],
    journal: Path,
) -> None:
    expected = {name: row.seconds for name, row in suite.rows.items()}
    for done, run in enumerate(todo):
        row = suite.rows[run.row]
        left = sum(expected[each.row] for each in todo[done:])
        text = f"{done + 1} of {len(todo)}: {run.row}, run {run.number}, {clock(left)} left"
        # Use the disk of the results, so that a full disk is noticed.
        with tempfile.TemporaryDirectory(dir=out, prefix=".now-") as place, step(text):
            with kept_settings(journal):
                found, log = make(row, Path(place))
            if found.status == "ERROR" and not shutil.disk_usage(place).free:
                full = f"the disk of {out} is full: the output of {run.row} was cut off"
                raise SchedlineError(full, "make room: df -h")
            if (Path(place) / KEPT).exists():
                shutil.copyfile(Path(place) / KEPT, out / f"{run.name}.{KEPT}")
        if found.status != "DONE":
            say(f"    {found.status}: {found.reason}")
        expected[run.row] = found.seconds if found.status != "ERROR" else row.seconds
        plan.keep(out, run, found, log)
