# SPDX-License-Identifier: GPL-2.0
"""JSON documents: each is read and written by one type, and refused where it is anything else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar, get_args

import msgspec

from schedlib.cache import read_regular, write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats.cover_letter import printable
from schedlib.formats.strict import Strict

T = TypeVar("T", bound="Document")

LARGEST = 1 << 26
"""Bytes of a document; a run has thousands, the counts of c2c a million."""

_ENCODER = msgspec.json.Encoder()
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Document(Strict, frozen=True):
    """What a whole file holds. Its field `schema` is a literal; what may be missing is UNSET, and nothing else has a
    default: what is read has to be what is there.

    Attributes:
        only_lines: no text in it holds a line end or another control character.
        more_schema: what its JSON schema says beside the types of the fields.
    """

    only_lines: ClassVar[bool] = False
    more_schema: ClassVar[dict[str, object]] = {}

    @classmethod
    def kind(cls) -> str:
        """As the file names it."""
        found = next(each.type for each in msgspec.structs.fields(cls) if each.name == "schema")
        return str(get_args(found)[0])


class Refused(SchedlineError):
    """A file that is no document of its kind.

    Attributes:
        why: what is wrong with it, in one line.
    """

    def __init__(self, path: Path | str, kind: type[Document], why: str, next_step: str) -> None:
        self.why = printable(why)[:300]
        super().__init__(f"{path} is no {kind.kind()}: {self.why}", next_step)


def read(path: Path, kind: type[T], next_step: str) -> T:
    """A document.

    Args:
        next_step: what to do where it is none.

    Raises:
        Refused: it cannot be read, or is anything else.
    """
    try:
        return parse(read_regular(path, LARGEST), kind)
    except OSError as error:
        raise Refused(path, kind, error.strerror or str(error), next_step) from error
    except ValueError as error:
        raise Refused(path, kind, str(error), next_step) from error


def parse(content: bytes, kind: type[T]) -> T:
    """A document from its bytes.

    Raises:
        ValueError: what is wrong with it.
    """
    try:
        found: T = _decoder(kind).decode(content)
    except msgspec.ValidationError as error:
        raise ValueError(_words(error, content, kind)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is no whole JSON document (cut off?): {error}") from error
    # Without escapes the same strings are in the content and in what was made of it; of a key that is there twice only
    # one is. A look at each string would take longer than all the rest.
    plain = b"\\" not in content and b"\x7f" not in content
    if not plain or content.count(b'"') != _ENCODER.encode(found).count(b'"'):
        json.loads(content, object_pairs_hook=_lines if kind.only_lines else _anything)
    return found


def write(path: Path, value: Document) -> None:
    """Write a document, whole or not at all.

    Raises:
        Refused: it would not be read again.
    """
    write_plain(path, type(value), msgspec.to_builtins(value))


def write_plain(path: Path, kind: type[Document], value: Mapping[str, object]) -> None:
    """The same for a document that was put together without its type.

    Raises:
        Refused: it is none.
    """
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    # What is no character, in the name of a file perhaps, is none in JSON either.
    content = text.encode(errors="replace")
    try:
        parse(content, kind)
    except ValueError as error:
        raise Refused(path, kind, str(error), "this is a defect of schedline: please report it") from error
    write_atomic(path, content)


@cache
def _decoder(kind: type[Document]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


class _Named(msgspec.Struct):
    schema: str = ""


def _words(error: msgspec.ValidationError, content: bytes, kind: type[Document]) -> str:
    try:
        named = msgspec.json.decode(content, type=_Named).schema
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        named = kind.kind()
    if named != kind.kind():
        newer = named.rpartition("-")[0] == kind.kind().rpartition("-")[0]
        return f"its schema is {named!r}" + ("; another version of schedline reads it" if newer else "")
    said, _, where = str(error).replace("`", "").partition(" - at ")
    return f"{where.removeprefix('$').removeprefix('.')}: {said}".removeprefix(": ")


def _anything(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} is there twice")
    return found


def _lines(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for name, value in pairs:
        _refuse_control(name, [name, value])
    return _anything(pairs)


def _refuse_control(name: str, value: Any) -> None:
    if isinstance(value, list):
        for each in value:
            _refuse_control(name, each)
    elif isinstance(value, str) and _CONTROL.search(value):
        raise ValueError(f"{name} holds a control character, which no line of text has: {value!r}")
