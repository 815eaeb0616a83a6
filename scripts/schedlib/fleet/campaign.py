# SPDX-License-Identifier: GPL-2.0
"""The directory of a campaign with many machines: its plan, its jobs, what came home, and the runs for the gate."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from schedlib.cache import read_regular
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.document import LARGEST, Document
from schedlib.formats.strict import Count, Moment, Positive, Strict, Word
from schedlib.gate.boot_plan import GatePlan, Label
from schedlib.gate.gate_options import PLAN_FILE
from schedlib.runs.guest_runs import for_guest
from schedlib.runs.workload_suites import Suite, chosen, load_suite
from schedlib.verdict import Verdict

NO_TOOL = "the ramdisk of a fleet has the programs of schedline alone"

JobName = Annotated[str, Meta(pattern="^[a-z0-9_]+(-[a-z0-9_]+)*\\.[A-Za-z0-9_-]+\\.[0-9]+$")]
"""The kind of device, the series of jobs, and the number of the block."""

BootState = Literal["home", "failed", "lost"]


class FleetJob(Strict, frozen=True):
    """A job: the boots of one block on one machine. order: the kernel of each boot."""

    name: JobName
    order: Annotated[tuple[Label, ...], Meta(min_length=1)]


class FleetJobs(Document, frozen=True, kw_only=True):
    """The jobs of a plan for one kind of device. Written with the job definitions, and never changed.

    Attributes:
        campaign: the id of the plan; the kernel's command line has it in each boot.
        device: the name of its file in configs/fleet/, without .toml.
        digest: of the rows as they run there.
    """

    no_control_chars = True

    schema: Literal["fleet-jobs-2"]
    campaign: Word
    device: Word
    cpus: Positive
    emulated: bool
    digest: Word
    jobs: Annotated[tuple[FleetJob, ...], Meta(min_length=1)]


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
        machine: as the laboratory names it.
        begun: when; it tells one attempt at the job from another.
    """

    no_control_chars = True

    schema: Literal["fleet-collected-2"]
    campaign: Word
    job: JobName
    machine: Word
    begun: Moment
    boots: tuple[CollectedBoot, ...]


def campaign_id(directory: Path) -> str:
    return hashlib.sha256(read_regular(directory / PLAN_FILE, LARGEST)).hexdigest()[:12]


def jobs_file(directory: Path, device: str) -> Path:
    return directory / "devices" / f"{device}.json"


def collected_file(directory: Path, job: str, machine: str, begun: datetime) -> Path:
    """Its file. A job may be submitted several times, and run on several machines."""
    return directory / "collected" / f"{job}@{machine}@{begun.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}.json"


def all_jobs(directory: Path) -> list[FleetJobs]:
    again = "write the jobs anew in a new directory"
    paths = sorted((directory / "devices").glob("*.json"))
    found = [document.read(path, FleetJobs, again) for path in paths]
    if not found:
        raise SchedlineError(f"{directory} has no jobs", "schedline fleet jobs --help")
    for path, jobs in zip(paths, found, strict=True):
        if jobs.campaign != campaign_id(directory):
            raise SchedlineError(f"{path} has the jobs of another plan", again)
    return found


def fleet_suite(plan: GatePlan, cpus: int, emulated: bool) -> tuple[Suite, list[str]]:
    """The rows of a plan's suite as a device runs them, and the names of those that it cannot run."""
    suite = chosen(load_suite(plan.suite), plan.only)
    own = replace(suite, rows={name: row for name, row in suite.rows.items() if row.program})
    if not own.rows:
        said = f"no row of the suite {plan.suite} can run: {NO_TOOL}"
        raise SchedlineError(said, "--suite gate in `schedline gate plan`")
    return for_guest(own, cpus, emulated=emulated), [name for name in suite.rows if name not in own.rows]
