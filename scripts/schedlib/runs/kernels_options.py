# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline kernels`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.options import TreeOptions


@dataclass(frozen=True)
class KernelsOptions:
    """The two or three kernels to build.

    Attributes:
        config: the file that the configuration was read from.
        configuration: its text.
        revisions: of the tree, without and with the change; None if carried changes are compared.
        changes: carried changes that only the candidate has.
        with_: changes that all kernels get.
        placebo: whether a placebo is built, too.
        placebo_patch: the placebo's patch; None for the carried placebo of the change.
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
