# SPDX-License-Identifier: GPL-2.0
"""Holds the layout rules against the layout of one kernel, as kunit/sched_layout_kunit.c does inside of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from schedlib.layout.members import Structure, resolve
from schedlib.layout.tables import (
    ANY_LINE,
    LAST_LINE,
    UNLISTED,
    Clause,
    ClauseKind,
    Compiled,
    Condition,
    Field,
    Rules,
    Type,
)
from schedlib.tree.source import Presence, presence


@dataclass(frozen=True)
class Layout:
    """The structures of one kernel.

    Attributes:
        name: for people: "arm64+numa", a path.
        line: bytes in a cache line.
        assumed: why the line size or a condition is assumed and not known; empty when all is known.
        holds: the conditions that are true.
        unknown: the conditions of which nothing is known; the others are false.
        types: by tag.
        fields: by tag and path.
        structures: with all their members, by tag; empty without debug information.
    """

    name: str
    line: int
    assumed: str
    holds: frozenset[Condition]
    unknown: frozenset[Condition]
    types: Mapping[str, Type]
    fields: Mapping[tuple[str, str], Field]
    structures: Mapping[str, Structure]

    def line_of(self, offset: int) -> int:
        """The line on which a byte lies."""
        return offset // self.line

    def lines(self, size: int) -> int:
        """How many lines so many bytes take."""
        return -(-size // self.line)


def from_tables(name: str, compiled: Compiled, structures: Mapping[str, Structure]) -> Layout:
    """The layout that a compiler chose, from the tables that it filled and the debug information beside them."""
    types = {row.name: row for row in compiled.types}
    fields = {(row.type, row.member): row for row in compiled.fields}
    known = {tag: structure for tag, structure in structures.items() if tag in types}
    return Layout(name, compiled.line, "", compiled.holds, frozenset(), types, fields, known)


def from_members(
    name: str,
    rules: Rules,
    structures: Mapping[str, Structure],
    line: int,
    holds: frozenset[Condition],
    unknown: frozenset[Condition],
    assumed: str,
) -> Layout:
    """The layout of a kernel that somebody else built, from its debug information."""
    types = {tag: structure.type for tag, structure in structures.items()}
    fields: dict[tuple[str, str], Field] = {}
    for clause in rules.clauses:
        for member in clause.members:
            path = member.removesuffix("?")
            found = resolve(structures, clause.type, path)
            if found:
                fields[clause.type, path] = found
    return Layout(name, line, assumed, holds, unknown, types, fields, structures)


class RuleOutcome(Enum):
    """What became of a clause or a rule."""

    PASS = "pass"
    FAIL = "fail"
    NA = "n/a"


class Unrecorded(Enum):
    """What a clause is about and the source of a layout does not record."""

    PADDING = "needs debug information that tells where the padding is"
    ALIGNMENT = "the alignment of a type is not recorded there"


@dataclass(frozen=True)
class ClauseResult:
    """A clause, its members that exist here, and the reason where it is n/a.

    Attributes:
        unrecorded: set where another source could judge it.
    """

    clause: Clause
    outcome: RuleOutcome
    fields: tuple[Field, ...]
    reason: str = ""
    unrecorded: Unrecorded | None = None


@dataclass(frozen=True)
class RuleResult:
    """A rule on one layout. A rule of an absent change is n/a, unless the change is expected: then it fails."""

    rule: str
    outcome: RuleOutcome
    clauses: tuple[ClauseResult, ...]
    reason: str = ""


def judge_rule(rules: Rules, name: str, layout: Layout, expected: frozenset[str] = frozenset()) -> RuleResult:
    """Judge one rule.

    Args:
        expected: ids of the changes that have to be there.
    """
    rule = rules.rule(name)
    results = tuple(judge_clause(clause, layout, rules) for clause in rules.of(name))
    applicable = [result for result in results if result.outcome is not RuleOutcome.NA]
    found, missing = presence_of(rules, rule.change, layout)
    absent = f"{rule.change} is not in this tree (not so: {missing})" if found is Presence.ABSENT else ""
    if absent and rule.change not in expected:
        return RuleResult(name, RuleOutcome.NA, results, absent)
    if not applicable:
        return RuleResult(name, RuleOutcome.NA, results, results[-1].reason if results else "no clause")
    if absent:
        return RuleResult(name, RuleOutcome.FAIL, results, absent)
    failed = any(result.outcome is RuleOutcome.FAIL for result in results)
    return RuleResult(name, RuleOutcome.FAIL if failed else RuleOutcome.PASS, results)


def presence_of(rules: Rules, change: str, layout: Layout) -> tuple[Presence, str]:
    """Whether a change is there, by its signs; and the first sign that is missing."""
    results = [judge_clause(clause, layout, rules) for clause in rules.of(change)]
    missing = next((describe(r, layout, rules) for r in results if r.outcome is RuleOutcome.FAIL), "")
    return presence([r.outcome is RuleOutcome.PASS for r in results if r.outcome is not RuleOutcome.NA]), missing


def judge_clause(clause: Clause, layout: Layout, rules: Rules) -> ClauseResult:
    """Judge one clause."""

    def na(reason: str | Unrecorded) -> ClauseResult:
        if isinstance(reason, Unrecorded):
            return ClauseResult(clause, RuleOutcome.NA, tuple(fields), reason.value, reason)
        return ClauseResult(clause, RuleOutcome.NA, tuple(fields), reason)

    fields: list[Field] = []
    for condition in sorted(clause.needs - layout.holds):
        words = rules.conditions[condition]
        if condition in layout.unknown:
            return na(f"whether it has {words} is not known without its configuration")
        return na(f"needs {words}")
    kind = layout.types.get(clause.type)
    if kind is None:
        return na(f"no struct {clause.type} in this configuration")
    for name in clause.members:
        found = layout.fields.get((clause.type, name.removesuffix("?")))
        if found:
            fields.append(found)
        elif not name.endswith("?"):
            return na(f"no {clause.type}.{name} in this configuration")
    if len(clause.members) > 1 and len(fields) < 2:
        return na("nothing to compare with in this configuration")
    if clause.kind in UNLISTED and clause.type not in layout.structures:
        return na(Unrecorded.PADDING)
    holds = _holds(clause, fields, kind, layout)
    if holds is None:
        return na(Unrecorded.ALIGNMENT)
    return ClauseResult(clause, RuleOutcome.PASS if holds else RuleOutcome.FAIL, tuple(fields))


def _holds(clause: Clause, fields: Sequence[Field], kind: Type, layout: Layout) -> bool | None:
    if clause.kind is ClauseKind.TYPE_PADDED:
        return kind.size % layout.line == 0
    if clause.kind is ClauseKind.TYPE_SMALL:
        return kind.size < layout.line
    if clause.kind is ClauseKind.TYPE_MOST:
        return kind.size - sum(member.size for member in fields) <= clause.arg
    if clause.kind is ClauseKind.TYPE_ALIGNED:
        if kind.align is not None:
            return kind.align % layout.line == 0
        return False if kind.size % layout.line else None
    return bool(fields) and all(member_holds(clause, fields, member, layout) for member in fields)


def share_line(one: Field, other: Field, layout: Layout) -> bool:
    """Whether any element of one has a byte on a line with any element of the other."""
    for i in range(one.count):
        first, last = layout.line_of(one.offset + i * one.stride), layout.line_of(one.last + i * one.stride)
        for j in range(other.count):
            if (
                layout.line_of(other.offset + j * other.stride) <= last
                and layout.line_of(other.last + j * other.stride) >= first
            ):
                return True
    return False


def wanted_line(clause: Clause, fields: Sequence[Field], layout: Layout) -> int:
    """The line that a clause means that has one in its argument."""
    if clause.arg == ANY_LINE:
        return layout.line_of(fields[0].offset)
    if clause.arg == LAST_LINE:
        return layout.line_of(layout.types[clause.type].size - 1)
    return clause.arg


def bytes_left(fields: Sequence[Field], layout: Layout) -> int:
    """Bytes from the end of the last of some members to the end of its line."""
    return layout.line - 1 - max(member.last for member in fields) % layout.line


def member_holds(clause: Clause, fields: Sequence[Field], member: Field, layout: Layout) -> bool:
    """Whether a clause is true of one of its members."""
    first, line = fields[0], layout.line
    match clause.kind:
        case ClauseKind.ALIGNED:
            return member.offset % line == 0 and member.stride % line == 0
        case ClauseKind.ON_LINE:
            wanted = wanted_line(clause, fields, layout)
            return layout.line_of(member.offset) == wanted == layout.line_of(member.last)
        case ClauseKind.STARTS_ON:
            return layout.line_of(member.offset) == wanted_line(clause, fields, layout)
        case ClauseKind.APART:
            return member is first or not share_line(first, member, layout)
        case ClauseKind.ALONE:
            first_line, last_line = layout.line_of(first.offset), layout.line_of(first.last)
            return not _strangers(fields, range(first_line * line, (last_line + 1) * line), layout)
        case ClauseKind.UNBROKEN:
            span = range(min(field.offset for field in fields), max(field.last for field in fields) + 1)
            return not _strangers(fields, span, layout)
        case ClauseKind.FOLLOWS:
            return member is first or first.offset > member.offset
        case ClauseKind.SAME_OFFSET:
            return member.offset == first.offset
        case ClauseKind.OWN_OFFSET:
            return member is first or member.offset != first.offset
        case ClauseKind.HEADROOM:
            return bytes_left(fields, layout) >= clause.arg
        case _:
            return False


def _strangers(fields: Sequence[Field], span: range, layout: Layout) -> list[str]:
    """Other members of the structure with bytes in a span of it."""
    others = set(span)
    for field in fields:
        others -= set(range(field.offset, field.last + 1))
    return [
        member.name
        for member in layout.structures[fields[0].type].members
        if not others.isdisjoint(range(member.offset, member.offset + member.size))
    ]


def describe(result: ClauseResult, layout: Layout, rules: Rules) -> str:
    """A clause in words."""
    clause = result.clause
    arg = ""
    if clause.kind in (ClauseKind.HEADROOM, ClauseKind.TYPE_MOST):
        arg = f" {clause.arg}"
    elif clause.kind in (ClauseKind.ON_LINE, ClauseKind.STARTS_ON):
        if clause.arg == ANY_LINE:
            arg = " one line"
        elif clause.arg == LAST_LINE and clause.type not in layout.types:
            arg = " the last line"
        else:
            arg = f" line {wanted_line(clause, result.fields, layout)}"
    members = f": {' '.join(clause.members)}" if clause.members else ""
    return f"struct {clause.type}: {rules.kinds[clause.kind]}{arg}{members}"
