# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites, and what a tree needs to build them: configs/suites.toml and configs/features.toml."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from typing import Annotated

import msgspec

from schedlib.errors import SchedlineError
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Strict, Word, check_patterns
from schedlib.paths import CONFIGS
from schedlib.tree.changes import change_table
from schedlib.tree.kernel_tree import Tree
from schedlib.tree.source import SourceSigns


class KunitSuite(Strict, frozen=True):
    """One suite as configs/suites.toml describes it.

    Attributes:
        option: the Kconfig symbol that builds it.
        source: its file in kunit/.
        included_by: the file of the kernel that includes it at its end; empty if it is a unit of its own.
        only_with: changes; the exported series leaves the suite out of a tree that has none of them.
        ours: only our own builds have it; no exported series.
        file, start, pattern: the sign that a tree can build it, in the form of a change's signs; empty if any can.
        why: why a tree without the sign cannot build it.
    """

    name: Word
    option: Word
    source: Word
    included_by: str = ""
    only_with: tuple[Word, ...] = ()
    ours: bool = False
    file: str = ""
    start: str = ""
    pattern: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        check_patterns(self.start, self.pattern)

    @property
    def words(self) -> frozenset[str]:
        """The words by which Kconfig, Makefile and .kunitconfig name it: its option, and the object of its file."""
        return frozenset({self.option.removeprefix("CONFIG_"), self.option, self.source.replace(".c", ".o")})

    def fits(self, there: Collection[str]) -> bool:
        """Whether the series for a tree with these changes has it."""
        return not self.ours and (not self.only_with or not set(self.only_with).isdisjoint(there))


class Feature(Strict, frozen=True):
    """Something that the tests use and not every kernel has: one of the files then matches the pattern.

    `optional`: the exported tests do without it, where need be without a test.
    """

    files: Annotated[tuple[Word, ...], msgspec.Meta(min_length=1)]
    pattern: Word
    optional: bool = False

    def __post_init__(self) -> None:
        check_patterns(self.pattern)


@cache
def suite_table() -> dict[str, KunitSuite]:
    """Every suite by its name, in the order of the exported series."""
    return read_toml(CONFIGS / "suites.toml", dict[str, KunitSuite], keys="name")


@cache
def feature_table() -> dict[str, Feature]:
    """Every feature by its name."""
    return read_toml(CONFIGS / "features.toml", dict[str, Feature])


def lacking_features(tree: Tree, commit: str) -> tuple[str, ...]:
    """The names of the features that a commit lacks."""
    return tuple(
        name
        for name, feature in feature_table().items()
        if not any(re.search(feature.pattern, tree.read(file, commit) or "", re.M) for file in feature.files)
    )


def left_out(tree: Tree, expected: Collection[str]) -> tuple[KunitSuite, ...]:
    """The suites that cannot be built in a tree; SchedlineError if one of them judges an expected change."""
    needing = [suite for suite in suite_table().values() if suite.pattern]
    signs = {suite: SourceSigns(suite.file, suite.start, (suite.pattern,)) for suite in needing}
    found = tuple(suite for suite, sign in signs.items() if not any(sign.found_in(tree.read(sign.file) or "")))
    for lacking in found:
        unjudged = sorted(name for name in expected if change_table()[name].suite == lacking.name)
        if unjudged:
            raise SchedlineError(
                f"{unjudged[0]} is expected, and {lacking.name}, which judges it, cannot be built here: {lacking.why}",
                "expect it of a newer tree, or see what the source shows: schedline status --kdir PATH",
            )
    return found
