# SPDX-License-Identifier: GPL-2.0
"""`schedline fleet`: the boots of a plan as jobs of LAVA, and their runs brought home."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, field
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.names import fleet_devices, named_file, split_list
from schedlib.options import (
    BASIC,
    TreeOptions,
    Verbs,
    add_group,
    add_verb,
    existing_directory,
    existing_path,
    from_one_to,
    option,
)

_LIBRARIES = (*BASIC, "fleet")


def _kernels(text: str) -> tuple[tuple[str, Path], ...]:
    found = []
    for each in split_list(text):
        label, _, name = each.partition("=")
        if not name or not Path(name).expanduser().is_file():
            raise argparse.ArgumentTypeError(f"{each!r} is no LABEL=FILE with a file that exists")
        found.append((label, Path(name).expanduser()))
    if not found or len({label for label, _ in found}) < len(found):
        raise argparse.ArgumentTypeError("name each kernel of the plan once")
    return tuple(found)


def _address(text: str) -> str:
    if not re.fullmatch(r"(https?|file)://[\w.:/%~+\[\]-]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no address; write it like https://lava.example.org")
    return text


def _job(text: str) -> str:
    machine, _, place = text.partition("=")
    if not text.isdecimal() and not (machine and Path(place).exists() and place):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither the id of a job nor MACHINE=PLACE with a place that exists"
        )
    return text


@dataclass(frozen=True)
class FleetJobsOptions:
    """Jobs to write. kernels: label, and image or package. url: None for this machine's files."""

    plan: Path = option("PLAN", "directory that gate plan has written", existing_directory)
    device: Path = option(
        "--device NAME|FILE",
        lambda: f"kind of device: {', '.join(fleet_devices())}, or a file like those of configs/fleet/",
        named_file("device", fleet_devices, "fleet"),
    )
    kernels: tuple[tuple[str, Path], ...] = option(
        "--kernels LABEL=FILE,...", "the image or package of each kernel of the plan", _kernels
    )
    machines: int | None = option(
        "--machines N", "series of jobs, each for one machine that LAVA chooses (default: 1)", from_one_to(10_000)
    )
    url: str | None = option(
        "--url URL", "where the laboratory finds PLAN/artefacts/ (default: the files of this machine)", _address
    )
    dtb: Path | None = option("--dtb FILE", "device tree for U-Boot", existing_path)
    tags: tuple[str, ...] = option(
        "--tags TAG,...",
        "a series of jobs for each of these tags; each tag belongs to one machine",
        split_list,
        default=(),
    )
    tree: TreeOptions = field(default_factory=TreeOptions)


@dataclass(frozen=True)
class FleetCollectOptions:
    """Jobs to collect."""

    plan: Path = option("PLAN", "directory for which fleet jobs has written jobs", existing_directory)
    jobs: tuple[str, ...] = option(
        "JOB", "id of a job; or MACHINE=PLACE, a directory with lava-run's logs.yaml or such a file", _job, nargs="*"
    )
    identity: str = option(
        "--identity NAME", "lavacli's name for the server and you (default: default)", default="default"
    )


def add_parser(verbs: Verbs) -> None:
    """Add `schedline fleet` and the verbs below it."""
    about = "a plan's boots as jobs of LAVA, and their runs brought home"
    below = add_group(
        verbs,
        "fleet",
        about,
        first=[
            "schedline fleet jobs campaign --device x86-server --kernels base=a.tar.gz,candidate=b.tar.gz",
            "schedline fleet collect campaign 1234 1235",
        ],
        text="""
        Writes the boots of a plan (schedline gate plan --boot lava) as jobs of LAVA, and brings their runs home.
        schedline gate --fleet judges them.""",
    )
    add_verb(
        below,
        "jobs",
        "job definitions for LAVA from a plan of boots",
        first=[
            "schedline gate plan --boot lava --kernels base=7.3-a,candidate=7.3-b --out campaign   first, the plan",
            "schedline fleet jobs campaign --device x86-server --kernels base=a.tar.gz,candidate=b.tar.gz",
        ],
        text="""
        Writes a job for each block of the plan and each machine into PLAN/jobs/, and what the jobs download into
        PLAN/artefacts/: the kernels, their modules, and a ramdisk with busybox and the workloads as static programs.
        Each file has its checksum in the jobs. Nothing is submitted; the output says the command of lavacli.

        The boots of a block run on one device, one after another. Each machine has an order of its own, drawn from the
        plan's seed. A job's time limits follow from its boots and runs. LAVA checks each job when it is submitted.

        --kernels names an image for each kernel of the plan, or a package of `schedline kernels --package tar`.""",
        examples=[
            "schedline fleet jobs campaign --device rpi-4 --tags rpi-1,rpi-2 --kernels base=a/Image,candidate=b/Image",
            "schedline fleet jobs campaign --device board.toml --kernels base=a/Image,candidate=b/Image",
            "schedline fleet jobs campaign --device qemu-arm64 --machines 2 --kernels base=a/Image,candidate=b/Image",
        ],
        operands="PLAN",
        options=FleetJobsOptions,
        read=_checked,
        job="fleet.fleet_jobs.write_jobs",
        libraries=_LIBRARIES,
    )
    add_verb(
        below,
        "collect",
        "bring the runs of LAVA's jobs home, for gate --fleet",
        first=[
            "schedline fleet collect campaign 1234 1235            by the ids of jobs",
            "schedline fleet collect campaign board7=output        from lava-run's directory",
        ],
        text="""
        Reads the log of each job. Its runs go to PLAN/fleet/MACHINE/KERNEL/, as `gate --fleet` reads them. schedline
        judges each console itself; LAVA's verdict is not used. Collecting a job again gives the same files.

        A boot is lost if no kernel was seen, or another one, if the laboratory failed or a transfer was damaged: this
        costs its runs and nothing else. A boot is failed if the kernel came up and did not do its work: then the gate
        sees runs without a result.

        PASS: all boots are home, and no console has a problem. INCONCLUSIVE: some are missing. FAIL: a kernel failed,
        or its console has a problem. Without JOB it tells how far the campaign is.

        With ids, lavacli asks the server. It knows its address and your token: lavacli identities add --help.""",
        examples=["schedline fleet collect campaign 1234 --identity lab    another server than lavacli's default"],
        operands="PLAN [JOB ...]",
        options=FleetCollectOptions,
        job="fleet.fleet_collect.collect",
        libraries=_LIBRARIES,
    )


def _checked(wanted: FleetJobsOptions) -> FleetJobsOptions:
    for name in ("device", "kernels"):
        if not getattr(wanted, name):
            raise SchedlineError(f"--{name} is missing", "schedline fleet jobs --help")
    if wanted.tags and wanted.machines:
        raise SchedlineError("each of --tags is one machine, and --machines says how many", "leave out --machines")
    for tag in wanted.tags:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", tag):
            raise SchedlineError(f"--tags: {tag!r} is no tag", "letters, digits, _ and -")
    return wanted
