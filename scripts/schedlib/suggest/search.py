# SPDX-License-Identifier: GPL-2.0
"""The search for an order of members: iterated local search, and every cost is that of the traces' accesses.

An order is a neighbour of another one if a single unit has moved, or starts a line, or both, or if two have changed
places. The search goes to the best neighbour as long as that brings more than it changes; where there are very many, to
the best place of one unit after the other. Then it moves some units at random and begins again (Lourenço, Martin,
Stützle, "Iterated Local Search", 2003). That members which are read together belong together, and away from those that
other CPUs write, is the objective of Raman, Hundt, Mannarswamy, "Structure Layout Optimization for Multithreaded
Programs", CGO 2007. They estimate both from samples. Here the misses of each order are counted.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random

from schedlib.c2c.observed import ObservedGuest
from schedlib.errors import SchedlineError
from schedlib.process import clean_environment, dying_with_us
from schedlib.suggest.movable import Arrangement, Movable

_BATCH = 400
"""Questions at a time: the answers to more would fill a pipe that nobody reads yet."""

_WORD = 8

Line = int
"""The pieces that share a line: one bit for each."""

_SMALL = 1e-9
_LINE_PRICE = 1e-3
"""Of two orders with the same misses, the one with fewer lines."""

_SHAKES = 3
_WIDE = 10_000
"""Neighbours from which on only the places of one unit are tried at a time."""

_MOST_TRIED = 200
"""Orders that contracts refuse, before a neighbourhood is given up."""


class _Program:
    """The program that answers for one guest."""

    def __init__(self, program: Path, guest: ObservedGuest, map_file: Path, atoms: int) -> None:
        argv, pipe = dying_with_us([str(program), str(guest.tape), str(map_file), str(atoms)]), subprocess.PIPE
        environment = clean_environment()
        self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, text=True)
        streams = self._process.stdin, self._process.stdout, self._process.stderr
        self._to, self._from, self._said = (each for each in streams if each)
        self.known: dict[Line, int] = {}
        self.used = frozenset(map(int, self._row().split()[1:]))

    def _row(self) -> str:
        row = self._from.readline()
        if not row:
            self._process.wait()
            said = self._said.read().strip()
            raise SchedlineError(f"a trace cannot be read: {said}", "make it again: schedline c2c --trace FILE")
        return row

    def ask(self, lines: Iterable[Line]) -> None:
        new = [line for line in lines if line not in self.known]
        for start in range(0, len(new), _BATCH):
            part = new[start : start + _BATCH]
            for line in part:
                atoms = (str(number) for number in range(line.bit_length()) if line >> number & 1)
                self._to.write(f"{' '.join(atoms)}\n")
            self._to.write("\n")
            self._to.flush()
            for line in part:
                self.known[line] = int(self._row())
            self._row()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._to, self._from, self._said):
            stream.close()


class LineCosts(ExitStack):
    """The costs of lines in several guests, each with the addresses of the objects. A context.

    `hot`: for each part, its pieces that some CPU accessed: offset in the part, and the piece's bit.
    """

    def __init__(
        self, program: Path, traces: Sequence[tuple[ObservedGuest, Iterable[int]]], structure: Movable, place: Path
    ) -> None:
        offsets, _ = structure.offsets(structure.start, structure.line)
        rows: list[str] = []
        pieces: dict[int, list[tuple[int, int]]] = {}  # for each part: offset in the part, number
        for number, (_, part) in enumerate(structure.parts):
            # No piece can straddle a line, wherever its part lies.
            step = min(_WORD, part.align, max(part.size, 1))
            pieces[number] = [(inside, len(rows) + at) for at, inside in enumerate(range(0, part.size, step))]
            for inside, atom in pieces[number]:
                rows.append(f"piece {offsets[number] + inside} {min(step, part.size - inside)} {atom}\n")
        super().__init__()
        self._programs = []
        try:
            for number, (guest, starts) in enumerate(traces):
                file = place / f"map-{number}"
                objects = (f"object {start:x}\n" for start in sorted(set(starts)))
                file.write_text("".join([*rows, *objects]))
                found = _Program(program, guest, file, len(rows))
                self.callback(found.close)
                self._programs.append(found)
        except BaseException:
            self.close()
            raise
        used = frozenset[int]().union(*(each.used for each in self._programs))
        self.hot: dict[int, tuple[tuple[int, Line], ...]] = {
            number: tuple((inside, 1 << atom) for inside, atom in mine if atom in used)
            for number, mine in pieces.items()
        }
        self._pool = self.enter_context(ThreadPoolExecutor(max(len(self._programs), 1)))

    def of(self, lines: Iterable[Line]) -> list[Mapping[Line, int]]:
        wanted = sorted(set(lines))
        list(self._pool.map(lambda program: program.ask(wanted), self._programs))
        return [program.known for program in self._programs]


WEIGHTS: Mapping[int, float] = {64: 0.6, 128: 0.25, 256: 0.15}
"""Of each size of lines; together 1."""


class Search:
    """One structure and its traces.

    Misses in percent of those today, mean of the traces, and what the change costs a reviewer are minimised.

    Args:
        most: bytes that the structure may have, with the kernel's lines.
        allowed: whether the contracts allow an arrangement.
        begins: where on a line of each size the objects begin, unless their alignment puts them at its start.
        price: of each unit that moves, and of each attribute, in percent.
    """

    def __init__(
        self,
        structure: Movable,
        costs: LineCosts,
        most: int,
        allowed: Callable[[Arrangement], bool] = lambda _: True,
        begins: Mapping[int, int] | None = None,
        *,
        weights: Mapping[int, float] = WEIGHTS,
        price: float = 0.2,
    ) -> None:
        self._structure, self._costs, self._most, self._allowed = structure, costs, most, allowed
        self._begins, self._weights, self._price = begins or {}, weights, price
        self._hot = [(number, pieces) for number, pieces in sorted(costs.hot.items()) if pieces]
        self.hot_units = sorted({structure.parts[number][0] for number, _ in self._hot})
        self._base = {line: self.misses(structure.start, line) for line in {*weights, structure.line}}
        self.tried = 0

    def _lines(self, arrangement: Arrangement, line: int) -> list[Line]:
        """The lines that are accessed, by the pieces that lie on them."""
        offsets, _ = self._structure.offsets(arrangement, line)
        begin = 0 if self._structure.alignment(arrangement, line) >= line else self._begins.get(line, 0)
        found: dict[int, Line] = {}
        for number, pieces in self._hot:
            for inside, bit in pieces:
                at = (begin + offsets[number] + inside) // line
                found[at] = found.get(at, 0) | bit
        return list(found.values())

    def misses(self, arrangement: Arrangement, line: int) -> list[int]:
        wanted = self._lines(arrangement, line)
        return [sum(known[each] for each in wanted) for known in self._costs.of(wanted)]

    def scores(self, arrangements: Sequence[Arrangement]) -> list[float]:
        sizes = tuple(self._weights)
        lines = [[self._lines(each, size) for size in sizes] for each in arrangements]
        known = self._costs.of({line for rows in lines for row in rows for line in row})
        found = []
        for arrangement, rows in zip(arrangements, lines, strict=True):
            total = 0.0
            for size, row in zip(sizes, rows, strict=True):
                shares = [
                    sum(costs[line] for line in row) / max(base, 1)
                    for costs, base in zip(known, self._base[size], strict=True)
                ]
                total += 100 * self._weights[size] * sum(shares) / len(shares)
            total += self._price * arrangement.changes(self._structure.start)
            found.append(total + _LINE_PRICE * self._structure.size(arrangement) / self._structure.line)
        self.tried += len(arrangements)
        return found

    def _fits(self, arrangement: Arrangement) -> bool:
        return self._structure.size(arrangement) <= self._most

    def _places(self, order: tuple[int, ...], number: int) -> range:
        units = self._structure.units
        segment = [at for at, each in enumerate(order) if units[each].segment == units[number].segment]
        return range(segment[0], segment[-1] + 1)

    def _alignable(self, *numbers: int) -> frozenset[int]:
        return frozenset(number for number in numbers if self._structure.units[number].can_align)

    def neighbours(self, arrangement: Arrangement, moving: Sequence[int]) -> Iterator[Arrangement]:
        """Each of these units at another place, at the start of a line, or exchanged; and each attribute gone."""
        order = arrangement.order
        for number in arrangement.aligned:
            yield Arrangement(order, arrangement.aligned - {number})
        for number in moving:
            rest = tuple(each for each in order if each != number)
            for place in self._places(order, number):
                moved = (*rest[:place], number, *rest[place:])
                for aligned in {arrangement.aligned, arrangement.aligned | self._alignable(number)}:
                    if moved != order or aligned != arrangement.aligned:
                        yield Arrangement(moved, aligned)
                swapped = list(order)
                at, other = order.index(number), order[place]
                swapped[at], swapped[place] = other, number
                if self._structure.units[other].size == self._structure.units[number].size and other != number:
                    yield Arrangement(tuple(swapped), arrangement.aligned)
                # The unit, and what follows it, each start a line: it then has a line of its own.
                if place + 1 < len(moved) and moved != order:
                    yield Arrangement(moved, arrangement.aligned | self._alignable(number, moved[place + 1]))

    def improved(self, start: Arrangement) -> tuple[Arrangement, float]:
        """Go to better neighbours until there is none."""
        best, score = start, self.scores([start])[0]
        is_wide = sum(1 for _ in self.neighbours(start, self.hot_units)) >= _WIDE
        steps = [[number] for number in self.hot_units] if is_wide else [self.hot_units]
        while True:
            before = score
            for moving in steps:
                found = self._better(best, score, moving)
                if found:
                    score, best = found
            if score == before:
                return best, score

    def _better(
        self, arrangement: Arrangement, score: float, moving: Sequence[int]
    ) -> tuple[float, Arrangement] | None:
        around = [each for each in dict.fromkeys(self.neighbours(arrangement, moving)) if self._fits(each)]
        ranked = sorted(zip(self.scores(around), range(len(around)), strict=True))
        better = [(value, around[at]) for value, at in ranked if value < score - _SMALL]
        return next(((value, each) for value, each in better[:_MOST_TRIED] if self._allowed(each)), None)

    def shaken(self, arrangement: Arrangement, random: Random) -> Arrangement:
        for _ in range(20):
            found = arrangement
            for _ in range(_SHAKES):
                number = random.choice(self.hot_units)
                rest = tuple(each for each in found.order if each != number)
                place = random.choice(self._places(found.order, number))
                aligned = found.aligned | self._alignable(number) if random.random() < 0.5 else found.aligned
                found = Arrangement((*rest[:place], number, *rest[place:]), aligned)
            if self._fits(found) and self._allowed(found):
                return found
        return arrangement

    def best(self, restarts: int, seed: int, told: Callable[[str], None]) -> Arrangement:
        """The best arrangement that is found; the same for the same seed. `told` gets a line after each round."""
        random = Random(seed)  # noqa: S311
        best, score = self.improved(self._structure.start)
        told(f"{score:.2f} % after {self.tried} orders")
        for _ in range(restarts if self._hot else 0):
            found, value = self.improved(self.shaken(best, random))
            if value < score - _SMALL:
                best, score = found, value
            told(f"{score:.2f} % after {self.tried} orders")
        return best
