# SPDX-License-Identifier: GPL-2.0
"""How much may still be added to the guarded lines before a rule breaks, and lines as pahole would draw them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from schedlib.contracts.contract_rules import Rules
from schedlib.formats.contract_file import ClauseKind
from schedlib.layout.rule_judge import (
    ClauseResult,
    Layout,
    RuleOutcome,
    broken_by,
    bytes_left,
    concerned,
    judge_rule,
)


@dataclass(frozen=True)
class Guarded:
    """A line of a structure on which rules keep some members, which are in order of their offset.

    Attributes:
        left: bytes that can be added among them before the last one crosses the end of the line.
        free: bytes of the line that no member uses.
        pointer: size of a pointer.
    """

    rules: tuple[str, ...]
    type: str
    line: int
    members: tuple[str, ...]
    left: int
    free: int
    pointer: int

    @property
    def is_full(self) -> bool:
        """Whether one more pointer among the members breaks a rule."""
        return self.left < self.pointer


def guarded_lines(rules: Rules, layout: Layout) -> tuple[Guarded, ...]:
    """Every line on which a rule that holds keeps two members or more; rules with the same members share one row."""
    found: dict[tuple[str, int, tuple[str, ...]], Guarded] = {}
    for rule in rules.rules:
        for result in judge_rule(rules, rule.id, layout).clauses:
            clause, fields = result.clause, sorted(result.fields, key=lambda field: field.offset)
            if result.outcome is not RuleOutcome.PASS or clause.kind is not ClauseKind.ON_LINE or len(fields) < 2:
                continue
            line = layout.line_of(fields[0].offset)
            key = clause.type, line, tuple(field.member for field in fields)
            names = (*(found[key].rules if key in found else ()), rule.id)
            left, free = bytes_left(fields, layout), free_bytes(layout, clause.type, line)
            found[key] = Guarded(names, clause.type, line, key[2], left, free, layout.pointer)
    return tuple(found.values())


def room_on(row: Guarded) -> str:
    """What is left on a guarded line, in words."""
    warning = ". WARNING: the next pointer put before that member breaks the rule" if row.is_full else ""
    return (
        f"struct {row.type} line {row.line}: {row.free} bytes unused; its last member {row.members[-1]} ends "
        f"{row.left} bytes before the line does{warning}"
    )


def free_bytes(layout: Layout, tag: str, line: int) -> int:
    """Bytes of a line that no member uses; 0 if not all members are known."""
    if tag not in layout.structures:
        return 0
    return layout.unused(tag, line * layout.line, min((line + 1) * layout.line, layout.types[tag].size))


def lines_with_less_room(before: Iterable[Guarded], after: Iterable[Guarded]) -> list[tuple[Guarded, Guarded]]:
    """The guarded lines that have less room than before."""
    old = {(row.type, row.rules): row for row in before}
    pairs = [(old[row.type, row.rules], row) for row in after if (row.type, row.rules) in old]
    return [(one, other) for one, other in pairs if other.left < one.left or other.free < one.free]


def draw_line(tag: str, line: int, layout: Layout, marked: frozenset[str]) -> Iterator[str]:
    """One line of a structure: offset, size and name of each member and hole."""
    pos, end = line * layout.line, min((line + 1) * layout.line, layout.types[tag].size)
    yield f"--- cacheline {line} boundary ({pos} bytes) ---"
    for member in layout.structures[tag].members:
        if member.last < line * layout.line or member.offset >= end:
            continue
        if member.offset > pos:
            yield f"  {pos:7} {member.offset - pos:7}  (hole)"
        yield f"{'>' if member.name in marked else ' '} {member.offset:7} {member.size:7}  {member.name}"
        pos = max(pos, member.offset + member.size)
    if pos < end:
        yield f"  {pos:7} {end - pos:7}  (hole)"


def draw_clause(result: ClauseResult, layout: Layout) -> Iterator[str]:
    """The members of a clause, and a picture of the lines of the first, and of each that is not where it should be."""
    tag = result.clause.type
    kind = layout.types[tag]
    aligned = f", aligned to {kind.align}" if kind.align else ""
    yield f"struct {tag}: size {kind.size}{aligned}, lines of {layout.line}"
    for field in concerned(result, layout):
        first, last = layout.line_of(field.offset), layout.line_of(field.last)
        at = f"line {first}" if first == last else f"lines {first}-{last}"
        times = f", {field.count} times, every {field.stride}" if field.count > 1 else ""
        yield f"  {field.member}: offset {field.offset}, size {field.size}, {at}{times}"
    wrong = {name for pair in broken_by(result, layout) for name in pair}
    shown = [each for each in result.named if each == result.named[0] or each.member in wrong]
    ends = {layout.line_of(byte) for each in shown for byte in (each.offset, each.last)}
    marked = frozenset(field.member for field in result.named)
    for line in sorted(ends) if result.fields else [layout.line_of(kind.size - 1)]:
        yield from (f"  {text}" for text in draw_line(tag, line, layout, marked))
