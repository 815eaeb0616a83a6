# SPDX-License-Identifier: GPL-2.0
"""The contracts as rules and clauses: what is judged, in a kernel and outside of it.

Those in configs/contracts/sched are of the five changes. The packs beside them are of structures all over the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from itertools import combinations
from operator import eq, ge, le
from pathlib import Path

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
from schedlib.formats.data_file import KeyPath, nearest, refuse
from schedlib.names import SCHED_H, in_order, plain_toml
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
    """What is promised, by which kernel change (in a pack by none), and the commit, Message-ID or other source."""

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

    @property
    def origin(self) -> str:
        """What brings it about, in words."""
        return "forced in every configuration" if self.forced else "observed"


def least_members(kind: ClauseKind, arg: int, members: Collection[str]) -> int:
    """How many of its members (`old|new` is one) a kernel must have for a clause to say anything: see Clause.least."""
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

    def together(self, other: Rules) -> Rules:
        """These rules and others, about other structures."""
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return Rules(*(one | more if isinstance(one, dict) else one + more for one, more in pairs))

    def without(self, ids: Collection[str]) -> Rules:
        """All rules; some have no clauses, so that nothing of them is judged. The signs of changes stay."""
        gone = {rule.id for rule in self.rules} & {*ids}
        return replace(self, clauses=tuple(clause for clause in self.clauses if clause.rule not in gone))

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
        """A rule by its id; SchedlineError if there is none."""
        for rule in self.rules:
            if rule.id == name:
                return rule
        raise SchedlineError(f"there is no rule {name!r}", f"choose one of {', '.join(r.id for r in self.rules)}")


@cache
def our_rules() -> Rules:
    """The rules of the contracts in configs/contracts/sched; SchedlineError if one is wrong."""
    return pack_rules((CONTRACTS.name,))


def pack_rules(packs: Sequence[str], directories: Sequence[Path] = ()) -> Rules:
    """The rules of packs, and of contracts that somebody keeps elsewhere. The pack `sched` is of the five changes."""
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
            contract = read_contract(path)
            if contract.file and path.parent == CONTRACTS:
                refuse(path, ("file",), "is for contracts of packs", "write `header`, or put it into a pack")
            if not contract.file and path.parent != CONTRACTS:
                refuse(
                    path, ("file",), "is missing: it names what declares the structure", 'add file = "fs/eventpoll.c"'
                )
            if contract.struct != path.stem:
                refuse(path, ("struct",), f"is {contract.struct!r}", f"name the file after it: {contract.struct}.toml")
        paths += found
    return rules_of(tuple(paths))


def rules_of(paths: tuple[Path, ...]) -> Rules:
    """The rules of some contracts, in the order of the changes and of their ids; SchedlineError if one is wrong."""
    with plain_toml("changes.toml") as rows:
        sources = {name: row.get("source", "") for name, row in rows.items()}
    contracts = [(path, read_contract(path)) for path in paths]
    rules: dict[str, Rule] = {}
    structs: set[str] = set()
    for path, contract in contracts:
        if contract.struct in structs:
            refuse(path, ("struct",), f"is {contract.struct!r}, which has a contract already", "join the two files")
        structs.add(contract.struct)
        for at, row in enumerate(contract.rule):
            change = "" if contract.file else row.change or row.id.partition(".")[0]
            if change and not sources.get(change):
                known = [name for name, source in sources.items() if source]
                refuse(path, ("rule", at, "id"), f"{row.id!r} is of no known change", nearest(change, known))
            if row.id in rules:
                refuse(path, ("rule", at, "id"), f"{row.id!r} is there twice", "choose another number")
            rules[row.id] = Rule(row.id, change, row.why, row.source or sources.get(change, ""))
    for path, contract in contracts:
        _check_names(path, contract, rules, sources)
    clauses = [clause for _, contract in contracts for clause in _clauses(contract)]
    kept = {clause.rule for clause in clauses}
    for path, contract in contracts:
        for at, row in enumerate(contract.rule):
            if row.id not in kept:
                refuse(path, ("rule", at, "id"), f"{row.id!r} keeps nothing", "add a promise with this id")
    ordered = [rules[name] for name in in_order({rule.id: rule.change for rule in rules.values()})]
    place = {name: number for number, name in enumerate((*sources, *(rule.id for rule in ordered)))}
    each = [contract for _, contract in contracts]
    return Rules(
        rules=tuple(ordered),
        clauses=tuple(sorted(clauses, key=lambda clause: place[clause.rule])),
        findings=tuple(finding for contract in each for finding in _findings(contract)),
        members=tuple(member for contract in each for member in _members(contract, rules)),
        files={contract.struct: contract.file or SCHED_H for contract in each},
        groups=tuple((contract.struct, group) for contract in each for group in contract.group),
    )


def unknown_members(rules: Rules, read: Callable[[str], str | None]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The members, in all spellings, that the file of their structure has in no configuration; `read` has its text."""
    texts = {file: read(file) for file in sorted(set(rules.files.values()))}
    for tag, names, _ in rules.members:
        text = texts[rules.files[tag]]
        if text is not None and not has_member(text, names):
            yield tag, names


def refuse_unknown_members(rules: Rules, read: Callable[[str], str | None]) -> None:
    """Raise SchedlineError for one of unknown_members(): it was renamed, and nothing holds it."""
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


def _check_names(path: Path, contract: Contract, rules: Mapping[str, Rule], changes: Mapping[str, str]) -> None:
    """Refuse rules and changes that are not there, and groups that need a rule and name none."""
    named: list[tuple[KeyPath, str]] = [(("promise", at, "id"), row.id) for at, row in enumerate(contract.promise)]
    named += [(("type", at, "id"), row.id) for at, row in enumerate(contract.type)]
    for at, group in enumerate(contract.group):
        named += [(("group", at, "apart"), group.apart)] if group.apart else []
        named += [(("group", at, "promise", nth, "id"), row.id) for nth, row in enumerate(group.promise)]
    for place, name in named:
        if name not in rules:
            refuse(path, place, f"names the rule {name!r}", nearest(name, rules))
    for at, sign in enumerate(contract.sign):
        if sign.change not in changes:
            refuse(path, ("sign", at, "change"), f"names {sign.change!r}", nearest(sign.change, changes))
    for one, other, _ in _conflicts(contract):
        if not (one.apart or other.apart):
            both = f"{one.name!r} and {other.name!r} may not share a line, and neither has a rule for it"
            rule = contract.rule[0].id if contract.rule else "RULE"
            fix = f'write `apart = "{rule}"` below the class of one of them, or an exception'
            refuse(path, ("group", contract.group.index(one)), both, fix)


def _members(contract: Contract, rules: Mapping[str, Rule]) -> Iterator[tuple[str, tuple[str, ...], frozenset[str]]]:
    """Every member that is named, in each of its spellings, with the changes whose rules need it."""
    promises = [*contract.promise, *(promise for group in contract.group for promise in group.promise)]
    every = {rules[name].change for name in (*(row.id for row in promises), *(row.id for row in contract.type))}
    found: dict[str, set[str]] = {}
    for group in contract.group:
        its = {rules[name].change for name in (group.apart, *(row.id for row in group.promise)) if name}
        found |= dict.fromkeys(group.members, its or every)
    owned = {name for group in contract.group for name in group.names}
    rows = [(rules[row.id].change, (*row.of, *row.others), row.when) for row in promises]
    rows += [(rules[row.id].change, row.without, row.when) for row in contract.type]
    rows += [(sign.change, (*sign.of, *sign.others), sign.when) for sign in contract.sign]
    for change, spellings, when in rows:
        for spelled in (*spellings, *_required(when)):
            if owned.isdisjoint(spelled.split("|")):
                found.setdefault(spelled, set()).add(change)
    for spelled, changes in found.items():
        yield contract.struct, tuple(spelled.split("|")), frozenset(changes)


def _required(when: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each.removeprefix("has ") for each in when if each.startswith("has "))


def _clauses(contract: Contract) -> Iterator[Clause]:
    """The signs of changes, what is promised, and what the classes forbid."""
    made = partial(_clause, contract.struct)
    for sign in contract.sign:
        yield made(sign.change, sign.keep, sign.when, sign.of, sign.others, forced=True)
    promises: list[tuple[Promise, tuple[str, ...]]] = [
        (row, group.members) for group in contract.group for row in group.promise
    ]
    for row, members in (*promises, *((row, ()) for row in contract.promise)):
        arg = row.bytes or 0
        if ClauseKind(row.keep) in ABOUT_LINES:
            arg = ANY_LINE if row.line is None else LAST_LINE if row.line == "last" else row.line
        yield made(row.id, row.keep, row.when, row.of or members, row.others, forced=row.forced, arg=arg)
    for whole in contract.type:
        yield made(whole.id, whole.keep, whole.when, whole.without, forced=whole.forced, arg=whole.bytes or 0)
    kept: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for one, other, when in _conflicts(contract):
        first, second = (one, other) if one.apart else (other, one)
        kept.setdefault((first.name, when), []).extend(second.members)
    for (name, when), others in kept.items():
        group = contract.groups()[name]
        yield made(group.apart, ClauseKind.APART, when, group.members, tuple(others))


def _clause(
    tag: str,
    rule: str,
    keep: str | ClauseKind,
    when: tuple[str, ...],
    members: tuple[str, ...],
    others: tuple[str, ...] = (),
    *,
    forced: bool = False,
    arg: int = 0,
) -> Clause:
    kind, requires = ClauseKind(keep), _required(when)
    needs = frozenset(each for each in when if not each.startswith("has "))
    least = least_members(kind, arg, members)
    return Clause(rule, kind, needs, forced, arg, tag, each_name(members), each_name(others), requires, least)


def _conflicts(contract: Contract) -> Iterator[tuple[MemberGroup, MemberGroup, tuple[str, ...]]]:
    """The pairs of groups that may not share a line, and the conditions for that."""
    rows = {frozenset({row.group, name}): row for row in contract.exception for name in row.with_}
    for one, other in combinations(contract.group, 2):
        row = rows.get(frozenset({one.name, other.name}))
        if not may_share(one.class_, other.class_) and (row is None or row.apart_when):
            yield one, other, row.apart_when if row else ()


def _findings(contract: Contract) -> Iterator[OpenFinding]:
    """The exceptions that cost something."""
    groups = contract.groups()
    for row in contract.exception:
        for name in row.with_ if row.open else ():
            yield OpenFinding(contract.struct, groups[row.group].names, groups[name].names, row.why)


@dataclass(frozen=True)
class Facts:
    """What is known of a kernel: bytes in a cache line, a pointer, a cpumask_var_t, a raw_spinlock_t; Kconfig values.

    None: it is not known.
    """

    line: int
    pointer: int | None
    mask: int | None
    lock: int | None
    config: Mapping[str, bool | None]


def in_words(condition: str) -> str:
    """What completes "needs ..."."""
    return _meaning(condition)[0]


def in_c(condition: str) -> str:
    """A constant expression of the kernel's C."""
    return _meaning(condition)[1]


def is_met(condition: str, facts: Facts) -> bool | None:
    """Whether a kernel meets a condition; None if that is not known."""
    return _meaning(condition)[2](facts)


def _meaning(condition: str) -> tuple[str, str, Callable[[Facts], bool | None]]:
    if match := re.fullmatch(r"line (==|<=|>=) (\d+)", condition):
        words, compare = {"==": ("", eq), ">=": ("at least ", ge), "<=": ("at most ", le)}[match[1]]
        size = int(match[2])
        return f"lines of {words}{size} bytes", f"SMP_CACHE_BYTES {match[1]} {size}", lambda of: compare(of.line, size)
    if match := re.fullmatch(r"mask == (\d+)", condition):
        size = int(match[1])
        words, c = f"a cpumask_var_t of {size} bytes", f"sizeof(cpumask_var_t) == {size}"
        return words, c, lambda of: None if of.mask is None else of.mask == size
    if condition.startswith("locks "):
        debugged = condition.endswith("debugged")
        c = f"sizeof(raw_spinlock_t) {'>' if debugged else '=='} sizeof(arch_spinlock_t)"
        words = f"spinlocks {'with' if debugged else 'without'} debugging"
        # An arch_spinlock_t has 4 bytes wherever SMP kernels run.
        return words, c, lambda of: None if of.lock is None else (of.lock > 4) is debugged
    if condition == "64bit":
        words, c = "CONFIG_64BIT", "IS_ENABLED(CONFIG_64BIT)"
        return words, c, lambda of: None if of.pointer is None else of.pointer == 8
    option, is_set = condition.removeprefix("!"), not condition.startswith("!")
    words, c = (option, f"IS_ENABLED({option})") if is_set else (f"{option}=n", f"!IS_ENABLED({option})")
    return words, c, lambda of: None if of.config.get(option) is None else of.config[option] is is_set
