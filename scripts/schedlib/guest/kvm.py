# SPDX-License-Identifier: GPL-2.0
"""Choosing KVM or TCG. KVM is used only if a guest has booted with it: an accessible /dev/kvm proves nothing."""

from __future__ import annotations

import os
from pathlib import Path
from platform import machine

from schedlib.cache import read_json, write_json
from schedlib.guest.boot import run_guest
from schedlib.guest.command_line import command_line
from schedlib.kernel.machine import boot_id
from schedlib.kernel.targets import Target
from schedlib.progress import step

PROBE_TIMEOUT = 20.0
"""Seconds; even with TCG a small kernel prints its banner in less than two."""


def accelerator(cache: Path, target: Target, image: Path) -> str:
    """`kvm` when this image boots with it on this machine, else `tcg`; tried once for each boot of the machine."""
    if target.emulator[:1] != (f"qemu-system-{machine()}",) or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    record = cache / "kvm.json"
    known = read_json(record)
    if known is None or known.get("boot_id") != boot_id():
        log = cache / "kvm-probe.log"
        with step("testing whether a guest boots with KVM"):
            run_guest(command_line(target, image, 1, ["kunit.filter_glob=none"], "kvm"), log, PROBE_TIMEOUT)
        known = {"boot_id": boot_id(), "boots": b"Linux version" in log.read_bytes()}
        write_json(record, known)
    return "kvm" if known["boots"] else "tcg"
