# SPDX-License-Identifier: GPL-2.0
"""The runs of a plan in a guest: what it is sent to do, and what came home of it. Nothing here judges."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from schedlib.formats import run_file
from schedlib.formats.document import Refused
from schedlib.formats.plan_document import PlannedRun
from schedlib.formats.run_file import Reading, run_of
from schedlib.guest.busybox_image import why_not_for, with_libraries
from schedlib.guest.home import bring_home
from schedlib.runs.measure import OWN_JSON, Measured, command, head_of, read_run, skipped, time_limit, why_not
from schedlib.runs.tool_process import Finished
from schedlib.runs.tools.tool_table import TOOLS
from schedlib.runs.workload_suites import Suite, WorkloadRow

COLLECTION = "guest"
"""As its console calls what it runs."""

OWN = Path("/sched_latency")
"""Where the workloads lie in the guest."""

SLOWER = 4
"""How much longer a run may take on emulated CPUs."""

_KILLED = 128 + 9


@dataclass(frozen=True)
class Errand:
    """Something that the guest is sent to run; `name` is how its console calls it."""

    name: str
    row: WorkloadRow


IDENTITY = Errand(
    "identity",
    WorkloadRow(
        name="identity",
        program="sleep_storm",
        arguments=("-c", "1", "-l", "1"),
        seconds=1,
        work="sleeps",
        metrics={"sleeps": "sleeps"},
    ),
)
"""The first one, of no suite: its run has the fingerprint of the guest, which those of tools lack."""


def for_guest(suite: Suite, cpus: int) -> Suite:
    """The suite as a guest runs it: with its number of CPUs, and with patience."""
    rows = tuple(
        msgspec.structs.replace(row, arguments=tuple(row.words(cpus)), seconds=SLOWER * row.seconds)
        for row in suite.rows
    )
    return replace(suite, rows=rows)


def _programs(row: WorkloadRow) -> list[Path]:
    """What has to be taken along from this machine: the tool, its server, and tools that it starts."""
    if not row.tool:
        return []
    tool = TOOLS[row.tool]
    started = [word for word in row.words() if word in TOOLS]
    names = [tool.path() or tool.name, *([tool.server.argv[0]] if tool.server else []), *started]
    return [Path(found) for name in names if (found := shutil.which(name))]


def why_not_in_guest(row: WorkloadRow, arch: str) -> tuple[str, bool]:
    """Why a row cannot be run in a guest, and whether a program is missing. Root may have SCHED_FIFO there."""
    why, missing = why_not(row, "")
    if not why and row.tool and TOOLS[row.tool].driver:
        why = "Python starts it, which the guest has not"
    if not why:
        why = next((reason for program in _programs(row) if (reason := why_not_for(program, arch))), "")
    return why, missing


def errands(suite: Suite, order: Iterable[PlannedRun], arch: str) -> list[Errand]:
    """What can be run, in the order of the plan."""
    rows = {row.name: row for row in suite.rows if not why_not_in_guest(row, arch)[0]}
    return [IDENTITY, *(Errand(f"{run.row}-{run.number}", rows[run.row]) for run in order if run.row in rows)]


def files(todo: Sequence[Errand], place: Path) -> dict[str, Path]:
    """What the guest has to have for its errands, by where it lies there; written here where it is not on this machine.

    Args:
        place: an empty directory.
    """
    written: dict[str, str] = {}
    for number, errand in enumerate(todo):
        tool = TOOLS[errand.row.tool] if errand.row.tool else None
        run = f"/runs/{number:03}"
        about = f"{errand.name} {time_limit(errand.row):.0f}"
        if tool and tool.server:
            about += f" {tool.server.port:04X}"
            written[f"{run}/server"] = _script(tool.server.argv)
        written[f"{run}/about"] = about + "\n"
        written[f"{run}/command"] = _script(command(errand.row, OWN))
    found: dict[str, Path] = {}
    for name, text in written.items():
        found[name] = place / name.lstrip("/").replace("/", "-")
        found[name].write_text(text)
    programs = [program for errand in todo for program in _programs(errand.row)]
    data = {name for errand in todo if errand.row.tool for name in TOOLS[errand.row.tool].data if Path(name).exists()}
    return found | with_libraries(programs) | {name: Path(name) for name in data}


def _script(argv: Sequence[str]) -> str:
    return f"#!/bin/sh\nexec {shlex.join(argv)}\n"


def _finished(place: Path, limit: float) -> tuple[str, float, Finished]:
    """How a run ended, as guest_runs.sh has written it: when it started, by both clocks, and the rest."""
    started, before, after, *status = (place / "ending").read_text().split()
    problem = place / "problem"
    seconds = float(after) - float(before)
    code = int(status[0]) if status else None
    late = code == _KILLED and seconds >= limit - 1
    # As a shell tells that a signal ended it; 255 is the status of a program.
    ended = None if late else 128 - code if code and 128 < code < 128 + 65 else code
    said = [
        (place / name).read_bytes().decode(errors="replace") if (place / name).exists() else ""
        for name in ("stdout", "stderr")
    ]
    why = problem.read_text().strip() if problem.exists() else ""
    return started, float(before), Finished(ended, late, why, "", seconds, 0.0, *said)


def identity(disk: Path, place: Path) -> dict[str, str]:
    """The fingerprint of the guest, without what belongs to one run; empty where none came home."""
    bring_home(disk, 0, place)
    try:
        found = run_file.read_run(place / OWN_JSON)
    except Refused:
        return {}
    return {name: value for name, value in found.fingerprint.items() if name != "command_line"}


def brought(errand: Errand, slot: int, disk: Path, fingerprint: Mapping[str, str], place: Path) -> Measured:
    """A run that the guest was sent to make.

    Args:
        place: an empty directory.
    """
    why = bring_home(disk, slot, place)
    if why or not (place / "ending").exists():
        head = head_of(errand.row, fingerprint, "1970-01-01T00:00:00Z", 0)
        return Measured(run_of(head, Reading(error=why or "it did not end in the guest")), "")
    started, uptime, finished = _finished(place, time_limit(errand.row))
    head = head_of(errand.row, fingerprint, started, uptime)
    return read_run(errand.row, head, command(errand.row, OWN), finished, place)


def left_out(row: WorkloadRow, arch: str, fingerprint: Mapping[str, str], started: str) -> Measured:
    """A run that the guest was not sent to make."""
    why, missing = why_not_in_guest(row, arch)
    return skipped(head_of(row, fingerprint, started, 0), row, why, missing)
