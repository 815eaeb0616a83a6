# SPDX-License-Identifier: GPL-2.0
"""`schedline layout diff`: what differs between two layouts, in the words of a cover letter, as JSON, and as a picture.

`--struct` prints and draws one structure.
The picture has one row for each cache line, members as cells, what moved in colour, and before above after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

from schedlib import TOOL, doctor
from schedlib.cache import cache_dir, write_atomic
from schedlib.contracts.contract_rules import Rules, our_rules
from schedlib.formats import document
from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Moment, Strict, Word
from schedlib.formats.svg import Cell, DrawnLine, DrawnObject, Key, picture
from schedlib.layout.columns import columns_for, composed_operand, ensure_tools
from schedlib.layout.compile import Column, Group, layout_data
from schedlib.layout.headroom import draw_line
from schedlib.layout.kernel_text import declaring_file
from schedlib.layout.kernel_versions import layouts_of, opened, require_struct
from schedlib.layout.layout_options import LayoutDiffOptions, LayoutOperand, LayoutOptions
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.rule_judge import Layout, RuleOutcome, judge_rule
from schedlib.layout.vmlinux import layout_of_built
from schedlib.progress import say
from schedlib.verdict import Verdict


class DiffFigure(Strict, frozen=True):
    """A figure of both layouts; it is exact, the same on every machine. Null if a layout does not have it."""

    name: Word
    unit: Word
    direction: Literal["lower"]
    kind: Literal["exact"]
    n: Literal[1]
    before: Count | None
    value: Count | None


class MovedMember(Strict, frozen=True):
    """A member that begins on another line; null if a layout does not have it."""

    member: Word
    before: Count | None
    after: Count | None


class ChangedRule(Strict, frozen=True):
    """A rule whose outcome differs."""

    id: Word
    before: RuleOutcome
    after: RuleOutcome


class LayoutDiffDocument(Document, frozen=True, kw_only=True):
    """schedline layout diff: what differs between two layouts.

    Attributes:
        fingerprint: the names of both.
    """

    schema: Literal["layout-diff-1"]
    tool: Word
    started: Moment
    fingerprint: dict[str, str]
    status: Verdict
    metrics: tuple[DiffFigure, ...]
    moved: tuple[MovedMember, ...]
    rules: tuple[ChangedRule, ...]


def _layout(operand: LayoutOperand, column: Column) -> Layout:
    if operand.is_built:
        return layout_of_built(operand.path, our_rules())
    tree, composition = composed_operand(operand)
    ensure_tools([column])
    layout = pack_layout(cache_dir(), tree, composition.commit, column, our_rules())
    return replace(layout, name=f"{operand.text}, {column.name}")


def diff_layouts(options: LayoutDiffOptions) -> Verdict:
    """Print what differs between two layouts."""
    started = datetime.now(UTC)
    doctor.require(["layout"])
    (column,) = columns_for(options.columns.arch, options.columns.config)
    before, after = (_layout(operand, column) for operand in (options.before, options.after))
    found = compare(our_rules(), before, after, started)
    for line in text(found, before, after):
        print(line)
    if options.svg:
        write_atomic(options.svg, draw([before, after]))
        print(f"picture: {options.svg}")
    if options.json:
        document.write(options.json, found)
    return Verdict.PASS


def show_struct(options: LayoutOptions, patch: bytes | None = None) -> Verdict:
    """Print every line of a structure, on each kernel asked for; with a patch, without and with it."""
    struct = options.struct or ""
    if options.built:
        layouts = [layout_of_built(options.vmlinux, Rules((), (), files={struct: ""}))]
    else:
        with opened(options, patch or b"") as versions:
            pairs = layouts_of(versions, struct, declaring_file(versions.text, struct, versions.texts))
        layouts = [pair[1] for pair in pairs]
        if patch:
            layouts = [
                replace(layout, name=f"{layout.name}, {which} the patch")
                for pair in pairs
                for layout, which in zip(pair, ("without", "with"), strict=True)
            ]
    for layout in layouts:
        if layout.assumed:
            say(layout.assumed)
        require_struct(layout, struct)
        size = layout.types[struct].size
        print(f"struct {struct} on {layout.name}: {size} bytes, {layout.lines(size)} lines of {layout.line}")
        for line in range(layout.lines(size)):
            print(*draw_line(struct, line, layout, frozenset()), sep="\n")
    if options.svg:
        write_atomic(options.svg, draw(layouts, struct))
        say(f"picture: {options.svg}")
    return Verdict.PASS


def compare(rules: Rules, before: Layout, after: Layout, started: datetime | None = None) -> LayoutDiffDocument:
    """Compare two layouts."""
    moved: list[MovedMember] = []
    metrics: list[DiffFigure] = []
    both = (before, after)
    for tag in our_rules().types():
        sizes = [kind.size if (kind := each.types.get(tag)) else None for each in both]
        lines = [None if size is None else each.lines(size) for each, size in zip(both, sizes, strict=True)]
        metrics += [
            _figure(f"{tag} size", "bytes", *sizes),
            _figure(f"{tag} lines", "lines", *lines),
            _figure(f"{tag} holes", "bytes", *(each.unused(tag) if tag in each.types else None for each in both)),
        ]
        moved += [MovedMember(f"{tag}.{name}", *places) for name, *places in moved_members(tag, before, after)]
    for group in groups():
        touched = [lines_touched(group, each) for each in both]
        metrics.append(_figure(f"{group.name} lines touched", "lines", *touched))
    judged = (
        ChangedRule(rule.id, *(judge_rule(rules, rule.id, each).outcome for each in both)) for rule in rules.rules
    )
    return LayoutDiffDocument(
        schema="layout-diff-1",
        tool=TOOL,
        started=started or datetime.now(UTC),
        fingerprint={"before": before.name, "after": after.name},
        status=Verdict.PASS,
        metrics=tuple(metrics),
        moved=tuple(moved),
        rules=tuple(each for each in judged if each.before is not each.after),
    )


def _figure(name: str, unit: str, before: int | None, after: int | None) -> DiffFigure:
    return DiffFigure(name, unit, "lower", "exact", 1, before, after)


def groups() -> tuple[Group, ...]:
    """The access groups of configs/layout.toml: members that one function touches together."""
    return tuple(layout_data().group.values())


def lines_touched(group: Group, layout: Layout) -> int | None:
    """The number of lines that the members of a group are on; None if the structure is not known."""
    fields = layout.fields(group.type, group.members)
    return len({line for field in fields for line in layout.lines_of(field)}) or None


def moved_members(tag: str, before: Layout, after: Layout) -> list[tuple[str, int | None, int | None]]:
    """The members of a structure that begin on another line, each with the line before and after."""
    old, new = _begin(tag, before), _begin(tag, after)
    return [(name, old.get(name), new.get(name)) for name in old | new if old.get(name) != new.get(name)]


def text(found: LayoutDiffDocument, before: Layout, after: Layout) -> Iterator[str]:
    """The differences, as text for a cover letter."""
    yield f"before: {before.name}, lines of {before.line} bytes"
    yield f"after:  {after.name}, lines of {after.line} bytes"
    yield ""
    for metric in found.metrics:
        if metric.before is None and metric.value is None:
            continue
        old, new = ("-" if value is None else str(value) for value in (metric.before, metric.value))
        yield f"{metric.name + ':':28} {new if old == new else f'{old} -> {new}'} {metric.unit}"
    yield from [""] if found.rules else []
    for rule in found.rules:
        yield f"rule {rule.id}: {rule.before.value} -> {rule.after.value}"
    yield from ["", "members that begin on another line:"] if found.moved else []
    for member in found.moved:
        old, new = ("absent" if line is None else f"line {line}" for line in (member.before, member.after))
        yield f"  {member.member + ':':40} {old} -> {new}"
    if not found.rules and not found.moved:
        yield from ("", "no member begins on another line, no rule changes")


_PLAIN, _MOVED = "#eeeeee", "#fdae6b"
_KEY = Key(((_MOVED, "new, or on another line"),), 200)


def draw(layouts: Sequence[Layout], tag: str = "") -> str:
    """One picture, later layouts below earlier ones. What is not on its line in the layout above has a colour.

    Args:
        tag: the structure, with all of its lines. Without it those that differ, or all if none does, with the lines on
            which a member begins somewhere.
    """
    differing = [each for each in our_rules().types() if len({layout.structures.get(each) for layout in layouts}) > 1]
    objects = []
    for each in [tag] if tag else differing or our_rules().types():
        there = [layout for layout in layouts if each in layout.structures]
        begun = sorted({line for layout in there for line in _begin(each, layout).values()})
        for above, layout in zip(there[:1] + there, there, strict=False):
            size, every, were = layout.types[each].size, layout.lines(layout.types[each].size), _begin(each, above)
            heading = f"struct {each}, {layout.name}: {size} bytes, {every} lines of {layout.line}"
            lines = (
                DrawnLine(line, str(line * layout.line), tuple(_cells(each, line, layout, were)))
                for line in (range(every) if tag else begun)
                if line < every
            )
            objects.append(DrawnObject(heading, layout.line, tuple(lines)))
    return picture(objects, _KEY)


def _begin(tag: str, layout: Layout) -> dict[str, int]:
    """The line on which each member of a structure begins."""
    structure = layout.structures.get(tag)
    return {each.name: layout.line_of(each.offset) for each in (structure.members if structure else ())}


def _cells(tag: str, line: int, layout: Layout, above: Mapping[str, int]) -> Iterator[Cell]:
    """The members on one line."""
    start, end = line * layout.line, (line + 1) * layout.line
    for member in layout.structures[tag].members:
        first, last = max(member.offset, start), min(member.offset + member.size, end)
        if first < last:
            about = f"{member.name}: offset {member.offset}, {member.size} bytes"
            colour = _PLAIN if above.get(member.name) == layout.line_of(member.offset) else _MOVED
            yield Cell(first - start, last - first, member.name, about, colour)
