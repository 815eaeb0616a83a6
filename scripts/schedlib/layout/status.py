# SPDX-License-Identifier: GPL-2.0
"""Which of the changes a tree, a vmlinux or the running kernel has, and how the carried ones apply to a tree."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from elftools.elf.elffile import ELFFile

from schedlib import TOOL, doctor
from schedlib.cache import cache_dir
from schedlib.contracts.contract_rules import Rules, our_rules
from schedlib.formats import document
from schedlib.formats.document import Document
from schedlib.formats.strict import Strict, Word
from schedlib.layout.debug_info import DAMAGE, symbols_in
from schedlib.layout.layout_options import StatusOptions
from schedlib.layout.rule_judge import Layout, PresenceName, RuleOutcome, describe, judge_clause
from schedlib.layout.vmlinux import RUNNING_BTF, layout_of_built
from schedlib.tree.changes import State, change_table, patch_sets
from schedlib.tree.compose import compose
from schedlib.tree.kernel_tree import Tree, open_tree
from schedlib.tree.source import Found, Presence, of_directory, of_source, presence
from schedlib.verdict import Verdict


class StatusChange(Strict, frozen=True):
    """One change. evidence: what was seen."""

    id: Word
    presence: PresenceName
    evidence: tuple[str, ...]


class StatusDocument(Document, frozen=True, kw_only=True):
    """schedline status: which of the changes a tree or a kernel has."""

    schema: Literal["status-1"]
    tool: Word
    kernel: Word
    changes: tuple[StatusChange, ...]


def show_status(options: StatusOptions) -> Verdict:
    """Print which changes a kernel has, and the evidence for each."""
    if options.built:
        doctor.require(["layout"])
        rules = our_rules()
        layout = layout_of_built(options.vmlinux, rules)
        symbols = symbols_of(options.vmlinux) if options.vmlinux else running_symbols()
        name, found = layout.name, tuple(of_kernel(rules, layout, symbols))
    elif options.directory:
        name, found = str(options.directory), of_directory(options.directory)
    else:
        tree = _opened(options)
        name, found = tree.origin, tuple(of_tree(tree))
    print(name, *found, sep="\n")
    if options.json:
        rows = tuple(StatusChange(row.change, row.presence.value, row.evidence) for row in found)
        document.write(options.json, StatusDocument(schema="status-1", tool=TOOL, kernel=name, changes=rows))
    return Verdict.PASS


def _opened(options: StatusOptions) -> Tree:
    doctor.require(options.tree.needs)
    return open_tree(cache_dir(), options.tree)


def of_tree(tree: Tree) -> Iterator[Found]:
    """Each change by its signs in the source. For a series also how `check` applies the changes that it lacks."""
    patches = None if tree.is_user else patch_sets(tree)[0]
    for row in of_source(tree.read):
        if patches and row.presence is Presence.ABSENT and row.change in patches.order():
            how = "" if row.change in patches.default() else f" --with {row.change}"
            text = f"the source lacks it; `schedline check --series {tree.name}{how}` applies "
            text += f"patches/{patches.name}/{row.change}.patch"
            row = replace(row, evidence=(*row.evidence, text))
        yield row


def show_applied(options: StatusOptions) -> Verdict:
    """Apply the carried changes to a copy of a tree as `git am -3` does, and print the state of each.

    Without --with these are the changes that `schedline check` applies to a series.
    """
    tree = _opened(options)
    with_ = options.changes.with_ or patch_sets(tree)[0].default()
    composition = compose(tree, with_=with_, without=options.changes.without)
    print(f"tree: {tree.origin}" + (f" (dirty: {tree.dirty} files)" if tree.dirty else ""))
    for row in composition.states:
        print(f"{row.id}: {row.state.value}")
        for line in row.hunk_offsets:
            print(f"    {line}")
    print(f"result: commit {composition.commit} in {tree.src}")
    conflicts = [row.id for row in composition.states if row.state is State.CONFLICT]
    if not conflicts:
        return Verdict.PASS
    print(f"  next: rebase the patch onto this tree, or leave it out: --without {','.join(conflicts)}")
    return Verdict.ERROR


def of_kernel(rules: Rules, layout: Layout, symbols: frozenset[str] | None) -> Iterator[Found]:
    """Each change by layout or symbols (None if no symbol table can be read); one that they cannot show is left out."""
    for change in change_table().values():
        if change.symbol:
            yield Found(change.id, *_by_symbol(change.symbol, symbols))
        elif rules.of(change.id):
            results = [judge_clause(clause, layout) for clause in rules.of(change.id)]
            judged = [result for result in results if result.outcome is not RuleOutcome.NA]
            holding = [result for result in judged if result.outcome is RuleOutcome.PASS]
            evidence = [f"met: {describe(result, layout)}" for result in holding]
            evidence += [f"unmet: {describe(result, layout)}" for result in judged if result not in holding]
            evidence += [f"n/a: {result.reason}" for result in results if result.outcome is RuleOutcome.NA]
            yield Found(change.id, presence([result in holding for result in judged]), tuple(evidence))


def _by_symbol(name: str, symbols: frozenset[str] | None) -> tuple[Presence, tuple[str]]:
    if symbols is not None and name in symbols:
        return Presence.PRESENT, (f"the symbol {name} is there",)
    # Every kernel has this variable: a symbol table without it lists no data.
    if symbols is None or "runqueues" not in symbols:
        return Presence.NA, ("its variables are listed neither in its symbol table nor in its BTF",)
    return Presence.ABSENT, (f"there is no symbol {name}",)


def running_symbols() -> frozenset[str]:
    """The names in /proc/kallsyms (addresses need root, names do not), and BTF's, which has each per-CPU variable."""
    names: set[str] = set()
    with suppress(OSError):
        names |= set(re.findall(r"^\S+ \S (\S+)", Path("/proc/kallsyms").read_text(errors="replace"), re.M))
    with suppress(OSError):
        names |= {name.decode() for name in re.findall(rb"(?<=\0)[A-Za-z_]\w*(?=\0)", RUNNING_BTF.read_bytes())}
    return frozenset(names)


def symbols_of(path: Path) -> frozenset[str] | None:
    """The names in a vmlinux' symbol table; None when it has none."""
    with suppress(*DAMAGE, struct.error), path.open("rb") as file:
        return frozenset(name for name, *_ in symbols_in(ELFFile(file)) if name) or None
    return None
