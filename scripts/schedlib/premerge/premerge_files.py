# SPDX-License-Identifier: GPL-2.0
"""The names of what a premerge leaves in its directory."""

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
    """What another premerge has left must not be taken for this one's.

    Raises:
        SchedlineError: there is something of it.
    """
    if old := next((name for name in (SERIES, LAYOUTS, "base", "head", TRAFFIC, RUNS) if (out / name).exists()), None):
        raise SchedlineError(f"--out: {out} has {old} of an earlier premerge", "name a new directory, or remove that")


def require_premerge(directory: Path) -> None:
    """See that there is something to make evidence of.

    Raises:
        SchedlineError: a directory without it, or none.
    """
    if not (directory / SERIES).is_file() and not (directory / RUNS).is_dir():
        raise SchedlineError(f"{directory} has neither {SERIES} nor {RUNS}/", "schedline premerge --out DIR makes them")
