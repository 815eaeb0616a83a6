# SPDX-License-Identifier: GPL-2.0
"""`schedline gate plan`: the boots of a campaign, planned before the first one, and the service that makes them."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

from schedlib import options
from schedlib.errors import SchedlineError
from schedlib.gate.gate_options import (
    BOOT_COMMANDS,
    LOSSES,
    MOST_BOOTS,
    BootPlanOptions,
    NamedKernel,
    gates_file,
)
from schedlib.names import one_of, unknown, words, workload_rows, workload_suites
from schedlib.options import Verbs, add_verb
from schedlib.verdict import Verdict


@dataclass(frozen=True)
class PlanDirectory:
    """A plan that is there already. step: do what is to be done in this boot; otherwise print how far it is."""

    directory: Path
    step: bool


def add_parser(verbs: Verbs) -> None:
    """Add `plan` below `schedline gate`."""
    parser = add_verb(
        verbs,
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
        all kernels alike.

        A kernel is LABEL=VERSION, as uname -r prints it, LABEL=IMAGE, or LABEL=VERSION:IMAGE[:INITRD]. The first is the
        base, the second the candidate, the third the placebo.""",
        examples=[
            "schedline gate plan --boots 12 --kernels base=boot/old,candidate=boot/new,placebo=boot/pad --out campaign",
            "schedline gate plan --boots 8..20 --kernels base=7.3-a,candidate=7.3-b --boot bootctl --out campaign",
            "schedline gate plan campaign --step                  what the service does once in each boot",
        ],
        operands="[DIR]",
        read=_read,
        job=_plan,
        download=False,
    )
    parser.add_argument(
        "directory", nargs="?", type=options.existing_directory, metavar="DIR", help="a plan that is there"
    )
    suites = ", ".join(workload_suites())
    options.add_values(
        parser,
        ("--boots", _boots, "N[..M]", "boots of each kernel; N..M: look between them (default: as the gates file)"),
        ("--kernels", _kernels, "LABEL=KERNEL,...", "the kernels: base, candidate, and perhaps a placebo"),
        ("--out", options.new_directory, "DIR", "directory for the plan, its service and the runs"),
        ("--next-command", str, "COMMAND", "boots a kernel once; may have {label}, {version}, {image}, {initrd}"),
        ("--gates", gates_file, "NAME|FILE", "gates file of the looks (default: default)"),
        ("--suite", one_of("suite", workload_suites), "NAME", f"(default: the suite of the gates file): {suites}"),
        ("--runs", options.positive, "N", "runs of each row in each boot (default: 1; docs/gate.md advises 5)"),
        ("--seed", int, "N", "seed of the order (default: a new one each time)"),
        ("--losses", options.positive, "N", f"stop after so many lost boots of a kernel in a row (default: {LOSSES})"),
    )
    parser.add_argument("--only", type=words, default=(), metavar="ROW,...", help="run only these rows of the suite")
    ways = tuple(BOOT_COMMANDS)
    about = f"how a kernel is booted once: {', '.join(ways)} (default: {ways[0]})"
    parser.add_argument("--boot", choices=ways, default=ways[0], help=about)
    parser.add_argument("--status", action="store_true", help="print how far the plan in DIR is")
    parser.add_argument(
        "--step", action="store_true", help="do what is to be done in this boot; it reboots the machine"
    )


def _boots(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,3})(?:\.\.(\d{1,3}))?", text)
    least, most = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= least <= most <= MOST_BOOTS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of boots; write 10, or 6..20")
    return least, most


def _kernels(text: str) -> tuple[NamedKernel, ...]:
    found = []
    for each in words(text):
        label, _, named = each.partition("=")
        parts = named.split(":")
        if not re.fullmatch(r"[a-z][a-z0-9-]*", label) or not parts[0] or len(parts) > 3:
            raise argparse.ArgumentTypeError(
                f"{each!r} is no kernel; write LABEL=VERSION or LABEL=VERSION:IMAGE:INITRD"
            )
        found.append(NamedKernel(label, "", parts[0]) if "/" in parts[0] else NamedKernel(label, *parts))
    if len({each.label for each in found}) < len(found):
        raise argparse.ArgumentTypeError("two kernels have the same label")
    if not 2 <= len(found) <= 3:
        raise argparse.ArgumentTypeError(f"{len(found)} kernels: give base and candidate, and perhaps a placebo")
    return tuple(found)


def _read(arguments: argparse.Namespace) -> PlanDirectory | BootPlanOptions:
    if arguments.directory:
        if arguments.status == arguments.step:
            raise SchedlineError(
                f"{arguments.directory} has a plan or not, and nothing is to be done", "--status or --step"
            )
        if arguments.out or arguments.boots or arguments.kernels:
            raise SchedlineError("a plan is never changed", "write a new one with --out, into another directory")
        return PlanDirectory(arguments.directory, arguments.step)
    for name in ("kernels", "out"):
        if getattr(arguments, name) is None:
            raise SchedlineError(f"--{name} is missing", "schedline gate plan --help; or name the directory of a plan")
    rows = workload_rows(arguments.suite) if arguments.suite else ()
    for name in arguments.only:
        if name not in rows:
            raise SchedlineError(unknown("row", name, rows), "name the suite of --only with --suite")
    return options.options_of(
        BootPlanOptions,
        arguments,
        gates=arguments.gates or "default",
        runs=arguments.runs or 1,
        losses=arguments.losses or LOSSES,
    )


def _plan(wanted: PlanDirectory | BootPlanOptions) -> Verdict:
    from schedlib.gate import boot_order, boot_service

    if isinstance(wanted, BootPlanOptions):
        return boot_order.write_plan(wanted)
    if wanted.step:
        return boot_service.step(wanted.directory, boot_service.present_boot())
    return boot_service.status(wanted.directory)
