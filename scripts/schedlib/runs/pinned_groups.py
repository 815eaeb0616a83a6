# SPDX-License-Identifier: GPL-2.0
"""Runs an FFmpeg in each group of 8 CPUs, with SCHED_FIFO 99 in all of its threads, as the mails did; counts frames.

A separate program that imports no other module of ours: pinned_groups.py FFMPEG --seconds N ARGUMENT... It writes
out.json.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

SIZE = 8
PRIORITY = 99
PR_SET_PDEATHSIG = 1
THROTTLING = Path("/proc/sys/kernel/sched_rt_runtime_us")


def groups(cpus: list[int]) -> list[set[int]]:
    """Groups of SIZE CPUs in numerical order; left-over CPUs are not used. Fewer CPUs than SIZE are one group."""
    size = min(SIZE, len(cpus))
    return [set(cpus[start : start + size]) for start in range(0, len(cpus) - size + 1, size)]


def start(argv: list[str], cpus: set[int], output: Path) -> subprocess.Popen[bytes]:
    """Start an instance on its CPUs. Its threads and children inherit the CPUs and the priority."""

    def prepare() -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.sched_setaffinity(0, cpus)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))

    with output.open("wb") as file:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, preexec_fn=prepare)


def frames(output: Path) -> int:
    """The last number of frames that -progress has reported."""
    lines = output.read_text().splitlines()
    return max((int(line.removeprefix("frame=")) for line in lines if line.startswith("frame=")), default=0)


def main() -> int:
    seconds, argv = float(sys.argv[3]), [sys.argv[1], *sys.argv[4:]]
    if THROTTLING.exists() and THROTTLING.read_text().strip() == "-1":
        # The threads never sleep: without throttling, nothing else would run on their CPUs.
        print(f"{THROTTLING} is -1: without RT throttling the threads would block the machine", file=sys.stderr)
        return 4
    places = groups(sorted(os.sched_getaffinity(0)))
    for cpus in places:
        print(f"SCHED_FIFO {PRIORITY} on CPUs {sorted(cpus)}: {' '.join(argv)}", flush=True)
    begun = time.monotonic()
    running = [start(argv, cpus, Path(f"progress.{number}")) for number, cpus in enumerate(places)]
    while time.monotonic() - begun < seconds and all(process.poll() is None for process in running):
        time.sleep(0.05)
    for process in running:
        process.send_signal(signal.SIGINT)
    statuses = [process.wait() for process in running]
    took = time.monotonic() - begun
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {
        "seconds": took,
        "frames": [frames(Path(f"progress.{number}")) for number in range(len(places))],
        "statuses": statuses,
        "user_s": used.ru_utime,
        "system_s": used.ru_stime,
    }
    Path("out.json").write_text(json.dumps(found))
    # FFmpeg exits with 255 after SIGINT.
    return 0 if set(statuses) <= {0, 255} else 1


if __name__ == "__main__":
    sys.exit(main())
