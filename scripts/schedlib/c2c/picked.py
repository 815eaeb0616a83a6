# SPDX-License-Identifier: GPL-2.0
"""The objects of one structure in a trace of everything: as if nothing else had been watched; scripts/c2c/pick.c."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from schedlib.c2c.c2c_options import LINES
from schedlib.c2c.objects import Watch
from schedlib.c2c.observed import Observed, ObservedGuest
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_trace_document import Instance
from schedlib.process import must

_LONGEST = max(LINES)


def picked(program: Path, observed: Observed, tag: str, place: Path) -> Observed:
    """The guests with the objects of a structure, and with what shares the longest of lines with these.

    Args:
        program: scripts/c2c/pick.c, compiled.
        place: a directory for the smaller tapes.

    Raises:
        SchedlineError: there is no such object, or a tape is damaged.
    """
    numbers = {watch.key: number for number, watch in enumerate(observed.watches)}
    mine = {watch.key for watch in observed.watches if watch.tag == tag and not watch.prefix}
    if not mine:
        raise SchedlineError(f"the trace names no {tag}", "see configs/slab-types.toml")
    guests = tuple(_guest(program, guest, mine, numbers, place) for guest in observed.guests)
    watches: tuple[Watch, ...] = tuple(replace(watch, optional=True) for watch in observed.watches)
    parameters = structs.replace(observed.parameters, objects=(tag,))
    return replace(observed, watches=watches, guests=guests, parameters=parameters)


def _guest(program: Path, guest: ObservedGuest, mine: set[str], numbers: dict[str, int], place: Path) -> ObservedGuest:
    if guest.tape is None:
        raise ValueError("the guest's accesses were not kept")
    kept = _near(guest.raw.instances, mine)
    rows = [
        f"there {each.address:x} {each.size}\n"
        if each.epoch
        else f"object {numbers[each.key]} {each.address:x} {each.size}\n"
        for each in kept
    ]
    objects, tape = place / f"objects-{guest.quantum}", place / f"picked-{guest.quantum}.tape"
    objects.write_text("".join(rows))
    must([program, guest.tape, objects, tape], next_step="make the trace again: schedline c2c --trace FILE")
    # From now on they are watched from the start.
    instances = tuple(structs.replace(each, epoch=each.epoch or 1) for each in kept)
    return replace(guest, raw=replace(guest.raw, instances=instances), tape=tape)


def _near(instances: Iterable[Instance], mine: set[str]) -> list[Instance]:
    """The objects of a structure, and those on their lines; of objects in one place, the one that was watched."""
    every = list(instances)
    lines = {line for each in every if each.key in mine for line in _lines(each)}
    near = [each for each in every if not lines.isdisjoint(_lines(each))]
    watched = sorted(each.address for each in near if each.epoch)

    def holds_watched(each: Instance) -> bool:
        at = bisect_left(watched, each.address)
        return at < len(watched) and watched[at] < each.address + each.size

    return [each for each in near if each.epoch or not holds_watched(each)]


def _lines(instance: Instance) -> range:
    return range(instance.address // _LONGEST, (instance.address + max(instance.size, 1) - 1) // _LONGEST + 1)
