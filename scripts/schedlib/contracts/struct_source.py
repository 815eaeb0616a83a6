# SPDX-License-Identifier: GPL-2.0
"""Where a kernel's source declares a structure and its members, and under which preprocessor conditions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from schedlib.names import our_headers


@dataclass(frozen=True)
class Declared:
    """A structure or a member, below #if with these expressions, all of which must be true.

    `type` is the tag of a member's structure, if its type is one. A bit field or an open array has no offset.
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
    """The declarations of a tree, of which `read` returns the text of a file, if there is one."""
    structs: dict[str, Declared] = {}
    members: dict[tuple[str, str], Declared] = {}
    for file in our_headers():
        for body in bodies(read(file) or ""):
            tag = body.tag
            structs[tag] = _either(structs.get(tag), Declared(body.guards))
            for name, found in _members(body):
                members[tag, name] = _either(members.get((tag, name)), found)
    return Source(structs, members)


def declared_members(text: str) -> dict[str, dict[str, Declared]]:
    """The members that each structure of a file has, in whatever configuration, by the structure's tag."""
    return {body.tag: dict(_members(body)) for body in bodies(text)}


_NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.S)
_DIRECTIVE = re.compile(r"\s*#\s*(ifdef|ifndef|if|elif|else|endif)\b\s*(.*?)\s*$")
_OPEN = re.compile(r"(typedef\b)?\s*(?:(?:static|extern|const)\s+)*(struct|union)\b([^;{}()=*]*)(\{|\s*$)")

_ON_STACK = re.compile(r"\s+(?:const\s+)?(?:struct|union)\s*\{")
"""Begins a variable of a function, whose type has no name."""


def without_comments(text: str) -> str:
    """C without comments and without the text of strings, and plain structures; its lines keep their numbers."""
    bare = _NO_CODE.sub(lambda match: '""' if match[0][0] == '"' else "\n" * match[0].count("\n"), text)
    # A lock's structure is opened so.
    return re.sub(r"\bcontext_lock_struct\((\w+)[^()\n]*\)", r"struct \1", bare)


class Line(NamedTuple):
    """A line of code, and the conditions under which it is compiled."""

    number: int
    text: str
    guards: tuple[str, ...]


@dataclass(frozen=True)
class StructText:
    """A structure or union at the left margin, with the conditions around it, and its lines behind the opening brace.

    `number` is the line that it begins on.
    The tag is "rq" of struct rq; "union futex_key"; of one without a tag "typedef mm_context_t" or "variable nohz".
    """

    tag: str
    guards: tuple[str, ...]
    lines: tuple[Line, ...]
    number: int


def in_words(tag: str) -> str:
    """A structure for people, by its tag in StructText."""
    return tag if " " in tag else f"struct {tag}"


def type_in_c(tag: str) -> str:
    """The same as a type of C."""
    sort, _, name = tag.rpartition(" ")
    return {"union": tag, "typedef": name, "variable": f"typeof({name})"}.get(sort, f"struct {name}")


def bodies(text: str) -> Iterator[StructText]:
    """The structures of a file."""
    opened, depth, number, is_function = None, 0, 0, False
    guards: tuple[str, ...] = ()
    lines: list[Line] = []
    for line in _lines(text):
        if depth:
            lines.append(line)
        elif opened and not opened[4] and line.text.startswith("{"):
            lines = []
        elif line.text[:1] in ("{", "}"):
            is_function, opened = line.text[0] == "{" and _closed(line.text, 0)[0] > 0, None
        elif is_function and _ON_STACK.match(line.text):
            continue
        elif line.text.strip() and (found := _OPEN.match(_ATTRIBUTE.sub("", line.text))):
            opened, guards, lines, number = found, line.guards, [], line.number
        elif line.text.strip():
            opened = None
        if opened and (depth or opened[4] or line.text.startswith("{")):
            depth, end = _closed(line.text, depth)
            if not depth:
                inside = line._replace(text=line.text[:end].partition("{")[2])
                if tag := _tag(opened, line.text[end + 1 :]):
                    yield StructText(tag, guards, tuple(lines) or (inside,), number)
                opened = None


def _closed(text: str, depth: int) -> tuple[int, int]:
    """How deep the end of a line is, and where it closes all that is open."""
    for match in re.finditer("[{}]", text):
        depth += 1 if match[0] == "{" else -1
        if depth <= 0:
            return 0, match.start()
    return depth, len(text)


def _tag(opened: re.Match[str], behind: str) -> str:
    """See StructText; empty if it has no name."""
    words = [word for word in re.findall(r"\w+", opened[3]) if word not in ("__packed", "__randomize_layout")]
    if words:
        return words[-1] if opened[2] == "struct" else f"union {words[-1]}"
    names = re.findall(r"\w+", _ATTRIBUTE.sub("", behind))
    return f"{'typedef' if opened[1] else 'variable'} {names[0]}" if names else ""


def _lines(text: str) -> Iterator[Line]:
    """The lines of code, without directives and comments."""
    stack: list[tuple[str, tuple[str, ...]]] = []  # an expression, and those of earlier branches, negated
    rows = without_comments(text).split("\n")
    continued = ""
    for number, part in enumerate(rows, 1):
        row, continued = continued + part, ""
        if row.endswith("\\"):
            continued = f"{row[:-1]} "
            continue
        match = _DIRECTIVE.match(row)
        if match is None:
            if not row.lstrip().startswith("#"):
                yield Line(number, row, tuple(each for now, earlier in stack for each in (*earlier, now) if each))
            continue
        word, expression = match.groups()
        if word == "ifdef":
            stack.append((f"defined({expression})", ()))
        elif word == "ifndef":
            following = rows[number] if number < len(rows) else ""
            is_include_guard = re.match(rf"\s*#\s*define\s+{re.escape(expression)}\s*$", following)
            stack.append(("" if is_include_guard else f"!defined({expression})", ()))
        elif word == "if":
            stack.append((_bracketed(expression), ()))
        elif stack:
            before, earlier = stack.pop()
            if word == "elif":
                stack.append((_bracketed(expression), (*earlier, negated(before))))
            elif word == "else":
                stack.append((negated(before), earlier))


def _bracketed(expression: str) -> str:
    return f"({expression})" if re.search(r"&&|\|\|", expression) else expression


def negated(expression: str) -> str:
    """The opposite of a condition; one of several parts is in brackets."""
    if re.fullmatch(r"!\w+\(\w+\)", expression):
        return expression[1:]
    return f"!{expression}" if re.fullmatch(r"\w+\(\w+\)|\(.*\)", expression) else f"!({expression})"


def _either(one: Declared | None, other: Declared) -> Declared:
    """What is declared twice, under different conditions."""
    if one is None:
        return other
    has_offset = one.has_offset and other.has_offset
    shared = tuple(guard for guard in one.guards if guard in other.guards)
    rest = [[guard for guard in each.guards if guard not in shared] for each in (one, other)]
    if not rest[0] or not rest[1] or (len(rest[0]) == len(rest[1]) == 1 and negated(rest[0][0]) == rest[1][0]):
        return Declared(shared, one.type, has_offset)
    both = " || ".join(f"({' && '.join(guards)})" for guards in rest)
    return Declared((*shared, f"({both})"), one.type, has_offset)


_INSIDE = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\))*"
"""What may be between brackets, with up to four pairs inside of each other."""

_ATTRIBUTE = re.compile(
    rf"\b__attribute__\s*\({_INSIDE}\)|\b____?cacheline_\w+|\b__\w*aligned\w*(?:\({_INSIDE}\))?"
    rf"|(?<=[\w\]])\s+__\w+\s*\({_INSIDE}\)|(?<=\w)\s+__private\b"
)


def _members(body: StructText) -> Iterator[tuple[str, Declared]]:
    """The direct members, those of unnamed structs and unions included."""
    inner: list[list[tuple[str, Declared]]] = [[]]
    declaration = ""
    guards: tuple[str, ...] = ()
    for line in body.lines:
        for part in re.split(r"([{};])", "" if line.text.startswith("}") else line.text):
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
                    direct = [(name[0], Declared(line.guards))] if name else nested
                else:
                    direct = list(declarators(declaration, guards))
                inner[-1] += direct
                declaration = ""
            elif part.strip():
                if not declaration:
                    guards = line.guards
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
