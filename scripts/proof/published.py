# SPDX-License-Identifier: GPL-2.0
"""Published outputs of perf c2c beside emulated counts: docs/results/changes.md.

python3 scripts/proof published                 the rows of the page, from the counts that the files have
python3 scripts/proof published rd-lines DIR    an output beside a new result of schedline c2c
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import field

from schedlib.c2c.moved_layout import is_part
from schedlib.c2c.traffic_report import middle, named
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import AccessKind, TrafficResult, TrafficRow, read_result
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Amount, Count, Strict, Word
from schedlib.formats.tables import markdown_row, table

PUBLISHED = Path(__file__).with_name("published")

_FIRST = 3
_SHOWN = 12

Amounts = dict[str, tuple[int, ...]]
"""For each field a number for each quantum."""


class PublishedRow(Strict, frozen=True):
    """A row of a line: a field, and percent of the line's remote and local HITM."""

    field: Word
    remote: Amount
    local: Amount
    function: str = ""


class PublishedLine(Strict, frozen=True):
    """A cache line: samples of loads that were HITM in a remote and in a local cache."""

    about: Word
    remote: Count
    local: Count
    row: tuple[PublishedRow, ...]


class EmulatedAs(Strict, frozen=True):
    """How schedline c2c counts what an output of perf shows.

    `of`: what is ranked, the members on the lines that the source shows, or the whole structure if it shows all of its
    hot lines. `but`: members that are left out. `gone`: members that 7.3 does not have. `layout`: the patch beside this
    file that puts members where they lay then.
    """

    workload: Word
    of: tuple[Word, ...]
    but: tuple[Word, ...] = ()
    gone: tuple[Word, ...] = ()
    layout: str = ""


class EmulatedTop(Strict, frozen=True):
    """The fields that schedline c2c has counted most, one number for each quantum.

    `fields`: loads and atomic operations, by the names of the source; `fast`: the same with 1 ns for an instruction.
    """

    measured: Word
    kernel: Word
    compiler: Word
    qemu: Word
    cpus: Count
    quanta: tuple[Count, ...]
    fields: dict[str, tuple[Count, ...]]
    loads: dict[str, tuple[Count, ...]]
    fast: dict[str, tuple[Count, ...]]


class Published(Strict, frozen=True, kw_only=True):
    """An output of perf c2c: lines with numbers, or fields by rank.

    `forwards`: its CPU reports a line that another core hands over unmodified as HITM, too: Intel's Ice Lake and later,
    see table 20-101 of the SDM, volume 3B, encoding 07H. `differs`: fields on which both sides disagree, and why.
    """

    name: Word
    title: Word
    source: Word
    machine: Word
    kernel: Word
    ran: Word
    emulation: EmulatedAs
    emulated: EmulatedTop
    line: tuple[PublishedLine, ...] = ()
    ranked: tuple[Word, ...] = ()
    forwards: bool = False
    differs: dict[str, Word] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counted = self.emulated
        for kind in (counted.fields, counted.loads, counted.fast):
            if any(len(each) != len(counted.quanta) for each in kind.values()):
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
    return read_toml(path, Published, stem="name")


def top(amounts: Mapping[str, float], number: int = 3) -> tuple[str, ...]:
    """The names with the largest amounts, without those that have nothing."""
    return tuple(sorted((name for name in amounts if amounts[name]), key=lambda name: (-amounts[name], name))[:number])


@dataclass(frozen=True)
class TopAgreement:
    """The first fields of both sides, at most three, the hottest first."""

    published: tuple[str, ...]
    emulated: tuple[str, ...]

    @property
    def same(self) -> int:
        return len(set(self.published) & set(self.emulated))

    @property
    def first(self) -> bool:
        return self.published[:1] == self.emulated[:1]

    @property
    def agrees(self) -> bool:
        """Whether the first field is the same, and the others are the same in any order."""
        return self.first and self.same == len(self.published)


def emulated_top(
    published: Published, result: TrafficResult, kinds: Collection[AccessKind] = ("load", "rmw")
) -> Amounts:
    """What a result has of the fields that an output ranks, by the names of the output.

    Amounts are misses on lines that another CPU had modified. If the CPU of the output reports lines that others had
    unmodified as well, these are added.
    """
    how = published.emulation
    known = published.hitm()
    found: dict[str, list[int]] = {}
    for number, quantum in enumerate(result.quanta):
        for row in quantum.rows:
            name = _name(row, how, known)
            amount = _amount(row, forwards=published.forwards) if row.kind in kinds else 0
            if name and amount:
                found.setdefault(name, [0] * len(result.quanta))[number] += amount
    if not found:
        raise SchedlineError(
            f"the result has no miss of {', '.join(how.of)}",
            f"schedline c2c --workload {how.workload} --objects all --config c2c-published",
        )
    return {name: tuple(counts) for name, counts in found.items()}


def _amount(row: TrafficRow, *, forwards: bool) -> int:
    return row.counts.misses - row.counts.cold if forwards else row.counts.hitm


def _name(row: TrafficRow, how: EmulatedAs, known: Mapping[str, float]) -> str:
    """The output's name of a field; empty if the field is not ranked."""
    raw = f"{row.owner}.{row.path}"
    if row.neighbour or row.prefix or not _is_in_any(raw, how.of) or _is_in_any(raw, how.but):
        return ""
    owner, _, path = raw.partition(".")
    name = named(owner, path)
    # A source names a member as a whole where we have the members in it.
    return next((each for each in known if is_part(name, each)), name)


def _is_in_any(name: str, wholes: tuple[str, ...]) -> bool:
    return any(is_part(name, whole) for whole in wholes)


def published_amounts(published: Published) -> dict[str, float]:
    """Samples by field, without fields that this kernel no longer has."""
    return {name: amount for name, amount in published.hitm().items() if name not in published.emulation.gone}


def agreement_of(published: Published, amounts: Mapping[str, tuple[int, ...]]) -> TopAgreement:
    """The first three of both sides; of the emulated counts, the median of the quanta ranks."""
    first = top(published_amounts(published), _FIRST)
    return TopAgreement(first, top({name: middle(each) for name, each in amounts.items()}, len(first)))


def all_published(directory: Path = PUBLISHED) -> tuple[Published, ...]:
    return tuple(read_published(path) for path in sorted(directory.glob("*.toml")))


def page_row(published: Published) -> str:
    found = agreement_of(published, published.emulated.fields)
    cells = [f"`{published.name}`", f"`{published.emulation.workload}`", _three(found.published)]
    same = f"{found.same} of {len(found.published)}"
    return markdown_row([*cells, _three(found.emulated), same, "yes" if found.first else "no"])


def _three(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name.partition('.')[2]}`" for name in names)


def top_lines(published: Published, amounts: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    """Both sides as a table, and whether the first three agree."""
    there = published_amounts(published)
    medians = {name: middle(each) for name, each in amounts.items()}
    yield f"{published.name}: {published.title}"
    yield f"published: {published.source}; {published.machine}; kernel: {published.kernel}; {published.ran}"
    taken = "modified, or handed over" if published.forwards else "modified"
    yield f"emulated: loads and atomic operations that took a line which another CPU had {taken}"
    yield ""
    rows: list[tuple[str, ...]] = [("field", "published", "emulated", "median")]
    for name in sorted({*top(there, _SHOWN), *top(medians, _SHOWN)}, key=lambda name: (-there.get(name, 0.0), name)):
        share = f"{there[name] / sum(there.values()):.1%}" if name in there and published.line else ""
        counted = medians.get(name, 0)
        rows.append((name, share, f"{counted / sum(medians.values()):.1%}", str(counted)))
    yield from table(rows, "<  >")
    found = agreement_of(published, amounts)
    yield f"the first {len(found.published)}, published: {', '.join(found.published)}"
    yield f"the first {len(found.published)}, emulated: {', '.join(found.emulated)}"
    yield f"they {'agree' if found.agrees else 'do not agree'}: {found.same} of {len(found.published)} are the same"
    yield from (f"{name}: {why}" for name, why in published.differs.items())


def totals_row(published: Sequence[Published], kind: str) -> str:
    """Of how many outputs the first three agree, are the same in any order, and the first is the same."""
    found = [agreement_of(each, getattr(each.emulated, kind)) for each in published]
    same = sum(each.same == len(each.published) for each in found)
    return markdown_row(
        [kind, str(sum(each.agrees for each in found)), str(same), str(sum(each.first for each in found))]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="published")
    parser.add_argument("name", nargs="?", help="a file beside this script")
    parser.add_argument("result", nargs="?", type=Path, help="a result of schedline c2c, or its directory")
    given = parser.parse_args()
    if given.name:
        found = read_published(PUBLISHED / f"{given.name}.toml")
        print("\n".join(top_lines(found, emulated_top(found, read_result(given.result)))))
        return
    rows = all_published()
    print("\n".join([*map(page_row, rows), ""]))
    print("\n".join(totals_row(rows, kind) for kind in ("fields", "loads", "fast")))


if __name__ == "__main__":
    main()
