# SPDX-License-Identifier: GPL-2.0
"""tree and patch -> layouts without and with it -> what it breaks, in checkpatch's form, for b4 and git hooks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from schedlib.cache import cache_dir
from schedlib.contracts.contract_rules import CONTRACTS, Rules, pack_rules
from schedlib.errors import DoesNotBuild
from schedlib.layout.columns import columns_for, composed_tree, ensure_tools, pack_columns
from schedlib.layout.compile import Column
from schedlib.layout.layout_options import LayoutOptions
from schedlib.layout.own_build import OURS, OwnBuild, chosen_build, patched
from schedlib.layout.pack_units import pack_layouts
from schedlib.layout.patch_check import Finding, Steps, findings, lost_members, render, steps
from schedlib.layout.patch_coverage import (
    ChangedLine,
    Texts,
    changed_lines,
    changed_texts,
    not_compiled,
    options_of,
    told_without_contract,
    unseen,
)
from schedlib.layout.patch_text import git_revisions
from schedlib.layout.rule_judge import Layout
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

    Where the tree was built its own compiler, configuration and commands are used, unless the options name others.

    b4 takes each line on stderr for a failed check, so progress is for terminals only.

    Raises:
        SchedlineError: the patch does not belong to the tree, or the tree or the machine does not allow it.
    """
    rules, packs = pack_rules((CONTRACTS.name,)), pack_rules(pack_names(), options.contracts)
    own = chosen_build(options)
    with only_on_a_terminal():
        judged = _in_own_build(own, options, patch, rules, packs) if own else _in_ours(options, patch, rules, packs)
    looks, lines, blind, found = judged
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
    if not looks.judged:
        # The structures of packs have a configuration of their own: what they pass says nothing of the scheduler's.
        say("the scheduler's structures were not looked at\n  next: choose another --arch or --config")
        return Verdict.INCONCLUSIVE
    return Verdict.INCONCLUSIVE if blind else Verdict.PASS


_OURS = f": {OURS} looks in schedline's own configurations"

_Judged = tuple["Looks", list[ChangedLine], list[ChangedLine], list[Finding]]
"""What was looked at, the changed lines, those that no compiler saw, and all findings."""


def _in_ours(options: LayoutOptions, patch: bytes, rules: Rules, packs: Rules) -> _Judged:
    """Look at a patch in configurations of our own."""
    columns = columns_for(options.columns.arch, options.columns.config or (TIGHTEST,))
    ensure_tools(columns)
    with step(f"reading {options.tree.kdir or options.tree.series or DEFAULT_SERIES}", after=_PATIENCE):
        tree, both = _prepared(options, patch)
        for commit in (both.before, both.after):
            refuse_lost_members(tree, commit)
    looks = Looks(patch, partial(compiled_layouts, tree, both))
    for column in columns:
        looks.at(column, rules)
    looks.judged = bool(looks.names)
    own = pack_columns(options.columns.arch, options.columns.config)
    for column in own:
        looks.at(column, packs)
    texts = changed_texts(tree, both.before, both.after)
    lines = changed_lines(texts)
    blind = looks.further(lines, own[0], rules, packs)
    return looks, lines, blind, [*looks.found, *_not_looked_at(looks, texts, blind, packs)]


def _in_own_build(own: OwnBuild, options: LayoutOptions, patch: bytes, rules: Rules, packs: Rules) -> _Judged:
    """Look at a patch as the tree's owner builds it."""
    with patched(own, patch, git_revisions(options.commit, options.between)) as versions:
        looks = Looks(patch, lambda _, asked: versions.layouts(asked, looks.why))
        looks.judged = True  # what the patch does not reach stays as it is
        with step(f"compiling without and with the patch, as in {own.build}", after=_PATIENCE):
            looks.at(None, rules)
            looks.at(None, packs)
            lines = changed_lines(versions.texts)
            known = {*rules.types(), *packs.types()}
            looks.without_contract(None, [line for line in lines if line.place.tag not in known])
        blind = [line for line in unseen(lines, looks.layouts) if not _is_configured(own, line)]
        return looks, lines, blind, [*looks.found, *_not_looked_at(looks, versions.texts, blind, packs, _OURS)]


def compiled_layouts(tree: Tree, both: Steps, column: Column | None, rules: Rules) -> tuple[Layout, Layout] | None:
    """The structures of rules in two commits, in a configuration of our own; None if there is no such one."""
    return pack_layouts(cache_dir(), tree, (both.before, both.after), column, rules) if column else None


def _not_looked_at(
    looks: Looks, texts: Texts, blind: Sequence[ChangedLine], packs: Rules, hint: str = ""
) -> Iterator[Finding]:
    yield from not_compiled(blind, looks.names, looks.why, hint)
    old, new = ({file: both[side] or None for file, both in texts.items()} for side in (0, 1))
    yield from lost_members(packs, old.get, new.get)


def _is_configured(own: OwnBuild, line: ChangedLine) -> bool:
    """Whether a line that declares nothing is compiled, as far as its #ifs name options."""
    asked = (option.partition("=") for option in options_of(line))
    return not line.place.names | line.block and all(
        (own.config.get(option) in ("y", "m")) is (value == "y") for option, _, value in asked
    )


class Looks:
    """What was compiled without and with a patch, and found there.

    Attributes:
        found: what the patch breaks, and notes.
        names: the configurations.
        layouts: without and with the patch, in each of them.
        structures: those that were looked at.
        why: why a structure could not be compiled.
        judged: whether the scheduler's structures were looked at.
    """

    def __init__(self, patch: bytes, layouts: Callable[[Column | None, Rules], tuple[Layout, Layout] | None]) -> None:
        self.patch, self._layouts = patch, layouts
        self.found: list[Finding] = []
        self.names: list[str] = []
        self.layouts: list[tuple[Layout, Layout]] = []
        self.structures: set[str] = set()
        self.why: dict[str, str] = {}
        self.judged = False

    def at(self, column: Column | None, rules: Rules) -> tuple[Layout, Layout] | None:
        """Look at the structures of rules in one configuration; None if there are none.

        Args:
            column: None: the one that its owner has built.
        """
        both = self._layouts(column, rules)
        if not both or not both[1].structures:
            return None
        self.layouts.append(both)
        name = both[1].name
        self.names += [name] * (name not in self.names)
        self.structures |= both[1].types.keys() & {*rules.files, *rules.types()}
        # A configuration is tried for one line: what is broken everywhere is known.
        known = {each.rule for each in self.found} if column and "=" in column.config else set()
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

    def without_contract(self, column: Column | None, lines: Collection[ChangedLine]) -> None:
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


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _prepared(options: LayoutOptions, patch: bytes) -> tuple[Tree, Steps]:
    """The tree, and its commits without and with the patch; both have the tests."""
    tree, composition = composed_tree(options.tree, options.changes)
    both = steps(tree, composition, patch)
    return tree, Steps(with_tests(tree, both.before), with_tests(tree, both.after))
