# SPDX-License-Identifier: GPL-2.0
"""Make one run of one row: start it, watch it and the machine, and read its output. Nothing here judges it."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from schedlib.errors import in_words
from schedlib.formats import run_file
from schedlib.formats.document import Refused
from schedlib.formats.run_file import Head, Noise, Reading, Run, RunProcess, run_of
from schedlib.kernel.machine import now
from schedlib.runs.tool_process import RT_SECONDS, run_guarded
from schedlib.runs.tools import TOOLS, Output, Tool, Unreadable, last_line
from schedlib.runs.workload_suites import WorkloadRow

OWN_JSON = "run.json"
KEPT = "perf.data"
"""A file that a tool leaves for another tool to read."""

_PATIENCE = 10.0
"""Seconds allowed for a tool to print its version."""


Measured = tuple[Run, str]
"""A run, and its log."""


@cache
def _version(path: str, words: tuple[str, ...]) -> str:
    if not words:
        return ""
    with tempfile.TemporaryDirectory() as place:
        done = run_guarded([path, *words], Path(place), _PATIENCE)
    # Some tools have no such option, and complain about it before they print their version.
    said = (done.stdout + "\n" + done.stderr).splitlines()
    named = [line.strip() for line in said if any(c.isdigit() for c in line) and "option" not in line]
    return named[0][:200] if named else ""


def time_limit(row: WorkloadRow) -> float:
    """Seconds after which a run is killed. A slow machine must not exceed them; a hang does."""
    return 3 * row.seconds + 60


def why_not(row: WorkloadRow, no_fifo: str) -> tuple[str, bool]:
    """Why a row cannot be run here, and whether a program is missing."""
    if row.tool:
        tool = TOOLS[row.tool]
        if not tool.path() or (tool.server and not shutil.which(tool.server[0])):
            return tool.missing(), True
    return no_fifo if row.realtime else "", False


def _ending(finished: Output, good: frozenset[int], row: WorkloadRow) -> str:
    """Why the output of a process is not a result; empty if it is."""
    if finished.problem:
        return finished.problem
    if finished.timed_out:
        return f"stopped after {time_limit(row):.0f} s; it should take about {row.seconds:g} s"
    status = finished.exit_status
    if status is not None and status < 0:
        killer = signal.Signals(-status)
        unclear = killer in (signal.SIGKILL, signal.SIGXCPU)
        why = ": by a user, by the OOM killer (see dmesg), or because an RT task did not sleep" if unclear else ""
        return f"killed by {killer.name}{why}"
    if status not in good:
        return f"exit status {status}: {last_line(finished)}"
    return ""


def read_output(tool: Tool, output: Output) -> Reading:
    """Parse the output; a Reading with an error if it cannot be parsed."""
    try:
        return tool.parse(output)
    except Unreadable as error:
        return Reading(error=str(error))
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
        return Reading(error=f"its output is not as expected: {in_words(error)}")


def skipped(head: Head, row: WorkloadRow, why: str, missing: bool) -> Measured:
    process = RunProcess((row.tool or row.program, *row.to_argv()), None, False, None, 0.0, missing)
    return replace(run_of(head, Reading(cannot=why)), process=process), f"skipped: {why}\n"


def command(row: WorkloadRow, programs: Path) -> list[str]:
    """The command line of a row. Our own programs are in `programs`, tools where they are installed."""
    if row.tool:
        return [*TOOLS[row.tool].command(), *row.to_argv()]
    # One run is one file. A baseline is compared with several: by the program itself, or by the gate.
    return [str(programs / row.program), *row.to_argv(), "--runs", "1", "--json", OWN_JSON]


def head_of(row: WorkloadRow, fingerprint: Mapping[str, str], started: str, uptime: float) -> Head:
    name = row.tool or row.program
    known = dict(fingerprint) | {"command_line": " ".join([name, *row.to_argv()])}
    if row.tool and (path := TOOLS[row.tool].path()):
        known["tool_version"] = _version(path, TOOLS[row.tool].version)
    return Head(name, started, uptime, known)


def read_run(row: WorkloadRow, head: Head, argv: Sequence[str], finished: Output, place: Path) -> Measured:
    # The paths of the programs are not part of the measurement.
    words = len(argv) - len(row.to_argv()) if row.tool else 1
    shown = [Path(word).name for word in argv[:words]] + list(argv[words:])
    tool, found, reading = TOOLS.get(row.tool), None, Reading()
    if tool and finished.cannot:
        why = f"{tool.name} needs a network namespace of its own: {finished.cannot}; run as root"
        reading = Reading(cannot=why)
    elif ending := _ending(finished, tool.good if tool else frozenset({0, 1, 4}), row):
        reading = Reading(error=ending)
    elif tool:
        files = {}
        for path in place.glob("out.*"):
            with suppress(UnicodeDecodeError):
                files[path.name] = path.read_text()
        reading = read_output(tool, dataclasses.replace(finished, argv=shown, files=files))
    else:
        # The program itself has written the run. It is trusted only because the process exited on its own.
        try:
            found = run_file.read_run(place / OWN_JSON)
        except Refused as refused:
            said = last_line(dataclasses.replace(finished, stderr=""))
            reading = Reading(error=f"it wrote no valid run: {refused.why}; it printed: {said}")
    status, seconds = finished.exit_status, round(finished.seconds, 3)
    process = RunProcess(tuple(shown), status, finished.timed_out, reading.reported, seconds, missing=False)
    parts = [f"$ {' '.join(shown)}", f"exit status: {status}", finished.stdout, finished.stderr]
    log = "\n".join(part.rstrip("\n") for part in parts if part) + "\n"
    return replace(found or run_of(head, reading), process=process), log


def measure(
    row: WorkloadRow, place: Path, *, programs: Path | None, fingerprint: Mapping[str, str], no_fifo: str
) -> Measured:
    """Run a row once, in an empty directory. `no_fifo`: why SCHED_FIFO cannot be used; empty if it can."""
    head = head_of(row, fingerprint, *now())
    why, missing = why_not(row, no_fifo)
    if why:
        return skipped(head, row, why, missing)
    tool = TOOLS.get(row.tool)
    env = {} if row.tool else {"SCHED_LATENCY_RESULTS": str(place)}
    argv = command(row, programs or place)
    before = snapshot()
    # pi_stress has a thread that never sleeps while the other threads take precedence over it.
    rt_seconds = row.seconds + RT_SECONDS
    server, port = (tool.server, tool.port) if tool else ((), 0)
    finished = run_guarded(argv, place, time_limit(row), rt_seconds=rt_seconds, server=server, port=port, env=env)
    beside = noise(before, snapshot(), finished.cpu_s)
    found, log = read_run(row, head, argv, finished, place)
    jump = beside.clock_step_s or 0.0
    # Adjustments by NTP stay below this limit.
    if row.tool and found.status == "DONE" and abs(jump) > 0.1 + 0.001 * beside.seconds:
        why = f"the system clock jumped by {jump:g} s, or the machine was suspended; some tools measure with this clock"
        found = replace(run_of(head, Reading(error=why)), process=found.process)
    # Our own programs do not tell it.
    prints = found.fingerprint | {"machine_id": fingerprint.get("machine_id", "")}
    return replace(found, noise=beside, fingerprint=prints), log


# What else the machine did meanwhile.


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
    rows = {name: list(map(int, rest)) for name, *rest in map(str.split, (proc / "stat").read_text().splitlines())}
    seconds = [ticks / os.sysconf("SC_CLK_TCK") for ticks in rows["cpu"] + [0] * 10]
    busy, runnable = sum(seconds[place] for place in (0, 1, 2, 5, 6)), rows.get("procs_running", [0])[0]
    thermal = None
    for path in sys.glob("devices/system/cpu/cpu[0-9]*/thermal_throttle/*_throttle_count"):
        with suppress(OSError, ValueError):
            thermal = (thermal or 0) + int(path.read_text())
    throttled = _throttled(proc, sys / "fs/cgroup")
    return Snapshot(time.monotonic(), time.time(), busy, seconds[7], runnable, _switches(proc), thermal, throttled)


def noise(before: Snapshot, after: Snapshot, own_cpu_s: float) -> Noise:
    """What happened between two snapshots, apart from the tool itself, which has ended by the second.

    A foreign task that started and ended in between shows only in foreign_cpu_s. That number is an upper bound: it
    includes CPU time of the tool's children for which their parent did not wait.
    """

    def more(one: int | None, other: int | None) -> int | None:
        return None if one is None or other is None else other - one

    return Noise(
        seconds=round(after.at - before.at, 3),
        steal_s=round(max(0.0, after.steal_s - before.steal_s), 3),
        foreign_cpu_s=round(max(0.0, after.busy_s - before.busy_s - own_cpu_s), 3),
        foreign_switches=sum(count - before.switches.get(task, 0) for task, count in after.switches.items()),
        runnable_before=max(0, before.runnable - 1),
        thermal_throttles=more(before.thermal, after.thermal),
        cgroup_throttles=more(before.throttled, after.throttled),
        clock_step_s=round((after.wall - before.wall) - (after.at - before.at), 3),
    )
