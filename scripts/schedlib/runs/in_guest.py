# SPDX-License-Identifier: GPL-2.0
"""The runs of a plan in a guest: prepares the guest's files, and reads its results. Nothing here judges."""

from __future__ import annotations

import shlex
import shutil
import tempfile
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
from schedlib.runs.tool_process import Finished, said_in
from schedlib.runs.tools.tool_table import TOOLS
from schedlib.runs.workload_suites import Suite, WorkloadRow

COLLECTION = "guest"
"""The collection in which the guest's console reports its runs."""

OWN = Path("/sched_latency")
"""The directory of the workloads in the guest."""

SLOWER = 4
"""How much longer a run may take on emulated CPUs."""

_KILLED = 128 + 9


@dataclass(frozen=True)
class Errand:
    """Something that the guest has to run. Its console reports it by `name`."""

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
"""Runs first, and belongs to no suite. Its run has the guest's fingerprint, which runs of tools lack."""


def for_guest(suite: Suite, cpus: int) -> Suite:
    """The suite as a guest runs it: with the guest's number of CPUs, and longer durations."""
    changed = msgspec.structs.replace
    rows = (changed(row, arguments=tuple(row.words(cpus)), seconds=SLOWER * row.seconds) for row in suite.rows)
    return replace(suite, rows=tuple(rows))


def _programs(row: WorkloadRow) -> list[Path]:
    """The programs to copy from this machine: the tool, its server, and tools that it starts."""
    if not row.tool:
        return []
    tool = TOOLS[row.tool]
    started = [word for word in row.words() if word in TOOLS]
    names = [tool.path() or tool.name, *([tool.server.argv[0]] if tool.server else []), *started]
    return [Path(found) for name in names if (found := shutil.which(name))]


def why_not_in_guest(row: WorkloadRow, arch: str) -> tuple[str, bool]:
    """Why a row cannot be run in a guest, and whether a program is missing. Root can use SCHED_FIFO in the guest."""
    why, missing = why_not(row, "")
    if not why and row.tool and TOOLS[row.tool].driver:
        why = "it needs Python, which the guest lacks"
    if not why:
        why = next((reason for program in _programs(row) if (reason := why_not_for(program, arch))), "")
    return why, missing


def errands(suite: Suite, order: Iterable[PlannedRun], arch: str) -> list[Errand]:
    """The runs that are possible, in the order of the plan."""
    rows = {row.name: row for row in suite.rows if not why_not_in_guest(row, arch)[0]}
    return [IDENTITY, *(Errand(f"{run.row}-{run.number}", rows[run.row]) for run in order if run.row in rows)]


def files(todo: Sequence[Errand], place: Path) -> dict[str, Path]:
    """The files that the guest needs, by their path there. `place`: an empty directory for those that are written."""
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
    """How a run ended, as guest_runs.sh has written it: its start by both clocks, and how its process ended."""
    started, before, after, *status = (place / "ending").read_text().split()
    seconds = float(after) - float(before)
    code = int(status[0]) if status else None
    late = code == _KILLED and seconds >= limit - 1
    # A shell reports death by a signal as 128 plus its number. Larger ones, such as 255, are a program's exit status.
    ended = None if late else 128 - code if code and 128 < code < 128 + 65 else code
    why = said_in(place / "problem").strip()
    said = said_in(place / "stdout"), said_in(place / "stderr")
    return started, float(before), Finished(ended, late, why, "", seconds, 0.0, *said)


def identity(disk: Path) -> dict[str, str]:
    """The fingerprint of the guest, without what belongs to one run; empty if the guest left none."""
    with tempfile.TemporaryDirectory(dir=disk.parent) as place:
        bring_home(disk, 0, Path(place))
        try:
            found = run_file.read_run(Path(place, OWN_JSON))
        except Refused:
            return {}
    return {name: value for name, value in found.fingerprint.items() if name != "command_line"}


def brought(errand: Errand, slot: int, disk: Path, fingerprint: Mapping[str, str]) -> Measured:
    """Read a run that the guest had to make."""
    with tempfile.TemporaryDirectory(dir=disk.parent) as name:
        place = Path(name)
        why = bring_home(disk, slot, place)
        if why or not (place / "ending").exists():
            head = head_of(errand.row, fingerprint, "1970-01-01T00:00:00Z", 0)
            return Measured(run_of(head, Reading(error=why or "it did not end in the guest")), "")
        started, uptime, finished = _finished(place, time_limit(errand.row))
        head = head_of(errand.row, fingerprint, started, uptime)
        return read_run(errand.row, head, command(errand.row, OWN), finished, place)


def left_out(row: WorkloadRow, arch: str, fingerprint: Mapping[str, str], started: str) -> Measured:
    """A run that was skipped because the guest cannot make it."""
    why, missing = why_not_in_guest(row, arch)
    return skipped(head_of(row, fingerprint, started, 0), row, why, missing)
