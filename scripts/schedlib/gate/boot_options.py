# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline gate plan`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BOOTS = ("kexec", "grub", "bootctl")
"""How a kernel is booted once."""

LOSSES = 3
"""After so many lost boots of one kernel in a row a campaign stops, unless the user says otherwise."""


@dataclass(frozen=True)
class NamedKernel:
    """A kernel as the user named it. version, image, initrd: empty if not given."""

    label: str
    version: str
    image: str = ""
    initrd: str = ""


@dataclass(frozen=True)
class BootPlanOptions:
    """A plan to write; see --help. boots: the least and the most of each kernel; None for those of the gates file."""

    out: Path
    boots: tuple[int, int] | None
    kernels: tuple[NamedKernel, ...]
    boot: str
    next_command: str | None
    gates: str
    suite: str | None
    only: tuple[str, ...]
    runs: int
    seed: int | None
    losses: int
