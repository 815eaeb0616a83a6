# SPDX-License-Identifier: GPL-2.0
"""The orders of a block of boots, of which one is drawn by lot before the first boot."""

from __future__ import annotations

from itertools import combinations

BLOCK = 4
"""Boots of each kernel in a block."""


def _fair(places: tuple[int, ...]) -> bool:
    """Whether neither kernel leads by more than two boots, nor is earlier on average by more than half a place."""
    lead = furthest = 0
    for place in range(2 * BLOCK):
        lead += 1 if place in places else -1
        furthest = max(furthest, abs(lead))
    return furthest <= 2 and abs(2 * sum(places) - BLOCK * (2 * BLOCK - 1)) <= BLOCK // 2


BLOCK_ORDERS = tuple(
    "".join("A" if place in places else "B" for place in range(2 * BLOCK))
    for places in combinations(range(2 * BLOCK), BLOCK)
    if _fair(places)
)
"""The 22 orders of a block of eight boots, ABBABAAB among them. In each of them a drift meets both kernels alike.

They are drawn by lot, because any fixed order meets some period of the machine. With ABBABAAB and its mirror image,
something that happens at every third boot looked like a change in 5 % of the campaigns; see docs/results/gate.md.
"""
