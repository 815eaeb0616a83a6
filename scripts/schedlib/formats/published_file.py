# SPDX-License-Identifier: GPL-2.0
"""configs/published/: what perf c2c has shown on real machines, from mails and commits, with their sources."""

from __future__ import annotations

from pathlib import Path

from msgspec import field

from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Amount, Count, Strict, Word


class PublishedRow(Strict, frozen=True):
    """A row of a line.

    Attributes:
        field: the object and the field at the row's offset.
        remote, local: percent of the line's remote and local HITM.
        store: percent of the line's stores that hit the L1 cache.
        cycles: of a load, on average.
        records: samples, of any kind.
    """

    field: Word
    remote: Amount
    local: Amount
    store: Amount = 0.0
    cycles: Count = 0
    records: Count = 0
    function: str = ""


class PublishedLine(Strict, frozen=True):
    """A cache line: samples of loads that were HITM in a remote and in a local cache, and of stores."""

    about: Word
    remote: Count
    local: Count
    row: tuple[PublishedRow, ...]
    stores: Count = 0


class EmulatedTop(Strict, frozen=True):
    """What schedline c2c counts for the nearest workload.

    Attributes:
        measured: the date.
        of: the structures whose fields are ranked.
        fields: HITM of loads and atomic operations, one number for each quantum.
    """

    measured: Word
    kernel: Word
    compiler: Word
    qemu: Word
    workload: Word
    cpus: Count
    quanta: tuple[Count, ...]
    of: tuple[Word, ...]
    fields: dict[str, tuple[Count, ...]]


class Published(Strict, frozen=True, kw_only=True):
    """An output of perf c2c.

    Attributes:
        name: of the file.
        title: what was changed or reported.
        source: where it stands.
        ran: the workload.
        line: the lines that it shows with numbers.
        ranked: fields by rank, the hottest first, if the source has no numbers for them.
        emulated: the counts to hold against it, if its workload can be emulated.
        open: why it is not emulated, or what is not explained.
        differs: fields on which both sides disagree, and the reason.
    """

    name: Word
    title: Word
    source: Word
    machine: Word
    kernel: Word
    ran: Word
    line: tuple[PublishedLine, ...] = ()
    ranked: tuple[Word, ...] = ()
    emulated: EmulatedTop | None = None
    open: str = ""
    differs: dict[str, Word] = field(default_factory=dict)

    def hitm(self) -> dict[str, float]:
        """Samples of HITM by field; for fields that are only ranked, numbers that rank them."""
        if not self.line:
            return {name: float(len(self.ranked) - place) for place, name in enumerate(self.ranked)}
        found: dict[str, float] = {}
        for line in self.line:
            for row in line.row:
                part = (row.remote * line.remote + row.local * line.local) / 100
                found[row.field] = found.get(row.field, 0.0) + part
        return found


def read_published(path: Path) -> Published:
    """Read a file; SchedlineError if it is invalid."""
    return read_toml(path, Published, stem="name")
