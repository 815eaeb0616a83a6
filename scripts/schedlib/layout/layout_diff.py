# SPDX-License-Identifier: GPL-2.0
"""What differs between two layouts, in the words of a cover letter and as JSON (kind=exact, for the gate)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from schedlib.contracts.contract_rules import Rules, our_rules
from schedlib.layout.groups import groups, lines_touched
from schedlib.layout.headroom import free_bytes
from schedlib.layout.members import Member
from schedlib.layout.rule_judge import Layout, judge_rule


class LayoutFigure(Enum):
    """A figure of a structure or of a group of members."""

    SIZE = "size"
    LINES = "lines"
    HOLES = "holes"
    TOUCHED = "lines touched"


@dataclass(frozen=True)
class LayoutMetric:
    """A figure of both layouts; it is exact, the same on every machine.

    Attributes:
        of: the structure or the group.
    """

    of: str
    figure: LayoutFigure
    before: int | None
    after: int | None

    @property
    def name(self) -> str:
        """For people, and in documents."""
        return f"{self.of} {self.figure.value}"

    @property
    def unit(self) -> str:
        """The unit of the figure."""
        return "bytes" if self.figure in (LayoutFigure.SIZE, LayoutFigure.HOLES) else "lines"


@dataclass(frozen=True)
class Difference:
    """Everything that differs.

    Attributes:
        moved: struct.member, line before and after; None if a layout does not have it.
        rules: id, outcome before and after, where they differ.
        metrics: sizes, holes and lines touched, also those that are equal.
    """

    moved: tuple[tuple[str, int | None, int | None], ...]
    rules: tuple[tuple[str, str, str], ...]
    metrics: tuple[LayoutMetric, ...]


def _holes(layout: Layout, tag: str) -> int | None:
    if tag not in layout.structures:
        return None
    return sum(free_bytes(layout, tag, line) for line in range(layout.lines(layout.types[tag].size)))


def compare(rules: Rules, before: Layout, after: Layout) -> Difference:
    """Compare two layouts."""
    moved: list[tuple[str, int | None, int | None]] = []
    metrics: list[LayoutMetric] = []
    for tag in our_rules().types():
        old, new = before.types.get(tag), after.types.get(tag)
        metrics += [
            LayoutMetric(tag, LayoutFigure.SIZE, old.size if old else None, new.size if new else None),
            LayoutMetric(
                tag, LayoutFigure.LINES, before.lines(old.size) if old else None, after.lines(new.size) if new else None
            ),
            LayoutMetric(tag, LayoutFigure.HOLES, _holes(before, tag), _holes(after, tag)),
        ]
        moved += moved_members(tag, before, after)
    for group in groups():
        touched = lines_touched(group, before), lines_touched(group, after)
        metrics.append(LayoutMetric(group.name, LayoutFigure.TOUCHED, *touched))
    changed = []
    for rule in rules.rules:
        one = judge_rule(rules, rule.id, before).outcome.value
        other = judge_rule(rules, rule.id, after).outcome.value
        if one != other:
            changed.append((rule.id, one, other))
    return Difference(tuple(moved), tuple(changed), tuple(metrics))


def moved_members(tag: str, before: Layout, after: Layout) -> list[tuple[str, int | None, int | None]]:
    """The members of a structure that begin on another line, each with the line before and after."""

    def lines(layout: Layout) -> dict[str, int]:
        structure = layout.structures.get(tag)
        members: tuple[Member, ...] = structure.members if structure else ()
        return {member.name: layout.line_of(member.offset) for member in members}

    old, new = lines(before), lines(after)
    names = [*old, *(name for name in new if name not in old)]
    return [(f"{tag}.{name}", old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


def text(difference: Difference, before: Layout, after: Layout) -> Iterator[str]:
    """The differences, as text for a cover letter."""
    yield f"before: {before.name}, lines of {before.line} bytes"
    yield f"after:  {after.name}, lines of {after.line} bytes"
    yield ""
    for metric in difference.metrics:
        if metric.before is None and metric.after is None:
            continue
        same = metric.before == metric.after
        value = f"{_shown(metric.after)}" if same else f"{_shown(metric.before)} -> {_shown(metric.after)}"
        yield f"{metric.name + ':':28} {value} {metric.unit}"
    if difference.rules:
        yield ""
        for rule, one, other in difference.rules:
            yield f"rule {rule}: {one} -> {other}"
    if difference.moved:
        yield ""
        yield "members that begin on another line:"
        for name, old, new in difference.moved:
            yield f"  {name + ':':40} {_line(old)} -> {_line(new)}"
    if not difference.rules and not difference.moved:
        yield ""
        yield "no member begins on another line, no rule changes"


def _shown(value: int | None) -> str:
    return "-" if value is None else str(value)


def _line(value: int | None) -> str:
    return "absent" if value is None else f"line {value}"


def json_metrics(difference: Difference) -> list[dict[str, object]]:
    """The figures, as the gate reads them."""
    return [
        {
            "name": metric.name,
            "unit": metric.unit,
            "direction": "lower",
            "kind": "exact",
            "n": 1,
            "before": metric.before,
            "value": metric.after,
        }
        for metric in difference.metrics
    ]
