# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites that cannot be built in a tree because it is too old."""

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
    """A KUnit suite that not every kernel can build, as configs/suites.toml describes it.

    Attributes:
        option: the Kconfig symbol that builds it.
        file, start, pattern: the sign that a tree can build it, in the form of a change's signs.
        why: why a tree without the sign cannot build it.
        in_tree: it is left out only of a tree that builds the tests itself; our builds always have it.
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
        why: the reason, for people.
    """

    name: str
    option: str
    why: str


def left_out(tree: Tree, expected: Collection[str], *, in_tree: bool = False) -> tuple[LeftOut, ...]:
    """The suites that cannot be built in a tree.

    Args:
        in_tree: the tree builds the tests itself, without the files with which our builds supply what it lacks.

    Raises:
        SchedlineError: a suite that judges an expected change cannot be built.
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
