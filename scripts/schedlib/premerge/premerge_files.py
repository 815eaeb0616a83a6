# SPDX-License-Identifier: GPL-2.0
"""The names of the files in the directory of a premerge."""

from __future__ import annotations

from pathlib import Path

from schedlib.errors import SchedlineError

SERIES = "premerge.json"
LAYOUTS = "layout.json"
GUESTS = "guests.json"
RUNS = "runs"
TRAFFIC = "c2c"
GATES = "gates.toml"


def refuse_old(out: Path) -> None:
    """Reject a directory with files of an earlier premerge, which could be taken for this one's.

    Raises:
        SchedlineError: such a file exists.
    """
    if old := next((name for name in (SERIES, LAYOUTS, "base", "head", TRAFFIC, RUNS) if (out / name).exists()), None):
        raise SchedlineError(f"--out: {out} has {old} of an earlier premerge", "name a new directory, or remove it")


def require_premerge(directory: Path) -> None:
    """Reject a directory that has no data for evidence.

    Raises:
        SchedlineError: the directory does not exist, or has neither a series nor runs.
    """
    if not (directory / SERIES).is_file() and not (directory / RUNS).is_dir():
        raise SchedlineError(f"{directory} has neither {SERIES} nor {RUNS}/", "schedline premerge --out DIR makes them")
