# SPDX-License-Identifier: GPL-2.0
"""Which fields cost misses by their place: each is counted again on a line of its own; see scripts/c2c/blame.h."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from schedlib.c2c.c2c_options import LINES
from schedlib.c2c.objects import Watch
from schedlib.c2c.observed import Observed, ObservedGuest, Player
from schedlib.c2c.traffic_report import field_name, function_name, grouped, line_name, middle, named, totals
from schedlib.formats.c2c_document import BlamedField, Counts, TrafficResult

_SMALL = 0.005
"""Lines with a smaller share of the misses are not tried."""

_LARGEST = 256
"""Fields with more bytes are not moved: no line holds them."""

_MOST_GROUPS = 64
_FUNCTIONS = 4
_PAIRS = "pairs"
_WORKERS = 2


_Way = tuple[int, bool]
"""A size of lines, and whether they are fetched in pairs."""

_Gain = tuple[int, int, int, int]
"""Saved misses, saved upgrades, misses of the field alone, and those inside of it; see BlamedField."""


def blame(player: Player, observed: Observed, result: TrafficResult, place: Path) -> tuple[BlamedField, ...]:
    """What moving a field would save, the most first; each field of the lines with the most misses is tried alone."""
    line = observed.parameters.line
    others = {str(size): (size, False) for size in LINES if size != line}
    if line < max(LINES):
        others[_PAIRS] = (line, True)
    wanted = [(guest, (line, False)) for guest in observed.guests] + [(observed.middle, way) for way in others.values()]
    with ThreadPoolExecutor(_WORKERS) as pool:
        gains = list(pool.map(lambda each: _gains(player, observed, each[0], each[1], place), wanted))
    guests, elsewhere = gains[: len(observed.guests)], dict(zip(others, gains[len(observed.guests) :], strict=True))
    names = {name for found in guests for name in found}
    shown = grouped(result.middle.rows, field_name)
    pieces: dict[str, list[Watch]] = {}
    for watch in observed.watches:
        # Once for each element of an array.
        for *_, name in _fields_of(observed, watch):
            pieces.setdefault(name, []).append(watch)
    blamed = []
    for name in names:
        saved, saved_upgrades, alone, inside = zip(*(found.get(name, (0, 0, 0, 0)) for found in guests), strict=True)
        size, number = _room(observed, result, pieces[name])
        writes = totals((row for row in shown.get(name, ()) if row.kind != "load"), function_name)
        reads = totals((row for row in shown.get(name, ()) if row.kind == "load"), function_name)
        blamed.append(
            BlamedField(
                field=name,
                saved=saved,
                saved_upgrades=saved_upgrades,
                alone=alone,
                inside=inside,
                elsewhere={way: found[name][0] for way, found in elsewhere.items() if name in found},
                bytes=size,
                objects=number,
                readers=_frequent({each: reads[each] for each in reads if each not in writes}),
                writers=_frequent(writes),
            )
        )
    return tuple(sorted(blamed, key=lambda each: (-middle(each.saved), -middle(each.alone), each.field)))


def _gains(player: Player, observed: Observed, guest: ObservedGuest, way: _Way, place: Path) -> dict[str, _Gain]:
    line, pairs = way
    if way != (observed.parameters.line, False):
        guest = player.counts(guest, line, pairs=pairs)
    groups, text = _fields_file(observed, guest, 2 * line if pairs else line)
    file = place / f"fields-{guest.quantum}-{line}-{pairs}"
    file.write_text(text)
    found = {}
    for name, numbers in zip(groups, player.groups(guest, line, file, pairs=pairs), strict=True):
        misses, without, alone, upgrades, upgrades_without, upgrades_alone, inside = numbers
        found[name] = misses - without - alone, upgrades - upgrades_without - upgrades_alone, alone, inside
    return found


def _fields_file(observed: Observed, guest: ObservedGuest, block: int) -> tuple[list[str], str]:
    """The names of the fields to try, which are numbered from 1, and the file for the program that plays them.

    `block`: bytes whose counts depend on each other.
    """
    resolver = observed.resolver(guest, block)
    on_address = Counter[tuple[int, int]]()
    for record in guest.records:
        on_address[record.address, record.epoch] += record.counts.misses
    places = {each: resolver.place(*each) for each in on_address}
    lines = {each: line_name(place) for each, place in places.items()}
    misses = Counter[tuple[str, str, int]]()
    for each, number in on_address.items():
        misses[lines[each]] += number
    least = max(_SMALL * misses.total(), 1)
    blocks: dict[int, Counter[str]] = {}
    for each, number in on_address.items():
        if misses[lines[each]] >= least and not places[each].neighbour:
            blocks.setdefault(each[0] // block * block, Counter())[field_name(places[each])] += number
    fields = [
        (number, *field) for number, watch in enumerate(observed.watches) for field in _fields_of(observed, watch)
    ]
    small = {name for *_, name in fields}
    numbers = {watch.key: number for number, watch in enumerate(observed.watches)}
    tried = {address: [name for name, _ in on.most_common() if name in small] for address, on in blocks.items()}
    names = sorted({name for on in tried.values() for name in on[:_MOST_GROUPS]})
    groups = {name: number for number, name in enumerate(names, 1)}
    # Of a union's fields the first one gives the name, so it comes last.
    text = [
        f"field {watch} {offset} {size} {groups[name]}"
        for watch, offset, size, name in reversed(fields)
        if name in groups
    ]
    for instance in guest.instances:
        on_blocks = range(instance.address // block, (instance.address + instance.size - 1) // block + 1)
        if not instance.epoch and any(number * block in tried for number in on_blocks):
            text.append(f"object {numbers[instance.key]} {instance.address:x} {instance.size}")
    for address, on in sorted(tried.items()):
        text.append(f"block {address:x} {' '.join(str(groups[name]) for name in on[:_MOST_GROUPS])}")
    return names, "".join(f"{line}\n" for line in text)


def _fields_of(observed: Observed, watch: Watch) -> Iterator[tuple[int, int, str]]:
    """Offset, size and name of the fields that a line can hold, in the memory of a watch."""
    structure = observed.known.structures.get(watch.tag)
    if structure is None:
        if watch.size <= _LARGEST:
            yield 0, watch.size, named(watch.owner, watch.prefix)
        return
    for index in range(watch.size // structure.size) if watch.prefix else (0,):
        for field in structure.fields:
            offset = index * structure.size + field.offset - watch.offset
            if 0 <= offset <= watch.size - field.size and field.size <= _LARGEST:
                path = f"{watch.prefix}[{index}].{field.path}" if watch.prefix else field.path
                yield offset, field.size, named(watch.owner, path)


def _room(observed: Observed, result: TrafficResult, pieces: Sequence[Watch]) -> tuple[int, int]:
    """How much larger an object becomes if all elements of a field get lines, and how many objects there are."""
    first, line = pieces[0], observed.parameters.line
    keys = {(watch.owner, watch.prefix) for watch in pieces}
    number = sum(each.number for each in result.watched if (each.owner, each.prefix) in keys)
    structure = observed.known.structures.get(first.tag)
    if structure is None:
        return -first.size % line, number
    size = first.size if first.prefix else structure.size
    return -size % line + sum(watch.key == first.key for watch in pieces) * line, number


def _frequent(functions: dict[str, Counts]) -> tuple[str, ...]:
    ordered = sorted(functions, key=lambda name: (-functions[name].accesses, name))
    return tuple(ordered[:_FUNCTIONS])
