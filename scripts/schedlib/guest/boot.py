# SPDX-License-Identifier: GPL-2.0
"""built kernel -> run -> log: starts a guest, saves its console, and records how it ended."""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.process import clean_environment, dying_with_us

LOG_LIMIT = 256 << 20
"""Limit of a guest's console output in bytes; a guest that prints more is looping and is ended."""

_TAIL = 4096
"""Bytes of earlier output in which the beginning of a line is looked for."""


class Ending(Enum):
    """How the emulator ended; for a saved log this is UNKNOWN."""

    EXITED = "exited"
    TIMED_OUT = "timed out"
    KILLED = "killed"
    DIED = "died"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class GuestRun:
    """One guest, run to its end, or a saved log, which has no argv.

    `times`: (offset in the log, seconds since the start) for each piece that arrived.
    """

    argv: tuple[str, ...]
    log: Path
    ending: Ending
    seconds: float = 0.0
    times: tuple[tuple[int, float], ...] = ()


def run_guest(argv: Sequence[str], log: Path, timeout: float, stop: re.Pattern[bytes] | None = None) -> GuestRun:
    """Start a guest, write its console to `log` as it comes, and end it after `timeout` seconds or what matches `stop`.

    SchedlineError if the emulator is not installed or not executable.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    times: list[tuple[int, float]] = []
    size, tail = 0, b""
    with log.open("wb", buffering=0) as file:
        if shutil.which(argv[0]) is None:
            why = "it does not exist or is not executable"
            raise SchedlineError(f"{argv[0]} cannot be started: {why}", "schedline doctor")
        process = subprocess.Popen(
            # User-Mode Linux catches SIGTERM, and a guest that hangs does nothing about it.
            dying_with_us(argv, "KILL"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=clean_environment(),
            start_new_session=True,
        )
        ending = Ending.TIMED_OUT
        try:
            assert process.stdout is not None  # noqa: S101
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                while (left := start + timeout - time.monotonic()) > 0:
                    if not selector.select(left):
                        continue
                    piece = os.read(process.stdout.fileno(), 1 << 16)
                    if not piece:
                        process.wait()
                        ending = Ending.EXITED if process.returncode == 0 else Ending.DIED
                        break
                    times.append((size, time.monotonic() - start))
                    size += len(piece)
                    file.write(piece)
                    tail = tail[-_TAIL:] + piece
                    if size > LOG_LIMIT:
                        break
                    if stop and stop.search(tail):
                        ending = Ending.KILLED
                        break
        finally:
            _end(process)
    return GuestRun(tuple(argv), log, ending, time.monotonic() - start, tuple(times))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the guest's whole process group, because UML runs its CPUs as processes of this group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
    if process.stdout:
        process.stdout.close()
