# SPDX-License-Identifier: GPL-2.0
"""The difference between a structure in two kernels, taken apart: from the texts alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_MEMBER = re.compile(r"\w\W*;$")
_IF = re.compile(r"#\s*if")
_ENDIF = re.compile(r"#\s*endif")


@dataclass(frozen=True)
class QuietBody:
    """A structure in a file: how its declaration begins, the rows of its body, and how it ends."""

    head: str
    rows: tuple[str, ...]
    tail: str

    def declaration(self, rows: Sequence[str]) -> str:
        """The structure with another body."""
        return "".join([f"{self.head}\n", *(f"{row}\n" for row in rows), self.tail])


def body_of(text: str, tag: str) -> QuietBody | None:
    """The body of a structure that begins at the left margin, without comments and blanks; None if it is not there."""
    bare = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    found = re.search(rf"^((?:typedef )?struct {re.escape(tag)} \{{)[ \t]*\n(.*?)^(\}}[^;]*;)", bare, re.M | re.S)
    if found is None:
        return None
    rows = tuple(" ".join(row.split()) for row in found[2].splitlines() if row.strip())
    return QuietBody(found[1], rows, found[3])


Span = tuple[int, int, int, int]
"""Rows of the older body, from and to, and those of the newer one."""


@dataclass(frozen=True)
class QuietPiece:
    """A part of the difference between two bodies."""

    spans: tuple[Span, ...]

    def removed(self, older: Sequence[str]) -> tuple[str, ...]:
        """The rows that it takes away."""
        return tuple(row for first, last, *_ in self.spans for row in older[first:last])

    def added(self, newer: Sequence[str]) -> tuple[str, ...]:
        """The rows that it brings."""
        return tuple(row for *_, first, last in self.spans for row in newer[first:last])


def pieces(older: Sequence[str], newer: Sequence[str]) -> tuple[QuietPiece, ...]:
    """The difference in pieces that each can be applied alone; see configs/incidents-rules.toml."""
    left = [QuietPiece((span,)) for span in _spans(older, newer)]
    found: list[QuietPiece] = []
    while left:
        piece = left.pop(0)
        while True:
            near = [other for other in left if _is_move(piece, other, older, newer)]
            if not near and left and not _is_balanced(piece, older, newer):
                near = left[:1]
            if not near:
                break
            left = [other for other in left if other not in near]
            piece = QuietPiece(tuple(sorted(span for each in (piece, *near) for span in each.spans)))
        found.append(piece)
    return tuple(found)


def applied(older: Sequence[str], newer: Sequence[str], piece: QuietPiece) -> tuple[str, ...]:
    """The older body with a piece."""
    rows: list[str] = []
    at = 0
    for first, last, begin, end in piece.spans:
        rows += [*older[at:first], *newer[begin:end]]
        at = last
    return (*rows, *older[at:])


def undone(older: Sequence[str], newer: Sequence[str], piece: QuietPiece) -> tuple[str, ...]:
    """The newer body without a piece."""
    return applied(
        newer, older, QuietPiece(tuple((begin, end, first, last) for first, last, begin, end in piece.spans))
    )


def _spans(older: Sequence[str], newer: Sequence[str]) -> Iterator[Span]:
    for sign, *span in SequenceMatcher(None, older, newer, autojunk=False).get_opcodes():
        if sign != "equal":
            first, last, begin, end = span
            yield first, last, begin, end


def _is_move(one: QuietPiece, other: QuietPiece, older: Sequence[str], newer: Sequence[str]) -> bool:
    """Whether one takes away a member that the other brings."""
    return any(
        any(_MEMBER.search(row) for row in set(a.removed(older)) & set(b.added(newer)))
        for a, b in ((one, other), (other, one))
    )


def _is_balanced(piece: QuietPiece, older: Sequence[str], newer: Sequence[str]) -> bool:
    """Whether the rest of the body is as deep in braces and #if as before."""
    return _depth(piece.removed(older)) == _depth(piece.added(newer))


def _depth(rows: Sequence[str]) -> tuple[int, int]:
    text = "".join(rows)
    ifs = sum(bool(_IF.match(row)) - bool(_ENDIF.match(row)) for row in rows)
    return text.count("{") - text.count("}"), ifs
