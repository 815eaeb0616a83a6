# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline run` and `schedline kernels`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from schedlib.options import ChangeOptions, TreeOptions

PLAN = "plan"
"""The file that marks a directory with runs. Without .json, because readers take each .json file for a run."""

GUESTS = ("qemu-x86_64", "qemu-arm64")
"""The targets whose guests have a disk, through which results are returned."""


@dataclass(frozen=True)
class GuestOptions:
    """The guest of --in-guest, and its kernel; see --help. `timeout`: seconds; None for what the runs may take."""

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
    """A suite, and where its runs go; see --help.

    Attributes:
        suite, runs, seed: None for those of the plan in `out`; without a plan, one run of each row in a new order.
        out: None for a new directory in the cache.
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
        """The options for the guest of one variant of cpupri-split, with separate result files."""
        return replace(
            self,
            json=self.json and self.json.with_stem(f"{self.json.stem}-{name}"),
            lava=self.lava and self.lava.with_stem(f"{self.lava.stem}-{name}"),
        )


@dataclass(frozen=True)
class PackOptions:
    """A bundle for a machine that is to be measured; see --help.

    Attributes:
        tree: the kernel source whose kselftest.h the programs include.
        pythons: versions of Python, besides the one that runs this.
        looks: also pack the libraries of `schedline gate`.
    """

    file: Path
    tree: TreeOptions
    pythons: tuple[str, ...] = ()
    looks: bool = False


@dataclass(frozen=True)
class KernelsOptions:
    """The two or three kernels to build; see --help.

    Attributes:
        configuration: the text of the file `config`.
        revisions: of the tree, without and with the change; None if carried changes are compared.
        placebo_patch: the placebo's patch; None for the carried placebo of the change.
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
