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


class EmulatedAs(Strict, frozen=True):
    """How schedline c2c counts what an output of perf shows.

    Attributes:
        workload: of `schedline c2c`.
        of: what is ranked, as the result names it: the members on the lines that the source shows, or the whole
            structure if the source shows all of its hot lines.
        but: members that are left out.
        names: what the source calls a member that the result calls otherwise.
        gone: members of the source that 7.3 does not have.
        layout: the patch beside this file that puts members where they lay then; empty: 7.3 has them there.
    """

    workload: Word
    of: tuple[Word, ...]
    but: tuple[Word, ...] = ()
    names: dict[str, Word] = field(default_factory=dict)
    gone: tuple[Word, ...] = ()
    layout: str = ""


class EmulatedTop(Strict, frozen=True):
    """The fields that schedline c2c has counted most, one number for each quantum.

    Attributes:
        measured: the date.
        fields: loads and atomic operations, by the names of the source.
        loads: loads alone.
        fast: the same as fields, of guests with 1 ns for an instruction (--clock 1).
    """

    measured: Word
    kernel: Word
    compiler: Word
    qemu: Word
    cpus: Count
    quanta: tuple[Count, ...]
    fields: dict[str, tuple[Count, ...]]
    loads: dict[str, tuple[Count, ...]] = field(default_factory=dict)
    fast: dict[str, tuple[Count, ...]] = field(default_factory=dict)


class Published(Strict, frozen=True, kw_only=True):
    """An output of perf c2c.

    Attributes:
        name: of the file.
        title: what was changed or reported.
        source: where it stands.
        ran: the workload.
        line: the lines that it shows with numbers.
        ranked: fields by rank, the hottest first, if the source has no numbers for them.
        forwards: its CPU reports a line that another core hands over unmodified as HITM, too: Intel's Ice Lake and
            later, see table 20-101 of the SDM, volume 3B, encoding 07H.
        emulation: how its workload is emulated, if it can be.
        emulated: what was counted.
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
    forwards: bool = False
    emulation: EmulatedAs | None = None
    emulated: EmulatedTop | None = None
    open: str = ""
    differs: dict[str, Word] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.emulated and not self.emulation:
            raise ValueError("it has counts, but does not say of which workload: write [emulation]")
        emulated = self.emulated
        for table in (emulated.fields, emulated.loads, emulated.fast) if emulated else ():
            if emulated and any(len(each) != len(emulated.quanta) for each in table.values()):
                raise ValueError("a field has not one count for each quantum")
        if bool(self.line) == bool(self.ranked):
            raise ValueError("it has to have either lines with numbers or ranked fields")

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
