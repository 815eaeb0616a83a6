# SPDX-License-Identifier: GPL-2.0
"""The data of configs/, and gates files of users: TOML, read as a type, with an error that names file, line and key."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NoReturn, TypeVar, get_args, get_origin

import msgspec

from schedlib.cache import read_regular
from schedlib.errors import SchedlineError, in_words
from schedlib.formats.strict import Strict, Wrong

T = TypeVar("T")
KeyPath = tuple[str | int, ...]
"""Where a value is: the keys of tables, and the numbers of elements from 0."""

_MOST = 1 << 20
"""Maximum size of a data file, in bytes."""

_DEEPEST = 50
"""A key has few dots. tomllib needs time and memory in the square of their number."""

_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++\s*+\.\s*+){{{_DEEPEST}}}")
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"{3,5}|\Z)|"(?:\\.|[^"\\\n])*+"?|' r"'''.*?(?:'{3,5}|\Z)|'[^'\n]*+'?|#[^\n]*|[\[\]{}\n]",
    re.S,
)

_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


def read_toml(path: Path, kind: type[T], *, stem: str = "", keys: str = "", below: Sequence[str] = ()) -> T:
    """Read a data file.

    Args:
        stem: the field of `kind` that gets the name of the file.
        keys: the field of each named table that gets the table's name.
        below: the top-level tables that contain the named tables; empty: the named tables are at the top level.

    Raises SchedlineError: it cannot be read, or something in it is unknown, missing or of another type.
    """
    try:
        text = read_regular(path, _MOST).decode()
        if _LONG_KEY.search(_TOKEN.sub(lambda token: "x" if token[0][0] in "\"'#" else token[0], text)):
            raise RecursionError
        content: dict[str, Any] = tomllib.loads(text)
    except OSError as error:
        raise SchedlineError(f"{path} cannot be read: {error.strerror}", f"ls -l {path}") from error
    except (ValueError, RecursionError) as error:
        raise SchedlineError(f"{path} is no TOML: {in_words(error)}", f"correct {path}") from error
    if stem and stem in content:
        refuse(path, (stem,), "is unknown", f"leave it out: the name is that of the file, {path.stem}")
    tables: list[KeyPath] = [(name,) for name in below if name in content] or [()]
    for place in tables if keys else []:
        table = _at(content, place)
        for key, row in table.items() if isinstance(table, dict) else ():
            if not isinstance(row, dict):
                continue
            if keys in row:
                refuse(path, (*place, key, keys), "is unknown", f"leave it out: the name is {key}")
            row[keys] = key
    try:
        return msgspec.convert(content | ({stem: path.stem} if stem else {}), kind)
    except msgspec.ValidationError as error:
        _explain(path, (), content, kind, error, {stem, keys})


def read_table(path: Path, key: str, kind: Any, *default: object) -> Any:
    """The value of the only key of a data file, as a type; see read_toml()."""
    whole = msgspec.defstruct("Table", [(key, kind, *default)], bases=(Strict,), frozen=True)
    return getattr(read_toml(path, whole), key)


def nearest(name: object, known: Iterable[str]) -> str:
    """A next step for a name that is not known."""
    names = sorted(known)
    close = get_close_matches(str(name), names, 1)
    return (f"did you mean {close[0]}? " if close else "") + f"known are: {', '.join(names)}"


def refuse(path: Path, place: KeyPath, observed: str, next_step: str) -> NoReturn:
    """Reject a value of a data file, also for a reason that its type cannot express. Raises SchedlineError: always."""
    key = ".".join(str(step) for step in place if isinstance(step, str)) or "the file"
    raise SchedlineError(f"{path}:{line_of(path.read_text(), place)}: {key} {observed}", next_step)


def line_of(text: str, place: KeyPath) -> int:
    """The line, from 1, of a key or of its table's header; for a missing key, the line where its table begins."""
    whole = tomllib.loads(text)
    while not _has(whole, place):
        place = place[:-1]
    depth, begins, lines = 0, [0], [1]
    for token in _TOKEN.finditer(text):
        depth += (token[0] in "[{") - (token[0] in "]}")
        if token[0] == "\n" and not depth:
            begins.append(token.end())
            lines.append(text.count("\n", begins[-2], begins[-1]) + lines[-1])
    ends = [*begins[1:], len(text)]
    return lines[bisect_left(ends, True, key=lambda end: _has(tomllib.loads(text[:end]), place))] if place else 1


def _has(content: Any, place: KeyPath) -> bool:
    try:
        _at(content, place)
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _at(content: Any, place: KeyPath) -> Any:
    for step in place:
        content = content[step]
    return content


def _explain(
    path: Path, place: KeyPath, value: Any, kind: Any, error: msgspec.ValidationError, given: set[str]
) -> NoReturn:
    """Raise the error that describes what is wrong with the innermost value that does not have its type."""
    # A data file has no None: a value that may be left out has the type T of T | None.
    others = [each for each in get_args(kind) if each is not NoneType] if isinstance(kind, UnionType) else []
    kind = others[0] if len(others) == 1 else kind
    for step, part, its_kind in _parts(value, kind):
        try:
            msgspec.convert(part, its_kind)
        except msgspec.ValidationError as its_error:
            _explain(path, (*place, step), part, its_kind, its_error, given)
    said = str(error).partition(" - at `")[0]
    if isinstance(error.__cause__, Wrong):
        refuse(path, place, said, error.__cause__.next_step)
    if found := re.fullmatch(r"Object contains unknown field `(.*)`", said, re.S):
        known = {field.encode_name for field in msgspec.structs.fields(kind)} - given
        refuse(path, (*place, found[1]), "is unknown", nearest(found[1], known))
    if found := re.fullmatch(r"Object missing required field `(.*)`", said):
        refuse(path, place, f"lacks {found[1]}", f"add {found[1]} = ...")
    if get_origin(kind) is Literal:
        refuse(path, place, f"is {value!r}", nearest(value, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        refuse(path, place, f"is {value!r}", nearest(value, [each.value for each in kind]))
    if examples := [str(each) for meta in getattr(kind, "__metadata__", ()) for each in meta.examples or ()]:
        refuse(path, place, f"is {str(value)[:60]!r}", f"write it like one of these: {', '.join(examples)}")
    wanted = re.sub(r"`(\w+)`", lambda word: _KINDS.get(word[1], word[1]), said.split(", got")[0])
    refuse(path, place, f"is {str(value)[:60]!r}", wanted.replace("Expected", "write"))


def _parts(value: Any, kind: Any) -> Iterator[tuple[str | int, Any, Any]]:
    """The values inside a value: the key or index, the value, and the type that it has to have."""
    if get_origin(kind) is Annotated:
        yield from _parts(value, get_args(kind)[0])
    elif isinstance(value, dict) and get_origin(kind) is dict:
        yield from ((key, part, get_args(kind)[1]) for key, part in value.items())
    elif isinstance(value, dict) and isinstance(kind, type):
        yield from (
            (each.encode_name, value[each.encode_name], each.type)
            for each in msgspec.structs.fields(kind)
            if each.encode_name in value
        )
    elif isinstance(value, list):
        yield from ((number, part, get_args(kind)[0]) for number, part in enumerate(value))
