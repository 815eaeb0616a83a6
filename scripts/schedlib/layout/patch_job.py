# SPDX-License-Identifier: GPL-2.0
"""tree and patch -> layouts without and with it -> what it breaks, in checkpatch's form, for b4 and git hooks."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from functools import partial

from schedlib.cache import cache_dir
from schedlib.contracts.contract_rules import CONTRACTS, Rules, all_rules, pack_rules
from schedlib.errors import DoesNotBuild
from schedlib.layout.columns import columns_for, composed_tree, ensure_tools, pack_columns
from schedlib.layout.compile import Column
from schedlib.layout.layout_options import LayoutOptions
from schedlib.layout.pack_units import pack_layouts
from schedlib.layout.patch_check import Finding, Steps, findings, lost_members, render, steps
from schedlib.layout.patch_coverage import (
    ChangedLine,
    changed_lines,
    not_compiled,
    options_of,
    told_without_contract,
    unseen,
)
from schedlib.layout.rule_judge import Layout
from schedlib.layout.unit_build import differing
from schedlib.names import pack_names
from schedlib.options import DEFAULT_SERIES
from schedlib.progress import only_on_a_terminal, say, step
from schedlib.tree.compose import refuse_lost_members, with_tests
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict

TIGHTEST = "numa+proxy"
"""The configuration that leaves the least room on the first line of struct rq."""

_PACKS = "packs"

_PATIENCE = 1.0
"""Seconds of silence: a hook that takes longer prints what it does."""


def judge_patch(options: LayoutOptions, patch: bytes, form: str) -> Verdict:
    """Print what a patch breaks, and nothing else unless `verbose` asks for it.

    b4 takes each line on stderr for a failed check, so progress is for terminals only.

    Raises:
        SchedlineError: the patch does not belong to the tree, or the tree or the machine does not allow it.
    """
    columns = columns_for(options.columns.arch, options.columns.config or (TIGHTEST,))
    ensure_tools(columns)
    rules, packs = all_rules((CONTRACTS.name,)), pack_rules(pack_names(), options.contracts)
    with only_on_a_terminal():
        with step(f"reading {options.tree.kdir or options.tree.series or DEFAULT_SERIES}", after=_PATIENCE):
            tree, both = _prepared(options, patch)
            for commit in (both.before, both.after):
                refuse_lost_members(tree, commit)
        looks = Looks(tree, both, patch)
        for column in columns:
            looks.at(column, rules)
        judged = bool(looks.names)
        own = pack_columns(options.columns.arch, options.columns.config)
        for column in own:
            looks.at(column, packs)
        lines = changed_lines(tree, both.before, both.after)
        blind = looks.further(lines, own[0], rules, packs)
        changed = differing(tree, both.before, both.after)
        old, new = (partial(_text, tree, changed, commit) for commit in (both.before, both.after))
        found = [*looks.found, *not_compiled(blind, looks.names, looks.why), *lost_members(packs, old, new)]
    if text := render((*rules.rules, *packs.rules), found, form):
        print(text)
    errors = sum(each.error for each in found)
    warnings = sum(not each.error and not each.note for each in found)
    if options.verbose or (sys.stdout.isatty() and form == "text"):
        broken = _many(errors, "error") if errors else "nothing broken"
        more = f", {_many(warnings, 'warning')}" if warnings else ""
        print(
            f"looked at {_many(len(looks.structures), 'structure')} ({', '.join(sorted(looks.structures))}) "
            f"on {_many(len(looks.names), 'configuration')} ({', '.join(looks.names)}), "
            f"at {len(lines) - len(blind)} of {_many(len(lines), 'changed line')} inside of structures: {broken}{more}"
        )
    if errors:
        return Verdict.FAIL
    if not judged:
        # The structures of packs have a configuration of their own: what they pass says nothing of the scheduler's.
        say("the scheduler's structures were not looked at\n  next: choose another --arch or --config")
        return Verdict.INCONCLUSIVE
    return Verdict.INCONCLUSIVE if blind else Verdict.PASS


class Looks:
    """What was compiled without and with a patch, and found there.

    Attributes:
        found: what the patch breaks, and notes.
        names: the configurations.
        layouts: without and with the patch, in each of them.
        structures: those that were looked at.
        why: why a structure could not be compiled.
    """

    def __init__(self, tree: Tree, both: Steps, patch: bytes) -> None:
        self.tree, self.both, self.patch = tree, both, patch
        self.found: list[Finding] = []
        self.names: list[str] = []
        self.layouts: list[tuple[Layout, Layout]] = []
        self.structures: set[str] = set()
        self.why: dict[str, str] = {}

    def at(self, column: Column, rules: Rules) -> tuple[Layout, Layout] | None:
        """Look at the structures of rules in one configuration; None if this architecture has no such one."""
        both = pack_layouts(cache_dir(), self.tree, (self.both.before, self.both.after), column, rules)
        if not both or not both[1].structures:
            return None
        self.layouts.append(both)
        self.names += [column.name] * (column.name not in self.names)
        self.structures |= both[1].types.keys() & {*rules.files, *rules.types()}
        # A configuration is tried for one line: what is broken everywhere is known.
        known = {each.rule for each in self.found} if "=" in column.config else set()
        self.found += [each for each in findings(rules, self.patch, *both) if each.rule not in known]
        return both

    def further(self, lines: Sequence[ChangedLine], own: Column, rules: Rules, packs: Rules) -> list[ChangedLine]:
        """Look at what was not compiled so far, with the options that it names; the lines that no compiler saw.

        Args:
            own: the configuration of packs, for structures without a contract.
        """
        plain = [line for line in lines if line.place.tag not in {*rules.types(), *packs.types()}]
        self.without_contract(own, plain)
        for wanted in dict.fromkeys(options_of(line) for line in unseen(lines, self.layouts)):
            blind = [line for line in unseen(lines, self.layouts) if options_of(line) == wanted]
            for base, held in ((TIGHTEST, rules), (_PACKS, packs)):
                if wanted and any(line.place.tag in held.types() for line in blind):
                    self.at(Column(own.arch, "+".join((base, *wanted))), held)
            if wanted:
                self.without_contract(Column(own.arch, "+".join((_PACKS, *wanted))), set(blind) & set(plain))
        return unseen(lines, self.layouts)

    def without_contract(self, column: Column, lines: Collection[ChangedLine]) -> None:
        """Look at changed structures that have no contract, file by file: not each file can be compiled."""
        for file in dict.fromkeys(line.file for line in lines):
            here = sorted((line for line in lines if line.file == file), key=lambda line: line.number)
            tags = {line.place.tag: file for line in here}
            try:
                both = self.at(column, Rules((), (), files=tags))
            except DoesNotBuild as error:
                self.why |= dict.fromkeys(tags, f"{file} does not compile: {error.observed.splitlines()[-1].strip()}")
                continue
            if both:
                self.found += told_without_contract(here, *both)


def _text(tree: Tree, changed: Collection[str], commit: str, file: str) -> str | None:
    """The text of a file that a patch changes; None for another one."""
    return tree.read(file, commit) if file in changed else None


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _prepared(options: LayoutOptions, patch: bytes) -> tuple[Tree, Steps]:
    """The tree, and its commits without and with the patch; both have the tests."""
    tree, composition = composed_tree(options.tree, options.changes)
    both = steps(tree, composition, patch)
    return tree, Steps(with_tests(tree, both.before), with_tests(tree, both.after))
