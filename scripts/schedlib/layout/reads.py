# SPDX-License-Identifier: GPL-2.0
"""Which members of a structure a function touches, by its C source: itself, and through the functions that it calls.

This is text, not a compiler: code under every #if counts, and what a macro expands to does not. The access groups of
configs/layout.toml are members that one function touches together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from schedlib.layout.compile import Group, layout_data
from schedlib.layout.members import Field, Member, root_of
from schedlib.layout.rule_judge import Layout

_NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.S)
_FUNCTION = re.compile(r"^([a-z_][^;{}]*?)\n\{\n(.*?)^\}", re.M | re.S)
_ATTRIBUTES = frozenset({"__attribute__", "__printf", "__must_hold", "__acquires", "__releases", "__section", "if"})
_INSIDE = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"
"""What may be between brackets, with up to two pairs inside of each other."""

_PATH = r"\s*->\s*(\w+(?:\s*(?:\[[^\[\]]*\]\s*)?\.\s*\w+)*)"
_DEPTH = 2
"""How many calls are followed: a function, those that it calls, and those that these call."""


def without_comments(text: str) -> str:
    """C without comments and without the text of strings; its lines keep their numbers."""
    return _NO_CODE.sub(lambda match: '""' if match[0][0] == '"' else "\n" * match[0].count("\n"), text)


def functions_of(code: str) -> dict[str, str]:
    """The functions that a file defines, with head and body, by name. Of two with one name both are taken."""
    found: dict[str, str] = {}
    for match in _FUNCTION.finditer(code):
        names = (name for name in re.findall(r"(\w+)\s*\(", match[1]) if name not in _ATTRIBUTES)
        if name := next(names, ""):
            found[name] = f"{found.get(name, '')}\n{match[1]}\n{{\n{match[2]}".lstrip("\n")
    return found


@dataclass(frozen=True)
class Code:
    """Some files of a kernel, without comments.

    Attributes:
        texts: by their names.
        functions: those of each file, by its name and theirs.
    """

    texts: Mapping[str, str]
    functions: Mapping[str, Mapping[str, str]]

    def file_of(self, function: str) -> str | None:
        """The file that defines a function: a .c file rather than a header, which may have a stub of it."""
        files = sorted(file for file, its in self.functions.items() if function in its)
        return next((file for file in files if file.endswith(".c")), files[0] if files else None)

    def called(self, name: str, file: str) -> tuple[str, str] | None:
        """The file and the text of a function that a file calls: its own, or that of a header."""
        for each in (file, *(other for other in self.functions if other.endswith(".h"))):
            if name in self.functions.get(each, {}):
                return each, self.functions[each][name]
        return None


def code_of(files: Mapping[str, str]) -> Code:
    """The code of some files, by their names."""
    texts = {name: without_comments(text) for name, text in files.items()}
    return Code(texts, {name: functions_of(text) for name, text in texts.items()})


def touched(code: Code, function: str, tag: str, depth: int = _DEPTH) -> dict[str, str] | None:
    """The members of a structure that a function touches, and through which function ("" for itself).

    Members inside of members come with their path, as in `cfs.avg.load_avg`.

    Args:
        depth: how many calls are followed.

    Returns:
        None if no file defines the function.
    """
    file = code.file_of(function)
    if file is None:
        return None
    found: dict[str, str] = {}
    seen = {function}
    level = [(file, code.functions[file][function], "")]
    for _ in range(depth + 1):
        following: list[tuple[str, str, str]] = []
        for where, text, through in level:
            for path in _accesses(code, where, text, tag):
                found.setdefault(path, through)
            for name in dict.fromkeys(re.findall(r"\b(\w+)\s*\(", text)):
                called = None if name in seen else code.called(name, where)
                if called:
                    seen.add(name)
                    following.append((*called, through or name))
        level = following
    return found


def _accesses(code: Code, file: str, text: str, tag: str) -> Iterator[str]:
    """The members of a structure that a piece of code names behind a pointer to it."""
    own = _pointers(text, tag)
    inner, calls = _learned(code, tag)
    kinds = []
    if own:
        kinds.append(rf"(?<![\w.>])(?:{'|'.join(sorted(own))})")
    if inner:
        kinds.append(rf"(?:->|\.)\s*(?:{'|'.join(sorted(inner))})")
    if calls:
        kinds.append(rf"\b(?:{'|'.join(sorted(calls))})\s*\({_INSIDE}\)")
    if kinds:
        for match in re.finditer(rf"(?:{'|'.join(kinds)}){_PATH}", text):
            yield re.sub(r"\[[^\]]*\]", "[0]", re.sub(r"\s+", "", match[1]))


def _pointers(text: str, tag: str) -> set[str]:
    """The variables and parameters that point to a structure."""
    names: set[str] = set()
    for match in re.finditer(rf"\bstruct {tag}\b\s*(?:const\s+)?(?=(\*[^;{{}}]*))", text):
        for part in match[1].split(","):
            found = re.match(r"\s*\*+\s*(?:(?:const|__rcu|__restrict|__maybe_unused)\s+)*(\w+)", part)
            if found is None:
                break
            names.add(found[1])
    return names


@lru_cache(maxsize=64)
def _learned_from(text: str, tag: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """What a file teaches: members that point to a structure, functions that return such a pointer, and that do not."""
    rows = re.findall(r"\bstruct (\w+)\s*\*\s*\w+\s*=\s*(\w+)\s*\(", text)
    declared = re.findall(rf"^\s+struct {tag}\s+(?:__rcu\s+)?\*(\w+);", text, re.M)
    return (
        frozenset(declared),
        frozenset(name for kind, name in rows if kind == tag),
        frozenset(name for kind, name in rows if kind != tag),
    )


def _learned(code: Code, tag: str) -> tuple[frozenset[str], frozenset[str]]:
    """Members that point to a structure, and functions and macros that return such a pointer, as all files use them."""
    each = [_learned_from(text, tag) for text in code.texts.values()]
    inner, calls, others = (frozenset(name for row in each for name in row[at]) for at in range(3))
    return inner, calls - others


def groups() -> tuple[Group, ...]:
    """Every access group."""
    return tuple(layout_data().group.values())


def _found(group: Group, layout: Layout) -> list[Member]:
    structure = layout.structures.get(group.type)
    members = (structure.member(name) for name in group.members) if structure else ()
    return [member for member in members if member]


def lines_touched(group: Group, layout: Layout) -> int | None:
    """The number of lines that the members of a group are on; None if the structure is not known."""
    lines = {line for member in _found(group, layout) for line in layout.lines_of(member)}
    return len(lines) or None


def place(layout: Layout, tag: str, path: str) -> Field | None:
    """A member, or a member inside of one: as exactly as the structures that are known tell its place."""
    return layout.field(tag, path) or layout.field(tag, root_of(path))
