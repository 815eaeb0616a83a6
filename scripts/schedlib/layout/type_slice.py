# SPDX-License-Identifier: GPL-2.0
"""The part of a preprocessed file that decides how some structures are laid out.

A structure depends on the types that it contains, and on those alone: what it only points to may change. So a file
with these declarations gives the same layout as the whole file, and compiles in milliseconds.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

LITERAL = r'"(?:[^"\\\n]|\\.)*"|' + r"'(?:[^'\\\n]|\\.)*'"
"""A string or a character."""

_EDGE = re.compile(rf"[{{}};]|{LITERAL}")

_NESTED = r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\))*\)"
"""Parentheses, five deep."""

ATTRIBUTE = re.compile(rf"\b__attribute__\s*{_NESTED}")

TAGGED = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")
ENUM = re.compile(r"\benum\b[^{};()]*\{([^{}]*)\}")
_ENUMERATOR = re.compile(r"(?:^|,)\s*([A-Za-z_]\w*)")
_MENTIONED = re.compile(r"\b(?:struct|union|enum)\s+(\w+)(\s*\*)?|\b([A-Za-z_]\w*)")
_LOOKED_INTO = re.compile(r"\b(?:struct|union)\s+(\w+)\s*\*\s*\)")
"""`((struct x *)0)->member`: the size of a member, written as if behind a pointer."""

_ARRAY = re.compile(r"[^{(=]*\b(\w+)\s*\[[^]=]*\]\s*=")
"""An array that is filled in the same line: its size may be asked for."""

_MEASURES = re.compile(r"\b(?:sizeof|_*typeof\w*|_*[aA]lign[oO]f\w*|__builtin_\w+)\b")


@dataclass(frozen=True)
class TypeSlice:
    """Declarations, in the order of the file.

    Attributes:
        names: what they define: tags, names of types, enumerators.
    """

    text: str
    names: frozenset[str]


def type_slice(preprocessed: str, tags: Collection[str], words: Collection[str] = ()) -> TypeSlice | None:
    """What decides on the layout of some structures; None if that cannot be told.

    Args:
        preprocessed: the output of `gcc -E -P`.
        tags: the structures. One that is not declared there is left out.
        words: names of types and enumerators that are wanted, too.
    """
    if re.search(r"^#\s*pragma\s+(?:pack|scalar_storage_order|GCC\s+(?:target|optimize))\b", preprocessed, re.M):
        return None
    text = re.sub(r"^#.*\n", "", preprocessed, flags=re.M)
    chunks = [chunk for chunk in chunks_of(text) if "{" in chunk or "typedef" in chunk]
    by_tag: dict[str, list[int]] = defaultdict(list)
    by_word: dict[str, list[int]] = defaultdict(list)
    by_array: dict[str, list[int]] = defaultdict(list)
    defined: dict[int, list[str]] = {}
    for at, chunk in enumerate(chunks):
        bare = ATTRIBUTE.sub(" ", chunk) if "__attribute__" in chunk else chunk
        found = TAGGED.findall(bare)
        for tag in found:
            by_tag[tag].append(at)
        plain = [name for body in ENUM.findall(bare) for name in _ENUMERATOR.findall(body)] if "enum" in bare else []
        if re.match(r"\s*(?:__extension__\s+)?typedef\b", bare):
            plain += _typedef_names(bare)
        for word in plain:
            by_word[word].append(at)
        array = _ARRAY.match(bare)
        if array:
            by_array[array[1]].append(at)
        defined[at] = [*found, *plain, *(array.groups() if array else ())]
    wanted: set[int] = set()
    left = [at for tag in tags for at in by_tag.get(tag, ())]
    left += [at for word in words for at in by_word.get(word, ())]
    while left:
        at = left.pop()
        if at in wanted:
            continue
        wanted.add(at)
        measures = _MEASURES.search(chunks[at])
        for tag, pointer, word in _MENTIONED.findall(chunks[at]):
            if tag and not pointer:
                left += by_tag.get(tag, ())
            elif word:
                left += by_word.get(word, ())
            if word and measures:
                left += by_array.get(word, ())
        if measures:
            left += [each for tag in _LOOKED_INTO.findall(chunks[at]) for each in by_tag.get(tag, ())]
    ordered = sorted(wanted)
    names = frozenset(name for at in ordered for name in defined[at])
    return TypeSlice("".join(f"{chunks[at].strip()}\n" for at in ordered), names)


def chunks_of(text: str) -> Iterator[str]:
    """The declarations and definitions of a preprocessed file, without the bodies of functions."""
    depth, start, first = 0, 0, -1
    for match in _EDGE.finditer(text):
        at = match.start()
        sign = text[at]
        if sign == ";":
            if not depth:
                yield text[start : at + 1]
                start, first = at + 1, -1
        elif sign == "{":
            if not depth and first < 0:
                first = at
            depth += 1
        elif sign == "}":
            depth -= 1
            if not depth and is_function(text[start:first]):
                start, first = at + 1, -1


def is_function(head: str) -> bool:
    """Whether what is in front of a brace is the head of a function."""
    return ATTRIBUTE.sub(" ", head).rstrip().endswith(")")


def without_bodies(text: str) -> str:
    """A declaration without what is between braces."""
    while (less := re.sub(r"\{[^{}]*\}", " ", text)) != text:
        text = less
    return text


def _typedef_names(bare: str) -> list[str]:
    """The names that a typedef defines."""
    bare = without_bodies(bare)
    if pointer := re.search(r"\(\s*\*+\s*(?:const\s+)?(\w+)\s*(?:\[[^]]*\]\s*)?\)", bare):
        return [pointer[1]]
    while (less := re.sub(r"\([^()]*\)|\[[^][]*\]", " ", bare)) != bare:
        bare = less
    return [words[-1] for part in bare.split(",") if (words := re.findall(r"[A-Za-z_]\w*", part))]
