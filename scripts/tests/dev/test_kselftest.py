# SPDX-License-Identifier: GPL-2.0
"""`schedline dev kselftest` judges logs, not exit statuses. To test its steps, run them (make kselftest)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conftest import read_words
from schedlib.dev import dev_verb
from schedlib.dev.dev_verb import KUNIT_RUNS
from schedlib.dev.kselftest import Step, run_step, steps
from schedlib.tree.compose import TESTS_DIRECTORY
from schedlib.verdict import Verdict

RUNNER = """\
#!/bin/sh
# As run_kselftest.sh does: /dev/stdout is opened anew, and the exit status is 0.
echo "TAP version 13" >> /dev/stdout
echo "1..1" >> /dev/stdout
echo "# timeout set to 300" >> /dev/stdout
echo "# selftests: sched_latency: rt_wakeup" > /dev/stdout
echo "# TAP version 13"
echo "# 1..1"
echo "# {result} 1 timer_wakeups"
echo "{result} 1 selftests: sched_latency: rt_wakeup" >> /dev/stdout
"""

EXPECTED = ("sched_latency:rt_wakeup", "sched_latency:rt_wakeup:timer_wakeups")


def ran(directory: Path, result: str, *expected: str) -> tuple[Verdict, str]:
    """The verdict and the text for a step that ran one program with this result."""
    place = directory / "installed"
    place.mkdir()
    (place / "run").write_text(RUNNER.format(result=result))
    (place / "run").chmod(0o755)
    verdict, said, log = run_step(Step("one", ("./run",), place, expected))
    assert log.read_bytes().startswith(b"TAP version 13\n1..1\n")
    return verdict, said


@pytest.mark.parametrize(("result", "verdict"), [("ok", Verdict.PASS), ("not ok", Verdict.FAIL)])
def test_result_is_that_of_the_log(tmp_path: Path, result: str, verdict: Verdict) -> None:
    assert ran(tmp_path, result, *EXPECTED)[0] is verdict


def test_missing_test_fails_whatever_the_runner_says(tmp_path: Path) -> None:
    verdict, said = ran(tmp_path, "ok", *EXPECTED, "sched_latency:sleep_storm")
    assert verdict is Verdict.FAIL
    assert "sched_latency:sleep_storm" in said


def test_missing_plan_is_that_of_the_list(tmp_path: Path) -> None:
    (tmp_path / "linux").mkdir()
    unplanned = [line for line in RUNNER.format(result="ok").splitlines() if '1..1" >>' not in line]
    (tmp_path / "linux/run").write_text("\n".join(line for line in unplanned if '"TAP' not in line) + "\n")
    (tmp_path / "linux/run").chmod(0o755)
    planned = Step("one", ("./run",), tmp_path / "linux", EXPECTED)
    assert run_step(planned)[0] is Verdict.FAIL
    assert run_step(replace(planned, planned=False))[0] is Verdict.PASS


def test_step_without_tests_has_its_exit_status(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    assert run_step(Step("make", ("false",), tmp_path / "tree"))[0] is Verdict.FAIL
    assert run_step(Step("make", ("true",), tmp_path / "tree"))[0] is Verdict.PASS
    assert run_step(Step("make", ("./no-such-program",), tmp_path / "tree"))[0] is not Verdict.PASS


def test_every_run_knows_what_has_to_run(tmp_path: Path) -> None:
    for step in steps(tmp_path / "linux"):
        assert bool(step.expected) is step.name.startswith("run"), step.name


def test_words_of_the_verbs() -> None:
    assert read_words(dev_verb, "test-tree", "--skip", "qemu,alltests").skip == ("qemu", "alltests")
    assert f"--kunitconfig={TESTS_DIRECTORY}" in KUNIT_RUNS["uml"].words
    with pytest.raises(SystemExit) as error:
        read_words(dev_verb, "test-tree", "--skip", "emu")
    assert error.value.code == 2
