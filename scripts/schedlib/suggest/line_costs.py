# SPDX-License-Identifier: GPL-2.0
"""What lines cost that hold certain pieces of a structure: scripts/c2c/lines.c answers for each trace."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from schedlib.c2c.observed import Observed, ObservedGuest
from schedlib.errors import SchedlineError
from schedlib.process import clean_environment, dying_with_us
from schedlib.suggest.movable import Movable

_BATCH = 400
"""Questions at a time: the answers to more would fill a pipe that nobody reads yet."""

_WORD = 8

Line = int
"""The pieces that share a line: one bit for each."""


@dataclass(frozen=True)
class Cost:
    """Of one line, or of several together, in one trace."""

    misses: int
    upgrades: int


def granule(size: int, align: int) -> int:
    """Bytes of the pieces of a part: none can straddle a line, wherever the part lies."""
    return min(_WORD, align, max(size, 1))


class _Program:
    """The program that answers for one guest."""

    def __init__(self, program: Path, guest: ObservedGuest, map_file: Path, atoms: int) -> None:
        if guest.tape is None:
            raise ValueError("the guest's accesses were not kept")
        self._process = subprocess.Popen(
            dying_with_us([str(program), str(guest.tape), str(map_file), str(atoms)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(),
            text=True,
        )
        self.known: dict[Line, Cost] = {}
        self.used = frozenset(map(int, self._row().split()[1:]))

    def _stream(self, of: IO[str] | None) -> IO[str]:
        if of is None:
            raise ValueError("it was started without pipes")
        return of

    def _row(self) -> str:
        row = self._stream(self._process.stdout).readline()
        if not row:
            self._process.wait()
            said = self._stream(self._process.stderr).read().strip()
            raise SchedlineError(f"a trace cannot be read: {said}", "make it again: schedline c2c --trace FILE")
        return row

    def ask(self, lines: Sequence[Line]) -> None:
        """Learn the costs of lines."""
        to = self._stream(self._process.stdin)
        for start in range(0, len(lines), _BATCH):
            part = lines[start : start + _BATCH]
            to.write("".join(f"{' '.join(map(str, _atoms(line)))}\n" for line in part) + "\n")
            to.flush()
            for line in part:
                misses, upgrades = self._row().split()
                self.known[line] = Cost(int(misses), int(upgrades))
            self._row()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            self._stream(stream).close()


def _atoms(line: Line) -> Iterable[int]:
    number = 0
    while line:
        if line & 1:
            yield number
        line >>= 1
        number += 1


class LineCosts:
    """The costs of lines in several traces, each in the guest of its middle quantum. A context.

    Attributes:
        hot: for each part, its pieces that some CPU accessed: offset in the part, and the piece's bit.
    """

    def __init__(
        self,
        program: Path,
        traces: Sequence[Observed],
        structure: Movable,
        place: Path,
        there: Mapping[str, int] | None = None,
    ) -> None:
        """Start a program for each trace.

        Args:
            program: scripts/c2c/lines.c, compiled.
            place: a scratch directory.
            there: where the members lie in the traces, if not as in the structure.

        Raises:
            SchedlineError: a trace is damaged.
        """
        offsets, _ = structure.offsets(structure.start, structure.line)
        pieces: list[tuple[int, int, int, int]] = []  # part, offset in the part, offset, size
        for number, (_, part) in enumerate(structure.parts):
            if there:
                name, inside = part.members[0]
                offsets[number] = there.get(name, offsets[number] + inside) - inside
            step = granule(part.size, part.align)
            for inside in range(0, part.size, step):
                pieces.append((number, inside, offsets[number] + inside, min(step, part.size - inside)))
        rows = [f"piece {offset} {size} {atom}\n" for atom, (_, _, offset, size) in enumerate(pieces)]
        self._stack = ExitStack()
        self._programs = []
        try:
            for number, observed in enumerate(traces):
                file = place / f"map-{number}"
                file.write_text("".join([*rows, *_objects(observed, structure.tag)]))
                found = _Program(program, observed.middle, file, len(pieces))
                self._stack.callback(found.close)
                self._programs.append(found)
        except BaseException:
            self._stack.close()
            raise
        used = frozenset[int]().union(*(each.used for each in self._programs))
        self.hot: dict[int, tuple[tuple[int, Line], ...]] = {}
        for number in range(len(structure.parts)):
            mine = [(row[1], 1 << atom) for atom, row in enumerate(pieces) if row[0] == number and atom in used]
            self.hot[number] = tuple(mine)
        self._pool = ThreadPoolExecutor(max(len(self._programs), 1))

    def __enter__(self) -> LineCosts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._pool.shutdown()
        self._stack.close()

    def of(self, lines: Iterable[Line]) -> list[Mapping[Line, Cost]]:
        """For each trace the costs of lines, these among others."""
        wanted = sorted(set(lines))

        def ask(program: _Program) -> None:
            program.ask([line for line in wanted if line not in program.known])

        list(self._pool.map(ask, self._programs))
        return [program.known for program in self._programs]


def _objects(observed: Observed, tag: str) -> list[str]:
    keys = {watch.key: watch for watch in observed.watches if watch.tag == tag and not watch.prefix}
    starts = sorted(
        {each.address - keys[each.key].offset for each in observed.middle.raw.instances if each.key in keys}
    )
    return [f"object {start:x}\n" for start in starts]
