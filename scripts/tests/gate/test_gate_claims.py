# SPDX-License-Identifier: GPL-2.0
"""The claims of the mails: the file, and which claims some runs confirm."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from campaigns import Campaign, main, metric, noise, run
from msgspec.structs import replace
from test_run_tools import GOOD, output, read

from schedlib.gate.boots import read_side
from schedlib.gate.claims import verdict
from schedlib.gate.rules import load_gate
from schedlib.names import gate_names
from schedlib.runs.workload_suites import OWN, Suite, WorkloadRow, load_suite, suite_names
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


def _flags(words: Sequence[str]) -> list[str]:
    """The options of a command line, without their values."""
    return [re.match(r"--?[a-z-]+", word)[0] for word in words if re.match(r"--?[a-z]", word)]  # type: ignore[index]


def emitted(row: WorkloadRow) -> set[str]:
    """What a row measures: by our parser in outputs of the real tool with these options, or by our own source."""
    if row.program:
        return _names_in(row.program)
    recorded = [name for name, (tool, _) in GOOD.items() if tool == row.tool]
    recorded = [name for name in recorded if _flags(output(name).argv[1:]) == _flags(row.words())]
    return {metric.name for name in recorded for metric in read(row.tool, name).metrics}


def keys_of(suite: Suite, place: Path) -> set[tuple[str, str]]:
    """The tools and metrics that the gate finds in one boot of a suite."""
    campaign = Campaign(place)
    for number, row in enumerate(suite.rows):
        found = [metric(0.0, name=name, unit="x", kind="exact", direction="neither") for name in emitted(row)]
        content = run("base", "first", number, found, tool=row.tool or row.program)
        content["plan"] = {"suite": suite.name, "digest": "0", "row": row.name, "run": 1, "seed": 1}
        if found:
            campaign.save(place, content)
    return set(read_side(place, "base").about)


@pytest.mark.parametrize("gates", gate_names())
def test_each_gates_file_belongs_to_a_suite_that_measures_all_of_it(gates: str, tmp_path: Path) -> None:
    """A user who took the suite `rt` or `full` for the default gates got exit code 2 after all boots."""
    owners = [name for name in suite_names() if gates in load_suite(name).gates]
    assert len(owners) == 1
    gate = load_gate(gates)
    asked = {rule.key for rule in gate.rules} | {cited.key for cited in (*gate.claims, *gate.levels)}
    assert not asked - keys_of(load_suite(owners[0]), tmp_path)


def test_suites_name_gates_files_that_exist() -> None:
    assert {gates for name in suite_names() for gates in load_suite(name).gates} == set(gate_names())


@pytest.mark.parametrize(
    ("suite", "fits"), [("gate", True), ("rt", True), ("full", True), ("quick", True), ("wakeup", False)]
)
def test_which_suites_fit_the_default_gates(suite: str, fits: bool, tmp_path: Path) -> None:
    """`rt` lacked sleep_storm, and in `full` no tool was called rt_push_pull, since two rows run it."""
    keys = keys_of(load_suite(suite), tmp_path)
    assert fits == ({rule.key for rule in load_gate("default").rules} <= keys)
    if suite == "full":
        assert {tool for tool, _ in keys} >= {"rt_push_pull", "pinned-groups-mail", "sleep_storm", "storm-mail"}


def test_a_claim_that_no_recorded_output_has_is_noticed() -> None:
    row = next(row for row in load_suite("mails").rows if row.tool == "cyclictest")
    assert {"latency.mean", "latency.max"} <= emitted(row)
    assert not emitted(replace(row, arguments=(*row.arguments, "--mlockall")))


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
