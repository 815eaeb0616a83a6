# SPDX-License-Identifier: GPL-2.0
"""tree -> variants of each structure of the packs -> which places are closed, and which are open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedlib.contracts.packs import pack_rules
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import ClauseKind
from schedlib.layout.attack import (
    NEW,
    Attack,
    attackable,
    attacks,
    attributes,
    declarations,
    names_in,
    passing_clauses,
    read_variants,
    sharing,
    unit,
)
from schedlib.layout.columns import ensure_tools
from schedlib.layout.compile import Column, all_read
from schedlib.layout.members import Structure
from schedlib.layout.pack_units import Unit, pack_layout, units_of
from schedlib.layout.rule_judge import Layout, RuleOutcome, judge_clause
from schedlib.names import pack_names
from schedlib.progress import say, step
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict

MOVES = 12
"""A member is moved to so many places at most, evenly spaced: a structure of the network stack has a hundred."""


@dataclass(frozen=True)
class PackAttacked:
    """The attacks on one structure: how many the rules complained of, and how many there were.

    Attributes:
        closed: a new member came to lie on a closed line.
        elsewhere: it came to lie on any other line.
        moved: a member that a rule names was moved.
    """

    struct: str
    file: str
    rules: int
    closed: tuple[int, int]
    elsewhere: tuple[int, int]
    moved: tuple[int, int]


def attack_packs(cache: Path, tree: Tree, commit: str, column: Column) -> tuple[PackAttacked, ...]:
    """Put a new member at every place of every structure of the packs, and move the members that rules name.

    Raises:
        SchedlineError: no compiler, or the kernel does not build.
    """
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
        lambda path: path.read_text(errors="replace"),
        {f"{each.stem}.c": each.text(tree.src) for each in units},
    )
    work: list[tuple[str, list[Attack], str]] = []
    structures = dict(base.structures)
    sources: dict[str, str] = {}
    for its, text in zip(units, texts, strict=True):
        for tag in its.tags:
            clauses = passing_clauses(rules, tag, base)
            named = frozenset(name.split(".")[0].removesuffix("[0]") for each in clauses for name in each.named)
            try:
                body = declarations(text, tag)
            except SchedlineError:
                body = ()
            if not body:
                say(f"not attacked: struct {tag}: no member was found in its declaration")
                continue
            body = _plain(body)
            structures[tag] = _with_offsets(base.structures[tag], body)
            tried = list(_some(_attacks(body, named), len(named)))
            name = f"kernel/schedline_attack_{tag}"
            work.append((tag, tried, f"{name}.o"))
            includes = Unit((files[tag],), ()).text(tree.src).split("struct ", 1)[0]
            sources[f"{name}.c"] = unit(tag, tried, attackable(structures[tag]), includes, attributes(text, tag))
    base = replace(base, structures=structures)
    objects = all_read(cache, tree, commit, column, [name for _, _, name in work], Path.read_bytes, sources)
    found: list[PackAttacked] = []
    with step(f"judging {sum(len(tried) for _, tried, _ in work)} attacks"):
        for (tag, tried, _), data in zip(work, objects, strict=True):
            clauses = passing_clauses(rules, tag, base)
            counts = {"closed": [0, 0], "elsewhere": [0, 0], "moved": [0, 0]}
            closed = frozenset(name for each in clauses if each.kind is ClauseKind.ALONE for name in each.members)
            for attack, changed in zip(tried, read_variants(data, tag, tried, base), strict=True):
                complains = any(judge_clause(each, changed).outcome is not RuleOutcome.PASS for each in clauses)
                count = counts[_what(attack, changed, tag, closed)]
                count[0] += complains
                count[1] += 1
            both = {name: (noticed, of) for name, (noticed, of) in counts.items()}
            its_rules = len({each.rule for each in clauses})
            found.append(PackAttacked(tag, files[tag], its_rules, **both))
    return tuple(found)


def _with_offsets(structure: Structure, body: Sequence[str]) -> Structure:
    """A structure with the members whose offset a compiler tells: bit fields and unnamed structures have none."""
    known = {name for each in body if not re.fullmatch(r"struct \w+;", each) for name in names_in(each)}
    return replace(structure, members=tuple(each for each in structure.members if each.name in known))


def _attacks(body: Sequence[str], named: frozenset[str]) -> Iterator[Attack]:
    """All attacks. An array without a size has to stay the last member."""
    open_end = 1 if re.search(r"\w\s*\[\s*\]", body[-1]) else 0
    fixed, last = body[: len(body) - open_end], body[len(body) - open_end :]
    for attack in attacks(fixed, named):
        yield attack._replace(declarations=(*attack.declarations, *last))


def _plain(body: Sequence[str]) -> tuple[str, ...]:
    """The declarations without what each variant would define again: enumerators, tags of structures inside."""
    found = (re.sub(r"\benum\s+(\w+)\s*\{[^}]*\}", r"enum \1", each) for each in body)
    found = (re.sub(r"\benum\s*\{[^}]*\}", "int", each) for each in found)
    return tuple(re.sub(r"\b(struct|union)\s+\w+\s*\{", r"\1 {", each) for each in found)


def _some(every: Iterator[Attack], named: int) -> Iterator[Attack]:
    """All new members, and of the moves as many as MOVES allows."""
    tried = list(every)
    moved = [attack for attack in tried if not attack.added]
    yield from (attack for attack in tried if attack.added)
    yield from moved[:: max(1, len(moved) // max(1, MOVES * named))]


def _what(attack: Attack, changed: Layout, tag: str, closed: frozenset[str]) -> str:
    if not attack.added:
        return "moved"
    near = sharing(changed, tag, closed | {NEW})
    return "closed" if any(NEW in pair for pair in near) else "elsewhere"


def pack_attack_table(found: Sequence[PackAttacked]) -> Iterator[str]:
    """Markdown: a structure in each row."""
    yield "| structure | rules | new member on a closed line | new member elsewhere | a named member moved |"
    yield "|---|---|---|---|---|"
    for row in sorted(found, key=lambda row: (row.file, row.struct)):
        cells = [f"{noticed} of {of}" if of else "-" for noticed, of in (row.closed, row.elsewhere, row.moved)]
        yield f"| `{row.struct}` | {row.rules} | {' | '.join(cells)} |"
    sums = [tuple(map(sum, zip(*(getattr(row, name) for row in found), strict=True))) for name in _COUNTS]
    yield f"| all | {sum(row.rules for row in found)} | {' | '.join(f'{noticed} of {of}' for noticed, of in sums)} |"


_COUNTS = ("closed", "elsewhere", "moved")


def verdict_on_packs(found: Sequence[PackAttacked]) -> Verdict:
    """FAIL if a member joins a closed line unnoticed."""
    if not found:
        return Verdict.INCONCLUSIVE
    return Verdict.FAIL if any(row.closed[0] < row.closed[1] for row in found) else Verdict.PASS
