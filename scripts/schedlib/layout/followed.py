# SPDX-License-Identifier: GPL-2.0
"""What means something else with a patch, and the structures of all files that depend on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import NamedTuple, Protocol

from schedlib.contracts.struct_source import without_comments
from schedlib.layout.patch_coverage import Texts, depending
from schedlib.layout.rule_judge import few
from schedlib.layout.unit_build import Said, changed_names, changed_types, mentions

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
