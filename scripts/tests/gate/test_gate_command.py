# SPDX-License-Identifier: GPL-2.0
"""The gate as a user sees it: verdicts, exit codes, its output, and every kind of bad input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from campaigns import GATES, RUN_PLAN, TO_20, Campaign, main, metric, minute_of, noise, rewrite, run, told

from by_schema import validate
from one_verb import importable, parsed, said_without_libraries
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.gate import gate_verb
from schedlib.gate.gate_options import UNFINISHED
from schedlib.gate.rules import load_gate
from schedlib.paths import PLAN


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    return Campaign(tmp_path)


QUIET = [10_000.0 + place for place in range(10)]
COARSE = [20.0 + (place == 3) for place in range(10)]
LOUD = [10_000 * (value / 10_000) ** 9 for value in noise(7, 20)]
RATE = {"name": "rate_per_s", "direction": "higher", "kind": "rate"}
HIGHER = GATES.replace('"lower"', '"higher"').replace("timer.p99", "rate_per_s")
EXACT = GATES.replace("timer.p99", "bits").replace('"rank"', '"equal"')
BITS = {"name": "bits", "unit": "bits", "kind": "exact"}
MISSED = (
    GATES.replace("timer.p99", "timer.missed")
    .replace('"rank"', '"rate"')
    .replace("budget = 3\ndetect = 25", "budget = 500\ndetect = 5000")
)
ABSOLUTE = GATES.replace("budget = 3\n", "absolute = true\nbudget = 3\n")
FRAMES = {"gates": GATES.replace("lower", "higher"), "direction": "higher", "unit": "frames/s"}
COUNTS = {"name": "timer.missed", "kind": "exceedance", "n": 10_000}
UP_TO_20 = {"gates": TO_20}
AT_15 = GATES.replace("detect = 25", "detect = 15")
FEW = {"gates": MISSED, **COUNTS, "n": 10}


def ticks(tick: float, seed: int, factor: float = 1.0) -> list[float]:
    """Values of a clock with this step."""
    return [tick * (value // tick) or 1.0 for value in noise(seed, factor=factor)]


def loud(seed: int) -> list[float]:
    """Noise of 25 %, and a boot that is ten times slower."""
    values = [10_000 * (value / 10_000) ** 5 for value in noise(seed, 20)]
    return [*values[:3], 10 * values[3], *values[4:]]


Case = tuple[str, Sequence[float], Sequence[float], int | None, str, dict[str, Any]]
CASES: list[Case] = [
    ("the same kernels", noise(1), noise(2), 0, "10 boots, 30 runs", {"runs": 3}),
    ("a regression at the first look", noise(1), noise(2, factor=1.25), 1, "verdict: FAIL", {}),
    (
        "until 20 boots more are asked for",
        noise(19),
        noise(20, factor=1.07),
        3,
        "boot each kernel 10 more times",
        UP_TO_20,
    ),
    (
        "20 boots are the end",
        LOUD,
        [1.001 * each for each in LOUD[3:] + LOUD[:3]],
        3,
        "of each would settle it: the last look of this gate",
        UP_TO_20,
    ),
    (
        "a PASS takes 20 boots",
        noise(1),
        noise(2),
        3,
        "nothing speaks against it; a PASS takes 20 boots: boot",
        UP_TO_20,
    ),
    ("above the budget by all of the interval", QUIET, [1.05 * each for each in QUIET], 1, "FAIL", {}),
    ("0 to 10 %, as the clock is", COARSE, [each + 1 for each in COARSE], 3, "finer clock", {}),
    ("+10 % on a clock of 0.01 %", ticks(1.0, 1), ticks(1.0, 2, 1.1), 1, "worse than the budget", {}),
    ("+10 % on one of 10 %", ticks(1e3, 1), ticks(1e3, 2, 1.1), 3, "10 more times", UP_TO_20),
    ("+10 % on one of 200 %", ticks(2e4, 1), ticks(2e4, 2, 1.1), 3, "measure with a finer clock", {}),
    ("a base of one value", [2.0] * 10, [2.0] * 10, 3, "the same value", {}),
    ("a base of one value, and half more", [2.0] * 10, [3.0] * 10, 3, "the same value", {}),
    ("a base of one value, and ten times more", [2.0] * 10, [20.0] * 10, 1, "FAIL", {}),
    ("more boots of one kernel", noise(1), [*noise(2), *noise(3, 3)], 0, "not judged: 3 of the candidate", {}),
    (
        "and they are bad",
        noise(1),
        [*noise(2), 5e4, 5e4 + 1, 5e4 + 2],
        3,
        "behind the 10 that were judged: candidate",
        {},
    ),
    ("one of 40 is bad, and late", noise(1, 40), [*noise(2, 39), 1e5], 3, "20 that were judged: candidate", UP_TO_20),
    ("19 boots", noise(1, 20), noise(2, 19), 3, "a PASS takes 20 boots: boot 1 more of the candidate, in", UP_TO_20),
    ("a third is bad, and last", noise(1, 15), noise(2) + noise(4, 5, 1.5), 3, "behind the 10 that were judged", {}),
    ("as many bad ones of both", noise(1) + noise(3, 5, 3), noise(2) + noise(5, 5, 3), 0, "later boots", {}),
    ("an order that repeats itself", noise(1), noise(2), 0, "the boots go ABAB all the time", {"order": "turns"}),
    ("one kernel after the other", noise(1), noise(2, factor=1.5), 3, "a drift could look like", {"order": "blocks"}),
    ("too few", noise(1, 7), noise(2, 6), 3, "boot 3 more of the base and 4 more of the candidate; the", {}),
    ("higher is better", noise(1), noise(2, factor=0.8), 1, "FAIL", {"gates": HIGHER, **RATE}),
    ("nothing is left", noise(1), [0.0] * 10, 1, "FAIL", {"gates": HIGHER, **RATE}),
    ("exact, and equal", [4.0], [4.0], 0, "PASS", {"gates": EXACT, **BITS}),
    ("exact, and more", [4.0], [5.0], 1, "4 became 5", {"gates": EXACT, **BITS}),
    ("exact, and less", [4.0], [3.0], 0, "better: 4 became 3", {"gates": EXACT, **BITS}),
    ("not exact", [4.0, 5.0], [5.0], 3, "not exact", {"gates": EXACT, **BITS}),
    ("0 in the base", [0.0] * 10, noise(2), None, "percent of 0", {"unit": "retries"}),
    ("0 in the base, in its unit", [0.0] * 10, noise(2), 3, "the same value", {"unit": "retries", "gates": ABSOLUTE}),
    ("a hundred times the throughput", noise(1), noise(2, factor=1000), 3, "in another unit than frames/s?", FRAMES),
    ("boots with new ids and times", noise(1, 5) * 4, noise(2, 20), None, "same figures, to the last digit", {}),
    (
        "too few bad boots to matter",
        loud(4),
        loud(54),
        3,
        "it may be worse by up to 26.2 %; a PASS excludes 25 %",
        UP_TO_20,
    ),
    ("few exceedances", [2, 3, 4] * 7, [2, 3, 4] * 7, 0, "PASS", {"gates": MISSED, **COUNTS}),
    ("exceedances of 10 samples", [0] * 10, [0] * 10, 3, "take more than 200 samples", FEW),
    ("most of 10 samples", [0] * 10, [9] * 10, 1, "FAIL", FEW),
    ("a clock that is coarse on one side", noise(1), ticks(5e3, 2), 3, "one step of the clock is 49.1 %", {}),
    (
        "22 us beside 20",
        [19, 20, 20, 19, 20] * 2,
        [20, 19, 20, 21, 20, 20, 19, 20, 20, 22],
        0,
        "PASS",
        {"gates": AT_15},
    ),
    (
        "7 or 8 us on both sides",
        [7, 8, 7, 8, 7] * 2,
        [7, 7, 8, 8, 7] * 2,
        3,
        "step of the clock is 14.3 %",
        {"gates": AT_15},
    ),
    ("one value on one side", noise(1), [10_000.0] * 10, 3, "same value, and not those of the base", {}),
    ("one value on one side, and half more", noise(1), [15_000.0] * 10, 1, "FAIL", {}),
    ("many exceedances", [2, 3, 4] * 7, [60, 61, 62] * 7, 1, "FAIL", {"gates": MISSED, **COUNTS}),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_verdict(case: Case, campaign: Campaign) -> None:
    _, base, candidate, code, said, more = case
    campaign.gates = more.get("gates", GATES)
    campaign.boots(base, candidate, **{name: value for name, value in more.items() if name != "gates"})
    found, text = campaign.told()
    assert (found, said in text) == (code, True) and " -0 " not in text
    assert code is None or text.endswith(("verdict: PASS", "verdict: FAIL", "verdict: INCONCLUSIVE"))


def test_the_next_look_decides_and_later_boots_do_not_count(campaign: Campaign) -> None:
    campaign.gates = TO_20
    campaign.boots(noise(19), noise(20, factor=1.07))
    campaign.boots(noise(3), noise(4, factor=1.07), first=10_000)
    assert campaign.told()[0] == 1
    campaign.boots(noise(5, 30), noise(6, 30), first=20_000)
    code, said = campaign.told()
    assert code == 1 and "later boots, not judged: 30 of the base and 30 of the candidate" in said


@pytest.mark.parametrize(("seconds", "code"), [(0, 0), (1, 3), (6, 3)])
def test_boots_that_are_far_from_all_others(campaign: Campaign, seconds: int, code: int) -> None:
    """6 of 20 boots that were ten times slower gave PASS."""
    campaign.gates = TO_20
    campaign.boots(noise(1), [10 * value if place < seconds else value for place, value in enumerate(noise(2))])
    found, said = campaign.told()
    # Of 20 boots at most two may be bad.
    assert (found, "a PASS takes 20 boots: boot each kernel 10 more times" in said) == (3, seconds != 6)
    campaign.boots(noise(3), noise(4), first=10_000)
    found, said = campaign.told()
    assert (found, "A PASS has at most 10 % of bad boots: look at these boots" in said) == (code, seconds == 6)


@pytest.mark.parametrize("direction", ["lower", "higher"])
def test_a_base_of_two_groups(direction: str, campaign: Campaign) -> None:
    """It asked for 54 boots of each kernel, after which 1 % of such campaigns pass."""
    campaign.gates = TO_20.replace("lower", direction)
    for start in (0, 10):
        slow = ((1, 3, 5, 7, 9), (0, 1, 4, 5, 6, 7))
        sides = [
            [value * (1 + (place in which)) for place, value in enumerate(noise(seed + start))]
            for seed, which in enumerate(slow)
        ]
        campaign.boots(*sides, first=1000 * start, direction=direction)
        code, said = campaign.told()
        assert (
            code == 3 and f"the base's boots fall into two groups: {5 + start // 2} of {10 + start} are worse" in said
        )
        assert "More boots hardly help: find what makes them slow" in said and "would settle it" not in said


def test_a_clock_whose_runs_are_averaged(campaign: Campaign) -> None:
    """7 us against 6 us, 15 % worse or not at all: a step of the means was a fifth of the clock's, and gave PASS."""
    for name, odd in (("base", 5.0), ("candidate", 7.0)):
        for place in range(10):
            for number in range(5):
                minute = 20 * place + 10 * ((place % 3 == 1) ^ (name == "candidate")) + number
                value = odd if number == 0 and place % 2 else 6.0
                campaign.save(campaign.place / name, run(name, f"{name}{place}", minute, [metric(value)]))
    campaign.gates = AT_15
    code, said = campaign.told()
    assert code == 3 and "one step of the clock is 16" in said


def test_the_first_ten_lines(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """They say what was compared, and how the attempts ended, however many metrics are not settled."""
    tools = [f"tool_{number}" for number in range(9)]
    campaign.gates = TO_20 + "".join(METRIC.replace("rt_wakeup", tool) for tool in tools)
    for number, tool in enumerate(("rt_wakeup", *tools)):
        campaign.boots(noise(number), noise(20 + number, factor=1 + number / 200), tool=tool)
    for lost, verdict in ((0, "INCONCLUSIVE"), (5, "INCONCLUSIVE"), (20, "FAIL")):
        began(campaign, lost)
        main(campaign.words())
        lines = capsys.readouterr().out.splitlines()[:10]
        assert lines[0].startswith(f"{verdict}: ") and " ".join(lines).count("more below") == (lost < 20)
        assert {line.split(":")[0] for line in lines} >= {"base", "candidate"}
        assert f"candidate lost {lost} of {10 + lost} attempts" in " ".join(line.strip() for line in lines)


def test_bad_boots_of_a_candidate_that_passes_are_named(campaign: Campaign) -> None:
    """Those of the base were, in the second line, and those of the candidate below the tables."""
    campaign.gates = TO_20
    campaign.boots(
        *([value * (1 + (place in (3, 12))) for place, value in enumerate(noise(seed, 20))] for seed in (1, 2))
    )
    code, said = campaign.told()
    places = [said.index(f"the {name} has bad boots") for name in ("base", "candidate")]
    assert code == 0 and max(places) < said.index(" base: 7.3.4-base")
    assert "candidate has bad boots, 2 of 20: candidate-0-12, candidate-0-3 " in said


def test_json_is_of_its_schema(campaign: Campaign, tmp_path: Path) -> None:
    campaign.boots(noise(1, 3), noise(2, 3))
    main(campaign.words("--json", str(tmp_path / "few.json")))
    campaign.boots(noise(3), noise(4, factor=1.3), first=10_000)
    main(campaign.words("--json", str(tmp_path / "many.json")))
    for name in ("few", "many"):
        document = json.loads((tmp_path / f"{name}.json").read_text())
        validate(document, "gate-4")
    assert document["fingerprint"]["governor"] == "performance"


# ---- campaigns that are changed: ten good boots of each kernel, and what is done to them ----

Run = dict[str, Any]
Change = Callable[[Campaign], object]


def each(side: str, change: Callable[[Run], object], count: int = 1000) -> Change:
    """Change the first run files of a kernel."""
    return lambda there: rewrite(there.place / side, change, count)


def of_metric(**more: Any) -> Callable[[Run], object]:
    return lambda run: run["metrics"][0].update(more)


def of_run(**more: Any) -> Callable[[Run], object]:
    return lambda run: run.update(more)


def of_print(**more: str) -> Callable[[Run], object]:
    return lambda run: run["fingerprint"].update(more)


def without(entry: str, side: str, count: int = 5) -> Change:
    return each(side, lambda run: run["fingerprint"].pop(entry), count)


def faster(factor: float) -> Callable[[Run], object]:
    return lambda run: run["metrics"][0].update(value=factor * run["metrics"][0]["value"])


def boot(value: float, minute: float = 500, **about: Any) -> Change:
    """One more boot of the candidate."""
    return lambda there: there.save(there.candidate, run("candidate", "x", minute, [metric(value, **about)]))


def gates(old: str, new: str) -> Change:
    return lambda there: setattr(there, "gates", there.gates.replace(old, new))


def skipped(there: Campaign) -> None:
    for place in range(10, 14):
        minute = minute_of("candidate", place)
        there.save(there.candidate, run("candidate", f"y{place}", minute, [], status="SKIP", reason="no FIFO"))


def empty(there: Path) -> None:
    for path in there.iterdir():
        path.unlink()


def began(there: Campaign, lost: int) -> None:
    """Boots of the candidate that left a plan and no run."""
    for at in range(lost):
        document.write(there.candidate / f"lost-{at}" / PLAN, RUN_PLAN)


def second_tool(there: Campaign) -> None:
    there.gates += METRIC.replace("rt_wakeup", "sleep_storm")
    there.boots(noise(3), noise(4), tool="sleep_storm", first=3000, order="blocks")


METRIC = GATES[GATES.index("\n[[metric]]") :]
FILES = {"kernel_command_line": "BOOT_IMAGE=/boot/other initrd=/i ro quiet"}
FILES |= {"command_line": "/opt/rt_wakeup --json /other.json"}
CYCLES = METRIC.replace("timer.p99", "cycles.p99")
NO_CYCLES = of_run(absent=[{"name": "cycles", "reason": "this machine counts none"}])
SHARES = ("steal_percent", "interrupts_percent", "realtime_percent", "throttled", "others_percent")
STILL = of_run(disturbance={**dict.fromkeys(SHARES, 0), "why": ""})
NO_PLAN = "No plan: boots that crashed before their first run are not seen"
AT_ONE_TIME = each("candidate", of_run(started="2026-11-01T00:00:30Z"))

BAD_GATES = [
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
    ("looks = [10]", "looks = [2]", "gates.toml:3: gate.looks"),
    ("looks = [10]", "looks = [20, 10]", "do not ascend"),
    ("looks = [10]", "lokos = [10]", "gates.toml:3: gate.lokos is unknown\n  next: did you mean looks?"),
    (METRIC, "", "pass everything"),
    (
        "looks = [10]",
        "looks = [10]" + GATES[GATES.index("\n[[metric]]") :],
        "metric has rt_wakeup timer.p99 twice",
    ),
]
"""What becomes of a part of the gates file, and why it is refused."""

ENTRIES = ("machine", "configuration", "governor", "kernel_command_line", "libc", "new_entry")
"""Of the fingerprint."""


def allowed(entry: str) -> Change:
    return gates("looks = [10]", f'looks = [10]\nmay_differ = ["kernel", "build_id", "{entry}"]')


CHANGES: Sequence[tuple[Sequence[Change], int | None, str]] = [
    ([boot(-5.0)], None, "timer.p99 is below 0"),
    ([boot(1, unit="us")], None, "another unit"),
    ([lambda there: shutil.rmtree(there.base)], None, "base: no such file or directory"),
    ([lambda there: empty(there.base)], None, "holds no run file"),
    ([lambda there: empty(there.candidate)], None, "holds no run file"),
    ([lambda there: shutil.copy(there.base / "00000.json", there.base / "copy.json")], None, "appears twice"),
    ([lambda there: shutil.copy(there.base / "00000.json", there.candidate)], None, "runs whose build_id differs"),
    ([lambda there: (there.base / "gone.json").symlink_to("nowhere")], None, "is no run-1: No such file"),
    # A link to itself hides nothing.
    ([lambda there: (there.base / "loop").symlink_to("loop")], 0, ""),
    ([lambda there: (there.base / "loop.json").symlink_to("loop.json")], None, "Too many levels of symbolic links"),
    *(([gates(old, new)], None, said) for old, new, said in BAD_GATES),
    *(([each("candidate", of_print(**{name: "x"}), 1)], None, f"{name} differs") for name in ENTRIES),
    *(([each("candidate", of_print(**{name: "x"}))], None, f"{name} differs: ") for name in ENTRIES),
    *(([each("candidate", of_print(**{name: "x"})), allowed(name)], 0, "") for name in ENTRIES),
    # Names of files are no difference.
    ([each("candidate", of_print(**FILES))], 0, ""),
    ([gates("timer.p99", "timer.p98")], None, "unknown metric: no run of rt_wakeup has timer.p98"),
    ([gates("timer.p99", "timer.p98")], None, "correct the gates file; the runs have: timer.p99"),
    ([gates("rt_wakeup", "netperf")], None, "no run of netperf"),
    # A metric that one side lacks never passes.
    ([each("candidate", of_metric(name="other"), 1)], 2, "1 of 10 boots lack it"),
    ([each("candidate", of_metric(name="other"))], 2, "candidate lacks it"),
    (
        [gates("\n[[metric]]", f"{CYCLES}\n[[metric]]"), each("base", NO_CYCLES), each("candidate", NO_CYCLES)],
        3,
        "not measured",
    ),
    # Of the second tool the kernels were measured one after the other: a drift failed, or passed, every time.
    ([second_tool], 3, "so a drift could look like a change"),
    # A candidate that crashed in a third of its boots passed, if somebody booted until the numbers were equal.
    ([lambda there: began(there, 0)], 0, f"candidate lost 0 of 10 attempts. {NO_PLAN}"),
    ([lambda there: began(there, 5)], 3, "candidate lost 5 of 15 attempts (lost-0 has no run; lost-1 has no run"),
    ([lambda there: began(there, 15)], 1, "candidate lost 15 of 25 attempts"),
    ([lambda there: began(there, 15)], 1, NO_PLAN),
    ([skipped], 2, "candidate: no run of rt_wakeup in 4 of 14 boots"),
    # Without a clock all boots began in one minute of 2026, and a drift was a change in 6 of 20 campaigns.
    ([AT_ONE_TIME], None, "which one machine cannot do: its clock was not set"),
    (
        [AT_ONE_TIME, gates("[gate]", '[gate]\norder = "any"')],
        0,
        "in any order, so a drift could look like a change, or hide one looked at",
    ),
    ([each("base", of_run(started="1970-01-01T00:03:00Z"), 1)], None, "that clock was not set, and the order of the"),
    ([each("base", of_run(started="0001-01-01T00:00:00+14:00"), 1)], None, "that clock was not set, and the order"),
    ([each("base", of_run(started="9999-12-31T23:59:59-14:00"), 1)], None, "that clock was not set, and the order"),
    # An entry that half of the runs lack is a difference.
    ([without("governor", "base"), without("governor", "candidate")], None, "governor differs: '(not recorded)'"),
    ([without("clocksource", "base"), without("clocksource", "candidate")], None, "clocksource differs: '(not rec"),
    ([without("compiler", "base"), without("compiler", "candidate")], None, "compiler differs: '(not recorded)'"),
    (
        [without("governor", "candidate", 10)],
        None,
        "governor differs: 'performance' in base, '(not recorded)' in candidate",
    ),
    ([each("base", STILL)], 3, "what happened beside rt_wakeup is recorded in one of base and candidate alone"),
    # A kernel that stalls takes fewer samples; and no kernel is a thousand times faster.
    ([each("candidate", of_metric(n=850))], 0, ""),
    ([each("candidate", of_metric(n=600))], 3, "has 1000 samples and that of the candidate 600"),
    ([each("candidate", of_metric(n=600), 4)], 0, ""),
    ([each("base", of_metric(n=90)), each("candidate", of_metric(n=90))], None, "of fewer than 100 it is a maximum"),
    ([each("candidate", of_metric(n=100), 5)], 3, "Was a run cut short?"),
    ([each("candidate", of_metric(n=400))], 3, "has 1000 samples and that of the candidate 400"),
    ([each("candidate", faster(0.02))], 0, ""),
    ([each("candidate", faster(0.001))], 3, "is it in another unit than ns?"),
    ([each("candidate", faster(0.001), 5)], 3, "is it in another unit than ns?"),
    # A boot with far more samples, in the place of another one.
    ([lambda there: (there.candidate / "00019.json").unlink(), boot(10_001, 195, n=100_000)], 3, "x has 100000"),
    ([lambda there: (there.candidate / "00019.json").unlink(), boot(10_001, 195, n=1_900)], 0, ""),
]


@pytest.mark.parametrize(("changes", "code", "said"), CHANGES)
def test_a_campaign_that_is_changed(changes: Sequence[Change], code: int | None, said: str, campaign: Campaign) -> None:
    campaign.boots(noise(1), noise(2))
    for change in changes:
        change(campaign)
    found, text = campaign.told(*(["--incomplete", "boots of its own"] if second_tool in changes else []))
    assert (found, said in text) == (code, True)


@pytest.mark.parametrize("name", ["us", "msec", "sec", "seconds", "ticks", "unknown"])
def test_a_thousandth_of_a_time_is_another_unit(name: str, campaign: Campaign) -> None:
    campaign.unit = name
    campaign.boots(noise(1), noise(2, factor=0.001))
    code, said = campaign.told()
    assert code == 3 and f"is it in another unit than {name}?" in said


def test_two_boots_that_began_in_one_second(campaign: Campaign) -> None:
    campaign.boots(noise(1), noise(2))
    rewrite(campaign.candidate, of_run(started="2026-11-01T00:00:00Z", uptime_s=0.0), 1)
    assert "which one machine cannot do" in campaign.told()[1]


def test_boots_behind_the_look_that_passes(campaign: Campaign) -> None:
    """A PASS at ten boots hid ten more that were half slower."""
    campaign.boots(noise(1, 20), [value * (1 + (place >= 10) / 2) for place, value in enumerate(noise(2, 20))])
    code, said = campaign.told()
    assert code == 3 and "all 20 boots of each kernel look worse than the first 10" in " ".join(said.split())


def test_a_run_that_was_cut_beside_whole_ones(campaign: Campaign) -> None:
    """The samples of a boot were compared, and not those of its runs."""
    campaign.boots(noise(1), noise(2), runs=3)
    rewrite(campaign.candidate, of_metric(n=150), 1)
    code, said = campaign.told()
    assert code == 3 and "has 150 samples and one of boot" in " ".join(said.split())


def test_threads_that_never_ran(campaign: Campaign) -> None:
    """Those of cyclictest alone were looked at."""
    campaign.boots(noise(1), noise(2))
    idle = {"name": "timer.idle_threads", "unit": "threads", "direction": "lower", "kind": "exact", "value": 1, "n": 1}
    rewrite(campaign.candidate, lambda run: run["metrics"].append(idle), 1)
    code, said = campaign.told()
    assert code == 2 and "not every thread ran" in " ".join(said.split())


def test_boots_with_a_tenth_of_the_work(campaign: Campaign) -> None:
    """Throughput of runs that were cut short was judged as that of whole ones."""
    campaign.gates = HIGHER
    campaign.boots(noise(1), noise(2), name="rate_per_s", direction="higher", kind="rate")
    rewrite(campaign.candidate, of_metric(n=100), 5)
    code, said = campaign.told()
    assert code == 3 and "has 100 samples and one of boot candidate-0-9 has 1000" in said
    rewrite(campaign.candidate, of_metric(n=100))
    code, said = campaign.told()
    assert code == 3 and "has 1000 samples and that of the candidate 100" in said
    # A kernel that is slower gets less done.
    rewrite(campaign.candidate, lambda run: run["metrics"][0].update(value=run["metrics"][0]["value"] / 10))
    assert campaign.told()[0] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--incomplete", " "], "--incomplete gives no reason"),
        (["--columns", "metric,value"], "--unit is missing"),
        (["--placebo", "absent"], "absent: no such file or directory"),
    ],
)
def test_words_that_are_wrong_leave_no_earlier_result(words: list[str], said: str, campaign: Campaign) -> None:
    """It was taken for this gate's. And a gate that is gone was missing in no history: a FAIL could be removed so."""
    campaign.boots(noise(1), noise(2))
    file = campaign.place / "gate.json"
    assert campaign.told("--json", str(file))[0] == 0
    code, text = campaign.told("--json", str(file), *words)
    assert code is None and said in text and file.read_text() == UNFINISHED
    code, text = campaign.told("--json", str(file))
    assert code == 0 and file.read_text() != UNFINISHED


@pytest.mark.parametrize("words", [[], ["--incomplete", " "], ["--placebo", "absent"]])
def test_a_gate_that_was_refused_has_no_result(words: list[str], campaign: Campaign) -> None:
    """It left no trace, so a history passed; and an empty file for the page is no place for a result."""
    campaign.boots(noise(1), noise(2))
    (campaign.candidate / "00019.json").write_text("half")
    file, page = campaign.place / "gate.json", campaign.place / "page.html"
    page.touch()
    assert campaign.told("--json", str(file), "--html", str(page), *words)[0] is None
    assert file.read_text() == UNFINISHED and not page.exists()


def test_base_against_itself(campaign: Campaign) -> None:
    campaign.boots(noise(1), noise(2))
    words = campaign.words()
    assert "is in base and in candidate" in told(words[0], words[1], *words[1:2], *words[3:])[1]


def test_no_gates_file() -> None:
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


def test_rows_of_a_program(campaign: Campaign) -> None:
    """A row that alone runs a program has its name; rows that share one are tools of their own."""
    other = Campaign(campaign.place / "other")
    rows(other, ["wakeup-slow"])
    assert main(other.words()) == 0
    rows(campaign, ["wakeup-slow", "wakeup-fast"])
    assert "there are runs of: wakeup-fast, wakeup-slow" in campaign.told()[1]
    for tool, code in (("wakeup-slow", 0), ("wakeup-fast", 1)):
        campaign.gates = GATES.replace('tool = "rt_wakeup"', f'tool = "{tool}"')
        assert main(campaign.words()) == code


# ---- a gain that the placebo also shows is not due to the layout ----


def placebo(campaign: Campaign, values: Sequence[float], **about: str) -> str:
    """A third kernel, booted between the others."""
    place = campaign.place / "placebo"
    for number, value in enumerate(values):
        slot = 20 * number + 5
        campaign.save(place, run("placebo", f"placebo-{number}", slot, [metric(value, **about)]))
    return str(place)


def share(campaign: Campaign, values: Sequence[float], **about: str) -> tuple[dict[str, Any], str]:
    """The row of the placebo in the JSON, and the text."""
    file = campaign.place / "out.json"
    _, said = campaign.told("--placebo", placebo(campaign, values, **about), "--json", str(file))
    document = json.loads(file.read_text())
    validate(document, "gate-4")
    (found,) = document["shares"]
    return found, said


@pytest.fixture
def better(campaign: Campaign) -> Campaign:
    campaign.boots(noise(1), noise(2, factor=0.8))
    return campaign


def test_gain_of_the_layout(better: Campaign) -> None:
    found, said = share(better, noise(3))
    assert -26 < found["attributable"] < -14 and found["high"] < 0
    assert "change, %" in said and "not shown" not in said


def test_gain_of_the_size_alone(better: Campaign) -> None:
    found, said = share(better, noise(3, factor=0.8))
    assert found["low"] <= 0 <= found["high"] and found["change"] < -14
    assert "timer.p99: placebo: not shown" in said


def test_a_gain_of_which_more_is_better(campaign: Campaign) -> None:
    campaign.gates = campaign.gates.replace('"lower"', '"higher"')
    campaign.boots(noise(1), noise(2, factor=1.25), direction="higher")
    assert share(campaign, noise(3), direction="higher")[0]["low"] > 10


def test_too_few_boots_of_a_placebo(better: Campaign) -> None:
    found, said = share(better, noise(3, boots=4))
    assert found["attributable"] is None and "4 boots, not 10" in found["reason"] and "no share" in said


@pytest.mark.parametrize("judged", [True, False])
def test_metrics_that_are_0_in_the_base(judged: bool, campaign: Campaign) -> None:
    """They have no change in percent, and no share."""
    campaign.gates = (ABSOLUTE if judged else GATES).replace("timer.p99", "retries" if judged else "timer.p99")
    zero = metric(0, name="retries", unit="retries", kind="exact")
    campaign.extra = [zero]
    campaign.boots(noise(1), noise(2))
    file, place = campaign.place / "out.json", campaign.place / "placebo"
    for number, value in enumerate(noise(3)):
        campaign.save(place, run("placebo", f"placebo-{number}", 20 * number + 5, [metric(value), zero]))
    campaign.told("--placebo", str(place), "--json", str(file))
    found = json.loads(file.read_text())
    if judged:
        assert found["shares"] == [] and found["metrics"][0]["change"] == 0
    else:
        assert (found["shown"][0]["base"], found["shown"][0]["change"]) == (0, None)


def test_a_placebo_of_another_suite_is_refused(better: Campaign) -> None:
    code, said = better.told("--placebo", placebo(better, noise(3), name="timer.p50"))
    assert code is None and "the placebo has no rt_wakeup" in said
