# SPDX-License-Identifier: GPL-2.0
"""The history of gates: what it says about creep."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import Campaign, noise, told
from msgspec.structs import replace

from by_schema import validate
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.gate_document import BootValue, GateDocument, GateKernel, GateSide, GatesUsed, Method
from schedlib.gate.history import LEAST, LevelSeries, change_points, history_of, history_text, read_gates
from schedlib.gate.judging import metric_row
from schedlib.gate.rules import GateRule
from schedlib.verdict import Verdict

NAMES: tuple[GateKernel, GateKernel] = ("base", "candidate")
START = datetime(2026, 1, 1, tzinfo=UTC)


def past(number: int, base: str, candidate: str, values: tuple[float, float], **more: Any) -> GateDocument:
    """A gate of one metric. `more`: verdict, direction, machine."""
    verdict, direction = more.get("verdict", Verdict.PASS), more.get("direction", "lower")
    change = 100 * (values[1] / values[0] - 1)
    rule = GateRule("rt_wakeup", "timer.p99", direction, Method.RANK, 3.0, 15.0)
    figures: dict[str, Any] = {"base": values[0], "candidate": values[1], "change": change}
    figures |= {"low": change - 1, "high": change + 1}
    sides = (
        GateSide(
            name=name, directory="", kernel=f"7.3-{kernel}", build_id=kernel, boots=(), runs=8, fingerprint={},
            failed=0, failures=(), skipped={}, absent=(),
        )
        for name, kernel in zip(NAMES, (base, candidate), strict=True)
    )  # fmt: skip
    return GateDocument(
        schema="gate-4", tool="schedline", started=START + timedelta(hours=number), command="", status=verdict,
        fingerprint={"machine_name": more.get("machine", "m")}, gates=GatesUsed("default", 0.01, (8,), (), True),
        look=8, bad_boots=None, sides=tuple(sides), metrics=(metric_row(rule, "ns", verdict, "", **figures),), shown=(),
        shares=(), notes=(),
    )  # fmt: skip


def chain(
    lot: np.random.Generator, steps: list[float], noise: float = 0.01, machine: float = 0.0
) -> list[GateDocument]:
    """Gates of each kernel against the one before it. steps: of each candidate, as a logarithm.

    Args:
        machine: by how much the machine becomes slower from gate to gate.
    """
    level, gates = 0.0, []
    for number, step in enumerate(steps):
        drift = number * machine
        base = 10_000 * math.exp(level + drift + noise * lot.standard_normal())
        level += step
        candidate = 10_000 * math.exp(level + drift + noise * lot.standard_normal())
        gates.append(past(number, f"k{number}", f"k{number + 1}", (base, candidate)))
    return gates


def one_series(gates: list[GateDocument]) -> LevelSeries:
    (found,) = history_of(gates).series
    return found


STEPS = [0.0] * 8 + [math.log(1.01)] * 12


def test_twelve_steps_of_one_percent_are_found() -> None:
    gates = chain(np.random.default_rng(1), STEPS)
    found = one_series(gates)
    assert found.status is history_of(gates).status is Verdict.FAIL
    assert 3 < found.worse < 15 and found.chained is not None and found.chained > 3
    assert found.changes and set(found.verdicts) == {Verdict.PASS}
    told = f"{found.name}: worse by {found.worse:.3g} %, over the budget of 3, in steps that the gates let through."
    said = history_text(history_of(gates), gates).split("\n")
    assert told in " ".join(" ".join(said[1:3]).split())
    # Not if one of them stopped it.
    (metric,) = gates[15].metrics
    gates[15] = replace(gates[15], metrics=(replace(metric, verdict=Verdict.FAIL),))
    assert one_series(gates).status is Verdict.FAIL and "let through" not in one_series(gates).reason


def test_most_of_such_series_are_found_and_few_without_a_step() -> None:
    """docs/results/gate.md has these shares."""
    found = [one_series(chain(np.random.default_rng(seed), STEPS)).worse > 3 for seed in range(40)]
    assert sum(found) >= 36
    flat = [one_series(chain(np.random.default_rng(seed), [0.0] * 20)).status for seed in range(200)]
    assert sum(status is not Verdict.PASS for status in flat) <= 2


SLOPES = {
    "each of 12 releases by 1 %": [math.log(1.01)] * 12,
    "each of 12 releases by 0.5 %": [math.log(1.005)] * 12,
    "two of 12 by 2.5 %": [0.0] * 4 + [math.log(1.025)] + [0.0] * 3 + [math.log(1.025)] + [0.0] * 3,
    "6 % better, and then eight by 1 %": [0.0] * 3 + [math.log(0.94)] + [math.log(1.01)] * 8,
}


@pytest.mark.parametrize("name", SLOPES)
def test_a_slope_seldom_passes(name: str) -> None:
    """Twelve releases of +1 % passed in 19 of 100 histories, and -6 % hid the eight after it in each."""
    found = [one_series(chain(np.random.default_rng(seed), SLOPES[name])).status for seed in range(40)]
    assert found.count(Verdict.PASS) <= 12
    assert found.count(Verdict.FAIL) >= 4


@pytest.mark.parametrize("name", SLOPES)
def test_the_table_shows_the_levels_that_are_compared(name: str) -> None:
    """It showed the means between the change points: often one mean, and beside it how much worse that had become."""
    for seed in range(10):
        gates = chain(np.random.default_rng(seed), SLOPES[name])
        found = history_of(gates)
        row = next(line for line in history_text(found, gates).splitlines() if line.startswith("timer.p99  "))
        _, _, good, last, worse, *_ = row.split()
        assert max(0.0, 100 * (float(last) / float(good) - 1)) == pytest.approx(float(worse), abs=0.1)


def test_a_history_with_a_failed_gate_is_no_pass() -> None:
    """Also if it failed because of lost boots, and no metric did."""
    flat = chain(np.random.default_rng(4), [0.0] * 12)
    assert history_of(flat).status is Verdict.PASS
    (metric,) = flat[5].metrics
    for verdict in (Verdict.FAIL, Verdict.PASS):
        failed = replace(flat[5], status=Verdict.FAIL, metrics=(replace(metric, verdict=verdict),))
        gates = [*flat[:5], failed, *flat[6:]]
        assert history_of(gates).status is Verdict.INCONCLUSIVE
        assert "no PASS: 1 FAIL of 7.3-k5 -> 7.3-k6" in history_text(history_of(gates), gates)


def without_values(gate: GateDocument) -> GateDocument:
    lacking = {"verdict": Verdict.ERROR, "base": None, "candidate": None, "change": None}
    return replace(gate, status=Verdict.ERROR, metrics=tuple(replace(each, **lacking) for each in gate.metrics))


def test_what_no_value_tells_is_no_pass() -> None:
    """A newest gate without values left a PASS."""
    flat = chain(np.random.default_rng(4), [0.0] * 12)
    assert history_of([*flat[:-1], without_values(flat[-1])]).status is Verdict.INCONCLUSIVE
    assert history_of([*flat[:5], without_values(flat[5]), *flat[6:]]).status is Verdict.PASS


@pytest.mark.parametrize(("step", "verdict"), [(0.0, Verdict.PASS), (0.04, Verdict.INCONCLUSIVE)])
def test_a_short_series_beside_a_long_one(step: float, verdict: Verdict) -> None:
    """Seven gates of +4 % on a second machine were too few to be looked at."""
    flat = chain(np.random.default_rng(4), [0.0] * 12)
    short = [
        replace(gate, fingerprint={"machine_name": "n"})
        for gate in chain(np.random.default_rng(5), [step] * (LEAST - 1))
    ]
    assert history_of(sorted([*flat, *short], key=lambda gate: gate.started)).status is verdict


def test_the_release_to_gate_against_is_named() -> None:
    found = one_series(chain(np.random.default_rng(1), SLOPES["each of 12 releases by 1 %"]))
    assert re.search(r"To be sure, gate 7\.3-k12 against 7\.3-k[0-4]$", found.reason)


def test_what_becomes_better_or_stays_below_the_budget_is_no_creep() -> None:
    for steps in ([-step for step in STEPS], [step / 6 for step in STEPS]):
        assert one_series(chain(np.random.default_rng(2), steps)).status is Verdict.PASS
    for factor, verdict in ((1.01, Verdict.PASS), (0.99, Verdict.FAIL)):
        gates = [past(n, "a", f"k{n}", (10_000.0, 10_000 * factor**n), direction="higher") for n in range(20)]
        assert one_series(gates).status is verdict


def test_a_machine_that_becomes_slower_is_not_called_a_slower_kernel() -> None:
    """In 13 of 100 such histories the gates' own changes added up to a creep by chance, and it was a FAIL."""
    found = [one_series(chain(np.random.default_rng(seed), [0.0] * 20, 0.015, machine=0.01)) for seed in range(40)]
    assert [each.status for each in found].count(Verdict.FAIL) <= 1
    assert "which the machine or noise may do" in found[1].reason
    loose = [past(n, f"b{n}", f"k{n}", (10_000 * 1.01**n, 10_000 * 1.01**n)) for n in range(20)]
    assert "the gates do not follow each other" in one_series(loose).reason


def test_with_one_base_the_changes_count_and_the_machine_does_not() -> None:
    drift = [past(n, "a", f"k{n}", (10_000 * 1.02**n, 10_000 * 1.02**n * (1 + n % 3 / 1000))) for n in range(20)]
    found = one_series(drift)
    assert found.status is Verdict.PASS and found.unit == "% of the base" and found.chained is None


def test_noise_over_one_base_is_no_creep() -> None:
    """Of 100 flat histories of 20 gates with five metrics, two were a FAIL; of 50 gates, eight."""
    lot = np.random.default_rng(12)
    found = []
    for _ in range(150):
        levels = 10_000 * np.exp(0.042 * lot.standard_normal(50))
        found.append(one_series([past(n, "a", f"k{n}", (10_000.0, level)) for n, level in enumerate(levels)]))
    assert not [each for each in found if each.status is Verdict.FAIL]
    assert [each.reason for each in found if "but noise may do that" in each.reason]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("gates", "said"), [(0, None), (1, "1 gates"), (LEAST - 1, "7 gates; creep shows in 8")])
def test_few_gates_decide_nothing(gates: int, said: str | None) -> None:
    """numpy warned below the verdict that a mean was of nothing."""
    found = history_of(chain(np.random.default_rng(1), [math.log(1.05)] * gates))
    assert found.status is Verdict.INCONCLUSIVE
    assert [said in each.reason for each in found.series if said] == [True] * bool(gates)
    assert change_points([5.0] * 50) == []


def test_a_metric_that_is_0_in_the_base_has_a_level() -> None:
    """Its gates were left out, and what crept was not seen."""
    gates = chain(np.random.default_rng(1), STEPS)
    gates = [replace(gate, metrics=tuple(replace(each, base=0.0) for each in gate.metrics)) for gate in gates]
    assert len(one_series(gates).levels) == len(STEPS)


def test_machines_are_apart_and_the_last_gate_of_a_pair_counts() -> None:
    gates = [
        past(0, "a", "b", (100.0, 150.0)),
        past(1, "a", "b", (100.0, 101.0)),
        past(2, "a", "b", (9.0, 9.0), machine="n"),
    ]
    found = history_of(gates).series
    assert [list(each.levels) for each in found] == [pytest.approx([101.0]), pytest.approx([100.0])]


@pytest.mark.parametrize("later", [("c", Verdict.PASS), ("b", Verdict.INCONCLUSIVE), ("b", Verdict.PASS)])
@pytest.mark.parametrize("fails", [1, 6])
def test_a_fail_stays_whatever_comes_later(fails: int, later: tuple[str, Verdict]) -> None:
    """Six FAILs and a PASS of the same kernels were a PASS."""
    gates = chain(np.random.default_rng(4), [0.0] * 12)
    gates += [past(20 + number, "a", "b", (100.0, 150.0), verdict=Verdict.FAIL) for number in range(fails)]
    gates.append(past(30, "a", later[0], (100.0, 100.0), verdict=later[1]))
    assert history_of(gates).status is Verdict.INCONCLUSIVE
    said = " ".join(history_text(history_of(gates), gates).split())
    assert f"{fails} FAIL of 7.3-a -> 7.3-b, the last at 2026-01-0{1 + (19 + fails) // 24} " in said
    assert ("the PASS of 2026-01-02 06:00 does not take that back" in said) == (later == ("b", Verdict.PASS))


def test_the_documents_of_gates_are_read(tmp_path: Path) -> None:
    kept, said = tmp_path / "gates", tmp_path / "said.json"
    campaign = Campaign(tmp_path)
    campaign.boots(noise(1), noise(2))
    for name in "ba":
        campaign.told("--json", str(kept / f"{name}.json"))
    first, second = read_gates(kept)
    assert first.started < second.started and first.metrics == second.metrics
    code, text = told("gate", "history", kept, "--json", said)
    validate(json.loads(said.read_text()), "gate-history-3")
    assert code == 3 and "2 gates: 2 " in text and "7.3.4-candidate" in text and "verdict: INCONCLUSIVE" in text


def test_a_gate_that_did_not_end_is_no_pass(tmp_path: Path) -> None:
    """A FAIL that was judged again was gone when the gate refused the runs, and the history passed."""
    for at, gate in enumerate(chain(np.random.default_rng(4), [0.0] * 12)):
        document.write(tmp_path / f"{at:02}.json", gate)
    assert told("gate", "history", tmp_path)[0] == 0
    code, _ = told("gate", tmp_path, tmp_path, "--json", tmp_path / "05.json")
    assert code is None
    code, text = told("gate", "history", tmp_path)
    assert code == 3 and "no PASS: 05.json is of a gate that did not end" in text


def test_a_fail_that_was_written_over_is_no_pass(tmp_path: Path) -> None:
    """A second gate under the same name replaced it without a word; also with a refused one between them."""
    gates = tmp_path / "gates"
    flat = chain(np.random.default_rng(4), [0.0] * 12)
    for at, gate in enumerate(flat):
        document.write(gates / f"{at:02}.json", gate)
    campaign = Campaign(tmp_path)
    campaign.boots(noise(1), noise(2))
    document.write(gates / "12.json", replace(flat[5], status=Verdict.FAIL))
    for words in (["--incomplete", " "], [], []):
        campaign.told("--json", str(gates / "12.json"), *words)
    assert read_gates(gates)[-1].failed_before is True
    code, text = told("gate", "history", gates)
    assert code == 3 and re.search(r"no PASS: a FAIL stood in the file of 7.3.4-base.* before", text)


def test_what_withdraws_no_fail() -> None:
    """Other rules under the same name, and another kernel whose files do not tell what it is."""
    flat = chain(np.random.default_rng(4), [0.0] * 12)
    (metric,) = flat[5].metrics
    failed = replace(flat[5], status=Verdict.FAIL)
    loose = replace(flat[5], metrics=(replace(metric, budget=20.0),))
    assert history_of([*flat[:5], failed, loose, *flat[6:]]).status is Verdict.INCONCLUSIVE
    unknown = [
        replace(
            gate,
            sides=tuple(
                replace(s, build_id="not recorded", kernel="not recorded", directory=f"{s.name}{n}") for s in gate.sides
            ),
        )
        for n, gate in enumerate(flat)
    ]
    unknown[5] = replace(unknown[5], status=Verdict.FAIL)
    assert history_of(unknown).status is Verdict.INCONCLUSIVE and history_of(unknown).gates == 12


def test_the_order_is_that_of_the_boots(tmp_path: Path) -> None:
    """Gates that were judged in another order, such as old runs again, hid a creep or made one."""
    gates = chain(np.random.default_rng(1), STEPS)
    for number, gate in enumerate(gates):
        (metric,) = gate.metrics
        booted = BootValue("candidate", f"b{number}", gate.started.timestamp(), metric.candidate or 0.0)
        judged = START + timedelta(days=100 - number)
        gates[number] = replace(gate, started=judged, metrics=(replace(metric, values=(booted,)),))
        document.write(tmp_path / f"{number}.json", gates[number])
    assert read_gates(tmp_path) == gates


def test_an_error_that_was_judged_again() -> None:
    """It told no boots, so it counted as the newest gate for ever."""
    flat = chain(np.random.default_rng(4), [0.0] * 12)
    error = replace(without_values(flat[-1]), started=START + timedelta(days=9))
    (metric,) = flat[-1].metrics
    booted = BootValue("candidate", "b", flat[-1].started.timestamp(), 1.0)
    again = replace(flat[-1], started=START + timedelta(days=10), metrics=(replace(metric, values=(booted,)),))
    for gates, verdict in (([*flat[:-1], again, error], Verdict.PASS), ([*flat, error], Verdict.INCONCLUSIVE)):
        assert history_of(gates).status is verdict


@pytest.mark.parametrize("content", [None, '{"schema": "run-1"}', "[]", '{"schema": "gate-4", "status": "PA'])
def test_what_is_no_gate_is_refused(content: str | None, tmp_path: Path) -> None:
    """A gate that is left out could be the one that failed."""
    if content is not None:
        (tmp_path / "one.json").write_text(content)
    with pytest.raises(SchedlineError, match="is no gate-4" if content else "holds no document of a gate"):
        read_gates(tmp_path)


@pytest.mark.parametrize("undecided", [20, 13, 12, 1])
def test_gates_that_decided_nothing_are_no_history(undecided: int) -> None:
    """Twenty INCONCLUSIVE gates were a PASS, and so was a history whose newest gate is one."""
    lot, gates = np.random.default_rng(3), []
    for number in range(20):
        values = tuple(10_000 * math.exp(0.01 * each) for each in lot.standard_normal(2))
        verdict = Verdict.PASS if 0 < number < 20 - undecided else Verdict.INCONCLUSIVE
        if undecided == 12:
            verdict = Verdict.PASS if number >= undecided else Verdict.INCONCLUSIVE
        gates.append(past(number, f"k{number}", f"k{number + 1}", (values[0], values[1]), verdict=verdict))
    found, text = history_of(gates), history_text(history_of(gates), gates)
    assert found.status is (Verdict.PASS if undecided == 12 else Verdict.INCONCLUSIVE)
    assert ("of 20 gates decided; 8 or more have to" in text) is (undecided > 12)
    assert ("no PASS: the newest gate is INCONCLUSIVE, of 7.3-k19 -> 7.3-k20" in text) is (undecided != 12)


def test_a_gate_that_is_not_there_is_told() -> None:
    """Whoever removed the one that failed had a PASS without a word of it."""
    gates = chain(np.random.default_rng(4), [0.0] * 12)
    assert "no gate here" not in history_text(history_of(gates), gates)
    text = history_text(history_of(gates[:5] + gates[6:]), gates[:5] + gates[6:])
    assert text.count("no gate here compares 7.3-k6 with 7.3-k5, or with what was before") == 1
