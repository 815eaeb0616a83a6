# SPDX-License-Identifier: GPL-2.0
"""The claims of the mails: the file, and which claims some runs confirm."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from campaigns import Campaign, main, metric, noise, run
from test_run_tools import GOOD, read

from schedlib.gate.claims import verdict
from schedlib.gate.rules import load_gate
from schedlib.names import gate_names
from schedlib.runs.workload_suites import OWN, WorkloadRow, load_suite, suite_names
from schedlib.verdict import Verdict


def test_every_gates_file_loads() -> None:
    assert {"default", "claims"} <= set(gate_names())
    assert "c2c" not in gate_names()  # it is for the emulated counts: schedline c2c diff
    for name in gate_names():
        load_gate(name)


def test_claims_are_what_the_quotes_say() -> None:
    gate = load_gate("claims")
    for claim in gate.claims:
        if pair := re.search(r"~?([\d.]+)(?:%|B)? (?:->|to) ~?([\d.]+)", claim.quote):
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


def _names_in(program: str) -> set[str]:
    """The metrics that one of our workloads names, in its source and in the headers that it includes."""
    left, text = [f"{program}.c"], ""
    while left:
        found = (OWN / left.pop()).read_text()
        text += found
        left += [name for name in re.findall(r'#include "(\w+\.h)"', found) if (OWN / name).exists()]
    # The last string in each call is the metric's name.
    calls = [re.findall(r'"([a-z0-9_.]+)"', call) for call in re.findall(r"add_metric\(\w+,[^;]*;", text)]
    latencies = re.findall(r'add_quantiles\(\w+, "([a-z0-9_.]+)"', text)
    return {
        *(words[-1] for words in calls if words),
        *(f"{name}.{quantile}" for name in latencies for quantile in ("p50", "p90", "p99", "p99_9", "max")),
        *re.findall(r'\.metric = "([a-z0-9_.]+)"', text),
    }


def emitted(row: WorkloadRow) -> set[str]:
    """The metrics of a row: from the recorded outputs of its tool, or from the source of our own workload."""
    if row.program:
        return _names_in(row.program)
    return {metric.name for name, (tool, _) in GOOD.items() if tool == row.tool for metric in read(tool, name).metrics}


@pytest.mark.parametrize("gates", ["claims", "default"])
def test_every_metric_of_a_gate_is_measured_by_a_suite(gates: str) -> None:
    gate = load_gate(gates)
    rows = [row for name in suite_names() for row in load_suite(name).rows]
    measured = {(row.tool or row.program, name) for row in rows for name in emitted(row)}
    asked = {rule.key for rule in gate.rules} | {cited.key for cited in (*gate.claims, *gate.levels)}
    assert not asked - measured


def test_the_suite_of_the_mails_answers_every_claim() -> None:
    gate = load_gate("claims")
    programs = [row.tool or row.program for row in load_suite("mails").rows]
    # With a second row of the same program the gate would use the names of the rows, and no claim has those.
    assert {programs.count(each.tool) for each in (*gate.claims, *gate.levels)} == {1}


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
    assert "absent, no run of cyclictest has it" in out
    assert max(map(len, out.splitlines())) <= 72


def test_smaller_than_claimed_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = Campaign(tmp_path)
    for name, values in (("base", noise(1)), ("candidate", noise(2, factor=0.8))):
        for place, value in enumerate(values):
            minute = 20 * place + (10 if name == "candidate" else 0)
            found = metric(value, name="latency.mean", unit="us", kind="exact")
            campaign.save(campaign.place / name, run(name, f"{name}{place}", minute, [found], tool="cyclictest"))
    assert main(["gate", str(campaign.base), str(campaign.candidate), "--expect-improvement"]) == 3
    assert "smaller: better, but by less than claimed" in capsys.readouterr().out


def test_nothing_judged_is_inconclusive() -> None:
    assert verdict([]) is Verdict.INCONCLUSIVE
