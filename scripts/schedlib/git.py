# SPDX-License-Identifier: GPL-2.0
"""Running git without the user's hooks, signing or helpers, and without optional writes."""

from __future__ import annotations

import atexit
import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock

from schedlib.process import clean_environment, must, run

_ONE_AT_A_TIME = Lock()

_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.autocrlf": "false",
    "core.attributesFile": "/dev/null",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.detachedHead": "false",
    "core.looseCompression": "1",
    "safe.directory": "*",
}
_PREFIX = ["git", *(word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}"))]
_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}


def git(repository: Path, *words: str | Path, env: Mapping[str, str] | None = None, stdin: bytes | None = None) -> str:
    """Run git in a repository; its output without the last newline, or a SchedlineError if git failed."""
    return must([*_PREFIX, "-C", repository, *words], env=_ENVIRONMENT | dict(env or {}), stdin=stdin).removesuffix(
        "\n"
    )


def try_git(
    repository: Path, *words: str | Path, env: Mapping[str, str] | None = None, stdin: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run git where the caller handles failure."""
    return run([*_PREFIX, "-C", repository, *words], env=_ENVIRONMENT | dict(env or {}), stdin=stdin)


@cache
def _batch(repository: Path, _process: int) -> subprocess.Popen[bytes]:
    """Ends when its input is closed: with us."""
    argv = [*_PREFIX, "-C", str(repository), "cat-file", "--batch"]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    started = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=null, env=clean_environment(_ENVIRONMENT))
    atexit.register(started.communicate)
    return started


def blob(repository: Path, name: str) -> bytes | None:
    """The content of a blob, or of a file of a commit named `commit:path`; None if there is no such file.

    One process answers for all files: of a thousand, one for each would take seconds.
    """
    with _ONE_AT_A_TIME, suppress(OSError):
        batch = _batch(repository, os.getpid())
        if batch.stdin and batch.stdout and "\n" not in name:
            batch.stdin.write(os.fsencode(f"{name}\n"))
            batch.stdin.flush()
            if found := re.fullmatch(rb"[0-9a-f]+ (\w+) (\d+)\n", batch.stdout.readline()):
                content = batch.stdout.read(int(found[2]) + 1)
                if found[1] == b"blob" and len(content) > int(found[2]):
                    return content[:-1]
    # It may also be that the process ended, or that the repository was made anew.
    done = try_git(repository, "cat-file", "blob", name)
    return None if done.returncode else done.stdout


def merge_base(repository: Path, one: str, other: str) -> str:
    """The last commit that two have in common; empty if git finds none."""
    return try_git(repository, "merge-base", one, other).stdout.decode().strip()
