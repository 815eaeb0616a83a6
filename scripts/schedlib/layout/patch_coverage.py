# SPDX-License-Identifier: GPL-2.0
"""What of a patch a compiler saw: its lines in structures, and what its names mean to other files.

What was not compiled was not judged.

A line in a structure is found by the structure's braces at the left margin, as in the kernel's style. Whether it was
compiled is asked of the compiler: the structure is there, and each #if around the line is true.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

from schedlib.contracts.struct_source import bodies, in_words, without_comments
from schedlib.git import try_git
from schedlib.layout.pack_units import GUARD
from schedlib.layout.patch_findings import Finding
from schedlib.layout.rule_judge import Layout, few
from schedlib.layout.unit_build import Said, changed_names, changed_types, differing, mentions
from schedlib.tree.kernel_tree import Tree

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_OPTION = re.compile(r"(!\s*(?:defined\s*\(?\s*|IS_ENABLED\s*\(\s*)?)?\b(CONFIG_\w+)")
_SWITCHES = re.compile(r"(?!.*!\s*\()(?:[!()\s]|&&|\|\||\bdefined\b|\bIS_\w+|\bCONFIG_\w+)*")
"""A condition of which options_of() tells all."""
_PROGRAMS = ("tools/", "scripts/", "usr/", "Documentation/")


@dataclass(frozen=True)
class ChangedLine:
    """A line of a structure that a patch adds or removes, or puts under other conditions.

    Attributes:
        tag: of the structure at the left margin.
        guards: the conditions under which it is compiled.
        removed: then `number` counts in the file before the patch.
        moved: the structure is in another file now, and has the line there.
    """

    file: str
    number: int
    tag: str
    guards: tuple[str, ...]
    removed: bool = False
    moved: bool = False

    @property
    def asked(self) -> frozenset[str]:
        """The conditions, as a unit asks for them."""
        return frozenset(f"{GUARD}{self.tag}{GUARD}{guard}" for guard in self.guards)

    def is_seen(self, pairs: Iterable[tuple[Layout, Layout]]) -> bool:
        """Whether some compiler saw it, in layouts without and with the patch."""
        layouts = (pair[not self.removed] for pair in pairs)
        return any(self.tag in layout.structures and self.asked <= layout.holds for layout in layouts)


def places(text: str) -> dict[int, tuple[str, tuple[str, ...]]]:
    """The lines of a file that are inside of structures, by their number: tag, and conditions."""
    found: dict[int, tuple[str, tuple[str, ...]]] = {}
    # Where the file ends, a macro of its own says nothing of where the structure began: it may be its include guard.
    own = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.M))
    for body in bodies(text):
        around = tuple(guard for guard in body.guards if own.isdisjoint(re.findall(r"\w+", guard)))
        found[body.number] = body.tag, around
        for line in body.lines:
            if line.text.strip():
                found[line.number] = body.tag, (*around, *line.guards[len(body.guards) :])
    return found


Texts = Mapping[str, tuple[str, str]]
"""Files of a kernel without and with a patch; "" if there is none."""


def of_kernel(file: str) -> bool:
    """Whether a file is a source or header of the kernel, and not of a program that runs beside it."""
    return file.endswith((".h", ".c")) and not file.startswith(_PROGRAMS)


def changed_texts(tree: Tree, before: str, after: str) -> Texts:
    """The headers and sources in which two commits differ."""
    names = filter(of_kernel, differing(tree, before, after))
    return {name: (tree.read(name, before) or "", tree.read(name, after) or "") for name in names}


def depending(file: str, text: str, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """A file, and each structure there that some names mean; see changed_types()."""
    for tag in (body.tag for body in bodies(text)):
        sort, _, name = tag.rpartition(" ")
        if {"": f"struct {name}", "union": tag}.get(sort, name) in names:
            yield file, tag


def changed_lines(texts: Texts) -> list[ChangedLine]:
    """The lines of structures that differ, or are under other conditions. Blank lines and comments do not count."""
    found: list[ChangedLine] = []
    moving: tuple[_Bodies, _Bodies] = {}, {}
    for file, both in sorted(texts.items()):
        old, new = map(places, both)
        if not (old or new):
            continue
        was, now = 1, 1
        rows = [map(int, hunk.groups("1")) for hunk in _HUNK.finditer(_diff(*both))]
        lines = [without_comments(text).split("\n") for text in both]
        for its, others, rest, side in zip((old, new), (new, old), lines, moving, strict=True):
            for tag in {tag for tag, _ in its.values()}.difference(tag for tag, _ in others.values()):
                side[tag] = {(file, at): (guards, rest[at - 1].split()) for at, (t, guards) in its.items() if t == tag}
        for start, count, other, more in (*rows, (both[0].count("\n") + 2, 0, 0, 0)):
            # A hunk without lines names the line before it.
            until = start + (not count)
            for number in range(was, until):
                one, two = old.get(number), new.get(number + now - was)
                if one and two and one[1] != two[1]:
                    found.append(ChangedLine(file, number + now - was, *two))
            begin = other + (not more)
            changed = (range(until, until + count), range(begin, begin + more))
            code = [
                [text.split() for at in its if (text := side[at - 1])] for its, side in zip(changed, lines, strict=True)
            ]
            if code[0] != code[1]:
                found += [ChangedLine(file, at, *old[at], True) for at in changed[0] if at in old]
                found += [ChangedLine(file, at, *new[at]) for at in changed[1] if at in new]
            was, now = until + count, begin + more
    same = (set(_in_both(*moving)), set(_in_both(*moving[::-1])))
    return [replace(line, moved=(line.file, line.number) in same[not line.removed]) for line in found]


_Bodies = dict[str, dict[tuple[str, int], tuple[tuple[str, ...], list[str]]]]
"""Structures that a file has on one side only: by tag the place, the conditions and the words of each line."""


def _in_both(these: _Bodies, those: _Bodies) -> Iterator[tuple[str, int]]:
    """The places of the lines that are the same in structures of others."""
    for tag in these.keys() & those.keys():
        places, here, there = [*these[tag]], [*map(repr, these[tag].values())], [*map(repr, those[tag].values())]
        for block in SequenceMatcher(None, here, there, autojunk=False).get_matching_blocks():
            yield from places[block.a : block.a + block.size]


def _diff(old: str, new: str) -> str:
    with TemporaryDirectory(prefix="schedline-") as name:
        for side, text in (("old", old), ("new", new)):
            Path(name, side).write_text(text)
        return try_git(Path(name), "diff", "--no-index", "--no-color", "-U0", "old", "new").stdout.decode()


def options_of(line: ChangedLine) -> tuple[str, ...]:
    """The options that its #ifs name, as lines of a configuration; none of an #else of several, or of a number."""
    guards = (guard for guard in line.guards if not re.search(r"!\s*\(|[<>=]", guard))
    found = {option: "n" if no else "y" for guard in guards for no, option in _OPTION.findall(guard)}
    return tuple(f"{option}={value}" for option, value in sorted(found.items()))


def not_compiled(
    lines: Sequence[ChangedLine],
    looked: Sequence[str],
    why: Mapping[str, str],
    hint: Callable[[Sequence[str]], str] = lambda _: "",
) -> Iterator[Finding]:
    """One warning for the lines of each structure and condition.

    Args:
        looked: the names of the configurations.
        why: why a structure could not be compiled at all.
        hint: what would compile lines that need some options.
    """
    groups: defaultdict[tuple[str, str, tuple[str, ...], tuple[str, ...], bool], list[int]] = defaultdict(list)
    for line in lines:
        known = all(map(_SWITCHES.fullmatch, line.guards))
        groups[line.file, line.tag, options_of(line) if known else (), line.guards * (not known), line.removed].append(
            line.number
        )
    for (file, tag, options, guards, removed), numbers in groups.items():
        is_dead = "0" in guards
        needs = " ".join(options) or " && ".join(guards)
        condition = ", under #if 0" if is_dead else f", which needs {needs}" if needs else ""
        reason = f" ({why[tag]})" if tag in why else ""
        many = len(numbers) > 1
        where = f"{len(numbers)} lines from {numbers[0]} on of" if many else f"line {numbers[0]} of"
        where = f"{len(numbers)} line{'s' * many} that it removes from" if removed else where
        text = (
            f"not compiled in {', '.join(looked) or 'any configuration'}: {where} {in_words(tag)}{condition}{reason}. "
            f"What the patch does there was not looked at{'' if is_dead else hint(options)}"
        )
        yield Finding(file, numbers[0], False, "", text, tag=tag)


_NO_MEMBER = re.compile(r"^struct \w+;|^[A-Z]\w+\(.*|\b(?:container_of|offsetof)\(.*|/\*(?:[^*]|\*(?!/))*", re.M)
"""Where a structure's name does not make it a member of another."""

_DECIDES = re.compile(r"#(?!\s*(?:pragma\s+once|define|undef)\b)|[A-Z_][A-Z0-9_]*\s*\(.*[^;]$|__\w+\(")
"""A line that may decide what others mean: a directive, or a use of a macro that is no statement."""

_INCLUDE = re.compile(r"#\s*include\b")


class Readers(Protocol):
    """The .c files of a kernel that show what its headers mean, without (0) and with (1) a patch."""

    def readers_of(self, file: str) -> Iterable[str]:
        """Some that read a file."""

    def read_by(self, source: str) -> Collection[str]:
        """The files that one reads."""

    def said(self, source: str) -> tuple[Said | None, Said | None]:
        """What one says, with all that it includes, for both; None if that fails."""


class Followed(NamedTuple):
    """What means something else with a patch.

    Attributes:
        names: see changed_types().
        structures: files, and structures in them that may change with it.
        lost: changed headers, and what of them no compiler saw.
    """

    names: Collection[str]
    structures: Collection[tuple[str, str]]
    lost: Mapping[str, str]


def follow(texts: Texts, read: Callable[[str], str | None], readers: Readers) -> Followed:
    """Look for what the names in changed files mean to others.

    A .c file that reads a changed header shows the structures of other files; without one the header's text alone does.

    Args:
        read: the text of a file.
    """
    names, rows, lost = list[str](), list[tuple[str, str]](), dict[str, str]()
    shown = cache(lambda source: _shown(readers, source))
    for file, both in texts.items():
        bare = [without_comments(text) for text in both]
        its, seen, deciding = changed_types(*bare), list[str](), _deciding(*bare)
        conditions = "\n".join(re.findall(r"^[ \t]*#[ \t]*(?:el)?if.*", both[1], re.M))
        unlike = deciding or any(True for name in its for _ in mentions(conditions, name))
        if unlike or (its and file.endswith(".h")):
            known = [*readers.readers_of(file)]
            used = (each for each in known if unlike or _is_used(its, {*readers.read_by(each), each} - {file}, read))
            if not known:
                words = [name for name in its if " " not in name and re.search(rf"\b{name}\b", bare[0])]
                words = words or [each for each in deciding if bare[0] and not _INCLUDE.match(each)]
                if words and file.endswith(".h"):
                    lost[file] = f"{few(words)}, which nothing reads that is compiled"
            elif reader := next(used, None):
                found = shown(reader)
                if found is None:
                    lost[file] = f"{reader}, which reads {file}"
                seen = found or []
                rows += [(reader, name.removeprefix("struct ")) for name in seen if name.startswith("struct ")]
        names += [*its, *seen]
        rows += [row for row in depending(file, both[1], its) if f"struct {row[1]}" not in seen]
    return Followed(dict.fromkeys(names), dict.fromkeys(rows), lost)


def _deciding(old: str, new: str) -> list[str]:
    """The lines by which a file gives definitions another meaning, but for its own definitions."""
    sides = ([line.strip() for line in text.split("\n")] for text in (old, new))
    one, other = ([line for line in side if _DECIDES.match(line)] for side in sides)
    return [line for line in (*one, *other) if (line in one) != (line in other)] or (one if one != other else [])


def _is_used(names: Collection[str], files: Collection[str], read: Callable[[str], str | None]) -> bool:
    texts = filter(None, map(read, files))
    found = ((name, text) for text in texts for name in names if name in text)
    return any(True for name, text in found for _ in mentions(_NO_MEMBER.sub("", text) if " " in name else text, name))


def _shown(readers: Readers, source: str) -> list[str] | None:
    one, other = readers.said(source)
    return changed_names(one, other) if one and other else None
