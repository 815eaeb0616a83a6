# SPDX-License-Identifier: GPL-2.0
"""What a patch does to structures, told by their layouts without and with it: what it breaks, takes and moves."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from schedlib.contracts.contract_rules import Rules, has_member
from schedlib.contracts.struct_source import in_words, without_comments
from schedlib.layout.headroom import guarded_lines, lines_with_less_room
from schedlib.layout.members import Member, Structure, root_of
from schedlib.layout.patch_text import FLAG, MAKEFILE, added_lines, removed_lines
from schedlib.layout.rule_judge import (
    ClauseResult,
    Layout,
    RuleOutcome,
    RuleResult,
    broken_by,
    few,
    happened,
    intruders,
    judge_clause,
    judge_rule,
    kept,
    offences,
)
from schedlib.names import our_headers
from schedlib.progress import counted

_MOST_SAID = 3
"""What happened, in the first line of a finding."""


@dataclass(frozen=True)
class Finding:
    """What is told of one line of a patch.

    Attributes:
        error: a broken rule; else it is a warning.
        rule: the first that it is about; empty where there is none.
        text: in one line what happened; below it, indented, what is kept and why.
        note: it is neither: only told.
        also: further rules that are broken by the same.
    """

    file: str
    line: int
    error: bool
    rule: str
    text: str
    note: bool = False
    tag: str = ""
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        kind = "ERROR" if self.error else "NOTE" if self.note else "WARNING"
        return f"{self.file}:{self.line}: {kind}: {self.text}"

    @property
    def rules(self) -> tuple[str, ...]:
        """All rules that it is about."""
        return (self.rule, *self.also) if self.rule else ()


def broken_rules(rules: Rules, before: Layout, after: Layout) -> Iterator[RuleResult]:
    """Each rule that held and no longer does, as it is now."""
    for rule in rules.rules:
        was, now = judge_rule(rules, rule.id, before), judge_rule(rules, rule.id, after, frozenset([rule.change]))
        if was.outcome is RuleOutcome.PASS and now.outcome is not RuleOutcome.PASS:
            yield now


def renamed(before: Layout, after: Layout) -> dict[str, dict[str, str]]:
    """The members that have another name and are otherwise as they were: by structure new names by the old ones."""
    found: dict[str, dict[str, str]] = {}
    for tag in before.structures.keys() & after.structures.keys():
        old, new = before.structures[tag], after.structures[tag]
        names: dict[str, str] = {}
        fresh = [each for each in new.members if old.member(each.name) is None]
        for member in (each for each in old.members if new.member(each.name) is None):
            same = (each.name for each in fresh if replace(each, name=member.name) == member)
            if now := next((each for each in same if each not in names.values()), None):
                names[member.name] = now
        if names:
            found[tag] = names
    return found


def with_old_names(before: Layout, after: Layout) -> Layout:
    """The layout with a patch, where members have the names that they had: a new name alone breaks no rule."""
    structures = dict(after.structures)
    for tag, names in renamed(before, after).items():
        was = {new: old for old, new in names.items()}
        members = (replace(each, name=was.get(each.name, each.name)) for each in structures[tag].members)
        structures[tag] = replace(structures[tag], members=tuple(members))
    return replace(after, structures=structures)


@dataclass(frozen=True)
class PatchLook:
    """Some structures without and with a patch, in one configuration.

    Attributes:
        places: the first line that the patch changes in a structure, as far as it changes one.
    """

    rules: Rules
    patch: bytes
    before: Layout
    after: Layout
    places: Mapping[str, tuple[str, int]]

    @cached_property
    def _renamed(self) -> Mapping[str, Mapping[str, str]]:
        return renamed(self.before, self.after)

    @cached_property
    def _named(self) -> Layout:
        return with_old_names(self.before, self.after)

    def findings(self, quiet: bool = False) -> list[Finding]:
        """What the patch breaks, then what it takes away, and a note of each structure that it changes otherwise.

        `quiet`: no note of a structure in which each line has the members that it had.
        """
        found = [*self._broken(), *self._lost(), *self._loose()]
        broken = {rule for each in found if each.error for rule in each.rules}
        known = {each.tag for each in found}
        notes = (note for tag in self.rules.types() if tag not in known for note in self.told(tag, quiet=quiet))
        return [*found, *self._with_less_room(broken), *notes]

    def _concerned(self) -> Rules:
        """The rules that both layouts may not agree on: about a structure that differs, or whose change does."""
        before, after, rules = self.before, self._named, self.rules
        if (before.line, before.holds, before.unknown) != (after.line, after.holds, after.unknown):
            return rules
        same = {tag for tag, structure in after.structures.items() if before.structures.get(tag) == structure}
        owners = {
            clause.rule
            for clause in rules.clauses
            if clause.type not in same
            or before.fields(clause.type, clause.named) != after.fields(clause.type, clause.named)
        }
        return replace(rules, rules=tuple(rule for rule in rules.rules if owners & {rule.id, rule.change}))

    def _finding(
        self,
        tag: str,
        text: str,
        near: Collection[str] = (),
        *,
        error: bool = False,
        rule: str = "",
        note: bool = False,
    ) -> Finding:
        """A finding about a structure and some of its members, at the added line that most likely caused it."""
        return Finding(*self._place(tag, near), error, rule, text, note, tag)

    def _pairs(self, after: Layout) -> Iterator[tuple[str, Structure, Structure]]:
        for tag in self.rules.types():
            if tag in self.before.structures and tag in after.structures:
                yield tag, self.before.structures[tag], after.structures[tag]

    def _broken(self) -> Iterator[Finding]:
        causes: dict[tuple[str, int, str], list[tuple[RuleResult, ClauseResult]]] = {}
        for now in broken_rules(self._concerned(), self.before, self._named):
            failed = [result for result in now.clauses if result.outcome is RuleOutcome.FAIL]
            for result in failed or now.clauses:
                tag = result.clause.type
                causes.setdefault((*self._place(tag, self._wrong(result)), tag), []).append((now, result))
        for (file, line, tag), rows in causes.items():
            said = list(dict.fromkeys(self._happened(*row) for row in rows))
            more = f"; and {len(said) - _MOST_SAID} more" if len(said) > _MOST_SAID else ""
            ids = list(dict.fromkeys(now.rule for now, _ in rows))
            what = f"{'; '.join(said[:_MOST_SAID])}{more} (struct {tag}, {self.after.name})"
            below: list[str] = []
            for rule in ids:
                its = (kept(result, self._named) for now, result in rows if now.rule == rule)
                below += dict.fromkeys(f"{rule}: {each}" for each in its)
                below.append(f"    why: {self.rules.rule(rule).reason}")
            text = "\n    ".join([f"{few(ids, _MOST_SAID)}: {what}", *below])
            yield Finding(file, line, True, ids[0], text, tag=tag, also=tuple(ids[1:]))

    def worse(self) -> Iterator[Finding]:
        """What the patch adds where a rule fails without it, too: that it breaks the rule cannot be said."""
        for rule in self._concerned().rules:
            was, now = (judge_rule(self.rules, rule.id, each) for each in (self.before, self._named))
            if not was.outcome is now.outcome is RuleOutcome.FAIL:
                continue
            for old, new in zip(was.clauses, now.clauses, strict=True):
                known = offences(old, self.before)
                more = [each for each in offences(new, self._named) if each not in known]
                if known and more:
                    ones = [name for name in {*new.clause.members} if not self.before.field(new.clause.type, name)]
                    hint = f". Here is no {few(sorted(ones))}: for a new name write `old|new`" if ones else ""
                    text = (
                        f"not judged: {rule.id} fails without the patch, too: {happened(old, self.before)}. "
                        f"With it: {happened(new, self._named, [each for _, each in known])}{hint}"
                    )
                    yield self._finding(new.clause.type, text, [each for _, each in more], rule=rule.id)
                    break

    def _happened(self, now: RuleResult, result: ClauseResult) -> str:
        if now.outcome is not RuleOutcome.FAIL:
            return f"can no longer be judged: {now.reason}"
        if result.outcome is not RuleOutcome.FAIL:
            return f"{self.rules.rule(now.rule).change} is not in this tree any more"
        was = judge_clause(result.clause, self.before)
        return happened(result, self._named, intruders(was, self.before))

    def _wrong(self, result: ClauseResult) -> list[str]:
        if result.outcome is not RuleOutcome.FAIL:
            return []
        wrong = {name for pair in broken_by(result, self._named) for name in pair}
        return [*intruders(result, self._named), *(each.member for each in result.named if each.member in wrong)]

    def _place(self, tag: str, wrong: Collection[str] = ()) -> tuple[str, int]:
        """The added line that most likely caused a finding, else the first one that the patch changes."""
        lines = [row for row in added_lines(self.patch) if row[0].endswith(".h")] or list(added_lines(self.patch))
        old, new = self.before.structures.get(tag), self._named.structures.get(tag)
        if old and new:
            fresh = [each.name for each in new.members if old.member(each.name) is None]
            moved = [each.name for each in new.members if each not in old.members and each.name not in fresh]
            touched = {*fresh, *moved}
            for name in (*(each for each in wrong if each in touched), *fresh, *moved):
                for file, number, text in lines:
                    if re.search(rf"\b{re.escape(name)}\b", text):
                        return file, number
        if tag in self.places:
            return self.places[tag]
        if lines:
            return lines[0][:2]
        match = re.search(rb"^--- (?:a/)?(\S+).*?^@@ -(\d+)", self.patch, re.M | re.S)
        return (match.group(1).decode(), int(match.group(2))) if match else ("-", 0)

    def _lost(self) -> Iterator[Finding]:
        """Members that are gone, or have another name, where a contract names them or the patch does not."""
        added, removed = (
            set(re.findall(r"\w+", " ".join(text for _, _, text in rows)))
            for rows in (added_lines(self.patch), removed_lines(self.patch))
        )
        for tag, old, new in self._pairs(self.after):
            names, silent = self._renamed.get(tag, {}), []
            for name in (each.name for each in old.members if new.member(each.name) is None):
                rule = _named_by(self.rules, tag, name, new)
                if name not in names and name not in removed:
                    silent.append(name)
                elif rule:
                    # A line that adds it may be in another structure, or under an option that is off here.
                    error = name not in added or name in names
                    became = f"{names[name]} now, and its contract names the old one" if name in names else ""
                    text = f"{rule}: {name} is {became or 'gone, and its contract names it'}"
                    text += f" (struct {tag}, {self.after.name})\n    correct the contract; `old|new` is both"
                    yield self._finding(tag, text, names.values(), error=error, rule=rule)
            if silent:
                where = f"struct {tag} has no {few(silent)} any more on {self.after.name}"
                yield self._finding(tag, f"{where}, and no removed line says so: an option or a macro changed")

    def _loose(self) -> Iterator[Finding]:
        """Members that begin a line by luck: an attribute did it, and is gone."""
        line = self.after.line
        for tag, old, new in self._pairs(self._named):
            told: set[int] = set()
            # The empty ones come last: a padding is told as what lies behind it.
            for member in sorted(new.members, key=lambda each: not each.size):
                was = old.member(member.name)
                if was is None or not _aligned(old, was) >= line > _aligned(new, member):
                    continue
                if member.offset % line or member.offset in told:
                    continue
                told.add(member.offset)
                rule = _named_by(self.rules, tag, member.name)
                text = (
                    f"{member.name} lost its alignment, and begins line {self.after.line_of(member.offset)} only "
                    f"because of what lies before it (struct {tag}, {self.after.name})"
                )
                text = f"{rule}: {text}" if rule else text
                yield self._finding(tag, text, [member.name], rule=rule, note=not rule)

    def _with_less_room(self, broken: Collection[str]) -> Iterator[Finding]:
        """Guarded lines with less room than before, and what to do about it."""
        rules = self._concerned()
        both = guarded_lines(rules, self.before), guarded_lines(rules, self._named)
        for old, new in lines_with_less_room(*both):
            if not set(broken).isdisjoint(new.rules):
                continue
            said = [f"{old.free} bytes of it were unused, now {new.free}"] if new.free < old.free else []
            if new.left < old.left:
                ended = f"ended {old.left} bytes before its end, now {new.left}"
                said.append(f"{new.members[-1]}, the last member, {ended}")
            full = ". The next pointer put before that member breaks the rule" if new.is_full else ""
            where = f"line {new.line} of struct {new.type} on {self.after.name}"
            text = (
                f"{', '.join(new.rules)}: less room on {where}: {'; '.join(said)}{full}\n"
                f"    if what it adds is not used together with {few(new.members)}, move it to another line "
                f"(pahole -C {new.type} shows the holes); otherwise there is nothing to do"
            )
            yield self._finding(new.type, text, rule=new.rules[0])

    def told(self, tag: str, *, quiet: bool = False) -> Iterator[Finding]:
        """A note of what became of a structure, in at most six lines."""
        before, after = self.before, self.after
        old, new = before.structures.get(tag), after.structures.get(tag)
        if new is None or _places(old) == _places(new):
            return
        which = in_words(tag) + ("" if tag in self.rules.types() else ", which has no contract")
        size = f"{_size(new, after)} of {after.line}"
        if old is None:
            yield self._finding(tag, f"{which}: new, {size}, on {after.name}", note=True)
            return
        names = self._renamed.get(tag, {})
        was_on = {names.get(each.name, each.name): before.line_of(each.offset) for each in old.members}
        there = [(each.name, after.line_of(each.offset)) for each in new.members if each.size]
        fresh: dict[int, list[str]] = {}
        for name, line in there:
            if name not in was_on:
                fresh.setdefault(line, []).append(name)
        moved = [name for name, line in there if was_on.get(name, line) != line]
        if quiet and not fresh and not moved:
            return
        was_size = _size(old, before)
        became = " as before" if _size(new, after) == was_size else f" became {size}"
        rows = [f"{which}: {was_size}{became}, on {after.name}"]
        for line, its in list(fresh.items())[:2]:
            beside = [name for name, at in there if at == line and name not in its]
            rows.append(f"new on line {line}: {few(its)}{f', beside {few(beside)}' if beside else ''}")
        if len(fresh) > 2:
            rows[-1] += f"; more on {counted(len(fresh) - 2, 'other line')}"
        gone = [each.name for each in old.members if each.name not in names and not new.member(each.name)]
        others = {"on another line": moved, "with another name": [f"{one} is {other}" for one, other in names.items()]}
        rows += [f"{what}: {few(its)}" for what, its in (others | {"gone": gone}).items() if its]
        if len(rows) == 1:
            rows.append("no member is on another line")
        yield self._finding(tag, "\n    ".join(rows), note=True)


def _named_by(rules: Rules, tag: str, name: str, new: Structure | None = None) -> str:
    """The first rule that is about a member; empty if there is none, or if it names one that `new` has in its place."""
    ids = {rule.id for rule in rules.rules}
    for owner, names, _ in rules.members:
        roots = set(map(root_of, names))
        if owner == tag and name in roots and not (new and any(map(new.member, roots))):
            its = (each for each in rules.clauses if each.type == tag and each.rule in ids)
            return next((each.rule for each in its if not roots.isdisjoint(map(root_of, each.named))), "")
    return ""


def _aligned(structure: Structure, member: Member) -> int:
    """What attributes demand where a member begins, be it of the padding in front of it, or of what it is in."""
    empty = [(each.offset, each.align) for each in structure.members if not each.size]
    around = [(each.offset, each.align) for each in structure.unnamed]
    return max([member.align, *(align for offset, align in (*empty, *around) if offset == member.offset)])


def _places(structure: Structure | None) -> tuple[int, list[tuple[str, int, int, int]]] | None:
    """What tells whether a structure changed: a type of the same size may have another name."""
    rows = [(each.name, each.offset, each.size, each.bits) for each in structure.members] if structure else []
    return (structure.type.size, rows) if structure else None


def _size(structure: Structure, layout: Layout) -> str:
    return f"{structure.type.size} bytes on {counted(layout.lines(structure.type.size), 'line')}"


def lost_members(
    rules: Rules,
    before: Callable[[str], str | None],
    after: Callable[[str], str | None],
    told: Sequence[Finding] = (),
    bodies: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Finding]:
    """Each member of a contract that its source no longer has in any configuration: without it less is held.

    Args:
        before, after: return the text of a file without and with the patch; None if there is no such file.
        told: findings that tell it already.
        bodies: what the patch leaves or puts between the braces of structures, in whatever file, by tag.
    """
    known = {each.tag for each in told if each.error}
    ours = our_headers()
    for tag, names, _ in rules.members:
        files = ours if rules.files[tag] in ours else (rules.files[tag],)
        old, new = (without_comments("\n".join(read(file) or "" for file in files)) for read in (before, after))
        new += bodies.get(tag, "")
        # A member of another structure may have the name, where the contract's own is not in this tree.
        there = re.search(rf"\b{re.escape(tag)}\b", old)
        if there and tag not in known and old != new and has_member(old, names) and not has_member(new, names):
            rule = _named_by(rules, tag, root_of(names[0]))
            what = f"{' or '.join(names)} is gone, and the contract of struct {tag} names it"
            text = f"{rule}: {what}\n    correct the contract; `old|new` is both"
            yield Finding(rules.files[tag], 1, True, rule, text, tag=tag)


def redefined(patch: bytes) -> Iterator[Finding]:
    """Options that a patch defines in C: any structure may depend on them."""
    for file, number, line in added_lines(patch):
        if found := re.match(r"\s*#\s*(undef|define)\s+(CONFIG_\w+)", line):
            text = f"#{found[1]} {found[2]}: structures without a contract that depend on it were not looked at"
            yield Finding(file, number, False, "", text)


def as_it_was(files: Mapping[str, tuple[bytes | None, bytes | None]], config: Mapping[str, str]) -> Iterator[Finding]:
    """What a build has as it was before a patch, although types may depend on it: options, and the compiler's."""
    rest = "your build has it as it was. What depends on it was not looked at"
    for file, both in files.items():
        old, new = ((data or b"").decode(errors="replace").splitlines() for data in both)
        if file.rpartition("/")[2].startswith("Kconfig"):
            was, now = _kconfig(old), _kconfig(new)
            for name in [each for each in was if was[each][1] != now.get(each, (0, []))[1]]:
                number, what = now.get(name, (1, []))[0], name if name.startswith("choice, ") else f"CONFIG_{name}"
                yield Finding(file, number, False, "", f"{what}: the patch changes this option, and {rest}")
            for name, (number, said) in now.items():
                # An option that is on where nobody chose it, and what it turns on.
                on = [each for each in said if re.match(r"def_(?:bool|tristate)\s+[ym]|default\s+[ym]", each)]
                if name not in was and on and config.get(f"CONFIG_{name}") is None:
                    text = f"CONFIG_{name}: the patch adds this option, which is on unless turned off, and your build "
                    yield Finding(file, number, False, "", f"{text}lacks it. What depends on it was not looked at")
        elif MAKEFILE.search(file):
            flags = [line for line in (*old, *new) if FLAG.search(line) and (line in old) != (line in new)]
            for line in flags[:1]:
                number = (new if line in new else old).index(line) + 1
                yield Finding(file, number, False, "", f"{line.strip()}: the patch changes it, and {rest}")


def _kconfig(lines: Sequence[str]) -> dict[str, tuple[int, list[str]]]:
    """By its name the first line of each option and choice, and what is said of it, and around it, without help."""
    found: dict[str, tuple[int, list[str]]] = {}
    choices: list[tuple[int, list[str]]] = []
    around: list[list[str]] = []
    inside: list[str] = []
    help_from = 0
    for number, line in enumerate(lines, 1):
        word, rest = (*line.split(None, 1), "", "")[:2]
        indent = len(line.expandtabs()) - len(line.expandtabs().lstrip())
        if not word or word.startswith("#") or 0 < help_from <= indent:
            continue
        # The first line of a help text says how far it is indented.
        if help_from < 0:
            help_from = indent
            continue
        help_from = -1 if word.strip("-") == "help" else 0
        if word in ("config", "menuconfig"):
            inside = found.setdefault(rest.strip(), (number, [each for its in around for each in its]))[1]
        elif word in ("if", "menu", "choice"):
            inside = [line.strip()] if word == "if" else []
            around.append([] if word == "choice" else inside)
            choices += [(number, inside)] if word == "choice" else []
        elif word in ("endif", "endmenu", "endchoice"):
            del around[-1:]
            inside = []
        elif not help_from:
            inside.append(line.strip())
    named = ((next((each for each in row[1] if each.startswith("prompt")), ""), row) for row in choices)
    return found | {f"choice, {prompt}": row for prompt, row in named}


def of_other_architectures(patch: bytes, archs: Collection[str]) -> Iterator[Finding]:
    """Headers of others than these directories of arch/, in which a patch changes what types may depend on."""
    told: set[str] = set()
    for file, number, line in (*added_lines(patch), *removed_lines(patch)):
        found = re.match(r"arch/(\w+)/.*\.h$", file)
        # A macro, a typedef or an enumerator, but no include guard.
        what = re.match(
            r"\s*#\s*(?:define|undef)\s+(?!\w+_H_*$)\w+(?!\w|\()|typedef\b|\s*[A-Za-z_]\w*\s*(?:=.*)?,$", line
        )
        if found and found[1] not in archs and file not in told and what:
            told.add(file)
            text = f"{line.strip()}: what was looked at is not of {found[1]}, whose types may depend on it"
            yield Finding(file, number, False, "", text)
