# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline fleet`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.options import TreeOptions


@dataclass(frozen=True)
class FleetJobsOptions:
    """Jobs to write; see --help.

    Attributes:
        plan: a directory with the plan of `schedline gate plan`.
        device: the file of a kind of device.
        kernels: (label, image or package) of each kernel of the plan.
        machines: how many series of jobs; with tags one for each tag.
        url: where LAVA finds the artefacts; None for this machine's files.
        tree: the kernel source whose kselftest.h the programs include.
    """

    plan: Path
    device: Path
    kernels: tuple[tuple[str, Path], ...]
    machines: int
    tags: tuple[str, ...]
    url: str | None
    dtb: Path | None
    tree: TreeOptions


@dataclass(frozen=True)
class FleetCollectOptions:
    """Jobs to collect; see --help.

    Attributes:
        jobs: ids of jobs, or MACHINE=DIRECTORY of lava-run.
        identity: of lavacli, for ids: a server, and who asks it.
    """

    plan: Path
    jobs: tuple[str, ...]
    identity: str = "default"
