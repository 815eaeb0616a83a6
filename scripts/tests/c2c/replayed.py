# SPDX-License-Identifier: GPL-2.0
"""The cache model without QEMU: traces in, counts out."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from schedlib.c2c.raw import Record, read_record
from schedlib.formats.c2c_document import Counts
from schedlib.paths import PROJECT

SOURCES = PROJECT / "scripts/c2c"


def compile_replay(directory: Path) -> Path:
    """The program that feeds a trace to the model."""
    program = directory / "replay"
    files = [str(SOURCES / name) for name in ("model.c", "records.c", "replay.c")]
    subprocess.run(
        [
            "gcc",
            "-O1",
            "-g",
            "-fsanitize=undefined",
            "-fno-sanitize-recover=all",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-o",
            str(program),
            *files,
        ],
        check=True,
    )
    return program


class Replay:
    """Runs traces through the model."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def text(self, trace: Iterable[str]) -> str:
        """The program's output."""
        done = subprocess.run(
            [self._program], input="\n".join(trace) + "\n", capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == f"end {len(done.stdout.splitlines()) - 1}"
        return done.stdout

    def records(
        self,
        trace: Iterable[str],
        *,
        cpus: int = 4,
        line: int = 64,
        cluster: int = 1,
        llc: int = 64,
        node: int = 64,
        size: int = 4096,
    ) -> list[Record]:
        """The records of a trace; 4096 bytes from 0x1000 are watched."""
        head = [f"machine {cpus} {line} {cluster} {llc} {node}", f"watch 1000 {size} 1"]
        return [read_record(row.split()) for row in self.text([*head, *trace]).splitlines()[:-1]]

    def counts(
        self, trace: Iterable[str], *, cpus: int = 4, line: int = 64, cluster: int = 1, llc: int = 64, node: int = 64
    ) -> Counts:
        """The sum of all records of a trace."""
        found = self.records(trace, cpus=cpus, line=line, cluster=cluster, llc=llc, node=node)
        return Counts.sum(record.counts for record in found)
