# SPDX-License-Identifier: GPL-2.0
"""The figure of a trial: six pairs of boots, of which one was cut and one hung, and both were repeated."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

import pytest

from proof import boot_trial
from proof.boot_trial import DebianKernel
from schedlib.gate.boot_plan import PresentBoot, read_progress, runs_of, step
from schedlib.guest.boot import Ending, GuestRun
from schedlib.main import main


class Cut(Exception):
    """The power is cut."""


@dataclass
class Machine:
    """What QEMU would be: boots as boot_trial.INIT makes them, until they switch the machine off."""

    campaign: Path
    hangs: int = 0
    boots: int = 0
    version: str = "own"
    console: StringIO = field(default_factory=StringIO)
    stop: re.Pattern[bytes] | None = None

    def disk(self, place: Path, bundle: Path, kernels: Sequence[DebianKernel], plan: str, hangs: int) -> Path:
        self.hangs = hangs
        for kernel in kernels:
            (place / kernel.version).write_bytes(b"")
        plan = re.sub(r"=(7\.3-\w)", rf"=\1:{place}/\1", plan.replace("/campaign", str(self.campaign)))
        assert main(shlex.split(plan)[1:]) == 0
        return place / "disk"

    def run(self, argv: Sequence[str], log: Path, seconds: float, stop: re.Pattern[bytes] | None) -> GuestRun:
        self.stop, self.console, self.version = stop, StringIO(), "own"
        ending = Ending.EXITED
        try:
            with redirect_stderr(self.console), redirect_stdout(self.console):
                while self.up():
                    pass
        except Cut:
            ending = Ending.KILLED
        log.write_text(self.console.getvalue())
        return GuestRun(tuple(argv), log, ending)

    def up(self) -> bool:
        """A boot; whether another one follows."""
        self.boots += 1
        if self.boots == self.hangs:  # until the watchdog resets the machine, which then boots its own kernel
            self.version = "own"
            return True
        asked: list[str] = []

        def boot(command: str) -> int:
            asked.append(command)
            return 0

        here = PresentBoot(f"boot-{self.boots}", self.version, self.schedline, boot)
        step(self.campaign, here)
        self.version = next((each for each in ("7.3-a", "7.3-b") if asked and each in asked[-1]), "own")
        return bool(asked)

    def schedline(self, words: Sequence[str]) -> int:
        if words[0] == "gate":
            return 0
        out = Path(words[words.index("--out") + 1])
        (out / f"boot-{self.boots}").mkdir(parents=True)
        print(f"storm-quick in {out}/")
        said = self.console.getvalue().replace(str(self.campaign), "/campaign").encode()
        if self.stop and self.stop.search(said):
            raise Cut
        return 0


def test_each_boot_is_made_once_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path / "campaign")
    monkeypatch.setattr(boot_trial, "kernel_of", lambda root, place: DebianKernel(root.name, root, root))
    monkeypatch.setattr(boot_trial, "disk", machine.disk)
    monkeypatch.setattr(boot_trial, "run_guest", machine.run)
    monkeypatch.setattr(boot_trial, "campaign_of", lambda image, place: machine.campaign)
    kernels = [Path(name) for name in ("own", "7.3-a", "7.3-b")]
    found = boot_trial.trial(tmp_path / "x", Path("bundle"), kernels, boots=6, cut=7, hangs=11)
    states = Counter(each.state for each in read_progress(found).attempts)
    assert states == {"done": 12, "cut": 1, "lost": 1}
    assert {label: len(list(runs_of(found, label).iterdir())) for label in ("base", "candidate")} == {
        "base": 6,
        "candidate": 6,
    }
    assert read_progress(found).ended
