# SPDX-License-Identifier: GPL-2.0
"""What became of the contracts from one kernel to the next: rules, lines, members, and what functions touch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from msgspec.structs import replace

from schedlib.contracts.contract_rules import WORDS, Rules
from schedlib.contracts.first_contract import MARKER
from schedlib.formats.contract_file import ClauseKind
from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Moment, Positive, Strict, Word
from schedlib.layout.headroom import free_bytes
from schedlib.layout.layout_diff import moved_members
from schedlib.layout.members import resolve, root_of
from schedlib.layout.reads import place
from schedlib.layout.rule_judge import (
    ClauseResult,
    Layout,
    RuleOutcome,
    RuleResult,
    bytes_left,
    few,
    happened,
    judge_rule,
    offences,
    place_of,
    presence_of,
)
from schedlib.tree.source import Presence
from schedlib.verdict import Verdict

Reads = Mapping[tuple[str, str], Mapping[str, str] | None]
"""For a function and a structure what touched() says of them."""

_JOINABLE = frozenset({ClauseKind.APART, ClauseKind.ALONE})
"""The kinds that are broken by a member that joins a line. What lies between scattered members says nothing."""

_COMPANY = frozenset({ClauseKind.ON_LINE, ClauseKind.STARTS_ON, ClauseKind.ALIGNED, ClauseKind.APART})
"""The kinds that say where members are, and leave their lines open."""


class DriftKind(Enum):
    """What is found between two kernels."""

    BROKEN = "broken"
    """A rule that held in an older kernel does not hold in the newer one."""
    INTRUDER = "intruder"
    """A rule was broken before; now a further member of another class is on its lines."""
    NEVER_HELD = "never held"
    """A rule that could not be judged before can be judged now, and does not hold."""
    FULL = "full"
    """A guarded or closed line lost its last bytes."""
    JOINED = "joined"
    """A member that no contract names came to lie on a line that a contract speaks of."""
    READ = "read"
    """A function that a contract names as reader began to touch a member off the lines of its groups."""
    GONE = "gone"
    """A member that a contract names is no longer there."""
    WENT = "went"
    """A rule could be judged before and no longer can."""
    CAME = "came"
    """A rule could not be judged before, and holds now."""
    MENDED = "mended"
    """A rule was broken before, and holds now."""

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
        readers: functions that the contract names as readers of the lines' members; of a read the function.
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


@dataclass(frozen=True)
class JudgedKernel:
    """The layout of one kernel with the outcome of every rule, by its id.

    Attributes:
        reads: None if there is no source.
    """

    name: str
    layout: Layout
    results: Mapping[str, RuleResult]
    reads: Reads | None = None


def _found(
    before: JudgedKernel,
    after: JudgedKernel,
    kind: DriftKind,
    contract: str,
    rules: Sequence[str],
    members: Sequence[str],
    text: str,
    readers: tuple[str, ...] = (),
) -> DriftFinding:
    """A finding in one column; who compares them all says in which it is so."""
    return DriftFinding(kind, contract, before.name, after.name, (), tuple(rules), tuple(members), readers, text)


def judge_kernels(rules: Rules, kernels: Sequence[tuple[str, Layout, Reads | None]]) -> list[JudgedKernel]:
    """Judge every rule on kernels that follow each other. A change that one has is expected of all later ones."""
    judged: list[JudgedKernel] = []
    expected: frozenset[str] = frozenset()
    for name, layout, reads in kernels:
        results = {rule.id: judge_rule(rules, rule.id, layout, expected) for rule in rules.rules}
        judged.append(JudgedKernel(name, layout, results, reads))
        expected |= {each for each in rules.changes() if presence_of(rules, each, layout)[0] is Presence.PRESENT}
    return judged


def compare_kernels(
    rules: Rules, before: JudgedKernel, after: JudgedKernel, held: Collection[str]
) -> Iterator[DriftFinding]:
    """What differs between two kernels that follow each other.

    Args:
        held: ids of the rules that held in some earlier kernel.
    """
    yield from _rules(rules, before, after, held)
    yield from _full(before, after)
    yield from _joined(rules, before, after)
    yield from _gone(rules, before, after)
    yield from _reads(rules, before, after)


def moves(rules: Rules, before: JudgedKernel, after: JudgedKernel) -> Iterator[DriftMove]:
    """The members of contracted structures that begin on another line."""
    named = {(tag, root_of(each)) for tag, names, _ in rules.members for each in names}
    for tag in rules.types():
        if tag in before.layout.structures and tag in after.layout.structures:
            for member, old, new in moved_members(tag, before.layout, after.layout):
                if not MARKER.fullmatch(member):
                    yield DriftMove(tag, before.name, after.name, (), member, old, new, (tag, member) in named)


def _rules(rules: Rules, before: JudgedKernel, after: JudgedKernel, held: Collection[str]) -> Iterator[DriftFinding]:
    for rule in rules.rules:
        was, now = before.results[rule.id], after.results[rule.id]
        if now.outcome is RuleOutcome.FAIL:
            if was.outcome is RuleOutcome.FAIL:
                yield from _worse(rules, before, after, rule.id)
            else:
                kind = DriftKind.BROKEN if rule.id in held else DriftKind.NEVER_HELD
                yield from _broken(rules, kind, before, after, rule.id)
            continue
        if now.outcome is was.outcome:
            continue
        if now.outcome is RuleOutcome.NA:
            kind, text = DriftKind.WENT, f"is not judged any more: {now.reason}"
        elif was.outcome is RuleOutcome.FAIL:
            kind, text = DriftKind.MENDED, f"holds again: {rule.reason}"
        else:
            kind, text = DriftKind.CAME, "is judged now, and holds"
        yield _found(before, after, kind, now.clauses[0].clause.type, (rule.id,), (), f"{rule.id} {text}")


def _broken(
    rules: Rules, kind: DriftKind, before: JudgedKernel, after: JudgedKernel, rule: str
) -> Iterator[DriftFinding]:
    """Each structure in which a rule is broken: a rule may speak of two."""
    result, layout, reason = after.results[rule], after.layout, rules.rule(rule).reason
    failed = [each for each in result.clauses if each.outcome is RuleOutcome.FAIL]
    for tag in dict.fromkeys(each.clause.type for each in failed):
        its = [each for each in failed if each.clause.type == tag]
        said = "; ".join(dict.fromkeys(happened(each, layout) for each in its))
        members = dict.fromkeys(name for each in its for pair in offences(each, layout) for name in pair if name)
        readers = _readers(rules, tag, [name for each in its for name in each.clause.named])
        yield _found(before, after, kind, tag, (rule,), [*members], f"{rule}: {said}. Why: {reason}", readers)
    if not failed:
        tag = result.clauses[0].clause.type
        yield _found(before, after, kind, tag, (rule,), (), f"{rule}: {result.reason}. Why: {reason}")


def _worse(rules: Rules, before: JudgedKernel, after: JudgedKernel, rule: str) -> Iterator[DriftFinding]:
    """Members that joined lines of a rule that was broken before."""
    for one, other in zip(before.results[rule].clauses, after.results[rule].clauses, strict=True):
        clause = other.clause
        if other.outcome is not RuleOutcome.FAIL or clause.kind not in _JOINABLE or one.outcome is RuleOutcome.NA:
            continue
        known = offences(one, before.layout)
        fresh = [pair for pair in offences(other, after.layout) if pair not in known]
        if fresh:
            members = dict.fromkeys(name for pair in fresh for name in pair if name)
            named = (list(dict.fromkeys(filter(None, names))) for names in zip(*fresh, strict=True))
            where = " and ".join(filter(None, map(few, named)))
            text = f"{rule}, which was broken before: {WORDS[clause.kind]}; now also {where}"
            readers = _readers(rules, clause.type, clause.named)
            yield _found(before, after, DriftKind.INTRUDER, clause.type, (rule,), [*members], text, readers)


def _readers(rules: Rules, tag: str, members: Collection[str]) -> tuple[str, ...]:
    """The functions that the contract names as readers of some members."""
    groups = (group for struct, group in rules.groups if struct == tag and not set(group.names).isdisjoint(members))
    return tuple(dict.fromkeys(name for group in groups for name in group.readers))


def _both(before: JudgedKernel, after: JudgedKernel) -> Iterator[tuple[str, ClauseResult, ClauseResult]]:
    """The clauses that hold in two kernels, of rules that hold in both, with the id of the rule."""
    for name, now in after.results.items():
        was = before.results[name]
        if was.outcome is now.outcome is RuleOutcome.PASS:
            for one, other in zip(was.clauses, now.clauses, strict=True):
                if one.outcome is other.outcome is RuleOutcome.PASS:
                    yield name, one, other


def _lines(result: ClauseResult, layout: Layout) -> tuple[int, ...]:
    """The lines on which the members of a clause lie."""
    return tuple(sorted({line for field in result.fields for line in layout.lines_of(field)}))


def _full(before: JudgedKernel, after: JudgedKernel) -> Iterator[DriftFinding]:
    """Guarded and closed lines that lost their last bytes, or on which no further pointer has room."""
    told: dict[tuple[str, str], tuple[list[str], tuple[str, ...]]] = {}
    for name, one, other in _both(before, after):
        kind, tag = other.clause.kind, other.clause.type
        is_guarded = kind is ClauseKind.ON_LINE and min(len(one.fields), len(other.fields)) > 1
        if kind is not ClauseKind.ALONE and not is_guarded:
            continue
        old, new = before.layout, after.layout
        lines = _lines(other, new)
        free = [
            sum(free_bytes(layout, tag, line) for line in _lines(result, layout))
            for result, layout in ((one, old), (other, new))
        ]
        left = [bytes_left(result.fields, layout) for result, layout in ((one, old), (other, new))]
        where = f"{'line' if len(lines) == 1 else 'lines'} {' '.join(map(str, lines))}"
        said = []
        if free[0] > 0 == free[1]:
            said.append(f"the last {free[0]} free bytes are taken")
        if is_guarded and left[0] >= old.pointer and left[1] < new.pointer:
            last = max(other.fields, key=lambda field: field.last).member
            said.append(f"{left[1]} bytes are left behind {last}, there were {left[0]}: no pointer more has room")
        if said:
            members = tuple(field.member for field in other.fields)
            told.setdefault((tag, f"{where}: {'; '.join(said)}"), ([], members))[0].append(name)
    for (tag, text), (names, members) in told.items():
        ids = tuple(dict.fromkeys(names))
        yield _found(before, after, DriftKind.FULL, tag, ids, members, f"{text} ({', '.join(ids)})")


def _joined(rules: Rules, before: JudgedKernel, after: JudgedKernel) -> Iterator[DriftFinding]:
    """Members that no contract names and that came to lines which a contract speaks of, where the rule still holds."""
    told: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for name, one, other in _both(before, after):
        tag = other.clause.type
        if other.clause.kind in _COMPANY and tag in before.layout.structures and tag in after.layout.structures:
            there = _company(one, before.layout)
            used = {at for field in other.named for at in range(field.offset, field.last + 1)}
            for member, bytes_ in _company(other, after.layout).items():
                # A further name for bytes of the contract's members is no new member: they are in one union.
                if member not in there and used.isdisjoint(bytes_):
                    row = told.setdefault((tag, member), ([], []))
                    row[0].append(name)
                    row[1].extend(
                        field.member for field in other.fields if _meet(field.member, member, tag, after.layout)
                    )
    named = {(tag, root_of(each)) for tag, names, _ in rules.members for each in names}
    grouped: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (tag, member), (names, beside) in told.items():
        if (tag, member) not in named:
            grouped.setdefault((tag, tuple(dict.fromkeys(names)), tuple(dict.fromkeys(beside))), []).append(member)
    for (tag, ids, near), members in grouped.items():
        text = f"{few(members)} came to a line of {few(near)} ({', '.join(ids)})"
        yield _found(before, after, DriftKind.JOINED, tag, ids, members, text, _readers(rules, tag, near))


def _company(result: ClauseResult, layout: Layout) -> dict[str, range]:
    """All members with bytes on the lines of a clause's members, and their bytes."""
    lines = set(_lines(result, layout))
    return {
        member.name: range(member.offset, member.last + 1)
        for member in layout.structures[result.clause.type].members
        if member.size and not lines.isdisjoint(layout.lines_of(member))
    }


def _meet(one: str, other: str, tag: str, layout: Layout) -> bool:
    """Whether two members have a line in common."""
    first, second = (place(layout, tag, name) for name in (one, other))
    return bool(first and second and not set(layout.lines_of(first)).isdisjoint(layout.lines_of(second)))


def _gone(rules: Rules, before: JudgedKernel, after: JudgedKernel) -> Iterator[DriftFinding]:
    """Members that a contract names and that the newer kernel lacks; it says so of those that the older one has."""
    lost: dict[str, list[str]] = {}
    both = before.layout.structures, after.layout.structures
    for tag, names, _ in rules.members:
        if all(tag in each for each in both):
            was, now = (any(resolve(each, tag, name) for name in names) for each in both)
            if was and not now:
                lost.setdefault(tag, []).append("|".join(names))
    for tag, members in lost.items():
        text = f"no longer there, or it has another name: {few(members)}"
        yield _found(before, after, DriftKind.GONE, tag, (), members, text)


def _reads(rules: Rules, before: JudgedKernel, after: JudgedKernel) -> Iterator[DriftFinding]:
    """Members off the lines of its groups that a function began to touch."""
    if before.reads is None or after.reads is None:
        return
    spelled = {(tag, name): names for tag, names, _ in rules.members for name in names}
    layout = after.layout
    for (function, tag), now in after.reads.items():
        was = before.reads.get((function, tag))
        if now is None or was is None or tag not in layout.structures:
            continue
        home = _home(rules, function, tag, layout)
        fresh: dict[str, list[str]] = {}
        for path, through in now.items():
            field = place(layout, tag, path)
            if field is None or any(each in was for each in spelled.get((tag, path), (path,))):
                continue
            if home.isdisjoint(layout.lines_of(field)):
                fresh.setdefault(through, []).append(place_of(replace(field, member=path), layout))
        for through, told in fresh.items():
            by = f", through {through}()" if through else ""
            at = "line " + ", ".join(map(str, sorted(home))) if home else "no line"
            text = f"{function}() began to touch {few(told)}{by}; its members are on {at}"
            members = tuple(each.partition(" ")[0] for each in told)
            yield _found(before, after, DriftKind.READ, tag, (), members, text, (function,))


def _home(rules: Rules, function: str, tag: str, layout: Layout) -> set[int]:
    """The lines with the members of the groups that a contract says a function reads."""
    names = [
        name for struct, group in rules.groups if struct == tag and function in group.readers for name in group.names
    ]
    fields = filter(None, (layout.field(tag, name) for name in names))
    return {line for field in fields for line in layout.lines_of(field)}
