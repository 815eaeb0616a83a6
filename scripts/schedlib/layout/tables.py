# SPDX-License-Identifier: GPL-2.0
"""The tables of layout_fields.c, which contracts/c_tables.py makes, read out of object files."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from schedlib.contracts.c_tables import VERSION
from schedlib.errors import SchedlineError
from schedlib.formats.strict import Count, Positive, Strict, Word

_NUMBERS = {"type": 8, "field": 16, "condition": 4}
"""Bytes of numbers behind the names in each record."""

_MOST = 1 << 20
"""More of anything is damage."""


DAMAGE = (
    ELFError,
    OSError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    MemoryError,
)
"""What pyelftools raises when it reads a damaged file."""


class Type(Strict, frozen=True):
    """A structure: size and alignment in bytes; None where it is not known."""

    name: Word
    size: Count
    align: Count | None


class Field(Strict, frozen=True):
    """A member: offset, size and stride in bytes."""

    type: Word
    member: Word
    offset: Count
    size: Count
    count: Count
    stride: Count

    @property
    def last(self) -> int:
        """Offset of the last byte of the first element."""
        return self.offset + max(self.size, 1) - 1


class ObjectFile:
    """Symbols of an ELF relocatable object and the bytes behind them.

    Raises:
        SchedlineError: it is damaged, or has no symbol table.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        self._data = data
        try:
            self._elf = ELFFile(io.BytesIO(data))
            table = self._elf.get_section_by_name(".symtab")
            if not isinstance(table, SymbolTableSection):
                raise ELFError("it has no symbol table")
            self._symbols: dict[str, Any] = {symbol.name: symbol.entry for symbol in table.iter_symbols()}
        except DAMAGE as error:
            raise SchedlineError(f"{name} is no object file that can be read: {error}", "build it again") from error
        self.order = "<" if self._elf.little_endian else ">"

    def bytes_of(self, symbol: str) -> bytes:
        try:
            entry = self._symbols[symbol]
            start: int = self._elf.get_section(entry["st_shndx"])["sh_offset"] + entry["st_value"]
            return self._data[start : start + entry["st_size"]]
        except DAMAGE as error:
            raise SchedlineError(
                f"{self.name} holds no table {symbol}", "it must be kernel/sched/tests/layout_*.o of a tested tree"
            ) from error

    def numbers(self, symbol: str, names: str) -> dict[str, int]:
        """A record of 32-bit numbers, by name."""
        words = names.split()
        data = self.bytes_of(symbol)
        if len(data) != 4 * len(words):
            raise SchedlineError(f"{symbol} in {self.name} has {len(data)} bytes", "build it again from this tree")
        found = dict(zip(words, struct.unpack(f"{self.order}{len(words)}I", data), strict=True))
        if found["version"] != VERSION:
            raise SchedlineError(
                f"{self.name} holds tables of version {found['version']}, known is {VERSION}",
                "use the schedline that it was built with",
            )
        return found

    def records(self, symbol: str, form: str, size: int, count: int) -> Iterator[tuple[str | int, ...]]:
        """An array of records; `form` is struct's, texts come without their padding."""
        form = self.order + form
        data = self.bytes_of(symbol)
        if struct.calcsize(form) != size or len(data) != size * count:
            raise SchedlineError(f"{symbol} in {self.name} has another shape", "build it again from this tree")
        for record in struct.iter_unpack(form, data):
            yield tuple(_text(value) if isinstance(value, bytes) else value for value in record)


def _text(value: bytes) -> str:
    return value.split(b"\0")[0].decode("ascii", "replace")


class Compiled(Strict, frozen=True):
    """The tables of layout_fields.c, as some compiler filled them for some kernel.

    Attributes:
        line: bytes in a cache line.
        holds: whether each condition of the contracts is true, in their words.
    """

    line: Positive
    holds: dict[Word, bool]
    types: tuple[Type, ...]
    fields: tuple[Field, ...]


def read_fields(data: bytes, name: str) -> Compiled:
    """The tables of layout_fields.c in an object file of any architecture.

    Raises:
        SchedlineError: it is damaged, or of another version.
    """
    source = ObjectFile(data, name)
    names = "version type_size nr_types field_size nr_fields condition_size nr_conditions line"
    env = source.numbers("sched_layout_env", names)
    if not env["line"] or env["line"] & (env["line"] - 1):
        raise SchedlineError(f"{name} says that a line has {env['line']} bytes", "build it again")
    name_size = env["type_size"] - _NUMBERS["type"]
    text_size = env["condition_size"] - _NUMBERS["condition"]
    member_size = env["field_size"] - name_size - _NUMBERS["field"]
    if min(name_size, text_size, member_size) <= 0 or max(env.values()) > _MOST:
        raise SchedlineError(f"{name} holds records of impossible sizes", "build it again from this tree")
    types = source.records("sched_layout_types", f"{name_size}sII", env["type_size"], env["nr_types"])
    form = f"{name_size}s{member_size}sIIII"
    fields = source.records("sched_layout_fields", form, env["field_size"], env["nr_fields"])
    conditions = source.records(
        "sched_layout_conditions", f"{text_size}sI", env["condition_size"], env["nr_conditions"]
    )
    return Compiled(
        env["line"],
        {str(text): bool(holds) for text, holds in conditions},
        tuple(Type(str(tag), int(size), int(align)) for tag, size, align in types),
        tuple(Field(str(tag), str(member), *map(int, numbers)) for tag, member, *numbers in fields),
    )


def read_object(path: Path) -> bytes:
    """The content of an object file.

    Raises:
        SchedlineError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise SchedlineError(f"{path}: {error.strerror}", "check the path") from error
