# SPDX-License-Identifier: GPL-2.0
"""The part of docs/results/retrodiction.md that is about counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from schedlib.c2c.c2c_options import LINES
from schedlib.c2c.sample_shares import wilson
from schedlib.c2c.traffic_table import spread
from schedlib.formats.retrodict_document import CountedRow, ReplayFacts, RetrodictRow

_MEGABYTE = 1e6


def share(number: int, of: int) -> str:
    """So many of so many, with the interval of 95 % of their share."""
    if not of:
        return "0 of 0"
    low, high = (100 * each for each in wilson(number / of, of))
    return f"{number} of {of}: {100 * number / of:.1f} % ({low:.1f} to {high:.1f})"


def by_contract(row: RetrodictRow) -> bool:
    """Whether the contract caught it in the first run."""
    return row.caught and not row.after


def by_counts(row: RetrodictRow) -> bool:
    """Whether the counts caught it, with what there was when they were first made."""
    return row.counted is not None and row.counted.caught and not row.counted.after


@dataclass(frozen=True)
class _Counts:
    """Incidents, and what was counted of them. Our own changes are apart."""

    rows: Sequence[RetrodictRow]

    @property
    def played(self) -> list[CountedRow]:
        """What was counted."""
        return [row.counted for row in self.rows if row.counted and row.counted.bad]

    @property
    def first_played(self) -> list[CountedRow]:
        """What could be counted from the first."""
        return [each for each in self.played if not each.after]

    @property
    def searched(self) -> list[CountedRow]:
        """Where another order was found."""
        return [each for each in self.played if each.suggested]

    def number(self, holds: Callable[[RetrodictRow], bool]) -> int:
        """For how many incidents something is true."""
        return sum(holds(row) for row in self.rows)


def count_numbers(rows: Sequence[RetrodictRow]) -> Iterator[str]:
    """Rows of the table of numbers."""
    every = _Counts([row for row in rows if not row.own])
    blind = _Counts([row for row in every.rows if row.blind])
    own = _Counts([row for row in rows if row.own])
    played, number = every.first_played, len(every.rows)
    yield f"| caught by counts | {share(every.number(by_counts), number)} |"
    yield f"| of these, blind incidents | {blind.number(by_counts)} of {len(blind.rows)} |"
    yield f"| our own changes by counts, apart | {own.number(by_counts)} of {len(own.rows)} |"
    either = every.number(lambda row: by_contract(row) or by_counts(row))
    yield f"| caught by the contract or by counts | {share(either, number)} |"
    yield f"| incidents that a built-in workload can count | {len(played)} of {number} |"
    yield f"| caught by counts, of those counted | {share(sum(each.caught for each in played), len(played))} |"
    yield f"| the fix has fewer misses in each quantum, of those counted | {_of(played, lambda each: each.better)} |"
    later = [each for each in every.played if each.after]
    yield f"| counted only after something was added, and not in the numbers | {len(later)} |"
    yield f"| of these, caught by counts | {sum(each.caught for each in later)} |"
    said = _of(every.searched, is_as_good)
    yield f"| `suggest` is as good as the fix, of those with a suggestion | {said} |"
    times = sorted(each.seconds[0] for each in played) or [0.0]
    yield f"| seconds for the counts, with kept traces, middle and most | {times[len(times) // 2]}, {times[-1]} |"
    times = sorted(each.seconds[1] for each in played) or [0.0]
    yield f"| seconds for the search, middle and most | {times[len(times) // 2]}, {times[-1]} |"


def is_as_good(row: CountedRow) -> bool:
    """Whether the order that was found has no more misses than the fix in any quantum."""
    return all(one <= other for one, other in zip(row.suggested, row.good, strict=True))


def _of(rows: Sequence[CountedRow], holds: Callable[[CountedRow], bool]) -> str:
    return f"{sum(holds(row) for row in rows)} of {len(rows)}"


def count_part(rows: Sequence[RetrodictRow], facts: ReplayFacts, today: str, tree: str) -> Iterator[str]:
    """Incident by incident, and the traces."""
    measured = (
        f"Measured {today}. Kernel: {tree}, {facts.configuration}. Compiler: {facts.compiler}. "
        f"QEMU: {facts.emulator.removeprefix('QEMU emulator version ')}. {facts.cpus} CPUs, lines of {LINES[0]} bytes."
    )
    yield "## Counted"
    yield ""
    yield "A built-in workload of `schedline c2c` runs on 7.3 without carried changes, and all accesses are kept. They"
    yield "are played with the offsets of the good layout and of the bad one. The rules were fixed before anything was"
    yield f"counted, {facts.rules}; what was changed since is said there. Misses are those on the objects of the"
    yield "structure: the middle of the quanta, and their range. `Number` is the place of the right member among the"
    yield "fields of these objects that would save misses on a line of their own. Caught: the bad layout costs more by"
    yield "more than the spread of the quanta, and the right member is among the first three."
    yield ""
    yield "A kernel that has the bad layout would run another way: these are the accesses of 7.3, with other offsets."
    yield "`suggest` begins at the bad layout. It searches in the trace in which it is counted, with no contract to"
    yield "keep, and no workload is held out. So its figures are the best case."
    yield ""
    yield measured
    yield ""
    heads = (
        "incident",
        "workload",
        "misses, fix",
        "misses, bad",
        "fix is better",
        "first to blame",
        "number",
        "caught",
    )
    yield f"| {' | '.join((*heads, 'misses, suggest'))} |"
    yield f"|{'---|' * (len(heads) + 1)}"
    counted = [(row, row.counted) for row in rows if row.counted and row.counted.bad]
    for row, each in counted:
        cells = [row.name, each.workload, spread(each.good), spread(each.bad), _yes(each.better)]
        cells += [
            ", ".join(f"`{name}`" for name in each.first) or "none",
            str(each.rank or "none"),
            "later" if each.caught and each.after else _yes(each.caught),
            spread(each.suggested) if each.suggested else "none",
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield "Missed by counts:"
    yield ""
    missed = [f"- `{row.name}`: {each.why}." for row, each in counted if not each.caught]
    yield from missed or ["None."]
    yield ""
    yield "Counted after the fact, and not in the numbers:"
    yield ""
    yield from [f"- `{row.name}`: {each.after}." for row, each in counted if each.after] or ["None."]
    yield ""
    yield "Not counted, so not caught:"
    yield ""
    not_played = [(row.name, row.not_played or (row.counted.why if row.counted else "")) for row in rows]
    there = {row.name for row, _ in counted}
    yield from (f"- `{name}`: {why}." for name, why in not_played if name not in there)
    yield ""
    yield "No order was suggested:"
    yield ""
    silent = [f"- `{row.name}`: {each.no_suggestion}." for row, each in counted if not each.suggested]
    yield from silent or ["None."]
    yield ""
    yield "### The traces"
    yield ""
    yield "The seconds are those of the run that took the trace. The first run with a kernel also reads its types."
    yield ""
    yield measured
    yield ""
    yield "| workload | rounds of each thread | megabytes | seconds for all quanta | load average at the end |"
    yield "|---|---|---|---|---|"
    for trace in facts.traces:
        megabytes, load = f"{trace.bytes / _MEGABYTE:.1f}", trace.load or "not known"
        yield f"| {trace.workload} | {trace.rounds} | {megabytes} | {trace.seconds} | {load} |"


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"
