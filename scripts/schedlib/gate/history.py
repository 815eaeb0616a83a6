# SPDX-License-Identifier: GPL-2.0
"""`schedline gate --history`: a file with one line for each gate, which is only ever appended to."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from pathlib import Path
from typing import Literal

from schedlib import TOOL
from schedlib.cache import read_regular
from schedlib.errors import SchedlineError
from schedlib.formats.document import LARGEST, Document, line, parse
from schedlib.formats.gate_document import GateDocument, GateSide
from schedlib.formats.run_file import Direction
from schedlib.formats.strict import Moment, Number, Positive, Strict, Word
from schedlib.gate.gate_options import gates_path
from schedlib.progress import printable
from schedlib.verdict import Verdict

FILE = "history.jsonl"


class PastKernel(Strict, frozen=True):
    """A kernel that was gated. boots: the ids of its boots."""

    kernel: str
    build_id: str
    boots: tuple[str, ...]


class PastMetric(Strict, frozen=True):
    """A metric in a gate.

    Attributes:
        direction: which values are better.
        base, candidate: in `unit`; null if there is no value.
        change_unit: unit of change, low, high, budget and detect.
        low, high: the interval of the change.
    """

    tool: Word
    name: Word
    unit: str
    direction: Direction
    verdict: Verdict
    base: Number | None
    candidate: Number | None
    change_unit: str
    change: Number | None
    low: Number | None
    high: Number | None
    budget: Number | None
    detect: Number | None


class PastGate(Document, frozen=True, kw_only=True):
    """A line of history.jsonl: one gate.

    Attributes:
        tool: name and version of what wrote it.
        time: when the gate was asked.
        machine: its name in the runs.
        gates: name of the gates file.
        gates_hash: beginning of its SHA-256.
    """

    only_lines = True

    schema: Literal["history-1"]
    tool: Word
    time: Moment
    machine: str
    gates: str
    gates_hash: str
    verdict: Verdict
    base: PastKernel
    candidate: PastKernel
    metrics: tuple[PastMetric, ...]


class BadLine(Strict, frozen=True):
    """A line that is no gate. cut: its end is missing, as when its writer was killed."""

    line: Positive
    cut: bool
    why: str


def record(found: GateDocument, gates: str) -> PastGate:
    """What is kept of a gate. gates: the gates file as it was given."""
    content = read_regular(gates_path(gates), LARGEST)
    base, candidate = map(_kernel, found.sides[:2])
    return PastGate(
        schema="history-1",
        tool=TOOL,
        time=found.started,
        machine=found.fingerprint.get("machine_name", ""),
        gates=printable(found.gates.name),
        gates_hash=hashlib.sha256(content).hexdigest()[:16],
        verdict=found.status,
        base=base,
        candidate=candidate,
        metrics=tuple(
            PastMetric(**{name: getattr(each, name) for name in PastMetric.__struct_fields__}) for each in found.metrics
        ),
    )


def _kernel(side: GateSide) -> PastKernel:
    return PastKernel(side.kernel, side.build_id, side.boots)


def append(directory: Path, gate: PastGate) -> None:
    """Add a gate to the file. Several commands may do so at once, and any of them may be killed.

    The line is one write in append mode, so it is there as a whole or cut off at its end. The lock keeps others away
    while this command looks whether the last line is cut off; if it is, the new one begins on a line of its own.

    Raises:
        SchedlineError: the file cannot be written.
    """
    path = directory / FILE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        handle = os.open(path, flags, 0o644)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(0, "it is no regular file")
            fcntl.flock(handle, fcntl.LOCK_EX)
            size = os.fstat(handle).st_size
            cut = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            content = b"\n" * cut + line(gate)
            if os.write(handle, content) != len(content):
                raise OSError(0, "the disk is full")
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise SchedlineError(
            f"the gate cannot be added to {path}: {error.strerror}", f"df -h {directory}; ls -l {path}"
        ) from error


def read_history(directory: Path) -> tuple[list[PastGate], list[BadLine]]:
    """All gates in the order of time, and the lines that are none. A bad line never hides another line.

    Raises:
        SchedlineError: there is no such file, or it has more than 64 MiB.
    """
    path = directory / FILE
    try:
        content = read_regular(path, LARGEST)
    except OSError as error:
        observed = f"there is no history in {path}: {error.strerror}"
        raise SchedlineError(observed, f"schedline gate BASE CANDIDATE --history {directory}") from error
    gates: list[PastGate] = []
    bad: list[BadLine] = []
    for number, text in enumerate(content.split(b"\n"), 1):
        if text:
            try:
                gates.append(parse(text, PastGate))
            except ValueError as error:
                bad.append(BadLine(number, not text.endswith(b"}"), printable(str(error))[:300]))
    return sorted(gates, key=lambda gate: gate.time), bad
