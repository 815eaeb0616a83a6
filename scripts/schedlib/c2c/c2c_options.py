# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline c2c`, and their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.kernel.targets import TARGETS
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.paths import CONFIGS

TRACED = tuple(name for name, target in TARGETS.items() if (CONFIGS / "kernel" / f"c2c-{target.arch}.config").is_file())
"""The targets that the plugin supports."""

QUANTA = (97, 100, 103)
CPUS = 16
LINES = (64, 128, 256)
TIMEOUT = 600.0


@dataclass(frozen=True)
class C2cOptions:
    """The options of a measurement.

    Attributes:
        rounds: number of rounds of each thread; None for the workload's default.
        quanta: lengths of a CPU's turn in blocks of code; a guest boots for each.
        line: bytes of a cache line.
        cpupri: a variant of cpupri-split.
        timeout: seconds allowed for each guest.
    """

    tree: TreeOptions
    changes: ChangeOptions
    on: str
    workload: str
    rounds: int | None
    cpus: int
    topology: str | None
    objects: tuple[str, ...]
    quanta: tuple[int, ...]
    line: int
    config: tuple[str, ...]
    cpupri: str | None
    timeout: float
    out: Path | None
    json: Path | None
    svg: Path | None


@dataclass(frozen=True)
class C2cDiffOptions:
    """Two results to compare: files, or directories that have them."""

    base: Path
    candidate: Path
    gates: Path
    json: Path | None
