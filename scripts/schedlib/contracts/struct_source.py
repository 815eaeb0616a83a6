# SPDX-License-Identifier: GPL-2.0
"""Where a kernel's source declares a structure and its members, and under which preprocessor conditions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

HEADERS = ("kernel/sched/sched.h", "kernel/sched/cpupri.h")
"""The files that declare the structures of the contracts."""


@dataclass(frozen=True)
class Declared:
    """A structure or a member.

    Attributes:
        guards: expressions of #if, all of which must be true.
        type: tag of a member's structure; empty if its type is none, or a pointer.
        has_offset: whether offsetof() and sizeof() can be asked of the member: not for bit fields and open arrays.
    """

    guards: tuple[str, ...]
    type: str = ""
    has_offset: bool = True


@dataclass(frozen=True)
class Source:
    """The structures that a source declares, by tag, and the members of each, by name."""

    structs: Mapping[str, Declared]
    members: Mapping[tuple[str, str], Declared]

    def find(self, tag: str, path: str) -> Declared | None:
        """A member by its path, such as `cpupri.pri_to_cpu[0].count`; None if the source has no such member."""
        guards: list[str] = list(self.structs[tag].guards) if tag in self.structs else []
        found = None
        for name in path.split("."):
            found = self.members.get((tag, name.removesuffix("[0]")))
            if found is None:
                return None
            guards += found.guards
            tag = found.type
        return found and Declared(tuple(dict.fromkeys(guards)), found.type, found.has_offset)


def read_source(read: Callable[[str], str | None]) -> Source:
    """The declarations of a tree.

    Args:
        read: returns the text of a file of the tree; None if there is no such file.
    """
    structs: dict[str, Declared] = {}
    members: dict[tuple[str, str], Declared] = {}
    for file in HEADERS:
        for tag, guards, body in _structs(read(file) or ""):
            structs[tag] = _either(structs[tag], Declared(guards)) if tag in structs else Declared(guards)
            for name, found in _members(body):
                known = members.get((tag, name))
                members[tag, name] = _either(known, found) if known else found
    return Source(structs, members)


def declared_members(text: str) -> dict[str, dict[str, Declared]]:
    """The members that each structure of a file has, in whatever configuration, by the structure's tag."""
    return {tag: dict(_members(body)) for tag, _, body in _structs(text)}


_NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.S)


def without_comments(text: str) -> str:
    """C without comments and without the text of strings; its lines keep their numbers."""
    return _NO_CODE.sub(lambda match: '""' if match[0][0] == '"' else "\n" * match[0].count("\n"), text)


Line = tuple[tuple[str, ...], str]
"""A line of code and the conditions under which it is compiled."""


def _lines(text: str) -> Iterator[Line]:
    """The lines of code, without comments, with the conditions of each."""
    text = without_comments(text).replace("\\\n", " ")
    stack: list[tuple[str, list[str]]] = []  # an expression, and those of earlier branches, negated
    rows = text.split("\n")
    for number, row in enumerate(rows):
        match = re.match(r"\s*#\s*(ifdef|ifndef|if|elif|else|endif)\b\s*(.*?)\s*$", row)
        if match is None:
            if not row.lstrip().startswith("#"):
                yield tuple(" && ".join([*earlier, now]) for now, earlier in stack if now), row
            continue
        word, expression = match.groups()
        if word == "ifdef":
            stack.append((f"defined({expression})", []))
        elif word == "ifndef":
            following = rows[number + 1] if number + 1 < len(rows) else ""
            is_include_guard = re.match(rf"\s*#\s*define\s+{re.escape(expression)}\s*$", following)
            stack.append(("" if is_include_guard else f"!defined({expression})", []))
        elif word == "if":
            stack.append((_bracketed(expression), []))
        elif stack and word == "endif":
            stack.pop()
        elif stack:
            before, earlier = stack.pop()
            if word == "elif":
                stack.append((_bracketed(expression), [*earlier, _negated(before)]))
            else:
                stack.append((_negated(before), earlier))


def _bracketed(expression: str) -> str:
    return f"({expression})" if re.search(r"&&|\|\|", expression) else expression


def _negated(expression: str) -> str:
    if re.fullmatch(r"!\w+\(\w+\)", expression):
        return expression[1:]
    return f"!{expression}" if re.fullmatch(r"\w+\(\w+\)|\(.*\)", expression) else f"!({expression})"


def _either(one: Declared, other: Declared) -> Declared:
    """A member that is declared twice, under different conditions."""
    has_offset = one.has_offset and other.has_offset
    shared = tuple(guard for guard in one.guards if guard in other.guards)
    rest = [[guard for guard in each.guards if guard not in shared] for each in (one, other)]
    if not rest[0] or not rest[1] or (len(rest[0]) == len(rest[1]) == 1 and _negated(rest[0][0]) == rest[1][0]):
        return Declared(shared, one.type, has_offset)
    both = " || ".join(f"({' && '.join(guards)})" for guards in rest)
    return Declared((*shared, f"({both})"), one.type, has_offset)


def _structs(text: str) -> Iterator[tuple[str, tuple[str, ...], list[Line]]]:
    """Each structure that is defined at the left margin: tag, conditions, and the lines of its body."""
    tag = ""
    start: tuple[str, ...] = ()
    body: list[Line] = []
    for guards, row in _lines(text):
        if match := re.match(r"struct (\w+) \{\s*$", row):
            tag, start, body = match[1], guards, []
        elif tag and row.startswith("}"):
            yield tag, start, body
            tag = ""
        elif tag:
            body.append((guards, row))


_INSIDE = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\))*"
"""What may be between brackets, with up to four pairs inside of each other."""

_ATTRIBUTE = re.compile(
    rf"\b__attribute__\s*\({_INSIDE}\)|\b____?cacheline_\w+|\b__\w*aligned\w*(?:\({_INSIDE}\))?"
    rf"|(?<=[\w\]])\s+__\w+\s*\({_INSIDE}\)|(?<=\w)\s+__private\b"
)


def _members(body: list[Line]) -> Iterator[tuple[str, Declared]]:
    """The direct members, those of unnamed structs and unions included."""
    inner: list[list[tuple[str, Declared]]] = [[]]
    declaration = ""
    guards: tuple[str, ...] = ()
    for its_guards, row in body:
        for part in re.split(r"([{};])", row):
            if part == "{":
                inner.append([])
                declaration = ""
            elif part == "}":
                declaration = "} "
            elif part == ";":
                direct: list[tuple[str, Declared]] = []
                if declaration.startswith("}"):
                    nested = inner.pop() if len(inner) > 1 else []
                    name = re.search(r"\w+", _ATTRIBUTE.sub("", declaration[1:]))
                    direct = [(name[0], Declared(its_guards))] if name else nested
                else:
                    direct = list(declarators(declaration, guards))
                inner[-1] += direct
                declaration = ""
            elif part.strip():
                if not declaration:
                    guards = its_guards
                declaration += " " + part.strip() if declaration else part.strip()
    yield from (each for level in inner for each in level)


def declarators(text: str, guards: tuple[str, ...]) -> Iterator[tuple[str, Declared]]:
    """The members of one declaration: `atomic_t a, b`, `struct cpupri_vec pri_to_cpu[N]`, `int (*f)(void)`."""
    text = _ATTRIBUTE.sub("", text)
    if re.match(r"\w+\s*\((?!\s*\*)", text):
        return  # a macro, such as DECLARE_BITMAP(): it declares what this text does not show
    if function := re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", text):
        yield function[1], Declared(guards)
        return
    tag = re.match(r"(?:const |volatile )*struct (\w+)\s+(?!\*)", text)
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        if match := re.search(r"(\w+)\s*((?:\[[^\]]*\]\s*)*)(:\s*\w+\s*)?$", part.strip()):
            has_offset = not match[3] and not re.match(r"\[\s*\]", match[2])
            yield match[1], Declared(guards, tag[1] if tag and "*" not in part else "", has_offset)
