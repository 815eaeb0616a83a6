# SPDX-License-Identifier: GPL-2.0
"""Which changed lines of structures a compiler saw: what was not compiled was not judged.

A line in a structure is found by the structure's braces at the left margin, as in the kernel's style. Whether it was
compiled is asked of the debug information: the member is there, or another one under the same #if.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from schedlib.contracts.struct_source import bodies, declarators
from schedlib.git import try_git
from schedlib.layout.patch_findings import Finding
from schedlib.layout.rule_judge import Layout
from schedlib.layout.unit_build import differing
from schedlib.tree.kernel_tree import Tree

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_OPTION = re.compile(r"(!\s*(?:defined\s*\(?\s*|IS_ENABLED\s*\(\s*)?)?\b(CONFIG_\w+)")


@dataclass(frozen=True)
class StructLine:
    """A line inside of a structure.

    Attributes:
        tag: of the structure at the left margin.
        nested: whether it is inside of further braces.
        guards: the conditions under which it is compiled, from those inside of the structure.
        names: the members that it declares, as far as that can be told.
    """

    tag: str
    nested: bool
    guards: tuple[str, ...]
    names: frozenset[str]


@dataclass(frozen=True)
class ChangedLine:
    """A line of a structure that a patch adds or removes.

    Attributes:
        block: the members under the same conditions.
        removed: then `number` counts in the file before the patch.
    """

    file: str
    number: int
    place: StructLine
    block: frozenset[str]
    removed: bool

    def is_seen(self, layouts: Iterable[Layout]) -> bool:
        """Whether some compiler saw it."""
        for layout in layouts:
            structure = layout.structures.get(self.place.tag)
            if structure is None:
                continue
            there = {member.name for member in structure.members}
            wanted = self.place.names if self.place.names and not self.place.nested else self.block
            if not self.place.guards:
                seen = self.place.nested or not wanted or not there.isdisjoint(wanted)
            elif wanted:
                seen = not there.isdisjoint(wanted)
            else:
                # It declares nothing that debug information names: believe the configuration.
                seen = all(option in layout.name.split("+") for option in options_of(self))
            if seen:
                return True
        return False


def declared(text: str) -> frozenset[str]:
    """The members that a line declares."""
    found: set[str] = set()
    *whole, rest = text.strip().split(";")
    for part in (*whole, rest if rest.endswith(",") or "(" in rest else ""):
        if macro := re.match(r"\s*(?:DECLARE_BITMAP\(|DECLARE_FLEX_ARRAY\([^,]+,)\s*(\w+)", part):
            found.add(macro[1])
        else:
            found |= {name for name, _ in declarators(part.strip().rstrip(","), ())}
    return frozenset(found)


def places(text: str) -> dict[int, StructLine]:
    """The lines of a file that are inside of structures, by their number."""
    found: dict[int, StructLine] = {}
    for body in bodies(text):
        depth = 1
        for line in body.lines:
            if line.text.strip():
                guards = line.guards[len(body.guards) :]
                is_nested = depth > 1 or (len(body.lines) == 1 and "{" in line.text)
                found[line.number] = StructLine(body.tag, is_nested, guards, declared(line.text))
            depth += line.text.count("{") - line.text.count("}")
    return found


Texts = Mapping[str, tuple[str, str]]
"""Files of a kernel without and with a patch; "" if there is none."""


def changed_texts(tree: Tree, before: str, after: str) -> Texts:
    """The headers and sources in which two commits differ."""
    names = (name for name in differing(tree, before, after) if name.endswith((".h", ".c")))
    return {name: (tree.read(name, before) or "", tree.read(name, after) or "") for name in names}


def changed_lines(texts: Texts) -> list[ChangedLine]:
    """The lines of structures that differ. Blank lines and comments do not count."""
    found: list[ChangedLine] = []
    for file, both in sorted(texts.items()):
        old, new = map(places, both)
        for hunk in _HUNK.finditer(_diff(*both) if old or new else ""):
            for known, start, count, removed in ((old, hunk[1], hunk[2], True), (new, hunk[3], hunk[4], False)):
                for number in range(int(start), int(start) + int(count or 1)):
                    if place := known.get(number):
                        found.append(ChangedLine(file, number, place, _block(known, place), removed))
    return found


def _diff(old: str, new: str) -> str:
    with TemporaryDirectory(prefix="schedline-") as name:
        for side, text in (("old", old), ("new", new)):
            Path(name, side).write_text(text)
        return try_git(Path(name), "diff", "--no-index", "--no-color", "-U0", "old", "new").stdout.decode()


def _block(known: Mapping[int, StructLine], place: StructLine) -> frozenset[str]:
    """The direct members of a structure under the same conditions."""
    same = (each for each in known.values() if (each.tag, each.guards) == (place.tag, place.guards) and not each.nested)
    return frozenset[str]().union(*(each.names for each in same))


def unseen(lines: Sequence[ChangedLine], layouts: Iterable[tuple[Layout, Layout]]) -> list[ChangedLine]:
    """The changed lines that no compiler saw.

    Args:
        layouts: without and with the patch.
    """
    both = list(zip(*layouts, strict=True)) or [(), ()]
    return [line for line in lines if not line.is_seen(both[not line.removed])]


def options_of(line: ChangedLine) -> tuple[str, ...]:
    """The options that its #ifs name, as lines of a configuration; none of an #else of several."""
    guards = (guard for guard in line.place.guards if not guard.startswith("!("))
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
        hint: what would compile lines that need some options, for the end of the text.
    """
    groups: defaultdict[tuple[str, str, tuple[str, ...], bool, bool], list[int]] = defaultdict(list)
    for line in lines:
        is_dead = "0" in line.place.guards
        groups[line.file, line.place.tag, options_of(line), line.removed, is_dead].append(line.number)
    for (file, tag, options, removed, is_dead), numbers in groups.items():
        condition = ", under #if 0" if is_dead else f", which needs {' '.join(options)}" if options else ""
        reason = f" ({why[tag]})" if tag in why else ""
        where = (
            f"{len(numbers)} line{'s' * (len(numbers) > 1)} that it removes from"
            if removed
            else f"{_lines(numbers)} of"
        )
        text = (
            f"not compiled in {', '.join(looked) or 'any configuration'}: {where} struct {tag}{condition}{reason}. "
            f"What the patch does there was not looked at{'' if is_dead else hint(options)}"
        )
        yield Finding(file, numbers[0], False, "", text, tag=tag)


def _lines(numbers: Sequence[int]) -> str:
    return f"line {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} lines from {numbers[0]} on"
