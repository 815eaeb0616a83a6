# SPDX-License-Identifier: GPL-2.0
"""The orders of a block: fair to both kernels, and no period of the machine is in all of them."""

from __future__ import annotations

import pytest

from schedlib.gate.block_orders import BLOCK_ORDERS


def test_each_order_is_fair() -> None:
    assert len(BLOCK_ORDERS) == len(set(BLOCK_ORDERS)) == 22
    for order in BLOCK_ORDERS:
        assert order.count("A") == order.count("B") == 4
        assert all(abs(order[:place].count("A") - order[:place].count("B")) <= 2 for place in range(9))
        assert order.translate(str.maketrans("AB", "BA")) in BLOCK_ORDERS
    assert "ABBABAAB" in BLOCK_ORDERS and "AAAABBBB" not in BLOCK_ORDERS


@pytest.mark.parametrize("place", range(8))
def test_no_place_belongs_to_a_kernel(place: int) -> None:
    """Each place of a block is the base's in half of the orders, so nothing that happens there is always a change."""
    assert sum(order[place] == "A" for order in BLOCK_ORDERS) == 11


def test_a_drift_meets_both_alike() -> None:
    """The mean places of the two kernels differ by at most half a place; of ABABABAB by one."""
    for order in (*BLOCK_ORDERS, "ABABABAB"):
        places = [sum(place for place, kind in enumerate(order) if kind == which) / 4 for which in "AB"]
        assert (abs(places[0] - places[1]) <= 0.5) == (order in BLOCK_ORDERS)
