# SPDX-License-Identifier: GPL-2.0
"""How much may still be added to the guarded lines before a rule breaks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from schedlib.contracts.contract_rules import Rules
from schedlib.formats.contract_file import ClauseKind
from schedlib.layout.rule_judge import Layout, RuleOutcome, bytes_left, judge_rule


@dataclass(frozen=True)
class Guarded:
    """A line on which a rule keeps some members.

    Attributes:
        rules: ids of these rules.
        type: tag of the structure.
        line: its number.
        members: the members that are kept there, by offset.
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
    structure = layout.structures.get(tag)
    if structure is None:
        return 0
    start, end = line * layout.line, min((line + 1) * layout.line, structure.type.size)
    used: set[int] = set()
    for member in structure.members:
        used |= set(range(max(member.offset, start), min(member.offset + member.size, end)))
    return end - start - len(used)


def lines_with_less_room(before: Iterable[Guarded], after: Iterable[Guarded]) -> list[tuple[Guarded, Guarded]]:
    """The guarded lines that have less room than before."""
    old = {(row.type, row.rules): row for row in before}
    pairs = [(old[row.type, row.rules], row) for row in after if (row.type, row.rules) in old]
    return [(one, other) for one, other in pairs if other.left < one.left or other.free < one.free]
