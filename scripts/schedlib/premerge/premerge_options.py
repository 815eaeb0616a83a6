# SPDX-License-Identifier: GPL-2.0
"""What `schedline premerge` and `schedline premerge evidence` are asked for."""

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
        archs: for the layout.
        skip: of PARTS.
        runs: directories of base and candidate.
        gates: as GateOptions has it.
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
    """The options of an evidence.

    Attributes:
        directory: that a premerge has left.
        verify: a text or mail to hold against it; `-` is standard input.
        out: where the text goes; None for standard output.
    """

    directory: Path
    verify: Path | None = None
    out: Path | None = None
