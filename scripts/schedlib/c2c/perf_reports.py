# SPDX-License-Identifier: GPL-2.0
"""Reads the text of perf c2c report --stdio.

Its numbers of samples are whole in some columns and rounded percentages in others. A locale may put commas into them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schedlib.c2c.samples import Sampled, SampleKind
from schedlib.errors import SchedlineError

TITLES = ("Shared Cache Line Distribution Pareto", "Shared Data Cache Line Table")
"""Of the list of lines, and of the one before it."""

_LINE = re.compile(r"^\s+\d+((?:\s+[\d,.]+){4,6})\s+(0x[0-9a-f]+)\s*$")
_PARETO = re.compile(r"^\s*((?:[\d.,]+%\s+){4,6})(0x[0-9a-f]+)\s+(.*)$")


@dataclass(frozen=True)
class ReportedAccess:
    """Samples of one address. `code` is the address of the instruction; 0 if the report does not have it."""

    address: int
    kind: SampleKind
    function: str
    sampled: Sampled
    code: int


@dataclass(frozen=True)
class PerfReport:
    """What a report says."""

    events: tuple[str, ...]
    accesses: tuple[ReportedAccess, ...]


def number(word: str) -> int:
    """A whole number, with or without separators of thousands."""
    return int(re.sub(r"[.,\u00a0\u202f ]", "", word))


def percent(word: str) -> float:
    """A percentage as a number from 0 to 1, with a point or a comma."""
    return float(word.rstrip("%").replace(",", ".")) / 100


def read_c2c_report(text: str) -> PerfReport:
    """The rows of all lines of the Pareto; SchedlineError if it is cut off before its rows, or has other columns."""
    head, there, pareto = text.partition(TITLES[0])
    if not there:
        raise SchedlineError("the report ends before its list of lines (Pareto): it is cut off", "make it again")
    accesses: list[ReportedAccess] = []
    line: tuple[int, Sequence[int]] | None = None
    for row in pareto.splitlines():
        if begins := _LINE.match(row):
            line = int(begins[2], 16), [number(word) for word in begins[1].split()]
        elif (cells := _PARETO.match(row)) and line:
            shares = [percent(word) for word in cells[1].split()]
            if len(shares) != len(line[1]):
                raise SchedlineError(
                    f"a row has {len(shares)} percentages, and its line has {len(line[1])} numbers: {row.strip()[:60]}",
                    "make the report again: perf c2c report --stdio",
                )
            accesses += _of_row(line[0] + int(cells[2], 16), shares, line[1], cells[3])
    if not accesses:
        raise SchedlineError(
            "the report has no line that CPUs share: the data has no samples of taken lines",
            "on Arm: perf c2c report -d peer --stdio; else record for a longer time",
        )
    return PerfReport(_events(head), tuple(accesses))


def _events(head: str) -> tuple[str, ...]:
    listed = re.search(r"^ *Events +: (.*(?:\n +: .*)*)", head, re.M)
    return tuple(line.strip().removeprefix(": ") for line in listed[1].splitlines()) if listed else ()


def _of_row(address: int, shares: Sequence[float], numbers: Sequence[int], rest: str) -> Iterator[ReportedAccess]:
    counts = [round(share * whole) for share, whole in zip(shares, numbers, strict=True)]
    remote, local, *stores = counts
    # With six columns, the third is the peers, as in a first version of the patches for Arm.
    peer = stores.pop(0) if len(counts) == 6 else 0
    taken = remote + local + peer
    words = rest.split()
    mark = next((place for place, word in enumerate(words) if word in ("[k]", "[.]", "[H]", "[g]")), None)
    function = words[mark + 1] if mark is not None and mark + 1 < len(words) else "(unknown)"
    code = next((place for place, word in enumerate(words[:mark]) if word.startswith("0x")), None)
    numbers_behind = [word for word in words[(code or 0) + 1 : mark] if word.replace(",", "").isdigit()]
    instruction = int(words[code], 16) if code is not None else 0
    # cycles in three or four columns, then records and CPUs; perf before 4.12 has no records.
    records = number(numbers_behind[-2]) if len(numbers_behind) >= 5 else 0
    stored = sum(stores)
    loads = max(records - stored, taken)
    cycles = 0
    if len(numbers_behind) >= 5:
        of_remote, of_local, of_others = (number(word) for word in numbers_behind[:3])
        cycles = of_remote * remote + of_local * (taken - remote) + of_others * (loads - taken)
    if loads:
        sampled = Sampled(loads, 0, taken, 0, remote, cycles)
        yield ReportedAccess(address, "load", function, sampled, instruction)
    if stored:
        yield ReportedAccess(address, "store", function, Sampled(stored, 0, 0, 0, 0, 0), instruction)
