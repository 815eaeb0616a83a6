# SPDX-License-Identifier: GPL-2.0
"""Starts a tool under guard.py, reports how it ended, and restores the settings of the machine that it changed.

Nothing here changes a setting on its own, in particular not RT throttling.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from schedlib.cache import read_json, write_json
from schedlib.errors import SchedlineError
from schedlib.kernel.machine import boot_id
from schedlib.process import clean_environment
from schedlib.progress import say
from schedlib.runs import guard as guard_program
from schedlib.runs.tools import Output

RT_SECONDS = 5.0
"""Default limit of CPU time without sleep: the kernel kills an RT task that exceeds it."""


def said_in(file: Path) -> str:
    return file.read_bytes().decode(errors="replace") if file.exists() else ""


def run_guarded(
    argv: Sequence[str],
    place: Path,
    timeout: float,
    *,
    rt_seconds: float = RT_SECONDS,
    server: Sequence[str] = (),
    port: int = 0,
    env: Mapping[str, str] | None = None,
) -> Output:
    """Run a tool to its end in its own directory. None of its processes survive, however this process ends.

    A tool with a server, which listens on a TCP port, shares a private network with it: neither can be reached from
    outside.
    """
    order = {
        "argv": list(argv),
        "server": list(server),
        "port": port,
        "timeout": timeout,
        "rt_seconds": rt_seconds,
        "stdout": str(place / "stdout"),
        "stderr": str(place / "stderr"),
    }
    others = guard_program.children()
    guard_program.adopt()
    # The guard has its own session: Ctrl-C only reaches the runner, and the guard notices that the runner is gone.
    with subprocess.Popen(
        [sys.executable, "-I", "-S", guard_program.__file__, json.dumps(order)],
        cwd=place,
        env=clean_environment({"TMPDIR": str(place), **(env or {})}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as guard:
        assert guard.stdin and guard.stdout  # noqa: S101 - for the type checker
        try:
            said = guard.stdout.read()
        finally:
            guard.stdin.close()
            guard.wait()
    if guard.returncode or not said:
        # The kernel has killed the tool together with the guard, and the tool's children have become ours.
        guard_program.end_all(others)
        raise SchedlineError(
            f"the guard process of {argv[0]} ended with {guard.returncode}, so its result is lost",
            "run the command again to go on; dmesg says whether memory ran out",
        )
    return Output(argv, stdout=said_in(place / "stdout"), stderr=said_in(place / "stderr"), **json.loads(said))


def why_no_fifo() -> str:
    """Why this process, and so its children, cannot use SCHED_FIFO; empty if it can."""
    before, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        if os.geteuid() == 0:
            return "root may not use SCHED_FIFO: the cgroup has no cpu.rt_runtime_us, or a container forbids it"
        return "SCHED_FIFO needs root, or a limit for it (ulimit -r)"
    os.sched_setscheduler(0, before, parameters)
    return ""


_KERNEL = "proc/sys/kernel"
_WATCHED = (
    f"{_KERNEL}/sched_rt_runtime_us",
    f"{_KERNEL}/sched_rt_period_us",
    f"{_KERNEL}/numa_balancing",
    f"{_KERNEL}/perf_event_paranoid",
    "proc/sys/vm/overcommit_memory",
    "sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "sys/kernel/debug/sched/features",
)


def settings(root: Path = Path("/")) -> dict[str, str]:
    found = {}
    for path in (path for pattern in _WATCHED for path in sorted(root.glob(pattern))):
        with suppress(OSError):
            found[str(path)] = path.read_text().strip()
    return found


def _put_back(path: str, value: str, now: str) -> None:
    # The scheduler's features are written one at a time.
    words = [word for word in value.split() if word not in now.split()] if path.endswith("/features") else [value]
    for word in words:
        Path(path).write_text(word)


def put_back(before: Mapping[str, str]) -> list[str]:
    """Restore the settings that have changed. Returns a line for each."""
    lines = []
    for path, value in before.items():
        try:
            now = Path(path).read_text().strip()
        except OSError:
            # It disappeared with its CPU.
            continue
        if now != value:
            changed = f"{path} was changed from {value} to {now}"
            try:
                _put_back(path, value, now)
                lines.append(f"{changed}: it is {value} again")
            except OSError as error:
                lines.append(f"{changed}, and cannot be put back: {error.strerror}; as root: echo {value} > {path}")
    return lines


def replay(journal: Path) -> list[str]:
    """After a crash, restore what the dead runner would have restored. Settings of an earlier boot are already gone."""
    found = read_json(journal) or {}
    lines = put_back(found.get("settings", {})) if found.get("boot_id") == boot_id() else []
    journal.unlink(missing_ok=True)
    return lines


@contextmanager
def kept_settings(journal: Path) -> Iterator[None]:
    """Record the settings before a tool runs; afterwards restore those that it changed, and report them."""
    before = settings()
    write_json(journal, {"boot_id": boot_id(), "settings": before})
    try:
        yield
    finally:
        for line in put_back(before):
            say(line)
        journal.unlink(missing_ok=True)
