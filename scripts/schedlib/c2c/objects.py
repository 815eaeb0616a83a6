# SPDX-License-Identifier: GPL-2.0
"""Objects of the scheduler, by name: where a kernel has them, and which field an address belongs to.

Names of objects become watches, each a symbol and the pointers to follow. Who can read the kernel's memory locates
them: the plugin, or drgn. Then any address can be resolved to an object and a field.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from msgspec import UNSET, UnsetType, structs

from schedlib.c2c.c2c_options import KINDS, ObjectKind
from schedlib.c2c.kernel_map import KernelMap, Symbol, last_before
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import Address, FieldRef, MappedField, Watched
from schedlib.formats.strict import Count, Positive, Strict, Word

PER_CPU_OFFSETS = "__per_cpu_offset"
_ONE_FOR_EACH_CPU = ("cpudl_item", "cpupri_place")
_POINTER = 8
_SBM_LEAVES = 15
"""Leaves of a sparse bitmap that are watched: those whose pointers are in the two lines that each root has."""


class Watch(Strict, frozen=True):
    """A range of memory to watch, and how to find it: from `address`, and then, for each of `hops`, read the pointer
    there and add this number to its value.

    Attributes:
        prefix: `*` and the path of the pointer in the object `owner` that leads to it; empty for the object itself.
        offset: in the object, if only a part of it is watched.
        tag: its structure, if it has one.
        optional: a null pointer to it is not reported as missing.
        allocated: the last pointer leads to memory of each CPU.
    """

    key: Word
    owner: Word
    prefix: str
    offset: Count
    size: Positive
    tag: str
    per_cpu: bool
    address: Address
    hops: tuple[Count, ...]
    optional: bool
    allocated: bool | UnsetType = UNSET


def _missing(name: str, what: str) -> SchedlineError:
    return SchedlineError(
        f"--objects: {name} is not found: this kernel has no {what}",
        f"leave it out; schedline knows {', '.join(KINDS)}, and a kernel may lack some",
    )


def watches(known: KernelMap, names: Sequence[str], cpus: int) -> tuple[Watch, ...]:
    """The watches for some objects on a machine with these CPUs; SchedlineError if the kernel lacks an object."""
    found: dict[str, Watch] = {}
    for name in names:
        if name not in KINDS:
            raise SchedlineError(f"--objects: there is no {name!r}", f"choose from {', '.join(KINDS)}")
        for watch in _watches_of(known, name, KINDS[name], cpus):
            found.setdefault(watch.key, watch)
    return tuple(found.values())


def _watches_of(known: KernelMap, name: str, kind: ObjectKind, cpus: int) -> Iterable[Watch]:
    symbol = known.symbol(kind.symbol)
    if symbol is None:
        raise _missing(name, f"variable {kind.symbol}")
    for tag in (kind.tag, *(tag for tag, _ in kind.hops if tag)):
        if tag not in known.structures:
            raise _missing(name, f"{tag} with debug information")
    hops = []
    for tag, path in kind.hops:
        entries = [known.structures[tag].find(each) for each in path.split("-")] if tag else []
        if None in entries:
            raise _missing(name, f"field {path} of {tag}")
        places = [entry.offset for entry in entries if entry]
        hops.append(sum(places[:1]) - sum(places[1:]))
    # The first offset is added to the variable's address, the others to the value of a pointer.
    start, rest = (symbol.address + hops[0], [*hops[1:], 0]) if hops else (symbol.address, [])

    def watch(path: str, size: int, tag: str, offset: int, *behind: int, optional: bool = False) -> Watch:
        """What lies at an offset of the object, or behind pointers that begin there."""
        steps = (*rest[:-1], rest[-1] + offset, *behind) if rest else behind
        place = start if rest else start + offset
        key = f"{name}{path or '+0'}"
        return Watch(key, name, path, 0, size, tag, kind.per_cpu, place, steps, optional, kind.allocated or UNSET)

    structure = known.structures[kind.tag]
    yield watch("", structure.size, kind.tag, 0)
    for entry in structure.fields if kind.masks else ():
        path = f"*{entry.path}"
        if length := _behind(known, entry, cpus):
            yield watch(path, length, entry.pointee if entry.pointee in known.structures else "", entry.offset, 0)
        leaves: list[tuple[str, str, int]] = []
        if entry.path.endswith("cpupri.leaves"):
            # cpupri-split: an array of pointers. One is set for each group of CPUs, the others are null.
            leaves = [("cpupri_leaf", f"{path}[{number}]", number) for number in range(cpus)]
        elif entry.pointee == "sbm":
            leaves = [("sbm_leaf", f"{path}.leaves[{number}]", 1 + number) for number in range(min(cpus, _SBM_LEAVES))]
        for tag, leaf, number in leaves:
            size = known.structures[tag].size
            yield watch(leaf, size, tag, entry.offset, _POINTER * number, 0, optional=True)


def _behind(known: KernelMap, entry: MappedField, cpus: int) -> int:
    """Bytes behind a pointer that belong to the object; 0 if the pointer leads to a separate object."""
    if entry.pointee == "cpumask":
        return (cpus + 63) // 64 * 8
    if entry.path.endswith("cpu_to_pri"):
        return 4 * cpus
    if entry.path.endswith("cpupri.leaves"):
        return _POINTER * cpus
    if entry.pointee == "sbm":
        return _POINTER * (1 + min(cpus, _SBM_LEAVES))
    return cpus * known.structures[entry.pointee].size if entry.pointee in _ONE_FOR_EACH_CPU else 0


class Instance(Strict, frozen=True):
    """Where the object of the watch with this key lay.

    `epoch`: above 1 if it was allocated later; 0 if the plugin did not watch it and it was only named afterwards.
    """

    key: Word
    cpu: Count
    address: Address
    size: Positive
    epoch: Count


UNNAMED = "unnamed"
"""The owner of memory that nothing is known about."""


class Resolver:
    """Resolves addresses to objects that were found, the instances of `looked_at`, on lines of so many bytes.

    `everything`: an address outside of all objects is unnamed, not a neighbour or an error.
    """

    def __init__(
        self,
        known: KernelMap,
        line: int,
        looked_at: Iterable[Watch],
        instances: Iterable[Instance],
        *,
        everything: bool = False,
    ) -> None:
        self._known, self._line, self._everything = known, line, everything
        self._watches = {watch.key: watch for watch in looked_at}
        self._spans: list[Instance] = []
        # Keep an object once even if it was found twice: because all CPUs share it, or as part of another object.
        for span in sorted(instances, key=lambda each: (each.epoch, each.address, -each.size)):
            before = self._spans[-1] if self._spans else None
            if before is None or span.epoch != before.epoch or span.address >= before.address + before.size:
                self._spans.append(span)
        self._places = [(span.epoch, span.address) for span in self._spans]
        self._on_line: dict[int, list[Instance]] = {}
        for span in self._spans:
            for number in range(span.address // line, (span.address + span.size - 1) // line + 1):
                self._on_line.setdefault(number, []).append(span)
        self._bytes: dict[str, list[str]] = {}

    def watched(self) -> tuple[Watched, ...]:
        """What was found of each watch."""
        found = []
        by_key: dict[str, list[Instance]] = {}
        for span in self._spans:
            by_key.setdefault(span.key, []).append(span)
        for watch in self._watches.values():
            if spans := by_key.get(watch.key):
                later = sum(span.epoch > 1 for span in spans)
                skews = tuple(sorted({(span.address - watch.offset) % self._line for span in spans}))
                fields = self._known.structures[watch.tag].fields if watch.tag and not watch.prefix else ()
                found.append(Watched(watch.owner, watch.prefix, watch.size, len(spans), later, skews, fields))
        return tuple(found)

    def place(self, address: int, epoch: int = 1) -> FieldRef:
        """What lay at an address on a watched line; ValueError if no watched object lies on the line."""
        at = bisect_right(self._places, (epoch, address)) - 1
        span = self._spans[at] if at >= 0 else None
        if span and span.epoch == epoch and address < span.address + span.size:
            watch = self._watches[span.key]
            return self.inside(watch, span.address - watch.offset, address)
        if self._everything:
            return FieldRef(UNNAMED, "", 0, address % self._line, "", neighbour=False)
        around = self._on_line.get(address // self._line)
        if not around:
            raise ValueError(f"{address:x} lies on no watched line")
        span = next((each for each in reversed(around) if each.address <= address), around[0])
        watch = self._watches[span.key]
        # What lies beside an object behind a pointer is not known.
        beside = None if watch.hops else _at(self._known.data, watch.address + address - span.address)
        place = self.inside(watch, span.address - watch.offset, address, beside.name if beside else "")
        return structs.replace(place, neighbour=True)

    def inside(self, watch: Watch, begin: int, address: int, path: str | None = None) -> FieldRef:
        """What lies at an address inside of an object that begins at `begin`; the object need not have been located."""
        offset, line = address - begin, address // self._line - begin // self._line
        found = self._path(watch, offset) if path is None else path
        return FieldRef(watch.owner, watch.prefix, line, offset, found, neighbour=False)

    def _path(self, watch: Watch, offset: int) -> str:
        structure = self._known.structures.get(watch.tag)
        if structure is None:
            return watch.prefix
        index, rest = divmod(offset, structure.size) if watch.prefix else (0, offset)
        if watch.tag not in self._bytes:
            # In a union, the first field gives the name.
            owners = ["(hole)"] * structure.size
            for entry in reversed(structure.fields):
                owners[entry.offset : entry.offset + entry.size] = [entry.path] * entry.size
            self._bytes[watch.tag] = owners
        member = self._bytes[watch.tag][rest]
        return f"{watch.prefix}[{index}].{member}" if watch.prefix else member

    def function(self, pc: int) -> str:
        found = _at(self._known.functions, pc)
        return found.name if found else f"{pc:#x}"


def _at(symbols: Sequence[Symbol], address: int) -> Symbol | None:
    at = last_before(symbols, address)
    # Code in assembly may have no size.
    if at >= 0 and (not symbols[at].size or address < symbols[at].address + symbols[at].size):
        return symbols[at]
    return None
