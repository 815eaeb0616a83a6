# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline c2c suggest`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.c2c.c2c_options import LINES
from schedlib.options import ChangeOptions, TreeOptions

WEIGHTS = (0.6, 0.25, 0.15)
"""Of lines of 64, 128 and 256 bytes, in this order."""

PRICE = 0.2
"""Percent of the misses that a member has to bring to be moved."""

RESTARTS = 20


@dataclass(frozen=True)
class SuggestOptions:
    """What is to be searched, and with what.

    Attributes:
        file: what declares the structure; None to find it.
        bytes: the largest size; None for today's, rounded up to whole lines.
        weights: of each of LINES.
        compare: other layouts, counted beside the suggestion.
        measure: whether the suggestion is also built and run.
    """

    struct: str
    trace: tuple[Path, ...]
    held_out: tuple[Path, ...]
    tree: TreeOptions
    changes: ChangeOptions
    file: str | None
    bytes: int | None
    weights: tuple[float, ...]
    price: float
    restarts: int
    seed: int
    compare: tuple[Path, ...]
    measure: bool
    out: Path | None
    json: Path | None

    def weight_of_lines(self) -> dict[int, float]:
        """The weight of each size of lines that has one; together 1."""
        total = sum(self.weights)
        return {line: weight / total for line, weight in zip(LINES, self.weights, strict=True) if weight}
