# SPDX-License-Identifier: GPL-2.0
"""The tables of kunit/layout_rules.c and kunit/layout_fields.c, read out of object files.

kunit/layout_rules.h says what each record means; its names are used here.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from schedlib.errors import SchedlineError

VERSION = 1
"""SCHED_LAYOUT_VERSION of the tables that this module reads."""


class ClauseKind(IntEnum):
    """enum sched_layout_kind."""

    ALIGNED = 0
    ON_LINE = 1
    STARTS_ON = 2
    APART = 3
    ALONE = 4
    FOLLOWS = 5
    SAME_OFFSET = 6
    OWN_OFFSET = 7
    HEADROOM = 8
    TYPE_ALIGNED = 9
    TYPE_PADDED = 10
    TYPE_SMALL = 11
    UNBROKEN = 12
    TYPE_MOST = 13


UNLISTED = frozenset({ClauseKind.ALONE, ClauseKind.UNBROKEN})
"""The kinds that are about members which no clause lists. Judging them needs all members of the structure."""


class Condition(IntEnum):
    """enum sched_layout_condition: bit numbers."""

    SMP = 0
    BITS_64 = 1
    LINE_64 = 2
    LINE_MIN_64 = 3
    LINE_MAX_128 = 4
    MASK_8 = 5
    PLAIN_LOCKS = 6
    DEBUG_LOCKS = 7
    PROXY_EXEC = 8
    NO_PROXY_EXEC = 9
    UP = 10
    CPUPRI_SPLIT = 11


ANY_LINE = (1 << 31) - 1
LAST_LINE = -1

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


@dataclass(frozen=True)
class Rule:
    """struct sched_layout_rule: what is promised, and to whose benefit."""

    id: str
    change: str
    reason: str
    source: str


@dataclass(frozen=True)
class Clause:
    """struct sched_layout_clause. A member with `?` behind it may be configured out."""

    rule: str
    kind: ClauseKind
    needs: frozenset[Condition]
    forced: bool
    arg: int
    type: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Rules:
    """Everything that layout_rules.c says; the same for every kernel.

    Attributes:
        kinds: the words for each Kind.
        conditions: what completes "needs ..." for each Condition.
    """

    rules: tuple[Rule, ...]
    clauses: tuple[Clause, ...]
    kinds: tuple[str, ...]
    conditions: tuple[str, ...]

    def of(self, owner: str) -> tuple[Clause, ...]:
        """The clauses of a rule, or the signs of a change."""
        return tuple(clause for clause in self.clauses if clause.rule == owner)

    def changes(self) -> tuple[str, ...]:
        """The changes that made the rules, in order."""
        return tuple(dict.fromkeys(rule.change for rule in self.rules))

    def rule(self, name: str) -> Rule:
        """A rule by its id.

        Raises:
            SchedlineError: there is none.
        """
        for rule in self.rules:
            if rule.id == name:
                return rule
        raise SchedlineError(f"there is no rule {name!r}", f"choose one of {', '.join(r.id for r in self.rules)}")


@dataclass(frozen=True)
class Type:
    """struct sched_layout_type: size and alignment in bytes; None where it is not known."""

    name: str
    size: int
    align: int | None


@dataclass(frozen=True)
class Field:
    """struct sched_layout_field: offset, size and stride in bytes."""

    type: str
    member: str
    offset: int
    size: int
    count: int = 1
    stride: int = 0

    @property
    def last(self) -> int:
        """Offset of the last byte of the first element."""
        return self.offset + max(self.size, 1) - 1


class _Object:
    """Symbols of an ELF relocatable object and the bytes behind them."""

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


def read_rules(data: bytes, name: str) -> Rules:
    """The tables of layout_rules.c in an object file.

    Raises:
        SchedlineError: it is damaged, or of another version.
    """
    source = _Object(data, name)
    index = source.numbers("sched_layout_index", "version rule_size nr_rules clause_size nr_clauses")
    rules = tuple(
        Rule(*map(str, row))
        for row in source.records("sched_layout_rules", "24s16s176s96s", index["rule_size"], index["nr_rules"])
    )
    clauses: list[Clause] = []
    for row in source.records("sched_layout_clauses", "24sIIIi16s144s", index["clause_size"], index["nr_clauses"]):
        rule, kind, needs, forced, arg, kind_of_type, members = row
        if kind not in ClauseKind.__members__.values():
            raise SchedlineError(f"{name} holds a clause of the unknown kind {kind}", "build it again from this tree")
        clauses.append(
            Clause(
                str(rule),
                ClauseKind(int(kind)),
                _bits(int(needs)),
                bool(forced),
                int(arg),
                str(kind_of_type),
                tuple(str(members).split()),
            )
        )
    kinds = (str(row[0]) for row in source.records("sched_layout_kinds", "48s", 48, len(ClauseKind)))
    conditions = (str(row[0]) for row in source.records("sched_layout_conditions", "32s", 32, len(Condition)))
    return Rules(rules, tuple(clauses), tuple(kinds), tuple(conditions))


@dataclass(frozen=True)
class Compiled:
    """The tables of layout_fields.c, as some compiler filled them for some kernel.

    Attributes:
        line: bytes in a cache line.
        mask: bytes in a cpumask_var_t.
        holds: the conditions that are true; every other one is false.
    """

    line: int
    mask: int
    holds: frozenset[Condition]
    types: tuple[Type, ...]
    fields: tuple[Field, ...]


def read_fields(data: bytes, name: str) -> Compiled:
    """The tables of layout_fields.c in an object file of any architecture.

    Raises:
        SchedlineError: it is damaged, or of another version.
    """
    source = _Object(data, name)
    env = source.numbers("sched_layout_env", "version type_size nr_types field_size nr_fields line mask holds")
    if not env["line"] or env["line"] & (env["line"] - 1):
        raise SchedlineError(f"{name} says that a line has {env['line']} bytes", "build it again")
    types = source.records("sched_layout_types", "16sII", env["type_size"], env["nr_types"])
    fields = source.records("sched_layout_fields", "16s32sIIII", env["field_size"], env["nr_fields"])
    return Compiled(
        env["line"],
        env["mask"],
        _bits(env["holds"]),
        tuple(Type(str(tag), int(size), int(align)) for tag, size, align in types),
        tuple(Field(str(tag), str(member), *map(int, numbers)) for tag, member, *numbers in fields),
    )


def _bits(value: int) -> frozenset[Condition]:
    return frozenset(condition for condition in Condition if value >> condition & 1)


def read_object(path: Path) -> bytes:
    """The content of an object file.

    Raises:
        SchedlineError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise SchedlineError(f"{path}: {error.strerror}", "check the path") from error
