# SPDX-License-Identifier: GPL-2.0
"""The jobs that a fleet gets from a plan, and what came home from each of them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from schedlib.formats.document import Document
from schedlib.formats.gate_plan_document import Label
from schedlib.formats.strict import Count, Moment, Positive, Strict, Whole, Word
from schedlib.verdict import Verdict

JobName = Annotated[str, Meta(pattern="^[a-z0-9_]+(-[a-z0-9_]+)*\\.[A-Za-z0-9_-]+\\.[0-9]+$")]
"""The kind of device, the series of jobs, and the number of the block."""


BootState = Literal["home", "failed", "lost"]


class FleetJob(Strict, frozen=True):
    """A job: the boots of one block on one machine. order: the kernel of each boot."""

    name: JobName
    order: Annotated[tuple[Label, ...], Meta(min_length=1)]


class FleetJobs(Document, frozen=True, kw_only=True):
    """The jobs for one kind of device. Written with the job definitions, and never changed.

    Attributes:
        campaign: the id of the plan; the kernel's command line has it in each boot.
        device: the name of its file in configs/fleet/, without .toml.
        arch: make's ARCH.
        kernels: the version of each kernel by its label, as `uname -r` prints it.
        suite, rows, runs, seed: what is run in each boot, and the seed of its order.
        digest: of the rows as they run there.
        errands: the name of each run in the order in which a boot makes them.
        left_out: rows of the suite that cannot run there, and why.
    """

    only_lines = True

    schema: Literal["fleet-jobs-1"]
    campaign: Word
    device: Word
    arch: Word
    cpus: Positive
    emulated: bool
    kernels: dict[str, str]
    suite: Word
    rows: Annotated[tuple[Word, ...], Meta(min_length=1)]
    runs: Positive
    seed: Whole
    digest: Word
    errands: Annotated[tuple[Word, ...], Meta(min_length=1)]
    left_out: dict[str, str]
    jobs: Annotated[tuple[FleetJob, ...], Meta(min_length=1)]

    def job(self, name: str) -> FleetJob | None:
        """A job by its name."""
        return next((job for job in self.jobs if job.name == name), None)


class CollectedBoot(Strict, frozen=True):
    """A boot of a job.

    Attributes:
        place: which boot of the job, from 0.
        kernel: that had to boot.
        state: home: all its runs came home. failed: the kernel did not do its work, which counts against it. lost: the
            laboratory or the transfer failed, which says nothing of the kernel.
        boot_id: empty if it is not known.
        console: the verdict on its console.
        why: of failed and lost, and of a console that is no PASS.
    """

    place: Count
    kernel: Label
    state: BootState
    boot_id: str
    console: Verdict
    why: str


class CollectedJob(Document, frozen=True, kw_only=True):
    """What came home from one job. It depends on the job's log alone.

    Attributes:
        job: its name in the plan's jobs.
        log: the sha256 of the log.
        machine: as the laboratory names it.
        begun: when; it tells one attempt at the job from another.
        ended: whether the log has LAVA's last record. LAVA's verdict is not kept, because nothing is judged by it.
    """

    only_lines = True

    schema: Literal["fleet-collected-1"]
    campaign: Word
    job: JobName
    machine: Word
    begun: Moment
    log: Word
    ended: bool
    boots: tuple[CollectedBoot, ...]
