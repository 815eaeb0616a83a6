# SPDX-License-Identifier: GPL-2.0
"""What `schedline layout explain` says of a change is what the message of its carried patch says."""

from __future__ import annotations

import pytest

from schedlib.paths import PATCHES
from schedlib.tree.changes import change_table


@pytest.mark.parametrize("change", ["rq-order", "rd-lines", "cpupri-lines"])
def test_author_and_gain_are_those_of_the_patch(change: str) -> None:
    row = change_table()[change]
    text = (PATCHES / "6.12" / f"{change}.patch").read_text()
    assert f"\nFrom: {row.author}\n" in text
    assert row.gain in " ".join(text.split())


def test_a_change_without_a_patch_claims_nothing() -> None:
    assert change_table()["cluster-scan"].gain == "not measured"
