# SPDX-License-Identifier: GPL-2.0
"""tree -> variants of each contracted structure -> what the rules say of each attack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

from schedlib.contracts.contract_rules import CONTRACTS, our_rules
from schedlib.formats.contract_file import read_contract
from schedlib.layout.attack import (
    Attack,
    Attacked,
    AttackKind,
    Victim,
    attackable,
    attacks,
    declarations,
    judge_attack,
    passing_clauses,
    read_variants,
    unit,
)
from schedlib.layout.columns import ensure_tools
from schedlib.layout.compile import UNIT, Column, all_made, compiled, layout_of, made
from schedlib.progress import step
from schedlib.tree.compose import TESTS_DIRECTORY
from schedlib.tree.kernel_tree import Tree, commit_tree, edit_tree, file_row
from schedlib.verdict import Verdict

_AT_ONCE = 400
"""Variants in one file, so that two processors have work."""


def attack_column(cache: Path, tree: Tree, commit: str, column: Column, change: str = "") -> tuple[Attacked, ...]:
    """Try every attack on every contracted structure of a commit, for one architecture and configuration.

    Args:
        change: attack only the structures that the rules of this change are about; empty for all.

    Raises:
        SchedlineError: no compiler, or the kernel does not build.
    """
    ensure_tools([column])
    base = layout_of(compiled(cache, tree, commit, column), column.name)
    preprocessed = made(cache, tree, commit, column, UNIT.replace(".o", ".i")).decode(errors="replace")
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
        rows.append(file_row(tree.src, f"{name}.c", unit(tag, some, attackable(base.structures[tag])).encode()))
    attacked = commit_tree(tree.src, edit_tree(tree.src, commit, rows), commit, "attacks on the contracts\n")
    objects = all_made(cache, tree, attacked, column, [f"{name}.o" for _, _, name in work])
    found: list[Attacked] = []
    with step(f"judging {sum(len(some) for _, some, _ in work)} attacks"):
        for (victim, some, _), data in zip(work, objects, strict=True):
            variants = read_variants(data, victim.contract.struct, some, base)
            found += [judge_attack(our_rules(), victim, *each) for each in zip(some, variants, strict=True)]
    return tuple(found)


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
    yield f"| structure | attack | {' | '.join(results)} |"
    yield f"|---|---|{'---|' * len(results)}"
    structs = dict.fromkeys(row.struct for found in results.values() for row in found)
    for struct, kind in product(structs, AttackKind):
        cells = []
        for found in results.values():
            some = [row for row in found if (row.struct, row.kind) == (struct, kind)]
            cells.append(f"{sum(bool(row.complaints) for row in some)} of {len(some)}" if some else "-")
        if set(cells) != {"-"}:
            yield f"| `{struct}` | {kind.value} | {' | '.join(cells)} |"
    contracted = {read_contract(path).struct for path in CONTRACTS.glob("*.toml")}
    if left := sorted(contracted - set(structs)):
        yield ""
        yield f"Not attacked, since no rule about it holds there: {', '.join(f'`{struct}`' for struct in left)}."
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
