# SPDX-License-Identifier: GPL-2.0
"""What `schedline status` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.options import ChangeOptions, TreeOptions


@dataclass(frozen=True)
class StatusOptions:
    """Which kernel is looked at.

    Attributes:
        built: it is built: `vmlinux`, or the running one for None.
        apply: say how the carried changes apply, instead of what is there.
        changes: which are applied.
    """

    tree: TreeOptions
    changes: ChangeOptions
    built: bool = False
    vmlinux: Path | None = None
    apply: bool = False
    json: Path | None = None

    @property
    def directory(self) -> Path | None:
        """The directory whose files tell all that is asked for; None where a tree in the cache, or a kernel does."""
        kdir = self.tree.kdir
        return kdir if kdir and kdir.is_dir() and not self.apply else None
