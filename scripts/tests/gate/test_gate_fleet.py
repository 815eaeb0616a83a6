# SPDX-License-Identifier: GPL-2.0
"""`gate --fleet`: many machines, which of them regress, and which are left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from campaigns import GATES, RUN_PLAN, TO_20, metric, names, rewrite, told, write_fleet, write_machine

from by_schema import validate
from schedlib.formats import document
from schedlib.gate import fleet_gate, fleet_machines
from schedlib.gate.fleet_gate import within_machines_p
from schedlib.gate.statistics import blocks_tail
from schedlib.paths import PLAN

pytestmark = pytest.mark.slow


def gate(place: Path, gates: str = GATES, *more: str) -> tuple[int | None, dict[str, Any], str]:
    """The exit code, the document and the text."""
    (place.parent / "gates.toml").write_text(gates)
    out = place.parent / "fleet.json"
    code, said = told("gate", "--fleet", place, "--gates", place.parent / "gates.toml", "--json", out, *more)
    found = json.loads(out.read_text())
    validate(found, "fleet-gate-2")
    return code, found, said


ABSOLUTE = GATES.replace("budget = 3\ndetect = 25", "absolute = true\nbudget = 300\ndetect = 2500")

# The statistics.


def test_one_machine_is_judged_by_the_gates_own_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for total in (18, 28, 36):
        assert within_machines_p(total, {10: 1}) == pytest.approx(blocks_tail(((4, 2), (2, 1)))[total])
    exact = within_machines_p(770, {10: 30, 8: 10})
    monkeypatch.setattr(fleet_gate, "_EXACT_STATES", 0)
    assert within_machines_p(770, {10: 30, 8: 10}) == pytest.approx(exact, rel=0.02)


# The verdict.


@pytest.mark.parametrize(
    ("models", "code", "said"),
    [
        (
            {"Alpha": (12, 0.0), "Beta": (12, 0.0), "Gamma": (12, 0.12)},
            1,
            "FAIL over the budget: x86_64 Gamma (12 of its 12 machines) ",
        ),
        # It read "29 of 42 machines regress: all of Alpha (10 of its 14)", also if other models' machines did, too.
        ({"Alpha": (14, 0.05), "Beta": (12, 0.0)}, 1, "FAIL over the budget: x86_64 Alpha (10 of its 14 machines) "),
        ({"Alpha": (14, 0.0), "Few": (3, 0.15)}, 1, "FAIL over the budget: x86_64 Few (3 of its 3 machines) "),
        (
            {"Alpha": (14, 0.0), "Few": (3, 0.0)},
            0,
            "PASS: on every model timer.p99 is not 25 % worse 17 of 17 machines",
        ),
        ({"Alpha": (12, -0.2)}, 0, "worse 12 of 12 machines judged, 1 model, looked at 10 boots"),
    ],
)
def test_models_that_regress_are_named(
    models: dict[str, tuple[int, float]], code: int, said: str, tmp_path: Path
) -> None:
    found_code, found, text = gate(write_fleet(tmp_path / "fleet", models))
    (row,) = found["metrics"]
    assert (found_code, row["verdict"], said in text) == (code, "FAIL" if code else "PASS", True)
    failed = names([each for each in row["groups"] if each["verdict"] == "FAIL" and each["kind"] == "model"])
    assert failed == [name for name, (_, change) in models.items() if change > 0]
    assert text.startswith("FAIL: timer.p99 is worse on ") == (code == 1)


@pytest.mark.parametrize("exact", [False, True])
def test_a_model_without_a_judged_machine_is_no_pass(exact: bool, tmp_path: Path) -> None:
    """Of a metric that has to be equal, too: the model was not named there, and it was a PASS."""
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.0), "Few": (1, 0.0)})
    for side in fleet.glob("*/*") if exact else ():
        rewrite(side, lambda run: run.update(metrics=[LINES]))
    spoil(fleet / "few00", "governor")
    code, found, _ = gate(fleet, EXACT if exact else GATES)
    few = found["metrics"][0]["groups"][-1]
    assert (code, few["machines"], few["verdict"]) == (3, 0, "INCONCLUSIVE")


def test_a_bad_machine_is_no_pass(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.0)})
    write_machine(fleet / "slow", "Alpha", 0.6, 99)
    code, found, _ = gate(fleet)
    assert (code, found["metrics"][0]["groups"][0]["bad"]) == (3, ["slow"])


def test_few_boots_of_few_machines_are_no_pass(tmp_path: Path) -> None:
    """One machine with 8 boots passed: of those with 20 % of bad boots 17 % would have."""
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (1, 0.0)})
    code, _, text = gate(fleet, TO_20)
    # The first line said that one machine was judged, and not why it is no PASS.
    assert text.startswith("INCONCLUSIVE: timer.p99 on all machines: 10 boots of the candidate, and a PASS takes 20: ")
    assert code == 3
    write_machine(fleet / "second", "Alpha", 0.0, 9)
    assert gate(fleet, TO_20)[0] == 0


@pytest.mark.parametrize("slow", [False, True])
def test_a_pass_does_not_hide_later_boots(slow: bool, tmp_path: Path) -> None:
    """The last four of 14 were half slower on each machine."""
    for number in range(6):
        place = tmp_path / f"fleet/alpha{number:02}"
        write_machine(place, "Alpha", 0.0, number, boots=14)
        for at in range(10, 14) if slow else ():
            path = place / f"candidate/{at}.json"
            found = json.loads(path.read_text())
            found["metrics"][0]["value"] *= 1.5
            path.write_text(json.dumps(found))
    code, _, text = gate(tmp_path / "fleet", GATES.replace("[10]", "[10, 14]"))
    assert code == (3 if slow else 0)
    assert ("the first 10 boots of each kernel pass, and all do not: " in text) == slow


@pytest.mark.parametrize(("base", "candidate", "code"), [(0, 0, 0), (4, 4, 0), (0, 5, 3), (0, 20, 1), (9, 0, 0)])
def test_boots_that_left_a_plan_and_no_run(base: int, candidate: int, code: int, tmp_path: Path) -> None:
    """A candidate that crashed in a third of its boots passed, if each machine was booted until it had enough."""
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.0)})
    for name, lost in (("base", base), ("candidate", candidate)):
        for number in range(lost):
            document.write(fleet / f"alpha{number % 14:02}" / name / f"lost{number}" / PLAN, RUN_PLAN)
    found, _, text = gate(fleet)
    said = f"base lost {base} of {140 + base} attempts; candidate lost {candidate} of {140 + candidate} attempts"
    assert (found, said in text) == (code, True)


def test_fewer_boots_of_the_candidate_on_each_machine_are_no_pass(tmp_path: Path) -> None:
    """They were left out of account, and nobody said so."""
    fleet = tmp_path / "fleet"
    for number in range(14):
        write_machine(fleet / f"alpha{number:02}", "Alpha", 0.0, number, boots=12)
        for lost in (10, 11):
            (fleet / f"alpha{number:02}/candidate/{lost}.json").unlink()
    code, _, text = gate(fleet)
    assert code == 1 and "candidate lost 28 of 168 attempts" in text


def test_machines_that_do_not_tell_their_model_are_left_out_of_all(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (5, 0.0), "Beta": (6, 0.0)})
    for path in fleet.glob("beta*/*"):
        for run in path.glob("*"):
            run.unlink()
    assert gate(fleet)[0] == 3


def test_an_effect_in_the_unit_of_the_metric_is_told(tmp_path: Path) -> None:
    """What was above 600 units had no estimate and no bound, so a regression of 1000 ns was not seen in the table."""
    code, found, _ = gate(write_fleet(tmp_path / "fleet", {"Alpha": (12, 0.12)}), ABSOLUTE)
    (group,) = found["metrics"][0]["groups"]
    assert (code, group["machines"]) == (1, 12)
    assert group["worse_by"] == pytest.approx(1200, abs=200)


def test_the_unit_of_a_rate_is_told_once(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (4, 0.0)})
    for side in fleet.glob("*/*"):
        rewrite(side, lambda run: run["metrics"][0].update(kind="exceedance", value=1, n=100_000))
    said = gate(fleet, GATES.replace("rank", "rate"))[2]
    assert "detect 25 in a million; worse by in a million" in said


LINES = metric(3, name="lines", unit="lines", kind="exact")
EXACT = GATES.replace("timer.p99", "lines").replace("rank", "equal")


@pytest.mark.parametrize(("value", "code"), [(3, 0), (4, 1)])
def test_an_exact_metric_of_one_machine_is_enough(value: float, code: int, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    for number in range(3):
        write_machine(fleet / f"m{number}", "Alpha", 0.0, number, boots=1)
        for side in (fleet / f"m{number}").iterdir():
            rewrite(side, lambda run: run.update(metrics=[LINES]))
    rewrite(fleet / "m1/candidate", lambda run: run["metrics"][0].update(value=value))
    found_code, found, _ = gate(fleet, EXACT)
    assert (found_code, found["metrics"][0]["groups"][0]["bad"]) == (code, ["m1"] if code else [])


# Machines that are left out.


def spoil(path: Path, how: str, side: str = "candidate") -> None:
    first, *others = sorted((path / side).iterdir())
    found = json.loads(first.read_text())
    if how == "cut":
        first.write_text(first.read_text()[:200])
    elif how == "missing":
        shutil.rmtree(path / side)
    elif how == "tool":
        first.write_text(json.dumps(found | {"tool": "other", "metrics": [metric(1.0, name="other")]}))
    elif how.startswith("metric"):
        for each in (first, *others) if how == "metric of all" else [first]:
            there = json.loads(each.read_text())
            lacking = {"metrics": [metric(1.0, name="other")], "absent": [{"name": "timer", "reason": "not counted"}]}
            each.write_text(json.dumps(there | lacking))
    elif how == "zero":
        first.write_text(json.dumps(found | {"metrics": [metric(0)]}))
    elif how == "few":
        for each in others[3:]:
            each.unlink()
    elif how == "copy":
        shutil.copyfile(first, first.with_name("copy.json"))
    elif how == "failed":
        first.write_text(json.dumps(found | {"status": "ERROR", "reason": "killed", "metrics": []}))
    else:
        found["fingerprint"][how] = "x86_64 Other, CPUs 0-7, 1 LLCs"
        first.write_text(json.dumps(found))


LEFT_OUT = {
    "cut": "it is no whole JSON document",
    "missing": "it has no runs of candidate",
    "few": "boots of base and candidate; the first look is at 10",
    "tool": "candidate: no run of rt_wakeup in 1 of 10 boots",
    "metric": "candidate: runs of rt_wakeup in 1 of 10 boots lack it",
    "metric of all": "candidate lacks it (not counted), and the other side has it",
    "zero": "candidate: rt_wakeup timer.p99 is 0 ns",
    "copy": "it is a copy",
    "machine": "machine",
    "governor": "mixes runs whose governor differs",
    "failed": "1 run of candidate gave no result",
}


@pytest.mark.parametrize("side", ["base", "candidate"])
@pytest.mark.parametrize("how", LEFT_OUT)
def test_a_machine_is_left_out_by_name(how: str, side: str, tmp_path: Path) -> None:
    """What the candidate alone lacks on a machine is no PASS: one of five machines without it left no trace."""
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (6, 0.0)})
    spoil(fleet / "alpha03", how, side)
    code, found, text = gate(fleet)
    (out,) = found["left_out"]
    said = LEFT_OUT[how] if how == "few" else LEFT_OUT[how].replace("candidate", side)
    assert (out["machine"], said in out["reason"]) == ("alpha03", True)
    lost = side == "candidate" and how not in ("machine", "governor")
    # It was no part of the verdict.
    beside = "1 of 6 machines not judged, or not in all metrics"
    assert text.startswith(f"PASS: on every model timer.p99 is not 25 % worse {beside}") is not lost
    assert text.endswith(f"verdict: PASS, {beside}") is not lost
    assert (code, found["metrics"][0]["groups"][0]["machines"]) == (3 if lost else 0, 5)
    first = "INCONCLUSIVE: 1 of 6 machines have results of the base, and lack those of the candidate: alpha03."
    assert text.startswith(first) == lost
    if lost:
        code, _, text = gate(fleet, GATES, "--incomplete", "the disk was full")
        assert code == 0 and "incomplete, as you say: the disk was full" in text


def test_one_kernel_after_the_other_is_no_order(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (2, 0.0)})
    for place in fleet.iterdir():
        rewrite(place / "candidate", lambda run: run.update(started=run["started"].replace("2026-11-01", "2026-11-11")))
    (tmp_path / "gates.toml").write_text(GATES)
    assert (
        "one kernel was booted 10 times more" in told("gate", "--fleet", fleet, "--gates", tmp_path / "gates.toml")[1]
    )


def test_a_noisy_machine_hides_nothing_of_the_others(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.15)})
    write_machine(fleet / "noisy", "Alpha", 0.0, 5, noise=1.0)
    assert gate(fleet)[0] == 1


def test_a_machine_under_two_names_counts_once(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.0)})
    shutil.copytree(fleet / "alpha03", fleet / "zeta")
    found = gate(fleet)[1]
    assert [(out["machine"], "of alpha03" in out["reason"]) for out in found["left_out"]] == [("zeta", True)]


def test_a_machine_whose_runs_name_it_counts_once(tmp_path: Path) -> None:
    """Three directories with boots of one machine were three machines."""
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.0)})
    for number, name in enumerate(("alpha03", "alpha07", "alpha09", "alpha10")):
        for side in (fleet / name).iterdir():
            rewrite(side, lambda run, at=number: run["fingerprint"].update(machine_id="one" if at < 3 else "other"))  # type: ignore[misc]
    code, found, _ = gate(fleet)
    out = [(each["machine"], "the machine-id of alpha03" in each["reason"]) for each in found["left_out"]]
    assert (code, out) == (0, [("alpha07", True), ("alpha09", True)])


def test_a_machine_of_another_unit_is_left_out(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.0)})
    for side in (fleet / "alpha03").iterdir():
        rewrite(side, lambda run: run["metrics"][0].update(unit="us"))
    code, found, _ = gate(fleet)
    (out,) = found["left_out"]
    assert (code, out["machine"]) == (0, "alpha03")
    assert out["reason"] == "its unit of timer.p99 is us, and that of most machines is ns"


@pytest.mark.parametrize(("factor", "code"), [(1000, 3), (0.001, 3), (2, 0)])
def test_a_machine_whose_unit_has_another_name(factor: float, code: int, tmp_path: Path) -> None:
    """Of a machine in us that says ns, 1000 times the budget was no change."""
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (6, 0.0)})
    for side in (fleet / "alpha03").iterdir():
        rewrite(side, lambda run: run["metrics"][0].update(value=run["metrics"][0]["value"] * factor))
    found, document, _ = gate(fleet, ABSOLUTE.replace("2500", "9000"))
    reason = document["metrics"][0]["groups"][0]["reason"]
    assert (found, "the base of alpha03 is" in reason) == (code, bool(code))
    # In percent it has no effect.
    assert gate(fleet)[0] == 0


@pytest.mark.parametrize(("n", "code"), [(20, 3), (100_000, 0)])
def test_few_samples_of_a_rate_are_no_pass(n: int, code: int, tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.0)})
    for side in fleet.glob("*/*"):
        rewrite(side, lambda run: run["metrics"][0].update(kind="exceedance", value=0, n=n))
    assert gate(fleet, GATES.replace("rank", "rate"))[0] == code


def test_a_candidate_that_came_up_nowhere_fails(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (4, 0.0)})
    for place in fleet.iterdir():
        shutil.rmtree(place / "candidate")
        for number in range(3):
            document.write(place / "candidate" / f"lost{number}" / PLAN, RUN_PLAN)
    code, _, text = gate(fleet)
    assert code == 1 and "candidate lost 12 of 12 attempts" in text


def test_too_many_left_out_are_no_pass(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (20, 0.0)})
    for number in range(6):
        spoil(fleet / f"alpha{number:02}", "governor")
    code, found, _ = gate(fleet)
    said = "6 of 20 machines are left out" in found["metrics"][0]["groups"][0]["reason"]
    assert (code, said) == (3, True)


def test_children_read_what_one_process_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (12, 0.0), "Beta": (12, 0.1)})
    shutil.copytree(fleet / "alpha03", fleet / "zeta")
    alone = gate(fleet)[1]
    monkeypatch.setattr(fleet_machines, "_FEW", 2)
    assert {**gate(fleet)[1], "started": ""} == {**alone, "started": ""}


def test_a_machine_without_a_run_is_counted(tmp_path: Path) -> None:
    """Of five machines five were judged, beside the empty directory of a sixth."""
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (5, 0.0)})
    (fleet / "empty").mkdir()
    code, _, text = gate(fleet)
    assert code == 0 and "1 of 6 machines not judged" in text and "5 of 6 machines judged" in text


def test_a_model_whose_kernels_are_swapped(tmp_path: Path) -> None:
    """Its candidate is 30 % slower, and was the base: a PASS, and "better"."""
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (8, 0.0), "Few": (2, 0.3)})
    for place in fleet.glob("few*"):
        for old, new in (("base", "x"), ("candidate", "base"), ("x", "candidate")):
            (place / old).rename(place / new)
    code, found, _ = gate(fleet)
    reason = "its side of 7.3.4-candidate #1 SMP is base, and that of most machines is candidate"
    assert code == 3 and [out["reason"] for out in found["left_out"]] == [reason] * 2


def test_lost_boots_of_a_model(tmp_path: Path) -> None:
    """A quarter of its candidate's boots crashed: a PASS, as the base lost as many on another model."""
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (14, 0.0), "Few": (3, 0.0)})
    for number in range(12):
        document.write(fleet / f"alpha{number:02}" / "base/lost" / PLAN, RUN_PLAN)
    for number in range(10):
        document.write(fleet / f"few{number % 3:02}" / f"candidate/lost{number}" / PLAN, RUN_PLAN)
    code, _, text = gate(fleet)
    assert code == 1
    assert text.startswith("FAIL: x86_64 Few: base lost 0 of 30 attempts; candidate lost 10 of 40 attempts. Equal")


@pytest.mark.parametrize(("machines", "code"), [(1, 3), (5, 0)])
def test_two_lost_boots_of_ten(machines: int, code: int, tmp_path: Path) -> None:
    """A fleet of one machine passed, and the gate did not; with few boots equality is not shown, it is unknown."""
    fleet = write_fleet(tmp_path / "fleet", {"Alpha": (machines, 0.0)})
    for number in (8, 9):
        (fleet / f"alpha00/candidate/{number}.json").unlink()
    found, _, text = gate(fleet, GATES.replace("[10]", "[8]"))
    told = f"base lost 0 of {10 * machines} attempts; candidate lost 2 of {10 * machines} attempts"
    assert found == code and told in text and "crashed before their first run are not seen" in text


# Bad input.


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--placebo", "."], "it has no --placebo"),
        (["--unit", "run"], "it has no --unit"),
        (["."], "it has no BASE"),
        ([], "holds no machine"),
    ],
)
def test_a_fleet_has_no_other_options(more: list[str], message: str, tmp_path: Path) -> None:
    code, said = told("gate", "--fleet", tmp_path, *more)
    assert code is None and message in said


def test_what_is_no_fleet_is_told(tmp_path: Path) -> None:
    write_machine(tmp_path / "one", "Alpha", 0.0, 1)
    observed, _, to_do = told("gate", "--fleet", tmp_path / "one")[1].partition("\n  next: ")
    assert "the runs of one machine, not of many" in observed
    assert f"schedline gate {tmp_path}/one/base {tmp_path}/one/candidate" in to_do
    (tmp_path / "other").mkdir()
    shutil.rmtree(tmp_path / "one/base")
    assert "none of 2 machines can be judged" in told("gate", "--fleet", tmp_path)[1]
