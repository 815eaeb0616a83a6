# SPDX-License-Identifier: GPL-2.0
"""What the text of a kernel says of a structure: of a commit, or of a tree as its owner has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlib.cache import cache_dir, cached
from schedlib.errors import SchedlineError
from schedlib.git import git, try_git
from schedlib.names import our_headers
from schedlib.tree.kernel_tree import Tree

_PLACES = ("*.h", "*.c", ":!arch", ":!tools", ":!samples", ":!scripts", ":!Documentation")


@dataclass(frozen=True)
class KernelText:
    """The files of a kernel.

    Attributes:
        read: the text of a file; None if there is none.
        found: the names of the files in which a line matches.
    """

    origin: str
    read: Callable[[str], str | None]
    found: Callable[[str], Sequence[str]]


def text_of_commit(tree: Tree, commit: str) -> KernelText:
    """The files of a commit. What was looked for is kept: a whole kernel takes seconds."""

    def found(pattern: str) -> Sequence[str]:
        content = git(tree.src, "rev-parse", f"{commit}^{{tree}}")

        def make() -> dict[str, Any]:
            done = try_git(tree.src, "grep", "-lE", pattern, content, "--", *_PLACES)
            # The name of what was searched stands in front of each row.
            said = done.stdout.decode(errors="replace").replace(f"{content}:", "")
            return {"files": said.splitlines(), "code": done.returncode}

        found = cached(cache_dir() / "grep", (content, pattern), make, lambda known: known["code"] in (0, 1))
        return [str(each) for each in found["files"]]

    return KernelText(tree.origin, lambda file: tree.read(file, commit), found)


def text_of_directory(directory: Path) -> KernelText:
    """The files of a tree as they lie there."""

    def read(name: str) -> str | None:
        file = directory / name
        return file.read_text(errors="replace") if file.is_file() else None

    def found(pattern: str) -> Sequence[str]:
        done = try_git(directory, "grep", "--no-index", "-lE", pattern, "--", *_PLACES)
        return done.stdout.decode(errors="replace").splitlines()

    return KernelText(str(directory), read, found)


def declared_in(text: str) -> list[str]:
    """The tags of the structures that a file declares at the left margin."""
    return re.findall(r"^(?:typedef )?struct (\w+) \{", text, re.M)


def _declaring(kernel: KernelText, tags: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {tag: [] for tag in tags}
    for file in kernel.found(rf"^(typedef )?struct ({'|'.join(tags)}) \{{") if tags else ():
        for tag in found.keys() & declared_in(kernel.read(file) or ""):
            found[tag].append(file)
    return found


def _chosen(files: Sequence[str]) -> str:
    """The file that declares a structure: the only one, or the only public header; empty if several may."""
    public = [file for file in files if file.startswith("include/")]
    return (public or files)[0] if len(files) == 1 or len(public) == 1 else ""


def declaring_files(kernel: KernelText, files: Mapping[str, str]) -> dict[str, str]:
    """What declares structures in a kernel, by tag; what does so in a newer one stays where nothing else is found."""
    ours, there = our_headers(), {file: declared_in(kernel.read(file) or "") for file in set(files.values())}
    lost = sorted(tag for tag, file in files.items() if file not in ours and tag not in there[file])
    return {**files, **{tag: file for tag, its in _declaring(kernel, lost).items() if (file := _chosen(its))}}


def declaring_file(kernel: KernelText, struct: str, changed: Mapping[str, tuple[str, str]] | None = None) -> str:
    """The file that declares a structure: the only one, or the only public header.

    `changed`: files that a patch changes, without and with it; they are looked into first.
    """
    found = [file for file, both in (changed or {}).items() if struct in declared_in(both[1])]
    found = found or _declaring(kernel, [struct])[struct]
    if file := _chosen(found):
        return file
    if found:
        raise SchedlineError(f"{len(found)} files declare struct {struct}: {', '.join(found[:5])}", "name one: --file")
    raise SchedlineError(f"{kernel.origin} declares no struct {struct} at the left margin", "check its name")
