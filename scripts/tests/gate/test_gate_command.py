# SPDX-License-Identifier: GPL-2.0
"""The gate as a user sees it: verdicts, exit codes, its output, and every kind of bad input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from campaigns import GATES, Campaign, main, metric, noise, rewrite, run

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


QUIET = [10_000.0 + place for place in range(10)]
COARSE = [20.0 + (place == 3) for place in range(10)]
LOUD = [10_000.0 * (1 + (place * 7 % 5) / 4) for place in range(20)]
RATE = {"name": "rate_per_s", "direction": "higher", "kind": "rate"}
HIGHER = GATES.replace('"lower"', '"higher"').replace("timer.p99", "rate_per_s")
EXACT = GATES.replace("timer.p99", "bits").replace('"rank"', '"equal"')
BITS = {"name": "bits", "unit": "bits", "kind": "exact"}
MISSED = (
    GATES.replace("timer.p99", "timer.missed")
    .replace('"rank"', '"rate"')
    .replace("budget = 3\ndetect = 25", "budget = 500\ndetect = 5000")
)
COUNTS = {"name": "timer.missed", "kind": "exceedance", "n": 10_000}


def ticks(tick: float, seed: int, factor: float = 1.0) -> list[float]:
    """Values of a clock with this step."""
    return [tick * (value // tick) or 1.0 for value in noise(seed, factor=factor)]


CASES: list[tuple[str, Sequence[float], Sequence[float], int, str, dict[str, Any]]] = [
    ("the same kernels", noise(1), noise(2), 0, "10 boots, 30 runs", {"runs": 3}),
    ("a regression at the first look", noise(1), noise(2, factor=1.25), 1, "verdict: FAIL", {}),
    ("until 20 boots more are asked for", noise(19), noise(20, factor=1.07), 3, "boot each kernel 10 more times", {}),
    ("20 boots are the end", LOUD, LOUD[3:] + LOUD[:3], 3, "of each would settle it: the last look of this gate", {}),
    ("above the budget by all of the interval", QUIET, [1.05 * each for each in QUIET], 1, "FAIL", {}),
    ("0 to 10 %, as the clock is", COARSE, [each + 1 for each in COARSE], 3, "finer clock", {}),
    ("+10 % on a clock of 0.01 %", ticks(1.0, 1), ticks(1.0, 2, 1.1), 1, "worse than the budget", {}),
    ("+10 % on one of 10 %", ticks(1e3, 1), ticks(1e3, 2, 1.1), 3, "10 more times", {}),
    ("+10 % on one of 200 %", ticks(2e4, 1), ticks(2e4, 2, 1.1), 3, "measure with a finer clock", {}),
    ("a base of one value", [2.0] * 10, [2.0] * 10, 3, "the same value", {}),
    ("a base of one value, and half more", [2.0] * 10, [3.0] * 10, 3, "the same value", {}),
    ("a base of one value, and ten times more", [2.0] * 10, [20.0] * 10, 1, "FAIL", {}),
    ("more boots of one kernel", noise(1), [*noise(2), 5e4, 5e4 + 1, 5e4 + 2], 0, "not judged: 3 of the candidate", {}),
    ("an order that repeats itself", noise(1), noise(2), 0, "the boots go ABAB all the time", {"order": "turns"}),
    ("one kernel after the other", noise(1), noise(2, factor=1.5), 3, "a drift could look like", {"order": "blocks"}),
    (
        "too few",
        noise(1, 7),
        noise(2, 6, factor=1.5),
        3,
        "boot 3 more of the base and 4 more of the candidate; the",
        {},
    ),
    ("higher is better", noise(1), noise(2, factor=0.8), 1, "FAIL", {"gates": HIGHER, **RATE}),
    ("nothing is left", noise(1), [0.0] * 10, 1, "FAIL", {"gates": HIGHER, **RATE}),
    ("exact, and equal", [4.0], [4.0], 0, "PASS", {"gates": EXACT, **BITS}),
    ("exact, and more", [4.0], [5.0], 1, "4 became 5", {"gates": EXACT, **BITS}),
    ("exact, and less", [4.0], [3.0], 0, "better: 4 became 3", {"gates": EXACT, **BITS}),
    ("not exact", [4.0, 5.0], [5.0], 3, "not exact", {"gates": EXACT, **BITS}),
    ("few exceedances", [2, 3, 4] * 7, [2, 3, 4] * 7, 0, "PASS", {"gates": MISSED, **COUNTS}),
    ("many exceedances", [2, 3, 4] * 7, [60, 61, 62] * 7, 1, "FAIL", {"gates": MISSED, **COUNTS}),
]


@pytest.mark.parametrize(
    ("base", "candidate", "code", "said", "more"), [each[1:] for each in CASES], ids=[each[0] for each in CASES]
)
def test_verdict(
    campaign: Campaign,
    capsys: pytest.CaptureFixture[str],
    base: Sequence[float],
    candidate: Sequence[float],
    code: int,
    said: str,
    more: dict[str, Any],
) -> None:
    campaign.gates = more.get("gates", GATES)
    campaign.boots(base, candidate, **{name: value for name, value in more.items() if name != "gates"})
    assert main(campaign.words()) == code
    found = capsys.readouterr().out
    assert said in " ".join(found.split()) and " -0 " not in found
    assert found.endswith(("verdict: PASS\n", "verdict: FAIL\n", "verdict: INCONCLUSIVE\n"))
    assert max(map(len, found.splitlines())) <= 72


def test_the_next_look_decides_and_later_boots_do_not_count(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign.boots(noise(19), noise(20, factor=1.07))
    campaign.boots(noise(3), noise(4, factor=1.07), first=10_000)
    assert main(campaign.words()) == 1
    campaign.boots(noise(5, 30), noise(6, 30), first=20_000)
    capsys.readouterr()
    assert main(campaign.words()) == 1
    assert "later boots, not judged: 30 of the base and 30 of the candidate" in printed(capsys)


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


def test_a_clock_whose_runs_are_averaged(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """7 us against 6 us, 15 % worse or not at all: a step of the means was a fifth of the clock's, and gave PASS."""
    for name, odd in (("base", 5.0), ("candidate", 7.0)):
        for place in range(10):
            for number in range(5):
                minute = 20 * place + 10 * ((place % 3 == 1) ^ (name == "candidate")) + number
                value = odd if number == 0 and place % 2 else 6.0
                campaign.save(campaign.place / name, run(name, f"{name}{place}", minute, [metric(value)]))
    campaign.gates = GATES.replace("detect = 25", "detect = 15")
    assert main(campaign.words()) == 3
    assert "one step of the clock is 16" in printed(capsys)


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


def test_zero_in_the_base_has_no_percentage(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    campaign.unit = "retries"
    campaign.boots([0.0] * 10, noise(2))
    assert "percent of 0" in refused(campaign)
    campaign.gates = GATES.replace("budget = 3\n", "absolute = true\nbudget = 3\n")
    assert main(campaign.words()) == 3
    assert "the same value" in printed(capsys)


def _emptied(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda there: there.save(there.candidate, run("candidate", "x", 500, [metric(-5.0)])), "timer.p99 is below 0"),
        (lambda there: there.save(there.candidate, run("candidate", "x", 500, [metric(1, unit="us")])), "another unit"),
        (lambda there: shutil.rmtree(there.base), "base: no such file or directory"),
        (lambda there: [path.unlink() for path in there.base.iterdir()], "holds no run file"),
        (lambda there: [path.unlink() for path in there.candidate.iterdir()], "holds no run file"),
        (lambda there: shutil.copy(there.base / "00000.json", there.base / "copy.json"), "appears twice"),
        (lambda there: shutil.copy(there.base / "00000.json", there.candidate), "mixes runs whose build_id differs"),
        (lambda there: (there.base / "gone.json").symlink_to("nowhere"), "is no run-1: No such file"),
    ],
)
def test_runs_that_are_refused(
    change: Callable[[Campaign], object], said: str, campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign.boots(noise(1), noise(2))
    change(campaign)
    with pytest.raises((SchedlineError, SystemExit)) as error:
        main(campaign.words())
    assert said in str(error.value) + capsys.readouterr().err


@pytest.mark.parametrize("entry", ["machine", "configuration", "governor", "kernel_command_line", "libc", "new_entry"])
def test_fingerprints_that_differ(campaign: Campaign, entry: str) -> None:
    campaign.boots(noise(1), noise(2))
    for count, said in ((1, f"{entry} differs"), (10, f"{entry} differs between base and candidate")):
        rewrite(campaign.candidate, lambda run: run["fingerprint"].update({entry: "another"}), count)
        assert said in refused(campaign)
    campaign.gates = GATES.replace("looks = [10, 20]", f'looks = [10]\nmay_differ = ["kernel", "build_id", "{entry}"]')
    assert main(campaign.words()) == 0


def test_names_of_files_are_no_difference(campaign: Campaign) -> None:
    campaign.boots(noise(1), noise(2))
    other = {"kernel_command_line": "BOOT_IMAGE=/boot/other initrd=/i ro quiet"}
    other |= {"command_line": "/opt/rt_wakeup --json /other.json"}
    rewrite(campaign.candidate, lambda run: run["fingerprint"].update(other))
    assert main(campaign.words()) == 0


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
    for count, said in ((1, "1 of 10 boots lack it"), (10, "candidate lacks it")):
        rewrite(campaign.candidate, lambda run: run["metrics"][0].update(name="other"), count)
        assert main(campaign.words()) == 2
        assert said in printed(capsys)


def test_absent_with_a_reason_is_inconclusive(campaign: Campaign) -> None:
    campaign.boots(noise(1), noise(2))
    campaign.gates += GATES[GATES.index("[[metric]]") :].replace("timer.p99", "cycles.p99")
    for side in (campaign.base, campaign.candidate):
        rewrite(side, lambda run: run.update(absent=[{"name": "cycles", "reason": "this machine counts none"}]))
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


def test_rows_of_a_program(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """A row that alone runs a program has its name; rows that share one are tools of their own."""
    other = Campaign(campaign.place / "other")
    rows(other, ["wakeup-slow"])
    assert main(other.words()) == 0
    rows(campaign, ["wakeup-slow", "wakeup-fast"])
    assert "there are runs of: wakeup-fast, wakeup-slow" in refused(campaign)
    for tool, code in (("wakeup-slow", 0), ("wakeup-fast", 1)):
        campaign.gates = GATES.replace('tool = "rt_wakeup"', f'tool = "{tool}"')
        assert main(campaign.words()) == code
