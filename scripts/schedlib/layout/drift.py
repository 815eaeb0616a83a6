# SPDX-License-Identifier: GPL-2.0
"""What became of the contracts from one kernel to the next: rules, lines and members."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Literal

from schedlib.contracts.contract_rules import WORDS, Rules
from schedlib.formats.contract_file import ClauseKind
from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Moment, Positive, Strict, Word
from schedlib.layout.first_contract import MARKER
from schedlib.layout.headroom import free_bytes
from schedlib.layout.layout_diff import moved_members
from schedlib.layout.members import Member, resolve, root_of
from schedlib.layout.rule_judge import (
    ClauseResult,
    JudgedColumn,
    Layout,
    RuleOutcome,
    RuleResult,
    bytes_left,
    few,
    happened,
    judge_column,
    offences,
)
from schedlib.tree.source import Presence
from schedlib.verdict import Verdict

_JOINABLE = frozenset({ClauseKind.APART, ClauseKind.ALONE})
"""The kinds that are broken by a member that joins a line. What lies between scattered members says nothing."""

_COMPANY = frozenset({ClauseKind.ON_LINE, ClauseKind.STARTS_ON, ClauseKind.ALIGNED, ClauseKind.APART})
"""The kinds that say where members are, and leave their lines open."""


class DriftKind(Enum):
    """What is found between two kernels. A line is full if it lost its last bytes, or the room for a pointer."""

    BROKEN = "broken"
    INTRUDER = "intruder"
    NEVER_HELD = "never held"
    FULL = "full"
    JOINED = "joined"
    GONE = "gone"
    WENT = "went"
    CAME = "came"
    MENDED = "mended"

    @property
    def is_red(self) -> bool:
        """Whether it makes the verdict FAIL."""
        return self in (DriftKind.BROKEN, DriftKind.INTRUDER)

    @property
    def is_amber(self) -> bool:
        """Whether somebody should look at it."""
        return not self.is_red and self not in (DriftKind.CAME, DriftKind.MENDED)


class DriftKernel(Strict, frozen=True):
    """One of the kernels, in order of time.

    Attributes:
        name: as it was given.
        origin: package and version, or the path.
        commit: what was compiled; empty for a kernel that was built already.
        notes: what could not be compared.
    """

    name: Word
    origin: Word
    commit: str
    notes: tuple[str, ...]


class DriftCell(Strict, frozen=True):
    """A contract on a kernel and a column.

    Attributes:
        contract: tag of the structure.
        column: architecture and configuration.
        line: bytes in a cache line.
        size: of the structure; null if the kernel does not have it.
        passed, failed, not_judged: ids of the rules.
    """

    contract: Word
    column: Word
    kernel: Word
    line: Positive
    size: Count | None
    passed: tuple[Word, ...]
    failed: tuple[Word, ...]
    not_judged: tuple[Word, ...]


class DriftFinding(Strict, frozen=True):
    """Something between two kernels that follow each other.

    Attributes:
        before, after: names of the kernels.
        columns: where it is so.
        rules: ids.
        members: those that it is about.
        readers: functions that the contract names as readers of the lines' members.
        text: in words.
    """

    kind: DriftKind
    contract: Word
    before: Word
    after: Word
    columns: tuple[Word, ...]
    rules: tuple[Word, ...]
    members: tuple[Word, ...]
    readers: tuple[Word, ...]
    text: Word


class DriftMove(Strict, frozen=True):
    """A member that begins on another line; null if a kernel does not have it. named: whether the contract names it."""

    contract: Word
    before: Word
    after: Word
    columns: tuple[Word, ...]
    member: Word
    old: Count | None
    new: Count | None
    named: bool


class LayoutDriftDocument(Document, frozen=True, kw_only=True):
    """schedline layout drift: what became of all contracts from one kernel to the next.

    Attributes:
        tool: name and version of what wrote this file.
        started: with time zone.
        command: what makes it again.
        fingerprint: machine, compilers.
        kernels: in order of time.
    """

    schema: Literal["layout-drift-2"]
    tool: Word
    started: Moment
    command: Word
    fingerprint: dict[str, str]
    status: Verdict
    kernels: tuple[DriftKernel, ...]
    cells: tuple[DriftCell, ...]
    findings: tuple[DriftFinding, ...]
    moves: tuple[DriftMove, ...]


def judge_kernels(rules: Rules, kernels: Sequence[tuple[str, Layout]]) -> list[JudgedColumn]:
    """Judge every rule on kernels that follow each other. A change that one has is expected of all later ones."""
    judged: list[JudgedColumn] = []
    expected: frozenset[str] = frozenset()
    for name, layout in kernels:
        judged.append(judge_column(rules, name, layout, expected))
        expected |= {change for change, found in judged[-1].presence.items() if found is Presence.PRESENT}
    return judged


@dataclass(frozen=True)
class DriftStep:
    """Two kernels that follow each other."""

    rules: Rules
    before: JudgedColumn
    after: JudgedColumn

    def findings(self, held: Collection[str]) -> Iterator[DriftFinding]:
        """What differs between them. `held`: ids of the rules that held in some earlier kernel."""
        for rule in self.rules.rules:
            yield from self._judged(rule.id, held)
        yield from self._full()
        yield from self._joined()
        yield from self._gone()

    def _found(
        self,
        kind: DriftKind,
        tag: str,
        rules: Sequence[str],
        members: Sequence[str],
        text: str,
        near: Sequence[str] = (),
    ) -> DriftFinding:
        """A finding in a column that the caller adds, with the readers of the members that are near."""
        groups = (group for owner, group in self.rules.groups if owner == tag and not set(group.names).isdisjoint(near))
        readers = tuple(dict.fromkeys(name for group in groups for name in group.readers))
        names = self.before.name, self.after.name
        return DriftFinding(kind, tag, *names, (), tuple(rules), tuple(members), readers, text)

    @cached_property
    def _named(self) -> set[tuple[str, str]]:
        """The members that contracts name, each with its structure."""
        return {(tag, root_of(each)) for tag, names, _ in self.rules.members for each in names}

    def _in_both(self, tag: str) -> bool:
        return tag in self.before.layout.structures and tag in self.after.layout.structures

    def moves(self) -> Iterator[DriftMove]:
        """The members of contracted structures that begin on another line."""
        names = self.before.name, self.after.name
        for tag in filter(self._in_both, self.rules.types()):
            for member, old, new in moved_members(tag, self.before.layout, self.after.layout):
                if not MARKER.fullmatch(member):
                    yield DriftMove(tag, *names, (), member, old, new, (tag, member) in self._named)

    def _judged(self, rule: str, held: Collection[str]) -> Iterator[DriftFinding]:
        was, now = self.before.results[rule], self.after.results[rule]
        if now.outcome is RuleOutcome.FAIL:
            yield from self._worse(was, now) if was.outcome is RuleOutcome.FAIL else self._broken(now, rule in held)
        elif now.outcome is not was.outcome:
            if now.outcome is RuleOutcome.NA:
                kind, text = DriftKind.WENT, f"is not judged any more: {now.reason}"
            elif was.outcome is RuleOutcome.FAIL:
                kind, text = DriftKind.MENDED, f"holds again: {self.rules.rule(rule).reason}"
            else:
                kind, text = DriftKind.CAME, "is judged now, and holds"
            yield self._found(kind, now.clauses[0].clause.type, [rule], (), f"{rule} {text}")

    def _broken(self, now: RuleResult, held: bool) -> Iterator[DriftFinding]:
        """Each structure in which a rule is broken: a rule may speak of two."""
        kind, why = DriftKind.BROKEN if held else DriftKind.NEVER_HELD, self.rules.rule(now.rule).reason
        failed = [each for each in now.clauses if each.outcome is RuleOutcome.FAIL]
        for tag in dict.fromkeys(each.clause.type for each in failed or now.clauses[:1]):
            its = [each for each in failed if each.clause.type == tag]
            said = "; ".join(dict.fromkeys(happened(each, self.after.layout) for each in its)) or now.reason
            pairs = (pair for each in its for pair in offences(each, self.after.layout))
            near = [name for each in its for name in each.clause.named]
            yield self._found(kind, tag, [now.rule], _flat(pairs), f"{now.rule}: {said}. Why: {why}", near)

    def _worse(self, was: RuleResult, now: RuleResult) -> Iterator[DriftFinding]:
        """Members that joined lines of a rule that was broken before."""
        for one, other in zip(was.clauses, now.clauses, strict=True):
            clause = other.clause
            if other.outcome is not RuleOutcome.FAIL or clause.kind not in _JOINABLE or one.outcome is RuleOutcome.NA:
                continue
            known = offences(one, self.before.layout)
            if fresh := [pair for pair in offences(other, self.after.layout) if pair not in known]:
                named = (list(dict.fromkeys(filter(None, names))) for names in zip(*fresh, strict=True))
                where = " and ".join(filter(None, map(few, named)))
                text = f"{now.rule}, which was broken before: {WORDS[clause.kind]}; now also {where}"
                yield self._found(DriftKind.INTRUDER, clause.type, [now.rule], _flat(fresh), text, clause.named)

    def _held(self) -> Iterator[tuple[str, ClauseResult, ClauseResult]]:
        """The clauses that hold in both, of rules that hold in both, with the id of the rule."""
        for name, now in self.after.results.items():
            was = self.before.results[name]
            if was.outcome is now.outcome is RuleOutcome.PASS:
                for one, other in zip(was.clauses, now.clauses, strict=True):
                    if one.outcome is other.outcome is RuleOutcome.PASS:
                        yield name, one, other

    def _full(self) -> Iterator[DriftFinding]:
        """Guarded and closed lines that lost their last bytes, or on which no further pointer has room."""
        told: dict[tuple[str, str], tuple[dict[str, None], list[str]]] = {}
        was, now = self.before.layout, self.after.layout
        for name, one, other in self._held():
            kind, tag = other.clause.kind, other.clause.type
            is_guarded = kind is ClauseKind.ON_LINE and min(len(one.fields), len(other.fields)) > 1
            if kind is not ClauseKind.ALONE and not is_guarded:
                continue
            lines = _lines(other, now)
            free = (
                sum(free_bytes(was, tag, at) for at in _lines(one, was)),
                sum(free_bytes(now, tag, at) for at in lines),
            )
            left = bytes_left(one.fields, was), bytes_left(other.fields, now)
            said = [f"the last {free[0]} free bytes are taken"] if free[0] > 0 == free[1] else []
            if is_guarded and left[0] >= was.pointer and left[1] < now.pointer:
                last = max(other.fields, key=lambda field: field.last).member
                said.append(f"{left[1]} bytes are left behind {last}, there were {left[0]}: no pointer more has room")
            if said:
                where = f"{'line' if len(lines) == 1 else 'lines'} {' '.join(map(str, lines))}: {'; '.join(said)}"
                members = [field.member for field in other.fields]
                told.setdefault((tag, where), ({}, members))[0][name] = None
        for (tag, text), (ids, members) in told.items():
            yield self._found(DriftKind.FULL, tag, list(ids), members, f"{text} ({', '.join(ids)})")

    def _joined(self) -> Iterator[DriftFinding]:
        """Members without a contract that came to lines which a contract speaks of, where the rule still holds."""
        layout = self.after.layout
        told: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
        for name, one, other in self._held():
            tag = other.clause.type
            if other.clause.kind not in _COMPANY or not self._in_both(tag):
                continue
            there = {each.name for each in _company(one, self.before.layout)}
            # A further name for bytes of the contract's members is no new member: they are in one union.
            used = {at for field in other.named for at in range(field.offset, field.last + 1)}
            for member in _company(other, layout):
                is_new = member.name not in there and used.isdisjoint(range(member.offset, member.last + 1))
                if is_new and (tag, member.name) not in self._named:
                    rules, near = told.setdefault((tag, member.name), ([], []))
                    rules.append(name)
                    lines = set(layout.lines_of(member))
                    near += [each.member for each in other.fields if not lines.isdisjoint(layout.lines_of(each))]
        grouped: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
        for (tag, new), (rules, near) in told.items():
            grouped.setdefault((tag, tuple(dict.fromkeys(rules)), tuple(dict.fromkeys(near))), []).append(new)
        for (tag, ids, beside), members in grouped.items():
            text = f"{few(members)} came to a line of {few(beside)} ({', '.join(ids)})"
            yield self._found(DriftKind.JOINED, tag, ids, members, text, beside)

    def _gone(self) -> Iterator[DriftFinding]:
        """Members that a contract names and that the newer kernel lacks; it says so of those that the older one has."""
        lost: dict[str, list[str]] = {}
        for tag, names, _ in self.rules.members:
            if self._in_both(tag):
                both = (self.before.layout.structures, self.after.layout.structures)
                was, now = (any(resolve(each, tag, name) for name in names) for each in both)
                if was and not now:
                    lost.setdefault(tag, []).append("|".join(names))
        for tag, members in lost.items():
            text = f"no longer there, or it has another name: {few(members)}"
            yield self._found(DriftKind.GONE, tag, (), members, text)


def _flat(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """The members of offences, each once."""
    return list(dict.fromkeys(name for pair in pairs for name in pair if name))


def _lines(result: ClauseResult, layout: Layout) -> list[int]:
    """The lines on which the members of a clause lie."""
    return sorted({line for field in result.fields for line in layout.lines_of(field)})


def _company(result: ClauseResult, layout: Layout) -> list[Member]:
    """All members with bytes on the lines of a clause's members."""
    lines, members = set(_lines(result, layout)), layout.structures[result.clause.type].members
    return [each for each in members if each.size and not lines.isdisjoint(layout.lines_of(each))]
