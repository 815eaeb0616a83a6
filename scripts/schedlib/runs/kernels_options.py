# SPDX-License-Identifier: GPL-2.0
"""What `schedline kernels` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.options import TreeOptions


@dataclass(frozen=True)
class KernelsOptions:
    """Two kernels, or three.

    Attributes:
        config: the file that the configuration was read from.
        configuration: its text.
        revisions: of the tree, without and with the change; None where carried changes are compared.
        changes: carried changes that only the candidate has.
        with_: changes that all kernels get.
        placebo: whether a placebo is built, too.
        placebo_patch: what makes it; None for the carried placebo of the change.
        package: deb or tar.
        out: where the packages go.
    """

    tree: TreeOptions
    config: Path
    configuration: str
    revisions: tuple[str, str] | None
    changes: tuple[str, ...]
    with_: tuple[str, ...]
    placebo: bool
    placebo_patch: Path | None
    package: str
    out: Path
