# SPDX-License-Identifier: GPL-2.0
"""JSON documents: each kind is read and written by one type, and anything else is rejected."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar, get_args

import msgspec

from schedlib.cache import read_regular, write_atomic
from schedlib.errors import SchedlineError, in_words
from schedlib.formats.strict import Strict, repeated
from schedlib.progress import printable

T = TypeVar("T", bound="Document")

LARGEST = 1 << 26
"""Maximum size of a document, in bytes, unless its kind has another; a run has thousands."""

_ENCODER = msgspec.json.Encoder()
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Document(Strict, frozen=True):
    """The content of a whole file.

    Its field `schema` is a literal. An optional field has the default UNSET, and no other field has a default. So a
    document never has a value that its file does not have.

    Attributes:
        no_control_chars: no text in it may contain a line end or another control character.
        largest: bytes of its file at most.
        more_schema: additions to its JSON schema that the types of the fields do not express.
    """

    no_control_chars: ClassVar[bool] = False
    largest: ClassVar[int] = LARGEST
    more_schema: ClassVar[dict[str, object]] = {}

    @classmethod
    @cache
    def kind(cls) -> str:
        """The field `schema` of its files."""
        schema = next(each.type for each in msgspec.structs.fields(cls) if each.name == "schema")
        return str(get_args(schema)[0])


class Refused(SchedlineError):
    """A file that is not a valid document of the expected kind. `why`: what is wrong with it, in one line."""

    def __init__(self, path: Path | str, kind: type[Document], why: str, next_step: str) -> None:
        self.why = printable(why)[:300]
        super().__init__(f"{printable(str(path))} is no {kind.kind()}: {self.why}", next_step)


def read(path: Path, kind: type[T], next_step: str) -> T:
    """Read a document.

    `next_step`: what to do if it is not valid.

    Raises Refused: it cannot be read, or is not valid.
    """
    try:
        return parse(read_regular(path, kind.largest), kind)
    except OSError as error:
        raise Refused(path, kind, error.strerror or str(error), next_step) from error
    except ValueError as error:
        raise Refused(path, kind, str(error), next_step) from error


def read_below(path: Path, name: str, kind: type[T], next_step: str) -> T:
    """Read a document from its file, or from the directory that contains it under this name; see read()."""
    return read(path / name if path.is_dir() else path, kind, next_step)


def parse(content: bytes, kind: type[T]) -> T:
    """Parse a document. Raises ValueError: it is not valid; the message says why."""
    try:
        found: T = _decoder(kind).decode(content)
    except msgspec.ValidationError as error:
        raise ValueError(_words(error, content, kind)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is no whole JSON document (cut off?): {in_words(error)}") from error
    # Check each string only if necessary, because that takes longer than all the rest. Without escapes the content and
    # the re-encoded document have the same number of quotes, unless a key is there twice: the decoder keeps only one.
    plain = b"\\" not in content and b"\x7f" not in content
    if not plain or content.count(b'"') != _ENCODER.encode(found).count(b'"'):
        json.loads(content, object_pairs_hook=_lines if kind.no_control_chars else keys_once)
    return found


def write(path: Path, value: Document) -> None:
    """Write a document atomically. Raises Refused: it would be rejected when it is read again."""
    write_plain(path, type(value), msgspec.to_builtins(value))


def write_plain(path: Path, kind: type[Document], value: Mapping[str, object]) -> None:
    """Write a document that was built as a plain mapping. Raises Refused: it is not a valid document of this kind."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    # Replace surrogates, which a file name that is not UTF-8 may contain: UTF-8 cannot encode them.
    content = text.encode(errors="replace")
    if len(content) > kind.largest:
        why = f"it would have {len(content)} bytes, more than {kind.largest}"
        raise Refused(path, kind, why, "nothing could read it: choose less to be in it")
    try:
        parse(content, kind)
    except ValueError as error:
        raise Refused(path, kind, str(error), "this is a defect of schedline: please report it") from error
    write_atomic(path, content)


def line(value: Document) -> bytes:
    """A document as one line of a file that has many. Raises ValueError: it would be rejected when it is read again."""
    content = _ENCODER.encode(value)
    parse(content, type(value))
    return content + b"\n"


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


def keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dict. Raises ValueError: a key appears twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"{repeated(name for name, _ in pairs)} appears twice")
    return found


def _lines(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for name, value in pairs:
        _refuse_control(name, [name, value])
    return keys_once(pairs)


def _refuse_control(name: str, value: Any) -> None:
    if isinstance(value, list):
        for each in value:
            _refuse_control(name, each)
    elif isinstance(value, str) and _CONTROL.search(value):
        raise ValueError(f"{name} holds a control character, which no line of text has: {value!r}")
