# SPDX-License-Identifier: GPL-2.0
"""The tables in Documentation/networking/net_cachelines: who reads and who writes each member of a structure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from schedlib.formats.contract_file import AccessClass

NET_TABLES = "Documentation/networking/net_cachelines"

_WRITES = ("read_write", "write_mostly")
_READS = ("read_mostly", "read_write")


@dataclass(frozen=True)
class TableRow:
    """A row of a table.

    Attributes:
        kind: the type, as it stands there: "unsigned_int", "struct icsk_ack_u8".
        name: the name, as it stands there: "xps_maps[2]", "netmem_tx:2;".
        tx, rx: how sending and receiving access it: read_mostly, read_write, write_mostly; empty if they do not.
        comment: the functions, and what else is said.
    """

    kind: str
    name: str
    tx: str = ""
    rx: str = ""
    comment: str = ""

    @property
    def member(self) -> str:
        """The name alone, without what is a part of its type."""
        match = re.match(r"\w+", self.name)
        return match[0] if match else self.name

    @property
    def spellings(self) -> tuple[str, ...]:
        """The paths that it may stand for: `struct icsk_ack_u8 pending` is icsk_ack.pending."""
        match = re.fullmatch(r"struct (\w+?)_(?:[us]\d+|int)(?::\d+)?", self.kind)
        return (f"{match[1]}.{self.member}", self.member) if match else (self.member,)

    @property
    def is_hot(self) -> bool:
        """Whether sending or receiving accesses it."""
        return bool(self.tx or self.rx)

    @property
    def is_written(self) -> bool:
        """Whether sending or receiving writes it."""
        return self.tx in _WRITES or self.rx in _WRITES

    @property
    def access_class(self) -> AccessClass | None:
        """What its columns claim: a socket and a device's queue are written by the CPU that works on them."""
        if not self.is_hot:
            return None
        return AccessClass.OWNER if self.is_written else AccessClass.READ_MOSTLY

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that the comment names."""
        return functions_in(self.comment)

    @property
    def readers(self) -> tuple[str, ...]:
        """Those of a member that is read. The table does not say which function does what: they may write it, too."""
        return self.functions if self.tx in _READS or self.rx in _READS else ()

    @property
    def writers(self) -> tuple[str, ...]:
        """The same of a member that is written."""
        return self.functions if self.is_written else ()


@dataclass(frozen=True)
class NetTable:
    """A table: its file, what it is about by its title ("net_device struct fast path usage breakdown"), its rows."""

    file: str
    about: str
    is_enum: bool
    rows: tuple[TableRow, ...]

    def find(self, member: str) -> TableRow | None:
        """The row of a member. Of two rows the first."""
        return next((row for row in self.rows if member in row.spellings), None)


NO_TABLE = NetTable("", "", False, ())


def read_table(file: str, text: str) -> NetTable:
    """The table of a file."""
    title = re.search(r"^=+\n(\w+) (struct|enum) .*\n=+$", text, re.M)
    return NetTable(file, title[1] if title else "", bool(title and title[2] == "enum"), tuple(_rows(text)))


def _rows(text: str) -> Iterator[TableRow]:
    rules = list(re.finditer(r"^=+(?: +=+)+$", text, re.M))
    if len(rules) < 3:
        return
    starts = [match.start() for match in re.finditer(r"=+", rules[0][0])]
    for line in text[rules[1].end() : rules[2].start()].splitlines():
        cells = [line[at:end].strip() for at, end in zip(starts, [*starts[1:], len(line)], strict=True)]
        if len(cells) > 1 and cells[1]:
            yield TableRow(*cells[:5])


_CHOICE = re.compile(r"(\w+)\((\w+(?:/\w+)*)\)(?=\w)(\w+)")
_FUNCTION = re.compile(r"\b(?:_*[a-z][a-z0-9]*|_*[A-Z]+)(?:_\w+)+\b")


def functions_in(comment: str) -> tuple[str, ...]:
    """The names of functions in a comment. `tcp_v(4/6)_rcv` stands for two, and so does `ip(6)_input`."""

    def each(match: re.Match[str]) -> str:
        inside = match[2].split("/")
        return ",".join(f"{match[1]}{part}{match[3]}" for part in (inside if len(inside) > 1 else ["", *inside]))

    return tuple(dict.fromkeys(_FUNCTION.findall(_CHOICE.sub(each, comment))))
