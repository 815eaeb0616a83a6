# SPDX-License-Identifier: GPL-2.0
"""The gate as a user sees it: verdicts, exit codes, its output, and every kind of bad input."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from campaigns import GATES, Campaign, main, metric, minute_of, noise, run

from by_schema import validate
from one_verb import importable, parsed, said_without_libraries
from schedlib.errors import SchedlineError
from schedlib.gate import gate_verb
from schedlib.gate.rules import load_gate


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    return Campaign(tmp_path)


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    """The output, with wrapped lines joined."""
    return capsys.readouterr().out.replace("\n    ", " ")


def refused(campaign: Campaign, *words: str) -> str:
    """The message of exit code 2."""
    with pytest.raises(SchedlineError) as error:
        main(campaign.words(*words))
    assert "\n  next: " in str(error.value)
    return str(error.value)


def test_same_kernels_pass(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    campaign.boots(noise(1), noise(2), runs=3)
    assert main(campaign.words()) == 0
    said = capsys.readouterr().out
    assert "10 boots, 30 runs" in said
    assert said.endswith("verdict: PASS\n")
    assert max(map(len, said.splitlines())) <= 72


def test_a_regression_fails_at_the_first_look(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    campaign.boots(noise(1), noise(2, factor=1.25))
    assert main(campaign.words()) == 1
    assert "verdict: FAIL" in printed(capsys)


def test_what_is_unclear_asks_for_the_next_look(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """Until 20 boots, an INCONCLUSIVE names a number of boots."""
    campaign.boots(noise(19), noise(20, factor=1.07))
    assert main(campaign.words()) == 3
    assert "boot each kernel 10 more times" in printed(capsys)
    campaign.boots(noise(3), noise(4, factor=1.07), first=10_000)
    assert main(campaign.words()) == 1


def test_what_is_unclear_at_the_end_says_how_many(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """20 + 20 boots were the end, without a word about what to do next."""
    loud = [10_000.0 * (1 + (place * 7 % 5) / 4) for place in range(20)]
    campaign.boots(loud, loud[3:] + loud[:3])
    assert main(campaign.words()) == 3
    said = printed(capsys)
    assert "of each would settle it" in said and "new campaign with looks up to" in said


def test_no_boot_after_the_verdict_counts(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    campaign.boots(noise(1), noise(2, factor=1.25))
    campaign.boots(noise(5, 30), noise(6, 30), first=20_000)
    assert main(campaign.words()) == 1
    assert "30 later boots of the base are not judged" in printed(capsys)


@pytest.mark.parametrize(("seconds", "code"), [(0, 0), (1, 3), (6, 3)])
def test_boots_that_are_far_from_all_others(
    campaign: Campaign, capsys: pytest.CaptureFixture[str], seconds: int, code: int
) -> None:
    """6 of 20 boots that were ten times slower gave PASS."""
    campaign.boots(noise(1), [10 * value if place < seconds else value for place, value in enumerate(noise(2))])
    assert main(campaign.words()) == code
    said = printed(capsys)
    assert ("boot each kernel 10 more times" in said) == bool(seconds)
    campaign.boots(noise(3), noise(4), first=10_000)
    assert main(campaign.words()) == code
    assert ("No number of boots makes this a PASS" in printed(capsys)) == (seconds == 6)


def test_no_pass_above_the_budget(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """An interval that was wholly above the budget gave PASS."""
    quiet = [10_000.0 + place for place in range(10)]
    campaign.boots(quiet, [1.05 * value for value in quiet])
    assert main(campaign.words()) == 1
    coarse = [20.0 + (place == 3) for place in range(10)]
    again = Campaign(campaign.place / "coarse", GATES)
    again.boots(coarse, [value + 1 for value in coarse])
    assert main(again.words()) == 3  # it may be 0 to 10 %
    assert "finer clock" in printed(capsys)


@pytest.mark.parametrize(
    ("tick", "code", "text"),
    [(1.0, 1, "worse than the budget"), (1000.0, 3, "10 more times"), (20_000.0, 3, "measure with a finer clock")],
)
def test_a_coarse_clock(
    campaign: Campaign, capsys: pytest.CaptureFixture[str], tick: float, code: int, text: str
) -> None:
    """+10 % on a clock of which one step is 0.01 %, 10 % and 200 %."""
    slow = (tick * (value // tick) or 1.0 for value in noise(2, factor=1.1))
    campaign.boots([tick * (value // tick) or 1.0 for value in noise(1)], list(slow))
    assert main(campaign.words()) == code
    assert text in printed(capsys)


def test_a_clock_whose_runs_are_averaged(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """7 us against 6 us, 15 % worse or not at all: a step of the means was a fifth of the clock's, and gave PASS."""
    quiet = noise(1), noise(2)
    for name, values, odd in (("base", quiet[0], 5.0), ("candidate", quiet[1], 7.0)):
        for place in range(10):
            for number in range(5):
                minute = 20 * place + 10 * ((place % 3 == 1) ^ (name == "candidate")) + number
                value = odd if (number == 0 and place % 2) or values is None else 6.0
                campaign.save(campaign.place / name, run(name, f"{name}{place}", minute, [metric(value)]))
    campaign.gates = GATES.replace("detect = 25", "detect = 15")
    assert main(campaign.words()) == 3
    assert "one step of the clock is 16" in printed(capsys)


@pytest.mark.parametrize(("now", "code"), [(2.0, 3), (3.0, 3), (20.0, 1)])
def test_a_base_of_one_value(campaign: Campaign, now: float, code: int) -> None:
    """2 us in all boots, on a clock of 1 us or of 2: nothing passes, but ten times as much fails."""
    campaign.boots([2.0] * 10, [now] * 10)
    assert main(campaign.words()) == code


def test_unequal_numbers_of_boots(campaign: Campaign) -> None:
    """With 30 boots against 10, a noisier candidate failed in 5 % of the campaigns: now as many of each count."""
    campaign.boots(noise(1), noise(2))
    lone = [run("candidate", f"more{place}", 9000 + place, [metric(50_000.0)]) for place in range(3)]
    for content in lone:
        campaign.save(campaign.candidate, content)
    assert main(campaign.words()) == 0


def test_an_order_that_repeats_itself_is_told(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    for place, (one, other) in enumerate(zip(noise(1), noise(2), strict=True)):
        for name, value in (("base", one), ("candidate", other)):
            minute = 20 * place + 10 * (name == "candidate")
            campaign.save(campaign.place / name, run(name, f"{name}{place}", minute, [metric(value)]))
    assert main(campaign.words()) == 0
    assert "the boots go ABAB all the time" in printed(capsys)


def test_higher_is_better(campaign: Campaign) -> None:
    campaign.gates = GATES.replace('"lower"', '"higher"').replace("timer.p99", "rate_per_s")
    for first, seed in ((0, 1), (10_000, 3)):
        for name, values in (("base", noise(seed)), ("candidate", noise(seed + 1, factor=0.8))):
            for place, value in enumerate(values):
                rate = metric(value, name="rate_per_s", direction="higher", kind="rate")
                minute = first + 20 * place + (10 if name == "candidate" else 0)
                campaign.save(campaign.place / name, run(name, f"{name}{minute}", minute, [rate]))
    assert main(campaign.words()) == 1


def test_nothing_is_shown_as_minus_nothing(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    campaign.gates = GATES.replace('"lower"', '"higher"').replace("timer.p99", "rate_per_s")
    for name, values in (("base", noise(1)), ("candidate", [0.0] * 10)):
        for place, value in enumerate(values):
            rate = metric(value, name="rate_per_s", direction="higher", kind="rate")
            campaign.save(campaign.place / name, run(name, f"{name}{place}", 20 * place + 10 * (name > "c"), [rate]))
    assert main(campaign.words()) == 1
    assert " -0 " not in printed(capsys)


def test_too_few_boots_says_how_many(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    campaign.boots(noise(1, 7), noise(2, 6, factor=1.5))
    assert main(campaign.words()) == 3
    said = printed(capsys)
    assert "3 more of the base and 4 more of the candidate; the first look is at 10 of each" in said


def test_boots_in_blocks_are_inconclusive(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    campaign.boots(noise(1), noise(2, factor=1.5), order="blocks")
    assert main(campaign.words()) == 3
    assert "drift" in printed(capsys)


EXACT = GATES.replace("timer.p99", "bits").replace('"rank"', '"equal"')


@pytest.mark.parametrize(("now", "code"), [(4, 0), (5, 1), (3, 0)])
def test_exact_needs_one_run(campaign: Campaign, now: int, code: int) -> None:
    campaign.gates = EXACT
    for name, value in (("base", 4), ("candidate", now)):
        bits = metric(value, name="bits", unit="bits", kind="exact")
        campaign.save(campaign.place / name, run(name, name, minute_of(name, 0), [bits]))
    assert main(campaign.words()) == code


def test_exact_that_is_not(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    campaign.gates = EXACT
    for place, (name, value) in enumerate((("base", 4), ("base", 5), ("candidate", 5))):
        bits = metric(value, name="bits", unit="bits", kind="exact")
        campaign.save(campaign.place / name, run(name, f"{name}{place}", place, [bits]))
    assert main(campaign.words()) == 3
    assert "not exact" in printed(capsys)


@pytest.mark.parametrize(("missed", "code"), [(2, 0), (60, 1)])
def test_exceedances_as_rates(campaign: Campaign, missed: int, code: int) -> None:
    campaign.gates = (
        GATES.replace("timer.p99", "timer.missed")
        .replace('"rank"', '"rate"')
        .replace("budget = 3\ndetect = 25", "budget = 500\ndetect = 5000")
    )
    for place in range(20):
        for name, count in (("base", 2), ("candidate", missed)):
            found = metric(count + place % 3, name="timer.missed", kind="exceedance", n=10_000)
            minute = 20 * place + (10 if name == "candidate" else 0)
            campaign.save(campaign.place / name, run(name, f"{name}{place}", minute, [found]))
    assert main(campaign.words()) == code


def test_json_is_of_its_schema(campaign: Campaign, tmp_path: Path) -> None:
    campaign.boots(noise(1, 3), noise(2, 3))
    main(campaign.words("--json", str(tmp_path / "few.json")))
    campaign.boots(noise(3), noise(4, factor=1.3), first=10_000)
    main(campaign.words("--json", str(tmp_path / "many.json")))
    for name in ("few", "many"):
        document = json.loads((tmp_path / f"{name}.json").read_text())
        validate(document, "gate-4")
    assert document["fingerprint"]["governor"] == "performance"


# ---- bad input ----


def test_a_damaged_run_is_refused(campaign: Campaign) -> None:
    campaign.boots(noise(1), noise(2))
    path = campaign.save(campaign.candidate, run("candidate", "x", 500, [metric(-5.0)]))
    assert f"{path} is no run-1: the metric timer.p99 is below 0" in refused(campaign)


def test_zero_in_the_base_has_no_percentage(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    campaign.unit = "retries"
    campaign.boots([0.0] * 10, noise(2))
    assert "percent of 0" in refused(campaign)
    campaign.gates = GATES.replace("budget = 3\n", "absolute = true\nbudget = 3\n")
    assert main(campaign.words()) == 3
    assert "the same value" in printed(capsys)


@pytest.mark.parametrize("side", ["base", "candidate"])
def test_empty_set(campaign: Campaign, side: str) -> None:
    campaign.boots(noise(1), noise(2))
    for path in (campaign.place / side).iterdir():
        path.unlink()
    assert "holds no run" in refused(campaign)


def test_one_metric_has_one_unit(campaign: Campaign) -> None:
    campaign.boots(noise(1), noise(2))
    campaign.save(campaign.candidate, run("candidate", "x", 500, [metric(1, unit="us")]))
    assert "timer.p99 has another unit" in refused(campaign)


@pytest.mark.parametrize("entry", ["machine", "configuration", "governor", "kernel_command_line", "libc", "new_entry"])
def test_fingerprints_that_differ(campaign: Campaign, entry: str) -> None:
    def change(content: dict[str, Any]) -> None:
        content["fingerprint"][entry] = "another"

    campaign.boots(noise(1), noise(2))
    _rewrite(campaign.candidate, change, 1)
    assert f"{entry} differs" in refused(campaign)
    _rewrite(campaign.candidate, change)
    assert f"{entry} differs between base and candidate" in refused(campaign)
    campaign.gates = GATES.replace("looks = [10, 20]", f'looks = [10]\nmay_differ = ["kernel", "build_id", "{entry}"]')
    assert main(campaign.words()) == 0


def test_names_of_files_are_no_difference(campaign: Campaign) -> None:
    def change(content: dict[str, Any]) -> None:
        content["fingerprint"]["kernel_command_line"] = "BOOT_IMAGE=/boot/other initrd=/i ro quiet"
        content["fingerprint"]["command_line"] = "/opt/rt_wakeup --json /other.json"

    campaign.boots(noise(1), noise(2))
    _rewrite(campaign.candidate, change)
    assert main(campaign.words()) == 0


def _rewrite(side: Path, change: Callable[[dict[str, Any]], None], count: int = 1000) -> None:
    for path in sorted(side.iterdir())[:count]:
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))


def test_runs_duplicated(campaign: Campaign) -> None:
    campaign.boots(noise(1), noise(2))
    path = next(iter(campaign.candidate.iterdir()))
    (campaign.candidate / "copy.json").write_text(path.read_text())
    assert "appears twice" in refused(campaign)


def test_base_against_itself(campaign: Campaign) -> None:
    campaign.boots(noise(1), noise(2))
    words = campaign.words()
    with pytest.raises(SchedlineError, match="is in base and in candidate"):
        main([words[0], words[1], *words[1:2], *words[3:]])


def test_unknown_metric(campaign: Campaign) -> None:
    campaign.boots(noise(1), noise(2))
    campaign.gates = GATES.replace("timer.p99", "timer.p98")
    said = refused(campaign)
    assert "unknown metric" in said
    assert "timer.p99" in said
    campaign.gates = GATES.replace("rt_wakeup", "netperf")
    assert "no run of netperf" in refused(campaign)


def test_metric_that_one_side_lacks_never_passes(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    campaign.boots(noise(1), noise(2))

    def rename(content: dict[str, Any]) -> None:
        content["metrics"][0]["name"] = "other"

    _rewrite(campaign.candidate, rename, 1)
    assert main(campaign.words()) == 2
    assert "1 of 10 boots lack it" in printed(capsys)
    _rewrite(campaign.candidate, rename)
    assert main(campaign.words()) == 2


def test_absent_with_a_reason_is_inconclusive(campaign: Campaign) -> None:
    campaign.boots(noise(1), noise(2))
    campaign.gates += GATES[GATES.index("[[metric]]") :].replace("timer.p99", "cycles.p99")

    def explain(content: dict[str, Any]) -> None:
        content["absent"] = [{"name": "cycles", "reason": "this machine counts none"}]

    _rewrite(campaign.base, explain)
    _rewrite(campaign.candidate, explain)
    assert main(campaign.words()) == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("budget = 3\n", "", "gates.toml:5: metric rt_wakeup timer.p99 has no budget"),
        ("budget = 3", "budget = -1", "gates.toml:10: metric.budget is '-1'\n  next: write a number >= 0"),
        ("detect = 25", "detect = 1", "no less than the budget"),
        ("timer.p99", "timer.max", "coin toss"),
        ("timer.p99", "max_latency", "coin toss"),
        ('"rank"', '"median"', "gates.toml:9: metric.method is 'median'\n  next: known are: equal, rank, rate"),
        ('"lower"', '"neither"', "nothing can become worse"),
        ('"lower"', '"higher"', "is better"),
        ('"rank"', '"rate"', "does not fit"),
        ('"rank"', '"rate"\nabsolute = false', "often 0"),
        ('"rank"', '"equal"', "does not fit"),
        ("alpha = 0.01", "alpha = 0.5", "gates.toml:2: gate.alpha is '0.5'\n  next: write a number <= 0.05"),
        ("looks = [10, 20]", "looks = [2]", "gates.toml:3: gate.looks"),
        ("looks = [10, 20]", "looks = [20, 10]", "do not ascend"),
        ("looks = [10, 20]", "lokos = [10]", "gates.toml:3: gate.lokos is unknown\n  next: did you mean looks?"),
        (GATES[GATES.index("[[metric]]") :], "", "pass everything"),
        (
            "looks = [10, 20]",
            "looks = [10, 20]" + GATES[GATES.index("\n[[metric]]") :],
            "metric has rt_wakeup timer.p99 twice",
        ),
    ],
)
def test_bad_gates_file(campaign: Campaign, old: str, new: str, said: str) -> None:
    campaign.boots(noise(1), noise(2))
    campaign.gates = GATES.replace(old, new)
    assert said in refused(campaign)


def test_no_gates_file(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    campaign.boots(noise(1), noise(2))
    with pytest.raises(SystemExit) as ended:
        main([*campaign.words()[:3], "--gates", "defualt"])
    assert ended.value.code == 2
    assert "Did you mean default?" in capsys.readouterr().err
    with pytest.raises(SchedlineError, match="no gates file"):
        load_gate("nothing")


def test_words_are_checked_before_libraries_are_needed(campaign: Campaign, tmp_path: Path) -> None:
    """`gate /nonexistent /nonexistent` ended with 2 only after it had installed numpy and scipy."""
    campaign.boots(noise(1, 1), noise(2, 1))
    words, file = campaign.words(), str(tmp_path / "gates.toml")
    campaign.base.chmod(0o555)  # runs are only read
    absent = str(tmp_path / "absent")
    pairs = [
        (["gate", absent, absent], "absent: no such file or directory"),
        (["gate", "", absent], "the path is empty"),
        (["gate", words[1], file], "gates.toml is no directory"),
        ([*words, "--placebo", absent], "absent: no such file or directory"),
        ([*words, "--gates", "defalt"], "Did you mean default?"),
        ([*words, "--gates", "c2c"], "there is no gates file 'c2c'"),
        ([*words, "--gates", f"{absent}.toml"], "absent.toml: no such file"),
        ([*words, "--json", str(tmp_path)], "is a directory; name a file"),
        ([*words, "--json", f"{file}/x.json"], "is no directory"),
        ([*words, "--html", f"{file}/x.html"], "is no directory"),
        (words[:2], "CANDIDATE: no directory of runs was named"),
        (["gate"], "BASE and CANDIDATE: no directory of runs was named"),
        ([*words, "--html", f"{absent}/new/x.html", "--json", f"{absent}.json"], ""),
    ]
    found = said_without_libraries(gate_verb, [line for line, _ in pairs])
    for (line, expected), said in zip(pairs, found, strict=True):
        assert expected in said if expected else said == "", (line, said)


def test_the_page_needs_more_libraries_than_the_verdict(campaign: Campaign) -> None:
    campaign.boots(noise(1, 1), noise(2, 1))
    for more, files in (
        ([], ("core", "gate")),
        (["--html", str(campaign.place / "x.html")], ("core", "report")),
    ):
        arguments = parsed(gate_verb, campaign.words(*more))
        assert arguments.libraries(arguments.read(arguments)) == files
    report, page = "schedlib.gate.gate_report", "schedlib.gate.gate_page"
    assert importable(report, page, without=["numpy", "matplotlib", "jinja2"]) == (report,)


def test_unreadable_file(campaign: Campaign) -> None:
    campaign.boots(noise(1), noise(2))
    (campaign.base / "gone.json").symlink_to("nowhere")
    assert "is no run-1: No such file" in refused(campaign)


def rows(campaign: Campaign, names: Sequence[str]) -> None:
    """In each boot, run one program in several ways, as the rows of a suite do."""
    for side, factor in ((campaign.base, 1.0), (campaign.candidate, 1.25)):
        for number, value in enumerate(noise(1, factor=factor)):
            slot = 20 * number + 10 * (side == campaign.candidate)
            for place, name in enumerate(names):
                same = 10_000.0 + 7 * number
                content = run(side.name, f"{side.name}-{number}", slot + place, [metric(value if place else same)])
                content["fingerprint"]["command_line"] = f"rt_wakeup --interval-us {place}"
                content["plan"] = {"suite": "rt", "digest": "0", "row": name, "run": 1, "seed": 1}
                campaign.save(side, content)


def test_a_row_that_alone_runs_a_program_has_its_name(campaign: Campaign) -> None:
    rows(campaign, ["wakeup-slow"])
    assert main(campaign.words()) == 0


def test_rows_of_one_program_are_tools_of_their_own(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    rows(campaign, ["wakeup-slow", "wakeup-fast"])
    assert "there are runs of: wakeup-fast, wakeup-slow" in refused(campaign)
    campaign.gates = GATES.replace('tool = "rt_wakeup"', 'tool = "wakeup-slow"')
    assert main(campaign.words()) == 0
    campaign.gates = GATES.replace('tool = "rt_wakeup"', 'tool = "wakeup-fast"')
    assert main(campaign.words()) == 1
    assert "verdict: FAIL" in printed(capsys)
