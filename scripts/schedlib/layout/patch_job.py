# SPDX-License-Identifier: GPL-2.0
"""tree and patch -> layouts without and with it -> what it breaks, in checkpatch's form, for b4 and git hooks."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from schedlib.cache import cache_dir
from schedlib.contracts.contract_rules import CONTRACTS
from schedlib.contracts.packs import all_rules, pack_rules
from schedlib.layout.columns import columns_for, composed_tree, ensure_tools, pack_columns
from schedlib.layout.layout_options import PatchOptions
from schedlib.layout.pack_units import pack_layouts
from schedlib.layout.patch_check import Finding, Steps, findings, lost_members, steps
from schedlib.layout.patch_formats import shown
from schedlib.layout.source_view import differing
from schedlib.names import pack_names
from schedlib.options import DEFAULT_SERIES
from schedlib.progress import only_on_a_terminal, say, step
from schedlib.tree.compose import refuse_lost_members, with_tests
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict

TIGHTEST = "numa+proxy"
"""The configuration that leaves the least room on the first line of struct rq."""

_PATIENCE = 1.0
"""Seconds of silence: a hook that takes longer prints what it does."""


def judge_patch(options: PatchOptions) -> Verdict:
    """Print what a patch breaks, and nothing else unless `verbose` asks for it.

    b4 takes each line on stderr for a failed check, so progress is for terminals only.

    Raises:
        SchedlineError: the patch does not belong to the tree, or the tree or the machine does not allow it.
    """
    cache = cache_dir()
    columns = columns_for(options.columns.arch, options.columns.config or (TIGHTEST,))
    ensure_tools(columns)
    rules, packs = all_rules((CONTRACTS.name,)), pack_rules(pack_names(), options.contracts)
    found: list[Finding] = []
    looked: list[str] = []
    structures: set[str] = set()
    with only_on_a_terminal():
        with step(f"reading {options.tree.kdir or options.tree.series or DEFAULT_SERIES}", after=_PATIENCE):
            tree, both = _prepared(options)
            for commit in (both.before, both.after):
                refuse_lost_members(tree, commit)
        for column in columns:
            if layouts := pack_layouts(cache, tree, (both.before, both.after), column, rules):
                looked.append(column.name)
                structures |= layouts[1].types.keys() & rules.types()
                found += findings(rules, options.patch, *layouts)
        judged = bool(looked)
        for column in pack_columns(options.columns.arch, options.columns.config):
            layouts = pack_layouts(cache, tree, (both.before, both.after), column, packs)
            if layouts and layouts[1].structures:
                looked.append(column.name)
                structures |= layouts[1].types.keys() & packs.types()
                found += findings(packs, options.patch, *layouts)
        changed = differing(tree, both.before, both.after)
        old, new = (partial(_text, tree, changed, commit) for commit in (both.before, both.after))
        found += lost_members(packs, old, new)
    if text := shown((*rules.rules, *packs.rules), found, options.form):
        print(text)
    errors = sum(each.error for each in found)
    warnings = len(found) - errors
    if options.verbose:
        broken = _many(errors, "error") if errors else "nothing broken"
        more = f", {_many(warnings, 'warning')}" if warnings else ""
        print(
            f"looked at {_many(len(structures), 'structure')} ({', '.join(sorted(structures))}) "
            f"on {_many(len(looked), 'configuration')} ({', '.join(looked)}): {broken}{more}"
        )
    if errors:
        return Verdict.FAIL
    if not judged:
        # The structures of packs have a configuration of their own: what they pass says nothing of the scheduler's.
        say("the scheduler's structures were not looked at\n  next: choose another --arch or --config")
        return Verdict.INCONCLUSIVE
    return Verdict.PASS


def _text(tree: Tree, changed: Collection[str], commit: str, file: str) -> str | None:
    """The text of a file that a patch changes; None for another one."""
    return tree.read(file, commit) if file in changed else None


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _prepared(options: PatchOptions) -> tuple[Tree, Steps]:
    """The tree, and its commits without and with the patch; both have the tests."""
    tree, composition = composed_tree(options.tree, options.changes)
    both = steps(tree, composition, options.patch)
    return tree, Steps(with_tests(tree, both.before), with_tests(tree, both.after))
