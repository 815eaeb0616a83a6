# SPDX-License-Identifier: GPL-2.0
"""The selftests as commits of an exported series, for tools/testing/selftests/ of a kernel tree."""

from __future__ import annotations

import re

from schedlib.paths import COLLECTION, KSELFTESTS, SELFTESTS
from schedlib.tree.kernel_tree import Tree, commit_tree, edit_tree, file_row

_OTHERS = frozenset({"Makefile", "config", "settings", ".gitignore"})

_LOST = re.compile(r"^TEST_GEN_FILES := (\w+)\nTEST_PROGS := \1\n", re.M)
"""The bug in selftests/sched: a built program is listed as if it were a script in the source tree."""


def selftest_files() -> dict[str, tuple[bytes, str]]:
    """The files of the collection's directory: content and git mode by name."""
    return {
        path.name: (path.read_bytes(), "100755" if path.suffix == ".sh" else "100644")
        for path in sorted((SELFTESTS / COLLECTION).iterdir())
        if path.suffix in (".c", ".h", ".sh") or path.name in _OTHERS
    }


def add_sched_fix(tree: Tree, parent: str, author: dict[str, str]) -> str:
    """Commit the fix of selftests/sched if the tree needs it. Without the fix, that collection does not install."""
    name = f"{KSELFTESTS}/sched/Makefile"
    text = tree.read(name, parent) or ""
    fixed = _LOST.sub(r"TEST_GEN_PROGS := \1\n", text)
    if fixed == text:
        return parent
    message = (SELFTESTS / "sched-commit-message.txt").read_text()
    row = file_row(tree.src, name, fixed.encode())
    return commit_tree(tree.src, edit_tree(tree.src, parent, [row]), parent, message, author)


def add_selftests(tree: Tree, parent: str, author: dict[str, str]) -> str:
    """Commit the workloads. A tree without the selftests' lib.mk is not changed."""
    if tree.read(f"{KSELFTESTS}/lib.mk", parent) is None:
        return parent
    rows = [
        file_row(tree.src, f"{KSELFTESTS}/{COLLECTION}/{name}", data, mode)
        for name, (data, mode) in selftest_files().items()
    ]
    message = (SELFTESTS / "commit-message.txt").read_text()
    return commit_tree(tree.src, edit_tree(tree.src, parent, rows), parent, message, author)
