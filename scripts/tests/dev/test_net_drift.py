# SPDX-License-Identifier: GPL-2.0
"""Each way in which a table of net_cachelines can differ from its structure is told; a table made anew has none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedlib.contracts.net_tables import NetTable, TableRow
from schedlib.dev.net_cachelines import _group_at, _other_forms, _place
from schedlib.dev.net_drift import DeclaredMembers, TableDriftKind, drift_of, made_table, meaning

NAMES = ("first", "second", "count", "cold", "state")
DECLARED = DeclaredMembers(
    NAMES,
    frozenset(NAMES),
    frozenset({"state.pending"}),
    {"first": "thing_read_tx", "second": "thing_read_tx", "count": "thing_write_txrx"},
    frozenset({"first", "second", "count"}),
    types={"count": "u64", "state": "struct state", "first": "const struct ops *", "cold": "unsigned int"},
)
TABLE = NetTable(
    "thing.rst",
    "thing",
    False,
    (
        TableRow("struct ops*", "first", "read_mostly", "", "send_it"),
        TableRow("u32", "second", "read_mostly"),
        TableRow("u64", "count", "read_write", "write_mostly"),
        TableRow("unsigned_int", "cold"),
        TableRow("struct state_u8", "pending"),
    ),
)


def told(table: NetTable = TABLE, declared: DeclaredMembers = DECLARED) -> list[tuple[TableDriftKind, str, str]]:
    return [(each.kind, each.name, each.text) for each in drift_of(table, declared, ("send_it",))]


def with_rows(*rows: TableRow, without: str = "") -> NetTable:
    return replace(TABLE, rows=(*(row for row in TABLE.rows if row.member != without), *rows))


def test_nothing_differs() -> None:
    assert told() == []


@pytest.mark.parametrize(
    ("table", "declared", "expected"),
    [
        (with_rows(TableRow("int", "gone")), DECLARED, [(TableDriftKind.LACKING, "gone", "")]),
        (
            with_rows(TableRow("int", "gone")),
            replace(DECLARED, macros={"gone": "other.gone"}),
            [(TableDriftKind.MOVED, "gone", "other.gone")],
        ),
        (
            with_rows(TableRow("int", "gone")),
            replace(DECLARED, elsewhere=lambda name: ("heir",)),
            [(TableDriftKind.MOVED, "gone", "struct heir")],
        ),
        (with_rows(TableRow("int", "cold")), DECLARED, [(TableDriftKind.TWICE, "cold", "2 times")]),
        (with_rows(without="cold"), DECLARED, [(TableDriftKind.UNDOCUMENTED, "cold", "")]),
        (
            with_rows(without="cold"),
            replace(DECLARED, compiled=frozenset()),
            [(TableDriftKind.UNDOCUMENTED, "cold", "in other configurations")],
        ),
        (
            with_rows(without="count"),
            DECLARED,
            [(TableDriftKind.UNDOCUMENTED, "count", "thing_write_txrx")],
        ),
        (
            with_rows(TableRow("int", "cold", "read_mostly"), without="cold"),
            DECLARED,
            [(TableDriftKind.UNGROUPED, "cold", "tx read_mostly, rx -")],
        ),
        (
            with_rows(TableRow("u64", "count"), without="count"),
            DECLARED,
            [(TableDriftKind.UNCLAIMED, "count", "thing_write_txrx")],
        ),
        (
            with_rows(TableRow("u64", "count", "read_mostly", "read_mostly"), without="count"),
            DECLARED,
            [(TableDriftKind.UNLIKE, "count", "tx read_mostly, rx read_mostly; thing_write_txrx")],
        ),
        (
            with_rows(TableRow("u64", "count", "read_write"), without="count"),
            DECLARED,
            [(TableDriftKind.UNLIKE, "count", "tx read_write, rx -; thing_write_txrx")],
        ),
        (
            TABLE,
            replace(DECLARED, asserted=frozenset({"first", "second"})),
            [(TableDriftKind.UNASSERTED, "count", "thing_write_txrx")],
        ),
        (TABLE, replace(DECLARED, asserted=frozenset({"first", "second"}), bits=frozenset({"count"})), []),
        (
            with_rows(TableRow("u32", "second", "read_mostly", "", "send_that"), without="second"),
            DECLARED,
            [(TableDriftKind.FUNCTION, "send_that", "second")],
        ),
    ],
)
def test_what_differs(
    table: NetTable, declared: DeclaredMembers, expected: list[tuple[TableDriftKind, str, str]]
) -> None:
    assert told(table, declared) == expected


def test_other_spellings() -> None:
    """A slip of the pen, a tag in place of the member, and a name that slid into the column of the type."""
    names = (*NAMES, "rtnl_link_initializing", "rack", "priv_destructor")
    declared = replace(DECLARED, names=names, compiled=frozenset(names), tags={"tcp_rack": "rack"})
    table = with_rows(
        TableRow("bool", "rtnl_link_initilizing"),
        TableRow("struct", "tcp_rack"),
        TableRow("void*priv_destructor", "struct thing"),
    )
    assert told(table, declared) == [
        (TableDriftKind.SPELLED, "rtnl_link_initilizing", "rtnl_link_initializing"),
        (TableDriftKind.SPELLED, "tcp_rack", "rack"),
        (TableDriftKind.SPELLED, "struct thing", "priv_destructor"),
    ]


def test_a_table_made_anew() -> None:
    names = (*NAMES, "rack")
    declared = replace(DECLARED, names=names, compiled=frozenset(names), tags={"tcp_rack": "rack"})
    twice = TableRow("unsigned_int", "first")
    old = with_rows(TableRow("int", "gone"), twice, TableRow("struct", "tcp_rack"), without="count")
    made = made_table(replace(old, rows=tuple(reversed(old.rows))), declared)
    assert [row.member for row in made.rows] == ["first", "second", "count", "cold", "pending", "rack"]
    assert made.rows[0] == TABLE.rows[0]
    assert made.rows[2] == TableRow("u64", "count", "read_write", "read_write")
    assert told(made, declared) == []


@pytest.mark.parametrize(
    ("group", "written", "sides"),
    [
        ("net_device_read_tx", False, {"tx"}),
        ("tcp_sock_write_txrx", True, {"tx", "rx"}),
        ("sock_read_rxtx", False, {"tx", "rx"}),
        ("icmp", False, set()),
    ],
)
def test_what_the_name_of_a_group_means(group: str, written: bool, sides: set[str]) -> None:
    assert meaning(group) == (written, frozenset(sides))


def test_places_and_groups_in_a_declaration() -> None:
    text = "__cacheline_group_begin(a_read_tx); int x[2]; u8 b:3, c:1; __cacheline_group_end(a_read_tx); int xy, y;"
    assert [_group_at(text, _place(text, name)) for name in ("x", "b", "c", "xy", "y")] == ["a_read_tx"] * 3 + ["", ""]
    assert _place(text, "nobody") == len(text) and _group_at(text, len(text)) == ""


def test_other_forms_of_a_name() -> None:
    source = "enum { INET_FLAGS_HDRINCL\t= 9 };\n#define inet_num\t\tsk.__sk_common.skc_num\n#define SIZE 4\n"
    assert _other_forms(source) == {"hdrincl": "the bit INET_FLAGS_HDRINCL", "inet_num": "sk.__sk_common.skc_num"}
