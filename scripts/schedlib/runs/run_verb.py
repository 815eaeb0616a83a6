# SPDX-License-Identifier: GPL-2.0
"""`schedline run`: the workloads of a suite on this machine, in random order, with a file for each run."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, field
from pathlib import Path

from schedlib import names
from schedlib.errors import SchedlineError
from schedlib.names import one_of, split_list, unknown, workload_rows, workload_suites
from schedlib.options import (
    ChangeOptions,
    TreeOptions,
    Verbs,
    add_options,
    add_verb,
    cpu_count,
    existing_path,
    flag,
    fragments,
    new_directory,
    new_file,
    new_path,
    option,
    options_of,
    positive,
    seconds,
)
from schedlib.paths import PLAN

GUESTS = ("qemu-x86_64", "qemu-arm64")
"""The targets whose guests have a disk, through which results are returned."""


def _pythons(text: str) -> tuple[str, ...]:
    for version in split_list(text):
        if not re.fullmatch(r"3\.\d{1,3}", version) or int(version[2:]) < 11:
            raise argparse.ArgumentTypeError(
                f"{version!r} is no version of Python that schedline runs on: 3.11 or later"
            )
    return split_list(text)


@dataclass(frozen=True)
class GuestOptions:
    in_guest: bool = flag("--in-guest", "boot a kernel in QEMU and run the suite there (default suite: quick)")
    on: str | None = option(
        "--on TARGET", f"{' or '.join(GUESTS)} (default: {GUESTS[0]})", one_of("guest", lambda: GUESTS)
    )
    timeout: float | None = option("--timeout SECONDS", "end the guest after this time", seconds)
    cpus: int | None = option("--cpus N", "CPUs of the guest (default: 8)", cpu_count, group="shape")
    topology: str | None = option(
        "--topology NAME",
        "boot the guest with the shape in configs/topologies/NAME.toml",
        one_of("topology", names.topology_names),
        group="shape",
    )
    config: tuple[str, ...] = option(
        "--config FRAGMENT,...", "fragments of configs/kernel/, or paths, added in this order", fragments, default=()
    )


@dataclass(frozen=True)
class RunOptions:
    """A suite, where its runs go, and the kernel of a guest; without one, this machine.

    suite, runs, seed: None for those of the plan in `out`; without a plan, one run of each row in a new order.
    """

    suite: str | None = option(
        "--suite NAME",
        lambda: f"the workloads to run: {', '.join(workload_suites())}",
        one_of("suite", workload_suites),
    )
    runs: int | None = option("--runs N", "how often to run each workload (default: 1)", positive)
    out: Path | None = option(
        "--out DIR",
        "directory for the runs; each boot has its own below it (default: a new one in the cache)",
        new_directory,
    )
    seed: int | None = option("--seed N", "seed of the random order (default: a new one each time)", int)
    report: Path | None = option("--report DIR", "sum up the run files in DIR; run nothing", existing_path)
    lava: Path | None = option("--lava FILE", "write verdicts and figures in the format of send-to-lava.sh", new_path)
    only: tuple[str, ...] = option("--only ROW,...", "run only these rows of the suite", split_list, default=())
    listing: bool = flag("--list", "print the rows, their commands and durations; run nothing")
    tree: TreeOptions = field(default_factory=TreeOptions)
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    guest: GuestOptions | None = None


@dataclass(frozen=True)
class PackOptions:
    """A bundle for a machine that is to be measured. tree: whose kselftest.h the programs include."""

    file: Path = option("--pack FILE", "write the bundle (.tar.gz); run nothing", new_file)
    pythons: tuple[str, ...] = option(
        "--python X.Y,...", "versions of Python there (default: this one); others are downloaded", _pythons, default=()
    )
    looks: bool = flag("--looks", "pack also what `schedline gate` needs, so that a plan of boots can stop early")
    tree: TreeOptions | None = None


_OF_A_GUEST = ("kdir", "series", "with_", "without", "on", "cpus", "topology", "config", "timeout")


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "run",
        "RT and wake-up workloads and tools on this machine, one file for each run",
        first=[
            "schedline run --suite quick                           a few minutes: does everything work here?",
            "schedline run --suite gate --out runs/base            once in each boot; schedline gate compares boots",
        ],
        text="""
        Runs the workloads of a suite (configs/workloads/) in random order. Each run writes a JSON file (schema run-1)
        and a log to --out, in a directory for each boot. After Ctrl-C or kill -9 only the current run is lost: the
        same command goes on. After a reboot it starts a new boot, with a directory of its own. Nothing is installed;
        schedline changes no setting of the machine, and restores what a tool changes.

        With --in-guest, schedline builds a kernel as `schedline check` does and runs the suite in a guest, to see
        whether each workload works on that kernel. Latencies of emulated CPUs mean nothing.

        --pack makes an archive for a machine that is to be measured, which then needs the same version of Python, and
        no network, compiler or kernel source.

        PASS: every run did its work. FAIL: a run did no work, or reported a failure. ERROR: a required program is
        missing, or a run gave no result. INCONCLUSIVE: no workload can run here.""",
        examples=[
            "schedline run --out runs/base                   the same suite as in the boots that are there",
            "schedline run --suite quick --only cyclictest-quick,hackbench-quick",
            "schedline run --suite lkml --list",
            "schedline run --report runs/base                sum up all boots, also of another machine",
            "schedline run --pack bundle.tar.gz              make a bundle for another machine",
            "schedline run --in-guest                        quick, in QEMU, on 7.3 with all changes",
            "schedline run --in-guest --kdir ~/linux --topology jacobsville --on qemu-arm64",
        ],
        read=_read,
        job="runs.run_job.run",
        download=False,
    )
    add_options(parser, RunOptions)
    add_options(parser.add_argument_group("a bundle for another machine"), PackOptions)
    guest = parser.add_argument_group(
        "in a guest",
        "The kernel is chosen as for check, with --kdir, --series, --with and --without (default: 7.3 with all "
        "changes).",
    )
    add_options(guest, GuestOptions)


def _read(arguments: argparse.Namespace) -> RunOptions | PackOptions:
    if arguments.file:
        return _read_pack(arguments)
    if arguments.pythons or arguments.looks:
        raise SchedlineError("--python and --looks are for a bundle", "add --pack FILE")
    given = [name for name in _OF_A_GUEST if getattr(arguments, name)]
    if given and not arguments.in_guest:
        raise SchedlineError(
            f"--{given[0].strip('_')} is for a guest, and without --in-guest the workloads run on this machine",
            "add --in-guest",
        )
    suite: str | None = arguments.suite or ("quick" if arguments.in_guest else None)
    begun = arguments.out is not None and (any(arguments.out.glob(f"*/{PLAN}")) or (arguments.out / PLAN).exists())
    if not (suite or begun or arguments.report):
        raise SchedlineError("no suite is named", f"--suite with one of {', '.join(workload_suites())}")
    rows = workload_rows(suite) if suite else ()
    for name in arguments.only:
        if rows and name not in rows:
            raise SchedlineError(unknown("row", name, rows), f"schedline run --suite {suite} --list")
    guest = options_of(GuestOptions, arguments) if arguments.in_guest else None
    return options_of(RunOptions, arguments, suite=suite, guest=guest)


def _read_pack(arguments: argparse.Namespace) -> PackOptions:
    others = ("suite", "only", "runs", "seed", "out", "lava", "listing", "report", "in_guest", *_OF_A_GUEST[2:])
    if given := [name for name in others if getattr(arguments, name)]:
        raise SchedlineError(
            f"--pack runs nothing, and has no --{given[0].strip('_').replace('_', '-')}", "leave it out"
        )
    return options_of(PackOptions, arguments, tree=options_of(TreeOptions, arguments))
