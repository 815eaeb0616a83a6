# SPDX-License-Identifier: GPL-2.0
"""The source of a kernel that is compared: where it declares structures, what functions touch, and how both differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from functools import cache as once
from hashlib import sha256
from pathlib import Path

from schedlib.cache import read_json, write_json
from schedlib.contracts.contract_rules import Rules
from schedlib.contracts.struct_source import HEADERS
from schedlib.git import git, try_git
from schedlib.layout import reads
from schedlib.layout.drift import Reads
from schedlib.tree.kernel_tree import Tree

_CODE = ("include", "kernel", "mm", "fs", "net", "block", "ipc", "lib", "io_uring", "security")
"""Where structures are declared, and where the readers of those in public headers are looked for."""

_MOST = 160
"""Lines of a difference that are shown."""


@dataclass(frozen=True, eq=False)
class DriftSource:
    """A commit of a tree.

    Attributes:
        files: what declares each structure, by its tag.
    """

    tree: Tree
    commit: str
    files: Mapping[str, str]

    def read(self, file: str) -> str:
        """The text of a file; empty if there is none."""
        return self.tree.read(file, self.commit) or ""


def open_source(cache: Path, tree: Tree, commit: str, rules: Rules) -> DriftSource:
    """A commit, with the files that declare the structures of contracts there: a contract names that of a newer tree.

    A structure that no file of the tree declares keeps the file of its contract.
    """
    kept = _kept(cache, tree, commit, f"places {sorted(rules.files.items())}")
    if (known := read_json(kept)) is None:
        declared = _declaring(tree, commit, rules.files, sorted({*rules.files.values(), *HEADERS}))
        lost = [tag for tag, file in rules.files.items() if file not in (*declared.get(tag, ()), *HEADERS)]
        declared |= _declaring(tree, commit, lost, [f"{place}/*.[ch]" for place in _CODE]) if lost else {}
        known = dict(rules.files)
        for tag in lost:
            files = declared.get(tag, [])
            public = [each for each in files if each.startswith("include/")]
            if len(public) == 1 or len(files) == 1:
                known[tag] = (public or files)[0]
        write_json(kept, known)
    return DriftSource(tree, commit, known)


def _kept(cache: Path, tree: Tree, commit: str, what: str) -> Path:
    """The file of the cache that keeps something about a commit's content."""
    content = git(tree.src, "rev-parse", f"{commit}^{{tree}}")
    return cache / "layout" / f"{sha256(f'{content} {what}'.encode()).hexdigest()[:20]}.drift.json"


def _declaring(tree: Tree, commit: str, tags: Iterable[str], places: Sequence[str]) -> dict[str, list[str]]:
    """The files that declare structures, by tag."""
    pattern = rf"^(typedef )?struct ({'|'.join(tags)}) \{{"
    said = try_git(tree.src, "grep", "-E", pattern, commit, "--", *places).stdout.decode(errors="replace")
    found: dict[str, list[str]] = {}
    for file, tag in re.findall(r"^[^:\n]+:([^:\n]+):(?:typedef )?struct (\w+)", said, re.M):
        found.setdefault(tag, []).append(file)
    return found


def reads_of(cache: Path, source: DriftSource, rules: Rules) -> Reads:
    """What the functions touch that contracts name as readers."""
    wanted = sorted({(name, tag) for tag, group in rules.groups for name in group.readers})
    if not wanted:
        return {}
    version = sha256(Path(reads.__file__).read_bytes()).hexdigest()
    kept = _kept(cache, source.tree, source.commit, f"reads {wanted} {version}")
    if (known := read_json(kept)) is None:
        code = _code(source, wanted)
        known = {f"{name} {tag}": reads.touched(code, name, tag) for name, tag in wanted}
        write_json(kept, known)
    return {(name, tag): known[f"{name} {tag}"] for name, tag in wanted}


def _code(source: DriftSource, wanted: Sequence[tuple[str, str]]) -> reads.Code:
    """The files that define functions or call them, near the file that declares their structure."""
    homes = {source.files[tag] for _, tag in wanted}
    places = sorted({place for _, tag in wanted for place in _near(source, tag)})
    pattern = rf"\b({'|'.join(sorted({name for name, _ in wanted}))})\("
    names = homes | set(_files_with(source, pattern, places))
    return reads.code_of({name: source.read(name) for name in sorted(names)})


def _near(source: DriftSource, tag: str) -> Sequence[str]:
    """The directory of the file that declares a structure; those of all code for a public one."""
    file = source.files[tag]
    return _CODE if file.startswith("include/") else [str(Path(file).parent)]


def _files_with(source: DriftSource, pattern: str, places: Sequence[str]) -> list[str]:
    files = [f"{place}/*.[ch]" for place in places]
    said = try_git(source.tree.src, "grep", "-lE", pattern, source.commit, "--", *files).stdout
    return [row.partition(":")[2] for row in said.decode(errors="replace").splitlines()]


def declaration_hunk(before: DriftSource, after: DriftSource, tag: str, members: Sequence[str]) -> str:
    """How the declaration of a structure differs: the hunks that name one of some members; if none does, all."""
    return _difference(_declaration(before, tag), _declaration(after, tag), members)


def function_hunk(
    before: DriftSource, after: DriftSource, tag: str, functions: Sequence[str], members: Sequence[str]
) -> str:
    """How the first of some functions differs of which a hunk names a member, or another of the functions."""
    shown = ""
    for function in functions:
        words = [*(name.rpartition(".")[2] for name in members), *(name for name in functions if name != function)]
        old, new = _function(before, function, tag), _function(after, function, tag)
        if _naming(_hunks(old, new), words):
            return _difference(old, new, words)
        shown = shown or _difference(old, new, words)
    return shown


@dataclass(frozen=True)
class _Part:
    """A part of a file, with the number of its first line."""

    file: str = ""
    line: int = 1
    text: str = ""


def _difference(old: _Part, new: _Part, words: Sequence[str]) -> str:
    hunks = _hunks(old, new)
    if not hunks:
        return ""
    lines = "\n".join([f"--- {old.file}", f"+++ {new.file}", *(_naming(hunks, words) or hunks)]).splitlines()
    more = [f"[{len(lines) - _MOST} lines more]"] if len(lines) > _MOST else []
    return "\n".join([*lines[:_MOST], *more])


def _naming(hunks: Sequence[str], words: Sequence[str]) -> list[str]:
    """The hunks in which a changed line names one of some members or functions."""
    names = {name.partition(".")[0].removesuffix("[0]") for word in words for name in word.split("|")}
    pattern = rf"^[-+].*\b(?:{'|'.join(map(re.escape, sorted(names)))})\b"
    return [hunk for hunk in hunks if names and re.search(pattern, hunk, re.M)]


def _hunks(old: _Part, new: _Part) -> list[str]:
    """The hunks in which two parts of files differ, with the line numbers of the files."""
    if not (old.text and new.text):
        return []
    hunks: list[str] = []
    for row in list(unified_diff(old.text.splitlines(), new.text.splitlines(), lineterm=""))[2:]:
        if match := re.fullmatch(r"@@ -(\d+)(\S*) \+(\d+)(\S*) @@", row):
            one, other = int(match[1]) + old.line - 1, int(match[3]) + new.line - 1
            hunks.append(f"@@ -{one}{match[2]} +{other}{match[4]} @@")
        else:
            hunks[-1] += f"\n{row}"
    return hunks


def _part(text: str, file: str, pattern: str) -> _Part:
    match = re.search(pattern, text, re.M | re.S)
    return _Part(file, text[: match.start()].count("\n") + 1, match[0]) if match else _Part()


@once
def _declaration(source: DriftSource, tag: str) -> _Part:
    """The declaration of a structure, with its comments."""
    usual = source.files.get(tag, "")
    pattern = rf"^(?:typedef )?struct {tag} \{{(?:[^\n]*\}};|.*?^\}}[^\n]*)"
    parts = (_part(source.read(file), file, pattern) for file in dict.fromkeys([usual, *HEADERS]))
    return next((part for part in parts if part.text), _Part())


@once
def _function(source: DriftSource, function: str, tag: str) -> _Part:
    """The definition of a function, near the file that declares a structure."""
    pattern = rf"^[a-z_][^;{{}}]*?\b{function}\([^;{{}}]*?\n\{{\n.*?^\}}"
    files = _files_with(source, rf"\b{function}\(", _near(source, tag))
    parts = (_part(source.read(file), file, pattern) for file in files)
    return next((part for part in parts if part.text), _Part())
