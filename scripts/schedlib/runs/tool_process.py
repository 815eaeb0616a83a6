# SPDX-License-Identifier: GPL-2.0
"""Starting a tool under guard.py, and what became of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.process import clean_environment
from schedlib.runs import guard as guard_program

GUARD = Path(guard_program.__file__)

RT_SECONDS = 5.0
"""An RT task that takes so much CPU time without sleep is ended by the kernel, where nothing says that it may."""

_NO_ROOT = "SCHED_FIFO needs root, or a limit for it: ulimit -r"
_REFUSED = "SCHED_FIFO is refused to root: the cgroup has no cpu.rt_runtime_us, or a container"


@dataclass(frozen=True)
class Server:
    """What a tool talks to: started before it, ended with it. The port is TCP's."""

    argv: tuple[str, ...]
    port: int


@dataclass(frozen=True)
class Finished:
    """A tool that has ended.

    Attributes:
        exit_status: of the process; negative for a signal; None where it was not started or not waited for.
        problem: why it could not be started.
        cannot: why it may not have a network of its own.
        cpu_s: what it and all that it started took.
    """

    exit_status: int | None
    timed_out: bool
    problem: str
    cannot: str
    seconds: float
    cpu_s: float
    stdout: str
    stderr: str


def _said(path: Path) -> str:
    return path.read_bytes().decode(errors="replace") if path.exists() else ""


def run_guarded(
    argv: Sequence[str],
    place: Path,
    timeout: float,
    *,
    rt_seconds: float = RT_SECONDS,
    server: Server | None = None,
    env: Mapping[str, str] | None = None,
) -> Finished:
    """Run a tool to its end in a directory of its own; nothing of it is left, whatever ends this process.

    With a server the tool and it have a network of their own: nothing of them can be reached from outside.

    Raises:
        SchedlineError: the guard itself was killed.
    """
    order = {
        "argv": list(argv),
        "server": list(server.argv) if server else None,
        "port": server.port if server else 0,
        "timeout": timeout,
        "rt_seconds": rt_seconds,
        "stdout": str(place / "stdout"),
        "stderr": str(place / "stderr"),
    }
    others = guard_program.children()
    guard_program.adopt()
    # A session of its own: Ctrl-C ends the runner, and the guard sees that.
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(GUARD), json.dumps(order)],
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
        # The kernel has ended the tool with it, and what the tool had started has come to us.
        guard_program.end_all(others)
        raise SchedlineError(
            f"what guards {argv[0]} ended with {guard.returncode}, so nothing is known of it",
            "run the command again to go on; dmesg tells whether memory ran out",
        )
    report = json.loads(said)
    return Finished(
        report["exit_status"],
        report["ending"] == "timeout",
        report["problem"],
        report["cannot"],
        report["seconds"],
        report["cpu_s"],
        _said(place / "stdout"),
        _said(place / "stderr"),
    )


def why_no_fifo() -> str:
    """Why this process, and so what it starts, cannot have SCHED_FIFO; empty where it can."""
    before, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return _REFUSED if os.geteuid() == 0 else _NO_ROOT
    os.sched_setscheduler(0, before, parameters)
    return ""
