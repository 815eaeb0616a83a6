# SPDX-License-Identifier: GPL-2.0
"""The step that is done once in each boot of a plan: note which boot this is, make its runs, boot the next kernel.

The kernels of a plan are booted once each time, so that after a hang and a reset the machine's own kernel comes up. The
step there notes that the boot was lost.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from schedlib.cache import lock
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Positive, Strict, Whole, Word
from schedlib.gate.boot_order import GatePlan, Label, plan_text, write_plan
from schedlib.gate.gate_options import PLAN_FILE, PROGRESS_FILE, BootPlanOptions
from schedlib.kernel.machine import boot_id, now
from schedlib.paths import PROGRAM
from schedlib.progress import say
from schedlib.verdict import Verdict

_AGAIN = "restore the file from a backup, or write a new plan into another directory"


class BootAttempt(Strict, frozen=True):
    """One attempt to make a boot of the plan.

    Attributes:
        place: which boot of the order, from 0.
        state: asked: this kernel is to come up next; running: it came up, and its runs are made; done: they are there;
            lost: another kernel came up; cut: it ended before its runs were there.
        asked_in: the id of the boot that asked for it.
        boot_id: its own id; empty until it comes up.
        why: of lost and cut.
    """

    place: Count
    kernel: Label
    state: Literal["asked", "running", "done", "lost", "cut"]
    asked_in: Word
    boot_id: str
    why: str

    @property
    def failed(self) -> bool:
        """Whether it has to be made again."""
        return self.state in ("lost", "cut")


class GateLook(Strict, frozen=True):
    """What the gate said after this number of boots of each kernel. code: its exit code."""

    boots: Positive
    code: Whole

    @property
    def final(self) -> bool:
        """Whether no further boot can change the verdict."""
        return self.code in (Verdict.PASS.exit_code, Verdict.FAIL.exit_code)


class GateProgress(Document, frozen=True, kw_only=True):
    """How far a plan has come. Replaced as a whole, atomically, at each step.

    Attributes:
        attempts: all of them, in their order.
        ended: why no further boot is made; empty while the campaign goes on.
    """

    only_lines = True

    schema: Literal["gate-progress-1"]
    attempts: tuple[BootAttempt, ...]
    looks: tuple[GateLook, ...]
    ended: str

    @property
    def done(self) -> tuple[str, ...]:
        """The kernel of each boot that is done."""
        return tuple(each.kernel for each in self.attempts if each.state == "done")


def _ended(*words: str) -> int:
    return subprocess.run(words, check=False, stdin=subprocess.DEVNULL).returncode


@dataclass(frozen=True)
class PresentBoot:
    """The boot in which a step is done.

    Attributes:
        version: as `uname -r` prints it.
        schedline: runs schedline with these arguments; returns its exit code.
        boot: runs the shell command that boots a kernel; returns its exit code.
    """

    id: str = field(default_factory=boot_id)
    version: str = field(default_factory=platform.release)
    schedline: Callable[[Sequence[str]], int] = lambda words: _ended(sys.executable, str(PROGRAM), *words)
    boot: Callable[[str], int] = lambda command: _ended("/bin/sh", "-c", f"sync\n{command}")


def plan(options: BootPlanOptions) -> Verdict:
    """`schedline gate plan`: write a plan, or go on with one that is there."""
    if not options.directory:
        return write_plan(options)
    return step(options.directory, PresentBoot()) if options.step else status(options.directory)


def read_plan(directory: Path) -> GatePlan:
    return document.read(directory / PLAN_FILE, GatePlan, "schedline gate plan --help")


def read_progress(directory: Path) -> GateProgress:
    if not (directory / PROGRESS_FILE).exists():
        return GateProgress(schema="gate-progress-1", attempts=(), looks=(), ended="")
    return document.read(directory / PROGRESS_FILE, GateProgress, _AGAIN)


def runs_of(directory: Path, label: str) -> Path:
    return directory / "runs" / label


def step(directory: Path, here: PresentBoot) -> Verdict:
    """Do what is to be done in this boot, and boot the next kernel of the plan."""
    directory = directory.absolute()
    with lock(directory / ".lock"):
        campaign = _Campaign(directory, here)
        campaign.arrive()
        campaign.measure()
        campaign.look()
        return campaign.go_on()


class _Campaign:
    def __init__(self, directory: Path, here: PresentBoot) -> None:
        self.directory, self.here = directory, here
        self.plan, self.progress = read_plan(directory), read_progress(directory)

    @property
    def last(self) -> BootAttempt | None:
        return self.progress.attempts[-1] if self.progress.attempts else None

    def _save(self, progress: GateProgress) -> None:
        self.progress = progress
        document.write(self.directory / PROGRESS_FILE, progress)

    def _note(self, attempt: BootAttempt, *, new: bool = False) -> None:
        """Save the last attempt, or a new one."""
        before = self.progress.attempts if new else self.progress.attempts[:-1]
        self._save(replace(self.progress, attempts=(*before, attempt)))
        kernel = f"boot {attempt.place + 1} of {len(self.plan.order)}, {attempt.kernel}"
        say(f"{now()[0]} {kernel}: {attempt.state}{attempt.why and ': '}{attempt.why}")

    def arrive(self) -> None:
        """Find out what became of the last attempt."""
        last = self.last
        if last is None or self.progress.ended:
            return
        if last.state == "asked" and last.asked_in != self.here.id:
            if self.here.version == self.plan.kernel(last.kernel).version:
                self._note(replace(last, state="running", boot_id=self.here.id))
            else:
                self._failed(replace(last, state="lost", why=f"{self.here.version} came up"))
        elif last.state == "running" and last.boot_id != self.here.id:
            self._failed(replace(last, state="cut", why="the machine was reset before its runs were there"))

    def _failed(self, attempt: BootAttempt) -> None:
        """Note an attempt that gave no boot; after several of one kernel in a row, the campaign ends."""
        runs = runs_of(self.directory, attempt.kernel) / attempt.boot_id
        if attempt.boot_id and runs.exists():
            # The gate would take half a boot for a boot.
            (self.directory / "cut").mkdir(exist_ok=True)
            runs.rename(self.directory / "cut" / attempt.boot_id)
        self._note(attempt)
        recent = self.progress.attempts[-self.plan.losses :]
        if len(recent) == self.plan.losses and all(each.failed and each.kernel == attempt.kernel for each in recent):
            self._end(f"{attempt.kernel} was lost {self.plan.losses} times in a row; the last time: {attempt.why}")

    def _end(self, why: str) -> None:
        self._save(replace(self.progress, ended=why))
        say(f"{now()[0]} the campaign ends: {why}")

    def measure(self) -> None:
        """Make the runs of this boot, if it is one of the plan."""
        last = self.last
        if last is None or last.state != "running" or self.progress.ended:
            return
        plan, out = self.plan, runs_of(self.directory, last.kernel)
        words = ["run", "--suite", plan.suite, "--runs", str(plan.runs), "--out", str(out)]
        if code := self.here.schedline([*words, *(["--only", ",".join(plan.only)] if plan.only else [])]):
            self._failed(replace(last, state="cut", why=f"schedline {' '.join(words[:3])} ended with {code}"))
        else:
            self._note(replace(last, state="done"))

    def look(self) -> None:
        """Ask the gate, if as many boots are done as for one of the looks of the plan."""
        boots = min(self.progress.done.count(kernel.label) for kernel in self.plan.kernels)
        if self.progress.ended or boots not in self.plan.looks or boots in {each.boots for each in self.progress.looks}:
            return
        base, candidate, *others = (str(runs_of(self.directory, each.label)) for each in self.plan.kernels)
        words = ["gate", base, candidate, "--gates", self.plan.gates, *(["--placebo", others[0]] if others else [])]
        code = self.here.schedline([*words, "--json", str(self.directory / f"look-{boots}.json")])
        look = GateLook(boots, code)
        self._save(replace(self.progress, looks=(*self.progress.looks, look)))
        say(f"{now()[0]} look after {boots} boots of each kernel: the gate ended with {code}")
        if look.final:
            self._end(f"the gate has its verdict after {boots} boots of each kernel")

    def go_on(self) -> Verdict:
        done = len(self.progress.done)
        if not self.progress.ended and done == len(self.plan.order):
            self._end("all boots are done")
        if self.progress.ended:
            say(f"nothing is left to do: {self.progress.ended}")
            return Verdict.PASS
        label, last = self.plan.order[done], self.last
        if last is None or last.state != "asked":
            self._note(BootAttempt(done, label, "asked", self.here.id, "", ""), new=True)
        command = self.plan.kernel(label).command
        if code := self.here.boot(command):
            raise SchedlineError(f"the command that boots {label} ended with {code}: {command}", "run it by hand")
        return Verdict.PASS


def status(directory: Path) -> Verdict:
    """Print the plan and how far it is. PASS: all boots are done, or the gate has its verdict."""
    plan, progress = read_plan(directory), read_progress(directory)
    print(plan_text(plan))
    for attempt in progress.attempts:
        boot = f"  {attempt.boot_id}" if attempt.boot_id else ""
        why = f"  {attempt.why}" if attempt.why else ""
        print(f"{attempt.place + 1:3} {attempt.kernel:<10} {attempt.state:<8}{boot}{why}")
    for look in progress.looks:
        verdict = next((each.value for each in Verdict if each.exit_code == look.code), str(look.code))
        print(f"look after {look.boots} boots of each kernel: {verdict}")
    done = len(progress.done)
    failed = sum(each.failed for each in progress.attempts)
    print(f"{done} of {len(plan.order)} boots are done, {failed} were lost or cut short")
    print(f"ended: {progress.ended}" if progress.ended else "it goes on")
    base, candidate = (runs_of(directory, kernel.label) for kernel in plan.kernels[:2])
    print(f"schedline gate {base} {candidate} --gates {plan.gates}")
    through = done == len(plan.order) or any(look.final for look in progress.looks)
    return Verdict.PASS if through else Verdict.INCONCLUSIVE
