# SPDX-License-Identifier: GPL-2.0
"""A result in sections, and these as text; c2c_page.py makes a page of the same sections.

Before that come sums of rows by object, field, line and function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, TypeVar, get_args

from schedlib.formats.c2c_document import (
    DISTANCES,
    BlamedField,
    Counts,
    FieldRef,
    TrafficResult,
    TrafficRow,
    UsedVariable,
)
from schedlib.formats.tables import table
from schedlib.progress import counted

CountName = Literal["false_shared", "misses", "hitm", "upgrades", "accesses"]
COUNTS: tuple[CountName, ...] = get_args(CountName)
TITLES = ("false sharing", "misses", "HITM", "upgrades", "accesses")

_K = TypeVar("_K", bound=Hashable)
_INDEX = re.compile(r"\[\d+\]")

_LINES, _ROWS, _FIELDS, _FUNCTIONS, _PAIRS = 12, 14, 40, 20, 10
_MOVES, _TRUE = 8, 6
_LEAST_SAVED, _LEAST_LEFT = 0.005, 0.02
"""Shares of all misses; what is less is not blamed."""


def grouped(rows: Iterable[TrafficRow], key: Callable[[TrafficRow], _K]) -> dict[_K, list[TrafficRow]]:
    """The rows that share a key."""
    found: dict[_K, list[TrafficRow]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def totals(rows: Iterable[TrafficRow], key: Callable[[TrafficRow], _K]) -> dict[_K, Counts]:
    """Sum the counts of the rows that share a key."""
    return {name: Counts.sum(row.counts for row in some) for name, some in grouped(rows, key).items()}


def most_missed(groups: Mapping[_K, Counts]) -> list[_K]:
    return sorted(groups, key=lambda key: (-groups[key].misses, key))


def field_name(place: FieldRef) -> str:
    """The object and the field's path without array indices. All neighbours of an object share one name."""
    return f"{place.owner} (neighbours)" if place.neighbour else named(place.owner, place.path)


def named(owner: str, path: str) -> str:
    """The name of an object's field: without array indices, so that all elements share it."""
    return f"{owner}.{_INDEX.sub('[]', path)}" if path else owner


object_name: Callable[[TrafficRow], str] = attrgetter("owner")
function_name: Callable[[TrafficRow], str] = attrgetter("function")
"""Inlined code counts for the function that it was inlined into."""


def line_name(place: FieldRef) -> tuple[str, str, int]:
    """The object, the pointer behind which the line lies (if any), and the number of the line."""
    return place.owner, _INDEX.sub("[]", place.prefix), place.line


def with_what_lies_beside(rows: Sequence[TrafficRow]) -> list[TrafficRow]:
    """The fields of objects, and on their lines what has a name, as beside a variable."""
    lines = {line_name(row) for row in rows if not row.neighbour}
    return [row for row in rows if not row.neighbour or (row.path and line_name(row) in lines)]


def middle(values: Sequence[int]) -> int:
    """The upper median."""
    return sorted(values)[len(values) // 2]


def spread(values: Sequence[int]) -> str:
    """The upper median of some counts, and their range if they differ."""
    return f"{middle(values)}" + (f" ({min(values)}..{max(values)})" if min(values) < max(values) else "")


@dataclass(frozen=True)
class Section:
    """A part of the report: its name, sentences, a table, and parts of its own.

    The first `left` columns of the table are words, the others numbers; `left_out` rows are only in the JSON.
    """

    name: str
    said: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    rows: Sequence[tuple[str, ...]] = ()
    left: int = 1
    left_out: int = 0
    parts: tuple[Section, ...] = ()


def text(result: TrafficResult) -> str:
    """The whole report. It contains no times and no file names, so equal runs give equal text."""
    return "\n".join([*head(result), *(line for each in sections(result) for line in lines_of(each))]) + "\n"


def lines_of(section: Section) -> Iterator[str]:
    """A section as text, behind an empty line."""
    yield from ("", section.name, *section.said)
    if section.titles:
        yield from table([section.titles, *section.rows], "<  " * section.left + ">")
    if section.left_out:
        yield f"{section.left_out} others: the JSON has them"
    for part in section.parts:
        yield from lines_of(part)


def head(result: TrafficResult) -> Iterator[str]:
    chosen = result.parameters
    shape = f" ({chosen.topology})" if chosen.topology else ""
    quanta = ", ".join(str(each.quantum) for each in result.quanta)
    config = "".join(f", {name}" for name in chosen.config)
    yield (
        f"{chosen.workload} on {chosen.on}, {chosen.cpus} CPUs{shape}, {chosen.rounds} rounds, "
        f"lines of {result.line} bytes, quanta {quanta}{config}"
    )
    yield f"changes: {', '.join(f'{name} {state}' for name, state in result.changes.items())}"
    if "layout" in result.fingerprint:
        yield f"a prediction: the accesses of another kernel with the offsets of {result.fingerprint['layout']}"
    yield "emulated CPUs with caches that never run full: counts, not times; equal kernels give equal counts"


def sections(result: TrafficResult) -> list[Section]:
    """All parts of the report; where they show one guest, it is that of the middle quantum."""
    objects = by_quantum(result, object_name, neighbours=False)
    fields, functions = by_quantum(result, field_name), by_quantum(result, function_name)
    found = [
        _pairs(result),
        _hot_lines(result),
        *([_blame(result, result.blame)] if result.blame else []),
        _most_false("Objects", objects, *_notes(result)),
        *([_variables(result, result.middle.variables)] if result.middle.variables else []),
        _most_false("Fields", fields, "median of the quanta, and their range"),
        _most_false("Functions", functions),
    ]
    if result.parameters.topology:
        hottest = most_missed({name: each[len(each) // 2] for name, each in functions.items()})[:_FUNCTIONS]
        every = [*sorted(objects.items()), *((name, functions[name]) for name in hottest)]
        rows = [
            (
                name,
                *(spread([counts.fetched(distance) for counts in each]) for distance in DISTANCES),
                spread([counts.cold for counts in each]),
            )
            for name, each in every
        ]
        about = "in the same cluster, LLC or node, or in another node; cold: in no cache"
        titles = ("object or function", *DISTANCES, "cold")
        found.append(Section("Where misses were answered", (about,), titles, rows))
    return found


def by_quantum(
    result: TrafficResult, key: Callable[[TrafficRow], str], *, neighbours: bool = True
) -> dict[str, list[Counts]]:
    """By object, field or function, with or without what lies beside objects: one number for each quantum."""
    sums = [totals((row for row in each.rows if neighbours or not row.neighbour), key) for each in result.quanta]
    return {name: [each.get(name, Counts()) for each in sums] for each in sums for name in each}


def columns(counts: Sequence[Counts]) -> list[tuple[int, ...]]:
    """The COUNTS of some quanta."""
    return [tuple(getattr(each, count) for each in counts) for count in COUNTS]


def ranked(kind: str, title: str, said: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Section:
    """A table of Objects, Fields or Functions with TITLES, the first ones."""
    most = _FUNCTIONS if kind == "Functions" else _FIELDS
    titles = (kind[:-1].lower(), *TITLES)
    return Section(title, said, titles, rows[:most], left_out=max(len(rows) - most, 0))


def _most_false(kind: str, every: Mapping[str, Sequence[Counts]], *said: str) -> Section:
    cells = {name: columns(every[name]) for name in every}
    names = sorted(cells, key=lambda name: (*(-middle(values) for values in cells[name][:2]), name))
    return ranked(kind, kind, said, [(name, *map(spread, cells[name])) for name in names])


def _variables(result: TrafficResult, used: Iterable[UsedVariable]) -> Section:
    """The variables that CPUs read while others write them, those with the most accesses first."""
    sums = totals(result.middle.rows, object_name)
    shared = [(each, sums[each.name]) for each in used if each.readers > 1 and each.writers]
    shared.sort(key=lambda found: (-found[1].accesses, found[0].name))
    titles = ("variable", "readers", "writers", "accesses", "misses", "false sharing")

    def part(name: str, said: tuple[str, ...], *, per_cpu: bool, parts: tuple[Section, ...] = ()) -> Section:
        numbers = [
            (each.name, each.readers, each.writers, counts.accesses, counts.misses, counts.false_shared)
            for each, counts in shared
            if each.per_cpu == per_cpu
        ]
        rows = [(name, *map(str, row)) for name, *row in numbers[:_FIELDS]]
        return Section(name, said, titles, rows, left_out=max(len(numbers) - _FIELDS, 0), parts=parts)

    copies = ("CPUs are those of the copy that the most used, accesses and misses of all copies",)
    about = ("how many CPUs read and wrote them; those that nobody wrote are in the JSON",)
    parts = (part("Per-CPU variables that other CPUs read", copies, per_cpu=True),)
    return part("Variables", about, per_cpu=False, parts=parts)


def _notes(result: TrafficResult) -> Iterator[str]:
    private = [each.private for each in result.quanta if each.private]
    if private:
        lines, accesses = (spread([getattr(each, name) for each in private]) for name in ("lines", "accesses"))
        yield f"left out: {lines} lines that one CPU alone used, with {accesses} accesses"
    again = [each.again for each in result.quanta if isinstance(each.again, int)]
    if again:
        yield f"memory used again has the name of its last use; misses on pages whose use changed: {spread(again)}"
    for watched in result.watched:
        if watched.later and not watched.prefix:
            yield f"allocated after counting began: {watched.later} of {watched.number} {watched.owner}"
    for key, number in result.absent.items():
        yield f"absent on {counted(number, 'CPU')}: {key}"


def line_title(line: tuple[str, str, int]) -> str:
    """What line_name() says, in words."""
    owner, prefix, number = line
    return f"{owner}{f' {prefix}' if prefix else ''} line {number}"


def function_pairs(result: TrafficResult) -> dict[tuple[str, str], dict[tuple[str, str, int], float]]:
    """For each two functions, how often the first one missed a line that the second takes from others, by line.

    Misses on a line are shared out to those that invalidated copies there.
    """
    lines: dict[tuple[str, str, int], dict[str, Counts]] = {}
    for (line, name), counts in totals(result.middle.rows, lambda row: (line_name(row), row.function)).items():
        lines.setdefault(line, {})[name] = counts
    found: dict[tuple[str, str], dict[tuple[str, str, int], float]] = {}
    for line, here in lines.items():
        whole = sum(counts.invalidated for counts in here.values())
        writers = {name: counts.invalidated / whole for name, counts in here.items() if counts.invalidated}
        for name, counts in here.items():
            for writer, share in writers.items():
                if lost := (counts.misses - counts.cold) * share:
                    found.setdefault((name, writer), {})[line] = lost
    return found


def _pairs(result: TrafficResult) -> Section:
    pairs = function_pairs(result)
    rows = []
    for pair in sorted(pairs, key=lambda pair: (-sum(pairs[pair].values()), pair))[:_PAIRS]:
        line, most = min(pairs[pair].items(), key=lambda item: (-item[1], item[0]))
        rows.append((*pair, _placed(line, result.line), f"{sum(pairs[pair].values()):.0f}", f"{most:.0f}"))
    said = (
        "the second one writes to lines that the first one then has to fetch; misses on a line that several write to "
        "are shared out by how many copies each of them took away"
    )
    titles = ("function", "loses lines to", "most on", "misses", "of these there")
    return Section("Pairs of functions", (said,), titles, rows, 3)


def _hot_lines(result: TrafficResult) -> Section:
    by_line = grouped(result.middle.rows, line_name)
    lines = {name: Counts.sum(row.counts for row in rows) for name, rows in by_line.items()}
    misses = sum(counts.misses for counts in lines.values())
    about = f"of the guest with quantum {result.middle.quantum}; a share is of the misses of the line"
    parts = tuple(
        _hot_line(_placed(name, result.line), by_line[name], lines[name], misses)
        for name in most_missed(lines)[:_LINES]
        if lines[name].misses
    )
    return Section("Hot lines", (about if parts else "no line has a miss",), parts=parts)


def _placed(line: tuple[str, str, int], size: int) -> str:
    return f"{line_title(line)} ({line[2] * size:+#x})"


def _hot_line(title: str, rows: Sequence[TrafficRow], line: Counts, misses: int) -> Section:
    said = (
        f"{line.misses / misses:.1%} of all misses: {line.misses}, {line.false_shared} of them false sharing; HITM "
        f"{line.hitm}, from another node {line.remote}, upgrades {line.upgrades}, accesses {line.accesses}"
    )
    groups = totals(rows, lambda row: (field_name(row), row.function, row.kind, row.offset))
    order = most_missed(groups)
    shown: list[tuple[str, ...]] = []
    for field, function, kind, offset in order[:_ROWS]:
        counts = groups[field, function, kind, offset]
        numbers = (counts.false_shared, counts.hitm, counts.misses, counts.accesses)
        shown.append((field, function, kind, f"{offset:#x}", f"{counts.misses / line.misses:.1%}", *map(str, numbers)))
    titles = ("field", "function", "kind", "offset", "share", "false sharing", "HITM", "misses", "accesses")
    return Section(title, (said,), titles, shown, 3, max(len(order) - _ROWS, 0))


def _blame(result: TrafficResult, blame: Sequence[BlamedField]) -> Section:
    misses = [sum(row.counts.misses for row in each.rows) for each in result.quanta]
    said = ["the same accesses, counted again with one field on a line of its own"]
    least = max(_LEAST_SAVED * middle(misses), 1)
    worth = [each for each in blame if middle(each.saved) >= least]
    for number, each in enumerate(worth[:_MOVES], 1):
        said += _move(number, each, middle(misses))
    if not worth:
        said.append(f"    no field would save {_LEAST_SAVED:.1%} of the {middle(misses)} misses")
    if len(worth) > _MOVES:
        said.append(f"    {len(worth) - _MOVES} others save less: the JSON has them")
    if len(worth) > 1:
        said.append("    each move is counted alone: do not add them up")
    few = _LEAST_LEFT * middle(misses)
    said += [
        f"    false sharing inside one field: {each.field} alone has {spread(each.alone)} misses, "
        f"{spread(each.inside)} of them between its own bytes; writers: {_names(each.writers)}"
        for each in blame
        if middle(each.inside) >= max(few, middle(each.alone) / 2)
    ]
    said += [
        f"    true sharing, no layout helps: {each.field} alone has {_true(each)} misses on bytes "
        f"that another CPU wrote; writers: {_names(each.writers)}"
        for each in sorted(blame, key=lambda each: (-_true(each), each.field))[:_TRUE]
        if _true(each) >= few
    ]
    return Section("Fields to blame", tuple(said))


def _true(blamed: BlamedField) -> int:
    """Misses that no layout saves."""
    return middle([alone - inside for alone, inside in zip(blamed.alone, blamed.inside, strict=True)])


def _move(number: int, blamed: BlamedField, misses: int) -> Iterator[str]:
    saved, upgrades = blamed.saved, middle(blamed.saved_upgrades)
    quanta = f" ({len(saved)} quanta: {min(saved)} to {max(saved)})" if len(saved) > 1 else ""
    yield (
        f"{number:2}. move {blamed.field} off its line: {middle(saved)} fewer misses of {misses}{quanta}; "
        f"{blamed.bytes} bytes more for each of {blamed.objects} objects"
    )
    ways = {way: f"lines of {way} bytes" if way.isdecimal() else f"{way} of lines" for way in blamed.elsewhere}
    if ways:
        yield f"    fewer misses with {', '.join(f'{ways[way]}: {blamed.elsewhere[way]}' for way in ways)}"
    if upgrades:
        yield f"    {abs(upgrades)} {'fewer' if upgrades > 0 else 'more'} upgrades"
    yield f"    readers: {_names(blamed.readers)}; writers: {_names(blamed.writers)}"


def _names(functions: Sequence[str]) -> str:
    return ", ".join(functions) or "none"
