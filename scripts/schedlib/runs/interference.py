# SPDX-License-Identifier: GPL-2.0
"""What else the machine did while a run was measured. Nothing here judges it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from schedlib.formats.run_file import Noise


@dataclass(frozen=True)
class Snapshot:
    """The counters of the machine at one moment, in seconds or events since boot. None: the counter does not exist."""

    at: float
    wall: float
    busy_s: float
    steal_s: float
    runnable: int
    switches: Mapping[str, int]
    thermal: int | None
    throttled: int | None


def _stat(proc: Path) -> tuple[float, float, int]:
    """Seconds in which CPUs were busy, seconds stolen by the hypervisor, and the number of runnable tasks."""
    rows = {name: list(map(int, rest)) for name, *rest in map(str.split, (proc / "stat").read_text().splitlines())}
    ticks, tick = rows["cpu"] + [0] * 10, os.sysconf("SC_CLK_TCK")
    return sum(ticks[place] for place in (0, 1, 2, 5, 6)) / tick, ticks[7] / tick, rows.get("procs_running", [0])[0]


def _switches(proc: Path) -> dict[str, int]:
    """Context switches of each task except our own, by its id and start time."""
    found: dict[str, int] = {}
    for process in proc.glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        with suppress(OSError):
            for task in (process / "task").iterdir():
                with suppress(OSError, ValueError, IndexError):
                    started = (task / "stat").read_text().rsplit(")", 1)[1].split()[19]
                    lines = (task / "status").read_text().splitlines()
                    switches = (int(line.split()[1]) for line in lines if "voluntary_ctxt_switches" in line)
                    found[f"{task.name} {started}"] = sum(switches)
    return found


def _throttled(proc: Path, cgroups: Path) -> int | None:
    """How often our control group was throttled by its CPU limit."""
    with suppress(OSError):
        for line in (proc / "self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if names and "cpu" not in names.split(","):
                continue
            with suppress(OSError):
                text = (cgroups / (names and "cpu") / path.lstrip("/") / "cpu.stat").read_text()
                if found := re.search(r"^nr_throttled (\d+)", text, re.M):
                    return int(found[1])
    return None


def snapshot(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> Snapshot:
    """The counters now."""
    busy, steal, runnable = _stat(proc)
    thermal = None
    for path in sys.glob("devices/system/cpu/cpu[0-9]*/thermal_throttle/*_throttle_count"):
        with suppress(OSError, ValueError):
            thermal = (thermal or 0) + int(path.read_text())
    throttled = _throttled(proc, sys / "fs/cgroup")
    return Snapshot(time.monotonic(), time.time(), busy, steal, runnable, _switches(proc), thermal, throttled)


def noise(before: Snapshot, after: Snapshot, own_cpu_s: float) -> Noise:
    """What happened between two snapshots, apart from the tool itself, which has ended by the second.

    A foreign task that started and ended in between shows only in foreign_cpu_s. That number is an upper bound: it
    includes CPU time of the tool's children for which their parent did not wait.
    """
    foreign = sum(count - before.switches.get(task, 0) for task, count in after.switches.items())

    def more(one: int | None, other: int | None) -> int | None:
        return None if one is None or other is None else other - one

    return Noise(
        seconds=round(after.at - before.at, 3),
        steal_s=round(max(0.0, after.steal_s - before.steal_s), 3),
        foreign_cpu_s=round(max(0.0, after.busy_s - before.busy_s - own_cpu_s), 3),
        foreign_switches=foreign,
        runnable_before=max(0, before.runnable - 1),
        thermal_throttles=more(before.thermal, after.thermal),
        cgroup_throttles=more(before.throttled, after.throttled),
        clock_step_s=round((after.wall - before.wall) - (after.at - before.at), 3),
    )
