# SPDX-License-Identifier: GPL-2.0
"""Kernels of several years -> their differences in structures with contracts, piece by piece -> what contracts say."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from schedlib.contracts.contract_rules import CONTRACTS, Rules, rules_of
from schedlib.contracts.packs import all_rules
from schedlib.contracts.struct_source import HEADERS
from schedlib.dev.quiet_pieces import QuietBody, QuietPiece, applied, body_of, pieces, undone
from schedlib.formats.incident_file import Incident
from schedlib.formats.retrodict_document import Alarm, QuietRow
from schedlib.git import try_git
from schedlib.layout.compile import Column
from schedlib.layout.pack_units import Seen, Unit, units_for
from schedlib.layout.patch_check import broken_rules
from schedlib.layout.rule_judge import Layout, RuleOutcome, RuleResult, complained, from_members, judge_rule
from schedlib.layout.unit_variants import Variant, variants_seen
from schedlib.names import pack_names
from schedlib.options import TreeOptions
from schedlib.progress import say
from schedlib.tree.changes import PatchSet
from schedlib.tree.compose import compose
from schedlib.tree.kernel_tree import Tree, open_tree

_OFTEN = 25
"""So many pieces are measured between two words of progress."""


@dataclass(frozen=True)
class _Kernel:
    """A kernel that Debian packages: without carried changes, and with those that the contracts of `sched` need."""

    name: str
    tree: Tree
    stock: str
    composed: str


@dataclass(frozen=True)
class _Held:
    """A structure in a kernel, for some rules: its body, and the unit that shows it."""

    kernel: _Kernel
    commit: str
    rules: Rules
    tag: str
    body: QuietBody
    unit: Unit
    seen: Seen

    def layout(self, column: Column, seen: Seen) -> Layout:
        """For the rules."""
        return from_members(column.name, self.rules, seen.structures, seen.line, seen.holds, frozenset(), "")


@dataclass(frozen=True)
class _Tried:
    """A piece, where it was tried, and the layouts before and after; None if they do not compile."""

    tag: str
    older: _Held
    newer: _Held
    piece: QuietPiece
    undone: bool = False
    before: Seen | None = None
    after: Seen | None = None


def quiet_rows(
    cache: Path, column: Column, kernels: Sequence[str], incidents: Sequence[Incident]
) -> tuple[QuietRow, ...]:
    """What today's contracts say of each quiet change between neighbouring kernels; see configs/incidents-rules.toml.

    Raises:
        SchedlineError: a kernel cannot be had, or the machine does not allow it.
    """
    every = [_held(cache, column, _kernel(cache, name)) for name in kernels]
    rows: list[QuietRow] = []
    for number, (older, newer) in enumerate(pairwise(every), 1):
        tried = [
            _Tried(tag, held, newer[tag], piece)
            for tag, held in older.items()
            if tag in newer
            for piece in pieces(held.body.rows, newer[tag].body.rows)
        ]
        tried = _on_older(cache, column, tried)
        tried = _on_newer(cache, column, tried)
        later = every[number:]
        rows += [
            _judged(column, each, [held[each.tag] for held in later if each.tag in held], incidents) for each in tried
        ]
    return tuple(rows)


def _kernel(cache: Path, name: str) -> _Kernel:
    tree = open_tree(cache, TreeOptions(series=name))
    return _Kernel(name, tree, compose(tree, without=PatchSet(tree.name).default()).commit, compose(tree).commit)


def _contracts() -> Iterator[tuple[str, Rules]]:
    """Each structure with a contract, and the rules that are about it: those of `sched` stand together."""
    ours = all_rules((CONTRACTS.name,))
    yield from ((tag, ours) for tag in ours.types())
    for pack in pack_names():
        for path in sorted((CONTRACTS.parent / pack).glob("*.toml")):
            yield path.stem, rules_of((path,))


def _held(cache: Path, column: Column, kernel: _Kernel) -> dict[str, _Held]:
    """The structures that a kernel has, with their layouts."""
    contracts = dict(_contracts())
    files = {tag: rules.files[tag] for tag, rules in contracts.items()}
    plain = _bodies(kernel.tree, kernel.stock, files)
    ours = {tag: file for tag, file in files.items() if contracts[tag].changes() and tag in plain}
    bodies = plain | _bodies(kernel.tree, kernel.composed, ours)
    found: dict[str, tuple[str, Rules, QuietBody, Unit]] = {}
    # A structure that only a carried change has differs by that change alone, and is not in `plain`.
    for tag in plain:
        file, body = bodies[tag]
        rules = contracts[tag]
        unit = _unit(rules if tag in ours else replace(rules, files={tag: file}))
        found[tag] = (kernel.composed if tag in ours else kernel.stock, rules, body, unit)
    by_commit: dict[str, list[Unit]] = defaultdict(list)
    for commit, *_, unit in found.values():
        if unit not in by_commit[commit]:
            by_commit[commit].append(unit)
    seen: dict[tuple[str, Unit], Seen] = {}
    for commit, units in by_commit.items():
        found_there = variants_seen(cache, kernel.tree, commit, column, [Variant(unit) for unit in units])
        seen |= {(commit, unit): shown for unit, shown in zip(units, found_there, strict=True)}
    for (_, unit), shown in seen.items():
        if shown.failed:
            say(f"{kernel.name}: {' '.join(unit.tags)}: {shown.failed}")
    return {
        tag: _Held(kernel, commit, rules, tag, body, unit, seen[commit, unit])
        for tag, (commit, rules, body, unit) in found.items()
        if tag in seen[commit, unit].structures
    }


def _bodies(tree: Tree, commit: str, files: Mapping[str, str]) -> dict[str, tuple[str, QuietBody]]:
    """The file that declares each structure, and its body. Older kernels may have it in another public header."""
    found: dict[str, tuple[str, QuietBody]] = {}
    for tag, file in files.items():
        for name in (file, *(HEADERS if file in HEADERS else ())):
            body = body_of(tree.read(name, commit) or "", tag)
            if body:
                found[tag] = name, body
                break
    left = sorted(files.keys() - found)
    if left:
        pattern = rf"^(typedef )?struct ({'|'.join(left)}) \{{"
        said = try_git(tree.src, "grep", "-E", pattern, commit, "--", "include/*.h").stdout.decode(errors="replace")
        for row in said.splitlines():
            _, name, text = row.split(":", 2)
            tag = text.removeprefix("typedef ").split()[1]
            if tag not in found and (body := body_of(tree.read(name, commit) or "", tag)):
                found[tag] = name, body
    return found


def _unit(rules: Rules) -> Unit:
    [unit] = units_for(rules, rules.files)
    return replace(unit, conditions=tuple(sorted({*unit.conditions, *rules.conditions()})))


def _on_older(cache: Path, column: Column, tried: Sequence[_Tried]) -> list[_Tried]:
    """With the pieces that the older kernel can have."""
    held = [each.older for each in tried]
    texts = [
        each.older.body.declaration(applied(each.older.body.rows, each.newer.body.rows, each.piece)) for each in tried
    ]
    return [
        each if seen.failed else replace(each, before=each.older.seen, after=seen)
        for each, seen in zip(tried, _seen(cache, column, held, texts), strict=True)
    ]


def _on_newer(cache: Path, column: Column, tried: Sequence[_Tried]) -> list[_Tried]:
    """With those that have to be undone in the newer one, too."""
    left = [each for each in tried if each.after is None]
    held = [each.newer for each in left]
    texts = [
        each.newer.body.declaration(undone(each.older.body.rows, each.newer.body.rows, each.piece)) for each in left
    ]
    found = iter(_seen(cache, column, held, texts))
    made: list[_Tried] = []
    for each in tried:
        seen = next(found) if each.after is None else None
        made.append(
            replace(each, undone=True, before=seen, after=each.newer.seen) if seen and not seen.failed else each
        )
    return made


def _seen(cache: Path, column: Column, held: Sequence[_Held], texts: Sequence[str]) -> list[Seen]:
    """The layouts of a kernel's structures with other texts of their files."""
    by_commit: dict[str, list[int]] = defaultdict(list)
    for at, each in enumerate(held):
        by_commit[each.commit].append(at)
    found: dict[int, Seen] = {}
    for commit, places in by_commit.items():
        kernel = held[places[0]].kernel
        asked = [Variant(held[at].unit, held[at].tag, texts[at]) for at in places]

        def done(number: int, kernel: _Kernel = kernel, most: int = len(asked)) -> None:
            if number % _OFTEN == 0:
                say(f"{kernel.name}: {number} of at most {most}")

        found |= zip(places, variants_seen(cache, kernel.tree, commit, column, asked, done), strict=True)
    return [found[at] for at in range(len(held))]


def _judged(column: Column, tried: _Tried, later: Sequence[_Held], incidents: Sequence[Incident]) -> QuietRow:
    """What the contracts say of a piece. later: the structure in the newer kernel, and in those after that."""
    rules = tried.older.rules
    older, newer = tried.older.body.rows, tried.newer.body.rows
    lines = (*(f"-{row}" for row in tried.piece.removed(older)), *(f"+{row}" for row in tried.piece.added(newer)))
    judged, alarms, asks = 0, list[Alarm](), list[str]()
    if tried.before and tried.after:
        side = tried.newer if tried.undone else tried.older
        before, after = side.layout(column, tried.before), side.layout(column, tried.after)
        about = {clause.rule for clause in rules.clauses if clause.type == tried.tag}
        judged = sum(judge_rule(rules, rule, before).outcome is RuleOutcome.PASS for rule in about - {*rules.changes()})
        broken = list(broken_rules(rules, before, after))
        asks = [each.rule for each in broken if each.outcome is RuleOutcome.NA]
        right = {name for each in incidents if each.struct == tried.tag for name in each.right}
        is_incident = any(re.search(rf"\b{re.escape(name)}\b", row) for name in right for row in lines)
        outcomes = [(held.layout(column, held.seen), held.rules) for held in later]
        for each in broken:
            if each.outcome is RuleOutcome.FAIL:
                after_all = [judge_rule(its, each.rule, layout).outcome for layout, its in outcomes]
                alarms.append(_alarm(each, after, rules, after_all, is_incident=is_incident))
    return QuietRow(
        struct=tried.tag,
        older=tried.older.kernel.name,
        newer=tried.newer.kernel.name,
        lines=lines,
        tried="undone" if tried.undone and tried.after else "applied" if tried.after else "no",
        judged=judged,
        alarms=tuple(alarms),
        asks=tuple(asks),
    )


def _alarm(
    broken: RuleResult, layout: Layout, rules: Rules, later: Sequence[RuleOutcome], *, is_incident: bool
) -> Alarm:
    """A broken rule. later: what becomes of it in the newer kernel as a whole, and in those after that."""
    whole, *after = later
    is_mended = whole is RuleOutcome.FAIL and RuleOutcome.PASS in after
    rule = rules.rule(broken.rule)
    return Alarm(
        rule=broken.rule,
        names=complained(broken, layout),
        why=rule.reason,
        source=rule.source,
        is_="incident" if is_incident else "mended" if is_mended else "false",
        holds_later=whole is RuleOutcome.PASS,
    )
