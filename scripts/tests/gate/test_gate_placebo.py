# SPDX-License-Identifier: GPL-2.0
"""A gain that the placebo also shows is not due to the layout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from campaigns import Campaign, metric, noise, run

from by_schema import validate


def placebo(campaign: Campaign, values: Sequence[float], **about: str) -> str:
    """A third kernel, booted between the others."""
    place = campaign.place / "placebo"
    for number, value in enumerate(values):
        slot = 20 * number + 5
        campaign.save(place, run("placebo", f"placebo-{number}", slot, [metric(value, **about)]))
    return str(place)


def share(campaign: Campaign, values: Sequence[float], **about: str) -> tuple[dict[str, Any], str]:
    """The row of the placebo in the JSON, and the text."""
    file = campaign.place / "out.json"
    _, said = campaign.told("--placebo", placebo(campaign, values, **about), "--json", str(file))
    document = json.loads(file.read_text())
    validate(document, "gate-4")
    (found,) = document["shares"]
    return found, said


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    made = Campaign(tmp_path)
    made.boots(noise(1), noise(2, factor=0.8))
    return made


def test_gain_of_the_layout(campaign: Campaign) -> None:
    found, said = share(campaign, noise(3))
    assert -26 < found["attributable"] < -14 and found["high"] < 0
    assert "change, %" in said and "not shown" not in said


def test_gain_of_the_size_alone(campaign: Campaign) -> None:
    found, said = share(campaign, noise(3, factor=0.8))
    assert found["low"] <= 0 <= found["high"] and found["change"] < -14
    assert "timer.p99: placebo: not shown" in said


def test_a_metric_of_which_more_is_better(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign.gates = campaign.gates.replace('"lower"', '"higher"')
    campaign.boots(noise(1), noise(2, factor=1.25), direction="higher")
    assert share(campaign, noise(3), direction="higher")[0]["low"] > 10


def test_too_few_boots_of_it(campaign: Campaign) -> None:
    found, said = share(campaign, noise(3, boots=4))
    assert found["attributable"] is None and "4 boots, not 10" in found["reason"] and "no share" in said


def test_another_suite_is_refused(campaign: Campaign) -> None:
    code, said = campaign.told("--placebo", placebo(campaign, noise(3), name="timer.p50"))
    assert code is None and "the placebo has no rt_wakeup" in said
