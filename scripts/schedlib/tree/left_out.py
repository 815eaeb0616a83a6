# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites that a tree is too old for."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from schedlib.errors import SchedlineError
from schedlib.kernel.kconfig import Configuration, load
from schedlib.paths import CONFIGS
from schedlib.tree.changes import Change, change_table, is_present
from schedlib.tree.kernel_tree import Tree


@dataclass(frozen=True)
class LeftOut:
    """A suite that is not built.

    Attributes:
        option: the Kconfig symbol that would build it.
        why: for people.
    """

    name: str
    option: str
    why: str


def configuration_of(names: Sequence[str], lacking: Collection[LeftOut]) -> Configuration:
    """Fragments of configs/kernel/ in this order, without asking for suites that cannot be built.

    Raises:
        SchedlineError: there is no such fragment.
    """
    return load(names).without([suite.option for suite in lacking])


def left_out(tree: Tree, expected: Collection[str], *, in_tree: bool = False) -> tuple[LeftOut, ...]:
    """The suites that cannot be built in a tree.

    Args:
        in_tree: by the tree itself, without what stands in for what it lacks.

    Raises:
        SchedlineError: an expected change could then not be judged.
    """
    rows = tomllib.loads((CONFIGS / "suites.toml").read_text())
    found = tuple(
        LeftOut(name, row["option"], row["why"])
        for name, row in rows.items()
        if in_tree >= row.get("in_tree", False)
        and not is_present(tree, Change(name, "", row["file"], row["start"], (row["pattern"],)))
    )
    for suite in found:
        unjudged = sorted(name for name in expected if change_table()[name].suite == suite.name)
        if unjudged:
            raise SchedlineError(
                f"{unjudged[0]} is expected, and {suite.name}, which judges it, cannot be built here: {suite.why}",
                "expect it of a newer tree, or see what the source shows: schedline status --kdir PATH",
            )
    return found
