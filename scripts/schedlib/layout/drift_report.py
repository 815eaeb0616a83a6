# SPDX-License-Identifier: GPL-2.0
"""What became of the contracts, as text in 100 columns; and the rows of the table, which the page shows, too."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schedlib.formats.layout_drift_document import (
    DriftCell,
    DriftFinding,
    DriftKind,
    DriftMove,
    LayoutDriftDocument,
)
from schedlib.verdict import Verdict

WIDTH = 100

_MOST_MEMBERS = 12
"""Members of a structure that are listed for a step."""

WORDS = {
    DriftKind.BROKEN: "a rule that held is broken",
    DriftKind.INTRUDER: "a further member is on the lines of a broken rule",
    DriftKind.NEVER_HELD: "a rule that can be judged now does not hold",
    DriftKind.FULL: "a line lost its last bytes",
    DriftKind.JOINED: "a member without a contract came to a line of one",
    DriftKind.READ: "a function began to touch members far from its own",
    DriftKind.GONE: "a member that a contract names is gone",
    DriftKind.WENT: "a rule is not judged any more",
    DriftKind.CAME: "a rule is judged now, and holds",
    DriftKind.MENDED: "a broken rule holds again",
}
"""Each kind as a heading."""


@dataclass(frozen=True)
class DriftState:
    """A cell of the table.

    Attributes:
        text: the rules that hold, and those that do not.
        findings: those that this kernel brought, red ones first.
    """

    text: str
    findings: tuple[DriftFinding, ...]

    @property
    def name(self) -> str:
        """The verdict whose colour it has; empty for none."""
        if any(each.kind.is_red for each in self.findings):
            return Verdict.FAIL.name
        return Verdict.INCONCLUSIVE.name if any(each.kind.is_amber for each in self.findings) else ""


@dataclass(frozen=True)
class DriftRow:
    """A contract, on all columns that show the same.

    Attributes:
        columns: of which there are others, or all.
        states: one for each kernel.
    """

    contract: str
    columns: tuple[str, ...]
    everywhere: bool
    states: tuple[DriftState, ...]

    @property
    def where(self) -> str:
        """The columns in few words."""
        return "all" if self.everywhere and len(self.columns) > 1 else " ".join(self.columns)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing happened that somebody should look at."""
        return not any(state.name for state in self.states)


def rows(found: LayoutDriftDocument) -> list[DriftRow]:
    """The table: contracts by kernels. Columns that show the same share a row."""
    cells = {(each.contract, each.column, each.kernel): each for each in found.cells}
    at: dict[tuple[str, str, str], list[DriftFinding]] = {}
    for finding in found.findings:
        for column in finding.columns:
            at.setdefault((finding.contract, column, finding.after), []).append(finding)
    columns = tuple(dict.fromkeys(each.column for each in found.cells))
    made = []
    for contract in dict.fromkeys(each.contract for each in found.cells):
        alike: dict[tuple[DriftState, ...], list[str]] = {}
        for column in columns:
            keys = [(contract, column, kernel.name) for kernel in found.kernels]
            states = tuple(_state(cells.get(key), at.get(key, [])) for key in keys)
            alike.setdefault(states, []).append(column)
        for states, names in alike.items():
            made.append(DriftRow(contract, tuple(names), len(names) == len(columns), states))
    return made


def _state(cell: DriftCell | None, findings: Sequence[DriftFinding]) -> DriftState:
    if cell is None:
        return DriftState("-", tuple(findings))
    fresh = {rule for each in findings if each.kind.is_red for rule in each.rules}
    parts = []
    if fresh:
        parts.append(f"FAIL {' '.join(short(rule) for rule in cell.failed if rule in fresh)}")
    if old := [rule for rule in cell.failed if rule not in fresh]:
        parts.append(f"{len(old)} fail")
    if cell.passed:
        parts.append(f"{len(cell.passed)} pass")
    if not parts:
        parts.append("not seen" if cell.size is None else "n/a")
    return DriftState(", ".join(parts), tuple(findings))


def short(rule: str) -> str:
    """G1 for cfs-rq.G1: the row says the rest."""
    return rule.rpartition(".")[2]


def quiet_contracts(table: Sequence[DriftRow]) -> list[str]:
    """The contracts of which no row has anything to look at."""
    loud = {row.contract for row in table if not row.is_quiet}
    return [name for name in dict.fromkeys(row.contract for row in table) if name not in loud]


def text(found: LayoutDriftDocument) -> Iterator[str]:
    """The report for a terminal."""
    for kernel in found.kernels:
        yield from _wrapped(f"{kernel.name}: {kernel.origin}", "    ")
    lines = dict.fromkeys((each.column, each.line) for each in found.cells)
    yield from _wrapped("bytes in a line: " + ", ".join(f"{column} {line}" for column, line in lines), "    ")
    table = rows(found)
    quiet = quiet_contracts(table)
    shown = [row for row in table if row.contract not in quiet]
    if shown:
        yield ""
        yield from _table([kernel.name for kernel in found.kernels], shown)
    if quiet:
        yield ""
        yield from _wrapped(f"nothing to look at in {len(quiet)} contracts: {', '.join(quiet)}", "    ")
    for kind in DriftKind:
        its = [each for each in found.findings if each.kind is kind]
        if its:
            yield ""
            yield f"{'FAIL: ' if kind.is_red else ''}{WORDS[kind]}"
        yield from _one_by_one(found, its) if kind.is_red or kind.is_amber else _in_short(its)
    yield from _moved(found)
    notes = [f"{kernel.name}: {note}" for kernel in found.kernels for note in kernel.notes]
    if notes:
        yield ""
    for note in notes:
        yield from _wrapped(f"note: {note}", "      ")
    yield ""
    if found.status is Verdict.INCONCLUSIVE:
        yield "not compared: two kernels have no column and no rule in common, or one was not seen; the notes say why"
        yield "  next: choose another --arch, --config or --pack"
    yield f"verdict: {found.status.name}"


def _one_by_one(found: LayoutDriftDocument, findings: Sequence[DriftFinding]) -> Iterator[str]:
    everywhere = {each.column for each in found.cells}
    for each in findings:
        on = "" if len(each.columns) == len(everywhere) else f" ({' '.join(each.columns)})"
        yield from _wrapped(f"  {step(each)}, struct {each.contract}{on}: {each.text}", "      ")
        if each.readers and each.kind is not DriftKind.READ:
            yield from _wrapped(f"      read by {', '.join(each.readers)}", "      ")


def _in_short(findings: Sequence[DriftFinding]) -> Iterator[str]:
    """What needs no look: the rules of each step."""
    for between in dict.fromkeys(step(each) for each in findings):
        rules = dict.fromkeys(rule for each in findings if step(each) == between for rule in each.rules)
        yield from _wrapped(f"  {between}: {', '.join(rules)}", "      ")


def step(each: DriftFinding | DriftMove) -> str:
    """Between which kernels something happened."""
    return f"{each.before} -> {each.after}"


def _table(kernels: Sequence[str], shown: Sequence[DriftRow]) -> Iterator[str]:
    """Names that are too long for the table end in the line of their own."""
    cells = [["contract", "on", *(_tail(name) for name in kernels)]]
    cells += [[row.contract, row.where, *(state.text for state in row.states)] for row in shown]
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    while sum(widths) + 2 * (len(widths) - 1) > WIDTH and max(widths) > 8:
        widths[widths.index(max(widths))] -= 1
    for row in cells:
        parts = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
        for number in range(max(map(len, parts))):
            line = [part[number] if number < len(part) else "" for part in parts]
            yield "  ".join(each.ljust(width) for each, width in zip(line, widths, strict=True)).rstrip()


def _tail(name: str, most: int = 20) -> str:
    return name if len(name) <= most else f"...{name[3 - most :]}"


def _moved(found: LayoutDriftDocument) -> Iterator[str]:
    """The members that contracts name and that begin on another line, in the first column; how many others is said."""
    first = next((each.column for each in found.cells), "")
    steps: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for move in found.moves:
        if first in move.columns and move.old is not None and move.new is not None:
            its = steps.setdefault((step(move), move.contract), ([], []))
            its[0 if move.named else 1].append(f"{move.member} {move.old} to {move.new}")
    if steps:
        yield ""
        yield f"members that begin on another line on {first}; --json has all, of all columns"
    for (between, contract), (named, others) in steps.items():
        more = [f"{len(named) - _MOST_MEMBERS} more"] if len(named) > _MOST_MEMBERS else []
        more += [f"{len(others)} that no contract names"] if others else []
        yield from _wrapped(f"  {between}, struct {contract}: {', '.join([*named[:_MOST_MEMBERS], *more])}", "      ")


def _wrapped(line: str, indent: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
