# SPDX-License-Identifier: GPL-2.0
"""A gain that the placebo also shows is not due to the layout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from campaigns import Campaign, main, metric, noise, run

from by_schema import validate
from schedlib.errors import SchedlineError


def placebo(campaign: Campaign, values: Sequence[float], **about: str) -> str:
    """A third kernel, booted between the others."""
    place = campaign.place / "placebo"
    for number, value in enumerate(values):
        slot = 20 * number + 5
        campaign.save(place, run("placebo", f"placebo-{number}", slot, [metric(value, **about)]))
    return str(place)


def share(campaign: Campaign, *words: str) -> dict[str, object]:
    """The row of the placebo in the JSON."""
    file = campaign.place / "out.json"
    main(campaign.words(*words, "--json", str(file)))
    document = json.loads(file.read_text())
    validate(document, "gate-4")
    (found,) = document["shares"]
    assert isinstance(found, dict)
    return found


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    made = Campaign(tmp_path)
    made.boots(noise(1), noise(2, factor=0.8))
    return made


def test_gain_of_the_layout(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    found = share(campaign, "--placebo", placebo(campaign, noise(3)))
    assert -26 < float(str(found["attributable"])) < -14
    assert float(str(found["high"])) < 0
    said = capsys.readouterr().out
    assert "change, %" in said and "not shown" not in said
    assert max(map(len, said.splitlines())) <= 72


def test_gain_of_the_size_alone(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    found = share(campaign, "--placebo", placebo(campaign, noise(3, factor=0.8)))
    assert float(str(found["low"])) <= 0 <= float(str(found["high"]))
    assert float(str(found["change"])) < -14
    assert "timer.p99: placebo: not shown" in capsys.readouterr().out


def test_a_metric_of_which_more_is_better(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign.gates = campaign.gates.replace('"lower"', '"higher"')
    campaign.boots(noise(1), noise(2, factor=1.25), direction="higher")
    place = placebo(campaign, noise(3), direction="higher")
    found = share(campaign, "--placebo", place)
    assert float(str(found["low"])) > 10


def test_too_few_boots_of_it(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    found = share(campaign, "--placebo", placebo(campaign, noise(3, boots=4)))
    assert found["attributable"] is None and "4 boots, not 10" in str(found["reason"])
    assert "no share" in capsys.readouterr().out


def test_another_suite_is_refused(campaign: Campaign) -> None:
    with pytest.raises(SchedlineError, match="the placebo has no rt_wakeup"):
        main(campaign.words("--placebo", placebo(campaign, noise(3), name="timer.p50")))
