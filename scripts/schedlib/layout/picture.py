# SPDX-License-Identifier: GPL-2.0
"""Lines of a structure as pahole would draw them, the members of a clause marked."""

from __future__ import annotations

from collections.abc import Iterator

from schedlib.layout.members import Field
from schedlib.layout.rule_judge import ClauseResult, Layout, concerned, member_holds


def concerned_lines(result: ClauseResult, layout: Layout) -> list[int]:
    """The lines worth drawing: those of the first member, and of each member that is not where it should be."""
    if not result.fields:
        return [layout.line_of(layout.types[result.clause.type].size - 1)]
    lines: set[int] = set()
    for number, member in enumerate(result.named):
        if number == 0 or not member_holds(result, member, layout):
            lines |= {layout.line_of(member.offset), layout.line_of(member.last)}
    return sorted(lines)


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


def member_line(field: Field, layout: Layout) -> str:
    """A member's place in words."""
    first, last = layout.line_of(field.offset), layout.line_of(field.last)
    lines = f"line {first}" if first == last else f"lines {first}-{last}"
    times = f", {field.count} times, every {field.stride}" if field.count > 1 else ""
    return f"{field.member}: offset {field.offset}, size {field.size}, {lines}{times}"


def draw_clause(result: ClauseResult, layout: Layout) -> Iterator[str]:
    """The members of a clause, and a picture of the lines concerned."""
    tag = result.clause.type
    kind = layout.types[tag]
    aligned = f", aligned to {kind.align}" if kind.align else ""
    yield f"struct {tag}: size {kind.size}{aligned}, lines of {layout.line}"
    for field in concerned(result, layout):
        yield f"  {member_line(field, layout)}"
    marked = frozenset(field.member for field in result.named)
    for line in concerned_lines(result, layout):
        yield from (f"  {text}" for text in draw_line(tag, line, layout, marked))
