# SPDX-License-Identifier: GPL-2.0
"""The kernel's tables of who uses which member: what a row says."""

from __future__ import annotations

import pytest

from schedlib.contracts.net_tables import NO_TABLE, TableRow, functions_in, read_table
from schedlib.formats.contract_file import AccessClass

TEXT = """\
.. SPDX-License-Identifier: GPL-2.0
.. Copyright (C) 2023 Google LLC

==================================
thing struct fast path usage breakdown
==================================

======================= =========== ================== ================== ==================================
Type                    Name        fastpath_tx_access fastpath_rx_access Comments
======================= =========== ================== ================== ==================================
unsigned_long:2         bits:2;     read_mostly                           first_user(tx)
struct acked_u8         pending     read_write         read_mostly        ack_it,tcp_v(4/6)_rcv(rx)
char                    name[16]
u32                     sent                           write_mostly
======================= =========== ================== ================== ==================================
"""


def test_rows() -> None:
    table = read_table("thing.rst", TEXT)
    assert (table.about, table.is_enum, [row.member for row in table.rows]) == (
        "thing",
        False,
        ["bits", "pending", "name", "sent"],
    )
    bits, pending, name, sent = table.rows
    assert bits == TableRow("unsigned_long:2", "bits:2;", "read_mostly", "", "first_user(tx)")
    assert pending.spellings == ("acked.pending", "pending") and name.spellings == ("name",)
    assert [row.access_class for row in table.rows] == [
        AccessClass.READ_MOSTLY,
        AccessClass.OWNER,
        None,
        AccessClass.OWNER,
    ]
    assert (bits.readers, bits.writers) == (("first_user",), ())
    assert pending.readers == pending.writers == ("ack_it", "tcp_v4_rcv", "tcp_v6_rcv")
    assert (sent.is_written, name.is_hot) == (True, False)
    assert TableRow("struct icsk_mtup_int", "high").spellings == ("icsk_mtup.high", "high")
    assert table.find("acked.pending") is pending and table.find("nobody") is None


@pytest.mark.parametrize("text", ["", "=====\nthing struct x\n=====\n", TEXT.replace("=== ===", "======="), "x\n"])
def test_no_table(text: str) -> None:
    assert read_table("x.rst", text).rows == NO_TABLE.rows


@pytest.mark.parametrize(
    ("comment", "names"),
    [
        ("tcp_v(4/6)_rcv,ip(6)_input", ["tcp_v4_rcv", "tcp_v6_rcv", "ip_input", "ip6_input"]),
        ("napi_poll(napi_enable,x)", ["napi_poll", "napi_enable"]),
        ("__dev_queue_xmit(tx);HARD_TX_LOCK", ["__dev_queue_xmit", "HARD_TX_LOCK"]),
        ("generic, timer; tx/rx", []),
    ],
)
def test_functions(comment: str, names: list[str]) -> None:
    assert functions_in(comment) == tuple(names)
