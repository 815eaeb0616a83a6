# SPDX-License-Identifier: GPL-2.0
"""Running git without the user's hooks, signing or helpers, and without optional writes."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from schedlib.process import must, run

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


def merge_base(repository: Path, one: str, other: str) -> str:
    """The last commit that two have in common; empty if git finds none."""
    return try_git(repository, "merge-base", one, other).stdout.decode().strip()
