# SPDX-License-Identifier: GPL-2.0
"""What became of the contracts, as text in 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from schedlib.layout.drift import DriftCell, DriftFinding, DriftKind, DriftMove, LayoutDriftDocument
from schedlib.verdict import Verdict

WIDTH = 100

_MOST_MEMBERS = 12
"""Members of a structure that are listed for a step."""

_HEADINGS = {
    DriftKind.BROKEN: "FAIL: a rule that held is broken",
    DriftKind.INTRUDER: "FAIL: a further member is on the lines of a broken rule",
    DriftKind.NEVER_HELD: "a rule that can be judged now does not hold",
    DriftKind.FULL: "a line lost its last bytes",
    DriftKind.JOINED: "a member without a contract came to a line of one",
    DriftKind.READ: "a function began to touch members far from its own",
    DriftKind.GONE: "a member that a contract names is gone",
    DriftKind.WENT: "a rule is not judged any more",
    DriftKind.CAME: "a rule is judged now, and holds",
    DriftKind.MENDED: "a broken rule holds again",
}


def rows(found: LayoutDriftDocument) -> tuple[list[list[str]], list[str]]:
    """The table, contracts by kernels, and the contracts that are left out of it: of these nothing has to be looked at.

    Columns that show the same share a row.
    """
    cells = {(each.contract, each.column, each.kernel): each for each in found.cells}
    at: dict[tuple[str, str, str], list[DriftFinding]] = {}
    for finding in found.findings:
        for column in finding.columns:
            at.setdefault((finding.contract, column, finding.after), []).append(finding)
    loud = {finding.contract for finding in found.findings if finding.kind.is_red or finding.kind.is_amber}
    columns = list(dict.fromkeys(each.column for each in found.cells))
    contracts = list(dict.fromkeys(each.contract for each in found.cells))
    table = []
    for contract in (each for each in contracts if each in loud):
        alike: dict[tuple[tuple[str, tuple[DriftFinding, ...]], ...], list[str]] = {}
        for column in columns:
            keys = [(contract, column, kernel.name) for kernel in found.kernels]
            states = tuple((_state(cells.get(key), at.get(key, [])), tuple(at.get(key, []))) for key in keys)
            alike.setdefault(states, []).append(column)
        for states, names in alike.items():
            where = "all" if len(names) == len(columns) > 1 else " ".join(names)
            table.append([contract, where, *(text for text, _ in states)])
    return table, [each for each in contracts if each not in loud]


def _state(cell: DriftCell | None, findings: Sequence[DriftFinding]) -> str:
    """The rules that hold, and those that do not."""
    if cell is None:
        return "-"
    fresh = {rule for each in findings if each.kind.is_red for rule in each.rules}
    parts = []
    if fresh:
        # G1 for cfs-rq.G1: the row says the rest.
        parts.append(f"FAIL {' '.join(rule.rpartition('.')[2] for rule in cell.failed if rule in fresh)}")
    if old := [rule for rule in cell.failed if rule not in fresh]:
        parts.append(f"{len(old)} fail")
    if cell.passed:
        parts.append(f"{len(cell.passed)} pass")
    return ", ".join(parts) or ("not seen" if cell.size is None else "n/a")


def text(found: LayoutDriftDocument) -> Iterator[str]:
    """The report for a terminal."""
    for kernel in found.kernels:
        yield from _wrapped(f"{kernel.name}: {kernel.origin}", "    ")
    lines = dict.fromkeys((each.column, each.line) for each in found.cells)
    yield from _wrapped("bytes in a line: " + ", ".join(f"{column} {line}" for column, line in lines), "    ")
    shown, quiet = rows(found)
    if shown:
        yield ""
        yield from _table([kernel.name for kernel in found.kernels], shown)
    if quiet:
        yield ""
        yield from _wrapped(f"nothing to look at in {len(quiet)} contracts: {', '.join(quiet)}", "    ")
    for kind, heading in _HEADINGS.items():
        its = [each for each in found.findings if each.kind is kind]
        if its:
            yield from ("", heading)
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
        yield from _wrapped(f"  {_step(each)}, struct {each.contract}{on}: {each.text}", "      ")
        if each.readers and each.kind is not DriftKind.READ:
            yield from _wrapped(f"      read by {', '.join(each.readers)}", "      ")


def _in_short(findings: Sequence[DriftFinding]) -> Iterator[str]:
    """What needs no look: the rules of each step."""
    for between in dict.fromkeys(_step(each) for each in findings):
        rules = dict.fromkeys(rule for each in findings if _step(each) == between for rule in each.rules)
        yield from _wrapped(f"  {between}: {', '.join(rules)}", "      ")


def _step(each: DriftFinding | DriftMove) -> str:
    """Between which kernels something happened."""
    return f"{each.before} -> {each.after}"


def _table(kernels: Sequence[str], shown: Sequence[Sequence[str]]) -> Iterator[str]:
    """Names that are too long for the table end in the line of their own."""
    cells = [["contract", "on", *(_tail(name) for name in kernels)], *shown]
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
            its = steps.setdefault((_step(move), move.contract), ([], []))
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
