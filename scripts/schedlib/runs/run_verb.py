# SPDX-License-Identifier: GPL-2.0
"""`schedline run`: the workloads of a suite on this machine, in random order, each run a file."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir, lock, make_writable, write_atomic, write_json
from schedlib.errors import SchedlineError
from schedlib.progress import say, step
from schedlib.runs import guest_verb, restore
from schedlib.runs.conclude import conclude
from schedlib.runs.gathered import report
from schedlib.runs.machine import fingerprint, now
from schedlib.runs.measure import KEPT, Means, measure
from schedlib.runs.plan import Plan, Run, new_plan, refuse_another, save_plan, saved_plan, why_not_kept
from schedlib.runs.programs import compiled, forget_old
from schedlib.runs.runs_report import clock, duration
from schedlib.runs.tool_process import why_no_fifo
from schedlib.runs.tools.tool_table import TOOLS
from schedlib.runs.workload_suites import Suite, chosen, load_suite, suite_names

_EXAMPLES = """\
examples:
  schedline run --suite quick
  schedline run --suite rt --runs 10 --out results/rt       a plan in a directory; the same again goes on with it
  schedline run --out results/rt                            the same: suite and runs are in the directory
  schedline run --suite quick --only cyclictest,hackbench
  schedline run --suite lkml --list
  schedline run --report results/rt                         what runs amount to that were brought home; runs nothing
  schedline run --in-guest                                  quick, in QEMU, on 7.3 with all changes
  schedline run --in-guest --kdir ~/linux --topology jacobsville --on qemu-arm64"""

_DESCRIPTION = """\
Runs the workloads of a suite (configs/workloads/), each in runs of its own, in random order. Each run becomes a JSON
file (schema run-1) and a log. Ctrl-C, kill -9 or a reboot lose the run that is under way, and nothing else: the same
command goes on. No setting of the machine is changed; what a tool changes is put back. Thresholds are held by the
workloads of selftests/sched_latency themselves: see their --record.

With --in-guest a kernel is built as by check, and a guest with busybox runs the suite: does every workload work on that
kernel? The latencies of emulated CPUs say nothing; thresholds that need real caches are skips.

PASS: every run did its work. FAIL: one did none, or says that it failed. ERROR: a required program is missing, or a
run came to nothing. INCONCLUSIVE: nothing could be run here."""


def _runs(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1000:
        raise ValueError
    return value


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline run`."""
    parser = subparsers.add_parser(
        "run",
        help="RT and wake-up workloads and tools on this machine, each run a file",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--suite", metavar="NAME", help=f"what to run: {', '.join(suite_names())}")
    parser.add_argument("--runs", type=_runs, metavar="N", help="how often each (1)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the runs go (default: a new one in the cache)")
    parser.add_argument(
        "--only",
        type=lambda text: tuple(filter(None, text.split(","))),
        default=(),
        metavar="ROW,...",
        help="these rows of the suite",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of the random order (a new one each time)")
    parser.add_argument("--list", action="store_true", help="print the rows, their commands and durations; run nothing")
    parser.add_argument(
        "--report", type=Path, metavar="DIR", help="print what the run files there amount to; run nothing"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what the runs amount to")
    parser.add_argument(
        "--lava", type=Path, metavar="FILE", help="write verdicts and figures as send-to-lava.sh reads them"
    )
    guest_verb.add_options(parser)
    parser.set_defaults(run=_run)


def _suite(arguments: argparse.Namespace, saved: Plan | None) -> Suite:
    if not arguments.suite and not saved and not arguments.in_guest:
        raise SchedlineError("no suite is named", f"--suite with one of {', '.join(suite_names())}")
    suite = load_suite(arguments.suite or (saved.suite if saved else "quick"))
    only = arguments.only or (saved.rows if saved and not arguments.suite else ())
    return chosen(suite, only)


def _list(suite: Suite) -> int:
    print(f"{suite.name}: {suite.about}")
    for row in suite.rows:
        words = " ".join([TOOLS[row.tool].program or row.tool if row.tool else row.program, *row.words()])
        needs = ", ".join(word for word, there in (("required", row.required), ("SCHED_FIFO", row.realtime)) if there)
        missing = row.tool and not TOOLS[row.tool].path()
        print(
            f"{row.name}: {words}\n    about {clock(row.seconds)}{'; ' if needs else ''}{needs}"
            f"{'; ' + TOOLS[row.tool].missing() if missing else ''}"
        )
    print(f"one run of each: about {clock(sum(row.seconds for row in suite.rows))}")
    return 0


def _directory(arguments: argparse.Namespace, cache: Path, suite: Suite) -> Path:
    """Where the runs go; writable.

    Raises:
        SchedlineError: it is not.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    out: Path = (arguments.out or cache / "runs" / f"{suite.name}-{stamp}-{os.getpid()}").absolute()
    try:
        make_writable(out)
    except OSError as error:
        raise SchedlineError(
            f"the runs cannot be written to {out}: {error.strerror}", "name another directory with --out"
        ) from error
    return out


def _plan(arguments: argparse.Namespace, suite: Suite, out: Path, machine: dict[str, str]) -> Plan:
    saved = saved_plan(out)
    seed = arguments.seed if arguments.seed is not None else saved.seed if saved else secrets.randbelow(1 << 32)
    wanted = new_plan(suite, arguments.runs or (saved.runs if saved else 1), seed, machine)
    if saved:
        refuse_another(saved, wanted, out)
        if arguments.seed is not None and arguments.seed != saved.seed:
            raise SchedlineError(f"{out} was begun with --seed {saved.seed}", "name another directory with --out")
        return saved
    save_plan(wanted, out)
    return wanted


def _journal(cache: Path) -> Path:
    """One for all directories of runs: the next start need not go on with the same."""
    return cache / "workloads" / "settings.json"


def _measure_all(suite: Suite, plan: Plan, todo: Sequence[Run], out: Path, means: Means, journal: Path) -> None:
    """The runs that are left, in the order of the plan."""
    rows = {row.name: row for row in suite.rows}
    expected = {row.name: row.seconds for row in suite.rows}
    for done, run in enumerate(todo):
        row = rows[run.row]
        left = sum(expected[each.row] for each in todo[done:])
        text = f"{done + 1} of {len(todo)}: {run.row}, run {run.number}, {clock(left)} left"
        # On the disk of the runs: where that is full nothing is measured in vain.
        with tempfile.TemporaryDirectory(dir=out, prefix=".now-") as place, step(text):
            with restore.kept_settings(journal):
                measured = measure(row, means, Path(place))
            if measured.document["status"] == "ERROR" and not shutil.disk_usage(place).free:
                raise SchedlineError(
                    f"the disk of {out} is full: what {run.row} wrote there was cut", "make room: df -h"
                )
            if (Path(place) / KEPT).exists():
                shutil.copyfile(Path(place) / KEPT, out / f"{run.row}-{run.number}.{KEPT}")
        found = measured.document | {"plan": plan.part(run)}
        if found["status"] != "DONE":
            say(f"    {found['status']}: {found['reason']}")
        expected[run.row] = duration(found) if found["status"] != "ERROR" else row.seconds
        write_atomic(out / run.log, measured.log)
        write_json(out / run.file, found)


def _remains(out: Path, journal: Path) -> None:
    """What a runner that was killed has left."""
    for line in restore.replay(journal):
        say(f"after a crash: {line}")
    for place in out.glob(".now-*"):
        shutil.rmtree(place, ignore_errors=True)
    for pattern in (".plan.*", ".*.json.*", ".*.log.*"):
        for file in out.glob(pattern):
            file.unlink(missing_ok=True)


def _held(function: Callable[[], int], out: Path, cache: Path) -> int:
    """Alone in this directory, and alone on this machine: two that measure disturb each other."""
    with lock(out / ".lock", say), lock(cache / "workloads" / "lock", say):
        _remains(out, _journal(cache))
        return function()


def _run(arguments: argparse.Namespace) -> int:
    if arguments.report:
        return report(arguments.report)
    guest_verb.refuse_without_guest(arguments)
    saved = saved_plan(arguments.out) if arguments.out else None
    suite = _suite(arguments, saved)
    if arguments.list:
        return _list(suite)
    cache = cache_dir()
    out = _directory(arguments, cache, suite)
    work = guest_verb.run_in_guest if arguments.in_guest else _work
    return _held(lambda: work(arguments, suite, out), out, cache)


def _work(arguments: argparse.Namespace, suite: Suite, out: Path) -> int:
    cache = cache_dir()
    started, _ = now()
    machine = fingerprint()
    plan = _plan(arguments, suite, out, machine)
    todo = [run for run in plan.order if why_not_kept(plan, run, out)]
    again = f"schedline run --out {out}"
    say(f"suite {plan.suite}: {len(suite.rows)} workloads, runs of each: {plan.runs}, seed {plan.seed}; {out}")
    if len(todo) < len(plan.order):
        say(f"{len(plan.order) - len(todo)} of {len(plan.order)} are there and valid")
    own = {row.program for row in suite.rows if row.program and any(run.row == row.name for run in todo)}
    programs = None
    if own:
        doctor.ensure(["build"])
        programs = compiled(cache, own)
        forget_old(cache)
    try:
        _measure_all(suite, plan, todo, out, Means(programs, machine, why_no_fifo()), _journal(cache))
    except (KeyboardInterrupt, SystemExit):
        say(f"ended; what is done is kept. next: {again}")
        raise
    verdict, missing = conclude(suite, plan, out, machine, started, arguments.json, arguments.lava)
    if missing:
        say("next: schedline doctor tells what to install; then " + again)
    print(f"runs: {out}")
    print(f"verdict: {verdict.value}")
    return verdict.exit_code
