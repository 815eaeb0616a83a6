# SPDX-License-Identifier: GPL-2.0
"""The body of a structure in its source, as pieces that can be moved: a declaration with its comment and conditions."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from schedlib.contracts.struct_source import declared_members
from schedlib.errors import SchedlineError

ALIGNED = re.compile(r"[ \t]*\b____cacheline_aligned(?:_in_smp)?\b")

_FIXED = re.compile(r"\b(__cacheline_group_(?:begin|end)\w*|CACHELINE_PADDING|randomized_struct_fields_\w+)\b")
"""Marks between members: what they mean depends on where they are."""

_INNER = re.compile(r"\tstruct \{[^\n]*\n")
_INNER_END = re.compile(r"\n\t\}(?: __randomize_layout)?;")
_OPEN_ARRAY = re.compile(r"\s*(?:[\w ]+\[\][^;\[]*;\s*)?")

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_ENDS = re.compile(r"(?:;|#\s*endif\b.*|\b__cacheline_group_\w+\(.*\)|\brandomized_struct_fields_\w+)\s*$")
_BIT_FIELD = re.compile(r"\w\s*:\s*\w+\s*;")
_LAST_BIT_FIELD = re.compile(r"\w\s*:\s*(?!0\s*;)\w+\s*;\s*(?:#\s*endif\b[^\n]*\s*)*$")
"""One that others may follow: a width of 0 ends their memory."""


@dataclass(frozen=True)
class Piece:
    """A piece of a structure's body that moves as a whole: a comment and its declarations, with their #if and #endif.

    `gap`: blank lines, and comments with a blank line behind them, before it: they stay when it moves. `fixed`: it is
    a mark that has to stay.
    """

    gap: str
    text: str
    names: tuple[str, ...]
    fixed: bool

    @property
    def aligned(self) -> bool:
        """Whether its first member starts a line by an attribute of its own, not of its type."""
        return self.can_align and bool(ALIGNED.search(self.text, *self._declarator()))

    @property
    def can_align(self) -> bool:
        """Whether its first member can have such an attribute: a struct without a name would get padding by it."""
        return bool(re.search(r"\w", ALIGNED.sub("", self._declared()))) and not self.begins_with_bits

    @property
    def begins_with_bits(self) -> bool:
        return bool(_BIT_FIELD.search(f"{self._declared()};"))

    def _declared(self) -> str:
        start, end = self._declarator()
        return _blank(self.text)[start:end]

    def _declarator(self) -> tuple[int, int]:
        """Where its first declaration begins behind #if, and ends; of a struct or union with members its declarator."""
        bare = _blank(self.text)
        conditions = re.compile(r"(?:\s*#[^\n]*\n)*\s*").match(bare)
        start = conditions.end() if conditions else 0
        depth = 0
        for at in range(start, len(bare)):
            if bare[at] == "{":
                depth += 1
            elif bare[at] == "}":
                depth -= 1
                start = at + 1
            elif bare[at] == ";" and not depth:
                return start, at
        return start, len(bare)

    def with_alignment(self, wanted: bool) -> str:
        if self.aligned == wanted:
            return self.text
        start, end = self._declarator()
        if not wanted:
            found = ALIGNED.search(self.text, start, end)
            first, last = found.span() if found else (end, end)
            return self.text[:first] + self.text[last:]
        names = "|".join(map(re.escape, self.names))
        # Behind a pointer to a function, or a macro with arguments.
        has_brackets = "(" in self.text[start:end]
        rows = re.compile(rf"\b(?:{names})\b(?:\s*\[[^\]]*\])*").finditer(_blank(self.text), start, end)
        at = end if has_brackets else next((row.end() for row in rows), end)
        return f"{self.text[:at]} ____cacheline_aligned{self.text[at:]}"

    @property
    def code(self) -> str:
        return _COMMENT.sub("", self.text)


@dataclass(frozen=True)
class Body:
    before: str
    pieces: tuple[Piece, ...]
    after: str

    def text(self, order: Sequence[int], aligned: Mapping[int, bool]) -> str:
        """The file with the pieces in another order; some are to start a line, or no longer."""
        in_place = _longest_rising(order)
        rows: list[str] = []
        moved_gaps = ""
        for number in order:
            piece = self.pieces[number]
            if number in in_place:
                # Comments stay, and blank lines only before and behind them.
                rows.append(moved_gaps + piece.gap if moved_gaps.strip() else piece.gap or moved_gaps)
                moved_gaps = ""
            else:
                moved_gaps += piece.gap
            rows.append(piece.with_alignment(aligned[number]) if number in aligned else piece.text)
        if moved_gaps.strip():
            rows.append(moved_gaps)
        return self.before + re.sub(r"\n{3,}", "\n\n", "".join(rows)) + self.after


def as_one(before: Piece, piece: Piece) -> Piece:
    return replace(before, text=before.text + piece.gap + piece.text, names=before.names + piece.names)


def _longest_rising(order: Sequence[int]) -> frozenset[int]:
    """The most pieces whose order is the old one: these count as not moved."""
    longest: dict[int, tuple[int, ...]] = {}
    for number in order:
        before = [row for last, row in longest.items() if last < number]
        longest[number] = (*(max(before, key=len) if before else ()), number)
    best: tuple[int, ...] = max(longest.values(), key=len, default=())
    return frozenset(best)


def number_moved(order: Sequence[int]) -> int:
    """How many pieces have to move for this order; as moved_pieces(), and fast."""
    tails: list[int] = []
    for number in order:
        at = bisect_left(tails, number)
        tails[at : at + 1] = [number]
    return len(order) - len(tails)


def moved_pieces(order: Sequence[int]) -> tuple[int, ...]:
    stay = _longest_rising(order)
    return tuple(number for number in order if number not in stay)


def _blank(text: str) -> str:
    """The text with spaces instead of comments, so that its places are the same."""
    return _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def body_of(text: str, tag: str, file: str) -> Body:
    """The body of a structure; SchedlineError if it is not at the left margin, or in a form that is not understood."""
    start = re.search(rf"^struct {re.escape(tag)} \{{[^\n]*\n", text, re.M)
    end = re.compile(r"^\}", re.M).search(text, start.end()) if start else None
    if start is None or end is None:
        raise SchedlineError(f"{file} does not declare struct {tag} at the left margin", "name the file: --file")
    first, last = start.end(), end.start()
    # All of mm_struct but an array at its end is in a structure without a name.
    inner = _INNER.match(text, first, last)
    closed = _INNER_END.search(text, inner.end(), last) if inner else None
    if inner and closed and _OPEN_ARRAY.fullmatch(_blank(text[closed.end() : last])):
        first, last = inner.end(), closed.start() + 1
    *pieces, behind = _pieces(text[first:last], tag, file)
    return Body(text[:first], _together(pieces), behind.gap + text[last:])


def _pieces(body: str, tag: str, file: str) -> Iterator[Piece]:
    """The pieces of a body; one without text is what lies behind the last."""
    gap, text, comment = "", "", ""
    conditions = brackets = 0
    # Within comments, the ends of rows are marked.
    bare = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]).replace("\n", "\f\n"), body)
    for row, code in zip(body.split("\n")[:-1], bare.split("\n")[:-1], strict=True):
        row, is_open, code = f"{row}\n", code.endswith("\f"), code.replace("\f", "")
        if not text and not code.strip():
            if row.strip() or is_open:
                comment += row
            else:
                gap, comment = gap + comment + row, ""
            continue
        text, comment = comment + text + row, ""
        if match := re.match(r"\s*#\s*(if|endif)", code):
            conditions += 1 if match[1] == "if" else -1
        brackets += code.count("{") - code.count("}") + code.count("(") - code.count(")")
        if not is_open and not conditions and not brackets and _ENDS.search(_COMMENT.sub("", text)):
            every = declared_members(f"struct {tag} {{\n{text}}};\n").get(tag, {})
            # A bit field of width 0 has no name.
            names = tuple(name for name in every if name != "unsigned")
            yield Piece(gap, text, names, bool(_FIXED.search(text)))
            gap = text = ""
    if text:
        raise SchedlineError(
            f"{file}: the end of a declaration in struct {tag} is not found: {text.strip().splitlines()[0]}",
            "report this structure",
        )
    yield Piece(gap + comment, "", (), fixed=True)


def _together(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Bit fields in a row share their memory, whatever stands between them, so they are one piece."""
    found: list[Piece] = []
    for piece in pieces:
        if found and piece.begins_with_bits and _LAST_BIT_FIELD.search(found[-1].code):
            piece = as_one(found.pop(), piece)
        found.append(piece)
    return tuple(found)
