# SPDX-License-Identifier: GPL-2.0
"""A commit of a tree as files, without checking it out: links to the work tree, and the files that differ."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from schedlib.git import git, try_git
from schedlib.tree.kernel_tree import Tree

_GONE = "0" * 40


@lru_cache(maxsize=16)
def differing(tree: Tree, one: str, other: str) -> Mapping[str, str]:
    """The files in which two commits differ, and the git object that the other has; empty for a file that it lacks."""
    if one == other:
        return {}
    words = git(tree.src, "diff-tree", "-r", "-z", "--no-renames", "--no-abbrev", one, other).split("\0")
    return {
        name: "" if (blob := row.split()[3]) == _GONE else blob
        for row, name in zip(words[::2], words[1::2], strict=False)
    }


def adds_header(tree: Tree, one: str, files: Iterable[str]) -> bool:
    """Whether a commit lacks a header among some files. A new one may be found instead of another that units read."""
    return any(file.endswith(".h") and tree.read(file, one) is None for file in files)


def lay_out(tree: Tree, changed: Mapping[str, str], place: Path) -> Path:
    """A directory that shows the work tree with some files as git objects have them.

    Args:
        changed: see differing().
        place: the directory to make.
    """
    if not changed:
        return tree.src
    _link(tree.src, place)
    for name, blob in changed.items():
        above = place
        for part in Path(name).parts[:-1]:
            above /= part
            if above.is_symlink():
                real = above.readlink()
                above.unlink()
                _link(real, above)
            above.mkdir(exist_ok=True)
        file = place / name
        file.unlink(missing_ok=True)
        if blob:
            file.write_bytes(try_git(tree.src, "cat-file", "blob", blob).stdout)
    return place


def _link(real: Path, place: Path) -> None:
    """A directory with links to all that another one has."""
    place.mkdir(parents=True)
    for entry in os.scandir(real):
        if entry.name != ".git":
            (place / entry.name).symlink_to(entry.path)
