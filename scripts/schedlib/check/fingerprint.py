# SPDX-License-Identifier: GPL-2.0
"""What a result was measured on and with; results whose fingerprints differ are not compared."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Sequence
from pathlib import Path

from schedlib.formats.results import Boot
from schedlib.kernel.build import Kernel
from schedlib.kernel.kconfig import Configuration
from schedlib.process import run


def fingerprint(kernel: Kernel, boots: Sequence[Boot], configuration: Configuration) -> dict[str, str]:
    """Machine, kernel, build-id, configuration, boot id and tool versions; an empty text where one is unknown."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    banner = b""
    for boot in boots:
        found = re.search(rb"Linux version [^\n\r]*", boot.log.read_bytes()[: 1 << 20])
        banner = banner or (found.group(0) if found else b"")
    vmlinux = kernel.build / "vmlinux"
    notes = run(["readelf", "-n", vmlinux]).stdout.decode(errors="replace")
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)
    config = kernel.build / ".config"
    emulator = boots[0].argv[0] if boots else ""
    version = run([emulator, "--version"]).stdout.decode(errors="replace").split("\n")[0] if "qemu" in emulator else ""
    return {
        "machine": f"{platform.machine()} {cpu.group(1) if cpu else ''}".strip(),
        "host_kernel": platform.release(),
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "kernel": banner.decode(errors="replace"),
        "build_id": build_id.group(1) if build_id else "",
        "configuration": "+".join(configuration.names),
        "configuration_sha256": hashlib.sha256(config.read_bytes()).hexdigest(),
        "compiler": kernel.compiler,
        "emulator": version,
    }
