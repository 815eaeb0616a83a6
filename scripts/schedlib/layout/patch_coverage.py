# SPDX-License-Identifier: GPL-2.0
"""Which changed lines of structures a compiler saw: what was not compiled was not judged.

A line in a structure is found by the structure's braces at the left margin, as in the kernel's style. Whether it was
compiled is asked of the compiler: the structure is there, and each #if around the line is true.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from tempfile import TemporaryDirectory

from schedlib.contracts.struct_source import bodies, in_words, without_comments
from schedlib.git import try_git
from schedlib.layout.pack_units import GUARD
from schedlib.layout.patch_findings import Finding
from schedlib.layout.rule_judge import Layout
from schedlib.layout.unit_build import differing
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
