# SPDX-License-Identifier: GPL-2.0
"""tree and patch -> layouts without and with it -> what it breaks, in the form of checkpatch, b4 or SARIF 2.1.0.

GitHub and others show SARIF beside the lines of a change."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Literal

import msgspec

from schedlib import TOOL
from schedlib.contracts.contract_rules import Rule, Rules, our_rules, pack_rules
from schedlib.contracts.struct_source import bodies, in_words
from schedlib.errors import DoesNotBuild, SchedlineError
from schedlib.kernel.build import first_error
from schedlib.layout.compile import Column
from schedlib.layout.kernel_versions import PATIENCE, TIGHTEST, CommitVersions, opened
from schedlib.layout.layout_options import LayoutOptions
from schedlib.layout.own_build import OURS, Versions, chosen_build
from schedlib.layout.patch_coverage import (
    ChangedLine,
    changed_lines,
    not_compiled,
    options_of,
)
from schedlib.layout.patch_findings import Finding, PatchLook, lost_members, of_other_architectures, redefined
from schedlib.layout.patch_text import added_lines, as_applied, removed_lines
from schedlib.layout.rule_judge import few
from schedlib.layout.variables import redefined_variables
from schedlib.names import pack_names
from schedlib.options import DEFAULT_SERIES
from schedlib.progress import counted, only_on_a_terminal, say, step
from schedlib.verdict import Verdict

_PACKS = "packs"

_MOST_TOLD = 5
"""Structures without a contract that are told one by one."""


def judge_patch(options: LayoutOptions, patch: bytes, form: str) -> Verdict:
    """Print what a patch breaks, and nothing else unless `verbose` asks for it.

    Where the tree was built its own compiler, configuration and commands are used, unless the options name others.
    b4 takes each line on stderr for a failed check, so progress is for terminals only.
    """
    rules, packs = our_rules(), pack_rules(pack_names(), options.contracts)
    own = chosen_build(options)
    # git names the index for a hook, and b4 its form or --quiet, which --install-hook writes.
    is_hook = options.quiet or form == "b4" or "GIT_INDEX_FILE" in os.environ
    if own is None and not is_hook and not sys.stderr.isatty():
        where = options.tree.kdir or options.tree.series or DEFAULT_SERIES
        say(f"compiling {where} in schedline's own configurations: a minute, unless the cache has them")
    with only_on_a_terminal(), opened(options, patch) as versions:
        looks = Looks(patch, versions, options.quiet)
        told = f"compiling without and with the patch, as in {own.build}" if own else ""
        with step(told, after=PATIENCE) if told else nullcontext():
            is_judged = True
            if own and rules.files.keys().isdisjoint(packs.files):
                # One unit shows all that a file declares. What the patch does not reach stays as it is.
                looks.at(None, rules.together(packs))
            else:
                for column in versions.columns:
                    looks.at(column, rules)
                # The structures of packs have a configuration of their own: what they pass says nothing of the
                # scheduler's.
                is_judged = bool(looks.looks or own)
                for column in versions.pack_columns:
                    looks.at(column, packs)
            looks.further(versions.pack_columns[0], rules, packs)
        missed = looks.not_looked_at(rules, packs)
        found = [*looks.found, *missed]
    if text := render((*rules.rules, *packs.rules), found, form):
        print(text)
    errors = sum(each.error for each in found)
    if versions.is_there and not options.of_git and not is_hook:
        say("the tree has this patch already: it was compared with the tree before it")
    if options.verbose or (sys.stdout.isatty() and form == "text"):
        print(_looked_at(looks, errors, sum(not each.error and not each.note for each in found)))
    if errors:
        return Verdict.FAIL
    if not is_judged:
        say("the scheduler's structures were not looked at\n  next: choose another --arch or --config")
    return Verdict.INCONCLUSIVE if missed or not is_judged else Verdict.PASS


def _looked_at(looks: Looks, errors: int, warnings: int) -> str:
    changed = f"changed: {few(looks.changed)}" if looks.changed else "none changed"
    broken = counted(errors, "error") if errors else "nothing broken"
    more = f", {counted(warnings, 'warning')}" if warnings else ""
    more += "".join(f"; not followed into other files: {text}" for text in looks.not_followed())
    lines = sum(not line.moved for line in looks.lines)
    return (
        f"looked at {counted(len(looks.structures), 'structure')} ({changed}) "
        f"on {counted(len(looks.names), 'configuration')} ({', '.join(looks.names)}), at "
        f"{lines - len(looks.blind())} of {counted(lines, 'changed line')} inside of "
        f"structures: {broken}{more}"
    )


class Looks:
    """What was compiled without and with a patch, and found there.

    Attributes:
        lines: the lines of structures that the patch changes.
        found: what the patch breaks, and notes.
        looks: without and with the patch, for some rules in one configuration each.
        why: why a structure could not be compiled.
    """

    def __init__(self, patch: bytes, versions: Versions | CommitVersions, quiet: bool = False) -> None:
        self.patch = as_applied(patch, {file: both[1] for file, both in versions.texts.items()})
        self._versions, self._quiet = versions, quiet
        self.lines = changed_lines(versions.texts)
        self._places: dict[str, dict[str, int]] = {}
        for line in sorted(self.lines, key=lambda line: line.removed):
            self._places.setdefault(line.tag, {}).setdefault(line.file, line.number)
        self._asked: dict[str, frozenset[str]] = {}
        for line in self.lines:
            self._asked[line.tag] = self._asked.get(line.tag, frozenset()) | line.asked
        self.found: list[Finding] = []
        self.looks: list[PatchLook] = []
        self.why: dict[str, str] = {}
        self._declared = cache(self._declared_in)

    @property
    def names(self) -> list[str]:
        """The configurations."""
        return list(dict.fromkeys(look.after.name for look in self.looks))

    @property
    def structures(self) -> set[str]:
        """Those that were looked at."""
        return {tag for look in self.looks for tag in look.after.structures.keys() & look.rules.files.keys()}

    @property
    def changed(self) -> list[str]:
        """Those that differ somewhere."""
        pairs = [(look.before.structures, look.after.structures) for look in self.looks]
        # What a patch moves to another file was elsewhere before.
        known = {tag: its for old, _ in pairs for tag, its in old.items()}
        unlike = {tag for old, new in pairs for tag in new if old.get(tag, known.get(tag)) != new[tag]}
        return sorted(unlike & self.structures)

    def at(self, column: Column | None, rules: Rules) -> PatchLook | None:
        """Look at the structures of rules in one configuration, None being its owner's; None if there are none."""
        both = self._versions.layouts(column, replace(rules, asked=self._asked), self.why)
        if not both or not (both[0].structures or both[1].structures):
            return None
        # Two files may have a structure of the same name.
        places = {}
        for tag, its in self._places.items():
            file = rules.files.get(tag, "")
            places[tag] = (file, its[file]) if file in its else next(iter(its.items()))
        look = PatchLook(rules, self.patch, *both, places)
        self.looks.append(look)
        # A configuration is tried for one line: what is broken everywhere is known.
        is_further = column is not None and "=" in column.config
        self._add(look.findings(self._quiet), {each.rule for each in self.found} - {""} if is_further else ())
        return look

    def _add(self, found: Collection[Finding], known: Collection[str] = ()) -> None:
        """Keep what was found. One note of a structure is enough."""
        noted = {each.tag for each in self.found}
        self.found += [each for each in found if each.tag not in noted or not (each.note or each.rule in known)]

    def blind(self) -> list[ChangedLine]:
        """The changed lines that no compiler saw, but for those that only went to another file."""
        return [
            line
            for line in self.lines
            if not line.moved
            and not line.is_seen((each.before, each.after) for each in self.looks if self._is_of(line, each.rules))
        ]

    def _is_of(self, line: ChangedLine, rules: Rules) -> bool:
        """Whether rules are about the structure of a line, and not about one of the same name in another file."""
        tag = line.tag
        file = rules.files.get(tag, line.file)
        return tag in rules.files and (file == line.file or tag not in self._declared(file, not line.removed))

    def _is_judged(self, line: ChangedLine, rules: Rules) -> bool:
        return line.tag in rules.types() and self._is_of(line, rules)

    def _declared_in(self, file: str, side: int) -> Collection[str]:
        texts = self._versions.texts
        text = texts[file][side] if file in texts else self._versions.text.read(file) or ""
        return {body.tag for body in bodies(text)}

    def further(self, own: Column | None, rules: Rules, packs: Rules) -> None:
        """Look at what was not compiled so far, with the options that it names; an owner's build has no others.

        `own`: the configuration of packs, for structures without a contract.
        """
        plain = [line for line in self.lines if not self._is_judged(line, rules) and not self._is_judged(line, packs)]
        known = {*rules.types(), *packs.types(), *(line.tag for line in plain)}
        self._without_contract(own, plain, [row for row in self._versions.followed.structures if row[1] not in known])
        if own is None:
            return
        for wanted in filter(None, dict.fromkeys(map(options_of, self.blind()))):
            blind = [line for line in self.blind() if options_of(line) == wanted]
            for base, held in ((TIGHTEST, rules), (_PACKS, packs)):
                if any(self._is_judged(line, held) for line in blind):
                    self.at(Column(own.arch, "+".join((base, *wanted))), held)
            self._without_contract(Column(own.arch, "+".join((_PACKS, *wanted))), set(blind) & set(plain))

    def _without_contract(
        self, column: Column | None, lines: Collection[ChangedLine], more: Collection[tuple[str, str]] = ()
    ) -> None:
        """Look at changed structures that have no contract, file by file: not each file can be compiled.

        `more`: files, and structures in them that may change, too.
        """
        looked: list[tuple[PatchLook, str]] = []
        rows = [*((line.file, line.tag) for line in lines), *more]
        for file in dict.fromkeys(file for file, _ in rows):
            tags = {tag: file for where, tag in rows if where == file}
            try:
                look = self.at(column, Rules((), (), files=tags))
            except DoesNotBuild as error:
                error_line = first_error(error.observed).splitlines()[0].strip()
                what = f"{file} does not compile"
                self.why |= dict.fromkeys(tags, error_line if error_line.startswith(what) else f"{what}: {error_line}")
                continue
            looked += [(look, tag) for tag in tags] if look else []
        # A structure that goes to another file is not a new one.
        known = {tag: look.before for look, tag in looked if tag in look.before.structures}
        stays = {tag for look, tag in looked if tag in look.before.structures and tag in look.after.structures}
        told = [
            (look if tag in stays else replace(look, before=known.get(tag, look.before)), tag)
            for look, tag in looked
            if tag in look.after.structures and (tag in look.before.structures or tag not in stays)
        ]
        found = [each for look, tag in told for each in look.told(tag, quiet=self._quiet)]
        if (rest := found[_MOST_TOLD:]) and more:
            text = (
                f"{counted(len(rest), 'more structure')} without a contract changed: {few([each.tag for each in rest])}"
            )
            found[_MOST_TOLD:] = [replace(rest[0], text=text)]
        self._add(found)

    def not_looked_at(self, rules: Rules, packs: Rules) -> list[Finding]:
        """What no compiler saw, and as errors members of contracts that the sources have lost."""
        old, new = ({file: both[side] or None for file, both in self._versions.texts.items()} for side in (0, 1))
        after = (body for text in new.values() for body in bodies(text or ""))
        moved = {body.tag: " ".join(line.text for line in body.lines) for body in after}
        lost = [each for held in (rules, packs) for each in lost_members(held, old.get, new.get, self.found, moved)]
        lines = self.blind()
        blind = [*not_compiled(lines, self.names, self.why, self._hint)]
        first = next(iter((*added_lines(self.patch), *removed_lines(self.patch))), ("-", 0))[:2]
        for tag in sorted(self.why.keys() - self.structures - {line.tag for line in lines}):
            text = f"not compiled: {in_words(tag)}, which depends on what the patch changes ({self.why[tag]})"
            blind.append(Finding(*first, False, "", text, tag=tag))
        archs = self._versions.archs
        others = of_other_architectures(self.patch, archs)
        was = self._versions.as_it_was()
        changed = {file: number for file, number, _ in (*removed_lines(self.patch), *added_lines(self.patch))[::-1]}
        unseen, read = self._versions.followed.lost, self._versions.read
        for file, what in unseen.items() if self._versions.own else ():
            # What another architecture has is told below. A tree may have gone on since it was built.
            if file not in read and (not file.startswith("arch/") or file.split("/")[1] in archs):
                text = f"not compiled: {what}. What depends on it was not looked at"
                blind.append(Finding(file, changed.get(file, 1), False, "", text))
        worse = {each.rule: each for look in self.looks for each in look.worse()}.values()
        return [*blind, *worse, *lost, *redefined(self.patch), *redefined_variables(self.patch), *was, *others]

    def not_followed(self) -> Collection[str]:
        """What may mean something else to structures without a contract in files that the patch does not change.

        In an owner's build this is a warning.
        """
        return () if self._versions.own else self._versions.followed.lost.values()

    def _hint(self, options: Sequence[str]) -> str:
        """What may compile lines that need some options; empty if nothing does."""
        own = self._versions.own
        is_helped = own and options and all(own.knows(option.partition("=")[0]) for option in options)
        return f": {OURS} looks in schedline's own configurations" if is_helped else ""


_SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NAME, _, _VERSION = TOOL.partition(" ")


def as_sarif(rules: Sequence[Rule], found: Sequence[Finding]) -> str:
    """A SARIF document with one run."""
    ids = [rule.id for rule in rules]
    told = [{"id": rule.id, "shortDescription": {"text": rule.reason}} for rule in rules]
    driver = {"name": _NAME, "version": _VERSION, "rules": told}
    results = []
    for each in found:
        file, region = {"uri": each.file, "uriBaseId": "%SRCROOT%"}, {"startLine": max(each.line, 1)}
        told_of = {
            "level": "error" if each.error else "warning",
            "message": {"text": each.text},
            "locations": [{"physicalLocation": {"artifactLocation": file, "region": region}}],
        }
        results += [{"ruleId": rule, "ruleIndex": ids.index(rule)} | told_of for rule in each.rules]
    document = {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


_ORDER = ("pass", "warn", "fail")

CheckRemark = tuple[Literal["pass", "warn", "fail"], str]
"""One line of the details, which b4 shows with its mark."""


def checks_text(checks: Iterable[tuple[str, str, Sequence[CheckRemark]]]) -> str:
    """What b4 reads of a check (b4.review-perpatch-check-cmd, b4.review-series-check-cmd), since 0.15: a JSON array.

    It is made from tool, summary and remarks of each result, which is as bad as the worst of its remarks.
    """
    rows = []
    for tool, summary, remarks in checks:
        status = max((status for status, _ in remarks), key=_ORDER.index, default="pass")
        details = [{"status": status, "description": said} for status, said in remarks]
        shown = json.dumps(details, ensure_ascii=False, separators=(",", ":"))
        rows.append({"tool": tool, "status": status, "summary": summary, "details": shown})
    return json.dumps(rows, indent=2, ensure_ascii=False)


def remarks(found: Sequence[Finding]) -> list[CheckRemark]:
    """Each finding as a line of b4's details; what is only told is none."""
    return [
        ("fail" if each.error else "warn", "; ".join(line.strip() for line in str(each).split("\n")))
        for each in found
        if not each.note
    ]


def as_b4(found: Sequence[Finding]) -> str:
    """One result with a remark for each finding; none when there are no findings."""
    said = remarks(found)
    broken = dict.fromkeys(rule for each in found if each.error for rule in each.rules)
    room = any(each.rule for each in found)
    summary = "takes room on lines that rules keep" if room else "changes lines that were not compiled"
    summary = f"breaks {', '.join(broken)}" if broken else summary
    return checks_text([(_NAME, summary, said)] if said else [])


def render(rules: Sequence[Rule], found: Sequence[Finding], form: str) -> str:
    """The findings in a form: text, b4 or sarif; empty text when there is nothing to print."""
    if form == "sarif":
        return as_sarif(rules, found)
    return as_b4(found) if form == "b4" else "\n".join(map(str, found))


def refused(error: SchedlineError) -> str:
    """An error for b4, which would otherwise show an exit code alone."""
    return checks_text([(_NAME, error.observed, [("warn", f"next: {error.next_step}")])])
