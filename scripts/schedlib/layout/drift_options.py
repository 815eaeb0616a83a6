# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline layout drift`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.layout.layout_options import LayoutOperand


@dataclass(frozen=True)
class DriftOptions:
    """The kernels to compare, in order of time.

    Attributes:
        archs: architectures; empty for those of the built kernels, or else the default.
        configs: fragments; empty for each architecture's own configuration.
        packs: which contracts; `sched` is that of the five changes.
        contracts: directories with more contracts.
        html, json: files for the page and the document.
        command: the command line, for the page.
    """

    kernels: tuple[LayoutOperand, ...]
    archs: tuple[str, ...]
    configs: tuple[str, ...]
    packs: tuple[str, ...]
    contracts: tuple[Path, ...]
    html: Path | None
    json: Path | None
    command: str
