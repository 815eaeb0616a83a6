# SPDX-License-Identifier: GPL-2.0
"""Starting programs: argument lists only, no shell; output is captured; failures are reported in one form.

And processes of our own that compute at once: of the threads of a process only one runs Python at a time.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from schedlib.errors import SchedlineError

if TYPE_CHECKING:
    from concurrent.futures import Executor

_KEPT = (
    "PATH|HOME|USER|LOGNAME|SHELL|TERM|TMPDIR|LD_LIBRARY_PATH|SOURCE_DATE_EPOCH|DEBIAN_FRONTEND|MPLCONFIGDIR|"
    "(?:CCACHE|SCHEDLINE|XDG|NIX|PIP|PKG_CONFIG|PYTEST|HYPOTHESIS|COVERAGE|SSL_CERT|REQUESTS_CA|CURL_CA|APT)_?.*|"
    "(?:http|https|ftp|all|no)_proxy|(?:HTTP|HTTPS|FTP|ALL|NO)_PROXY"
)


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The C locale and what a program needs to run; nothing that git, make, grep or a kernel build would obey."""
    kept = {name: value for name, value in os.environ.items() if re.fullmatch(_KEPT, name)}
    return kept | {"LC_ALL": "C"} | dict(extra or {})


@cache
def _can(setpriv: str) -> bool:
    # busybox's setpriv lacks the option.
    return not subprocess.run([setpriv, "--pdeathsig", "TERM", "true"], capture_output=True, check=False).returncode


def dying_with_us(argv: Sequence[str], signal: str = "TERM") -> list[str]:
    """Wrap a command so that the kernel ends it when this process dies, even by kill -9."""
    setpriv = shutil.which("setpriv") if shutil.which(argv[0]) else None
    return [*([setpriv, "--pdeathsig", signal] if setpriv and _can(setpriv) else []), *argv]


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    outliving: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, whatever its exit status; SchedlineError if it is not installed, or `cwd` vanished.

    It dies with us unless it is `outliving`: what it does must not be cut off.
    """
    words = [str(word) for word in argv]
    try:
        return subprocess.run(
            words if outliving else dying_with_us(words),
            cwd=cwd,
            env=clean_environment(env),
            input=stdin if stdin is not None else b"",
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        if cwd is not None and not cwd.is_dir():
            raise SchedlineError(f"{cwd} vanished while it was in use", "run the command again") from error
        raise SchedlineError(f"the program {argv[0]} is not installed", "schedline doctor") from error


def must(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    next_step: str = "run the command by hand to see more",
) -> str:
    """Run a program that has to succeed; returns its standard output.

    SchedlineError if it is not installed or fails; the message ends with the last lines that it printed.
    """
    done = run(argv, cwd=cwd, env=env, stdin=stdin)
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-8:]
        observed = f"`{' '.join(str(word) for word in argv)}` failed ({done.returncode}):\n    " + "\n    ".join(said)
        raise SchedlineError(observed, next_step)
    return done.stdout.decode(errors="surrogateescape")


def version_of(program: str) -> str:
    """The first line that a program prints for --version; SchedlineError if it is not installed."""
    return run([program, "--version"]).stdout.decode(errors="replace").split("\n")[0]


_PR_SET_PDEATHSIG = 1


@contextmanager
def workers() -> Iterator[Executor]:
    """One process for each CPU. They hash alike, and end with us, even by kill -9.

    To be opened before any thread begins: a child has the locks of all threads, but none that opens them.
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("fork"), _begin) as pool:
        # Whoever submits first forks all, and they end with that thread.
        pool.submit(os.getpid).result()
        yield pool


def _begin() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Ctrl-C goes to all; it is for the first of us to say what happens.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
