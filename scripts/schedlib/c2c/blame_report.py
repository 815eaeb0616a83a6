# SPDX-License-Identifier: GPL-2.0
"""The list of fields that cost misses by their place, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedlib.c2c.traffic_table import middle, spread
from schedlib.formats.c2c_document import BlamedField, TrafficResult

_MOVES, _TRUE = 8, 6
_LEAST_SAVED, _LEAST_LEFT = 0.005, 0.02
"""Shares of all misses; what is less is not shown."""


def blame_text(result: TrafficResult) -> Iterator[str]:
    """The list, with an empty line behind it; nothing if the result has none."""
    if not result.blame:
        return
    misses = [sum(row.counts.misses for row in each.rows) for each in result.quanta]
    least = max(_LEAST_SAVED * middle(misses), 1)
    worth = [each for each in result.blame if middle(each.saved) >= least]
    yield "blame: the same accesses, counted again with one field on a line of its own"
    for number, each in enumerate(worth[:_MOVES], 1):
        yield f"{number:2}. {sentence(each, misses)}"
        yield from _details(each)
    if not worth:
        yield f"    no field would save {_LEAST_SAVED:.1%} of the {middle(misses)} misses"
    if len(worth) > _MOVES:
        yield f"    {len(worth) - _MOVES} others save less: the JSON has them"
    if len(worth) > 1:
        yield "    each move is counted alone: do not add them up"
    few = _LEAST_LEFT * middle(misses)
    for each in result.blame:
        if middle(each.inside) >= max(few, middle(each.alone) / 2):
            yield (
                f"    false sharing inside one field: {each.field} alone has {spread(each.alone)} misses, "
                f"{spread(each.inside)} of them between its own bytes; writers: {_names(each.writers)}"
            )
    true = sorted(result.blame, key=lambda each: (-_true(each), each.field))
    for each in true[:_TRUE]:
        if _true(each) >= few:
            yield (
                f"    true sharing, no layout helps: {each.field} alone has {_true(each)} misses on bytes "
                f"that another CPU wrote; writers: {_names(each.writers)}"
            )
    yield ""


def _true(blamed: BlamedField) -> int:
    """Misses that no layout saves."""
    return middle([alone - inside for alone, inside in zip(blamed.alone, blamed.inside, strict=True)])


def sentence(blamed: BlamedField, misses: Sequence[int]) -> str:
    """What a move would save, of the misses of each guest."""
    return (
        f"move {blamed.field} off its line: {middle(blamed.saved)} fewer misses of {middle(misses)}"
        f"{_quanta(blamed.saved)}; {blamed.bytes} bytes more for each of {blamed.objects} objects"
    )


def _quanta(values: Sequence[int]) -> str:
    return f" ({len(values)} quanta: {min(values)} to {max(values)})" if len(values) > 1 else ""


def _details(blamed: BlamedField) -> Iterator[str]:
    ways = {way: f"lines of {way} bytes" if way.isdecimal() else f"{way} of lines" for way in blamed.elsewhere}
    if ways:
        yield f"    fewer misses with {', '.join(f'{ways[way]}: {blamed.elsewhere[way]}' for way in ways)}"
    upgrades = middle(blamed.saved_upgrades)
    if upgrades:
        yield f"    {abs(upgrades)} {'fewer' if upgrades > 0 else 'more'} upgrades"
    yield f"    readers: {_names(blamed.readers)}; writers: {_names(blamed.writers)}"


def _names(functions: Sequence[str]) -> str:
    return ", ".join(functions) or "none"
