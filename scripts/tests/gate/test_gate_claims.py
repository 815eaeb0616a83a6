# SPDX-License-Identifier: GPL-2.0
"""The mails' claims: the file, and which of them some runs show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from campaigns import Campaign, metric, noise, run

from schedlib.gate.claims import verdict
from schedlib.gate.rules import GATES, load_gate
from schedlib.main import main
from schedlib.verdict import Verdict


def test_every_gates_file_loads() -> None:
    names = {path.stem for path in GATES.glob("*.toml")} - {"c2c"}  # of the emulated counts: schedline c2c diff
    assert {"default", "claims"} <= names
    for name in names:
        load_gate(name)


def test_claims_are_what_the_quotes_say() -> None:
    gate = load_gate("claims")
    for claim in gate.claims:
        if table := re.fullmatch(r"\d+: ([\d.]+) ([\d.]+) \((-?[\d.]+)%\)", claim.quote):
            before, after, percent = map(float, table.groups())
            assert claim.change == percent
            assert 100 * (after / before - 1) == pytest.approx(percent, abs=0.006)
        elif pair := re.search(r"~?([\d.]+)(?:%|B)? (?:->|to) ~?([\d.]+)", claim.quote):
            before, after = map(float, pair.groups())
            assert 100 * (after / before - 1) == pytest.approx(claim.change, abs=0.06)
        else:
            assert f"{abs(claim.change):g}" in claim.quote
    for level in gate.levels:
        assert f"{level.value:.4f}" in level.quote
    ids = [claim.id for claim in gate.claims]
    assert len(ids) == len(set(ids))


def test_no_maximum_is_judged() -> None:
    assert not any(claim.judged for claim in load_gate("claims").claims if claim.name.endswith(".max"))


def _sleep_storm(campaign: Campaign, factor: float) -> None:
    for name, values in (("base", noise(1)), ("candidate", noise(2, factor=factor))):
        for place, value in enumerate(values):
            found = metric(value, name="balance.with_sched_balance_rq", unit="cycles", kind="exact")
            minute = 20 * place + (10 if name == "candidate" else 0)
            campaign.save(campaign.place / name, run(name, f"{name}{place}", minute, [found], tool="sleep_storm"))


@pytest.mark.parametrize(
    ("factor", "code", "said"),
    [(0.85, 0, "shown"), (1.0, 3, "not shown"), (1.2, 1, "worse than the base")],
)
def test_expect_improvement(
    tmp_path: Path, factor: float, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = Campaign(tmp_path)
    _sleep_storm(campaign, factor)
    assert main(["gate", str(campaign.base), str(campaign.candidate), "--expect-improvement"]) == code
    out = capsys.readouterr().out
    assert f"    {said}" in out or f": the candidate is {said}" in out
    assert "absent, no run of netperf has it" in out
    assert max(map(len, out.splitlines())) <= 72


def test_smaller_than_claimed_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = Campaign(tmp_path)
    for name, values in (("base", noise(1)), ("candidate", noise(2, factor=0.8))):
        for place, value in enumerate(values):
            minute = 20 * place + (10 if name == "candidate" else 0)
            found = metric(value, name="latency.mean")
            campaign.save(campaign.place / name, run(name, f"{name}{place}", minute, [found], tool="cyclictest"))
    assert main(["gate", str(campaign.base), str(campaign.candidate), "--expect-improvement"]) == 3
    assert "smaller: better, and by less than claimed" in capsys.readouterr().out


def test_nothing_judged_is_inconclusive() -> None:
    assert verdict([]) is Verdict.INCONCLUSIVE
