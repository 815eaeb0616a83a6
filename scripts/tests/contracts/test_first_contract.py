# SPDX-License-Identifier: GPL-2.0
"""A first contract from every origin: markers, the kernel's tables, a profile. It is valid as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from toy_profiles import Rows, profile, row

from schedlib.contracts.contract_rules import rules_of
from schedlib.contracts.first_contract import Declaration, first_contract
from schedlib.contracts.net_tables import NetTable, TableRow
from schedlib.formats.contract_file import AccessClass, Contract, read_contract

NAMES = (
    "__cacheline_group_begin__thing_read_tx",
    "ops",
    "mtu",
    "__cacheline_group_end__thing_read_tx",
    "sent",
    "state",
    "name",
)
TABLE = NetTable(
    "thing.rst",
    "thing",
    False,
    (
        TableRow("struct ops*", "ops", "read_mostly", "", "send_it,sent_once"),
        TableRow("u64", "sent", "read_write", "", "send_it"),
        TableRow("struct state_u8", "pending", "", "read_mostly", "receive_it"),
        TableRow("char", "name[16]", "", "", "said of it"),
        TableRow("int", "gone", "read_mostly"),
    ),
)
DECLARED = Declaration(
    "thing",
    "include/linux/thing.h",
    NAMES,
    {("thing_read_tx", "ops"): "net/core/thing.c"},
    table=TABLE,
    functions=frozenset({"send_it", "receive_it"}),
    has=lambda name: name in (*NAMES, "state.pending"),
    kernels="x86_64+packs",
)
USED: Rows = (
    row("name", 5_000, "store", "rename_it", essential=4_000),
    row("name", 900, "load", "show_it"),
    row("ops", 90_000, "store", "send_it"),
)


def read(tmp_path: Path, text: str) -> Contract:
    path = tmp_path / "thing.toml"
    path.write_text(text)
    rules_of((path,))
    return read_contract(path)


def test_groups_of_the_kernels_table(tmp_path: Path) -> None:
    text = first_contract(DECLARED)
    contract = read(tmp_path, text)
    marked, written, read_only = contract.group
    assert (marked.name, marked.class_, marked.members) == ("thing_read_tx", AccessClass.READ_MOSTLY, ("ops", "mtu"))
    assert (marked.readers, marked.writers) == (("send_it",), ())
    assert (written.name, written.members, written.class_) == ("table-owner", ("sent",), AccessClass.OWNER)
    assert (written.readers, written.writers) == (("send_it",), ("send_it",))
    assert (read_only.name, read_only.members) == ("table-read-mostly", ("state.pending",))
    origin = "# Documentation/networking/net_cachelines/thing.rst: the columns of these members"
    assert text.count(origin) == 2 and "asserted in net/core/thing.c" in text
    assert "# name: said of it" in text and "gone" not in text
    assert text.endswith("# The table names functions that this kernel does not have: sent_once\n")


def test_classes_that_do_not_fit_stay_apart(tmp_path: Path) -> None:
    contract = read(tmp_path, first_contract(DECLARED))
    assert [group.apart for group in contract.group] == ["thing.G1", "thing.G2", ""]
    assert contract.exception == ()
    clauses = rules_of((tmp_path / "thing.toml",)).clauses
    assert [(clause.rule, clause.members, clause.others) for clause in clauses if clause.others] == [
        ("thing.G1", ("ops", "mtu"), ("sent",)),
        ("thing.G2", ("sent",), ("state.pending",)),
    ]


def test_what_shares_a_line_now_is_an_exception(tmp_path: Path) -> None:
    def shares(one: Sequence[str], other: Sequence[str]) -> bool:
        return "sent" in (*one, *other) and "state.pending" in (*one, *other)

    contract = read(tmp_path, first_contract(replace(DECLARED, shares=shares)))
    [exception] = contract.exception
    assert (exception.group, exception.with_, exception.open) == ("table-owner", ("table-read-mostly",), True)
    assert exception.why == "they share a line on x86_64+packs: find out what that costs"
    assert [group.apart for group in contract.group] == ["thing.G1", "", ""]
    contract = read(tmp_path, first_contract(replace(DECLARED, shares=lambda one, other: True)))
    assert [group.apart for group in contract.group] == ["", "", ""] and len(contract.exception) == 2


@pytest.mark.parametrize(
    "declared", [DECLARED, replace(DECLARED, names=("name", "ops"), table=NetTable("", "", False, ()))]
)
def test_groups_of_a_profile(declared: Declaration, tmp_path: Path) -> None:
    """A profile adds what no other origin speaks of, and changes nothing of what they say."""
    text = first_contract(declared, profile(USED, USED, USED))
    contract = read(tmp_path, text)
    groups = contract.groups()
    assert groups["measured-shared"].members == ("name",)
    assert (groups["measured-shared"].readers, groups["measured-shared"].writers) == (("show_it",), ("rename_it",))
    assert "# measured: c2c.json: rt on 8 CPUs, qemu-x86_64, kernel aa: 84.7 % of 5,900 accesses are writes" in text
    assert ("measured-owner" in groups) is (declared is not DECLARED)
    assert "# name" not in text.partition("# No source was found")[2]


def test_guests_that_do_not_agree_measure_nothing(tmp_path: Path) -> None:
    other = (row("name", 5_900), row("ops", 90_000, "store"))
    contract = read(tmp_path, first_contract(DECLARED, profile(USED, other)))
    assert "measured-shared" not in contract.groups()


def test_a_structure_of_which_nothing_is_known(tmp_path: Path) -> None:
    """The example that is given then is valid without its comment signs."""
    nothing = Declaration("thing", "fs/thing.c", ("lock", "list", "rest"), lines={"lock": 0, "list": 0, "rest": 1})
    text = first_contract(nothing)
    assert read(tmp_path, text).group == ()
    assert text.endswith("# No source was found for these:\n# line 0: lock, list\n# line 1: rest\n")
    example = text.partition("such as this:\n#\n")[2].partition("\n\n")[0]
    lines = "\n".join(line.removeprefix("#").strip() for line in example.splitlines())
    contract = read(tmp_path, text.partition("# Nothing")[0] + lines)
    assert contract.group[0].members == ("lock", "list") and contract.group[0].promise[0].keep == "on one line"
    assert "# [[rule]]" not in first_contract(DECLARED)
