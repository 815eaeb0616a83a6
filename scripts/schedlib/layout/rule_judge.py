# SPDX-License-Identifier: GPL-2.0
"""Holds the layout rules against the layout of one kernel, as kunit/sched_layout_kunit.c does inside of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import product
from typing import Literal

from schedlib.contracts.contract_rules import (
    ABOUT_BYTES,
    ABOUT_LINES,
    ABOUT_TYPE,
    COMPARED,
    UNLISTED,
    WORDS,
    Clause,
    Rules,
    in_words,
)
from schedlib.formats.contract_file import ANY_LINE, LAST_LINE, ClauseKind
from schedlib.layout.members import Field, Member, Structure, Type, resolve
from schedlib.tree.source import Presence, presence

_MOST_NAMES = 5
"""Members of a clause that are named where there is little room."""


@dataclass(frozen=True)
class Layout:
    """The structures of one kernel, by tag, with all their members.

    Attributes:
        name: for people: "arm64+numa", a path.
        line: bytes in a cache line.
        assumed: why the line size or a condition is assumed and not known; empty when all is known.
        holds, unknown: the conditions that are true, and those of which nothing is known; the others are false.
    """

    name: str
    line: int = 1
    assumed: str = ""
    holds: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    structures: Mapping[str, Structure] = field(default_factory=dict)

    @cached_property
    def types(self) -> Mapping[str, Type]:
        """Sizes and alignments of the structures, by tag."""
        return {tag: structure.type for tag, structure in self.structures.items()}

    @cached_property
    def _known(self) -> dict[tuple[str, str], Field | None]:
        return {}

    def field(self, tag: str, path: str) -> Field | None:
        """A member of a structure by its path; None if it does not exist."""
        if (tag, path) not in self._known:
            self._known[tag, path] = resolve(self.structures, tag, path)
        return self._known[tag, path]

    def fields(self, tag: str, paths: Sequence[str]) -> tuple[Field, ...]:
        """Those of some members that exist."""
        return tuple(found for path in paths if (found := self.field(tag, path)))

    def line_of(self, offset: int) -> int:
        """The line on which a byte lies."""
        return offset // self.line

    def lines_of(self, member: Field | Member) -> range:
        """The lines on which the bytes of a member lie; of an array's first element."""
        return range(self.line_of(member.offset), self.line_of(member.last) + 1)

    @property
    def pointer(self) -> int:
        """Bytes in a pointer."""
        return 8 if "64bit" in self.holds else 4

    def lines(self, size: int) -> int:
        """How many lines so many bytes take."""
        return -(-size // self.line)

    def unused(self, tag: str, start: int = 0, end: int | None = None) -> int:
        """How many bytes of a structure no member has: from `start` to `end`, or in all of it."""
        members = self.structures[tag].members
        used = {byte for each in members for byte in range(each.offset, each.offset + each.size)}
        return len(set(range(start, self.types[tag].size if end is None else end)) - used)


PresenceName = Literal["present", "partial", "absent", "n/a"]
"""Of a change, as documents have it."""


class RuleOutcome(Enum):
    """What became of a clause or a rule."""

    PASS = "pass"
    FAIL = "fail"
    NA = "n/a"


@dataclass(frozen=True)
class ClauseResult:
    """A clause, its members and others that exist here, why it is n/a, and whether another source could judge it."""

    clause: Clause
    outcome: RuleOutcome
    fields: tuple[Field, ...]
    others: tuple[Field, ...] = ()
    reason: str = ""
    unrecorded: bool = False

    @property
    def named(self) -> tuple[Field, ...]:
        """Members and others."""
        return self.fields + self.others


@dataclass(frozen=True)
class RuleResult:
    """A rule on one layout. A rule of an absent change is n/a, unless the change is expected: then it fails."""

    rule: str
    outcome: RuleOutcome
    clauses: tuple[ClauseResult, ...]
    reason: str = ""


@dataclass(frozen=True)
class JudgedColumn:
    """One kernel: its layout, and the outcome of every rule by its id; an empty layout, and why there is none."""

    name: str
    layout: Layout
    results: Mapping[str, RuleResult] = field(default_factory=dict)
    presence: Mapping[str, Presence] = field(default_factory=dict)
    absent: str = ""

    def outcome(self, rule: str) -> RuleOutcome:
        """The outcome of a rule here."""
        return self.results[rule].outcome if rule in self.results else RuleOutcome.NA


def judge_column(rules: Rules, name: str, layout: Layout, expected: frozenset[str]) -> JudgedColumn:
    """Judge every rule on one kernel. `expected`: ids of the changes that have to be there."""
    results = {rule.id: judge_rule(rules, rule.id, layout, expected) for rule in rules.rules}
    return JudgedColumn(name, layout, results, {each: presence_of(rules, each, layout)[0] for each in rules.changes()})


def judge_rule(rules: Rules, name: str, layout: Layout, expected: frozenset[str] = frozenset()) -> RuleResult:
    """Judge one rule. `expected`: ids of the changes that have to be there."""
    change = rules.rule(name).change
    results = tuple(judge_clause(clause, layout) for clause in rules.of(name))
    outcomes = {result.outcome for result in results} - {RuleOutcome.NA}
    found, missing = presence_of(rules, change, layout) if change else (Presence.NA, "")
    absent = f"{change} is not in this tree (unmet: {missing})" if found is Presence.ABSENT else ""
    if absent and change not in expected:
        return RuleResult(name, RuleOutcome.NA, results, absent)
    if not outcomes:
        return RuleResult(name, RuleOutcome.NA, results, results[-1].reason if results else "no clause")
    failed = absent or RuleOutcome.FAIL in outcomes
    return RuleResult(name, RuleOutcome.FAIL if failed else RuleOutcome.PASS, results, absent)


def presence_of(rules: Rules, change: str, layout: Layout) -> tuple[Presence, str]:
    """Whether a change is there, by its signs; and the first sign that is missing."""
    results = [judge_clause(clause, layout) for clause in rules.of(change)]
    missing = next((describe(r, layout) for r in results if r.outcome is RuleOutcome.FAIL), "")
    return presence([r.outcome is RuleOutcome.PASS for r in results if r.outcome is not RuleOutcome.NA]), missing


def judge_clause(clause: Clause, layout: Layout) -> ClauseResult:
    """Judge one clause."""
    fields, others = (layout.fields(clause.type, names) for names in (clause.members, clause.others))
    kind, unrecorded = layout.types.get(clause.type), False
    condition = min(clause.needs - layout.holds, default="")
    lacking = next((name for name in clause.requires if layout.field(clause.type, name) is None), "")
    if condition in layout.unknown:
        unrecorded = True
        reason = f"whether it has {in_words(condition)} is not known without its configuration"
    elif condition:
        reason = f"needs {in_words(condition)}"
    elif kind is None:
        reason = f"no struct {clause.type} in this configuration"
    elif lacking:
        reason = f"no {clause.type}.{lacking} in this configuration"
    elif clause.kind not in ABOUT_TYPE and not fields:
        reason = f"no {clause.type}.{' '.join(clause.members)} in this configuration"
    elif (clause.kind in COMPARED and not others) or len(fields) < clause.least:
        reason = "nothing to compare with in this configuration"
    else:
        result = ClauseResult(clause, RuleOutcome.PASS, fields, others)
        holds = _holds(result, kind, layout)
        if holds is not None:
            return result if holds else replace(result, outcome=RuleOutcome.FAIL)
        unrecorded = True
        reason = "the alignment of a type is not recorded there"
    return ClauseResult(clause, RuleOutcome.NA, fields, others, reason, unrecorded)


def _holds(result: ClauseResult, kind: Type, layout: Layout) -> bool | None:
    """None: the alignment of the type is not recorded."""
    clause = result.clause
    match clause.kind:
        case ClauseKind.TYPE_PADDED:
            return kind.size % layout.line == 0
        case ClauseKind.TYPE_SMALL:
            return kind.size < layout.line
        case ClauseKind.TYPE_MOST:
            own = {byte for member in result.fields for byte in range(member.offset, _own_end(member, kind, layout))}
            return kind.size - len(own) <= clause.arg
        case ClauseKind.TYPE_GAPS:
            return layout.unused(clause.type) <= clause.arg
        case ClauseKind.TYPE_ALIGNED:
            if kind.align is not None:
                return kind.align % layout.line == 0
            return False if kind.size % layout.line else None
        case _:
            return not broken_by(result, layout)


def _own_end(member: Field, kind: Type, layout: Layout) -> int:
    """The end of the bytes that are a member's own: with the padding behind one that begins a line."""
    if member.offset % layout.line:
        return member.offset + member.size
    starts = [each.offset for each in layout.structures[kind.name].members]
    end = min((layout.line_of(member.last) + 1) * layout.line, kind.size)
    return min([end, *(start for start in starts if start >= member.offset + member.size)])


def share_line(one: Field, other: Field, layout: Layout) -> bool:
    """Whether any element of one has a byte on a line with any element of the other."""
    lines = (
        {
            line
            for at in (number * each.stride for number in range(each.count))
            for line in range(layout.line_of(each.offset + at), layout.line_of(each.last + at) + 1)
        }
        for each in (one, other)
    )
    return not set.isdisjoint(*lines)


def shared_members(
    layout: Layout, tag: str, members: Sequence[str], others: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Those of some members that share a line with others, and those others."""
    one, other = layout.fields(tag, members), layout.fields(tag, others)
    return (
        [each.member for each in one if any(share_line(each, field, layout) for field in other)],
        [each.member for each in other if any(share_line(each, field, layout) for field in one)],
    )


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


def broken_by(result: ClauseResult, layout: Layout) -> list[tuple[str, str]]:
    """What a clause about members is not true of: one of them, and the other member if it is about two."""
    clause, fields, line = result.clause, result.fields, layout.line
    if not fields:
        return []
    match clause.kind:
        case ClauseKind.ALONE | ClauseKind.UNBROKEN | ClauseKind.TYPE_GAPS:
            return [(each.member, name) for each in fields for name in _strangers(result, each, layout)]
        case ClauseKind.APART:
            pairs = [(a, b) for a, b in product(fields, result.others) if share_line(a, b, layout)]
        case ClauseKind.FOLLOWS:
            pairs = [(a, b) for a, b in product(fields, result.others) if a.offset <= b.offset]
        case ClauseKind.OWN_OFFSET:
            pairs = [(a, b) for a, b in product(fields, result.others) if a.offset == b.offset]
        case ClauseKind.ALIGNED:
            return [(each.member, "") for each in fields if each.offset % line or each.stride % line]
        case ClauseKind.ON_LINE:
            wanted = wanted_line(clause, fields, layout)
            return [(each.member, "") for each in fields if layout.lines_of(each) != range(wanted, wanted + 1)]
        case ClauseKind.STARTS_ON:
            first = wanted_line(clause, fields, layout)
            return [(each.member, "") for each in fields if layout.line_of(each.offset) != first]
        case ClauseKind.SAME_OFFSET:
            return [(each.member, "") for each in fields if each.offset != fields[0].offset]
        case ClauseKind.HEADROOM:
            return [(each.member, "") for each in fields if bytes_left(fields, layout) < clause.arg]
        case _:
            return []
    return [(one.member, other.member) for one, other in pairs]


def concerned(result: ClauseResult, layout: Layout) -> list[Field]:
    """The members of a clause, and those of the others of which it is not true."""
    wrong = {other for _, other in broken_by(result, layout)}
    return [*result.fields, *(each for each in result.others if each.member in wrong)]


def intruders(result: ClauseResult, layout: Layout) -> list[str]:
    """The members that lie where a clause wants none but those that it names; empty for clauses of other kinds."""
    if result.clause.kind not in UNLISTED or result.clause.type not in layout.structures:
        return []
    found = {name for _, name in broken_by(result, layout)}
    return [member.name for member in layout.structures[result.clause.type].members if member.name in found]


def _strangers(result: ClauseResult, member: Field, layout: Layout) -> list[str]:
    """Members that a clause does not name, with bytes where it wants none of them because of one of its members."""
    if result.clause.kind is ClauseKind.UNBROKEN:
        start, end = min(field.offset for field in result.fields), max(field.last for field in result.fields) + 1
    else:
        start = layout.line_of(member.offset) * layout.line
        end = (layout.line_of(member.last) + 1) * layout.line
    structure, named = layout.structures[result.clause.type], {field.member for field in result.named}
    # struct_group() gives some members a name together, and with it the padding behind them.
    groups = {(each.offset, each.size) for each in structure.unnamed if named.issuperset(each.names)}
    unnamed = set(range(start, end)).difference(*(range(field.offset, field.last + 1) for field in result.named))
    return [
        each.name
        for each in structure.members
        if (each.offset, each.size) not in groups
        and not unnamed.isdisjoint(range(each.offset, each.offset + each.size))
    ]


def offences(result: ClauseResult, layout: Layout) -> list[tuple[str, str]]:
    """What breaks a clause: a member and another one; the first is empty for a member that no clause names."""
    if result.outcome is not RuleOutcome.FAIL or result.clause.kind in ABOUT_TYPE:
        return []
    if result.clause.kind in UNLISTED:
        return [("", name) for name in intruders(result, layout)]
    return broken_by(result, layout)


def happened(result: ClauseResult, layout: Layout, known: Collection[str] = ()) -> str:
    """What breaks a clause, its member first; `known` are members that broke it before."""
    clause, kind = result.clause, layout.types[result.clause.type]
    pairs = [pair for pair in offences(result, layout) if pair[1] not in known] or offences(result, layout)
    ones, others = (
        (few(list(dict.fromkeys(filter(None, names)))) for names in zip(*pairs, strict=True)) if pairs else ("", "")
    )
    places = few([place_of(field, layout) for field in result.fields if field.member in {one for one, _ in pairs}])
    match clause.kind:
        case ClauseKind.ALONE:
            strangers = layout.fields(clause.type, [name for _, name in pairs])
            closed, taken = (
                {at for each in some for at in layout.lines_of(each)} for some in (result.fields, strangers)
            )
            return f"{others} on line {', '.join(map(str, sorted(closed & taken)))}, kept for {few(clause.members, 2)}"
        case ClauseKind.UNBROKEN:
            return f"{others} between {few(clause.members)}"
        case ClauseKind.ALIGNED:
            return f"{places} begins no line"
        case ClauseKind.ON_LINE | ClauseKind.STARTS_ON:
            first = result.fields[0].member
            if clause.arg == ANY_LINE and first in {one for one, _ in pairs}:
                return f"{places} not on one line"
            beside = f" with {first}" if clause.arg == ANY_LINE else ""
            return f"{places} not on line {wanted_line(clause, result.fields, layout)}{beside}"
        case ClauseKind.APART:
            return f"{ones} on a line with {others}"
        case ClauseKind.FOLLOWS:
            return f"{ones} before {others}"
        case ClauseKind.HEADROOM:
            left = bytes_left(result.fields, layout)
            return f"{left} bytes left behind {result.fields[-1].member}, {clause.arg} are kept"
        case ClauseKind.TYPE_ALIGNED:
            return f"struct {kind.name} is aligned to {kind.align or 'less than a line'}"
        case ClauseKind.TYPE_PADDED | ClauseKind.TYPE_SMALL:
            return f"struct {kind.name} has {kind.size} bytes"
        case ClauseKind.TYPE_MOST:
            rest = kind.size - sum(field.size for field in result.fields)
            beside = f" beside {few(clause.members)}" if clause.members else ""
            return f"struct {kind.name} has {rest} bytes{beside}, {clause.arg} are the most"
        case ClauseKind.TYPE_GAPS:
            unused = layout.unused(clause.type)
            return f"struct {kind.name} has {unused} bytes that no member has, {clause.arg} are the most"
        case _:
            return f"{ones}{f' and {others}' if others else ''}: {places}"


def few(names: Sequence[str], most: int = 6) -> str:
    """Names as a text; of many the first ones."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def place_of(field: Field, layout: Layout) -> str:
    """A member with its lines."""
    first, last = layout.line_of(field.offset), layout.line_of(field.last)
    return f"{field.member} (line {first})" if first == last else f"{field.member} (lines {first}-{last})"


def kept(result: ClauseResult, layout: Layout) -> str:
    """What a clause keeps, in words; of many members the first and the last."""

    def shown(names: tuple[str, ...]) -> tuple[str, ...]:
        return names if len(names) <= _MOST_NAMES else (*names[:2], "...", names[-1])

    clause = result.clause
    return describe(
        replace(result, clause=replace(clause, members=shown(clause.members), others=shown(clause.others))), layout
    )


def describe(result: ClauseResult, layout: Layout) -> str:
    """A clause in words."""
    clause, arg = result.clause, ""
    if clause.kind in ABOUT_BYTES:
        arg = f" {clause.arg}"
    elif clause.kind in ABOUT_LINES and clause.arg == ANY_LINE:
        arg = " one line"
    elif clause.kind in ABOUT_LINES and clause.arg == LAST_LINE and clause.type not in layout.types:
        arg = " the last line"
    elif clause.kind in ABOUT_LINES:
        arg = f" line {wanted_line(clause, result.fields, layout)}"
    members = f": {' '.join(clause.members)}" if clause.members else ""
    label = "allowed" if clause.kind is ClauseKind.ALONE else "others"
    others = f"; {label}: {' '.join(clause.others)}" if clause.others else ""
    words = WORDS[clause.kind]
    if clause.kind is ClauseKind.TYPE_MOST and not clause.members:
        words = words.replace(" without them", "")
    return f"struct {clause.type}: {words}{arg}{members}{others}"
