# SPDX-License-Identifier: GPL-2.0
"""`gate --fleet`: many machines, which of them regress, and which are left out."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import GATES, main
from fleets import names, write_fleet, write_machine

from by_schema import validate
from schedlib.errors import SchedlineError
from schedlib.gate import fleet_machines, fleet_statistics
from schedlib.gate.fleet_statistics import (
    between_machines,
    effect_at_most,
    machines_needed,
    middle_effect,
    pairs_above,
    signed_rank_p,
    within_machines_p,
)
from schedlib.gate.statistics import blocks_tail


def gate(place: Path, *more: str, gates: str = GATES) -> tuple[int, dict[str, Any]]:
    """The exit code and the document."""
    (place.parent / "gates.toml").write_text(gates.replace("looks = [10, 20]", "looks = [10]"))
    out = place.parent / "fleet.json"
    words = ["gate", "--fleet", str(place), "--gates", str(place.parent / "gates.toml"), "--json", str(out), *more]
    code = main(words)
    found = json.loads(out.read_text())
    validate(found, "fleet-gate-1")
    return code, found


# The statistics.


def test_signed_ranks_are_those_of_all_signs() -> None:
    effects = np.array([0.3, -0.1, 0.7, 0.2, -0.4, 0.9])
    seen = pairs_above(effects, 0.0)
    assert seen == sum(
        effects[one] + effects[two] > 0 for one, two in itertools.combinations_with_replacement(range(6), 2)
    )
    signs = itertools.product((-1, 1), repeat=6)
    wanted = np.mean([pairs_above(np.abs(effects) * sign, 0.0) >= seen for sign in signs])
    assert signed_rank_p(effects) == pytest.approx(wanted)
    assert signed_rank_p(np.zeros(6)) == 1.0


def test_many_signed_ranks_are_nearly_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    effects = np.random.default_rng(1).standard_normal(60) + 0.3
    exact = signed_rank_p(effects), effect_at_most(effects, 0.001)
    monkeypatch.setattr(fleet_statistics, "_EXACT_MACHINES", 10)
    assert signed_rank_p(effects) == pytest.approx(exact[0], rel=0.06)
    assert effect_at_most(effects, 0.001) == pytest.approx(exact[1], abs=0.02)


def test_the_bound_and_the_test_agree() -> None:
    effects = np.random.default_rng(2).standard_normal(15)
    bound = effect_at_most(effects, 0.01)
    assert signed_rank_p(-effects, -(bound + 1e-9)) <= 0.01 < signed_rank_p(-effects, -(bound - 1e-9))
    assert effect_at_most(effects[: machines_needed(0.01) - 1], 0.01) == float("inf")
    assert np.isfinite(effect_at_most(effects[: machines_needed(0.01)], 0.01))


def test_a_worse_effect_never_gives_a_smaller_bound() -> None:
    lot = np.random.default_rng(3)
    for _ in range(50):
        effects = lot.standard_normal(12)
        worse = effects.copy()
        worse[lot.integers(12)] += lot.exponential()
        assert effect_at_most(worse, 0.01) >= effect_at_most(effects, 0.01) - 1e-9
        assert signed_rank_p(worse) <= signed_rank_p(effects)
        assert middle_effect(worse) >= middle_effect(effects) - 1e-9


def test_one_machine_is_judged_by_the_gates_own_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for total in (18, 28, 36):
        assert within_machines_p(total, {10: 1}) == pytest.approx(blocks_tail(((4, 2), (2, 1)))[total])
    exact = within_machines_p(770, {10: 30, 8: 10})
    monkeypatch.setattr(fleet_statistics, "_EXACT_STATES", 0)
    assert within_machines_p(770, {10: 30, 8: 10}) == pytest.approx(exact, rel=0.02)


def test_equal_machines_have_no_spread() -> None:
    lot = np.random.default_rng(4)
    variances = np.full(200, 0.01)
    alike, apart = 0.1 * lot.standard_normal(200), 0.2 * lot.standard_normal(200)
    assert between_machines(alike, variances)[0] < 0.06
    assert between_machines(alike + apart, variances)[0] == pytest.approx(0.2, abs=0.04)
    assert between_machines(alike[:1], variances[:1]) == (0.0, 0.0)


# The verdict.


def test_a_model_that_regresses_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = gate(write_fleet(tmp_path / "fleet", {"Alpha": (12, 0.0), "Beta": (12, 0.0), "Gamma": (12, 0.12)}))
    (row,) = found["metrics"]
    assert (code, row["verdict"]) == (1, "FAIL")
    assert names([each for each in row["groups"] if each["verdict"] == "FAIL" and each["kind"] == "model"]) == ["Gamma"]
    said = capsys.readouterr().out
    assert "FAIL over the budget: x86_64 Gamma (12 of its 12 machines)" in " ".join(said.split())
    assert all(len(line) <= 72 for line in said.splitlines())


def test_a_model_that_regresses_on_some_machines_is_not_all_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It read "29 of 42 machines regress: all of Alpha (10 of its 14)", also if other models' machines did, too."""
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.05), "Beta": (12, 0.0)})
    _, found = gate(fleet)
    alpha = next(each for each in found["metrics"][0]["groups"] if "Alpha" in each["name"])
    said = " ".join(capsys.readouterr().out.split())
    assert alpha["verdict"] == "FAIL" and alpha["over_budget"] < 14 and "all of" not in said
    assert f"over the budget: x86_64 Alpha ({alpha['over_budget']} of its 14 machines)" in said


def test_three_machines_of_a_model_are_enough_to_fail(tmp_path: Path) -> None:
    code, found = gate(write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.0), "Few": (3, 0.15)}))
    (failed,) = [each for each in found["metrics"][0]["groups"] if each["verdict"] == "FAIL"]
    assert (code, names([failed])) == (1, ["Few"])


def test_no_change_passes_and_says_what_it_does_not_cover(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = gate(write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.0), "Few": (3, 0.0)}))
    assert (code, found["status"]) == (0, "PASS")
    few = next(each for each in found["metrics"][0]["groups"] if each["machines"] == 3)
    assert not few["counts"] and few["at_most"] is None
    assert "a PASS says nothing of x86_64 Few" in " ".join(capsys.readouterr().out.split())


def test_too_few_machines_are_inconclusive(tmp_path: Path) -> None:
    code, found = gate(write_fleet(tmp_path / "fleet", {"Alpha": (4, 0.0)}))
    assert (code, found["metrics"][0]["groups"][0]["reason"]) == (3, "4 machines are judged, and a PASS needs 6")


def test_a_bad_machine_is_no_pass(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.0)})
    write_machine(fleet / "slow", "Alpha", 0.6, 99)
    code, found = gate(fleet)
    assert (code, found["metrics"][0]["groups"][0]["bad"]) == (3, ["slow"])


def test_better_is_no_regression(tmp_path: Path) -> None:
    assert gate(write_fleet(tmp_path / "fleet", {"Alpha": (12, -0.2)}))[0] == 0


def test_an_effect_in_the_unit_of_the_metric_is_told(tmp_path: Path) -> None:
    """What was above 600 units had no estimate and no bound, so a regression of 1000 ns was not seen in the table."""
    absolute = GATES.replace("budget = 3\ndetect = 25", "absolute = true\nbudget = 300\ndetect = 2500")
    code, found = gate(write_fleet(tmp_path / "fleet", {"Alpha": (12, 0.12)}), gates=absolute)
    (group,) = found["metrics"][0]["groups"]
    assert (code, len(found["metrics"][0]["machines"])) == (1, 12)
    assert group["worse_by"] == pytest.approx(1200, abs=200) and group["at_most"] > group["worse_by"]


EXACT = """
[[metric]]
tool = "rt_wakeup"
name = "lines"
direction = "lower"
method = "equal"
"""


@pytest.mark.parametrize(("value", "code"), [(3, 0), (4, 1)])
def test_an_exact_metric_of_one_machine_is_enough(value: float, code: int, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    for number in range(3):
        write_machine(fleet / f"m{number}", "Alpha", 0.0, number, boots=1)
        for path in fleet.glob(f"m{number}/*/*.json"):
            found = json.loads(path.read_text())
            worse = number == 1 and path.parent.name == "candidate"
            exact = {"name": "lines", "unit": "lines", "direction": "lower", "kind": "exact", "n": 1}
            found["metrics"] = [exact | {"value": value if worse else 3}]
            path.write_text(json.dumps(found))
    head, _, _ = GATES.partition("[[metric]]")
    found_code, found = gate(fleet, gates=head + EXACT)
    assert found_code == code
    assert found["metrics"][0]["groups"][0]["bad"] == (["m1"] if code else [])


# Machines that are left out.


def spoil(path: Path, how: str) -> None:
    first = sorted((path / "candidate").iterdir())[0]
    found = json.loads(first.read_text())
    if how == "cut":
        first.write_text(first.read_text()[:200])
    elif how == "missing":
        shutil.rmtree(path / "candidate")
    elif how == "few":
        for each in sorted((path / "candidate").iterdir())[4:]:
            each.unlink()
    elif how == "copy":
        shutil.copyfile(first, first.with_name("copy.json"))
    elif how == "machine":
        found["fingerprint"]["machine"] = "x86_64 Other, CPUs 0-7, 1 LLCs"
        first.write_text(json.dumps(found))
    elif how == "governor":
        found["fingerprint"]["governor"] = "powersave"
        first.write_text(json.dumps(found))
    elif how == "failed":
        first.write_text(json.dumps(found | {"status": "ERROR", "reason": "killed", "metrics": []}))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("cut", "it is no whole JSON document"),
        ("missing", "it has no runs of candidate"),
        ("few", "10 + 4 boots"),
        ("copy", "it is a copy"),
        ("machine", "mixes runs whose machine differs"),
        ("governor", "mixes runs whose governor differs"),
        ("failed", "1 runs of candidate gave no result"),
    ],
)
def test_a_machine_is_left_out_by_name(how: str, said: str, tmp_path: Path) -> None:
    """Lost, cut and copied results cost runs, never the verdict."""
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.0)})
    spoil(fleet / "alpha03", how)
    code, found = gate(fleet)
    (out,) = found["left_out"]
    assert (code, out["machine"]) == (0, "alpha03")
    assert said in out["reason"]
    assert len(found["metrics"][0]["machines"]) == 13


def test_a_noisy_machine_is_left_out(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.0)})
    write_machine(fleet / "noisy", "Alpha", 0.0, 5, noise=1.0)
    code, found = gate(fleet)
    assert (code, [out["machine"] for out in found["left_out"]]) == (0, ["noisy"])
    assert "too noisy" in found["left_out"][0]["reason"]


def test_a_machine_under_two_names_counts_once(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.0)})
    shutil.copytree(fleet / "alpha03", fleet / "zeta")
    _, found = gate(fleet)
    assert [(out["machine"], "of alpha03" in out["reason"]) for out in found["left_out"]] == [("zeta", True)]


def test_a_candidate_that_does_not_come_up_is_no_pass(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (30, 0.0)})
    for number in range(6):
        spoil(fleet / f"alpha{number:02}", "missing")
    code, found = gate(fleet)
    assert code == 3
    assert "does it come up there?" in found["metrics"][0]["groups"][0]["reason"]


def test_too_many_left_out_are_no_pass(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (20, 0.0)})
    for number in range(6):
        spoil(fleet / f"alpha{number:02}", "governor")
    code, found = gate(fleet)
    assert (code, "6 of 20 machines are left out" in found["metrics"][0]["groups"][0]["reason"]) == (3, True)


def test_children_read_what_one_process_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (12, 0.0), "Beta": (12, 0.1)})
    shutil.copytree(fleet / "alpha03", fleet / "zeta")
    alone = gate(fleet)[1]
    monkeypatch.setattr(fleet_machines, "_FEW", 2)
    assert {**gate(fleet)[1], "started": ""} == {**alone, "started": ""}


# Bad input.


@pytest.mark.parametrize(
    ("more", "message"),
    [(["--placebo", "."], "it has no --placebo"), (["--unit", "run"], "it has no --unit"), (["."], "it has no BASE")],
)
def test_a_fleet_has_no_other_options(more: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(SchedlineError, match=message):
        main(["gate", "--fleet", str(tmp_path), *more])


def test_what_is_no_fleet_is_told(tmp_path: Path) -> None:
    with pytest.raises(SchedlineError, match="holds no machine"):
        main(["gate", "--fleet", str(tmp_path)])
    write_machine(tmp_path / "one", "Alpha", 0.0, 1)
    with pytest.raises(SchedlineError, match="the runs of one machine, not of many"):
        main(["gate", "--fleet", str(tmp_path / "one")])
    (tmp_path / "other").mkdir()
    shutil.rmtree(tmp_path / "one/base")
    with pytest.raises(SchedlineError, match="none of 2 machines can be judged"):
        main(["gate", "--fleet", str(tmp_path)])
