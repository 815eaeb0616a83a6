# SPDX-License-Identifier: GPL-2.0
"""Boots that gave no values are no accident of the files: a candidate that loses more of them does not pass."""

from __future__ import annotations

import json
import re
import shutil
from math import comb
from pathlib import Path

import pytest
from campaigns import GATES, RUN_PLAN, Campaign, minute_of, noise, rewrite, told
from msgspec.structs import replace

from schedlib.formats import document
from schedlib.formats.gate_document import GateDocument
from schedlib.formats.run_file import Run
from schedlib.gate.boot_plan import BootAttempt, BootedKernel, GatePlan, GateProgress
from schedlib.gate.comparable import more_by_chance
from schedlib.gate.gate_options import PLAN_FILE, PROGRESS_FILE, UNFINISHED
from schedlib.paths import PLAN

BOTH = GATES + GATES[GATES.index("\n[[metric]]") :].replace("rt_wakeup", "sleep_storm")


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """Ten good boots of each kernel."""
    found = Campaign(tmp_path / "campaign/runs")
    found.boots(noise(1), noise(2))
    return found


def write_plan(campaign: Campaign, base_lost: int, candidate_lost: int, *, pairs: bool = False, none: str = "") -> None:
    """A plan whose attempts are ten done ones of each kernel, but of `none`, and some that were lost."""
    kernels = tuple(BootedKernel(label, f"7.3.4-{label}", "true") for label in ("base", "candidate"))
    place, ends = campaign.place.parent, {"base": base_lost, "candidate": candidate_lost}
    boots = sorted(((label, n) for label in ends for n in range(10)), key=lambda each: minute_of(*each))
    order = tuple(label for label, _ in boots)
    blocks = tuple(zip(order[::2], order[1::2], strict=True)) if pairs else (order,)
    plan = GatePlan(
        schema="gate-plan-1", kernels=kernels, blocks=blocks, looks=(10,), seed=1, suite="quick", only=(), runs=1,
        gates="default", losses=5,
    )  # fmt: skip
    document.write(place / PLAN_FILE, plan)
    attempts = [
        BootAttempt(at, label, "done", "0", f"{label}-0-{n}", "")
        for at, (label, n) in enumerate(boots)
        if label != none
    ]
    attempts += [
        BootAttempt(order.index(label), label, "cut", "0", "1", "it was reset")
        for label, number in ends.items()
        for _ in range(number)
    ]
    progress = GateProgress(schema="gate-progress-1", attempts=tuple(attempts), looks=(), ended="")
    document.write(place / PROGRESS_FILE, progress)


@pytest.mark.parametrize(
    ("base_lost", "candidate_lost", "code", "said"),
    [
        (0, 0, 0, "base lost 0 of 10 attempts; candidate lost 0 of 10 attempts"),
        (0, 1, 3, "INCONCLUSIVE: base lost 0 of 10 attempts; candidate lost 1 of 11 attempts (boot 2: cut, it was"),
        (0, 5, 3, "candidate lost 5 of 15 attempts"),
        (0, 12, 1, "FAIL: base lost 0 of 10 attempts; candidate lost 12 of 22 attempts"),
        (0, 12, 1, "boot 2: cut, it was reset; and 9 more)"),
        (2, 5, 3, "or a kernel that crashes: see why it was lost, and begin again"),
        (3, 3, 0, "boot 1: cut, it was reset); candidate lost 3 of 13 attempts (boot 2: cut"),
        (6, 0, 0, "base lost 6 of 16"),
    ],
)
def test_lost_attempts_of_a_plan(base_lost: int, candidate_lost: int, code: int, said: str, campaign: Campaign) -> None:
    write_plan(campaign, base_lost, candidate_lost)
    found, text = campaign.told()
    assert found == code and said in text and "No plan" not in text
    assert text.index("the plan has the gates default, and these are gates") < text.index("metric base")
    # What decides is the first line.
    assert text.startswith(("FAIL: base lost", "INCONCLUSIVE: base lost")) == (code > 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("beside the plan", "lost-0 has no run; lost-1 has"),
        (
            "renamed",
            "boot 2: cut, it was reset; boot 2: cut, it was reset; boot 2: cut, it was reset); that may be chance",
        ),
        ("elsewhere", "boot 2: cut, it was reset; boot 2"),
    ],
)
def test_losses_that_the_progress_of_a_plan_does_not_tell(change: str, said: str, campaign: Campaign) -> None:
    """All of these passed, some of them with "lost 0 of 0 attempts"."""
    write_plan(campaign, 0, 3 if change in ("renamed", "elsewhere") else 0)
    base, candidate = campaign.base, campaign.candidate
    if change == "beside the plan":
        for place in range(3):
            document.write(candidate / f"lost-{place}" / PLAN, RUN_PLAN)
    elif change == "renamed":
        base, candidate = (each.rename(each.with_name(f"my-{each.name}")) for each in (base, candidate))
    elif change == "elsewhere":
        base = base.rename(campaign.place.parent.with_name("other"))
    code, text = told("gate", base, candidate, *campaign.words()[3:])
    assert code == 3 and f"candidate lost 3 of 13 attempts ({said}" in text


@pytest.mark.parametrize("how", ["a plan", "no directory", "begun", "runs elsewhere"])
@pytest.mark.parametrize("side", ["base", "candidate"])
def test_a_kernel_of_which_no_boot_gave_a_run(side: str, how: str, campaign: Campaign) -> None:
    """All attempts of the candidate were lost, and the gate ended as with a wrong option."""
    place = campaign.place / side
    shutil.rmtree(place)
    if how == "begun":
        for number in range(3):
            document.write(place / f"lost-{number}" / PLAN, RUN_PLAN)
    else:
        write_plan(campaign, 3, 3, none="" if how == "runs elsewhere" else side)
    if how == "a plan":
        place.mkdir()
    code, said = campaign.told()
    if how == "runs elsewhere":
        assert code is None and f"{side} is no directory" in said
    elif side == "candidate":
        assert code == 1 and "No boot of the candidate gave a run" in said and said.startswith("FAIL: base lost")
    else:
        assert code is None and re.search(r"base: all of \d+ attempts were lost", said)


@pytest.mark.parametrize("where", ["runs", "."])
def test_runs_beside_their_plan(where: str, campaign: Campaign) -> None:
    """Moved there by somebody, they had no plan."""
    write_plan(campaign, 0, 12)
    place = campaign.place.parent / where
    sides = [each.rename(place / each.name) for each in (campaign.base, campaign.candidate)]
    code, said = told("gate", *sides, *campaign.words()[3:])
    assert code == 1 and "candidate lost 12 of 22 attempts" in said


def test_boots_that_were_cut_and_no_plan_tells_their_kernel(campaign: Campaign) -> None:
    write_plan(campaign, 0, 3)
    document.write(campaign.place.parent / "cut/1" / PLAN, RUN_PLAN)
    assert campaign.told()[0] == 3
    (campaign.place.parent / PROGRESS_FILE).unlink()
    code, said = campaign.told()
    assert code is None and "is a campaign without progress.json: nothing tells which boots were lost" in said


def test_a_boot_of_a_plan_that_still_runs_is_not_lost(campaign: Campaign) -> None:
    write_plan(campaign, 0, 0)
    path = campaign.place.parent / PROGRESS_FILE
    progress = document.read(path, GateProgress, "")
    running = BootAttempt(19, "candidate", "running", "0", "here", "")
    document.write(path, replace(progress, attempts=(*progress.attempts, running)))
    document.write(campaign.candidate / "here" / PLAN, RUN_PLAN)
    code, said = campaign.told()
    assert code == 0 and "candidate lost 0 of 10 attempts, and one has not ended" in said


@pytest.mark.parametrize(("pairs", "code"), [(True, 1), (False, 3)])
def test_pairs_of_a_plan_are_compared_within_each_pair(pairs: bool, code: int, tmp_path: Path) -> None:
    """From pair to pair the machine differs by 30 %, and the candidate is 6 % slower."""
    campaign = Campaign(tmp_path / "campaign/runs")
    walk = [10_000 * 1.3 ** (place % 5) + place for place in range(10)]
    campaign.boots(walk, [1.06 * value for value in walk])
    write_plan(campaign, 0, 0, pairs=pairs)
    found, said = campaign.told()
    assert (found, "compared within each pair" in said) == (code, pairs)


def test_the_chance_is_fishers() -> None:
    assert more_by_chance(10, 0, 10, 0) == 1
    assert more_by_chance(20, 0, 30, 10) == pytest.approx(comb(30, 10) / comb(50, 10))
    # Of kernels that are alike, no more than 1 % fail.
    for share in (0.05, 0.2, 0.5):
        failed = 0.0
        for one in range(21):
            for other in range(21):
                chance = comb(20, one) * comb(20, other) * share ** (one + other) * (1 - share) ** (40 - one - other)
                failed += chance * (more_by_chance(20, one, 20, other) <= 0.01)
        assert failed <= 0.01


@pytest.mark.parametrize("lacking", [(2, 5, 7), (4,)])
def test_a_tool_that_some_boots_lack(lacking: tuple[int, ...], campaign: Campaign) -> None:
    """It passed in all of 200 campaigns: the boots that have the tool were judged, and no word of the others."""
    campaign.gates = BOTH
    campaign.boots(noise(3), noise(4), tool="sleep_storm")
    for place in lacking:
        (campaign.candidate / f"{30 + place:05}.json").unlink()
    code, said = campaign.told()
    assert f"candidate: no run of sleep_storm in {len(lacking)} of 10 boots (candidate-0-{lacking[0]}" in said
    assert code == 2 and "verdict: ERROR" in said
    code, said = campaign.told("--incomplete", "the disk was full")
    assert code == 3 and "incomplete, as you say: the disk was full" in said and "boot ;" not in said


def test_a_tool_that_most_boots_lack(campaign: Campaign) -> None:
    campaign.gates = BOTH
    campaign.boots(noise(3), noise(4), tool="sleep_storm")
    for path in (*sorted(campaign.base.glob("*.json"))[13:], *sorted(campaign.candidate.glob("*.json"))[12:]):
        path.unlink()
    code, said = campaign.told()
    assert code == 2 and "base: no run of sleep_storm in 7 of 10 boots (base-0-3, base-0-4, base-0-5, ...)" in said


def test_a_candidate_with_fewer_boots(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign.boots(noise(1, 11), noise(2, 10))
    code, said = campaign.told()
    few = "the candidate has 10 boots and the base 11. A boot that crashed leaves no run"
    assert (code, said.count(few)) == (3, 1)
    for side in (campaign.base, campaign.candidate):
        # Boots that `schedline run` began tell nothing of one that crashed before it did.
        document.write(side / "first" / PLAN, RUN_PLAN)
        sorted(side.glob("*.json"))[0].replace(side / "first" / RUN_PLAN.order[0].file)
    code, said = campaign.told()
    assert code == 3 and few in said
    code, said = campaign.told("--incomplete", "the machine was needed")
    assert code == 0 and "incomplete, as you say: the machine was needed" in said


def test_boots_that_are_lacking_are_no_wrong_order(tmp_path: Path) -> None:
    """One kernel "was booted 5 times more than the other", as its boots were lost."""
    campaign = Campaign(tmp_path)
    campaign.boots(noise(1, 20), noise(2, 20))
    for place in range(4, 9):
        (campaign.candidate / f"{20 + place:05}.json").unlink()
    code, said = campaign.told()
    assert code == 3 and said.startswith(
        "INCONCLUSIVE: the candidate has 15 boots and the base 20. A boot that crashed"
    )
    assert "timer.p99: without the boots that are lacking, one kernel was booted 6 times more" in said
    for side in (campaign.base, campaign.candidate):
        for place in range(5):
            (side / f"lost-{place}").mkdir()
    code, said = campaign.told()
    assert code == 3 and "without the boots that are lacking, one kernel" in said
    campaign = Campaign(tmp_path / "other")
    campaign.boots(noise(1), noise(2), order="blocks")
    assert "lacking" not in campaign.told()[1]


def test_a_metric_with_fewer_boots_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """With --incomplete all were judged at the boots of the one that has the fewest."""
    campaign = Campaign(tmp_path, BOTH.replace("[10]", "[10, 16, 20]"))
    campaign.boots(noise(1, 20), noise(2, 20))
    campaign.boots(noise(3, 20), noise(4, 20), tool="sleep_storm")
    for place in (2, 7, 12):
        for first in (40, 60):
            (tmp_path / ("base", "candidate")[first > 40] / f"{first + place:05}.json").unlink()
    code, said = campaign.told("--incomplete", "the disk was full", "--json", str(tmp_path / "gate.json"))
    whole, few = document.read(tmp_path / "gate.json", GateDocument, "").metrics
    assert (code, whole.boots, whole.verdict.name) == (3, (20, 20), "PASS")
    assert few.boots == (16, 16) and "a PASS takes 20 boots: boot each kernel 3 more times" in said
    # Too few for any look.
    for path in sorted(campaign.base.glob("*.json"))[20:30]:
        path.unlink()
    code, said = campaign.told("--incomplete", "the disk was full", "--json", str(tmp_path / "gate.json"))
    whole, few = document.read(tmp_path / "gate.json", GateDocument, "").metrics
    assert code == 3 and whole.verdict.name == "PASS" and "too few boots: boot 3 more of the base; the first" in said


@pytest.mark.parametrize(("value", "why"), [(1e299, "no measurement is so large"), (0, "nothing takes no time")])
def test_a_value_that_nothing_can_measure(value: float, why: str, campaign: Campaign) -> None:
    rewrite(campaign.candidate, lambda run: run["metrics"][0].update(value=value), 1)
    outputs = [campaign.place / name for name in ("gate.json", "page.html")]
    for path, text in zip(outputs, ('{"schema": "gate-4"}', "<!DOCTYPE html>"), strict=True):
        path.write_text(text)
    code, said = campaign.told("--json", str(outputs[0]), "--html", str(outputs[1]))
    assert code is None and why in said
    assert outputs[0].read_text() == UNFINISHED and not outputs[1].exists()


UNREADABLE = [
    ("gate-4", ["a", "b", "--detct", "5"], True),
    ("gate-4", ["a", "b", "c"], True),
    ("gate-4", ["a", "b", "--detect", "0"], True),
    ("gate-4", ["--gates", "none", "a", "b"], True),
    ("gate-history-3", ["history", "no-directory"], True),
    ("gate-history-3", ["history", "."], True),
    ("gate-4", ["history", "no-directory"], False),
    ("gate-plan-1", ["a", "b", "c"], False),
    ("gate-plan-1", ["a", "b"], False),
]


@pytest.mark.parametrize("equals", [False, True])
@pytest.mark.parametrize(("schema", "words", "removed"), UNREADABLE)
def test_an_earlier_result_and_a_wrong_word(
    schema: str, words: list[str], removed: bool, equals: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stayed, and could be taken for this gate's; and `gate --json plan.json` removed the plan."""
    monkeypatch.chdir(tmp_path)
    old = tmp_path / "old.json"
    old.write_text(json.dumps({"schema": schema}))
    assert told("gate", *words, *(["--json=old.json"] if equals else ["--json", "old.json"]))[0] is None
    assert (not old.exists() or old.read_text() == UNFINISHED) is removed


def test_what_is_no_result_of_a_gate_stays(campaign: Campaign) -> None:
    """`--json gates.toml` removed the gates file."""
    for path in (campaign.place / "gates.toml", next(campaign.base.glob("*.json"))):
        campaign.words()
        before = path.read_text()
        code, said = campaign.told("--json", str(path))
        assert code is None and "is no result of a gate" in said and path.read_text() == before


def test_standard_output_is_not_removed(campaign: Campaign, tmp_path: Path) -> None:
    """As root, `--json /dev/stdout > FILE` removed /dev/stdout."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "out")
    (tmp_path / "out").write_text("what was printed before")
    assert campaign.told("--json", str(link))[0] == 0
    assert link.is_symlink() and '"gate-4"' in (tmp_path / "out").read_text()


def test_progress_that_is_older_than_the_runs(campaign: Campaign) -> None:
    """Its attempts were all that was looked at: 8 boots passed beside 12."""
    write_plan(campaign, 0, 0)
    campaign.boots(noise(3, 2), [], first=1000)
    code, said = campaign.told()
    assert code is None and "does not know the boot base-1000-0" in said


def test_a_boot_whose_directory_has_another_name_is_one(campaign: Campaign) -> None:
    """It was counted twice, and lost boots were a smaller share."""
    write_plan(campaign, 0, 12)
    path = next(campaign.base.glob("*.json"))
    row, run = "rt-wakeup-1.json", document.read(path, Run, "")
    (campaign.base / "mine").mkdir()
    path.rename(campaign.base / "mine" / row)
    order = tuple(replace(each, row="rt-wakeup", number=1) for each in RUN_PLAN.order)
    document.write(campaign.base / "mine" / PLAN, replace(RUN_PLAN, order=order))
    code, said = campaign.told()
    assert run.fingerprint["boot_id"] != "mine" and code == 1 and "base lost 0 of 10 attempts" in said


def test_boots_that_end_after_some_of_their_runs(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign.boots(noise(1), noise(2), runs=3)
    assert campaign.told()[0] == 0
    for number in (-1, -4, -5):
        sorted(campaign.candidate.iterdir())[number].unlink()
    code, said = campaign.told()
    assert code == 2 and "candidate: fewer than 3 runs of rt_wakeup in 3 of 10 boots" in said


def test_a_kernel_against_itself_is_told_first(campaign: Campaign) -> None:
    rewrite(campaign.candidate, lambda run: run["fingerprint"].update(kernel="7.3.4-base #1 SMP", build_id="base00"))
    code, said = campaign.told()
    assert code == 0 and "(95 %) base and candidate are the same kernel: an A/A campaign base: 7.3.4-" in said
    # Without a build-id the name tells.
    rewrite(campaign.base, lambda run: run["fingerprint"].update(build_id=""))
    rewrite(campaign.candidate, lambda run: run["fingerprint"].update(kernel="7.3.4-candidate #1 SMP", build_id=""))
    code, said = campaign.told()
    assert code == 0 and "A/A" not in said


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("swapped", None, "the plan has base as the base"),
        ("renamed to each other", None, "the plan has 7.3.4-base as base, and there are runs of 7.3.4-candidate"),
        ("unknown cut boots", None, "does not know the boot 1"),
        ("unknown boots", None, "does not know the boot base-2000-0"),
        ("lost ones of the other kernel", None, "has base at another place than plan.json"),
        ("another order", None, "and their runs say the opposite"),
        ("never ended", 3, "candidate lost 3 of 13 attempts (boot 2: it never ended; boot 2: it never ended"),
    ],
)
def test_a_plan_that_contradicts_the_runs(how: str, code: int | None, said: str, campaign: Campaign) -> None:
    """All of these passed."""
    write_plan(campaign, 0, 0)
    base, candidate, path = campaign.base, campaign.candidate, campaign.place.parent / PROGRESS_FILE
    progress = document.read(path, GateProgress, "")
    if how == "swapped":
        base, candidate = candidate, base
    elif how == "renamed to each other":
        base.rename(campaign.place / "x")
        candidate.rename(base)
        (campaign.place / "x").rename(candidate)
    elif how == "unknown cut boots":
        document.write(campaign.place.parent / "cut/1" / PLAN, RUN_PLAN)
    elif how == "unknown boots":
        campaign.boots(noise(3, 2), noise(4, 2), first=2000)
    elif how.startswith("lost ones"):
        attempts = [replace(each, kernel="base") if each.place == 1 else each for each in progress.attempts]
        document.write(path, replace(progress, attempts=tuple(attempts)))
    elif how == "another order":
        document.write(path, replace(progress, attempts=tuple(reversed(progress.attempts))))
    else:
        begun = [BootAttempt(1, "candidate", "running", "0", f"x{number}", "") for number in range(3)]
        document.write(path, replace(progress, attempts=(*begun, *progress.attempts)))
    found, text = told("gate", base, candidate, *campaign.words()[3:])
    assert (found, said in " ".join(text.split())) == (code, True), text


@pytest.mark.parametrize("name", [PLAN_FILE, PROGRESS_FILE])
def test_a_campaign_without_its_plan_or_progress(name: str, campaign: Campaign) -> None:
    """Twelve lost boots of the candidate were forgotten with them: it passed."""
    write_plan(campaign, 0, 12)
    (campaign.place.parent / name).unlink()
    code, said = campaign.told()
    assert code is None and f"campaign is a campaign without {name}: nothing tells which boots were lost" in said


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("which", ["runs of each boot", "boots of the base"])
def test_runs_that_somebody_removed(which: str, planned: bool, campaign: Campaign) -> None:
    """The fast ones of the base, or the slow ones of the candidate: it passed, also without a word."""
    order = tuple(replace(each, number=number) for each in RUN_PLAN.order for number in (1, 2, 3))
    for side in (campaign.base, campaign.candidate):
        for place, path in enumerate(sorted(side.glob("*.json"))):
            boot = side / f"{side.name}-0-{place}"
            document.write(boot / PLAN, replace(RUN_PLAN, order=order if which == "runs of each boot" else order[:1]))
            path.rename(boot / order[0].file)
    if planned:
        write_plan(campaign, 0, 0)
    if which == "boots of the base":
        shutil.rmtree(campaign.base / "base-0-3")
    campaign.gates = GATES.replace("[10]", "[9]")
    code, said = campaign.told()
    removed = (
        "base-0-3 was done, and has no runs here" if which == "boots of the base" else "base-0-0 lacks 2 of 3 runs"
    )
    # Without a plan nobody knows of a boot that left nothing.
    known = planned or which == "runs of each boot"
    assert (code, f"ERROR: base: {removed}" in said) == ((2, True) if known else (0, False))
    assert campaign.told("--incomplete", "the disk was full")[0] == 0


def test_a_directory_of_a_boot_without_a_run(campaign: Campaign) -> None:
    """It has what `schedline run` leaves when the machine crashes at once. It passed."""
    for name in ("lost", "other"):
        (campaign.candidate / name).mkdir()
    (campaign.candidate / "other/console.log").write_text("[    0.000000] Linux version")
    code, said = campaign.told()
    assert code == 3 and "candidate lost 2 of 12 attempts (lost has no run; other has no run)" in said
