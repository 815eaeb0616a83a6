# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline fleet`."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, field
from pathlib import Path

from schedlib.names import fleet_devices, named_file, words
from schedlib.options import TreeOptions, existing_directory, existing_path, option

_MOST_MACHINES = 10_000


def _kernels(text: str) -> tuple[tuple[str, Path], ...]:
    found = []
    for each in words(text):
        label, _, name = each.partition("=")
        if not name or not Path(name).expanduser().is_file():
            raise argparse.ArgumentTypeError(f"{each!r} is no LABEL=FILE with a file that exists")
        found.append((label, Path(name).expanduser()))
    if not found or len({label for label, _ in found}) < len(found):
        raise argparse.ArgumentTypeError("name each kernel of the plan once")
    return tuple(found)


def _machines(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_MACHINES:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {_MOST_MACHINES}")
    return int(text)


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
        "--machines N", "series of jobs, each for one machine that LAVA chooses (default: 1)", _machines
    )
    url: str | None = option(
        "--url URL", "where the laboratory finds PLAN/artefacts/ (default: the files of this machine)", _address
    )
    dtb: Path | None = option("--dtb FILE", "device tree for U-Boot", existing_path)
    tags: tuple[str, ...] = option(
        "--tags TAG,...", "a series of jobs for each of these tags; each tag belongs to one machine", words, default=()
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
