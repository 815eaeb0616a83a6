# SPDX-License-Identifier: GPL-2.0
"""The figures of the campaigns through LAVA, from logs as lava-run writes them."""

from __future__ import annotations

import re
from pathlib import Path

import lava_logs
import pytest

from proof import lava_trial
from schedlib.fleet import fleet_jobs
from schedlib.fleet.campaign import FleetJobs, jobs_file
from schedlib.fleet.fleet_collect import LOG
from schedlib.fleet.fleet_jobs import READY
from schedlib.formats import document
from schedlib.options import TreeOptions


class Job:
    """A job of lava-run that has ended, of a campaign whose candidate is broken or not; or that was killed."""

    boots = 0

    def __init__(self, directory: Path, machine: int, name: str) -> None:
        job = document.read(jobs_file(directory, "qemu-x86_64"), FleetJobs, "").jobs[machine]
        lava_logs.JOB = job.name
        worse = 5.0 if directory.name == "worse" else 0.0
        text = lava_logs.log(lava_logs.boots(directory, job.order, Job.boots + 1, worse), hour=10 + Job.boots // 4)
        Job.boots += len(job.order)
        if name == "killed":
            second = text.index(READY, text.index(READY) + 1)
            text = text[: text.index("\n", second) + 1]
        self.text = text
        place = directory / "lava-run" / name
        place.mkdir(parents=True)
        (place / LOG).write_text(text)

    def said(self) -> str:
        return self.text

    def ended(self) -> bool:
        return True

    def kill(self) -> None:
        pass


def image(version: str) -> bytes:
    """The head of a bzImage."""
    found = bytearray(b"\x90" * 0x800)
    found[0x202:0x206] = b"HdrS"
    found[0x20E:0x210] = (0x300).to_bytes(2, "little")
    found[0x500:0x520] = f"{version} (me@here) #1 SMP".encode().ljust(0x20, b"\0")
    return bytes(found)


def test_the_verdicts_are_right_and_the_boots_come_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lava_logs, "JOB", lava_logs.JOB)
    monkeypatch.setattr(lava_trial, "_Job", Job)
    monkeypatch.setattr(fleet_jobs, "_ramdisk", lambda *rest: b"ramdisk")
    images = {"": "base", "-same": "candidate", "-broken": "candidate"}
    for name, label in images.items():
        (tmp_path / f"bzImage{name}").write_bytes(image(lava_logs.VERSIONS[label]))
    (tmp_path / "gates.toml").write_text(lava_trial._GATES)
    place = lava_trial._Campaigns(tmp_path, {name: tmp_path / f"bzImage{name}" for name in images}, TreeOptions())
    assert [*lava_trial._same(place), *lava_trial._worse(place)] == []  # what was not as it has to be
    said = re.findall(r"(\d of 8) boots are home|^(PASS|FAIL|INCONCLUSIVE):", capsys.readouterr().out, re.M)
    # Each log is collected twice, and judged.
    assert ["".join(each) for each in said] == [
        *("5 of 8", "5 of 8", "INCONCLUSIVE"),
        *("8 of 8", "8 of 8", "PASS"),
        *("8 of 8", "8 of 8", "FAIL"),
    ]
