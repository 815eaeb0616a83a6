# SPDX-License-Identifier: GPL-2.0
"""Boots that gave no values are no accident of the files: a candidate that loses more of them does not pass."""

from __future__ import annotations

from math import comb
from pathlib import Path
from typing import Any

import pytest
from campaigns import GATES, RUN_PLAN, Campaign, main, minute_of, noise, rewrite, run
from msgspec.structs import replace

from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.gate.boot_plan import BootAttempt, BootedKernel, GatePlan, GateProgress
from schedlib.gate.comparable import more_by_chance
from schedlib.gate.gate_options import PLAN_FILE, PROGRESS_FILE
from schedlib.paths import PLAN

BOTH = GATES + GATES[GATES.index("\n[[metric]]") :].replace("rt_wakeup", "sleep_storm")


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """Ten good boots of each kernel."""
    found = Campaign(tmp_path / "campaign/runs")
    found.boots(noise(1), noise(2))
    return found


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def write_plan(campaign: Campaign, base_lost: int, candidate_lost: int, *, pairs: bool = False) -> None:
    """A plan whose attempts are ten done ones of each kernel, and some that were lost."""
    kernels = tuple(BootedKernel(label, f"7.3.4-{label}", "true") for label in ("base", "candidate"))
    place, blocks = campaign.place.parent, (("base", "candidate"),) * 10 if pairs else (("base", "candidate") * 10,)
    plan = GatePlan(
        schema="gate-plan-1", kernels=kernels, blocks=blocks, looks=(10,), seed=1, suite="quick", only=(), runs=1,
        gates="default", losses=5,
    )  # fmt: skip
    document.write(place / PLAN_FILE, plan)
    ends = {"base": base_lost, "candidate": candidate_lost}
    attempts = [BootAttempt(n, label, "done", "0", f"{label}-0-{n}", "") for label in ends for n in range(10)]
    attempts += [
        BootAttempt(0, label, "cut", "0", "1", "it was reset") for label, nr in ends.items() for _ in range(nr)
    ]
    progress = GateProgress(schema="gate-progress-1", attempts=tuple(attempts), looks=(), ended="")
    document.write(place / PROGRESS_FILE, progress)


@pytest.mark.parametrize(
    ("base_lost", "candidate_lost", "code", "said"),
    [
        (0, 0, 0, "base lost 0 of 10 attempts; candidate lost 0 of 10 attempts"),
        (0, 1, 3, "INCONCLUSIVE: base lost 0 of 10 attempts; candidate lost 1 of 11 attempts (the first: cut, it was"),
        (0, 5, 3, "candidate lost 5 of 15 attempts"),
        (0, 12, 1, "FAIL: base lost 0 of 10 attempts; candidate lost 12 of 22 attempts"),
        (2, 5, 3, "that may be chance"),
        (3, 3, 0, "base lost 3 of 13 attempts (the first: cut, it was reset); candidate lost 3 of 13"),
        (6, 0, 0, "base lost 6 of 16"),
    ],
)
def test_lost_attempts_of_a_plan(
    base_lost: int, candidate_lost: int, code: int, said: str, campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(campaign, base_lost, candidate_lost)
    assert main(campaign.words()) == code
    text = printed(capsys)
    assert said in text and "No plan" not in text
    # What decides is the first line.
    assert text.startswith(("FAIL: base lost", "INCONCLUSIVE: base lost")) == (code > 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "no progress",
            "candidate lost 3 of 13 attempts (the first: lost-0 lacks 1 of 1 runs). No plan is beside these",
        ),
        (
            "beside the plan",
            "candidate lost 3 of 13 attempts (the first: lost-0 lacks 1 of 1 runs); that may be chance",
        ),
        ("renamed", "candidate lost 3 of 13 attempts (the first: cut, it was reset); that may be chance"),
        ("elsewhere", "candidate lost 3 of 13 attempts (the first: cut, it was reset); that may be chance"),
        ("removed", "candidate lost 3 of 13 attempts (the first: candidate-0-0 was done, and has no runs here)"),
    ],
)
def test_losses_that_the_progress_of_a_plan_does_not_tell(
    change: str, said: str, campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of these passed, some of them with "lost 0 of 0 attempts"."""
    write_plan(campaign, 0, 3 if change in ("renamed", "elsewhere") else 0)
    base, candidate = campaign.base, campaign.candidate
    if change in ("no progress", "beside the plan"):
        for place in range(3):
            document.write(candidate / f"lost-{place}" / PLAN, RUN_PLAN)
    if change == "no progress":
        (campaign.place.parent / PROGRESS_FILE).unlink()
    elif change == "renamed":
        base, candidate = (each.rename(each.with_name(f"my-{each.name}")) for each in (base, candidate))
    elif change == "elsewhere":
        base = base.rename(campaign.place.parent.with_name("other"))
    elif change == "removed":
        campaign.boots(noise(3, 3), noise(4, 3), first=3000)
        for path in sorted(candidate.glob("*.json"))[:3]:
            path.unlink()
    words = ["gate", str(base), str(candidate), *campaign.words()[3:]]
    assert (main(words), said in printed(capsys)) == (3, True)


def test_a_boot_of_a_plan_that_still_runs_is_not_lost(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(campaign, 0, 0)
    path = campaign.place.parent / PROGRESS_FILE
    progress = document.read(path, GateProgress, "")
    running = BootAttempt(20, "candidate", "running", "0", "here", "")
    document.write(path, replace(progress, attempts=(*progress.attempts, running)))
    document.write(campaign.candidate / "here" / PLAN, RUN_PLAN)
    assert main(campaign.words()) == 0
    assert "candidate lost 0 of 10 attempts, and one has not ended" in printed(capsys)


@pytest.mark.parametrize(("pairs", "code"), [(True, 1), (False, 3)])
def test_pairs_of_a_plan_are_compared_within_each_pair(
    pairs: bool, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From pair to pair the machine differs by 30 %, and the candidate is 6 % slower."""
    campaign = Campaign(tmp_path / "campaign/runs")
    walk = [10_000 * 1.3 ** (place % 5) + place for place in range(10)]
    campaign.boots(walk, [1.06 * value for value in walk])
    write_plan(campaign, 0, 0, pairs=pairs)
    assert (main(campaign.words()), "compared within each pair" in printed(capsys)) == (code, pairs)


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
def test_a_tool_that_some_boots_lack(
    lacking: tuple[int, ...], campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """It passed in all of 200 campaigns: the boots that have the tool were judged, and no word of the others."""
    campaign.gates = BOTH
    campaign.boots(noise(3), noise(4), tool="sleep_storm")
    for place in lacking:
        (campaign.candidate / f"{30 + place:05}.json").unlink()
    assert main(campaign.words()) == 2
    said = printed(capsys)
    assert f"candidate: no run of sleep_storm in {len(lacking)} of 10 boots (candidate-0-{lacking[0]}" in said
    assert "verdict: ERROR" in said
    assert main(campaign.words("--incomplete", "the disk was full")) == 3
    said = printed(capsys)
    assert "incomplete, as you say: the disk was full" in said and "boot ;" not in said


def test_a_candidate_with_fewer_boots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = Campaign(tmp_path)
    campaign.boots(noise(1, 11), noise(2, 10))
    assert main(campaign.words()) == 3
    assert printed(capsys).count("the candidate has 10 boots and the base 11. A boot that crashed leaves no run") == 1
    for side in (campaign.base, campaign.candidate):
        # Boots that `schedline run` began tell nothing of one that crashed before it did.
        document.write(side / "first" / PLAN, RUN_PLAN)
        sorted(side.glob("*.json"))[0].replace(side / "first" / RUN_PLAN.order[0].file)
    assert main(campaign.words()) == 3
    assert "A boot that crashed leaves no run" in printed(capsys)
    assert main(campaign.words("--incomplete", "the machine was needed")) == 0
    assert "incomplete, as you say: the machine was needed" in printed(capsys)


@pytest.mark.parametrize(("value", "why"), [(1e299, "no measurement is so large"), (0, "nothing takes no time")])
def test_a_value_that_nothing_can_measure(value: float, why: str, campaign: Campaign) -> None:
    rewrite(campaign.candidate, lambda run: run["metrics"][0].update(value=value), 1)
    outputs = [campaign.place / name for name in ("gate.json", "page.html")]
    for path in outputs:
        path.write_text("the PASS of an earlier gate")
    with pytest.raises(SchedlineError, match=why):
        main(campaign.words("--json", str(outputs[0]), "--html", str(outputs[1])))
    assert not any(path.exists() for path in outputs)


def test_the_order_of_each_tool_is_checked(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the second tool the kernels were measured one after the other: a drift failed, or passed, every time."""
    campaign.gates = BOTH
    campaign.boots(noise(3), noise(4), first=3000, order="blocks", tool="sleep_storm")
    assert main(campaign.words("--incomplete", "the tools ran in boots of their own")) == 3
    assert "so a drift could look like a change" in printed(capsys)


@pytest.mark.parametrize(("lost", "code"), [(0, 0), (5, 3), (15, 1)])
def test_boots_that_left_a_plan_and_no_run(
    lost: int, code: int, campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """A candidate that crashed in a third of its boots passed, if somebody booted until the numbers were equal."""
    for place in range(lost):
        document.write(campaign.candidate / f"lost-{place}" / PLAN, RUN_PLAN)
    assert main(campaign.words()) == code
    said = printed(capsys)
    assert f"candidate lost {lost} of {10 + lost} attempts" in said
    assert "No plan is beside these runs, so a boot that crashed before its first run is not seen" in said


def test_boots_that_end_after_some_of_their_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = Campaign(tmp_path)
    campaign.boots(noise(1), noise(2), runs=3)
    assert main(campaign.words()) == 0
    for number in (-1, -4, -5):
        sorted(campaign.candidate.iterdir())[number].unlink()
    capsys.readouterr()
    assert main(campaign.words()) == 2
    assert "candidate: fewer than 3 runs of rt_wakeup in 3 of 10 boots" in printed(capsys)


def test_boots_in_which_the_tool_skipped_itself(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    for place in range(10, 14):
        skip = run("candidate", f"more-{place}", minute_of("candidate", place), [], status="SKIP", reason="no FIFO")
        campaign.save(campaign.candidate, skip)
    assert main(campaign.words()) == 2
    assert "candidate: no run of rt_wakeup in 4 of 14 boots" in printed(capsys)


def test_boots_at_the_same_time_have_no_order(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a clock all boots began in one minute of 2026, and a drift was a change in 6 of 20 campaigns."""
    rewrite(campaign.candidate, lambda run: run.update(started="2026-11-01T00:00:30Z"))
    with pytest.raises(SchedlineError, match="which one machine cannot do: its clock was not set"):
        main(campaign.words())
    campaign.gates = campaign.gates.replace("[gate]", '[gate]\norder = "any"')
    assert main(campaign.words()) == 0
    assert "in any order, so a drift could look like a change" in printed(capsys)


@pytest.mark.parametrize(
    ("samples", "factor", "code", "said"),
    [
        (600, 1.0, 0, ""),
        (400, 1.0, 3, "has 1000 samples and that of the candidate 400"),
        (1000, 0.02, 0, ""),
        (1000, 0.001, 3, "is it in another unit than ns?"),
    ],
)
def test_what_the_candidate_cannot_be(
    samples: int, factor: float, code: int, said: str, campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel that stalls takes fewer samples; and no kernel is a thousand times faster."""

    def change(run: dict[str, Any]) -> None:
        run["metrics"][0] |= {"n": samples, "value": factor * run["metrics"][0]["value"]}

    rewrite(campaign.candidate, change)
    assert (main(campaign.words()), said in printed(capsys)) == (code, True)


def test_no_kernel_has_a_hundred_times_the_throughput(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = Campaign(tmp_path, gates=GATES.replace("lower", "higher"), unit="frames/s")
    campaign.boots(noise(1), noise(2, factor=1000), direction="higher")
    assert main(campaign.words()) == 3
    assert "has more than 100 times the base's: is it in another unit than frames/s?" in printed(capsys)


def test_a_kernel_against_itself_is_told_first(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(campaign.candidate, lambda run: run["fingerprint"].update(kernel="7.3.4-base #1 SMP", build_id="base00"))
    assert main(campaign.words()) == 0
    assert printed(capsys).startswith("base and candidate are the same kernel: an A/A campaign")
    # Without a build-id the name tells.
    rewrite(campaign.base, lambda run: run["fingerprint"].update(build_id=""))
    rewrite(campaign.candidate, lambda run: run["fingerprint"].update(kernel="7.3.4-candidate #1 SMP", build_id=""))
    assert main(campaign.words()) == 0
    assert "A/A" not in printed(capsys)


def test_what_one_side_does_not_tell(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    quiet = dict.fromkeys(("steal_percent", "interrupts_percent", "realtime_percent", "throttled", "others_percent"), 0)
    rewrite(campaign.base, lambda run: run.update(disturbance={**quiet, "why": ""}))
    assert main(campaign.words()) == 3
    assert "what happened beside rt_wakeup is recorded in one of base and candidate alone" in printed(capsys)
    rewrite(campaign.candidate, lambda run: run["fingerprint"].pop("governor"))
    with pytest.raises(SchedlineError, match=r"governor differs .*: '\(not recorded\)' / 'performance'"):
        main(campaign.words("--trust"))
