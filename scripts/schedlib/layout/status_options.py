# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline status`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.options import ChangeOptions, TreeOptions


@dataclass(frozen=True)
class StatusOptions:
    """Which kernel is looked at.

    Attributes:
        built: whether to look at a built kernel: `vmlinux`, or the running one if that is None.
        apply: print how the carried changes apply, instead of which changes the kernel has.
        changes: the changes to apply.
    """

    tree: TreeOptions
    changes: ChangeOptions
    built: bool = False
    vmlinux: Path | None = None
    apply: bool = False
    json: Path | None = None

    @property
    def directory(self) -> Path | None:
        """The directory whose files are enough for the answer; None if a tree in the cache or a kernel is needed."""
        kdir = self.tree.kdir
        return kdir if kdir and kdir.is_dir() and not self.apply else None
