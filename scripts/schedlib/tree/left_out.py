# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites that a tree is too old for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from schedlib.errors import SchedlineError
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Strict, Word, check_patterns
from schedlib.paths import CONFIGS
from schedlib.tree.changes import Change, change_table, is_present
from schedlib.tree.kernel_tree import Tree


class OptionalSuite(Strict, frozen=True):
    """One that not every kernel can have, as configs/suites.toml states it.

    Attributes:
        option: the Kconfig symbol that builds it.
        file, start, pattern: its sign in a tree, as those of a change.
        why: a tree without the sign cannot have it.
        in_tree: our builds have it nevertheless.
    """

    name: Word
    option: Word
    file: Word
    start: Word
    pattern: Word
    why: Word
    in_tree: bool = False

    def __post_init__(self) -> None:
        check_patterns(self.start, self.pattern)


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


def left_out(tree: Tree, expected: Collection[str], *, in_tree: bool = False) -> tuple[LeftOut, ...]:
    """The suites that cannot be built in a tree.

    Args:
        in_tree: by the tree itself, without what stands in for what it lacks.

    Raises:
        SchedlineError: an expected change could then not be judged.
    """
    suites = read_toml(CONFIGS / "suites.toml", dict[str, OptionalSuite], keys="name").values()
    found = tuple(
        LeftOut(suite.name, suite.option, suite.why)
        for suite in suites
        if in_tree >= suite.in_tree
        and not is_present(tree, Change(suite.name, "", suite.file, suite.start, (suite.pattern,)))
    )
    for lacking in found:
        unjudged = sorted(name for name in expected if change_table()[name].suite == lacking.name)
        if unjudged:
            raise SchedlineError(
                f"{unjudged[0]} is expected, and {lacking.name}, which judges it, cannot be built here: {lacking.why}",
                "expect it of a newer tree, or see what the source shows: schedline status --kdir PATH",
            )
    return found
