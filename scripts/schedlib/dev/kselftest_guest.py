# SPDX-License-Identifier: GPL-2.0
"""Runs the tarball of gen_tar in a guest that has busybox, and neither compiler nor Python; then copies its runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from schedlib.console.judge import Judgement, Problem, judge, with_problems
from schedlib.formats.document import Refused
from schedlib.formats.run_file import read_run
from schedlib.gate.boots import read_side
from schedlib.guest import home
from schedlib.guest.busybox_guest import Guest
from schedlib.progress import step
from schedlib.verdict import Verdict

_TIMEOUT = 1800.0


def run_packed(
    guest: Guest,
    archive: Path,
    words: Sequence[str],
    expected: Collection[str],
    workloads: Collection[str],
    place: Path,
) -> tuple[Judgement, Path]:
    """Run the tarball in a guest. Returns the judgement of its console and its runs, and the console's log.

    Args:
        words: arguments for run_kselftest.sh.
        workloads: the workloads that have to leave a run.
        place: an empty directory; the runs are copied to `runs` in it.
    """
    (place / "words").write_text(" ".join(words) + "\n")
    (place / "runs").mkdir()
    disk = home.empty_disk(place / "disk", 1)
    image, log = place / "initramfs.cpio", place / "console.log"
    files = {"/kselftest.tar.gz": archive, "/words": place / "words"}
    guest.pack("guest_tarball.sh", files, image)
    with step("the tarball in a busybox guest"):
        boot = guest.boot(image, disk, log, _TIMEOUT)
    judgement = judge(log.read_bytes(), expected, ending=boot.ending, times=boot.times)
    lost = home.bring_home(disk, 0, place / "runs")
    problems = [Problem("runs", 0, lost, Verdict.FAIL)] if lost else not_home(place / "runs", workloads)
    return with_problems(judgement, problems), log


def not_home(runs: Path, workloads: Collection[str]) -> list[Problem]:
    """Problems with the runs from the guest: each workload must have left a run that the gate can read."""
    wrong = []
    for name in workloads:
        try:
            found = read_run(runs / f"{name}.json")
            why = found.reason if found.status == "ERROR" else ""
        except Refused as refused:
            why = refused.why
        if why:
            wrong.append(Problem("runs", 0, f"{name}: {why}", Verdict.FAIL))
    if not wrong:
        read_side(runs, "guest")
    return wrong
