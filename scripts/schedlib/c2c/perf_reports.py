# SPDX-License-Identifier: GPL-2.0
"""Reads perf c2c report --stdio, perf mem report --stdio, and perf report -s type,typeoff --stdio.

Their numbers of samples are whole in some columns and rounded percentages in others. A locale may put commas into them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from schedlib.c2c.samples import Sampled, SampleKind, SourceKind
from schedlib.errors import SchedlineError

_C2C, _MEM, _TYPE = "Shared Cache Line Distribution Pareto", "Data Symbol", "Data Type Offset"

_LINE = re.compile(r"^\s+\d+((?:\s+[\d,.]+){4,6})\s+(0x[0-9a-f]+)\s*$")
_PARETO = re.compile(r"^\s*((?:[\d.,]+%\s+){4,6})(0x[0-9a-f]+)\s+(.*)$")
_EVENT = re.compile(r"^#\s*Samples: *([\d.,]+) *([KMG]?) +of events? '([^']*)'")
_TOTAL = re.compile(r"^#?\s*(?:Event count \(approx\.\)|Total weight) *: *([\d,.]+)")
_TYPED = re.compile(
    r"^\s*((?:[\d.,]+%\s+)+)(?:([\d,.]+)\s+)?.*?((?:struct |union |enum )?[\w()][\w ()*]*?) \+(-?\d+) \((.*)\)\s*$"
)
_SUFFIX = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3}


@dataclass(frozen=True)
class ReportedAccess:
    """Samples of one address.

    Attributes:
        address: None if the report has a symbol instead.
        symbol: a variable, if there is no address.
        offset: in bytes, in the variable.
        code: address of the instruction; 0 if the report does not have it.
    """

    address: int | None
    symbol: str
    offset: int
    kind: SampleKind
    function: str
    sampled: Sampled
    code: int = 0


@dataclass(frozen=True)
class ReportedType:
    """Samples of one offset in a type; `structure` is empty if perf did not find a structure."""

    structure: str
    offset: int
    field: str
    kind: SampleKind
    sampled: Sampled


@dataclass
class PerfReport:
    """What a report says.

    Attributes:
        approximate: some numbers of samples are rounded.
    """

    accesses: list[ReportedAccess] = field(default_factory=list)
    types: list[ReportedType] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    approximate: bool = True


def number(word: str) -> int:
    """A whole number, with or without separators of thousands."""
    return int(re.sub(r"[.,\u00a0\u202f ]", "", word))


def percent(word: str) -> float:
    """A percentage as a number from 0 to 1, with a point or a comma."""
    return float(word.rstrip("%").replace(",", ".")) / 100


def read_c2c_report(text: str) -> PerfReport:
    """The rows of all lines of the Pareto; SchedlineError if it is cut off before its rows, or has other columns."""
    head, there, pareto = text.partition(_C2C)
    if not there:
        raise SchedlineError("the report ends before its list of lines (Pareto): it is cut off", "make it again")
    found = PerfReport(events=_events_of_c2c(head))
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
            found.accesses += _of_row(line[0] + int(cells[2], 16), shares, line[1], cells[3])
    if line is None or not found.accesses:
        raise SchedlineError(
            "the report has no line that CPUs share: the data has no samples of taken lines",
            "on Arm: perf c2c report -d peer --stdio; else record for a longer time",
        )
    return found


def _events_of_c2c(head: str) -> list[str]:
    listed = re.search(r"^ *Events +: (.*(?:\n +: .*)*)", head, re.M)
    return [line.strip().removeprefix(": ") for line in listed[1].splitlines()] if listed else []


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
        yield ReportedAccess(address, "", 0, "load", function, sampled, instruction)
    if stored:
        yield ReportedAccess(address, "", 0, "store", function, Sampled(stored, 0, 0, 0, 0, 0), instruction)


def read_mem_report(text: str) -> PerfReport:
    """The rows of perf mem report; SchedlineError if it lacks a column, or has no rows."""
    found = PerfReport(approximate=False)
    kind: SampleKind = "load"
    titles = ""
    columns: dict[str, tuple[int, int]] = {}
    for line in text.splitlines():
        if begins := _EVENT.match(line):
            found.events.append(begins[3])
            kind = "store" if "store" in begins[3] else "load" if "load" in begins[3] else "any"
        elif line.startswith("#") and _MEM in line:
            titles, columns = line, {}
        elif titles and not columns and re.fullmatch(r"#[ .]*\.[ .]*", line):
            columns = _columns(titles, line)
            lacking = [name for name in ("Samples", "Data Symbol", "Symbol") if name not in columns]
            if lacking:
                raise SchedlineError(
                    f"the report has no column {lacking[0]}",
                    "make it again: perf mem report --stdio, without -s and -F",
                )
        elif columns and re.match(r"\s*[\d.,]+%", line):
            found.accesses.append(_of_mem_row({name: _cell(line, span) for name, span in columns.items()}, kind))
    if not found.accesses:
        raise SchedlineError("the report has no rows: it is cut off, or nothing was sampled", "make it again")
    return found


def _columns(titles: str, dots: str) -> dict[str, tuple[int, int]]:
    spans = [match.span() for match in re.finditer(r"\.+", dots)]
    return {titles[start:end].strip(" #"): (start, end) for start, end in spans}


def _cell(line: str, span: tuple[int, int]) -> str:
    return line[span[0] : span[1]].strip()


def _of_mem_row(cells: Mapping[str, str], kind: SampleKind) -> ReportedAccess:
    def cell(name: str) -> str:
        return cells.get(name, "")

    samples = number(cell("Samples") or "0")
    weight = cell("Local Weight")
    snoop, where = cell("Snoop"), cell("Memory access")
    taken = samples if "HitM" in snoop or "Peer" in snoop else 0
    remote = taken if "Remote" in where else 0
    locked: SampleKind = "rmw" if cell("Locked") == "Yes" and kind == "load" else kind
    cycles = number(weight) * samples if weight else 0
    data = cell("Data Symbol").partition("]")[2].strip() or cell("Data Symbol")
    name, _, offset = data.partition("+0x")
    sampled = Sampled(samples, 0, taken, 0, remote, cycles)
    function = cell("Symbol").partition("]")[2].strip().split("+0x")[0] or "(unknown)"
    if re.fullmatch(r"(0x)?[0-9a-f]{8,16}", data):
        return ReportedAccess(int(data, 16), "", 0, locked, function, sampled)
    return ReportedAccess(None, name, int(offset.split()[0], 16) if offset else 0, locked, function, sampled)


def read_type_report(text: str) -> PerfReport:
    """The rows of types; SchedlineError if it has none."""
    found = PerfReport()
    events: list[str] = []
    whole = 0
    for line in text.splitlines():
        if begins := _EVENT.match(line):
            whole = round(float(begins[1].replace(",", ".") if begins[2] else number(begins[1])) * _SUFFIX[begins[2]])
            events = re.split(r", (?=[\w/]+[/:]|dummy)", begins[3])
            found.events += events
        elif row := _TYPED.match(line):
            shares = [percent(word) for word in row[1].split()]
            kinds = events if len(events) == len(shares) else [events[0] if events else ""]
            for share, event in zip(shares, kinds, strict=False):
                samples = number(row[2]) if row[2] and len(shares) == 1 else round(share * whole)
                if samples and not event.startswith("dummy"):
                    found.approximate = found.approximate and not (row[2] and len(shares) == 1)
                    found.types.append(_of_type(row[3], int(row[4]), row[5], event, samples))
    if not found.types:
        raise SchedlineError(
            "the report has no row with a type and an offset",
            "make it again: perf report -s type,typeoff --hierarchy -n --stdio",
        )
    return found


def _of_type(name: str, offset: int, member: str, event: str, samples: int) -> ReportedType:
    kind: SampleKind = "store" if "store" in event else "load" if "load" in event else "any"
    words = name.split()
    structure = words[1] if words[0] in ("struct", "union") and len(words) > 1 else ""
    return ReportedType(structure, offset, member, kind, Sampled(samples, 0, 0, 0, 0, 0))


REPORTS: dict[SourceKind, tuple[Callable[[str], bool], Callable[[str], PerfReport]]] = {
    "perf c2c report": (lambda text: _C2C in text or "Shared Data Cache Line Table" in text, read_c2c_report),
    "perf report -s type,typeoff": (lambda text: _TYPE in text, read_type_report),
    "perf mem report": (
        lambda text: any(_MEM in line and "Memory access" in line for line in text.splitlines()),
        read_mem_report,
    ),
}
"""For each kind of report, whether a text is one, with the columns that are needed; and what reads it."""
