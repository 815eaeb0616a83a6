# SPDX-License-Identifier: GPL-2.0
"""The limits for the workloads: this machine's budget, and ratios within a run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from workload_runs import TINY, Place, compile_program, metrics

from schedlib.dev.budget_table import BATCH, least_pairs, least_slices
from schedlib.paths import SELFTESTS
from schedlib.tree.kernel_tree import Tree

pytestmark = pytest.mark.guest

TOOL = "sleep_storm"
"""A workload that needs no rights."""


def relaxed(text: str) -> str:
    """A budget that no machine exceeds, but a delay of a second does."""
    return re.sub(r" higher \d+% ", " higher 99.9% ", re.sub(r" lower \d+% ", " lower 500000us ", text))


@pytest.fixture
def budget(place: Place, tmp_path: Path) -> Path:
    """A budget recorded from five runs of each of two workloads that need no rights."""
    path = tmp_path / "machine.budget"
    code, said = place.tiny("wakeup_pingpong", "--record", "--runs", "5", "--budget", path)
    assert code == 0, said
    assert f"the baseline of 3 metrics is in {path}" in said or f"the baseline of 0 metrics is in {path}" in said
    code, said = place.tiny(TOOL, "--record", "--runs", "5", "--budget", path)
    assert code == 0, said
    assert f"the baseline of 1 metrics is in {path}" in said
    return path


def test_record_is_plain_text_and_keeps_what_others_recorded(budget: Path, place: Place) -> None:
    before = budget.read_text()
    lines = [line.split() for line in before.splitlines() if not line.startswith("#")]
    assert before.startswith("# sched_latency budget 1\n# machine ")
    assert {line[0] for line in lines} <= {"wakeup_pingpong", TOOL}
    for line in lines:
        assert len(line) == 5 + 5
        assert re.fullmatch(r"\d+%", line[4])
        assert int(line[4][:-1]) >= 25
        assert all(float(value) > 0 for value in line[5:])
    code, said = place.tiny(TOOL, "--record", "--runs", "6", "--budget", budget)
    assert code == 0, said
    after = [line.split() for line in budget.read_text().splitlines() if not line.startswith("#")]
    assert [line for line in after if line[0] != TOOL] == [line for line in lines if line[0] != TOOL]
    assert [len(line) for line in after if line[0] == TOOL] == [5 + 6]
    assert not list(budget.parent.glob("*.new"))


def test_the_same_again_is_within_the_budget(budget: Path, place: Place) -> None:
    budget.write_text(relaxed(budget.read_text()))
    code, said = place.tiny(TOOL, "--budget", budget)
    assert code == 0, said
    assert f"runs: {BATCH}\n" in said
    assert "ok 5 within_budget\n" in said


def test_an_injected_delay_is_caught_and_confirmed(budget: Path, place: Place) -> None:
    # On any machine each sleep takes 200 times as long, and the budget allows the rate to halve.
    budget.write_text(re.sub(r" higher \d+% ", " higher 50% ", budget.read_text()))
    code, said = place.tiny(TOOL, "--budget", budget, "--inject-delay-us", "200000")
    assert code == 1
    assert "# once more, to confirm it\n" in said
    assert "not ok 5 within_budget\n" in said
    pairs = "budget 50%, 25 of 25 pairs of 5 runs beyond it"
    found = re.search(
        rf"within_budget: sleeps_per_s: baseline (\S+), measured (\S+) sleeps/s, {pairs}; again: (.*)", said
    )
    assert found
    assert float(found[2]) < float(found[1]) / 2
    assert found[3].endswith(f"--budget {budget} --inject-delay-us 200000")


def test_delay_of_an_absolute_budget(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "machine.budget"
    path.write_text("wakeup_pingpong futex_same_cpu.p50 ns lower 1000us 1000 1000 1000 1000 1000\n")
    code, said = place.tiny("wakeup_pingpong", "--budget", path, "--inject-delay-us", "1500")
    assert code == 1
    assert "futex_same_cpu.p50: baseline 1000, measured" in said
    path.write_text("wakeup_pingpong futex_same_cpu.p50 ns lower 1000000us 1000 1000 1000 1000 1000\n")
    code, said = place.tiny("wakeup_pingpong", "--budget", path, "--inject-delay-us", "1500")
    assert code == 0, said


def test_no_budget_is_said_with_the_command(place: Place, tmp_path: Path) -> None:
    code, said = place.tiny(TOOL)
    assert code == 0
    assert f"within_budget # SKIP no budget for this machine: record one with {TOOL} --record" in said
    code, said = place.tiny(TOOL, "--record", "--runs", "5")
    assert code == 0
    # The default place is the user's configuration directory, with the machine's name.
    [path] = (tmp_path / "sched_latency").glob("*.budget")
    assert re.fullmatch(r"[0-9a-f]{16}\.budget", path.name)
    code, said = place.tiny(TOOL, "--runs", "2")
    assert "within_budget # SKIP a budget is judged from 5 runs, not 2" in said


GOOD = f"{TOOL} sleeps_per_s sleeps/s higher 50% 1 1 1 1 1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# machine 0123456789abcdef a laptop\n", "from another machine, 0123456789abcdef; this one is "),
        (f"{GOOD}\n\n{TOOL} bogus\n", ":3: not tool, metric, unit, direction, budget (25% or 20us), 5 to 20 values"),
        (GOOD[:-2], ":1: not tool"),
        (GOOD + " x", ":1: not tool"),
        (GOOD.replace("50%", "20us"), ":1: not tool"),
        (GOOD.replace("50%", "50"), ":1: not tool"),
        (GOOD.replace("higher", "upward"), ":1: not tool"),
        (GOOD + 16 * " 1", ":1: not tool"),
        (f"{GOOD}\n" * 17, "more than 16 metrics"),
    ],
)
def test_budget_that_cannot_be(text: str, message: str, place: Place, tmp_path: Path) -> None:
    (tmp_path / "budget").write_text(text)
    code, said = place.tiny(TOOL, "--budget", tmp_path / "budget")
    assert code == 1
    assert f"Bail out! {tmp_path}/budget" in said
    assert message in said


def test_what_has_a_budget_has_to_be_measured(place: Place, tmp_path: Path) -> None:
    (tmp_path / "budget").write_text(GOOD.replace("sleeps_per_s", "bogus"))
    code, said = place.tiny(TOOL, "--budget", tmp_path / "budget")
    assert code == 1
    assert "within_budget: bogus has a budget, but was not measured" in said


Judge = Callable[..., tuple[int, str]]

HARNESS = r"""
#define _GNU_SOURCE
#include "workload.h"

/* Metrics come from the environment: one value for each run, of the first and of the second batch. */
static double values[100];
static int nr;

static void measure(struct results *results)
{
	struct metric *metric;
	int run;
	FILE *file = fopen(getenv("COUNTER"), "r+");

	if (!file || fscanf(file, "%d", &run) != 1)
		give_up(results, "no counter");
	rewind(file);
	fprintf(file, "%d\n", run + 1);
	fclose(file);
	metric = add_metric(results, QUANTILE, LOWER, "ns", values[run % nr], "value");
	metric->nr_rounds = 9;
	for (int i = 0; i < 9; i++)
		metric->rounds[i] = i < values[run % nr] ? 2 : 0;
	metric = add_metric(results, QUANTILE, LOWER, "ns", 1, "other");
	metric->nr_rounds = 9;
	for (int i = 0; i < 9; i++)
		metric->rounds[i] = 1;
}

static const struct test tests[] = {
	{ .name = "within_budget", .rule = BUDGET },
	{ .name = "not_above", .rule = NOT_ABOVE, .metric = "value", .other = "other" },
	{ .name = "above", .rule = ABOVE, .metric = "value", .other = "other" },
	{ .name = "absent", .rule = WORK, .metric = "bogus" },
};

static const struct workload harness = {
	.name = "harness", .about = "", .examples = "", .tests = tests,
	.nr_tests = ARRAY_SIZE(tests), .measure = measure,
};

int main(int argc, char **argv)
{
	char *text = getenv("VALUES");

	while (*text)
		values[nr++] = strtod(text, &text);
	return workload_main(&harness, argc, argv);
}
"""


@pytest.fixture(scope="session")
def harness(series: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workload with given measurements."""
    directory = tmp_path_factory.mktemp("harness")
    (directory / "harness.c").write_text(HARNESS)
    compile_program(series, directory / "harness.c", directory / "harness")
    return directory


@pytest.fixture
def judged(harness: Path, tmp_path: Path) -> Judge:
    def run(baseline: Sequence[float], values: Sequence[float], budget: str = "0%") -> tuple[int, str]:
        (tmp_path / "counter").write_text("0\n")
        recorded = " ".join(map(str, baseline))
        (tmp_path / "budget").write_text(f"harness value ns lower {budget} {recorded}\n")
        text = " ".join(map(str, values))
        place = Place(harness, tmp_path)
        words = ["harness", "--budget", str(tmp_path / "budget")]
        return place.run(*words, COUNTER=str(tmp_path / "counter"), VALUES=text)

    return run


@pytest.mark.parametrize("recorded", [5, 10, 20])
def test_judge_uses_the_entry_of_the_table(recorded: int, judged: Judge) -> None:
    baseline = [float(place) for place in range(recorded)]
    least = least_pairs(recorded)
    # All runs are above the whole baseline, except that `missing` pairs are lost.
    short = recorded * BATCH - least
    for missing, verdict in ((short, "not ok"), (short + 1, "ok")):
        batch = [recorded + 1.0] * BATCH
        for place in range(BATCH):
            lost = min(recorded, missing)
            batch[place] -= 1.5 + lost if lost else 0
            missing -= lost
        _, said = judged(baseline, batch)
        assert f"\n{verdict} 1 within_budget" in said, said


def test_equal_is_not_beyond(judged: Judge) -> None:
    assert "\nok 1 within_budget" in judged([7.0] * 10, [7.0] * 5)[1]
    assert "\nok 1 within_budget" in judged([4.0] * 10, [5.0] * 5, "25%")[1]
    assert "\nnot ok 1 within_budget" in judged([4.0] * 10, [5.1] * 5, "25%")[1]
    assert "\nok 1 within_budget" in judged([4.0] * 10, [1004.0] * 5, "1us")[1]
    assert "\nnot ok 1 within_budget" in judged([4.0] * 10, [1005.0] * 5, "1us")[1]


def test_both_batches_have_to_be_beyond(judged: Judge) -> None:
    _, said = judged([1.0] * 5, [9.0] * 5 + [1.0] * 5)
    assert "# once more, to confirm it" in said
    assert "\nok 1 within_budget" in said
    _, said = judged([1.0] * 5, [9.0] * 10)
    assert "\nnot ok 1 within_budget" in said


@pytest.mark.parametrize("share", [0, 4, 5, 9])
def test_slices_are_counted_over_all_runs(share: int, judged: Judge) -> None:
    # In each of five runs `share` of nine slices are above.
    _, said = judged([99.0] * 5, [float(share)] * 5)
    least = least_slices(9 * BATCH)
    assert f"\n{'not ok' if share * BATCH >= least else 'ok'} 2 not_above" in said
    assert f"\n{'not ok' if (9 - share) * BATCH >= least else 'ok'} 3 above" in said


def test_what_was_neither_measured_nor_explained_has_failed(judged: Judge) -> None:
    code, said = judged([1.0] * 5, [1.0] * 5)
    assert code == 1
    assert "# absent: bogus was not measured; again: " in said
    assert "\nnot ok 4 absent" in said


@pytest.fixture
def script(series: Tree, place: Place, tmp_path: Path) -> Path:
    """latency_thresholds.sh, beside the kernel's helper script."""
    helpers = series.src / "tools/testing/selftests/kselftest/ktap_helpers.sh"
    for path, source in (
        ("kselftest/ktap_helpers.sh", helpers),
        ("sched_latency/latency_thresholds.sh", SELFTESTS / "sched_latency/latency_thresholds.sh"),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(source.read_text())
    return tmp_path / "sched_latency/latency_thresholds.sh"


def judge(script: Path, place: Place, *words: str | Path, runner: bool = False) -> tuple[int, str]:
    """Run the script directly, or as a runner of kselftests does."""
    if not runner:
        return place.command("env", "-i", f"PATH={place.environment['PATH']}", "sh", script, *words)
    makefile = script.parent / "Makefile"
    makefile.write_text(f"run:\n\t@sh {script} {' '.join(map(str, words))}\n")
    return place.command("make", "-s", "-C", makefile.parent, "run")


def measure_all(place: Place) -> Path:
    for tool in (*TINY, "cluster_wakeup"):
        place.run(tool, *TINY.get(tool, ()))
    [path] = place.home.glob("sched_latency-*")
    return path


def test_script_is_content_with_fresh_measurements(script: Path, place: Place, tmp_path: Path) -> None:
    runs = measure_all(place)
    code, said = judge(script, place, "--results", runs, "--budget", tmp_path / "none")
    assert code == 0, said
    assert "\n1..8\n" in said
    assert "\nok 5 measured_sleep_storm\n" in said
    assert "\nok 7 one_kernel\n" in said
    assert "# NO BUDGET: nothing says what this machine was able to do before." in said
    assert "sleep_storm --record" in said
    assert "\nok 8 budget_complete # SKIP no budget for this machine" in said


def test_script_names_what_is_missing_old_or_failed(script: Path, place: Place, tmp_path: Path) -> None:
    runs = measure_all(place)
    budget = tmp_path / "budget"
    budget.write_text(
        f"# a comment\n{GOOD}\n{TOOL} bogus ns lower 5% 1 1 1 1 1\nrt_wakeup timer.p50 ns lower 5% 1 1 1 1 1\n"
    )
    (runs / "rt_wakeup.json").unlink()
    storm = runs / f"{TOOL}.json"
    ping = runs / "wakeup_pingpong.json"
    text = ping.read_text()
    ping.write_text(text.replace('"status": "DONE",\n"reason": ""', '"status": "ERROR",\n"reason": "it was killed"'))
    code, said = judge(script, place, "--results", runs, "--budget", budget)
    assert code == 1
    assert "# rt_wakeup: no measurement: run rt_wakeup first\nnot ok 4 measured_rt_wakeup\n" in said
    assert "# wakeup_pingpong: it was killed\nnot ok 6 measured_wakeup_pingpong\n" in said
    assert "# sleep_storm bogus: not measured\n# rt_wakeup timer.p50: no measurement" in said
    assert "not ok 8 budget_complete\n" in said
    ping.write_text(re.sub(r'"build_id": "\w*"', '"build_id": "0123"', text))
    storm.write_text(re.sub(r'"boot_id": "[\w-]+"', '"boot_id": "of-yesterday"', storm.read_text()))
    code, said = judge(script, place, "--results", runs, "--budget", budget)
    assert re.search(r"# sleep_storm: the measurement of \S+ is of an earlier boot: run sleep_storm again\n", said)
    assert re.search(r"# measured on: \w{16} .* 0123\n", said)
    assert "not ok 7 one_kernel\n" in said


def test_script_takes_what_was_measured_before_its_runner_for_old(script: Path, place: Place) -> None:
    runs = measure_all(place)
    # An uptime of 0 is before any runner was started.
    for path in runs.glob("*.json"):
        path.write_text(re.sub(r'"uptime_s": [\d.]+', '"uptime_s": 0.00', path.read_text()))
    code, said = judge(script, place, "--results", runs, runner=True)
    assert "1..0 # SKIP nothing was measured in this run: run the workloads before" in said
    assert code == 2  # the exit code of make; that of the script is 4
    assert "Error 4" in said


def test_script_says_what_it_cannot_do(script: Path, place: Place, tmp_path: Path) -> None:
    code, said = judge(script, place, "--results", tmp_path / "nowhere")
    assert (code, said.splitlines()[-1]) == (
        4,
        "1..0 # SKIP nothing was measured in this run: run the workloads before",
    )
    code, said = judge(script, place, "--bogus")
    assert code == 1
    assert "Bail out!  --bogus is no option" in said
    code, said = judge(script, place, "--help")
    assert code == 0
    assert "examples:" in said
    (tmp_path / "kselftest/ktap_helpers.sh").unlink()
    code, said = judge(script, place)
    assert code == 1
    assert "ktap_helpers.sh is missing: use make install" in said


def test_script_passes_shellcheck() -> None:
    path = SELFTESTS / "sched_latency/latency_thresholds.sh"
    try:
        done = subprocess.run(["shellcheck", path], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("shellcheck is not installed")
    assert done.returncode == 0, done.stdout


def test_metrics_that_are_gated_are_few(place: Place, tmp_path: Path) -> None:
    for tool in TINY:
        place.tiny(tool, "--record", "--runs", "5", "--budget", tmp_path / "budget")
    lines = [line.split() for line in (tmp_path / "budget").read_text().splitlines() if not line.startswith("#")]
    assert 1 <= len(lines) <= 16
    for tool in {line[0] for line in lines}:
        place.tiny(tool, "--json", tmp_path / "run.json")
        assert {line[1] for line in lines if line[0] == tool} <= set(metrics(tmp_path / "run.json"))
