# SPDX-License-Identifier: GPL-2.0
"""Runs come home, or are lost with a reason. Nothing that a laboratory or a line does becomes a verdict."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import lava_logs
import pytest
from lava_logs import INFRASTRUCTURE, JOB, PASSED, RUN, TIMED_OUT, boot_id

from conftest import read_words
from schedlib.errors import SchedlineError
from schedlib.fleet import fleet_verb
from schedlib.fleet.fleet_collect import collect
from schedlib.fleet.fleet_verb import FleetCollectOptions
from schedlib.gate.boots import read_side
from schedlib.gate.fleet_gate import compare_fleet
from schedlib.gate.gate_options import GateOptions
from schedlib.main import main
from schedlib.verdict import Verdict

GATES = """\
[gate]
looks = [5]

[[metric]]
tool = "rt_wakeup"
name = "timer.elsewhere"
direction = "lower"
method = "equal"
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return lava_logs.campaign(tmp_path / "campaign")


def brought(directory: Path, text: str, machine: str = "qemu01") -> Verdict:
    """Collect one log."""
    place = directory / "logs.yaml"
    place.write_text(text)
    return collect(FleetCollectOptions(directory, (f"{machine}={place}",)))


def states(directory: Path, machine: str = "qemu01") -> list[tuple[str, str]]:
    """What became of each boot, and why."""
    (path,) = (directory / "collected").glob(f"*@{machine}@*")
    return [(boot["state"], boot["why"]) for boot in json.loads(path.read_text())["boots"]]


def content(directory: Path) -> dict[str, bytes]:
    places = (directory / "fleet", directory / "collected")
    return {str(path): path.read_bytes() for place in places for path in sorted(place.rglob("*")) if path.is_file()}


def gate(directory: Path) -> Verdict:
    (directory / "gates.toml").write_text(GATES)
    return compare_fleet(GateOptions(fleet=directory / "fleet", gates=str(directory / "gates.toml"))).status


def test_all_runs_come_home(directory: Path) -> None:
    assert brought(directory, lava_logs.log(lava_logs.boots(directory))) is Verdict.PASS
    assert states(directory) == [("home", "")] * 4
    place = directory / "fleet/qemu01/candidate" / boot_id(1)
    assert sorted(path.name for path in place.iterdir()) == ["console.log", "plan", f"{RUN}.json", f"{RUN}.log"]
    assert (place / "console.log").read_text().splitlines() == lava_logs.boot(directory, "candidate", 1)
    boots = read_side(directory / "fleet/qemu01/base", "base").boots
    assert [boot.id for boot in boots] == [boot_id(2), boot_id(3)]
    # A board without a clock has the same time in each boot, and the gate would not know the order.
    runs = [json.loads(path.read_text()) for path in sorted((directory / "fleet").rglob(f"{RUN}.json"))]
    by_time = sorted(runs, key=lambda run: str(run["started"]))
    assert [run["fingerprint"]["boot_id"] for run in by_time] == list(map(boot_id, range(1, 5)))
    assert all(run["started"].startswith("2026-11-25T10:0") for run in runs)


def test_collecting_again_changes_nothing(directory: Path) -> None:
    """Nor if files are lost in between, or if the job still ran the first time."""
    text = lava_logs.log(lava_logs.boots(directory))
    brought(directory, text)
    before = content(directory)
    for lost in ((), ("fleet",), ("fleet", "collected")):
        for path in lost:
            shutil.rmtree(directory / path)
        if len(lost) == 2:
            assert brought(directory, text[: len(text) // 2]) is Verdict.INCONCLUSIVE
        assert brought(directory, text) is Verdict.PASS
        assert content(directory) == before


@pytest.mark.parametrize("share", range(0, 100, 7))
def test_a_log_cut_anywhere_costs_boots_and_no_verdict(share: int, directory: Path) -> None:
    text = lava_logs.log(lava_logs.boots(directory))
    verdict = brought(directory, text[: len(text) * share // 100])
    assert verdict in (Verdict.INCONCLUSIVE, Verdict.ERROR)
    home = 0
    if verdict is Verdict.INCONCLUSIVE:
        found = states(directory)
        home = sum(state == "home" for state, _ in found)
        assert {state for state, _ in found} <= {"home", "lost"}
        assert all(why for state, why in found if state == "lost")
    assert len(list(directory.glob("fleet/*/*/*"))) == home


def damaged(console: list[str]) -> list[str]:
    place = next(number for number, line in enumerate(console) if line.startswith("# sent 1= ")) + 1
    return [*console[:place], console[place].swapcase(), *console[place + 1 :]]


PANIC = "[    8.000000] Kernel panic - not syncing: x"


def stopped(*more: str) -> Callable[[list[str]], list[str]]:
    """A console that ends in its second run."""

    def spoil(console: list[str]) -> list[str]:
        place = console.index(f"# selftests: guest: {RUN}")
        return [*console[: place + 1], *more]

    return spoil


@pytest.mark.parametrize(
    ("spoil", "end", "state", "why"),
    [
        # The kernel is at fault, whatever LAVA calls it.
        (stopped(PANIC), INFRASTRUCTURE, "failed", "panic: Kernel panic"),
        (stopped(), TIMED_OUT, "failed", "was not sent"),
        # The laboratory is.
        (stopped(), INFRASTRUCTURE, "lost", "LAVA says Infrastructure: Connection closed"),
        (stopped(), {**INFRASTRUCTURE, "error_type": "Canceled"}, "lost", "LAVA says Canceled"),
        (lambda _: [], INFRASTRUCTURE, "lost", "nothing was on the console: a lost board"),
        (lambda console: ["U-Boot 2026.01"], TIMED_OUT, "lost", "the boot timed out: no kernel is on the console"),
        (damaged, PASSED, "lost", f"a transfer failed: {RUN}: its transfer was damaged: the checksum differs"),
    ],
)
def test_the_fault_of_the_kernel_is_told_from_that_of_the_laboratory(
    spoil: Callable[[list[str]], list[str]], end: dict[str, str], state: str, why: str, directory: Path
) -> None:
    *others, last = lava_logs.boots(directory)
    verdict = brought(directory, lava_logs.log([*others, spoil(last)], end))
    assert states(directory)[:3] == [("home", "")] * 3
    assert states(directory)[3][0] == state
    assert why in states(directory)[3][1]
    assert verdict is (Verdict.FAIL if state == "failed" else Verdict.INCONCLUSIVE)
    # Failed runs are there for the gate, which leaves this machine out. Lost ones are not.
    side = read_side(directory / "fleet/qemu01/candidate", "candidate")
    assert len(side.failed) == (state == "failed")
    assert len(side.boots) == 1


def test_a_splat_beside_good_runs_is_told(directory: Path) -> None:
    first, *others = lava_logs.boots(directory)
    splat = "[    8.000000] WARNING: CPU: 0 PID: 1 at kernel/x.c:1 y+0x1/0x2"
    assert brought(directory, lava_logs.log([[*first[:-1], splat, first[-1]], *others])) is Verdict.FAIL
    assert states(directory)[0] == ("home", f"splat: {splat.partition('] ')[2]}")


def test_another_kernel_than_planned_is_no_boot_of_either(directory: Path) -> None:
    """The order says `candidate`, and the laboratory booted the base."""
    order = ("base", "base", "base", "candidate")
    assert brought(directory, lava_logs.log(lava_logs.boots(directory, order))) is Verdict.INCONCLUSIVE
    assert states(directory)[0] == ("lost", "7.3.4-a came up, and 7.3.4-b was to boot")
    assert not (directory / "fleet/qemu01/candidate" / boot_id(1)).exists()


def test_a_boot_counts_once(directory: Path) -> None:
    text = lava_logs.log(lava_logs.boots(directory))
    brought(directory, text)
    before = content(directory)
    brought(directory, text, "qemu02")
    assert [state for state, _ in states(directory, "qemu02")] == ["lost"] * 4
    assert f"is in {JOB} on qemu01, too" in states(directory, "qemu02")[0][1]
    assert not (directory / "fleet/qemu02").exists()
    assert before.items() <= content(directory).items()
    first, *others = lava_logs.boots(directory, first=10)
    brought(directory, lava_logs.log([first, first, *others[1:]], hour=11), "qemu03")
    assert [state for state, _ in states(directory, "qemu03")] == ["home", "lost", "home", "home"]


@pytest.mark.parametrize(("worse", "right"), [(0.0, Verdict.PASS), (5.0, Verdict.FAIL)])
def test_the_gate_reads_what_came_home(worse: float, right: Verdict, directory: Path) -> None:
    """A job that was killed makes no wrong verdict."""
    first, second, again = (lava_logs.boots(directory, first=number, worse=worse) for number in (1, 11, 50))
    assert brought(directory, lava_logs.log(first)) is Verdict.PASS
    text = lava_logs.log(second)
    brought(directory, text[: len(text) // 2], "qemu02")
    assert gate(directory) in (right, Verdict.INCONCLUSIVE)
    brought(directory, lava_logs.log(again, hour=12), "qemu02")
    assert gate(directory) is right


# Bad input.


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("schedline.job=", "other.job="), "does not name a job of schedline"),
        (lambda text: re.sub(r"job=[0-9a-f]{12}/", "job=0123456789ab/", text), "which this campaign does not have"),
        (lambda text: text.replace(f"/{JOB}", "/qemu-x86_64.0009.1"), "which this campaign does not have"),
        (lambda _: "", "does not name a job of schedline"),
    ],
)
def test_a_log_of_something_else_is_refused(
    change: Callable[[str], str], said: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert brought(directory, change(lava_logs.log(lava_logs.boots(directory)))) is Verdict.ERROR
    assert said in capsys.readouterr().err
    assert not (directory / "fleet").exists()


def test_no_name_leads_out_of_the_directory(directory: Path) -> None:
    text = lava_logs.log(lava_logs.boots(directory))
    with pytest.raises(SchedlineError, match="no name for a machine"):
        brought(directory, text, "../out")
    hostile = lava_logs.log([[line.replace(boot_id(1), "../../../out") for line in lava_logs.boots(directory)[0]]])
    brought(directory, hostile)
    assert {path.name for path in directory.parent.iterdir()} == {"campaign"}


def test_a_changed_suite_is_refused(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = directory / "devices/qemu-x86_64.json"
    path.write_text(path.read_text().replace('"digest": "', '"digest": "0'))
    assert brought(directory, lava_logs.log(lava_logs.boots(directory))) is Verdict.ERROR
    assert "have changed since the jobs were written" in capsys.readouterr().err


# Jobs on a server.

LAVACLI = """#!/bin/sh
# As much of lavacli as is used: -i IDENTITY jobs show --json ID, and jobs logs --no-follow --raw ID.
[ "$1 $2 $3" = "-i default jobs" ] || exit 2
case "$4 $5" in
"show --json") cat "{place}/$6.json" ;;
"logs --no-follow") [ "$6" = --raw ] && cat "{place}/$7.yaml" ;;
*) exit 2 ;;
esac
"""


@pytest.fixture
def server(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lavacli that knows the jobs 11, 12 and 13; the last one waits for a device."""
    place = tmp_path / "server"
    place.mkdir()
    for number in (11, 12, 13):
        (place / f"{number}.json").write_text(json.dumps({"device": f"qemu{number}" if number < 13 else None}))
        (place / f"{number}.yaml").write_text(lava_logs.log(lava_logs.boots(directory, first=10 * number)))
    (place / "lavacli").write_text(LAVACLI.format(place=place))
    (place / "lavacli").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    return place


def test_jobs_come_by_their_ids(directory: Path, server: Path) -> None:
    assert collect(FleetCollectOptions(directory, ("11", "12"))) is Verdict.PASS
    assert sorted(path.name for path in (directory / "fleet").iterdir()) == ["qemu11", "qemu12"]
    assert gate(directory) is Verdict.PASS


@pytest.mark.parametrize(("number", "said"), [("13", "has no device yet"), ("14", "lavacli -i default jobs show")])
def test_what_the_server_does_not_give_is_told(number: str, said: str, directory: Path, server: Path) -> None:
    with pytest.raises(SchedlineError, match=said):
        collect(FleetCollectOptions(directory, (number,)))


@pytest.mark.parametrize("word", ["nothing", "board=", "board=/nonexistent"])
def test_usage(word: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_words(fleet_verb, "fleet", "collect", str(directory), word)
    assert "neither the id of a job" in capsys.readouterr().err


def test_without_jobs_it_tells_how_far_the_campaign_is(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "collect", str(directory)]) == 3
    assert f"0 of 4 boots are home\nsubmit again, or collect: {JOB}\n" in capsys.readouterr().out
    with pytest.raises(SchedlineError, match="has no jobs"):
        main(["fleet", "collect", str(directory.parent)])
