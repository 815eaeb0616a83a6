# SPDX-License-Identifier: GPL-2.0
"""Attacks on the contracts: a new member at every place of a structure, and each contracted member behind each other.

All variants of a structure are compiled at once, each under a name of its own. Nothing is booted.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from schedlib.contracts.contract_rules import Clause, Rules
from schedlib.contracts.struct_source import read_source
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import AccessClass, ClauseKind, Contract
from schedlib.layout.members import Member, Structure
from schedlib.layout.rule_judge import Layout, RuleOutcome, judge_clause
from schedlib.layout.tables import Field, ObjectFile, Type

NEW = "schedline_new"
"""The name of the new member."""

ADDED = {"atomic_t": "written", "void *": "read"}
"""The types of the new member, and how such a member is usually accessed."""


class Attack(NamedTuple):
    """One variant of a structure.

    Attributes:
        text: what was done, for people.
        declarations: the body.
        added: the type of the new member; empty for a move.
    """

    text: str
    declarations: tuple[str, ...]
    added: str = ""


class AttackKind(Enum):
    """What an attack did, told by offsets and classes, without the rules."""

    CLOSED = "new member on a closed line"
    OPEN = "new member where nothing hot is touched"
    BESIDE = "new member on an open line of hot members"
    CHANGED = "move that changes who shares a line with a member that a rule protects"
    EXEMPT = "move that changes that only for members without a rule, or that may share a line by an exception"
    SAME = "move that changes nothing of that"


@dataclass(frozen=True)
class Attacked:
    """The result of one attack: the rules that complain."""

    struct: str
    text: str
    kind: AttackKind
    complaints: tuple[str, ...]

    @property
    def is_miss(self) -> bool:
        """Whether the rules should have said something else."""
        if self.kind in (AttackKind.CLOSED, AttackKind.CHANGED):
            return not self.complaints
        return self.kind is AttackKind.OPEN and bool(self.complaints)


def declarations(preprocessed: str, tag: str) -> tuple[str, ...]:
    """The declarations in the body of a structure, from the preprocessor's output.

    Raises:
        SchedlineError: the structure is not defined there.
    """
    return _defined(preprocessed, tag)[0]


def attributes(preprocessed: str, tag: str) -> str:
    """What stands behind the body of a structure, such as its alignment; see declarations()."""
    behind = _defined(preprocessed, tag)[1]
    # A name there is a type or a variable.
    return behind if behind.startswith("__attribute__") and behind.endswith(")") else ""


def _defined(preprocessed: str, tag: str) -> tuple[tuple[str, ...], str]:
    plain = re.sub(r"^#.*$", "", preprocessed, flags=re.M)
    start = re.search(rf"\bstruct\s+{tag}\s*\{{", plain)
    if start is None:
        raise SchedlineError(f"struct {tag} is not defined in this configuration", "choose another --config")
    depth, found, at, first = 0, [], start.end(), start.end()
    while depth or plain[at] != "}":
        depth += {"{": 1, "}": -1}.get(plain[at], 0)
        at += 1
        if plain[at - 1] == ";" and depth == 0:
            found.append(" ".join(plain[first:at].split()))
            first = at
    return tuple(found), " ".join(plain[at + 1 : plain.index(";", at)].split())


def names_in(declaration: str) -> tuple[str, ...]:
    """The members that a declaration declares, those with an offset."""
    text = f"struct x {{\n{declaration}\n}};\n"
    return tuple(name for (_, name), each in read_source(lambda _: text).members.items() if each.has_offset)


def attacks(body: Sequence[str], contracted: frozenset[str]) -> Iterator[Attack]:
    """Each attack on a structure.

    Args:
        contracted: the members that the contract names.
    """
    labels = [", ".join(names_in(each)) or each for each in body]
    for kind, access in ADDED.items():
        for place in range(len(body) + 1):
            after = f"behind {labels[place - 1]}" if place else "first"
            changed = (*body[:place], f"{kind} {NEW};", *body[place:])
            yield Attack(f"new {access} member {after}", changed, kind)
    for place, declaration in enumerate(body):
        if contracted.isdisjoint(names_in(declaration)):
            continue
        rest = (*body[:place], *body[place + 1 :])
        rest_labels = (*labels[:place], *labels[place + 1 :])
        for target in range(len(rest) + 1):
            if target != place:
                after = f"behind {rest_labels[target - 1]}" if target else "first"
                yield Attack(f"{labels[place]} {after}", (*rest[:target], declaration, *rest[target:]))


INCLUDES = '#include <linux/mmu_context.h>\n#include "../sched.h"\n'


def unit(
    tag: str, variants: Sequence[Attack], names: Sequence[str], includes: str = INCLUDES, attributes: str = ""
) -> str:
    """A C file with the variants, and the size, alignment and offsets of each.

    Args:
        names: the members of the original.
        attributes: what stands behind the body.
    """
    parts = [f"// SPDX-License-Identifier: GPL-2.0\n{includes}"]
    for number, attack in enumerate(variants):
        its_tag = f"{tag}__{number}"
        listed = [*names, *([NEW] if attack.added else [])]
        whole = f"sizeof(struct {its_tag}), __alignof__(struct {its_tag})"
        offsets = ", ".join(f"offsetof(struct {its_tag}, {name})" for name in listed)
        parts.append(
            f"struct {its_tag} {{ {' '.join(attack.declarations)} }} {attributes};\n"
            f"extern const unsigned int at_{its_tag}[];\n"
            f"const unsigned int at_{its_tag}[] = {{ {whole}, {offsets} }};\n"
        )
    return "\n".join(parts)


def read_variants(data: bytes, tag: str, variants: Sequence[Attack], base: Layout) -> Iterator[Layout]:
    """The layout with each variant in the place of the structure."""
    source = ObjectFile(data, f"the variants of {tag}")
    original = base.structures[tag]
    known = {member.name: member for member in original.members}
    names = attackable(original)
    for number, attack in enumerate(variants):
        words = source.bytes_of(f"at_{tag}__{number}")
        size, align, *offsets = struct.unpack(f"{source.order}{len(words) // 4}I", words)
        placed = dict(zip(names, offsets, strict=False))
        members = [replace(known[name], offset=offset) for name, offset in placed.items()]
        if attack.added:
            bytes_ = 4 if attack.added == "atomic_t" else base.pointer
            members.append(Member(NEW, attack.added, offsets[-1], bytes_))
        yield with_structure(base, tag, Type(tag, size, align), members, placed)


def attackable(structure: Structure) -> tuple[str, ...]:
    """The members of which the offset can be asked, in order."""
    return tuple(dict.fromkeys(member.name for member in structure.members))


def with_structure(base: Layout, tag: str, kind: Type, members: Sequence[Member], placed: Mapping[str, int]) -> Layout:
    """A layout in which one structure is another."""
    old = {member.name: member.offset for member in base.structures[tag].members}
    fields: dict[tuple[str, str], Field] = dict(base.fields)
    for (owner, path), field in base.fields.items():
        root = path.split(".")[0].removesuffix("[0]")
        if owner == tag and root in placed:
            fields[owner, path] = replace(field, offset=field.offset + placed[root] - old[root])
    ordered = tuple(sorted(members, key=lambda member: member.offset))
    return replace(
        base,
        types={**base.types, tag: kind},
        structures={**base.structures, tag: Structure(kind, ordered)},
        fields=fields,
    )


def sharing(layout: Layout, tag: str, members: frozenset[str]) -> frozenset[frozenset[str]]:
    """The pairs of members that have bytes on one line."""
    where = {
        member.name: (layout.line_of(member.offset), layout.line_of(member.last))
        for member in layout.structures[tag].members
        if member.name in members
    }
    return frozenset(
        frozenset({one, other})
        for (one, its), (other, others) in combinations(where.items(), 2)
        if its[0] <= others[1] and others[0] <= its[1]
    )


@dataclass(frozen=True)
class Victim:
    """A structure that is attacked, and what its attacks are held against.

    Attributes:
        contract: its contract.
        base: the kernel without an attack.
        clauses: those about the structure that hold on `base`.
    """

    contract: Contract
    base: Layout
    clauses: tuple[Clause, ...]

    @cached_property
    def hot(self) -> frozenset[str]:
        """The members of the groups that are not cold."""
        groups = (group for group in self.contract.group if group.class_ is not AccessClass.COLD)
        return frozenset(name for group in groups for name in group.names)

    @cached_property
    def closed(self) -> frozenset[str]:
        """The members whose lines are closed."""
        return frozenset(name for each in self.clauses if each.kind is ClauseKind.ALONE for name in each.members)

    @cached_property
    def sharing(self) -> frozenset[frozenset[str]]:
        """The pairs of hot members that share a line without an attack."""
        return sharing(self.base, self.contract.struct, self.hot)

    @cached_property
    def protected(self) -> frozenset[frozenset[str]]:
        """The pairs of hot members of which one at least has a rule, without those that an exception is about."""
        group_of = {name: group for group in self.contract.group for name in group.names}
        exempt = {
            frozenset({row.group, name})
            for row in self.contract.exception
            for name in row.with_
            if not row.apart_when or not all(map(self._is_met, row.apart_when))
        }
        return frozenset(
            frozenset({one, other})
            for one, other in combinations(sorted(self.hot), 2)
            if any(group_of[name].apart or group_of[name].promise for name in (one, other))
            and frozenset({group_of[one].name, group_of[other].name}) not in exempt
        )

    def _is_met(self, condition: str) -> bool:
        member = condition.removeprefix("has ")
        listed = (self.contract.struct, member) in self.base.fields
        return condition in self.base.holds or (member != condition and listed)


def judge_attack(rules: Rules, victim: Victim, attack: Attack, changed: Layout) -> Attacked:
    """What an attack did, and the rules that complain."""
    tag = victim.contract.struct
    results = [judge_clause(clause, changed) for clause in victim.clauses]
    broken = [result.clause.rule for result in results if result.outcome is not RuleOutcome.PASS]
    complaints = tuple(rule.id for rule in rules.rules if rule.id in broken)
    differing = victim.sharing ^ sharing(changed, tag, victim.hot)
    if not attack.added:
        harms = not differing.isdisjoint(victim.protected)
        kind = AttackKind.CHANGED if harms else AttackKind.EXEMPT if differing else AttackKind.SAME
        return Attacked(tag, attack.text, kind, complaints)
    near = sharing(changed, tag, victim.hot | victim.closed | {NEW})
    beside = {name for pair in near if NEW in pair for name in pair - {NEW}}
    if beside & victim.closed:
        kind = AttackKind.CLOSED
    elif beside or differing or changed.types[tag].size != victim.base.types[tag].size:
        kind = AttackKind.BESIDE
    else:
        kind = AttackKind.OPEN
    return Attacked(tag, attack.text, kind, complaints)


def passing_clauses(rules: Rules, tag: str, layout: Layout) -> tuple[Clause, ...]:
    """The clauses about a structure that hold."""
    ours = {rule.id for rule in rules.rules}
    return tuple(
        clause
        for clause in rules.clauses
        if clause.type == tag and clause.rule in ours and judge_clause(clause, layout).outcome is RuleOutcome.PASS
    )
