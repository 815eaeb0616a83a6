# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline gate plan`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_KEXEC = "if [ -d /run/systemd/system ]; then systemctl kexec; else sync; kexec -e; fi"
_REBOOT = "if [ -d /run/systemd/system ]; then systemctl reboot; else reboot; fi"

LAVA = "lava"
"""The way of boots that are jobs of LAVA. Such a plan has no service: `schedline fleet jobs` takes it."""

BOOT_COMMANDS = {
    "kexec": "kexec -l {image} {initrd} --reuse-cmdline && " + _KEXEC,
    "bootctl": "bootctl set-oneshot {glob} && " + _REBOOT,
    LAVA: "echo {label} is booted by LAVA: schedline fleet jobs; false",
}
"""How a kernel is booted once, by the word after --boot. All leave the default of the boot loader as it is."""

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
