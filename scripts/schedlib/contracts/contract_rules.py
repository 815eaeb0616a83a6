# SPDX-License-Identifier: GPL-2.0
"""The contracts as rules and clauses: what is judged, in a kernel and outside of it.

Those in configs/contracts/sched are of the five changes. The packs beside them are of structures all over the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from pathlib import Path

from schedlib.contracts.struct_source import HEADERS
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import (
    ANY_LINE,
    LAST_LINE,
    NEEDS_SEVERAL,
    ClauseKind,
    Contract,
    MemberGroup,
    Promise,
    each_name,
    may_share,
    read_contract,
)
from schedlib.formats.data_file import Place, nearest, refuse
from schedlib.names import plain_toml
from schedlib.paths import CONFIGS

CONTRACTS = CONFIGS / "contracts" / "sched"

UNLISTED = frozenset({ClauseKind.ALONE, ClauseKind.UNBROKEN, ClauseKind.TYPE_GAPS})
"""The kinds that are about members which no clause lists. Judging them needs all members of the structure."""

COMPARED = frozenset({ClauseKind.APART, ClauseKind.FOLLOWS, ClauseKind.OWN_OFFSET})
"""The kinds that compare members with others. Without others there is nothing to judge."""

ABOUT_TYPE = frozenset(kind for kind in ClauseKind if kind.name.startswith("TYPE_"))
"""The kinds that are about the whole type."""

ABOUT_LINES = frozenset({ClauseKind.ON_LINE, ClauseKind.STARTS_ON})
"""The kinds whose argument is a line."""

ABOUT_BYTES = frozenset({ClauseKind.HEADROOM, ClauseKind.TYPE_MOST, ClauseKind.TYPE_GAPS})
"""The kinds whose argument is a number of bytes."""

WORDS = {
    ClauseKind.ALIGNED: "each starts on a line boundary",
    ClauseKind.ON_LINE: "all lie entirely on",
    ClauseKind.STARTS_ON: "all start on",
    ClauseKind.APART: "these share no line with the others",
    ClauseKind.ALONE: "no other member is on the lines of these",
    ClauseKind.UNBROKEN: "no other member lies between them",
    ClauseKind.FOLLOWS: "these lie behind the others",
    ClauseKind.SAME_OFFSET: "all have one offset",
    ClauseKind.OWN_OFFSET: "none of the others has the offset of these",
    ClauseKind.HEADROOM: "bytes left on the line of the last, at least",
    ClauseKind.TYPE_ALIGNED: "the type is aligned to a line",
    ClauseKind.TYPE_PADDED: "the type's size is whole lines",
    ClauseKind.TYPE_SMALL: "the type is smaller than a line",
    ClauseKind.TYPE_MOST: "bytes of the type without them, at most",
    ClauseKind.TYPE_GAPS: "bytes of the type that no member has, at most",
}


@dataclass(frozen=True)
class Rule:
    """What is promised, and to whose benefit.

    Attributes:
        change: the kernel change that made the promise; empty in a pack.
        source: commit or Message-ID of the change; in a pack whatever says so.
    """

    id: str
    change: str
    reason: str
    source: str


@dataclass(frozen=True)
class Clause:
    """One thing to be checked.

    Attributes:
        rule: the rule that it belongs to; the name of a change for a sign of that change.
        needs: conditions; without all of them the clause is n/a.
        forced: whether an attribute or the order in the source brings it about in every configuration.
        arg: a line, ANY_LINE, LAST_LINE, or bytes; see ClauseKind.
        type: tag of the structure.
        members, others: see ClauseKind. One that a kernel lacks is left out.
        requires: members; in a kernel that lacks one the clause is n/a.
        least: in a kernel that has fewer of the members the clause is n/a.
    """

    rule: str
    kind: ClauseKind
    needs: frozenset[str]
    forced: bool
    arg: int
    type: str
    members: tuple[str, ...]
    others: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    least: int = 0

    @property
    def named(self) -> tuple[str, ...]:
        """All members that it names."""
        return self.members + self.others


def least_members(kind: ClauseKind, arg: int, members: Collection[str]) -> int:
    """How many of its members a kernel must have for a clause to say anything: of one, some are true in any case.

    Args:
        members: as the contract spells them. `visit_cookie|visit_gen` is one.
    """
    compares = kind in NEEDS_SEVERAL or (kind in ABOUT_LINES and arg == ANY_LINE)
    return 2 if compares and len(members) > 1 else 0


@dataclass(frozen=True)
class OpenFinding:
    """Two groups that share lines although that costs something."""

    type: str
    members: tuple[str, ...]
    others: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Rules:
    """What the contracts say; the same for every kernel.

    Attributes:
        members: all that are named: structure, names (a tree has one of them), and the changes whose rules need them.
        files: what has to be compiled to see each structure, by its tag.
        groups: the groups of members with their access classes, each with the tag of its structure.
        asked: further conditions that a compiler is asked for each structure.
    """

    rules: tuple[Rule, ...]
    clauses: tuple[Clause, ...]
    findings: tuple[OpenFinding, ...] = ()
    members: tuple[tuple[str, tuple[str, ...], frozenset[str]], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[tuple[str, MemberGroup], ...] = ()
    asked: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def of(self, owner: str) -> tuple[Clause, ...]:
        """The clauses of a rule, or the signs of a change."""
        return tuple(clause for clause in self.clauses if clause.rule == owner)

    def only(self, changes: Collection[str]) -> Rules:
        """The rules of some changes alone, without the signs by which changes are recognised."""
        kept = tuple(rule for rule in self.rules if rule.change in changes)
        ids = {rule.id for rule in kept}
        return Rules(kept, tuple(clause for clause in self.clauses if clause.rule in ids), groups=self.groups)

    def changes(self) -> tuple[str, ...]:
        """The changes that made the rules, in order; none for those of packs."""
        return tuple(dict.fromkeys(rule.change for rule in self.rules if rule.change))

    def types(self) -> tuple[str, ...]:
        """The structures that the rules are about."""
        return tuple(dict.fromkeys(clause.type for clause in self.clauses))

    def conditions(self) -> tuple[str, ...]:
        """The conditions of all clauses, in a fixed order."""
        return tuple(sorted({condition for clause in self.clauses for condition in clause.needs}))

    def rule(self, name: str) -> Rule:
        """A rule by its id.

        Raises:
            SchedlineError: there is none.
        """
        for rule in self.rules:
            if rule.id == name:
                return rule
        raise SchedlineError(f"there is no rule {name!r}", f"choose one of {', '.join(r.id for r in self.rules)}")


@cache
def our_rules() -> Rules:
    """The rules of the contracts in configs/contracts/sched.

    Raises:
        SchedlineError: a contract is wrong.
    """
    return pack_rules((CONTRACTS.name,))


def rules_of(paths: tuple[Path, ...]) -> Rules:
    """The rules of some contracts, in the order of the changes and of their ids.

    Raises:
        SchedlineError: a contract is wrong, or two contradict each other.
    """
    with plain_toml("changes.toml") as rows:
        sources = {name: row.get("source", "") for name, row in rows.items()}
    rules: dict[str, Rule] = {}
    clauses: list[Clause] = []
    findings: list[OpenFinding] = []
    members: list[tuple[str, tuple[str, ...], frozenset[str]]] = []
    contracts = [(path, read_contract(path)) for path in paths]
    for number, (path, contract) in enumerate(contracts):
        if any(contract.struct == other.struct for _, other in contracts[:number]):
            refuse(path, ("struct",), f"is {contract.struct!r}, which has a contract already", "join the two files")
    for path, contract in contracts:
        for at, row in enumerate(contract.rule):
            change = "" if contract.file else row.change or row.id.partition(".")[0]
            if change and not sources.get(change):
                known = [name for name, source in sources.items() if source]
                refuse(path, ("rule", at, "id"), f"{row.id!r} is of no known change", nearest(change, known))
            if row.id in rules:
                refuse(path, ("rule", at, "id"), f"{row.id!r} is there twice", "choose another number")
            rules[row.id] = Rule(row.id, change, row.why, row.source or sources.get(change, ""))
    for path, contract in contracts:
        made = _ContractClauses(contract)
        clauses += made.signs() + made.promises() + list(made.apart())
        findings += made.findings()
        for one, other, when in made.conflicts():
            if when is not None and not (one.apart or other.apart):
                both = f"{one.name!r} and {other.name!r} may not share a line, and neither has a rule for it"
                at = contract.group.index(one)
                rule = contract.rule[0].id if contract.rule else "RULE"
                fix = f'write `apart = "{rule}"` below the class of one of them, or an exception'
                refuse(path, ("group", at), both, fix)
        _check_ids(path, contract, rules, sources)
        members += made.members(rules)
    for path, contract in contracts:
        for at, row in enumerate(contract.rule):
            if not any(clause.rule == row.id for clause in clauses):
                refuse(path, ("rule", at, "id"), f"{row.id!r} keeps nothing", "add a promise with this id")
    order = {change: number for number, change in enumerate((*sources, ""))}
    ordered = sorted(rules.values(), key=lambda rule: (order[rule.change], _number(rule.id)))
    place = {name: number for number, name in enumerate((*sources, *(rule.id for rule in ordered)))}
    clauses.sort(key=lambda clause: place[clause.rule])
    files = {contract.struct: contract.file or HEADERS[0] for _, contract in contracts}
    groups = tuple((contract.struct, group) for _, contract in contracts for group in contract.group)
    return Rules(tuple(ordered), tuple(clauses), tuple(findings), tuple(members), files, groups)


def pack_rules(packs: Sequence[str], directories: Sequence[Path] = ()) -> Rules:
    """The rules of packs, and of contracts that somebody keeps elsewhere. The pack `sched` is of the five changes.

    Raises:
        SchedlineError: a contract is wrong, is no pack's, or a directory has none.
    """
    paths: list[Path] = []
    # The five changes come first, whatever the order.
    names = sorted(packs, key=lambda name: name != CONTRACTS.name)
    for directory in (*(CONTRACTS.parent / name for name in names), *directories):
        found = sorted(directory.glob("*.toml"))
        if not found:
            raise SchedlineError(
                f"{directory} has no contracts", "schedline layout contract init STRUCT writes a first one"
            )
        for path in found:
            _check_file(path, read_contract(path))
        paths += found
    return rules_of(tuple(paths))


def _check_file(path: Path, contract: Contract) -> None:
    if contract.file and path.parent == CONTRACTS:
        refuse(path, ("file",), "is for contracts of packs", "leave it out, or put it into a pack")
    if not contract.file and path.parent != CONTRACTS:
        refuse(path, ("file",), "is missing: it names what declares the structure", 'add file = "fs/eventpoll.c"')
    if contract.struct != path.stem:
        refuse(path, ("struct",), f"is {contract.struct!r}", f"name the file after it: {contract.struct}.toml")


def unknown_members(rules: Rules, read: Callable[[str], str | None]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The members, in all their spellings, that the file which declares their structure has in no configuration.

    Args:
        read: returns the text of a file of the tree; None if there is no such file.
    """
    texts = {file: read(file) for file in sorted(set(rules.files.values()))}
    for tag, names, _ in rules.members:
        text = texts[rules.files[tag]]
        if text is not None and not has_member(text, names):
            yield tag, names


def refuse_unknown_members(rules: Rules, read: Callable[[str], str | None]) -> None:
    """Check that the text of each declaring file has the members that the contracts name.

    A compiler leaves out what a configuration has not; what no configuration has was renamed, and nothing holds it.

    Args:
        read: see unknown_members().

    Raises:
        SchedlineError: a file lacks a member.
    """
    for tag, names in unknown_members(rules, read):
        raise SchedlineError(
            f"{rules.files[tag]} of this tree has no member {' or '.join(names)}, which the contract of struct {tag} "
            "names",
            "correct the contract; for a renamed member write both: `old|new`",
        )


def has_member(text: str, names: Sequence[str]) -> bool:
    """Whether a source has one of the spellings of a member, in whatever configuration."""
    words = "|".join(re.split(r"[.\[]", name)[0] for name in names)
    return re.search(rf"\b({words})\b", text) is not None


def _number(name: str) -> list[tuple[int, str]]:
    """An id as people sort it: R2 before R10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _check_ids(path: Path, contract: Contract, rules: dict[str, Rule], changes: dict[str, str]) -> None:
    named: list[tuple[Place, str]] = [(("promise", at, "id"), row.id) for at, row in enumerate(contract.promise)]
    named += [(("type", at, "id"), row.id) for at, row in enumerate(contract.type)]
    for at, group in enumerate(contract.group):
        if group.apart and group.apart not in rules:
            refuse(path, ("group", at, "apart"), f"names the rule {group.apart!r}", nearest(group.apart, rules))
        for number, promise in enumerate(group.promise):
            named.append((("group", at, "promise", number, "id"), promise.id))
    for place, name in named:
        if name not in rules:
            refuse(path, place, f"names the rule {name!r}", nearest(name, rules))
    for at, sign in enumerate(contract.sign):
        if sign.change not in changes:
            refuse(path, ("sign", at, "change"), f"names {sign.change!r}", nearest(sign.change, changes))


class _ContractClauses:
    """One contract as clauses."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract

    def members(self, rules: Mapping[str, Rule]) -> Iterator[tuple[str, tuple[str, ...], frozenset[str]]]:
        """Every member that is named, in each of its spellings, with the changes whose rules need it."""
        contract = self.contract
        promises = [*contract.promise, *(promise for group in contract.group for promise in group.promise)]
        every = {rules[name].change for name in (*(row.id for row in promises), *(row.id for row in contract.type))}
        found: dict[str, set[str]] = {}
        for group in contract.group:
            its = {rules[name].change for name in (group.apart, *(row.id for row in group.promise)) if name}
            for spelled in group.members:
                found[spelled] = its or every
        owned = {name for group in contract.group for name in group.names}
        rows = [(rules[row.id].change, (*row.of, *row.others), row.when) for row in promises]
        rows += [(rules[row.id].change, row.without, row.when) for row in contract.type]
        rows += [(sign.change, (*sign.of, *sign.others), sign.when) for sign in contract.sign]
        for change, spellings, when in rows:
            needed = (each.removeprefix("has ") for each in when if each.startswith("has "))
            for spelled in (*spellings, *needed):
                if owned.isdisjoint(spelled.split("|")):
                    found.setdefault(spelled, set()).add(change)
        for spelled, changes in found.items():
            yield contract.struct, tuple(spelled.split("|")), frozenset(changes)

    def signs(self) -> list[Clause]:
        """What tells that a change is there."""
        return [
            self._clause(row.change, ClauseKind(row.keep), row.when, row.of, row.others, forced=True)
            for row in self.contract.sign
        ]

    def promises(self) -> list[Clause]:
        """What is kept, as written."""
        made = [self._promise(row, group.members) for group in self.contract.group for row in group.promise]
        made += [self._promise(row, ()) for row in self.contract.promise]
        made += [
            self._clause(row.id, ClauseKind(row.keep), row.when, row.without, forced=row.forced, arg=row.bytes or 0)
            for row in self.contract.type
        ]
        return made

    def _promise(self, row: Promise, members: tuple[str, ...]) -> Clause:
        kind = ClauseKind(row.keep)
        arg = row.bytes or 0
        if kind in ABOUT_LINES:
            arg = ANY_LINE if row.line is None else LAST_LINE if row.line == "last" else row.line
        return self._clause(row.id, kind, row.when, row.of or members, row.others, forced=row.forced, arg=arg)

    def _clause(
        self,
        rule: str,
        kind: ClauseKind,
        when: tuple[str, ...],
        members: tuple[str, ...] = (),
        others: tuple[str, ...] = (),
        *,
        forced: bool,
        arg: int = 0,
    ) -> Clause:
        tag = self.contract.struct
        requires = tuple(each.removeprefix("has ") for each in when if each.startswith("has "))
        needs = frozenset(each for each in when if not each.startswith("has "))
        least = least_members(kind, arg, members)
        return Clause(rule, kind, needs, forced, arg, tag, each_name(members), each_name(others), requires, least)

    def apart(self) -> Iterator[Clause]:
        """What the classes forbid: one clause for the conditions of each group that names a rule for it."""
        kept: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
        groups = self.contract.groups()
        for one, other, when in self.conflicts():
            rule = one.apart or other.apart
            first, second = (one, other) if one.apart else (other, one)
            if rule and when is not None:
                kept.setdefault((rule, first.name, when), []).extend(second.members)
        for (rule, name, when), others in kept.items():
            yield self._clause(rule, ClauseKind.APART, when, groups[name].members, tuple(others), forced=False)

    def conflicts(self) -> Iterator[tuple[MemberGroup, MemberGroup, tuple[str, ...] | None]]:
        """The pairs of groups that may not share a line, and the conditions for that; None if they may after all."""
        rows = {frozenset({row.group, name}): row for row in self.contract.exception for name in row.with_}
        for one, other in combinations(self.contract.group, 2):
            if may_share(one.class_, other.class_):
                continue
            row = rows.get(frozenset({one.name, other.name}))
            yield one, other, (() if row is None else row.apart_when or None)

    def findings(self) -> list[OpenFinding]:
        """The exceptions that cost something."""
        groups = self.contract.groups()
        return [
            OpenFinding(self.contract.struct, groups[row.group].names, groups[name].names, row.why)
            for row in self.contract.exception
            if row.open
            for name in row.with_
        ]
