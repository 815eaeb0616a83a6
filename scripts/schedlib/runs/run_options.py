# SPDX-License-Identifier: GPL-2.0
"""What `schedline run` is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from schedlib.options import ChangeOptions, TreeOptions

GUESTS = ("qemu-x86_64", "qemu-arm64")
"""The targets whose guests have a disk, which brings runs home."""


@dataclass(frozen=True)
class GuestOptions:
    """The guest of --in-guest, and its kernel.

    Attributes:
        on: one of GUESTS; None for the default one.
        cpus: of a guest without a topology; None for the default number.
        config: fragments of configs/kernel/.
        cpupri: variants of cpupri-split, a guest for each.
        timeout: seconds; None for what the runs may take.
    """

    tree: TreeOptions
    changes: ChangeOptions
    on: str | None = None
    cpus: int | None = None
    topology: str | None = None
    config: tuple[str, ...] = ()
    cpupri: tuple[str, ...] = ()
    timeout: float | None = None

    def variant(self, name: str) -> GuestOptions:
        """The guest of one variant of cpupri-split: its change and fragment."""
        changes = replace(self.changes, with_=(*self.changes.with_, "cpupri-split"))
        return replace(self, changes=changes, config=(*self.config, f"cpupri-{name}"), cpupri=())


@dataclass(frozen=True)
class RunOptions:
    """A suite, and where its runs go.

    Attributes:
        suite: None for the one that was begun in `out`.
        only: rows of the suite; empty for all.
        runs: of each row; None for as many as were begun, or 1.
        seed: of the random order; None for a new one, or the one that was begun with.
        out: None for a new directory in the cache.
        listing: print the rows, and run nothing.
        report: print what the runs in this directory amount to, and run nothing.
        guest: None for this machine.
    """

    suite: str | None = None
    only: tuple[str, ...] = ()
    runs: int | None = None
    seed: int | None = None
    out: Path | None = None
    json: Path | None = None
    lava: Path | None = None
    listing: bool = False
    report: Path | None = None
    guest: GuestOptions | None = None

    def variant(self, name: str) -> RunOptions:
        """The runs in the guest of one variant of cpupri-split: files of their own for the results."""
        return replace(
            self,
            json=self.json and self.json.with_stem(f"{self.json.stem}-{name}"),
            lava=self.lava and self.lava.with_stem(f"{self.lava.stem}-{name}"),
        )
