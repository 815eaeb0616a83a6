# SPDX-License-Identifier: GPL-2.0
"""The cache model without QEMU: tapes in, counts out."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedlib.c2c.c2c_options import SOURCES
from schedlib.c2c.observed import Record, read_record
from schedlib.c2c.plugin_guest import REPLAY
from schedlib.formats.c2c_document import Counts

_KINDS = ("load", "store", "rmw")


def compile_checked(program: Path, sources: Iterable[str]) -> Path:
    """A program of scripts/c2c that stops at undefined behaviour."""
    checks = ["-O1", "-g", "-fsanitize=undefined", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *checks, "-o", str(program), *(str(SOURCES / name) for name in sources)], check=True)
    return program


def compile_replay(directory: Path) -> Path:
    """The program that plays a tape to the model."""
    return compile_checked(directory / "replay", REPLAY)


def tape_of(trace: Iterable[str]) -> bytes:
    """A tape, as scripts/c2c/tape.h describes it.

    Args:
        trace: its entries: `CPU load|store|rmw ADDRESS SIZE [PC]`, `watch ADDRESS SIZE EPOCH [NUMBER]` or
            `unwatch ADDRESS SIZE`; addresses are hexadecimal.
    """
    content, before, entries = bytearray(), {"pc": 0, "address": 0}, 0
    last_cpu = "0"

    def number(value: int | str) -> None:
        rest = int(value)
        while rest > 127:
            content.append(128 | rest & 127)
            rest >>= 7
        content.append(rest)

    def difference(what: str, text: str) -> None:
        # Addresses are numbers of 64 bits, so their difference is the one nearest to 0.
        now = int(text, 16)
        value = (now - before[what] + (1 << 63)) % (1 << 64) - (1 << 63)
        before[what] = now
        number(2 * value if value >= 0 else -2 * value - 1)

    for line in trace:
        entries += 1
        word, *words = line.split()
        if word == "watch":
            address, size, epoch, *index = words
            content.append(3)
            number(index[0] if index else 0)
            difference("address", address)
            number(size)
            number(epoch)
        elif word == "unwatch":
            content.append(3 | 1 << 2)
            difference("address", words[0])
            number(words[1])
        else:
            kind, address, size, *pc = words
            head = _KINDS.index(kind) | (int(size).bit_length() - 1) << 2
            content += bytes([head | 32, int(word)] if word != last_cpu else [head])
            last_cpu = word
            difference("pc", pc[0] if pc else "0")
            difference("address", address)
    content.append(3 | 2 << 2)
    number(entries)
    return bytes(content)


class Replay:
    """Runs traces through the model."""

    def __init__(self, program: Path) -> None:
        self.program = program

    def run(self, tape: bytes, machine: Sequence[object], *files: object) -> subprocess.CompletedProcess[str]:
        """The program's end, for a machine as it takes it."""
        place = self.program.with_name("tape")
        place.write_bytes(tape)
        words = [str(word) for word in (self.program, place, *machine, *files)]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def lines(self, trace: Iterable[str], machine: Sequence[object], *files: object) -> list[str]:
        """The program's output."""
        done = self.run(tape_of(trace), machine, *files)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

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
        pairs: bool = False,
        moves: object = "-",
    ) -> list[Record]:
        """The records of a trace; `size` bytes from 0x1000 are watched."""
        machine = (cpus, line, cluster, llc, node, "pair" if pairs else "one", "some")
        *rows, seen, end = self.lines([f"watch 1000 {size} 1", *trace], machine, moves)[2:]
        assert end == f"end {len(rows)}"
        found = [read_record(row.split()[1:]) for row in rows]
        assert int(seen.split()[2]) == sum(record.counts.accesses for record in found)
        return found

    def counts(self, trace: Iterable[str], **shape: Any) -> Counts:
        """The sum of all records of a trace; see records()."""
        return Counts.sum(record.counts for record in self.records(trace, **shape))


@pytest.fixture(scope="session")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    """The model, compiled once."""
    return Replay(compile_replay(tmp_path_factory.mktemp("replay")))
