# SPDX-License-Identifier: GPL-2.0
"""What a result was measured on and with; results whose fingerprints differ are not compared."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from schedlib.check.check_results import JudgedBoot
from schedlib.kernel.build import Kernel
from schedlib.kernel.build_id import build_id_of
from schedlib.kernel.kconfig import Configuration
from schedlib.kernel.machine import boot_id, machine_text
from schedlib.process import version_of


def fingerprint(kernel: Kernel, boots: Sequence[JudgedBoot], configuration: Configuration) -> dict[str, str]:
    """Machine, kernel, build-id, configuration, boot id and tool versions; an empty text where one is unknown."""
    banner = b""
    for boot in boots:
        found = re.search(rb"Linux version [^\n\r]*", boot.log.read_bytes()[: 1 << 20])
        banner = banner or (found.group(0) if found else b"")
    config = kernel.build / ".config"
    emulator = boots[0].argv[0] if boots else ""
    version = version_of(emulator) if "qemu" in emulator else ""
    return {
        "machine": machine_text(),
        "host_kernel": platform.release(),
        "boot_id": boot_id(),
        "kernel": banner.decode(errors="replace"),
        "build_id": _build_id(kernel.build / "vmlinux"),
        "configuration": "+".join(configuration.names),
        "configuration_sha256": hashlib.sha256(config.read_bytes()).hexdigest(),
        "compiler": kernel.compiler,
        "emulator": version,
    }


def _build_id(vmlinux: Path) -> str:
    with suppress(OSError, ELFError), vmlinux.open("rb") as file:
        return build_id_of(ELFFile(file))
    return ""
