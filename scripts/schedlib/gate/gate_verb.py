# SPDX-License-Identifier: GPL-2.0
"""`schedline gate`: base against candidate, one verdict; and the verbs below it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from schedlib.cache import write_atomic
from schedlib.errors import SchedlineError
from schedlib.gate.gate_options import (
    BUDGET,
    DETECT,
    HISTORY_LIBRARY,
    LIBRARIES,
    PAGE_LIBRARIES,
    PLAN_FILE,
    UNFINISHED,
    UNFINISHED_AFTER_FAIL,
    UNSAID_UNIT,
    BootPlanOptions,
    GateOptions,
    HistoryOptions,
    given,
)
from schedlib.names import suite_of_gates, unknown, workload_rows
from schedlib.options import Verbs, add_verb, verbs_below

_GATE, _HISTORY = r"(?:fleet-)?gate-(?:unfinished-)?\d", r"gate-history-\d"
"""The schemas of results, as patterns."""


def add_parser(verbs: Verbs) -> None:
    """Add `schedline gate` and the verbs below it."""
    parser = add_verb(
        verbs,
        "gate",
        "base against candidate: one verdict from the runs of two kernels",
        first=[
            "schedline gate runs/base runs/candidate                    the verdict, and a table for a mail",
            "schedline gate runs/base runs/candidate --html page.html   and a page with each boot drawn",
        ],
        text="""
        BASE and CANDIDATE are directories of run files, one JSON for each run, as `schedline run` writes them. They are
        compared boot by boot; the runs of a boot are averaged.

        Boot both kernels in turn, in an order drawn by lot. The gate looks at 8, 12, 16 and 20 boots of each kernel;
        the gates file may say other numbers. FAIL, at the first look that shows it: a metric is worse, and over its
        budget. PASS, at the last look alone: no metric is worse by `detect` or more. INCONCLUSIVE: neither is shown
        yet; the text says how many boots are needed. Results of different machines or settings are rejected.

        With --unit the directories may hold files that other tools wrote, such as cyclictest --json; docs/gate.md lists
        them. What such files do not tell makes the result INCONCLUSIVE; --trust says that both sides are alike.

        With --fleet there is a directory for each machine, with its runs in base/ and candidate/. Effects are judged
        over all machines and for each model, which the runs name. A model that regresses is told by name, and a machine
        that cannot be judged is left out by name. docs/fleet.md says how.

        Two verbs stand below it: `gate plan` for the boots, and `gate history` for a trend over releases.

        The page of --html is one file that needs no network and no script: the verdict, the table, each metric drawn
        boot by boot, the environment, what was skipped, the command.""",
        examples=[
            "schedline gate runs/base runs/candidate --gates configs/gates/default.toml --json gate.json",
            "schedline gate results/base results/candidate --unit run --trust     files of cyclictest, hackbench, ...",
            "schedline gate runs/base runs/candidate --placebo runs/placebo    how much comes from the layout",
            "schedline gate runs/base runs/candidate --json gates/7.4.json    keep the result; gate history reads it",
            "schedline gate --fleet fleet --json fleet.json                    many machines: which models regress",
            "schedline gate plan --help                                        plan the boots, and have them made",
        ],
        operands="BASE CANDIDATE",
        options=GateOptions,
        read=_checked,
        unread=_remove_named,
        job="gate.comparison.gate",
        libraries=lambda options: PAGE_LIBRARIES if options.html else LIBRARIES,
    )
    below = verbs_below(parser)
    add_verb(
        below,
        "history",
        "verdicts over time, and creep below the budget",
        first=[
            "schedline gate history gates                     what gate --json has written to gates/",
            "schedline gate history gates --json history.json",
        ],
        text="""
        Reads the files that `schedline gate BASE CANDIDATE --json DIR/NAME.json` wrote, one for each gate. A metric
        creeps if it became worse by more than its budget over several gates. That is FAIL if the gates' own changes say
        so, too, and INCONCLUSIVE if the machine may have done it, or if fewer than 8 gates decided. Nor is it a PASS if
        a gate failed, whatever passed later, or if the newest one decided nothing.""",
        operands="DIR",
        options=HistoryOptions,
        read=_checked_history,
        unread=lambda words: _remove_named(words, _HISTORY),
        job="gate.history.show",
        libraries=(*LIBRARIES, HISTORY_LIBRARY),
    )
    add_verb(
        below,
        "plan",
        "plan the boots of a campaign, and write the service that makes them",
        first=[
            "schedline gate plan --kernels base=7.3-base,candidate=7.3-new --out campaign",
            "schedline gate plan campaign --status                how far it is",
        ],
        text="""
        Writes the order of all boots before the first one, with a systemd unit and a shell script. On each boot the
        service makes the runs of this boot, and boots the next kernel, once. The machine's own kernel stays the default
        of the boot loader. If a kernel hangs, somebody or a watchdog has to reset the machine. Then the machine's
        own kernel comes up, and the service notes the loss and repeats the boot. It also repeats a boot that was cut
        short. After three losses of one kernel in a row it stops.

        Write the plan on the machine that is measured. The bundle of `schedline run --pack` is enough there.

        The order is drawn by lot, in blocks with four boots of each kernel. In each block a drift of the machine meets
        all kernels alike. With --pairs each boot of the base is beside one of the candidate, and only the order of the
        two is drawn. The gate then compares within the pairs. That sees smaller changes from 12 boots on if the machine
        drifts; take short boots: --only, --runs 1.

        A kernel is LABEL=VERSION, as uname -r prints it, LABEL=IMAGE, or LABEL=VERSION:IMAGE[:INITRD]. The first is the
        base, the second the candidate, the third the placebo.""",
        examples=[
            "schedline gate plan --boots 12 --kernels base=boot/old,candidate=boot/new,placebo=boot/pad --out campaign",
            "schedline gate plan --boots 8..20 --kernels base=7.3-a,candidate=7.3-b --boot bootctl --out campaign",
            "schedline gate plan --pairs --only sleep-storm --kernels base=7.3-a,candidate=7.3-b --out campaign",
            "schedline gate plan campaign --step                  what the service does once in each boot",
        ],
        operands="[DIR]",
        options=BootPlanOptions,
        read=_checked_plan,
        job="gate.boot_plan.plan",
        download=False,
    )


def _remove(file: Path, kind: str = _GATE, *, page: bool = False) -> None:
    """Remove an earlier result: after an error it would be taken for this one's. /dev/stdout is written through.

    In a history a gate must not vanish: its place says that it did not end.
    """
    if file.is_file() and not file.is_symlink() and not file.is_relative_to("/dev") and os.access(file, os.W_OK):
        if (old := file.read_bytes()) and not re.search(rf'"schema":\s*"{kind}|^<!DOCTYPE html>'.encode(), old):
            raise SchedlineError(f"{file} is there, and is no result of a gate", "name another file")
        if page or kind != _GATE:
            file.unlink()
        else:
            failed = re.search(rb'^ ?"status": "FAIL"|"failed_before": true', old, re.M)
            write_atomic(file, UNFINISHED_AFTER_FAIL if failed else UNFINISHED)


def _remove_named(words: Sequence[str], kind: str = _GATE) -> None:
    """Remove the results that are named in words that cannot be read."""
    for word, after in zip(words, (*words[1:], ""), strict=True):
        option, _, file = word.partition("=")
        if option in ("--json", "--html"):
            with suppress(SchedlineError, OSError):
                _remove(Path(file or after).expanduser(), kind, page=option == "--html")


def _checked_history(options: HistoryOptions) -> HistoryOptions:
    if options.json:
        _remove(options.json, _HISTORY)
    return options


def _checked(options: GateOptions) -> GateOptions:
    if options.html:
        _remove(options.html, page=True)
    if options.json:
        _remove(options.json)
        if not options.json.exists():
            write_atomic(options.json, UNFINISHED)
    if options.incomplete and not options.incomplete.strip():
        raise SchedlineError("--incomplete gives no reason", "say why boots have no runs of a tool")
    for place in filter(None, (options.fleet, options.base, options.candidate, options.placebo)):
        # A kernel of a plan that never came up left no directory.
        planned = not place.exists() and any(
            (above / PLAN_FILE).is_file() for above in list(place.absolute().parents)[:2]
        )
        if not place.is_dir() and not planned:
            why = " is no directory" if place.exists() else ": no such file or directory"
            raise SchedlineError(f"{place}{why}", "name a directory of runs for each kernel")
    if options.fleet:
        for name, word in given(options):
            if name not in ("fleet", "gates", "json", "incomplete"):
                word = word if word.startswith("--") else name.upper()
                raise SchedlineError(f"--fleet compares runs on many machines: it has no {word}", f"leave out {word}")
        return options
    if not options.base or not options.candidate:
        lacking = "CANDIDATE" if options.base else "BASE and CANDIDATE"
        raise SchedlineError(f"{lacking}: no directory of runs was named", "schedline gate runs/base runs/candidate")
    if options.reading.columns and not options.reading.unit:
        raise SchedlineError("--columns belongs to files of other tools, and --unit is missing", UNSAID_UNIT)
    limits = options.budget or options.detect
    if limits and (options.gates or not options.reading.unit):
        raise SchedlineError(
            "--budget and --detect are for files of other tools without a gates file",
            "leave them out, or add --unit and leave out --gates",
        )
    if limits and (options.budget or BUDGET) > (options.detect or DETECT):
        raise SchedlineError("a PASS cannot exclude less than the budget", "give --detect PERCENT above --budget")
    return options


def _checked_plan(options: BootPlanOptions) -> BootPlanOptions:
    if options.directory:
        if options.status == options.step:
            raise SchedlineError(
                f"{options.directory} has a plan or not, and nothing is to be done", "--status or --step"
            )
        if options.out or options.boots or options.kernels:
            raise SchedlineError("a plan is never changed", "write a new one with --out, into another directory")
        return options
    for name in ("kernels", "out"):
        if not getattr(options, name):
            raise SchedlineError(f"--{name} is missing", "schedline gate plan --help; or name the directory of a plan")
    if not str(options.out).isprintable():
        raise SchedlineError("--out has a line end or another control character", "name another directory")
    suite = options.suite or suite_of_gates(options.gates)
    rows = workload_rows(suite) if suite else ()
    for name in options.only:
        if name not in rows:
            raise SchedlineError(unknown("row", name, rows), "name the suite of --only with --suite")
    return options
