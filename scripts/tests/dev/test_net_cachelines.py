# SPDX-License-Identifier: GPL-2.0
"""The tables of net_cachelines of a real kernel: what has drifted, and that tables made anew have not."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedlib.cache import cache_dir
from schedlib.contracts.net_tables import read_table
from schedlib.dev.dev_options import NetCachelinesOptions
from schedlib.dev.net_cachelines import _enumeration, _structure, compare_tables
from schedlib.dev.net_drift import TableDriftKind, drift_of
from schedlib.layout.columns import composed_tree
from schedlib.layout.struct_job import asserted_members, known_functions
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.tree.kernel_tree import open_tree
from schedlib.verdict import Verdict

pytestmark = pytest.mark.guest

TREE = TreeOptions(None, "7.3")
CLAIMS = {
    TableDriftKind.UNGROUPED,
    TableDriftKind.UNCLAIMED,
    TableDriftKind.UNLIKE,
    TableDriftKind.UNASSERTED,
    TableDriftKind.FUNCTION,
}
"""What people claim, and what a table made anew keeps."""


def test_what_has_drifted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare_tables(NetCachelinesOptions(TREE, tmp_path)) is Verdict.FAIL
    said = capsys.readouterr().out
    for text in ("`padded`", "`wol_enabled` (struct ethtool_netdev_state", "`tcp_rack` (rack)", "`pcpu_stat_type`"):
        assert text in said
    tree, composition = composed_tree(TREE, ChangeOptions((), ()))
    for path in sorted(tmp_path.glob("*.rst")):
        table = read_table(path.name, path.read_text())
        is_enum, at = table.is_enum, composition.commit
        declared = _enumeration(tree, at, table) if is_enum else _structure(TREE, tree, at, table)
        assert {each.kind for each in drift_of(table, declared, ())} <= CLAIMS, path.name


def test_what_the_tree_says() -> None:
    tree = open_tree(cache_dir(), TREE)
    # These assertions take two lines each.
    assert ("netns_ipv4_read_tx", "sysctl_tcp_wmem") in asserted_members(tree, tree.base, "netns_ipv4")
    names = {"tcp_ack", "HARD_TX_LOCK", "TCP_LAST_ACK", "no_such_name"}
    assert known_functions(tree, tree.base, names) == {"tcp_ack", "HARD_TX_LOCK"}
    assert known_functions(tree, tree.base, names, called=False) == names - {"no_such_name"}
