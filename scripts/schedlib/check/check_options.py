# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline check`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path

from schedlib.options import ChangeOptions, TreeOptions


@dataclass(frozen=True)
class CheckOptions:
    """The options of a check.

    Attributes:
        on: the target; None for the default one.
        cpus: CPU counts of the guests; empty for the target's own classes.
        config: fragments of configs/kernel/.
        cpupri: variants of cpupri-split; each is checked separately.
        expect: changes that the tree has to have; None: those of `base`.
        require: tests and suites that must not be skipped.
        only: SUITE[.CASE] with globs.
        again: boot even if an earlier verdict still holds.
    """

    tree: TreeOptions = field(default_factory=TreeOptions)
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    on: str | None = None
    cpus: tuple[int, ...] = ()
    topology: str | None = None
    config: tuple[str, ...] = ()
    cpupri: tuple[str, ...] = ()
    sanitize: str | None = None
    expect: tuple[str, ...] | None = None
    base: str | None = None
    require: tuple[str, ...] = ()
    selftests: bool = False
    only: str | None = None
    kernel_args: tuple[str, ...] = ()
    timeout: float | None = None
    json: Path | None = None
    out: Path | None = None
    verbose: bool = False
    again: bool = False

    def variant(self, name: str, out: Path) -> CheckOptions:
        """The check of one variant of cpupri-split: its change and fragment, and files of its own for the results."""
        return replace(
            self,
            changes=replace(self.changes, with_=(*self.changes.with_, "cpupri-split")),
            config=(*self.config, f"cpupri-{name}"),
            cpupri=(),
            json=self.json and self.json.with_stem(f"{self.json.stem}-{name}"),
            out=out / name,
        )

    def command(self, on: str) -> str:
        """The command that repeats this check on a target, without the option that chooses one test.

        It is empty if no single test can be chosen.
        """
        if self.selftests:
            return ""
        words = ["scripts/schedline", "check", *self.tree.words()]
        for name, value in (
            ("base", self.base or ""),
            ("with", ",".join(self.changes.with_)),
            ("without", ",".join(self.changes.without)),
            ("config", ",".join(self.config)),
            ("expect", ",".join(self.expect or ())),
            ("sanitize", self.sanitize or ""),
        ):
            words += [f"--{name}", value] if value else []
        for argument in self.kernel_args:
            words += ["--kernel-arg", argument]
        return shlex.join([*words, "--on", on])
