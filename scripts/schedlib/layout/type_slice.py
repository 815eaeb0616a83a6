# SPDX-License-Identifier: GPL-2.0
"""The part of a preprocessed file that decides how some structures are laid out.

A structure depends on the types that it contains, and on those alone: what it only points to may change. So a file
with these declarations gives the same layout as the whole file, and compiles in milliseconds.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import reduce
from itertools import accumulate

_LITERAL = r'"(?:[^"\\\n]|\\.)*"|' + r"'(?:[^'\\\n]|\\.)*'"
"""A string or a character."""

_NESTED = reduce(lambda inner, _: rf"\((?:[^()]|{inner})*\)", range(11), r"\([^()]*\)")
"""Parentheses, twelve deep."""

_ATTRIBUTE = re.compile(rf"\b__attribute__\s*{_NESTED}")

_TAGGED = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")
_ENUM = re.compile(r"\benum\b[^{};()]*\{([^{}]*)\}")
_ENUMERATOR = re.compile(r"(?:^|,)\s*([A-Za-z_]\w*)")
_MENTIONED = re.compile(r"\b(?:struct|union|enum)\s+(\w+)(\s*\*)?|\b([A-Za-z_]\w*)")
_LOOKED_INTO = re.compile(r"\b(?:struct|union)\s+(\w+)\s*\*\s*\)")
"""`((struct x *)0)->member`: the size of a member, written as if behind a pointer."""

_ARRAY = re.compile(r"[^{(=]*\b(\w+)\s*\[[^]=]*\]\s*=")
"""An array that is filled in the same line: its size may be asked for."""

_NAMES = re.compile(r"\s*(?:__extension__\s+)?(?:typedef\b|(?:(?:static|extern|const)\s+)*(?:struct|union)\s*\{)")
"""Begins a typedef, or a variable whose type has no name."""

_MEASURES = re.compile(r"\b(?:sizeof|_*typeof\w*|_*[aA]lign[oO]f\w*|__builtin_\w+)\b")
_EDGE = re.compile(rf"[{{}};]|{_LITERAL}")
_MARKER = re.compile(r'^# \d+ "([^"\n]*)".*\n', re.M)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\\\n]|\\(?:.|\n))*", re.M)


def type_slice(preprocessed: str, names: Collection[str]) -> tuple[str, frozenset[str]] | None:
    """The declarations that decide on the layout of some types, and the files that the compiler names for them.

    Args:
        preprocessed: the output of `gcc -E`.
        names: of structures and types. One that is not declared there is left out.

    Returns:
        None if that cannot be told.
    """
    if re.search(r"^#\s*pragma\s+(?:pack|scalar_storage_order|GCC\s+(?:target|optimize))\b", preprocessed, re.M):
        return None
    first, *marked = _MARKER.split(preprocessed)
    pieces = [re.sub(r"^#.*\n", "", piece, flags=re.M) for piece in (first, *marked[1::2])]
    files, begins = ["", *marked[::2]], [0, *accumulate(map(len, pieces))]
    chunks = [(at, part) for at, part in _declarations("".join(pieces)) if "{" in part or "typedef" in part]
    by_tag, by_word, by_array = (defaultdict[str, list[int]](list) for _ in range(3))
    for at, (_, chunk) in enumerate(chunks):
        bare = _ATTRIBUTE.sub(" ", chunk) if "__attribute__" in chunk else chunk
        for tag in _TAGGED.findall(bare):
            by_tag[tag].append(at)
        enums = _ENUM.findall(bare) if "enum" in bare else []
        plain = [name for body in enums for name in _ENUMERATOR.findall(body)]
        for word in (*plain, *(_typedef_names(bare) if _NAMES.match(bare) else ())):
            by_word[word].append(at)
        if array := _ARRAY.match(bare):
            by_array[array[1]].append(at)
    wanted: set[int] = set()
    left = [at for name in names for found in (by_tag, by_word) for at in found.get(name, ())]
    while left:
        if (at := left.pop()) in wanted:
            continue
        wanted.add(at)
        chunk = chunks[at][1]
        measures = _MEASURES.search(chunk)
        for tag, pointer, word in _MENTIONED.findall(chunk):
            if tag and not pointer:
                left += by_tag.get(tag, ())
            elif word:
                left += by_word.get(word, ())
            if word and measures:
                left += by_array.get(word, ())
        if measures:
            left += [each for tag in _LOOKED_INTO.findall(chunk) for each in by_tag.get(tag, ())]
    ordered = [chunks[at] for at in sorted(wanted)]
    # A header may be included inside of a declaration.
    places = (range(bisect(begins, at) - 1, bisect(begins, at + len(chunk) - 1)) for at, chunk in ordered)
    named = frozenset(files[place] for its in places for place in its)
    # Blank lines are where comments were.
    return "".join(re.sub(r"\s*\n\s*", "\n", f"{chunk}\n") for _, chunk in ordered), named


def reaches(old: str, new: str, is_declaring: bool) -> bool:
    """Whether a change of a file, which may declare what some types depend on, may change them. No means no."""
    return is_declaring or _DIRECTIVE.findall(old) != _DIRECTIVE.findall(new)


def _declarations(text: str) -> Iterator[tuple[int, str]]:
    """Declarations, but for functions, in order: where each begins, and its text."""
    depth, start, brace = 0, 0, -1
    for match in _EDGE.finditer(text):
        at, sign = match.start(), match[0]
        if sign == "{":
            brace = at if brace < 0 else brace
            depth += 1
        elif sign == "}":
            depth -= 1
            # A function ends with its body.
            if not depth and _ATTRIBUTE.sub(" ", text[start:brace]).rstrip().endswith(")"):
                start, brace = at + 1, -1
        elif sign == ";" and not depth:
            part = text[start : at + 1]
            yield start + len(part) - len(part.lstrip()), part.strip()
            start, brace = at + 1, -1


def _typedef_names(bare: str) -> list[str]:
    """The names that a typedef defines, or the variables of a declaration."""
    bare = _without(r"\{[^{}]*\}", bare)
    if pointer := re.search(r"\(\s*\*+\s*(?:const\s+)?(\w+)\s*(?:\[[^]]*\]\s*)?\)", bare):
        return [pointer[1]]
    bare = _without(r"\([^()]*\)|\[[^][]*\]", bare)
    return [words[-1] for part in bare.split(",") if (words := re.findall(r"[A-Za-z_]\w*", part))]


def _without(pattern: str, text: str) -> str:
    """A text without what matches, from the inside to the outside."""
    while (less := re.sub(pattern, " ", text)) != text:
        text = less
    return text
