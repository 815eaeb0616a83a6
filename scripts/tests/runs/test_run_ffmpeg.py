# SPDX-License-Identifier: GPL-2.0
"""The driver that starts an FFmpeg in each group of CPUs. A script stands in for FFmpeg."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from schedlib.runs import pinned_groups
from schedlib.runs.tool_process import run_guarded, why_no_fifo
from schedlib.runs.tools import TOOLS, Output
from schedlib.runs.workload_suites import load_suite

FFMPEG = TOOLS["ffmpeg"]


def test_groups_are_of_eight_or_of_all() -> None:
    assert pinned_groups.groups([0, 1]) == [{0, 1}]
    assert pinned_groups.groups(list(range(8))) == [set(range(8))]
    assert pinned_groups.groups([0, *range(2, 20)]) == [{0, *range(2, 9)}, set(range(9, 17))]
    assert len(pinned_groups.groups(list(range(480)))) == 60


def test_without_throttling_it_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "limit").write_text("-1\n")
    monkeypatch.setattr(pinned_groups, "THROTTLING", tmp_path / "limit")
    monkeypatch.setattr(pinned_groups, "start", lambda *_: pytest.fail("it was started"))
    monkeypatch.setattr(sys, "argv", ["pinned_groups.py", "ffmpeg", "--seconds", "1"])
    status = pinned_groups.main()
    reading = FFMPEG.parse(Output((), status, "", capsys.readouterr().err))
    assert reading.cannot.endswith("without RT throttling the threads would block the machine")


PLAYED = """#!/bin/sh
# A signal that comes early, on a busy machine, ends it no sooner.
trap 'ended=yes' INT
echo "$*" > said; chrt -p $$ >> said; taskset -cp $$ >> said
echo frame=3; echo frame=7
{ending}
"""


def run(directory: Path, ending: str, seconds: str) -> tuple[Output, int]:
    program, place = directory / "ffmpeg", directory / "place"
    program.write_text(PLAYED.format(ending=ending))
    program.chmod(0o755)
    place.mkdir()
    done = run_guarded([*FFMPEG.driver, str(program), "--seconds", seconds, "-f", "null", "-"], place, 60)
    files = {path.name: path.read_text() for path in place.glob("out.*")}
    return Output((), done.exit_status, done.stdout, done.stderr, files), done.exit_status or 0


@pytest.mark.skipif(why_no_fifo() != "", reason="SCHED_FIFO is refused here")
def test_instances_run_pinned_and_realtime_until_they_are_told_to_end(tmp_path: Path) -> None:
    output, status = run(tmp_path, 'while [ -z "$ended" ]; do sleep 0.01; done; echo frame=9; exit 255', "0.2")
    assert status == 0
    said = (tmp_path / "place" / "said").read_text().splitlines()
    assert said[0] == "-f null -"
    assert said[1].endswith("SCHED_FIFO") and said[2].endswith("priority: 99")
    found = {metric.name: metric.value for metric in FFMPEG.parse(output).metrics}
    assert found["groups.frames"] == 9 * len(pinned_groups.groups(sorted(os.sched_getaffinity(0))))
    assert json.loads(output.files["out.json"])["seconds"] >= 0.2


@pytest.mark.skipif(why_no_fifo() != "", reason="SCHED_FIFO is refused here")
def test_an_instance_that_fails_ends_the_run(tmp_path: Path) -> None:
    output, status = run(tmp_path, "echo no such codec >&2; exit 1", "1000")
    assert status == 1
    assert FFMPEG.parse(output).error.endswith("instances failed: no such codec")


def test_the_row_asks_for_the_driver() -> None:
    row = next(row for row in load_suite("mails").rows if row.tool == "ffmpeg")
    assert row.to_argv()[0] == "--seconds" and row.realtime and not row.required
    assert FFMPEG.command()[:-1] == list(FFMPEG.driver)
