# SPDX-License-Identifier: GPL-2.0
"""tree -> plan -> built kernel: shared by check, c2c, run, premerge, the mutants and the benchmarks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib import doctor
from schedlib.kernel.build import Kernel, built
from schedlib.kernel.kconfig import Configuration, configuration_of
from schedlib.kernel.targets import Target
from schedlib.options import ChangeOptions
from schedlib.tree.compose import Composition, compose, refuse_conflicts, refuse_lost_members
from schedlib.tree.kernel_tree import Tree
from schedlib.tree.left_out import LeftOut, left_out


@dataclass(frozen=True)
class KernelPlan:
    """What to build, and from which tree; nothing is built yet.

    Attributes:
        commit: the commit to build; the composition's own unless something was added on top.
        left_out: suites that cannot be built because this tree is too old.
    """

    tree: Tree
    target: Target
    composition: Composition
    configuration: Configuration
    commit: str
    left_out: tuple[LeftOut, ...] = ()

    def describe(self) -> str:
        """The tree with the state of each change, for people."""
        dirty = f" (dirty: {self.tree.dirty} files)" if self.tree.dirty else ""
        changes = ", ".join(f"{row.id} {row.state.value}" for row in self.composition.states)
        return f"{self.tree.origin}{dirty} [{changes}]"


def plan_kernel(
    tree: Tree,
    target: Target,
    fragments: Sequence[str] = (),
    *,
    changes: ChangeOptions | None = None,
    expect: Collection[str] | None = None,
    base: str | None = None,
) -> KernelPlan:
    """Compose a tree and choose its configuration.

    Args:
        fragments: of configs/kernel/, on top of the target's own.
        expect: changes that the tree has to have; default: see compose().
        base: the revision whose changes are expected.

    Raises:
        SchedlineError: a tool is missing, an id is unknown, a change does not apply, or a suite that has to judge an
            expected change cannot be built.
    """
    changes = changes or ChangeOptions()
    composition = compose(tree, with_=changes.with_, without=changes.without, expect=expect, base=base)
    refuse_conflicts(composition)
    return composed_kernel(tree, target, composition, fragments)


def composed_kernel(tree: Tree, target: Target, composition: Composition, fragments: Sequence[str] = ()) -> KernelPlan:
    """Choose the configuration for a tree that is composed already.

    Raises:
        SchedlineError: a tool is missing, a suite that has to judge an expected change cannot be built, or the tree
            lacks a member that the rules of a change are about.
    """
    doctor.require(["build", target.name])
    refuse_lost_members(tree, composition.commit)
    lacking = left_out(tree, composition.expected)
    configuration = configuration_of([target.name, *fragments], lacking)
    return KernelPlan(tree, target, composition, configuration, composition.commit, lacking)


def prepare_kernel(cache: Path, plan: KernelPlan, place: Path) -> Kernel:
    """Build a plan, and copy the files that are needed afterwards, so that no build has to wait for a guest.

    Args:
        place: an empty directory for the copy; the caller removes it, see cache.scratch().

    Raises:
        DoesNotBuild: it does not compile or link.
        SchedlineError: Kconfig dropped a line.
    """
    with built(cache, plan.tree, plan.commit, plan.target, plan.configuration) as kernel:
        return kernel.kept(place)
