# SPDX-License-Identifier: GPL-2.0
"""Runs one tool, and kills everything that it started: when it ends, at its time limit, or when the runner dies.

This also works if the runner is killed by kill -9. The guard is a separate program that imports no other module of
ours. Its argument is the order. Its standard input is a pipe that the runner holds open. It writes the report to its
standard output.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
SIOCSIFADDR = 0x8916
IFF_UP = 1
OTHER_ADDRESS = "192.0.2.1"
LISTENING = "0A"
"""The state in /proc/net/tcp."""

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """For a child: killed when this process dies."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def children() -> list[int]:
    """Our children, including adopted ones and zombies."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names alone, of many
        with suppress(OSError, ValueError):
            stat = Path("/proc", entry, "stat").read_text()
            if int(stat.rsplit(")", 1)[1].split()[1]) == os.getpid():
                found.append(int(entry))
    return found


def adopt() -> None:
    """Become the subreaper: orphans of our children become our children."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_all(spared: Collection[int] = ()) -> None:
    """Kill children until none are left: the children of a dead child become ours."""
    while pids := [pid for pid in children() if pid not in spared]:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def private_network() -> str:
    """Create a network namespace with a loopback that nobody else can reach. Returns an error, or an empty string."""
    if _libc.unshare(CLONE_NEWNET):
        return os.strerror(ctypes.get_errno())
    with socket.socket() as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
        # If only loopback addresses exist, netperf resolves no address, not even 127.0.0.1 (AI_ADDRCONFIG).
        other = struct.pack("16sHH4s16x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(OTHER_ADDRESS))
        fcntl.ioctl(control, SIOCSIFADDR, other)
    return ""


def listens(port: int) -> bool:
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(f":{port:04X}") and fields[3] == LISTENING:
                    return True
    return False


def start(argv: list[str], output: Any, errors: Any) -> subprocess.Popen[bytes]:
    """Start a program in its own session, because some tools send signals to their whole process group."""
    return subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, preexec_fn=die_with_parent, start_new_session=True
    )


def serve(order: dict[str, Any], until: float) -> str:
    """Start the server, and wait until it listens. Returns an error, or an empty string."""
    server = start(order["server"], subprocess.DEVNULL, subprocess.DEVNULL)
    while not listens(order["port"]):
        status = server.poll()
        # Some servers fork into the background, and their first process then exits with 0.
        if status:
            return f"the server {order['server'][0]} ended with {status}"
        if time.monotonic() > until:
            return f"the server {order['server'][0]} does not listen on port {order['port']}"
        time.sleep(0.01)
    return ""


def wait(process: subprocess.Popen[bytes], until: float, wakeup: int) -> str:
    """Wait until the tool ends. Returns an empty string, "timeout", or "orphan" if the runner has died."""
    while process.poll() is None:
        left = until - time.monotonic()
        if left <= 0:
            return "timeout"
        ready, _, _ = select.select([0, wakeup], [], [], left)
        if 0 in ready:
            return "orphan"
        if ready:
            os.read(wakeup, 4096)
    return ""


def main() -> int:
    order = json.loads(sys.argv[1])
    adopt()
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    rt_us = round(order["rt_seconds"] * 1e6)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_RTTIME, (rt_us, rt_us + 1_000_000))
    report: dict[str, Any] = {"problem": "", "cannot": "", "exit_status": None, "timed_out": False, "seconds": 0.0}
    begun = time.monotonic()
    until = begun + order["timeout"]
    try:
        if order["server"]:
            report["cannot"] = private_network()
        if order["server"] and not report["cannot"]:
            report["problem"] = serve(order, until)
        if not report["problem"] and not report["cannot"]:
            with open(order["stdout"], "wb") as output, open(order["stderr"], "wb") as errors:  # noqa: PTH123
                begun = time.monotonic()
                process = start(order["argv"], output, errors)
                ending = wait(process, until, read)
                report |= {"timed_out": ending == "timeout", "exit_status": None if ending else process.returncode}
            report["seconds"] = time.monotonic() - begun
    except OSError as error:
        report["problem"] = f"{error.filename or order['argv'][0]}: {error.strerror}"
    finally:
        end_all()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report["cpu_s"] = used.ru_utime + used.ru_stime
    with suppress(BrokenPipeError):
        print(json.dumps(report), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
