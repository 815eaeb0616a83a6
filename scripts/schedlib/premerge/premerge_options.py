# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline premerge` and `schedline premerge evidence`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PARTS = ("layout", "kunit", "c2c", "mutants")


@dataclass(frozen=True)
class PremergeOptions:
    """The options of a premerge.

    Attributes:
        base: the revision that the series is made for.
        head: the last commit of the series; None for HEAD.
        mbox: mails in place of `head`.
        archs: architectures for the layout.
        skip: names in PARTS to skip.
        runs: directories of base and candidate.
        gates: see GateOptions.
    """

    kdir: Path
    base: str
    head: str | None
    mbox: Path | None
    archs: tuple[str, ...]
    skip: tuple[str, ...]
    runs: tuple[Path, Path] | None
    placebo: Path | None
    gates: str | None
    out: Path | None
    json: Path | None


@dataclass(frozen=True)
class EvidenceOptions:
    """The options of `schedline premerge evidence`.

    Attributes:
        directory: the directory of a premerge.
        verify: a text or mail to compare with it; `-` is standard input.
        out: the file for the text; None for standard output.
    """

    directory: Path
    verify: Path | None = None
    out: Path | None = None
