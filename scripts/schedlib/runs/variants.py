# SPDX-License-Identifier: GPL-2.0
"""The commits of base, candidate and placebo: two revisions of a user's tree, or a tree without and with carried
changes. None of them contains the tests."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.git import git, try_git
from schedlib.tree.changes import State, apply_changes, apply_mail, hunks, known, patch_sets, present_changes
from schedlib.tree.kernel_tree import Tree


@dataclass(frozen=True)
class KernelSource:
    """What one kernel is built from. `role`: base, candidate or placebo, which is the end of the kernel's name."""

    role: str
    commit: str
    what: str


def of_revisions(tree: Tree, base: str, head: str) -> list[KernelSource]:
    """Two revisions of a user's tree.

    Raises:
        SchedlineError: one does not exist, or both are the same.
    """
    commits = [revision(tree, base, "--base"), revision(tree, head, "--head")]
    if commits[0] == commits[1]:
        raise SchedlineError(f"{base} and {head} are the same commit, {commits[0][:12]}", "name two that differ")
    return [KernelSource("base", commits[0], base), KernelSource("candidate", commits[1], head)]


def revision(tree: Tree, name: str, option: str) -> str:
    """A commit of a user's git tree.

    Raises:
        SchedlineError: there is no such revision.
    """
    origin = Path(tree.origin)
    found = try_git(origin, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if found.returncode:
        raise SchedlineError(f"{option}: {origin} has no revision {name!r}", f"git -C {origin} log --oneline")
    return found.stdout.decode().strip()


def of_changes(tree: Tree, changes: Collection[str], both: Collection[str]) -> list[KernelSource]:
    """A tree without and with some changes, applied or, where upstream, reverted. `both`: changes of both kernels.

    Raises:
        SchedlineError: a change is unknown, or can neither be applied nor reverted.
    """
    known(changes, "--change")
    known(both, "--with")
    upstream = present_changes(tree) & set(changes)
    nothing: set[str] = set()
    sides = {"base": (set(both) - set(changes), upstream), "candidate": ({*both, *changes} - upstream, nothing)}
    sources = []
    for role, (wanted, without) in sides.items():
        commit, states = apply_changes(tree, tree.base, wanted, without)
        for state in states:
            if state.state is State.CONFLICT:
                raise SchedlineError(
                    f"{role}: {state.id} does not apply:{hunks(state.drift)}",
                    "schedline status --apply shows which changes this tree can have",
                )
        word = "with" if role == "candidate" else "without"
        sources.append(KernelSource(role, commit, f"{tree.origin} {word} {', '.join(sorted(changes))}"))
    return sources


def placebo_of(tree: Tree, change: str) -> Path:
    """The placebo that is carried for a change.

    Raises:
        SchedlineError: the change has no placebo.
    """
    sets = patch_sets(tree)
    files = [file for patches in sets for file in patches.directory.glob("placebo/*.patch")]
    found = next((file for file in files if file.stem == change), None)
    if found is None:
        raise SchedlineError(
            f"there is no placebo for {change} in {', '.join(patches.name for patches in sets)}",
            f"write one and give it: --placebo FILE; there are: "
            f"{', '.join(sorted({file.stem for file in files})) or 'none'}",
        )
    return found


def with_placebo(tree: Tree, sources: Sequence[KernelSource], mail: Path) -> KernelSource:
    """The placebo's commit: on the base, or on the candidate if it only applies there.

    Raises:
        SchedlineError: the patch applies to neither, or cannot be read.
    """
    drift: tuple[str, ...] = ()
    for source in sources:
        commit, drift = apply_mail(tree, source.commit, mail)
        if commit:
            return KernelSource("placebo", commit, f"{source.role} with {mail.name}")
    observed = f"{mail} applies neither to the base nor to the candidate:{hunks(drift)}"
    raise SchedlineError(observed, "rebase it onto one of the two")


def differences(tree: Tree, sources: Sequence[KernelSource]) -> list[str]:
    """For each source except the first, a line that says how it differs from the first."""
    out = []
    for source in sources[1:]:
        stat = git(tree.src, "diff", "--shortstat", sources[0].commit, source.commit)
        out.append(f"{source.role} against base:{stat or ' nothing'}")
    return out
