# SPDX-License-Identifier: GPL-2.0
"""Which KCSAN reports are intended races. The log is of a real run (a search for a CPU, and a race of the boot)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from schedlib.console.judge import Judgement, judge
from schedlib.console.known_races import KNOWN_RACES, explained
from schedlib.errors import SchedlineError
from schedlib.guest.boot import Ending
from schedlib.paths import PROJECT
from schedlib.verdict import Verdict

LOG = (Path(__file__).parents[1] / "logs/kcsan.log").read_bytes()
MASK, BOOT = 104, 7
"""The lines with the headlines of the two reports."""


def judged(log: bytes, known: bool = True) -> Judgement:
    return judge(log, ending=Ending.EXITED, known_races=explained if known else None)


def failures(judgement: Judgement) -> list[tuple[str, int]]:
    return [(each.kind, each.line) for each in judgement.problems if each.verdict is not Verdict.PASS]


def test_intended_races_are_remarks_with_their_reasons() -> None:
    judgement = judged(LOG)
    assert judgement.verdict is Verdict.PASS
    assert [(each.kind, each.line) for each in judgement.problems] == [("known-race", BOOT), ("known-race", MASK)]
    assert "cpupri-mask: a search reads the mask" in judgement.problems[1].text


def test_without_the_entries_they_fail() -> None:
    assert failures(judged(LOG, known=False)) == [("splat", BOOT), ("splat", MASK)]


def in_report(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    """A function that changes the first line with `old` in the second report."""

    def change(log: bytes) -> bytes:
        head, sign, tail = log.partition(b"_find_first_and_bit / private_cpupri_set")
        assert old in tail
        return head + sign + tail.replace(old, new, 1)

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(in_report(b"write (marked) to", b"write to"), id="plain-write"),
        pytest.param(in_report(b"write (marked) to", b"read-write to"), id="plain-read-write"),
        pytest.param(in_report(b"] read to", b"] write to"), id="two-writes"),
        pytest.param(in_report(b"] read to", b"] read (reordered) to"), id="read-moved"),
        pytest.param(in_report(b" private_cpupri_set+", b" private_cpupri_init+"), id="other-writer"),
        pytest.param(in_report(b" private_cpupri_set+", b" count_up+0x1/0x2\n private_cpupri_set+"), id="below-writer"),
        pytest.param(in_report(b" private_cpupri_find_fitness+", b" private_cpupri_init+"), id="other-reader"),
        pytest.param(in_report(b" raise_find+", b"  |\n  +-> reordered to: raise_find+"), id="moved-past-a-barrier"),
        pytest.param(in_report(b"Reported by Kernel Concurrency", b"Reported by"), id="no-end"),
        pytest.param(in_report(b"read to 0x", b"nothing to 0x"), id="one-access"),
    ],
)
def test_what_differs_from_the_intended_race_fails(change: Callable[[bytes], bytes]) -> None:
    judgement = judged(change(LOG))
    assert judgement.verdict is Verdict.FAIL
    assert ("splat", MASK) in [(kind, line) for kind, line in failures(judgement)]


@pytest.mark.parametrize(
    "splat",
    [
        b"BUG: KASAN: slab-use-after-free in cpupri_set+0x12/0x90",
        b"WARNING: kernel/sched/core.c:812 at set_rq_offline+0x3a/0x50, CPU#1: kunit_try_catch/33",
        b"Call Trace:",
    ],
)
@pytest.mark.parametrize("behind", [b"private_cpupri_find_fitness+0x16b/0x290\r\n", b"Tainted: [N]=TEST\r\n"])
def test_a_splat_within_or_after_an_intended_race_fails(splat: bytes, behind: bytes) -> None:
    assert behind in LOG
    log = LOG.replace(behind, behind + b"[   23.180000] " + splat + b"\r\n", 1)
    assert judged(log).verdict is Verdict.FAIL


def test_a_result_between_the_lines_of_a_report_is_no_part_of_it() -> None:
    line = b"[   23.179291] # somebody else's words\n"
    change = in_report(b"[   23.179343]", line + b"[   23.179343]")
    assert judged(change(LOG)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("reason =", "raeson =", r"toml:\d+: cpupri-mask.raeson is unknown\n  next: did you mean reason"),
        ("reason = .*\n", "", r"toml:\d+: cpupri-mask lacks reason"),
        ("reason = .*\n", 'reason = ""\n', r"toml:\d+: cpupri-mask.reason is ''"),
    ],
)
def test_entry_without_a_reason(old: str, new: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "races.toml").write_text(re.sub(old, new, KNOWN_RACES.read_text(), count=1))
    with pytest.raises(SchedlineError, match=said):
        explained((), tmp_path / "races.toml")


def test_a_log_without_reports_is_judged_without_the_list() -> None:
    log = LOG.replace(b"KCSAN: ", b"another: ")
    judge(log, ending=Ending.EXITED, known_races=lambda _: pytest.fail("nothing is to be explained"))
    program = "import schedlib.console.judge, sys; assert 'msgspec' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=PROJECT / "scripts")
