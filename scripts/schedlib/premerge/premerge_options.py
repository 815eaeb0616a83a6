# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline premerge` and `schedline premerge evidence`, and the names of the files of a premerge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.errors import SchedlineError

PARTS = ("layout", "kunit", "c2c", "mutants")

SERIES = "premerge.json"
LAYOUTS = "layout.json"
GUESTS = "guests.json"
RUNS = "runs"
TRAFFIC = "c2c"
GATES = "gates.toml"


@dataclass(frozen=True)
class PremergeOptions:
    """The options of a premerge; see --help. Without a base, b4 names base and head."""

    kdir: Path
    base: str | None
    head: str | None
    mbox: Path | None
    archs: tuple[str, ...]
    contracts: Path | None
    measured: Path | None
    skip: tuple[str, ...]
    runs: tuple[Path, Path] | None
    placebo: Path | None
    gates: str | None
    out: Path | None
    json: Path | None
    form: str


@dataclass(frozen=True)
class EvidenceOptions:
    """The directory of a premerge, and a text or mail to compare with it (`-`: standard input), or a file for one."""

    directory: Path
    verify: Path | None = None
    out: Path | None = None


def refuse_old(out: Path) -> None:
    """Reject a directory with files of an earlier premerge, which could be taken for this one's.

    Raises SchedlineError: such a file exists.
    """
    if old := next((name for name in (SERIES, LAYOUTS, "base", "head", TRAFFIC, RUNS) if (out / name).exists()), None):
        raise SchedlineError(f"--out: {out} has {old} of an earlier premerge", "name a new directory, or remove it")


def require_premerge(directory: Path) -> None:
    """Reject a directory that has no data for evidence.

    Raises SchedlineError: the directory does not exist, or has neither a series nor runs.
    """
    if not (directory / SERIES).is_file() and not (directory / RUNS).is_dir():
        raise SchedlineError(f"{directory} has neither {SERIES} nor {RUNS}/", "schedline premerge --out DIR makes them")
