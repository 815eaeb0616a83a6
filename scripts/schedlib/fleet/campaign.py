# SPDX-License-Identifier: GPL-2.0
"""The directory of a campaign with many machines: its plan, its jobs, what came home, and the runs for the gate."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.fleet_jobs_document import FleetJobs
from schedlib.formats.plan_document import PlannedRun
from schedlib.gate.boot_order import PLAN_FILE
from schedlib.runs.guest_runs import IDENTITY, SLOWER, Errand
from schedlib.runs.workload_suites import Suite, chosen, load_suite

NO_TOOL = "the ramdisk of a fleet has the programs of schedline alone"


def campaign_id(directory: Path) -> str:
    """A short name of the plan."""
    return hashlib.sha256((directory / PLAN_FILE).read_bytes()).hexdigest()[:12]


def jobs_file(directory: Path, device: str) -> Path:
    """The file with the jobs for a kind of device."""
    return directory / "devices" / f"{device}.json"


def collected_file(directory: Path, job: str, machine: str, begun: datetime) -> Path:
    """The file with what came home from a job. A job may be submitted several times, and run on several machines."""
    return directory / "collected" / f"{job}@{machine}@{begun.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}.json"


def runs_of_machine(directory: Path, machine: str) -> Path:
    """The directory of a machine, as `gate --fleet` reads it."""
    return directory / "fleet" / machine


def all_jobs(directory: Path) -> list[FleetJobs]:
    """The jobs for all kinds of devices.

    Raises:
        Refused: a file is not valid.
        SchedlineError: there are none, or they belong to another plan.
    """
    again = "write the jobs anew in a new directory"
    paths = sorted((directory / "devices").glob("*.json"))
    found = [document.read(path, FleetJobs, again) for path in paths]
    if not found:
        raise SchedlineError(f"{directory} has no jobs", "schedline fleet jobs --help")
    for path, jobs in zip(paths, found, strict=True):
        if jobs.campaign != campaign_id(directory):
            raise SchedlineError(f"{path} has the jobs of another plan", again)
    return found


def fleet_suite(name: str, only: tuple[str, ...], cpus: int, emulated: bool) -> tuple[Suite, dict[str, str]]:
    """The rows of a suite as a device runs them, and those that it cannot run, with the reason.

    Raises:
        SchedlineError: it can run none of them.
    """
    suite = chosen(load_suite(name), only)
    rows = tuple(
        replace(row, arguments=tuple(row.words(cpus)), seconds=row.seconds * (SLOWER if emulated else 1))
        for row in suite.rows
        if row.program
    )
    if not rows:
        raise SchedlineError(f"no row of the suite {name} can run: {NO_TOOL}", "--suite gate in `schedline gate plan`")
    left_out = {row.name: NO_TOOL for row in suite.rows if not row.program}
    return Suite(suite.name, suite.about, rows), left_out


def errands_of(suite: Suite, order: tuple[PlannedRun, ...]) -> list[Errand]:
    """The runs of a boot in their order. The first one finds out which machine and kernel this is."""
    rows = {row.name: row for row in suite.rows}
    return [IDENTITY, *(Errand(f"{run.row}-{run.number}", rows[run.row]) for run in order)]
