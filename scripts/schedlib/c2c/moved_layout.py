# SPDX-License-Identifier: GPL-2.0
"""Other offsets for the fields of a trace: a layout file, checked against the structures, becomes moves of bytes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from msgspec import structs

from schedlib.c2c.kernel_map import KernelMap
from schedlib.c2c.objects import Instance, Watch
from schedlib.c2c.observed import Observed, ObservedGuest
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import C2C_FILE, MappedStructure, read_result
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Count, Positive, Strict

_LONGEST = 256
"""Bytes of the longest lines: objects that share one of these are moved together."""

_GRANULE = 8
"""The model's objects begin and end at multiples of this."""

_FRESH = 1 << 44
"""Where moved objects go: no kernel has an address there."""


class StructureLayout(Strict, frozen=True):
    """Where members of a structure lie: the offsets of those that move, each as a whole; size and alignment in bytes.

    `size` 0: as before, or as large as necessary.
    """

    members: dict[str, Count]
    size: Count = 0
    align: Positive = 1


class LayoutFile(Strict, frozen=True):
    """A layout file: structures by name. If `build_id` is given, it is only for a trace of this kernel."""

    structure: dict[str, StructureLayout]
    build_id: str = ""


@dataclass(frozen=True)
class _Relaid:
    """A structure in its new layout, and for each of its old bytes the new offset; -1 for a byte that is lost."""

    structure: MappedStructure
    bytes: tuple[int, ...]
    align: int


def _read(path: Path, known: KernelMap) -> Mapping[str, StructureLayout]:
    """The structures of a layout file or of a result; SchedlineError if it is neither, or for another kernel."""
    if path.is_dir() or path.suffix == ".json":
        result = read_result(path)
        return {
            each.owner: StructureLayout({field.path: field.offset for field in each.fields}, each.size)
            for each in result.watched
            if each.fields and not each.prefix and each.owner in known.structures
        }
    read = read_toml(path, LayoutFile)
    if read.build_id and read.build_id != known.build_id:
        raise SchedlineError(
            f"{path} is for the kernel with the build-id {read.build_id}, the trace is of {known.build_id}",
            "take a trace of that kernel, or remove build_id if the structures are the same",
        )
    return read.structure


def relaid(observed: Observed, layout: Path, place: Path) -> Observed:
    """The guests, with moves to another layout, which are kept in `place`; their counts are not yet those."""
    wanted = _read(layout, observed.known)
    digest = hashlib.sha256((layout / C2C_FILE if layout.is_dir() else layout).read_bytes()).hexdigest()[:16]
    return relaid_as(observed, wanted, str(layout), f"{layout.name} {digest}", place)


def relaid_as(
    observed: Observed, wanted: Mapping[str, StructureLayout], source: str, name: str, place: Path
) -> Observed:
    """The same for layouts of some structures, by tag. `source` is for messages, `name` for the result."""
    structures, changed, there = dict(observed.known.structures), {}, f"it has {', '.join(sorted(observed.tags))}"
    for tag, each in wanted.items():
        if tag not in structures or tag not in observed.tags:
            raise SchedlineError(f"{source}: {tag} is no structure of this trace", there)
        changed[tag] = _relaid(source, tag, structures[tag], each)
        structures[tag] = changed[tag].structure
    if not changed:
        raise SchedlineError(f"{source} has no structure of this trace", there)
    guests = tuple(_moved(observed.watches, guest, changed, place) for guest in observed.guests)
    watches = tuple(
        structs.replace(watch, size=changed[watch.tag].structure.size)
        if watch.tag in changed and not watch.prefix
        else watch
        for watch in observed.watches
    )
    return replace(
        observed,
        fingerprint={**observed.fingerprint, "layout": name},
        # What lies beside a variable is no longer at the distance that the symbols have.
        known=replace(observed.known, structures=structures, data=()),
        watches=watches,
        guests=guests,
    )


def _relaid(layout: str, tag: str, old: MappedStructure, wanted: StructureLayout) -> _Relaid:
    offsets = [field.offset for field in old.fields]
    for name, offset in wanted.members.items():
        inside = [number for number, field in enumerate(old.fields) if is_part(field.path, name)]
        if not inside:
            raise SchedlineError(f"{layout}: {tag} of this trace has no member {name}", _like(name, old))
        shift = offset - min(old.fields[number].offset for number in inside)
        for number in inside:
            offsets[number] = old.fields[number].offset + shift
    taken: dict[int, int] = {}
    to = [-1] * old.size
    for field, start in zip(old.fields, offsets, strict=True):
        for number in range(field.size):
            old_byte, new_byte = field.offset + number, start + number
            if to[old_byte] not in (-1, new_byte):
                raise SchedlineError(
                    f"{layout}: {tag}.{field.path} shares its memory with another member, which goes elsewhere",
                    "a union's members move together: give all of them the same offset",
                )
            if taken.setdefault(new_byte, old_byte) != old_byte:
                other = next(each.path for each in old.fields if 0 <= taken[new_byte] - each.offset < each.size)
                raise SchedlineError(
                    f"{layout}: {tag}.{field.path} and {tag}.{other} would both lie at offset {new_byte}",
                    f"{tag} is {old.size} bytes: move one of them, for example to {old.size}",
                )
            to[old_byte] = new_byte
    end = max(taken, default=-1) + 1
    fits = end <= old.size and old.size % wanted.align == 0
    size = wanted.size or (old.size if fits else up(max(end, old.size), max(wanted.align, _GRANULE)))
    if size < end or size % wanted.align:
        multiple = f", and it has to be a multiple of {wanted.align}" if wanted.align > 1 else ""
        raise SchedlineError(
            f"{layout}: {tag} cannot have {size} bytes: its members need {end}{multiple}",
            f"write size = {up(end, wanted.align)}, or leave it out",
        )
    # A hole stays behind the member before it, as far as there is room; the rest of it is lost.
    for byte, new in enumerate(to):
        follower = to[byte - 1] + 1 if byte else 0
        if new < 0 and (not byte or to[byte - 1] >= 0) and follower < size and follower not in taken:
            to[byte], taken[follower] = follower, byte
    fields = [structs.replace(each, offset=start) for each, start in zip(old.fields, offsets, strict=True)]
    fields.sort(key=lambda field: field.offset)
    return _Relaid(MappedStructure(size, tuple(fields)), tuple(to), wanted.align)


def _like(name: str, structure: MappedStructure) -> str:
    """A next step for a member that there is not: members like it, else those of the top level."""
    close = get_close_matches(name, [field.path for field in structure.fields], 3)
    top = dict.fromkeys(re.split(r"[.\[]", field.path)[0] for field in structure.fields)
    return f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(top)}"


def is_part(path: str, name: str) -> bool:
    """Whether a field is a member, or inside of it."""
    return path == name or path.startswith((f"{name}.", f"{name}["))


def up(value: int, step: int) -> int:
    """The next multiple of a step."""
    return -(-value // step) * step


def _moved(
    watches: Sequence[Watch], guest: ObservedGuest, changed: Mapping[str, _Relaid], place: Path
) -> ObservedGuest:
    """A guest whose objects move. Those that share a line keep their distance, so they still share it if none grows."""
    numbers = {watch.key: number for number, watch in enumerate(watches)}
    relaid_keys = {watch.key: changed[watch.tag] for watch in watches if watch.tag in changed and not watch.prefix}

    def room(each: Instance) -> tuple[int, int]:
        """Its new size and alignment."""
        new = relaid_keys.get(each.key)
        return (new.structure.size, max(new.align, _GRANULE)) if new else (each.size, _GRANULE)

    to: dict[tuple[str, int], int] = {}
    lines = []
    free = _FRESH
    different = {(each.key, each.address): each for each in guest.instances}.values()
    for cluster in _clusters(sorted(different, key=lambda each: (each.address, -each.size, numbers[each.key]))):
        if relaid_keys.keys().isdisjoint(each.key for each in cluster):
            continue
        before = cluster[0]
        at = free + before.address % _LONGEST
        for each in cluster:
            is_behind = each.address >= before.address + before.size
            at += each.address - before.address + (room(before)[0] - before.size if is_behind else 0)
            at = up(at, room(each)[1])
            to[each.key, each.address] = at
            word = "object" if each.epoch else "named"
            lines.append(f"{word} {numbers[each.key]} {each.address:x} {each.size} {at:x} {room(each)[0]}")
            before = each
        free = up(at + max(room(each)[0] for each in cluster), _LONGEST) + _LONGEST
    for key, new in relaid_keys.items():
        lines += [f"piece {numbers[key]} {old} {size} {offset}" for old, size, offset in _pieces(new.bytes)]
    moves = place / f"quantum-{guest.quantum}.moves"
    moves.write_text("\n".join(lines) + "\n")
    instances = tuple(
        structs.replace(each, address=to[each.key, each.address], size=room(each)[0])
        if (each.key, each.address) in to
        else each
        for each in guest.instances
    )
    return replace(guest, instances=instances, again=(), moves=moves)


def _clusters(objects: Iterable[Instance]) -> list[list[Instance]]:
    """Objects that share lines; they come in the order of their addresses."""
    clusters: list[list[Instance]] = []
    end = 0
    for each in objects:
        if not clusters or each.address // _LONGEST > (end - 1) // _LONGEST:
            clusters.append([])
        clusters[-1].append(each)
        end = max(end, each.address + each.size)
    return clusters


def _pieces(to: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Runs of bytes that stay together: old offset, size, new offset."""
    start = 0
    for byte in range(1, len(to) + 1):
        if byte == len(to) or to[byte] != to[byte - 1] + 1 or min(to[byte], to[byte - 1]) < 0:
            if to[start] >= 0:
                yield start, byte - start, to[start]
            start = byte
