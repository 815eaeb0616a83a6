# SPDX-License-Identifier: GPL-2.0
"""What `schedline layout explain` takes from the carried patches."""

from __future__ import annotations

import pytest

from schedlib.layout.queries import author_and_claim


@pytest.mark.parametrize(
    ("change", "author", "claim"),
    [
        ("rq-order", "Blake Jones", "4.4 % fewer cycles"),
        ("rd-lines", "Pan Deng", "5 % more frames"),
        ("cpupri-lines", "Pan Deng", "11 % more frames"),
    ],
)
def test_who_made_a_change_and_what_it_brought(change: str, author: str, claim: str) -> None:
    by, brought = author_and_claim(change)
    assert by.startswith(author)
    assert claim in brought
    assert "\n" not in brought


def test_a_change_without_a_patch_claims_nothing() -> None:
    assert author_and_claim("nothing") == ("unknown", "not measured")
