# SPDX-License-Identifier: GPL-2.0
"""Lines of a structure as pahole would draw them, the members of a clause marked."""

from __future__ import annotations

from collections.abc import Iterator

from schedlib.layout.rule_judge import ClauseResult, Layout, concerned, member_holds


def draw_line(tag: str, line: int, layout: Layout, marked: frozenset[str]) -> Iterator[str]:
    """One line of a structure: offset, size and name of each member and hole."""
    pos, end = line * layout.line, min((line + 1) * layout.line, layout.types[tag].size)
    yield f"--- cacheline {line} boundary ({pos} bytes) ---"
    for member in layout.structures[tag].members:
        if member.last < line * layout.line or member.offset >= end:
            continue
        if member.offset > pos:
            yield _hole(pos, member.offset)
        yield f"{'>' if member.name in marked else ' '} {member.offset:7} {member.size:7}  {member.name}"
        pos = max(pos, member.offset + member.size)
    if pos < end:
        yield _hole(pos, end)


def _hole(start: int, end: int) -> str:
    return f"  {start:7} {end - start:7}  (hole)"


def draw_clause(result: ClauseResult, layout: Layout) -> Iterator[str]:
    """The members of a clause, and a picture of the lines of the first, and of each that is not where it should be."""
    tag = result.clause.type
    kind = layout.types[tag]
    aligned = f", aligned to {kind.align}" if kind.align else ""
    yield f"struct {tag}: size {kind.size}{aligned}, lines of {layout.line}"
    for field in concerned(result, layout):
        first, last = layout.line_of(field.offset), layout.line_of(field.last)
        at = f"line {first}" if first == last else f"lines {first}-{last}"
        times = f", {field.count} times, every {field.stride}" if field.count > 1 else ""
        yield f"  {field.member}: offset {field.offset}, size {field.size}, {at}{times}"
    shown = [each for each in result.named if each == result.named[0] or not member_holds(result, each, layout)]
    ends = {layout.line_of(byte) for each in shown for byte in (each.offset, each.last)}
    marked = frozenset(field.member for field in result.named)
    for line in sorted(ends) if result.fields else [layout.line_of(kind.size - 1)]:
        yield from (f"  {text}" for text in draw_line(tag, line, layout, marked))
