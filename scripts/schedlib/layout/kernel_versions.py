# SPDX-License-Identifier: GPL-2.0
"""A kernel without and with a patch, in its owner's build or in configurations of our own, for all that look at it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from typing import ClassVar

from schedlib.cache import cache_dir
from schedlib.contracts.contract_rules import Rules
from schedlib.errors import SchedlineError
from schedlib.git import git, try_git
from schedlib.kernel.kconfig import Dropped
from schedlib.layout.columns import columns_for, composed_tree, ensure_tools, pack_columns
from schedlib.layout.compile import Column
from schedlib.layout.kernel_text import KernelText, text_of_commit
from schedlib.layout.layout_options import InitOptions, LayoutOptions
from schedlib.layout.own_build import OURS, Versions, chosen_build, patched
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.patch_coverage import Followed, Texts, changed_texts, follow
from schedlib.layout.patch_findings import Finding
from schedlib.layout.patch_text import git_revisions
from schedlib.layout.rule_judge import Layout
from schedlib.layout.unit_build import Said, differing, said, unit_build
from schedlib.options import DEFAULT_SERIES
from schedlib.progress import say, step
from schedlib.tree.changes import hunk_offsets_of, hunks
from schedlib.tree.compose import Composition, with_tests
from schedlib.tree.kernel_tree import Tree, apply_diff

_HISTORY = 100
"""The number of last commits that are searched for a patch that the tree already has."""

TIGHTEST = "numa+proxy"
"""The configuration that leaves the least room on the first line of struct rq."""

_READERS = ("kernel/sched/core.c", "kernel/fork.c", "net/core/dev.c", "mm/memcontrol.c", "block/blk-mq.c")

PATIENCE = 1.0
"""Seconds of silence: a hook that takes longer prints what it does."""


def steps(tree: Tree, composition: Composition, patch: bytes) -> tuple[str, str]:
    """The commits of a composed tree without and with the patch.

    If the tree has the patch already, the commit without it is made or found. Without applied changes this includes a
    patch that is among the tree's last commits. SchedlineError: it neither applies nor is in the tree.
    """
    message = "patch on standard input\n"
    is_plain = composition.commit == composition.tests
    # The tests add lines to a Makefile. A patch that does so, too, applies only to the tree without the tests.
    bases = (composition.commit, tree.base) if is_plain else (composition.commit,)
    for base in bases:
        if after := apply_diff(tree, base, patch, message):
            return base, after
        if before := apply_diff(tree, base, patch, message, "--reverse"):
            return before, base
    if own := _patch_ids(tree, patch) if is_plain else {}:
        # The first commit, or the last one of a shallow clone, adds the whole kernel.
        only = [f"-{_HISTORY}", "-p", "--no-merges", "--min-parents=1"]
        log = try_git(tree.src, "log", *only, tree.head, "--", "*.h", "*Kconfig*").stdout
        for commit in _patch_ids(tree, log).values():
            shown = try_git(tree.src, "show", commit).stdout
            if set(_patch_ids(tree, shown)) == set(own):
                return git(tree.src, "rev-parse", f"{commit}^"), commit
    # As `git am -3` does: by the blobs that the patch names.
    for base in bases:
        after = apply_diff(tree, base, patch, message, "--3way")
        if after and differing(tree, base, after):
            return base, after
        # A tree that has the patch, and has gone on since, stays as it is.
        if after and (before := apply_diff(tree, base, patch, message, "--3way", "--reverse")):
            return before, base
    where = f", and is not among its last {_HISTORY} commits" if is_plain else " with the changes that it was given"
    raise SchedlineError(
        f"the patch does not apply to {tree.origin}{where}:{hunks(hunk_offsets_of(tree, composition.tests, patch))}",
        "rebase it, or check out what it was made for",
    )


def _patch_ids(tree: Tree, text: bytes) -> dict[str, str]:
    """The commits of a log with patches, by patch id."""
    rows = try_git(tree.src, "patch-id", "--stable", stdin=text).stdout.decode().split("\n")
    return {row.split()[0]: row.split()[1] for row in rows if row}


@dataclass(frozen=True)
class CommitVersions:
    """Two commits, in configurations of our own: for the scheduler's structures, and for all others.

    Attributes:
        is_there: the tree has the patch already.
    """

    tree: Tree
    both: tuple[str, str]
    columns: Sequence[Column]
    pack_columns: Sequence[Column]
    is_there: bool = False

    own = None
    read: ClassVar[Collection[str]] = ()

    @cached_property
    def texts(self) -> Texts:
        """The headers and sources that differ."""
        return changed_texts(self.tree, *self.both)

    @property
    def archs(self) -> frozenset[str]:
        """The directories of arch/ that the configurations read."""
        makes = {column.arch.make for column in (*self.columns, *self.pack_columns)}
        return frozenset(makes | ({"x86"} if makes & {"x86_64", "i386", "um"} else set()))

    @cached_property
    def followed(self) -> Followed:
        """What means something else with the patch."""
        return follow(self.texts, self.text.read, self)

    def readers_of(self, file: str) -> Iterable[str]:
        """A .c file that reads many headers, this one among them, in the configuration that compiles most."""
        top = file.partition("/")[0]
        near = (each for each in _READERS if top in ("include", "arch", each.partition("/")[0]))
        return islice((each for each in near if file in self.read_by(each)), 1)

    def read_by(self, source: str) -> Collection[str]:
        """The files that one of these reads."""
        return self._whole(source, 1)[1]

    def said(self, source: str) -> tuple[Said | None, Said | None]:
        """What one says, with all that it includes, without and with the patch; None if that fails."""
        one, other = (self._whole(source, side)[0] for side in (0, 1))
        return (said(one), said(other)) if one and other else (None, None)

    @cached_property
    def _whole(self) -> Callable[[str, int], tuple[str, frozenset[str]]]:
        return cache(self._whole_of)

    def _whole_of(self, source: str, side: int) -> tuple[str, frozenset[str]]:
        try:
            with unit_build(cache_dir(), self.tree, self.both[side], self.pack_columns[0]) as build:
                return build.whole(source) if build else ("", frozenset())
        except Dropped:
            return "", frozenset()

    def as_it_was(self) -> Iterator[Finding]:
        """Nothing: make builds anew."""
        return iter(())

    @property
    def text(self) -> KernelText:
        """The files with the patch."""
        return text_of_commit(self.tree, self.both[1])

    def layouts(
        self, column: Column | None, rules: Rules, why: dict[str, str], *, every: bool = False
    ) -> tuple[Layout, Layout] | None:
        """The structures of rules without and with the patch; None, with a word why, if there is no such kernel."""
        del why, every
        if column is None:
            return None
        before, after = self.both
        try:
            return (
                pack_layout(cache_dir(), self.tree, before, column, rules),
                pack_layout(cache_dir(), self.tree, after, column, rules, before),
            )
        except Dropped as dropped:
            say(f"no column {column.name}: {dropped.observed}")
            return None


@contextmanager
def opened(options: LayoutOptions | InitOptions, patch: bytes = b"") -> Iterator[Versions | CommitVersions]:
    """The kernel that options name, without and with a patch.

    Where it was built, its own compiler, configuration and commands are used, unless the options name others.
    """
    if own := chosen_build(options):
        of_git = None
        if isinstance(options, LayoutOptions):
            of_git = git_revisions(own.tree, options.commit, options.between, options.staged)
        with patched(own, patch, of_git) as versions:
            yield versions
        return
    archs, configs = options.columns.arch, options.columns.config
    columns = columns_for(archs, configs or (TIGHTEST,))
    ensure_tools(columns, options.tree.needs)
    with step(f"reading {options.tree.kdir or options.tree.series or DEFAULT_SERIES}", after=PATIENCE):
        tree, composition = composed_tree(options.tree, options.changes)
        both, is_there = (composition.commit, composition.commit), False
        if patch:
            before, after = steps(tree, composition, patch)
            both, is_there = (with_tests(tree, before), with_tests(tree, after)), before not in (both[0], tree.base)
    yield CommitVersions(tree, both, columns, pack_columns(archs, configs), is_there)


def layouts_of(versions: Versions | CommitVersions, struct: str, file: str) -> list[tuple[Layout, Layout]]:
    """A structure that a file declares, without and with a patch, in each configuration; SchedlineError if in none."""
    rules = Rules((), (), files={struct: file})
    every = (versions.layouts(column, rules, {}, every=True) for column in versions.pack_columns)
    found = [pair for pair in every if pair]
    if not found and versions.own:
        raise SchedlineError(f"no object of {versions.own.build} is made from {file}", f"make one, or add {OURS}")
    if not found:
        raise SchedlineError("there is no such kernel", "choose another --arch or --config")
    return found


def require_struct(layout: Layout, struct: str) -> None:
    """Raise SchedlineError if a kernel does not have a structure."""
    if struct not in layout.structures:
        raise SchedlineError(
            f"{layout.name} has no struct {struct}",
            "check its name; configs/kernel/packs.config has the subsystems that are compiled, --config adds others",
        )
