# SPDX-License-Identifier: GPL-2.0
"""tree and patch -> layouts without and with it -> what it breaks, in checkpatch's form, for b4 and git hooks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from schedlib.cache import cache_dir
from schedlib.contracts.contract_rules import Rules, our_rules, pack_rules
from schedlib.errors import DoesNotBuild
from schedlib.layout.columns import columns_for, composed_tree, ensure_tools, pack_columns
from schedlib.layout.compile import Column
from schedlib.layout.layout_options import LayoutOptions
from schedlib.layout.own_build import OURS, OwnBuild, chosen_build, patched
from schedlib.layout.pack_units import pack_layouts
from schedlib.layout.patch_check import Steps, render, steps
from schedlib.layout.patch_coverage import (
    ChangedLine,
    Texts,
    changed_lines,
    changed_texts,
    not_compiled,
    options_of,
    unseen,
)
from schedlib.layout.patch_findings import Finding, PatchLook, lost_members, redefined
from schedlib.layout.patch_text import git_revisions
from schedlib.layout.rule_judge import Layout, few
from schedlib.names import pack_names
from schedlib.options import DEFAULT_SERIES
from schedlib.progress import counted, only_on_a_terminal, say, step
from schedlib.tree.compose import with_tests
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
    rules, packs = our_rules(), pack_rules(pack_names(), options.contracts)
    own = chosen_build(options)
    # git names the index for a hook, and b4 its form or --quiet, which --install-hook writes.
    is_hook = options.quiet or form == "b4" or "GIT_INDEX_FILE" in os.environ
    if own is None and not is_hook and not sys.stderr.isatty():
        where = options.tree.kdir or options.tree.series or DEFAULT_SERIES
        say(f"compiling {where} in schedline's own configurations, which takes a minute the first time")
    with only_on_a_terminal():
        looks, found = (
            _in_own_build(own, options, patch, rules, packs) if own else _in_ours(options, patch, rules, packs)
        )
    if text := render((*rules.rules, *packs.rules), found, form):
        print(text)
    errors = sum(each.error for each in found)
    warnings = sum(not each.error and not each.note for each in found)
    if options.verbose or (sys.stdout.isatty() and form == "text"):
        broken = counted(errors, "error") if errors else "nothing broken"
        more = f", {counted(warnings, 'warning')}" if warnings else ""
        changed = sorted(looks.changed())
        print(
            f"looked at {counted(len(looks.structures), 'structure')} "
            f"({f'changed: {few(changed)}' if changed else 'none changed'}) "
            f"on {counted(len(looks.names), 'configuration')} ({', '.join(looks.names)}), at "
            f"{len(looks.lines) - len(looks.blind())} of {counted(len(looks.lines), 'changed line')} inside of "
            f"structures: {broken}{more}"
        )
    if errors:
        return Verdict.FAIL
    if not looks.judged:
        # The structures of packs have a configuration of their own: what they pass says nothing of the scheduler's.
        say("the scheduler's structures were not looked at\n  next: choose another --arch or --config")
        return Verdict.INCONCLUSIVE
    return Verdict.INCONCLUSIVE if looks.blind() else Verdict.PASS


def _in_ours(options: LayoutOptions, patch: bytes, rules: Rules, packs: Rules) -> tuple[Looks, list[Finding]]:
    """Look at a patch in configurations of our own."""
    columns = columns_for(options.columns.arch, options.columns.config or (TIGHTEST,))
    ensure_tools(columns)
    with step(f"reading {options.tree.kdir or options.tree.series or DEFAULT_SERIES}", after=_PATIENCE):
        tree, composition = composed_tree(options.tree, options.changes)
        both = steps(tree, composition, patch)
        both = Steps(with_tests(tree, both.before), with_tests(tree, both.after))
    looks = Looks(
        patch, partial(compiled_layouts, tree, both), changed_texts(tree, both.before, both.after), options.quiet
    )
    for column in columns:
        looks.at(column, rules)
    looks.judged = bool(looks.names)
    own = pack_columns(options.columns.arch, options.columns.config)
    for column in own:
        looks.at(column, packs)
    looks.further(own[0], rules, packs)
    return looks, [*looks.found, *looks.not_looked_at(rules, packs)]


def _in_own_build(
    own: OwnBuild, options: LayoutOptions, patch: bytes, rules: Rules, packs: Rules
) -> tuple[Looks, list[Finding]]:
    """Look at a patch as the tree's owner builds it."""
    with patched(own, patch, git_revisions(options.commit, options.between)) as versions:
        looks = Looks(patch, lambda _, asked: versions.layouts(asked, looks.why), versions.texts, options.quiet)
        looks.judged = True  # what the patch does not reach stays as it is
        looks.passed = partial(_is_configured, own)
        looks.helped = own.knows
        with step(f"compiling without and with the patch, as in {own.build}", after=_PATIENCE):
            looks.at(None, rules)
            looks.at(None, packs)
            looks.without_contract(None, looks.plain(rules, packs))
    return looks, [*looks.found, *looks.not_looked_at(rules, packs)]


def compiled_layouts(tree: Tree, both: Steps, column: Column | None, rules: Rules) -> tuple[Layout, Layout] | None:
    """The structures of rules in two commits, in a configuration of our own; None if there is no such one."""
    return pack_layouts(cache_dir(), tree, (both.before, both.after), column, rules) if column else None


def _is_configured(own: OwnBuild, line: ChangedLine) -> bool:
    """Whether a line that declares nothing is compiled, as far as its #ifs name options."""
    asked = (option.partition("=") for option in options_of(line))
    return not line.place.names | line.block and all(
        (own.config.get(option) in ("y", "m")) is (value == "y") for option, _, value in asked
    )


class Looks:
    """What was compiled without and with a patch, and found there.

    Attributes:
        lines: the lines of structures that the patch changes.
        found: what the patch breaks, and notes.
        names: the configurations.
        looks: without and with the patch, in each of them.
        structures: those that were looked at.
        why: why a structure could not be compiled.
        judged: whether the scheduler's structures were looked at.
        passed: whether a line is compiled although no compiler says so.
        helped: whether other configurations may have an option.
    """

    def __init__(
        self,
        patch: bytes,
        layouts: Callable[[Column | None, Rules], tuple[Layout, Layout] | None],
        texts: Texts,
        quiet: bool = False,
    ) -> None:
        self.patch, self._layouts, self._texts, self._quiet = patch, layouts, texts, quiet
        self.lines = changed_lines(texts)
        self._places: Mapping[str, tuple[str, int]] = {
            line.place.tag: (line.file, line.number) for line in reversed(self.lines) if not line.removed
        }
        self.found: list[Finding] = []
        self.names: list[str] = []
        self.looks: list[PatchLook] = []
        self.structures: set[str] = set()
        self.why: dict[str, str] = {}
        self.judged = False
        self.passed: Callable[[ChangedLine], bool] = lambda _: False
        self.helped: Callable[[str], bool] | None = None

    def at(self, column: Column | None, rules: Rules) -> PatchLook | None:
        """Look at the structures of rules in one configuration; None if there are none.

        Args:
            column: None: the one that its owner has built.
        """
        both = self._layouts(column, rules)
        if not both or not both[1].structures:
            return None
        name = both[1].name
        self.names += [name] * (name not in self.names)
        self.structures |= both[1].structures.keys() & rules.files.keys()
        look = PatchLook(rules, self.patch, *both, self._places)
        self.looks.append(look)
        # A configuration is tried for one line: what is broken everywhere is known.
        is_further = column is not None and "=" in column.config
        self._add(look.findings(self._quiet), {each.rule for each in self.found} - {""} if is_further else ())
        return look

    def _add(self, found: Collection[Finding], known: Collection[str] = ()) -> None:
        """Keep what was found. One note of a structure is enough."""
        noted = {each.tag for each in self.found}
        self.found += [each for each in found if each.tag not in noted or not (each.note or each.rule in known)]

    def changed(self) -> set[str]:
        """The structures that differ somewhere."""
        return {
            tag
            for look in self.looks
            for tag in self.structures
            if look.before.structures.get(tag) != look.after.structures.get(tag)
        }

    def plain(self, rules: Rules, packs: Rules) -> list[ChangedLine]:
        """The changed lines of structures without a contract."""
        known = {*rules.types(), *packs.types()}
        return [line for line in self.lines if line.place.tag not in known]

    def blind(self) -> list[ChangedLine]:
        """The changed lines that no compiler saw."""
        return [
            line
            for line in unseen(self.lines, [(each.before, each.after) for each in self.looks])
            if not self.passed(line)
        ]

    def further(self, own: Column, rules: Rules, packs: Rules) -> None:
        """Look at what was not compiled so far, with the options that it names.

        Args:
            own: the configuration of packs, for structures without a contract.
        """
        plain = self.plain(rules, packs)
        self.without_contract(own, plain)
        for wanted in dict.fromkeys(options_of(line) for line in self.blind()):
            blind = [line for line in self.blind() if options_of(line) == wanted]
            for base, held in ((TIGHTEST, rules), (_PACKS, packs)):
                if wanted and any(line.place.tag in held.types() for line in blind):
                    self.at(Column(own.arch, "+".join((base, *wanted))), held)
            if wanted:
                self.without_contract(Column(own.arch, "+".join((_PACKS, *wanted))), set(blind) & set(plain))

    def without_contract(self, column: Column | None, lines: Collection[ChangedLine]) -> None:
        """Look at changed structures that have no contract, file by file: not each file can be compiled."""
        for file in dict.fromkeys(line.file for line in lines):
            tags = {line.place.tag: file for line in lines if line.file == file}
            try:
                look = self.at(column, Rules((), (), files=tags))
            except DoesNotBuild as error:
                self.why |= dict.fromkeys(tags, f"{file} does not compile: {error.observed.splitlines()[-1].strip()}")
                continue
            if look:
                self._add([each for tag in tags for each in look.told(tag, quiet=self._quiet)])

    def not_looked_at(self, rules: Rules, packs: Rules) -> list[Finding]:
        """What no compiler saw, and members of contracts that the sources have lost."""
        old, new = ({file: both[side] or None for file, both in self._texts.items()} for side in (0, 1))
        lost = [each for held in (rules, packs) for each in lost_members(held, old.get, new.get, self.found)]
        return [*not_compiled(self.blind(), self.names, self.why, self._hint), *lost, *redefined(self.patch)]

    def _hint(self, options: Sequence[str]) -> str:
        """What may compile lines that need some options; empty if nothing does."""
        names = [option.partition("=")[0] for option in options]
        is_helped = self.helped is not None and names and all(map(self.helped, names))
        return f": {OURS} looks in schedline's own configurations" if is_helped else ""
