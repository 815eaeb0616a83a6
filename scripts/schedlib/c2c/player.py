# SPDX-License-Identifier: GPL-2.0
"""Plays the tapes of guests through the model again: with other lines, other offsets, or fields on their own lines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from schedlib.c2c.c2c_options import ALL, LINES
from schedlib.c2c.observed import Observed, ObservedGuest
from schedlib.c2c.raw import parse_raw
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import TrafficParameters
from schedlib.process import must

_NEXT = "make the trace again: schedline c2c --trace FILE"


@dataclass(frozen=True)
class Player:
    """A program that plays tapes, see scripts/c2c/replay.c; CPUs that share caches as in the guests."""

    program: Path
    parameters: TrafficParameters

    def _said(self, guest: ObservedGuest, line: int, pairs: bool, *files: Path) -> str:
        if guest.tape is None:
            raise ValueError("the guest's accesses were not kept")
        chosen = self.parameters
        shape = (chosen.cpus, line, chosen.per_cluster, chosen.per_llc, chosen.per_node)
        ways = ("pair" if pairs else "one", "all" if ALL in chosen.objects else "some")
        return must([self.program, guest.tape, *map(str, shape), *ways, guest.moves or "-", *files], next_step=_NEXT)

    def counts(self, guest: ObservedGuest, line: int, *, pairs: bool = False) -> ObservedGuest:
        """A guest with the counts for lines of this size, which are fetched in pairs if `pairs` is true.

        Raises:
            SchedlineError: its tape is damaged.
        """
        raw = parse_raw(self._said(guest, line, pairs), str(guest.tape))
        return replace(guest, raw=replace(guest.raw, records=raw.records, watched=raw.watched, private=raw.private))

    def groups(self, guest: ObservedGuest, line: int, fields: Path, *, pairs: bool = False) -> list[list[int]]:
        """The seven numbers of each group of fields, see scripts/c2c/blame.h; SchedlineError if the tape is damaged."""
        *rows, end = self._said(guest, line, pairs, fields).splitlines()
        if end != "end 0":
            raise SchedlineError(f"{guest.tape} was not played to its end", _NEXT)
        return [[int(word) for word in row.split()[2:]] for row in rows]


def played(player: Player, observed: Observed, line: int) -> Observed:
    """The same guests, with counts for lines of this size; SchedlineError if a tape is damaged."""
    guests = tuple(player.counts(guest, line) for guest in observed.guests)
    return replace(observed, guests=guests, parameters=structs.replace(observed.parameters, line=line))


def pcs_of(player: Player, observed: Observed) -> set[int]:
    """The addresses of all instructions that a replay may name, whatever its lines."""
    return {record.pc for guest in observed.guests for record in player.counts(guest, max(LINES)).raw.records}
