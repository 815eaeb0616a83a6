# SPDX-License-Identifier: GPL-2.0
"""What the text of a kernel says of a structure: of a commit, or of a tree as its owner has it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from schedlib.cache import cache_dir, write_atomic
from schedlib.contracts.first_contract import Declaration, find_declaration
from schedlib.contracts.net_tables import NET_TABLES, NO_TABLE, NetTable, read_table
from schedlib.errors import SchedlineError
from schedlib.git import git, try_git
from schedlib.layout.rule_judge import Layout, share_line
from schedlib.tree.kernel_tree import Tree

_PLACES = ("*.h", "*.c", ":!arch", ":!tools", ":!samples", ":!scripts", ":!Documentation")


@dataclass(frozen=True)
class KernelText:
    """The files of a kernel.

    Attributes:
        origin: for people.
        read: the text of a file; None if there is none.
        grep: what `git grep` prints for an option, a pattern and places.
    """

    origin: str
    read: Callable[[str], str | None]
    grep: Callable[..., Sequence[str]]


def text_of_commit(tree: Tree, commit: str) -> KernelText:
    """The files of a commit. What was looked for is kept: a whole kernel takes seconds."""

    def grep(how: str, pattern: str, *places: str) -> Sequence[str]:
        content = git(tree.src, "rev-parse", f"{commit}^{{tree}}")
        said = "\0".join((content, how, pattern, *places))
        kept = cache_dir() / "grep" / hashlib.sha256(said.encode()).hexdigest()[:20]
        with suppress(OSError):
            return kept.read_text().splitlines()
        done = try_git(tree.src, "grep", how, pattern, content, "--", *places)
        # The name of what was searched stands in front of each row.
        found = done.stdout.decode(errors="replace").replace(f"{content}:", "")
        if done.returncode in (0, 1):
            write_atomic(kept, found)
        return found.splitlines()

    return KernelText(tree.origin, lambda file: tree.read(file, commit), grep)


def text_of_directory(directory: Path) -> KernelText:
    """The files of a tree as they lie there."""

    def read(name: str) -> str | None:
        file = directory / name
        return file.read_text(errors="replace") if file.is_file() else None

    def grep(how: str, pattern: str, *places: str) -> Sequence[str]:
        done = try_git(directory, "grep", "--no-index", how, pattern, "--", *places)
        return done.stdout.decode(errors="replace").splitlines()

    return KernelText(str(directory), read, grep)


def declaring_file(kernel: KernelText, struct: str, changed: Mapping[str, tuple[str, str]] | None = None) -> str:
    """The file that declares a structure: the only one, or the only public header.

    Args:
        changed: files that a patch changes, without and with it; they are looked into first.

    Raises:
        SchedlineError: there is none, or several.
    """
    first_line = rf"^(typedef )?struct {re.escape(struct)} \{{"
    found = [file for file, both in (changed or {}).items() if re.search(first_line, both[1], re.M)]
    found = found or list(kernel.grep("-lE", first_line, *_PLACES))
    public = [file for file in found if file.startswith("include/")]
    if len(found) == 1 or len(public) == 1:
        return (public or found)[0]
    if found:
        raise SchedlineError(f"{len(found)} files declare struct {struct}: {', '.join(found[:5])}", "name one: --file")
    raise SchedlineError(f"{kernel.origin} declares no struct {struct} at the left margin", "check its name")


def declaration_in(kernel: KernelText, struct: str, file: str, layouts: Sequence[Layout]) -> Declaration:
    """What a kernel says of a structure that one of its files declares."""
    rows = find_table(kernel, struct)
    members = layouts[0].structures[struct].members

    def shares(one: Sequence[str], other: Sequence[str]) -> bool:
        return any(
            share_line(first, second, layout)
            for layout in layouts
            for first in layout.fields(struct, one)
            for second in layout.fields(struct, other)
        )

    def on_one_line(names: Sequence[str]) -> bool:
        return all(
            len({layout.line_of(byte) for each in layout.fields(struct, names) for byte in (each.offset, each.last)})
            == 1
            for layout in layouts
        )

    return Declaration(
        struct,
        file,
        tuple(member.name for member in members),
        asserted_members(kernel, struct),
        find_declaration(struct, kernel.read(file) or ""),
        rows,
        known_functions(kernel, {name for row in rows.rows for name in row.functions}),
        lambda name: layouts[0].field(struct, name) is not None,
        shares,
        ", ".join(layout.name for layout in layouts),
        {member.name: layouts[0].line_of(member.offset) for member in members},
        on_one_line,
    )


_ASSERTED = r"CACHELINE_ASSERT_GROUP_MEMBER\(struct (\w+),\s*(\w+),\s*(\w+)\)"


def asserted_members(kernel: KernelText, struct: str) -> Mapping[tuple[str, str], str]:
    """The files that assert that a member is in a group, by group and member. An assertion may take two lines."""
    # What is looked for is the same for each structure, so that it is looked for once.
    files = kernel.grep("-lF", "CACHELINE_ASSERT_GROUP_MEMBER(struct ", "*.c", "*.h")
    rows = ((file, found) for file in files for found in re.findall(_ASSERTED, kernel.read(file) or ""))
    return {(group, member): file for file, (tag, group, member) in rows if tag == struct}


def find_table(kernel: KernelText, struct: str) -> NetTable:
    """The table of a structure in Documentation/networking/net_cachelines; one without rows if there is none."""
    files = kernel.grep("-lE", rf"^{struct} struct ", f"{NET_TABLES}/*")
    tables = (read_table(file.rpartition("/")[2], kernel.read(file) or "") for file in files)
    return next((each for each in tables if each.rows and each.about == struct and not each.is_enum), NO_TABLE)


def known_functions(kernel: KernelText, names: Collection[str]) -> frozenset[str]:
    """Those of some names that a kernel has as functions, or as macros with arguments, of the network."""
    if not names:
        return frozenset()
    said = kernel.grep("-ohE", rf"\b({'|'.join(sorted(names))})\(", "include", "net")
    return frozenset(row.removesuffix("(") for row in said) & frozenset(names)
