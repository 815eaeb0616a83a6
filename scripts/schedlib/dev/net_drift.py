# SPDX-License-Identifier: GPL-2.0
"""What differs between a table of Documentation/networking/net_cachelines and the structure that it is about.

The kernel keeps three records of the fast path by hand: the table, the groups between __cacheline_group_begin() and
__cacheline_group_end(), and the assertions. No tool compares them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import Enum

from schedlib.contracts.net_tables import NetTable, TableRow

_CLOSE = 0.9
"""How alike two names are that differ by a slip of the pen. 1 means equal."""


class TableDriftKind(Enum):
    """What differs."""

    LACKING = "rows for which the structure has no member"
    MOVED = "rows for what stands in another structure now"
    SPELLED = "rows that spell the member in another way"
    TWICE = "members with two rows"
    UNDOCUMENTED = "members without a row"
    UNGROUPED = "rows with a fast path, members outside of all groups"
    UNCLAIMED = "members of a group, rows without a fast path"
    UNLIKE = "rows that claim another access than the member's group"
    UNASSERTED = "members of a group that no assertion names"
    FUNCTION = "functions that the kernel does not have"


@dataclass(frozen=True)
class TableDrift:
    """One difference: the member or function, and what is said of it."""

    kind: TableDriftKind
    name: str
    text: str = ""


@dataclass(frozen=True)
class DeclaredMembers:
    """The structure, or the enumeration, that a table is about.

    Attributes:
        names: what it has in any configuration, in order of the source.
        compiled: what it has in the configuration that was compiled; of an enumeration the same.
        inside: paths of members inside of members, as "icsk_ack.pending".
        groups: the group of each member, by the kernel's markers.
        asserted: the members that an assertion names.
        bits: the members that are bit fields. No assertion can name them.
        macros: what a name stands for that is a macro: "sk.__sk_common.skc_daddr".
        tags: the member of each type that is declared within the structure: {"tcp_rack": "rack"}.
        types: the type of each member, as the compiler has it.
        elsewhere: finds the other structures that have a member of this name now.
    """

    names: tuple[str, ...]
    compiled: frozenset[str]
    inside: frozenset[str] = frozenset()
    groups: Mapping[str, str] = field(default_factory=dict)
    asserted: frozenset[str] = frozenset()
    bits: frozenset[str] = frozenset()
    macros: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Callable[[str], tuple[str, ...]] = lambda _: ()


def match_rows(table: NetTable, declared: DeclaredMembers) -> dict[TableRow, str]:
    """The member of each row that has one, even if the row spells it in another way."""
    found: dict[TableRow, str] = {}
    known = {*declared.names, *declared.inside}
    for row in table.rows:
        if member := next((name for name in row.spellings if name in known), ""):
            found[row] = member
    for row in table.rows:
        left = [name for name in declared.names if name not in found.values()]
        if row not in found and (member := _meant(row, left, declared)):
            found[row] = member
    return found


def _meant(row: TableRow, left: Collection[str], declared: DeclaredMembers) -> str:
    """The member without a row that a row most likely means; empty if there is none."""
    named = [declared.tags.get(row.member, ""), *re.findall(r"\w+", row.kind)]
    near = get_close_matches(row.member, left, 1, _CLOSE)
    return next((name for name in (*named, *near) if name in left), "")


def drift_of(table: NetTable, declared: DeclaredMembers, functions: Collection[str]) -> tuple[TableDrift, ...]:
    """Everything that differs.

    Args:
        functions: those of the table that the kernel has.
    """
    found = match_rows(table, declared)
    rows = [*_rows(table, declared, found), *_members(declared, found), *_fast_paths(declared, found)]
    rows += [TableDrift(TableDriftKind.UNASSERTED, name, group) for name, group in _unasserted(declared)]
    for row in table.rows:
        rows += [
            TableDrift(TableDriftKind.FUNCTION, each, row.member) for each in row.functions if each not in functions
        ]
    order = {kind: at for at, kind in enumerate(TableDriftKind)}
    return tuple(sorted(rows, key=lambda drift: order[drift.kind]))


def _rows(table: NetTable, declared: DeclaredMembers, found: Mapping[TableRow, str]) -> Iterator[TableDrift]:
    for row in table.rows:
        if row in found:
            if found[row] not in row.spellings:
                yield TableDrift(TableDriftKind.SPELLED, row.name, found[row])
        elif row.member in declared.macros:
            yield TableDrift(TableDriftKind.MOVED, row.member, declared.macros[row.member])
        elif tags := declared.elsewhere(row.member):
            yield TableDrift(TableDriftKind.MOVED, row.member, ", ".join(f"struct {tag}" for tag in tags))
        else:
            yield TableDrift(TableDriftKind.LACKING, row.member)
    times = Counter(row.member for row in table.rows if row.spellings == (row.member,))
    yield from (TableDrift(TableDriftKind.TWICE, name, f"{count} times") for name, count in times.items() if count > 1)


def _members(declared: DeclaredMembers, found: Mapping[TableRow, str]) -> Iterator[TableDrift]:
    documented = {name.split(".")[0] for name in found.values()}
    for name in declared.names:
        if name not in documented:
            there = "" if name in declared.compiled else "in other configurations"
            yield TableDrift(TableDriftKind.UNDOCUMENTED, name, declared.groups.get(name, there))


def _fast_paths(declared: DeclaredMembers, found: Mapping[TableRow, str]) -> Iterator[TableDrift]:
    if not declared.groups:
        return
    for row, member in found.items():
        group = declared.groups.get(member, "")
        claimed = f"tx {row.tx or '-'}, rx {row.rx or '-'}"
        if row.is_hot and not group:
            yield TableDrift(TableDriftKind.UNGROUPED, member, claimed)
        elif group and not row.is_hot:
            yield TableDrift(TableDriftKind.UNCLAIMED, member, group)
        elif group and (row.is_written, row.sides) != meaning(group):
            yield TableDrift(TableDriftKind.UNLIKE, member, f"{claimed}; {group}")


def meaning(group: str) -> tuple[bool, frozenset[str]]:
    """What the name of a group says: whether it is written, and by which of tx and rx: tcp_sock_write_txrx."""
    last = group.rpartition("_")[2]
    return "_write_" in group, frozenset(side for side in ("tx", "rx") if side in last)


def _unasserted(declared: DeclaredMembers) -> Iterator[tuple[str, str]]:
    for name in declared.names:
        group = declared.groups.get(name, "")
        if group and name not in declared.asserted and name not in declared.bits:
            yield name, group


def made_table(table: NetTable, declared: DeclaredMembers) -> NetTable:
    """The table with a row for each member, in the order of the source, and without rows for what is gone.

    What a row claims is kept; of two rows for one member, that which claims something. A new row gets the access that
    the name of its group says.
    """
    rows: dict[str, dict[str, TableRow]] = {}
    for row, member in match_rows(table, declared).items():
        kept = row if member in row.spellings else replace(row, kind=_kind(member, declared), name=member)
        its = rows.setdefault(member.split(".")[0], {})
        if member not in its or (row.is_hot and not its[member].is_hot):
            its[member] = replace(kept, name=kept.member)
    made: list[TableRow] = []
    for name in declared.names:
        made += rows[name].values() if name in rows else [_new_row(name, declared)]
    return NetTable(table.file, table.about, table.is_enum, tuple(made))


def _new_row(name: str, declared: DeclaredMembers) -> TableRow:
    written, sides = meaning(declared.groups.get(name, ""))
    access = dict.fromkeys(sides, "read_write" if written else "read_mostly")
    return TableRow(_kind(name, declared), name, **access)


def _kind(name: str, declared: DeclaredMembers) -> str:
    """The type of a member as the tables write it. They have no spaces but behind `struct`."""
    kind = declared.types.get(name, "")
    tag = "struct " if kind.startswith("struct ") else ""
    return tag + re.sub(r" +(?=\*)", "", kind.removeprefix("const ").removeprefix("struct ")).replace(" ", "_")
