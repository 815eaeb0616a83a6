# SPDX-License-Identifier: GPL-2.0
"""`schedline run`: the workloads of a suite on this machine, in random order, with a file for each run."""

from __future__ import annotations

import argparse
import re

from schedlib import options
from schedlib.errors import SchedlineError
from schedlib.names import one_of, unknown, words, workload_rows, workload_suites
from schedlib.options import Verbs, add_verb, options_of
from schedlib.runs.run_options import GUESTS, PLAN, GuestOptions, PackOptions, RunOptions
from schedlib.verdict import Verdict

_OF_A_GUEST = ("kdir", "series", "with_", "without", "on", "cpus", "topology", "config", "cpupri", "timeout")


def add_parser(verbs: Verbs) -> None:
    """Add `schedline run`."""
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
        same command goes on. After a reboot the same command starts a new boot, with a directory of its own.
        schedline changes no setting of the machine, and restores what a tool changes. Nothing is installed or
        downloaded. The workloads of selftests/sched_latency have thresholds of their own: see their --record.

        With --in-guest, schedline builds a kernel as `schedline check` does and runs the suite in a guest with
        busybox, to see whether each workload works on that kernel. Latencies of emulated CPUs mean nothing. Thresholds
        that need real caches are skipped.

        --pack makes an archive for a machine that is to be measured. It has schedline, the compiled workloads and the
        Python libraries. That machine needs Python and nothing else: no network, no compiler, no kernel source.

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
        job=_run,
        download=False,
    )
    one, new, suites = one_of("suite", workload_suites), options.new_path, ", ".join(workload_suites())
    options.add_values(
        parser,
        ("--suite", one, "NAME", f"the workloads to run: {suites}"),
        ("--runs", _runs, "N", "how often to run each workload (default: 1)"),
        (
            "--out",
            options.new_directory,
            "DIR",
            "directory for the runs; each boot has its own below it (default: a new one in the cache)",
        ),
        ("--seed", int, "N", "seed of the random order (default: a new one each time)"),
        ("--report", options.existing_path, "DIR", "sum up the run files in DIR; run nothing"),
        ("--json", new, "FILE", "write the summary as JSON (schema runs-1)"),
        ("--lava", new, "FILE", "write verdicts and figures in the format of send-to-lava.sh"),
    )
    parser.add_argument("--only", type=words, default=(), metavar="ROW,...", help="run only these rows of the suite")
    listing = "print the rows, their commands and durations; run nothing"
    parser.add_argument("--list", dest="listing", action="store_true", help=listing)
    bundle = parser.add_argument_group("a bundle for another machine")
    options.add_values(
        bundle,
        ("--pack", options.new_file, "FILE", "write the bundle (.tar.gz); run nothing"),
        ("--python", _pythons, "X.Y,...", "versions of Python there (default: this one); others are downloaded"),
    )
    about = "pack also what `schedline gate` needs, so that a plan of boots can stop early"
    bundle.add_argument("--looks", action="store_true", help=about)
    group = parser.add_argument_group(
        "in a guest",
        "The kernel is chosen as for check, with --kdir, --series, --with and --without (default: 7.3 with all "
        "changes).",
    )
    in_guest = "boot a kernel in QEMU and run the suite there (default suite: quick)"
    group.add_argument("--in-guest", action="store_true", help=in_guest)
    options.add_tree_options(parser)
    options.add_change_options(parser)
    targets = f"{' or '.join(GUESTS)} (default: {GUESTS[0]})"
    options.add_values(
        group,
        ("--on", one_of("guest", lambda: GUESTS), "TARGET", targets),
        ("--timeout", options.seconds, "SECONDS", "end the guest after this time"),
    )
    shape = group.add_mutually_exclusive_group()
    shape.add_argument("--cpus", type=options.cpu_count, metavar="N", help="CPUs of the guest (default: 8)")
    options.add_topology_option(shape, "boot the guest with the shape in configs/topologies/NAME.toml")
    options.add_config_option(group, "fragments of configs/kernel/, or paths, added in this order")
    options.add_cpupri_option(group, "boot a guest with cpupri-split for each variant")


def _runs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of runs; 1 to 1000 are possible")
    return int(text)


def _pythons(text: str) -> tuple[str, ...]:
    for version in words(text):
        if not re.fullmatch(r"3\.\d{1,3}", version) or int(version[2:]) < 11:
            raise argparse.ArgumentTypeError(
                f"{version!r} is no version of Python that schedline runs on: 3.11 or later"
            )
    return words(text)


def _read(arguments: argparse.Namespace) -> RunOptions | PackOptions:
    if arguments.pack:
        return _read_pack(arguments)
    if arguments.python or arguments.looks:
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
    guest = None
    if arguments.in_guest:
        tree, changes = options.tree_options(arguments), options.change_options(arguments)
        guest = options_of(GuestOptions, arguments, tree=tree, changes=changes)
    return options_of(RunOptions, arguments, suite=suite, guest=guest)


def _read_pack(arguments: argparse.Namespace) -> PackOptions:
    others = ("suite", "only", "runs", "seed", "out", "json", "lava", "listing", "report", "in_guest", *_OF_A_GUEST[2:])
    if given := [name for name in others if getattr(arguments, name)]:
        raise SchedlineError(
            f"--pack runs nothing, and has no --{given[0].strip('_').replace('_', '-')}", "leave it out"
        )
    tree = options.tree_options(arguments)
    return PackOptions(arguments.pack, tree, arguments.python or (), arguments.looks)


def _run(wanted: RunOptions | PackOptions) -> Verdict:
    if isinstance(wanted, PackOptions):
        from schedlib.runs.bundle import pack

        return pack(wanted)
    from schedlib.runs import run_job, runs_report

    if wanted.report:
        return runs_report.report(wanted.report)
    return run_job.list_rows(wanted) if wanted.listing else run_job.run(wanted)
