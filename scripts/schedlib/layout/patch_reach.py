# SPDX-License-Identifier: GPL-2.0
"""Whether a change of a source file can reach some types: without preprocessing, from the text of the file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from schedlib.layout.type_slice import ATTRIBUTE, ENUM, LITERAL, TAGGED, is_function, without_bodies

_COMMENT = re.compile(rf"//[^\n]*|/\*.*?\*/|{LITERAL}", re.S)
_EDGE = re.compile(rf"^[ \t]*#[^\n]*|[{{}};]|{LITERAL}", re.M)
_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*", re.M)
_CONDITIONAL = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b")

_FUNCTION = re.compile(r"(?:(?:struct|union|enum)\s+)?[a-z_]\w*[\s*]+(?:[a-z_]\w*[\s*]+)*([a-z_]\w*)\s*\(")
"""The beginning of a function: two words or more, none in capitals as macros have them."""

_TYPE = re.compile(r"(?:typedef\s+)?(?:struct|union|enum)\b")
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_WORD = re.compile(r"[A-Za-z_]\w*")

_NO_TAGS = frozenset({"struct_group", "struct_group_attr", "sizeof", "__attribute__", "__aligned", "__counted_by"})
"""What looks like a call in a declaration and defines no tag."""


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
    for match in _EDGE.finditer(text):
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
            if not depth and is_function(_DIRECTIVE.sub(" ", text[start:first])):
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
    bare = ATTRIBUTE.sub(" ", part).strip()
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
    found: set[str] = set(TAGGED.findall(bare))
    for body in ENUM.findall(bare):
        found |= set(_WORD.findall(body))
    for call in _CALL.finditer(bare):
        if call[1] not in _NO_TAGS:
            inside = bare[call.end() : _closed(bare, call.end() - 1)]
            found |= set(_WORD.findall(inside))
    return found | set(_WORD.findall(without_bodies(bare))) - {"struct", "union", "enum", "typedef"}


def _closed(text: str, at: int) -> int:
    """The end of the parentheses that open at a place; the end of the text if they do not close."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, at):
        depth += 1 if match[0] == "(" else -1
        if not depth:
            return match.end()
    return len(text)
