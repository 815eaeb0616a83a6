# SPDX-License-Identifier: GPL-2.0
"""What was observed in the guests of one measurement, and the result and the trace that are made of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import asdict

from schedlib import TOOL
from schedlib.c2c.c2c_options import ALL
from schedlib.c2c.kernel_map import KernelMap
from schedlib.c2c.objects import Located, Resolver, Watch
from schedlib.c2c.raw import PAGE, Raw
from schedlib.c2c.traffic_table import rows
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import Quantum, TrafficParameters, TrafficResult
from schedlib.formats.c2c_trace_document import Symbol, TracedGuest, TracedWatch, TraceHead, read_trace, write_trace

_AROUND = 512
"""Bytes around a watched variable in which a neighbour on its lines may lie."""


@dataclass(frozen=True)
class ObservedGuest:
    """One guest.

    Attributes:
        operations: number of operations of its program.
        tape: its accesses, if they were kept.
        moves: where objects and their fields are to lie when the tape is played, see scripts/c2c/moves.h.
    """

    quantum: int
    operations: int
    raw: Raw
    tape: Path | None = None
    moves: Path | None = None


@dataclass(frozen=True)
class Observed:
    """The guests of one measurement, and what they have in common. `watches` are in the order of the plan."""

    tool: str
    started: datetime
    fingerprint: Mapping[str, str]
    changes: Mapping[str, str]
    parameters: TrafficParameters
    known: KernelMap
    watches: tuple[Watch, ...]
    guests: tuple[ObservedGuest, ...]

    @property
    def middle(self) -> ObservedGuest:
        """The guest of the middle quantum."""
        return self.guests[len(self.guests) // 2]

    @property
    def everything(self) -> bool:
        """Whether all of the kernel's memory was watched."""
        return ALL in self.parameters.objects

    def resolver(self, guest: ObservedGuest, line: int) -> Resolver:
        """Names the addresses of a guest; SchedlineError if it had no object of some kind."""
        return Resolver(self.known, line, located(self.watches, guest.raw), everything=self.everything)


def located(watches: Sequence[Watch], raw: Raw) -> tuple[Located, ...]:
    """Where a guest had its objects; SchedlineError if it had none of some kind."""
    by_key = {watch.key: watch for watch in watches}
    found = tuple(Located(by_key[each.key], each.cpu, each.address, each.epoch) for each in raw.instances)
    there = {each.watch.key for each in found}
    nowhere = [watch for watch in watches if watch.key not in there and not watch.optional]
    if nowhere and not nowhere[0].prefix:
        observed = f"--objects: no CPU of this guest has a {nowhere[0].owner}: the pointer to it is NULL on all CPUs"
        raise SchedlineError(observed, "leave it out, or give the guest a --topology in which it has one")
    return found


def result_of(observed: Observed) -> TrafficResult:
    """The counts by object, field and function; SchedlineError if a guest had no object of some kind."""
    line = observed.parameters.line
    quanta = []
    absent: dict[str, int] = {}
    optional = {watch.key for watch in observed.watches if watch.optional}
    for guest in observed.guests:
        absent |= {key: number for key, number in guest.raw.absent.items() if key not in optional}
        resolver = observed.resolver(guest, line)
        raw = guest.raw
        again = _again(raw) if observed.everything else UNSET
        counted = rows(resolver, raw.records)
        quanta.append(Quantum(guest.quantum, guest.operations, raw.watched, counted, raw.private, again))
    return TrafficResult(
        schema="c2c-1",
        tool=observed.tool,
        started=observed.started,
        fingerprint=dict(observed.fingerprint),
        changes=dict(observed.changes),
        parameters=observed.parameters,
        watched=resolver.watched(observed.watches),
        absent=dict(sorted(absent.items())),
        quanta=tuple(quanta),
    )


def _again(raw: Raw) -> int:
    """The misses on pages that something else used when counting began."""
    pages = set(raw.again)
    return sum(each.counts.misses for each in raw.records if not each.epoch and each.address & -PAGE in pages)


def keep_trace(path: Path, observed: Observed, pcs: Iterable[int]) -> None:
    """Write a trace of guests whose tapes were kept.

    Args:
        pcs: the addresses of the instructions on the tapes.
    """
    tapes = [guest.tape for guest in observed.guests if guest.tape]
    head = TraceHead(
        schema="c2c-trace-1",
        tool=observed.tool,
        started=observed.started,
        fingerprint=dict(observed.fingerprint),
        changes=dict(observed.changes),
        parameters=observed.parameters,
        structures=dict(observed.known.structures),
        functions=_at_or_before(observed.known.functions, pcs),
        data=_beside(observed.known.data, observed.watches),
        watches=tuple(
            TracedWatch(**{each.name: getattr(watch, each.name) for each in fields(watch)})
            for watch in observed.watches
        ),
        guests=tuple(
            TracedGuest(
                quantum=guest.quantum,
                operations=guest.operations,
                length=tape.stat().st_size,
                instances=guest.raw.instances,
                absent=guest.raw.absent,
                again=guest.raw.again,
            )
            for guest, tape in zip(observed.guests, tapes, strict=True)
        ),
    )
    write_trace(path, head, tapes)


def _at_or_before(symbols: Sequence[Symbol], addresses: Iterable[int]) -> tuple[Symbol, ...]:
    """For each address, the symbol that begins last before it."""
    starts = [symbol.address for symbol in symbols]
    found = {bisect_right(starts, address) - 1 for address in addresses}
    return tuple(symbols[number] for number in sorted(found) if number >= 0)


def _beside(symbols: Sequence[Symbol], watches: Iterable[Watch]) -> tuple[Symbol, ...]:
    """The variables on the lines of watched variables, and the one before each such range."""
    starts = [symbol.address for symbol in symbols]
    found: set[int] = set()
    for watch in watches:
        if not watch.hops:
            first = bisect_right(starts, watch.address - _AROUND) - 1
            last = bisect_right(starts, watch.address + watch.size + _AROUND)
            found |= set(range(max(first, 0), last))
    return tuple(symbols[number] for number in sorted(found))


def traced(path: Path, place: Path) -> Observed:
    """What a trace has, with its tapes in the directory `place`. The guests have no counts yet.

    Raises:
        SchedlineError: the file is not a whole trace.
    """
    head, tapes = read_trace(path, place)
    known = KernelMap(head.fingerprint.get("build_id", ""), head.structures, head.functions, head.data)
    guests = tuple(
        ObservedGuest(each.quantum, each.operations, Raw(each.instances, each.absent, (), 0, again=each.again), tape)
        for each, tape in zip(head.guests, tapes, strict=True)
    )
    return Observed(
        tool=TOOL,
        started=head.started,
        fingerprint=head.fingerprint,
        changes=head.changes,
        parameters=head.parameters,
        known=known,
        watches=tuple(Watch(**asdict(watch)) for watch in head.watches),
        guests=guests,
    )
