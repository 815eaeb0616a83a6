# SPDX-License-Identifier: GPL-2.0
"""The changes of a labelled series that docs/results/gate.md names."""

from __future__ import annotations

from proof.real_series import LABELS, gate_said, places, points, series


def test_what_each_finds_in_the_series() -> None:
    values = series()
    assert len(values) == 365
    besides = {name: sorted(set(found) - set(LABELS)) for name, found in points(values).items()}
    assert besides == {"history": [131, 192], "Otava": [61, 117, 131, 192, 212]}
    assert all(set(LABELS) <= set(found) for found in points(values).values())
    others = set(places(len(values))) - set(LABELS)
    assert len(others) == 13
    failing = {at for at in (*LABELS, 120, 140, 160) if gate_said(values, at) == "FAIL"}
    assert failing == {*LABELS, 140}
