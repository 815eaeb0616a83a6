# SPDX-License-Identifier: GPL-2.0
"""The boots of a campaign: the plan, written before the first boot, and how far it has come."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Positive, Strict, Whole, Word
from schedlib.verdict import Verdict

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
        blocks: the order of the boots, in blocks with four boots of each kernel. The last may have fewer.
        looks: after how many boots of each kernel the gate is asked.
        seed: of the order.
        suite, only, runs: what is run in each boot.
        gates: the gates file.
        losses: after so many lost boots of a kernel in a row the campaign stops.
    """

    only_lines = True

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
        """The label of each boot."""
        return tuple(label for block in self.blocks for label in block)

    def kernel(self, label: str) -> BootedKernel:
        """A kernel by its label."""
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
