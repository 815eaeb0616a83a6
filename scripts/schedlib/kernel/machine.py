# SPDX-License-Identifier: GPL-2.0
"""This machine as selftests/sched_latency/fingerprint.h names it, so that all tools name the same machine alike.

Also the one reader of a kernel's build-id: of a vmlinux, and of the running kernel.
"""

from __future__ import annotations

import gzip
import os
import platform
import re
import struct
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a machine that is to be measured reads only its running kernel's build-id, and has no pyelftools
    from elftools.elf.elffile import ELFFile


_CPUS = Path("/sys/devices/system/cpu")
_HASH_START = 0xCBF29CE484222325
_NOTES = Path("/sys/kernel/notes")
_GNU_BUILD_ID = 3


def _fnv1a(data: bytes) -> str:
    value = _HASH_START
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def _line(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace").split("\n")[0]
    return ""


def cpu_list(cpus: set[int]) -> str:
    """A list of CPUs in the kernel's format: 0-3,8."""
    firsts = sorted(cpu for cpu in cpus if cpu - 1 not in cpus)
    lasts = sorted(cpu for cpu in cpus if cpu + 1 not in cpus)
    return ",".join(
        f"{first}-{last}" if last > first else f"{first}" for first, last in zip(firsts, lasts, strict=True)
    )


def _cpus(text: str) -> frozenset[int]:
    parts = (part.partition("-") for part in filter(None, text.strip().split(",")))
    return frozenset(cpu for first, _, last in parts for cpu in range(int(first), int(last or first) + 1))


def _llc(cpu: int) -> frozenset[int]:
    caches = sorted(_CPUS.glob(f"cpu{cpu}/cache/index[0-9]*"))
    data = [cache for cache in caches if _line(cache / "type") not in ("", "Instruction")]
    last = max(data, key=lambda cache: int(_line(cache / "level") or 0), default=None)
    return _cpus(_line(last / "shared_cpu_list")) if last else frozenset()


def _count(cpus: set[int], groups: list[frozenset[int]]) -> int:
    """The number of groups that the CPUs belong to; 0 if any CPU belongs to none."""
    own = {next((group for group in groups if cpu in group), None) for cpu in cpus}
    return 0 if None in own else len(own)


def _model() -> str:
    text = Path("/proc/cpuinfo").read_text(errors="replace")
    if found := re.search(r"^(?:model name[^:]*|cpu\t[^:]*): ?(.*)$", text, re.M):
        return found[1]
    said = dict(re.findall(r"^CPU (implementer|part)[^:]*: ?(.*)$", text, re.M))
    return f"implementer {said.get('implementer', '')} part {said['part']}" if "part" in said else ""


def machine_text() -> str:
    """A description of the machine, with the CPUs that this process may use."""
    cpus = set(os.sched_getaffinity(0))
    llcs = _count(cpus, [_llc(cpu) for cpu in cpus])
    nodes = [_cpus(_line(path / "cpulist")) for path in _CPUS.parent.glob("node/node[0-9]*")]
    listed = cpu_list(cpus)[:256]
    return f"{platform.machine()} {_model()}, CPUs {listed}, {llcs} LLCs, {_count(cpus, nodes)} nodes"


def machine_name() -> str:
    """A short name for the same."""
    return _fnv1a(machine_text().encode())


def machine_id() -> str:
    """A hash that tells this machine from others of its model; empty if nothing does, as in a ramdisk."""
    known = _line(Path("/etc/machine-id"))
    # Images that were copied have one machine-id. Addresses that are not made at boot differ.
    ports = sorted(each.parent for each in Path("/sys/class/net").glob("*/addr_assign_type") if _line(each) == "0")
    told = [_line(Path("/proc/device-tree/serial-number")), *(_line(port / "address") for port in ports)]
    return _fnv1a(" ".join([known, *told]).encode()) if known else ""


def boot_id() -> str:
    return _line(Path("/proc/sys/kernel/random/boot_id"))


def _configuration() -> str:
    with suppress(OSError):
        data = Path("/proc/config.gz").read_bytes()
        gzip.decompress(data)
        return f"config.gz fnv1a {_fnv1a(data)}"
    return ""


def build_id_of(elf: ELFFile) -> str:
    """The build-id of a vmlinux, in hexadecimal digits; empty if it has none."""
    order = "<" if elf.little_endian else ">"
    notes = (section.data() for section in elf.iter_sections("SHT_NOTE"))
    return next(filter(None, (in_notes(each, order) for each in notes)), "")


def running_build_id() -> str:
    """The build-id of the running kernel, in hexadecimal digits; empty if the kernel does not show it."""
    with suppress(OSError):
        return in_notes(_NOTES.read_bytes(), "=")
    return ""


def in_notes(notes: bytes, order: str) -> str:
    """The build-id in ELF notes of a byte order (struct's prefix); empty if they have none or are truncated."""
    place = 0
    with suppress(struct.error):
        while place + 12 <= len(notes):
            owner, size, kind = struct.unpack_from(f"{order}III", notes, place)
            start = place + 12 + (owner + 3 & ~3)
            if kind == _GNU_BUILD_ID and notes[place + 12 : place + 15] == b"GNU":
                return notes[start : start + size].hex() if start + size <= len(notes) else ""
            place = start + (size + 3 & ~3)
    return ""


def fingerprint() -> dict[str, str]:
    """All that is the same for every run of this boot; what is unknown is an empty string."""
    name = os.uname()
    return {
        "machine_name": machine_name(),
        "machine": machine_text(),
        "machine_id": machine_id(),
        "kernel": f"{name.release} {name.version}",
        "build_id": running_build_id(),
        "configuration": _configuration(),
        "kernel_command_line": _line(Path("/proc/cmdline")),
        "boot_id": boot_id(),
        "clocksource": _line(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        "governor": _line(_CPUS / "cpu0/cpufreq/scaling_governor"),
        "rt_runtime_us": _line(Path("/proc/sys/kernel/sched_rt_runtime_us")),
        "libc": platform.libc_ver()[1],
    }


def now() -> tuple[str, float]:
    """The wall-clock time, and CLOCK_BOOTTIME, which nobody can set."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), time.clock_gettime(time.CLOCK_BOOTTIME)
