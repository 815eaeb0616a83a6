# SPDX-License-Identifier: GPL-2.0
"""The part of a preprocessed file that decides how some structures are laid out.

A structure depends on the types that it contains, and on those alone: what it only points to may change. So a file
with these declarations gives the same layout as the whole file, and compiles in milliseconds.

Whether a change of a file can reach these types is told from the text of the file: no means no.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

_LITERAL = r'"(?:[^"\\\n]|\\.)*"|' + r"'(?:[^'\\\n]|\\.)*'"
"""A string or a character."""

_NESTED = r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\))*\)"
"""Parentheses, five deep."""

_ATTRIBUTE = re.compile(rf"\b__attribute__\s*{_NESTED}")

_TAGGED = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")
_ENUM = re.compile(r"\benum\b[^{};()]*\{([^{}]*)\}")
_ENUMERATOR = re.compile(r"(?:^|,)\s*([A-Za-z_]\w*)")
_MENTIONED = re.compile(r"\b(?:struct|union|enum)\s+(\w+)(\s*\*)?|\b([A-Za-z_]\w*)")
_LOOKED_INTO = re.compile(r"\b(?:struct|union)\s+(\w+)\s*\*\s*\)")
"""`((struct x *)0)->member`: the size of a member, written as if behind a pointer."""

_ARRAY = re.compile(r"[^{(=]*\b(\w+)\s*\[[^]=]*\]\s*=")
"""An array that is filled in the same line: its size may be asked for."""

_MEASURES = re.compile(r"\b(?:sizeof|_*typeof\w*|_*[aA]lign[oO]f\w*|__builtin_\w+)\b")


_COMMENT = re.compile(rf"//[^\n]*|/\*.*?\*/|{_LITERAL}", re.S)
_LINE_EDGE = re.compile(rf"^[ \t]*#[^\n]*|[{{}};]|{_LITERAL}", re.M)
_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*", re.M)
_CONDITIONAL = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b")

_FUNCTION = re.compile(r"(?:(?:struct|union|enum)\s+)?[a-z_]\w*[\s*]+(?:[a-z_]\w*[\s*]+)*([a-z_]\w*)\s*\(")
"""The beginning of a function: two words or more, none in capitals as macros have them."""

_TYPE = re.compile(r"(?:typedef\s+)?(?:struct|union|enum)\b")
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_WORD = re.compile(r"[A-Za-z_]\w*")

_NO_TAGS = frozenset({"struct_group", "struct_group_attr", "sizeof", "__attribute__", "__aligned", "__counted_by"})
"""What looks like a call in a declaration and defines no tag."""


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
    # A function ends with its body.
    ended = (part for part in _parts(text) if part and part.endswith(";"))
    chunks = [part for part in ended if "{" in part or "typedef" in part]
    by_tag: dict[str, list[int]] = defaultdict(list)
    by_word: dict[str, list[int]] = defaultdict(list)
    by_array: dict[str, list[int]] = defaultdict(list)
    defined: dict[int, list[str]] = {}
    for at, chunk in enumerate(chunks):
        bare = _ATTRIBUTE.sub(" ", chunk) if "__attribute__" in chunk else chunk
        found = _TAGGED.findall(bare)
        for tag in found:
            by_tag[tag].append(at)
        plain = [name for body in _ENUM.findall(bare) for name in _ENUMERATOR.findall(body)] if "enum" in bare else []
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


def _is_function(head: str) -> bool:
    """Whether what is in front of a brace is the head of a function."""
    return _ATTRIBUTE.sub(" ", head).rstrip().endswith(")")


def _without_bodies(text: str) -> str:
    """A declaration without what is between braces."""
    while (less := re.sub(r"\{[^{}]*\}", " ", text)) != text:
        text = less
    return text


def _typedef_names(bare: str) -> list[str]:
    """The names that a typedef defines."""
    bare = _without_bodies(bare)
    if pointer := re.search(r"\(\s*\*+\s*(?:const\s+)?(\w+)\s*(?:\[[^]]*\]\s*)?\)", bare):
        return [pointer[1]]
    while (less := re.sub(r"\([^()]*\)|\[[^][]*\]", " ", bare)) != bare:
        bare = less
    return [words[-1] for part in bare.split(",") if (words := re.findall(r"[A-Za-z_]\w*", part))]


def reaches(old: str, new: str, names: Collection[str]) -> bool:
    """Whether a change of a file may change one of some types. No means no.

    What is left of both texts is compared: all preprocessor lines, and all declarations except those that are known to
    define something else.

    Args:
        old, new: the text of the file.
        names: the types, enumerators and what they depend on; see TypeSlice.
    """
    return _left(old, frozenset(names)) != _left(new, frozenset(names))


def _left(text: str, names: frozenset[str]) -> list[str]:
    left: list[str] = []
    for part, defined, directives in _read(text):
        if defined is None or not names.isdisjoint(defined):
            left.append(part)
        else:
            left += directives
    return left


@lru_cache(maxsize=32)
def _read(text: str) -> tuple[tuple[str, set[str] | None, tuple[str, ...]], ...]:
    """The parts of a file, without comments: what each may define, and its lines that are more than conditions."""
    bare = _COMMENT.sub(lambda match: " " if match[0].startswith("/") else match[0], text.replace("\\\n", " "))
    found: list[tuple[str, set[str] | None, tuple[str, ...]]] = []
    for part in _parts(bare):
        if part is None:
            return ((" ".join(bare.split()), None, ()),)
        if plain := " ".join(part.split()):
            lines = tuple(line.strip() for line in _DIRECTIVE.findall(part) if not _CONDITIONAL.match(line))
            found.append((plain, _defined(part), lines))
    return tuple(found)


def _parts(text: str) -> Iterator[str | None]:
    """Preprocessor lines and declarations, in order; None where the braces differ from branch to branch."""
    depth, start, first = 0, 0, -1
    branches: list[int] = []
    for match in _LINE_EDGE.finditer(text):
        at = match.start()
        sign = match[0].lstrip()[:1]
        if sign == "#":
            conditional = _CONDITIONAL.match(match[0])
            kind = conditional[1] if conditional else ""
            if kind.startswith("if"):
                branches.append(depth)
            elif kind and (not branches or branches[-1] != depth):
                yield None
                return
            if kind == "endif":
                branches.pop()
            if not depth and not text[start:at].strip():
                yield match[0]
                start = match.end()
        elif sign == ";":
            if not depth:
                yield text[start : at + 1]
                start, first = at + 1, -1
        elif sign == "{":
            if not depth and first < 0:
                first = at
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth < 0:
                yield None
                return
            if not depth and _is_function(_DIRECTIVE.sub(" ", text[start:first])):
                yield text[start : at + 1]
                start, first = at + 1, -1
    yield None if depth or branches else text[start:]


def _defined(part: str) -> set[str] | None:
    """What a declaration may define, or a bit more; None if that cannot be told."""
    lines = _DIRECTIVE.findall(part)
    if lines:
        depth = 0
        for kind in (match[1] for match in map(_CONDITIONAL.match, lines) if match):
            depth += kind.startswith("if")
            if not depth:
                return None
            depth -= kind == "endif"
        if depth:
            return None
        part = _DIRECTIVE.sub(" ", part)
    bare = _ATTRIBUTE.sub(" ", part).strip()
    head, brace, _ = bare.partition("{")
    if match := _FUNCTION.match(bare):
        behind = _closed(bare, match.end() - 1)
        rest = bare[behind:].strip()
        if rest == ";" or (
            brace and behind <= len(head) and re.fullmatch(r"(?:\s*\b__\w+(?:\s*\([^()]*\))?)*\s*", head[behind:])
        ):
            return {match[1]}
    if not _TYPE.match(bare):
        return None
    if re.fullmatch(r"(?:struct|union|enum)\s+\w+\s*;", bare):
        return set()
    if not brace:
        return None
    found: set[str] = set(_TAGGED.findall(bare))
    for body in _ENUM.findall(bare):
        found |= set(_WORD.findall(body))
    for call in _CALL.finditer(bare):
        if call[1] not in _NO_TAGS:
            inside = bare[call.end() : _closed(bare, call.end() - 1)]
            found |= set(_WORD.findall(inside))
    return found | set(_WORD.findall(_without_bodies(bare))) - {"struct", "union", "enum", "typedef"}


def _closed(text: str, at: int) -> int:
    """The end of the parentheses that open at a place; the end of the text if they do not close."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, at):
        depth += 1 if match[0] == "(" else -1
        if not depth:
            return match.end()
    return len(text)
