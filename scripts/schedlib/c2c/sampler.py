# SPDX-License-Identifier: GPL-2.0
"""Whether this machine can sample the addresses of data accesses, and with what."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.errors import SchedlineError

_EVENTS = "sys/bus/event_source/devices"
_LOCKDOWN = "sys/kernel/security/lockdown"
_POSSIBLE = "sys/devices/system/cpu/possible"


@dataclass(frozen=True)
class Sampler:
    """What samples data addresses on a machine.

    Attributes:
        name: for the user.
        latency: whether perf c2c record takes --ldlat, the least latency of a load that is sampled.
    """

    name: str
    latency: bool


_SAMPLERS = (
    ("ibs_op", Sampler("AMD's IBS", latency=False)),
    ("arm_spe_0", Sampler("Arm's SPE", latency=False)),
    ("cpu/events/mem-loads", Sampler("Intel's load latency, or POWER's", latency=True)),
    ("cpu_core/events/mem-loads", Sampler("Intel's load latency", latency=True)),
)
"""A path below _EVENTS. tools/perf/arch/*/util/mem-events.c says which perf c2c record uses."""

_REASONS = {
    "x86_64": "no ibs_op and no event mem-loads: a virtual machine without a PMU, a BIOS that switches IBS off, or a "
    "CPU that has neither",
    "aarch64": "no arm_spe_0: the CPU or its firmware has no SPE, arm_spe_pmu is not loaded (modprobe arm_spe_pmu), or "
    "the kernel's page tables are apart (boot with kpti=off)",
    "ppc64le": "no event mem-loads: a guest without a PMU",
}


def sampler(machine: str, root: Path = Path("/")) -> Sampler:
    """What samples here.

    Args:
        machine: as `uname -m` prints it.

    Raises:
        SchedlineError: nothing does, with the reason.
    """
    for path, found in _SAMPLERS:
        if (root / _EVENTS / path).exists():
            return found
    reason = _REASONS.get(machine, f"perf knows no such counters on {machine}")
    raise SchedlineError(
        f"this machine cannot sample data addresses: {reason}",
        "count on emulated CPUs: schedline c2c; or read what another machine has sampled: schedline c2c import",
    )


def refuse_locked_down(root: Path = Path("/")) -> None:
    """SchedlineError if the kernel lets nobody read its memory, see security/lockdown/lockdown.c."""
    path = root / _LOCKDOWN
    if path.is_file() and "[confidentiality]" in path.read_text():
        raise SchedlineError(
            "this kernel is locked down: nobody may read its memory, and perf may not sample it",
            "boot it without lockdown=confidentiality",
        )


def possible_cpus(root: Path = Path("/")) -> int:
    """The number of possible CPUs; SchedlineError if sysfs does not say it."""
    try:
        return int((root / _POSSIBLE).read_text().strip().rpartition("-")[2]) + 1
    except (OSError, ValueError) as error:
        raise SchedlineError(f"/{_POSSIBLE} cannot be read: {error}", "mount sysfs") from error
