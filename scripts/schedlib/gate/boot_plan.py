# SPDX-License-Identifier: GPL-2.0
"""The plan of a campaign: the order of its boots, and the step that is done once in each of them.

A step notes which boot this is, makes its runs and boots the next kernel. The kernels of a plan are booted once each
time, so that after a hang and a reset the machine's own kernel comes up. The step there notes that the boot was lost.
"""

from __future__ import annotations

import os
import platform
import random
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from schedlib.cache import lock, write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Positive, Strict, Whole, Word
from schedlib.gate.gate_options import (
    BOOT_COMMANDS,
    CUT,
    GATES,
    LAVA,
    PLAN_FILE,
    PROGRESS_FILE,
    BootPlanOptions,
    NamedKernel,
    gates_path,
)
from schedlib.gate.rules import BLOCK, load_gate
from schedlib.kernel.machine import boot_id, now
from schedlib.names import suite_of_gates
from schedlib.paths import PROGRAM
from schedlib.progress import say
from schedlib.verdict import Verdict

SERVICE = "schedline-gate.service"
SCRIPT = "each-boot.sh"

_AGAIN = "restore the file from a backup, or write a new plan into another directory"

Label = Annotated[str, Meta(pattern="^[a-z][a-z0-9-]*$")]


class BootedKernel(Strict, frozen=True):
    """A kernel of a plan.

    Attributes:
        version: as `uname -r` prints it.
        command: the shell command that boots it next, once.
    """

    label: Label
    version: Word
    command: Word


class GatePlan(Document, frozen=True, kw_only=True):
    """Which kernel is booted when. It is written before the first boot and never changed.

    Attributes:
        kernels: the first is the base, the second the candidate.
        blocks: the order of the boots, in blocks with four boots of each kernel, or with one if they are pairs. The
            last may have fewer.
        looks: after how many boots of each kernel the gate is asked.
        seed: of the order.
        suite, only, runs: what is run in each boot.
        gates: the gates file.
        losses: after so many lost boots of a kernel in a row the campaign stops.
    """

    no_control_chars = True

    schema: Literal["gate-plan-1"]
    kernels: Annotated[tuple[BootedKernel, ...], Meta(min_length=2)]
    blocks: Annotated[tuple[tuple[Label, ...], ...], Meta(min_length=1)]
    looks: tuple[Positive, ...]
    seed: Whole
    suite: Word
    only: tuple[Word, ...]
    runs: Positive
    gates: Word
    losses: Positive

    def __post_init__(self) -> None:
        labels = {kernel.label for kernel in self.kernels}
        if len(labels) < len(self.kernels) or len({kernel.version for kernel in self.kernels}) < len(self.kernels):
            raise ValueError("two kernels have the same label or version, so their boots cannot be told apart")
        if unknown := set(self.order) - labels:
            raise ValueError(f"the order has {min(unknown)}, which is no kernel of the plan")

    @property
    def order(self) -> tuple[str, ...]:
        return tuple(label for block in self.blocks for label in block)

    @property
    def pairs(self) -> bool:
        return all(len(block) == len(self.kernels) for block in self.blocks)

    def kernel(self, label: str) -> BootedKernel:
        return next(kernel for kernel in self.kernels if kernel.label == label)


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

    no_control_chars = True

    schema: Literal["gate-progress-1"]
    attempts: tuple[BootAttempt, ...]
    looks: tuple[GateLook, ...]
    ended: str

    @property
    def done(self) -> tuple[str, ...]:
        """The kernel of each boot that is done."""
        return tuple(each.kernel for each in self.attempts if each.state == "done")


# ---- the order ----


def _fair(places: tuple[int, ...]) -> bool:
    """Neither kernel leads by more than two boots, nor is earlier on average by more than half a place."""
    leads = accumulate(1 if place in places else -1 for place in range(2 * BLOCK))
    return max(map(abs, leads)) <= 2 and abs(2 * sum(places) - BLOCK * (2 * BLOCK - 1)) <= BLOCK // 2


BLOCK_ORDERS = tuple(
    "".join("A" if place in places else "B" for place in range(2 * BLOCK))
    for places in combinations(range(2 * BLOCK), BLOCK)
    if _fair(places)
)
"""The 22 orders of a block of eight boots, ABBABAAB among them. In each of them a drift meets both kernels alike.

They are drawn by lot, because any fixed order meets some period of the machine. With ABBABAAB and its mirror image,
something that happens at every third boot looked like a change in 5 % of the campaigns; see docs/results/gate.md.
"""


def blocks(labels: Sequence[str], boots: int, seed: int, size: int = BLOCK) -> tuple[tuple[str, ...], ...]:
    """An order of so many boots of each kernel, drawn by lot in blocks of so many. The last block may have fewer.

    In each block any two of the kernels are in one of the BLOCK_ORDERS, so that a drift meets all of them alike.
    """
    source, found = random.Random(seed), []  # noqa: S311 - an order, no secret
    for start in range(0, boots, size):
        of_each = min(size, boots - start)
        fair = {order[: 2 * of_each] for order in BLOCK_ORDERS}
        order, drawn = [label for label in labels for _ in range(of_each)], False
        while not drawn:
            source.shuffle(order)
            pairs = combinations(labels, 2)
            drawn = all("".join("AB"[each == b] for each in order if each in (a, b)) in fair for a, b in pairs)
        found.append(tuple(order))
    return tuple(found)


def write_plan(wanted: BootPlanOptions) -> Verdict:
    out = wanted.out.absolute()
    if (out / PLAN_FILE).exists():
        again = shlex.join(["schedline", "gate", "plan", str(out), "--status"])
        raise SchedlineError(f"{out} has a plan, and a plan is never changed", again)
    suite = wanted.suite or suite_of_gates(wanted.gates)
    if not suite:
        raise SchedlineError(f"no suite measures the gates file {wanted.gates}", "name the suite with --suite")
    seed = wanted.seed if wanted.seed is not None else secrets.randbelow(1 << 32)
    # The service has another working directory.
    gates = wanted.gates if gates_path(wanted.gates).parent == GATES else str(Path(wanted.gates).absolute())
    looks = load_gate(gates).looks
    least, most = wanted.boots or (looks[0], looks[-1])
    if most < looks[-1]:
        say(f"a PASS takes {looks[-1]} boots of each kernel, and these are {most}: it will be FAIL or INCONCLUSIVE")
    try:
        plan = GatePlan(
            schema="gate-plan-1",
            kernels=tuple(_kernel(each, wanted) for each in wanted.kernels),
            blocks=blocks([kernel.label for kernel in wanted.kernels], most, seed, 1 if wanted.pairs else BLOCK),
            looks=tuple(look for look in looks if least <= look <= most),
            seed=seed,
            suite=suite,
            only=wanted.only,
            runs=wanted.runs,
            gates=gates,
            losses=wanted.losses,
        )
    except ValueError as error:
        raise SchedlineError(str(error), "give each kernel a CONFIG_LOCALVERSION of its own") from error
    document.write(out / PLAN_FILE, plan)
    print(plan_text(plan))
    if wanted.boot == LAVA:
        say(f"next: schedline fleet jobs {shlex.quote(str(wanted.out))} --device NAME --kernels LABEL=IMAGE,...")
        return Verdict.PASS
    _write_service(out)
    service, script, here = (shlex.quote(str(path)) for path in (out / SERVICE, out / SCRIPT, out))
    say("begin, as root; the machine reboots at once:")
    say(f"    systemctl enable --now {service}")
    say(f"    without systemd: let the machine call `sh {script}` at the end of each boot, and call it now")
    say(f"how far it is: schedline gate plan {here} --status")
    return Verdict.PASS


def plan_text(plan: GatePlan) -> str:
    lines = [f"{kernel.label}: {kernel.version}" for kernel in plan.kernels]
    rows = f" (rows {', '.join(plan.only)})" if plan.only else ""
    lines.append(f"in each boot: suite {plan.suite}{rows}, runs of each row: {plan.runs}")
    lines.append(f"order, seed {plan.seed}:")
    lines += [f"    {' '.join(block)}" for block in plan.blocks]
    looks = ", ".join(map(str, plan.looks)) or "all"
    lines.append(f"looks after {looks} boots of each kernel, with gates {plan.gates}")
    return "\n".join(lines)


def _kernel(named: NamedKernel, wanted: BootPlanOptions) -> BootedKernel:
    image, initrd = named.image, named.initrd
    if not image and wanted.boot == "kexec" and not wanted.next_command:
        image = f"/boot/vmlinuz-{named.version}"
        found = (f"/boot/initrd.img-{named.version}", f"/boot/initramfs-{named.version}.img")
        initrd = next((each for each in found if Path(each).exists()), "")
    for file in filter(None, (image, initrd)):
        if not Path(file).is_file():
            raise SchedlineError(f"{named.label}: there is no file {file}", "install the kernel, or give VERSION:IMAGE")
    if not (version := named.version or version_in(Path(image).read_bytes())):
        raise SchedlineError(f"{image} does not say its version", "give VERSION:IMAGE, as uname -r prints it there")
    try:
        command = (wanted.next_command or BOOT_COMMANDS[wanted.boot]).format(
            label=named.label,
            version=shlex.quote(version),
            image=shlex.quote(str(Path(image).absolute())) if image else "",
            initrd=f"--initrd={shlex.quote(str(Path(initrd).absolute()))}" if initrd else "",
            glob=shlex.quote(f"*{version}.conf"),
        )
    except (KeyError, ValueError, IndexError) as error:
        known = "{label}, {version}, {image} and {initrd}"
        raise SchedlineError(f"--next-command has braces with {error}", f"it may have {known}") from error
    return BootedKernel(named.label, version, " ".join(command.split()))


def version_in(image: bytes) -> str:
    """The version in a bzImage, as `uname -r` will print it; empty if it is none of x86."""
    place = 0x200 + int.from_bytes(image[0x20E:0x210], "little")
    found = re.match(rb"(\S+) ", image[place : place + 200]) if image[0x202:0x206] == b"HdrS" else None
    return found[1].decode(errors="replace") if found else ""


def _write_service(out: Path) -> None:
    step = shlex.join([sys.executable, str(PROGRAM), "gate", "plan", str(out), "--step"])
    cache = os.environ.get("SCHEDLINE_CACHE")
    kept = f"export SCHEDLINE_CACHE={shlex.quote(cache)}\n" if cache else ""
    script = f"""\
#!/bin/sh
# Once in each boot, as root: makes the runs of this boot, then boots the next kernel of the plan.
# Measure when the machine has come to rest.
if [ -d /run/systemd/system ]; then systemctl is-system-running --wait >/dev/null; fi
{kept}exec {step} >>{shlex.quote(str(out / "log"))} 2>&1
"""
    # As systemd reads a word in quotes.
    place = re.sub(r'[\\"]', r"\\\g<0>", str(out)).replace("%", "%%").replace("$", "$$")
    unit = f"""\
[Unit]
Description=The next boot of a plan of schedline

[Service]
ExecStart=/bin/sh "{place}/{SCRIPT}"
Restart=on-failure
RestartSec=10

[Install]
WantedBy=multi-user.target
"""
    write_atomic(out / SCRIPT, script)
    write_atomic(out / SERVICE, unit)


# ---- a step ----


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
        if not campaign.progress.ended:
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
        before = self.progress.attempts if new else self.progress.attempts[:-1]
        self._save(replace(self.progress, attempts=(*before, attempt)))
        kernel = f"boot {attempt.place + 1} of {len(self.plan.order)}, {attempt.kernel}"
        say(f"{now()[0]} {kernel}: {attempt.state}{attempt.why and ': '}{attempt.why}")

    def arrive(self) -> None:
        last = self.last
        if not last:
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
            (self.directory / CUT).mkdir(exist_ok=True)
            runs.rename(self.directory / CUT / attempt.boot_id)
        self._note(attempt)
        recent = self.progress.attempts[-self.plan.losses :]
        if len(recent) == self.plan.losses and all(each.failed and each.kernel == attempt.kernel for each in recent):
            self._end(f"{attempt.kernel} was lost {self.plan.losses} times in a row; the last time: {attempt.why}")

    def _end(self, why: str) -> None:
        self._save(replace(self.progress, ended=why))
        say(f"{now()[0]} the campaign ends: {why}")

    def measure(self) -> None:
        last = self.last
        if not last or last.state != "running":
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
        if not last or last.state != "asked":
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
    sides = (str(runs_of(directory, kernel.label)) for kernel in plan.kernels[:2])
    print(shlex.join(["schedline", "gate", *sides, "--gates", plan.gates]))
    through = done == len(plan.order) or any(look.final for look in progress.looks)
    return Verdict.PASS if through else Verdict.INCONCLUSIVE
