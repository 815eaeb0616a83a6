# SPDX-License-Identifier: GPL-2.0
"""What the contracts notice: a new member in every place of a structure, and each contracted member behind each other.

All variants of a structure are compiled at once, each under a name of its own. Nothing is booted.
`schedline dev mutants --on attack` and `--on attack-packs` run this, for docs/results/catches.md.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from schedlib import doctor, options
from schedlib.cache import cache_dir
from schedlib.contracts.contract_rules import CONTRACTS, Clause, Rules, our_rules, pack_rules
from schedlib.contracts.struct_source import read_source
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import AccessClass, ClauseKind, Contract, read_contract
from schedlib.formats.tables import markdown
from schedlib.layout.columns import ensure_tools, pack_columns
from schedlib.layout.compile import Column, all_read, arch_table
from schedlib.layout.members import Structure, read_members, root_of
from schedlib.layout.pack_units import Unit, pack_layout, units_of
from schedlib.layout.rule_judge import Layout, RuleOutcome, judge_clause
from schedlib.names import pack_names
from schedlib.progress import say
from schedlib.tree.compose import TESTS_DIRECTORY, compose
from schedlib.tree.kernel_tree import Tree, commit_tree, edit_tree, file_row, open_tree
from schedlib.verdict import Verdict

NEW = "schedline_new"
"""The name of the new member."""

ADDED = {"atomic_t": "written", "void *": "read"}
"""The types of the new member, and how such a member is usually accessed."""


class Attack(NamedTuple):
    """One variant of a structure, in words and as a body. `added`: the type of the new member, if it has one."""

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
    """Each attack on a structure. `contracted`: the members that the contract names."""
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


def unit(tag: str, variants: Sequence[Attack], includes: str = INCLUDES, attributes: str = "") -> str:
    """A C file with the variants, each pointed to, so that a compiler describes it. `attributes`: behind the body."""
    parts = [f"// SPDX-License-Identifier: GPL-2.0\n{includes}"]
    for number, attack in enumerate(variants):
        its_tag = f"{tag}__{number}"
        parts.append(
            f"struct {its_tag} {{ {' '.join(attack.declarations)} }} {attributes};\n"
            f"extern struct {its_tag} *to_{its_tag};\n"
            f"struct {its_tag} *to_{its_tag};\n"
        )
    return "\n".join(parts)


def read_variants(path: Path, tag: str, variants: Sequence[Attack], base: Layout) -> Iterator[Layout]:
    """The layout with each variant in the place of the structure."""
    found = read_members(path, [f"{tag}__{number}" for number in range(len(variants))])
    for number in range(len(variants)):
        named = {
            f"{tag}{name.removeprefix(f'{tag}__{number}')}": each
            for name, each in found.items()
            if name.partition(".")[0] == f"{tag}__{number}"
        }
        its = {name: replace(each, type=structs.replace(each.type, name=name)) for name, each in named.items()}
        yield with_structure(base, tag, its)


def with_structure(base: Layout, tag: str, its: Mapping[str, Structure]) -> Layout:
    kept = {name: each for name, each in base.structures.items() if name.partition(".")[0] != tag}
    return replace(base, structures={**kept, **its})


def sharing(layout: Layout, tag: str, members: frozenset[str]) -> frozenset[frozenset[str]]:
    """The pairs of members that have bytes on one line."""
    where = {
        member.name: set(layout.lines_of(member)) for member in layout.structures[tag].members if member.name in members
    }
    return frozenset(
        frozenset({one, other})
        for (one, its), (other, others) in combinations(where.items(), 2)
        if not its.isdisjoint(others)
    )


@dataclass(frozen=True)
class Victim:
    """A structure that is attacked: the kernel without an attack, and the clauses about it that hold there."""

    contract: Contract
    base: Layout
    clauses: tuple[Clause, ...]

    @cached_property
    def hot(self) -> frozenset[str]:
        groups = (group for group in self.contract.group if group.class_ is not AccessClass.COLD)
        return frozenset(name for group in groups for name in group.names)

    @cached_property
    def closed(self) -> frozenset[str]:
        return frozenset(name for each in self.clauses if each.kind is ClauseKind.ALONE for name in each.members)

    @cached_property
    def sharing(self) -> frozenset[frozenset[str]]:
        """The pairs of members that have bytes on one line."""
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
        listed = self.base.field(self.contract.struct, member) is not None
        return condition in self.base.holds or (member != condition and listed)


def judge_attack(rules: Rules, victim: Victim, attack: Attack, changed: Layout) -> Attacked:
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
    ours = {rule.id for rule in rules.rules}
    return tuple(
        clause
        for clause in rules.clauses
        if clause.type == tag and clause.rule in ours and judge_clause(clause, layout).outcome is RuleOutcome.PASS
    )


_AT_ONCE = 400
"""Variants in one file, so that two processors have work."""


def _text(path: Path) -> str:
    return path.read_text(errors="replace")


def attack_column(cache: Path, tree: Tree, commit: str, column: Column, change: str = "") -> tuple[Attacked, ...]:
    """Try every attack on the contracted structures of a commit, or on those that the rules of a change are about."""
    ensure_tools([column])
    base = pack_layout(cache, tree, commit, column, our_rules())
    [whole] = units_of(our_rules().files)
    [preprocessed] = all_read(
        cache, tree, commit, column, [f"{whole.stem}.i"], _text, {f"{whole.stem}.c": whole.text(tree.src)}
    )
    work: list[tuple[Victim, list[Attack], str]] = []
    for path in sorted(CONTRACTS.glob("*.toml")):
        contract = read_contract(path)
        clauses = passing_clauses(our_rules(), contract.struct, base)
        changes = {our_rules().rule(clause.rule).change for clause in clauses}
        if contract.struct not in base.structures or not changes or (change and change not in changes):
            continue
        named = frozenset(name for group in contract.group for name in group.names)
        tried = list(attacks(declarations(preprocessed, contract.struct), named))
        for first in range(0, len(tried), _AT_ONCE):
            name = f"{TESTS_DIRECTORY}/attack_{contract.struct}_{first}"
            work.append((Victim(contract, base, clauses), tried[first : first + _AT_ONCE], name))
    rows = []
    for victim, some, name in work:
        tag = victim.contract.struct
        rows.append(file_row(tree.src, f"{name}.c", unit(tag, some).encode()))
    attacked = commit_tree(tree.src, edit_tree(tree.src, commit, rows), commit, "attacks on the contracts\n")
    units = {f"{name}.o": (victim, some) for victim, some, name in work}

    def judged(path: Path) -> list[Attacked]:
        victim, some = next(each for name, each in units.items() if path.match(name))
        variants = read_variants(path, victim.contract.struct, some, base)
        return [judge_attack(our_rules(), victim, *each) for each in zip(some, variants, strict=True)]

    return tuple(row for rows in all_read(cache, tree, attacked, column, list(units), judged) for row in rows)


COLUMNS = (
    ("x86_64", "numa", ""),
    ("arm64", "numa", ""),
    ("riscv64", "", ""),
    ("arm", "", ""),
    ("ppc64le", "numa", ""),
    ("s390x", "numa+proxy", ""),
    ("x86_64", "cpupri-llc", "cpupri-split"),
    ("s390x", "cpupri-llc-bytes", "cpupri-split"),
)
"""Architecture and configuration of the kernels that are attacked: lines of 64, 128 and 256 bytes, 32 and 64 bits.

With a change, it is applied, and the structures of its rules are attacked.
"""

ENOUGH = 0.95
"""The share of the moves that change a protected member's line which the rules have to notice."""

Results = Mapping[str, Sequence[Attacked]]
"""What was tried, by column."""


def table(results: Results) -> Iterator[str]:
    """Markdown: for each structure and kind of attack, how many of those tried the rules complained of; the misses."""
    rows = []
    tags = dict.fromkeys(row.struct for found in results.values() for row in found)
    for tag, kind in product(tags, AttackKind):
        cells = []
        for found in results.values():
            some = [row for row in found if (row.struct, row.kind) == (tag, kind)]
            cells.append(f"{sum(bool(row.complaints) for row in some)} of {len(some)}" if some else "-")
        if set(cells) != {"-"}:
            rows.append((f"`{tag}`", kind.value, *cells))
    yield from markdown(("structure", "attack", *results), rows)
    contracted = {read_contract(path).struct for path in CONTRACTS.glob("*.toml")}
    if left := sorted(contracted - set(tags)):
        yield ""
        yield f"Not attacked, since no rule about it holds there: {', '.join(f'`{tag}`' for tag in left)}."
    misses: dict[str, list[str]] = {}
    for column, found in results.items():
        for row in found:
            if row.is_miss:
                misses.setdefault(_miss(row), []).append(column)
    yield ""
    yield f"Misses: {len(misses)}" + (", each with the kernels:" if misses else ".")
    yield from ["", *(f"- {text} ({', '.join(columns)})" for text, columns in misses.items())] if misses else []


def _miss(row: Attacked) -> str:
    what = "a complaint of " + ", ".join(row.complaints) if row.complaints else "no complaint"
    return f"`{row.struct}`: {row.text}: {what}; {row.kind.value}"


def verdict_on(results: Results) -> Verdict:
    """FAIL if a member joins a closed line unnoticed, if one in an open place is complained of, or if too many of the
    moves are missed."""
    rows = [row for found in results.values() for row in found]
    if any(row.is_miss and row.kind is not AttackKind.CHANGED for row in rows):
        return Verdict.FAIL
    for found in results.values():
        moves = [row for row in found if row.kind is AttackKind.CHANGED]
        if sum(row.is_miss for row in moves) > (1 - ENOUGH) * len(moves):
            return Verdict.FAIL
    return Verdict.PASS if rows else Verdict.INCONCLUSIVE


_COUNTS = ("closed", "elsewhere", "moved")

MOVES = 12
"""A member is moved to so many places at most, evenly spaced: a structure of the network stack has a hundred."""


@dataclass(frozen=True)
class PackAttacked:
    """The attacks on one structure. For each kind: how many the rules complained of, and how many there were."""

    struct: str
    file: str
    rules: int
    counts: Mapping[str, tuple[int, int]]


def attack_packs(cache: Path, tree: Tree, commit: str, column: Column) -> tuple[PackAttacked, ...]:
    """Put a new member at every place of every structure of the packs, and move the members that rules name."""
    ensure_tools([column])
    rules = pack_rules(pack_names())
    base = pack_layout(cache, tree, commit, column, rules)
    files = {tag: file for tag, file in rules.files.items() if tag in base.structures}
    units = units_of(files)
    texts = all_read(
        cache,
        tree,
        commit,
        column,
        [f"{each.stem}.i" for each in units],
        _text,
        {f"{each.stem}.c": each.text(tree.src) for each in units},
    )
    work: list[tuple[str, list[Attack], str]] = []
    sources: dict[str, str] = {}
    for its, text in zip(units, texts, strict=True):
        for tag in its.tags:
            clauses = passing_clauses(rules, tag, base)
            named = frozenset(root_of(name) for each in clauses for name in each.named)
            try:
                body = declarations(text, tag)
            except SchedlineError:
                body = ()
            if not body:
                say(f"not attacked: struct {tag}: no member was found in its declaration")
                continue
            body = _plain(body)
            tried = _tried(body, named)
            name = f"kernel/schedline_attack_{tag}"
            work.append((tag, tried, f"{name}.o"))
            includes = Unit((files[tag],), ()).text(tree.src).split("struct ", 1)[0]
            sources[f"{name}.c"] = unit(tag, tried, includes, attributes(text, tag))

    def judged(path: Path) -> PackAttacked:
        tag, tried, _ = next(each for each in work if path.match(each[2]))
        clauses = passing_clauses(rules, tag, base)
        seen = {name: Counter[bool]() for name in _COUNTS}
        closed = frozenset(name for each in clauses if each.kind is ClauseKind.ALONE for name in each.members)
        for attack, changed in zip(tried, read_variants(path, tag, tried, base), strict=True):
            complains = any(judge_clause(each, changed).outcome is not RuleOutcome.PASS for each in clauses)
            joins = any(NEW in pair for pair in sharing(changed, tag, closed | {NEW}))
            seen["moved" if not attack.added else "closed" if joins else "elsewhere"][complains] += 1
        counts = {name: (each[True], each.total()) for name, each in seen.items()}
        return PackAttacked(tag, files[tag], len({each.rule for each in clauses}), counts)

    return tuple(all_read(cache, tree, commit, column, [name for _, _, name in work], judged, sources))


def _tried(body: Sequence[str], named: frozenset[str]) -> list[Attack]:
    """All new members, and of the moves as many as MOVES allows. An array without a size stays the last member."""
    open_end = 1 if re.search(r"\w\s*\[\s*\]", body[-1]) else 0
    fixed, last = body[: len(body) - open_end], body[len(body) - open_end :]
    every = [each._replace(declarations=(*each.declarations, *last)) for each in attacks(fixed, named)]
    moved = [each for each in every if not each.added]
    return [*(each for each in every if each.added), *moved[:: max(1, len(moved) // max(1, MOVES * len(named)))]]


def _plain(body: Sequence[str]) -> tuple[str, ...]:
    """The declarations without what each variant would define again: enumerators, tags of structures inside."""
    found = (re.sub(r"\benum\s+(\w+)\s*\{[^}]*\}", r"enum \1", each) for each in body)
    found = (re.sub(r"\benum\s*\{[^}]*\}", "int", each) for each in found)
    return tuple(re.sub(r"\b(struct|union)\s+\w+\s*\{", r"\1 {", each) for each in found)


def pack_attack_table(found: Sequence[PackAttacked]) -> Iterator[str]:
    """Markdown: a structure in each row."""
    heads = ("structure", "rules", "new member on a closed line", "new member elsewhere", "a named member moved")
    rows: list[tuple[object, ...]] = []
    for row in sorted(found, key=lambda row: (row.file, row.struct)):
        cells = [f"{noticed} of {of}" if of else "-" for noticed, of in row.counts.values()]
        rows.append((f"`{row.struct}`", row.rules, *cells))
    sums = [[sum(row.counts[name][at] for row in found) for at in (0, 1)] for name in _COUNTS]
    rows.append(("all", sum(row.rules for row in found), *(f"{noticed} of {of}" for noticed, of in sums)))
    yield from markdown(heads, rows)


def _attack(tree: Tree) -> Verdict:
    results: dict[str, tuple[Attacked, ...]] = {}
    for arch, config, change in COLUMNS:
        column = Column(arch_table()[arch], config)
        commit = compose(tree, with_=[change] if change else []).commit
        results[column.name] = attack_column(cache_dir(), tree, commit, column, change)
    print("\n".join(table(results)))
    return verdict_on(results)


def _attack_packs(tree: Tree) -> Verdict:
    """Attack the structures of packs on x86-64, and print the table. FAIL if a member joins a closed line unnoticed."""
    [column] = pack_columns(["x86_64"], [])
    found = attack_packs(cache_dir(), tree, compose(tree).commit, column)
    print("\n".join(pack_attack_table(found)))
    noticed, of = (sum(row.counts["closed"][at] for row in found) for at in (0, 1))
    return (Verdict.FAIL if noticed < of else Verdict.PASS) if found else Verdict.INCONCLUSIVE


def main() -> int:
    parser = options.VerbParser(prog="attacks", description=(__doc__ or "").partition("\n")[0])
    options.add_options(parser, options.TreeOptions)
    parser.add_argument("--packs", action="store_true", help="attack the structures of packs")
    wanted = parser.parse_args()
    chosen = options.options_of(options.TreeOptions, wanted)
    doctor.require(["layout", *chosen.needs])
    tree = open_tree(cache_dir(), chosen)
    verdict = (_attack_packs if wanted.packs else _attack)(tree)
    print(f"verdict: {verdict.name}")
    return verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
