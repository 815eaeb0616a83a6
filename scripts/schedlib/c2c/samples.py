# SPDX-License-Identifier: GPL-2.0
"""Samples of a real machine by object and field, from the text of `perf script`, and beside counts.

A line of perf is, from left to right: command, process, CPU, time, period, event, address, data source, weight,
instruction, function. Which of them are there depends on -F. See process_event() in tools/perf/builtin-script.c.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, islice, pairwise
from math import sqrt
from operator import add
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Literal, TypeVar

from msgspec import Meta
from msgspec.structs import astuple

from schedlib.c2c.objects import UNNAMED
from schedlib.c2c.traffic_report import field_name, totals
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import AccessKind, FieldRef, TrafficResult, TrafficRow
from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Count, Moment, Positive, Strict, Word

MEASURED_FILE = "measured.json"

_K = TypeVar("_K", bound=Hashable)
Metric = Literal["taken", "samples"]
"""What is shared out: samples of lines taken from another CPU's cache, or, if the source does not tell these, all."""

Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Z = NormalDist().inv_cdf(0.975)
_BRIEF, _NAME = 12, 28

_LOAD, _STORE = 0x2, 0x4
_LEVEL, _SNOOP, _LOCK, _REMOTE, _SNOOPX, _HOPS = 5, 19, 24, 37, 38, 43
_REMOTE_CACHE = 0x400 | 0x800
_HITM, _PEER, _LOCKED = 0x10, 0x2, 0x2

FIELDS = "comm,tid,cpu,time,period,event,addr,data_src,weight,ip,sym"
COMMAND = f"perf script -F {FIELDS}"
_SIGN = b"|OP "
_REPEATED = frozenset(
    name + b":"
    for name in b"l1d-miss l1d-access llc-miss llc-access tlb-miss tlb-access branch branch-miss remote-access "
    b"instructions".split()
)
"""Events that perf makes of one record of Arm SPE, beside `memory`, the one that perf c2c uses."""

_FIRST_OF_KERNEL = ord("c")
"""The first of 16 digits of an instruction's address in the kernel: c on POWER, else f."""

_UNKNOWN = "(unknown)"
_LOOKED_AT = 1 << 20


class Sampled(Strict, frozen=True):
    """Samples, and what they stand for.

    Attributes:
        period: the events that they stand for; 0 if the source does not say. taken_period: of those taken.
        taken: samples of a line that another CPU's cache had modified (HITM), or handed over (Arm's peer).
        remote: those of them whose line came from another node.
        cycles: sum of the samples' weights; 0 if the source does not say.
    """

    samples: Count
    period: Count
    taken: Count
    taken_period: Count
    remote: Count
    cycles: Count

    def __add__(self, other: Sampled) -> Sampled:
        return Sampled(*map(add, astuple(self), astuple(other)))

    def amount(self, metric: Metric) -> int:
        """What a share of this metric is made of: events if the periods are known, else samples."""
        return self.taken_period or self.taken if metric == "taken" else self.period or self.samples


NOTHING = Sampled(0, 0, 0, 0, 0, 0)
Key = tuple[FieldRef, AccessKind, str]
_Equal = tuple[bytes, bytes, bytes, bytes]
"""Event, address, data source and function, as they are printed."""


class SampledRow(FieldRef, frozen=True):
    kind: AccessKind
    function: Word
    sampled: Sampled


class Unresolved(Strict, frozen=True):
    """Samples that belong to no field, for one reason, and their share of all samples of kernel memory."""

    why: Word
    sampled: Sampled
    share: Share


class SampledField(Strict, frozen=True):
    name: Word
    sampled: Sampled
    share: Share
    low: Share
    high: Share


class SampleSource(Strict, frozen=True):
    """Where samples come from. `repeated`: left out, because they tell of the same access as another one (Arm SPE)."""

    kind: Word
    files: Annotated[tuple[Word, ...], Meta(min_length=1)]
    events: tuple[str, ...]
    machine: str
    repeated: Count


class MeasuredDocument(Document, frozen=True, kw_only=True):
    """schedline c2c import: samples of a real machine by object and field.

    Attributes:
        kernel, user: all samples of this memory.
        effective: number of samples of equal period that would tell as much as those in the metric.
        fields: the largest share first.
    """

    no_control_chars = True

    schema: Literal["c2c-measured-1"]
    tool: Word
    imported: Moment
    source: SampleSource
    build_id: str
    line: Positive
    metric: Metric
    kernel: Sampled
    user: Sampled
    effective: Amount
    fields: tuple[SampledField, ...]
    unresolved: tuple[Unresolved, ...]
    rows: tuple[SampledRow, ...]


def read_measured(path: Path) -> MeasuredDocument:
    """Read a result of import from its file or directory; Refused if it is none."""
    return document.read_below(path, MEASURED_FILE, MeasuredDocument, "schedline c2c import FILE --out DIR writes one")


@cache
def data_source(number: bytes) -> tuple[AccessKind, bool, bool] | None:
    """What the number of `union perf_mem_data_src` says; None if it is neither a load nor a store.

    perf's own words for it differ between versions and are cut off. See include/uapi/linux/perf_event.h. Returns the
    kind, where a load of a locked instruction is an rmw; whether the line came from a cache that had modified it, or
    from a peer; and whether it then came from another node.
    """
    if number.strip(b"0123456789abcdef"):
        return None
    value = int(number, 16)
    operation = value & 0x1F
    if not operation & (_LOAD | _STORE):
        return None
    locked = bool(value >> _LOCK & 0x3 & _LOCKED)
    kind: AccessKind = "store" if operation & _STORE else "rmw" if locked else "load"
    # perf counts HITM for loads alone; see c2c_decode_stats() of tools/perf/util/mem-events.c.
    snooped = value >> _SNOOP & 0x1F & _HITM or value >> _SNOOPX & 0x3 & _PEER
    taken = bool(operation & _LOAD and snooped)
    # With hops, POWER uses the bit for another core of the same node.
    remote = bool(value >> _LEVEL & 0x3FFF & _REMOTE_CACHE or (value >> _REMOTE & 1 and not value >> _HOPS & 0x7))
    return kind, taken, taken and remote


def _sample(line: bytes, below: bytes) -> tuple[_Equal, int, int] | str | None:
    """A sample, its period and its weight; or why it cannot be used; None if the line is no sample."""
    if not line.endswith(b"\n"):
        return "the last line is cut off"
    at = line.find(_SIGN)
    if at < 0:
        is_sample = b"[" in line[:64] and b": " in line and not line.startswith(b"#")
        return "the sample has no data source" if is_sample else None
    before = line[:at].rsplit(None, 4)
    if before and len(before[-1]) > 16:
        # Two columns of 16 digits have no space between them.
        before[-1:] = [before[-1][:-16], before[-1][-16:]]
    if len(before) < 3 or not before[-3].endswith(b":"):
        return "the sample has no address"
    event, address, source = before[-3:]
    period = int(before[-4]) if len(before) > 3 and before[-4].isdigit() else 0
    # With call chains, the instruction is on the line below.
    chained = below.split(None, 2)[1:2] if _SIGN not in below else []
    function, weight = (chained or [b""])[0], -1
    words = line[line.rfind(b"|") :].split(None, 9)
    for word, behind in pairwise([*words, b""]):
        if word.isdigit() and len(word) < 12:
            weight = int(word) if weight < 0 else weight
        elif len(word) == 16 and word[0] >= _FIRST_OF_KERNEL:
            function = behind
            break
    return (event, address, source, function), period, max(weight, 0)


class ScriptSums:
    """Sums of samples: `names` names an address of the kernel, or gives the reason why it has no name.

    Attributes:
        unresolved: by reason.
        repeated: samples that tell of the same access as another one.
        squares: of the periods (or of 1, if there are none), of all samples of the kernel's memory and of those taken.
    """

    def __init__(self, names: Callable[[int], FieldRef | str]) -> None:
        self.rows: dict[Key, Sampled] = {}
        self.unresolved: dict[str, Sampled] = {}
        self.user = NOTHING
        self.repeated = 0
        self.squares = self.taken_squares = 0
        self.events: set[str] = set()
        self._place = lru_cache(1 << 17)(lambda address: names(int(address, 16)))

    def read(self, path: Path) -> None:
        """Add a whole file; SchedlineError if it is not the text of perf script, or all samples are repetitions."""
        repeated = self.repeated
        with path.open("rb") as file:
            used = self.add(file)
        if self.repeated > repeated and not used:
            raise SchedlineError(
                f"{path}: all samples are of events such as l1d-access, which Arm SPE repeats for each access",
                "make the text with --itrace=M, and a perf that makes the event `memory` of Arm SPE (5.13 or later)",
            )
        if not used:
            raise SchedlineError(f"{path} has no sample with a data source", f"make it again: {COMMAND}")

    def add(self, lines: Iterable[bytes], *, at_once: int = 1 << 17) -> bool:
        """Add lines, equal ones of so many at once; whether they have a sample that is no repetition."""
        used, pairs = False, pairwise(chain(lines, [b""]))
        while batch := list(islice(pairs, at_once)):
            found: dict[_Equal, list[int]] = {}
            for line, below in batch:
                sample = _sample(line, below)
                if isinstance(sample, str):
                    self._fail(sample, Sampled(1, 0, 0, 0, 0, 0))
                    used = True
                elif sample:
                    words, period, weight = sample
                    numbers = [1, period, period * period, weight]
                    found[words] = [*map(add, found[words], numbers)] if words in found else numbers
            for words, numbers in found.items():
                used |= self._name(words, numbers)
        return used

    def _name(self, words: _Equal, numbers: list[int]) -> bool:
        """Add equal samples: their address becomes a place, the number of the source what it means."""
        (event, address, number, function), (samples, period, squares, cycles) = words, numbers
        if event in _REPEATED:
            self.repeated += samples
            return False
        source = data_source(number)
        if source is None:
            self._fail("neither a load nor a store", Sampled(samples, period, 0, 0, 0, cycles))
            return True
        self.events.add(event[:-1].decode(errors="replace"))
        kind, is_taken, is_remote = source
        taken = (samples, period) if is_taken else (0, 0)
        sampled = Sampled(samples, period, *taken, samples if is_remote else 0, cycles)
        if _is_kernel(address):
            self.squares += squares or samples
            self.taken_squares += (squares or samples) if is_taken else 0
            place = self._place(address)
            if isinstance(place, str):
                self._fail(place, sampled)
            else:
                key = (place, kind, _function(function))
                self.rows[key] = self.rows.get(key, NOTHING) + sampled
        elif address.strip(b"0") and not address.strip(b"0123456789abcdef"):
            self.user += sampled
        else:
            self._fail("the sample has no address", sampled)
        return True

    def _fail(self, why: str, sampled: Sampled) -> None:
        self.unresolved[why] = self.unresolved.get(why, NOTHING) + sampled


def _is_kernel(address: bytes) -> bool:
    return len(address) == 16 and address[:1] in b"89abcdef" and not address.strip(b"0123456789abcdef")


def _function(word: bytes) -> str:
    name = word.partition(b"+0x")[0].decode(errors="replace")
    return name if name and name[0] not in "[(" else _UNKNOWN


def refuse_other(path: Path) -> None:
    """SchedlineError if a file does not begin as the text of perf script does, with data sources."""
    with path.open("rb") as file:
        head = file.read(_LOOKED_AT)
    if _SIGN not in head:
        is_data = head.startswith(b"PERFILE2")
        what = "perf's data, not a text" if is_data else "no text of perf script with addresses and data sources"
        raise SchedlineError(f"{path} is {what}", f"{COMMAND}{f' -i {path}' if is_data else ''} > samples.txt")


def instructions(path: Path) -> list[tuple[int, str]]:
    """Instructions of the kernel at the beginning of a text, and the functions in which perf says that they are."""
    found = []
    with path.open("rb") as file:
        for line in file.read(_LOOKED_AT).split(b"\n"):
            words = line[line.rfind(b"|") :].split() if _SIGN in line else line.split()
            for word, name in pairwise(words):
                if _is_kernel(word) and (function := _function(name)) != _UNKNOWN and not name.isdigit():
                    found.append((int(word, 16), function))
                    break
    return found


def wilson(share: float, number: float) -> tuple[float, float]:
    """The interval of 95 % of a share of so many samples, after E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209."""
    if number <= 0:
        return 0.0, 1.0
    square = Z * Z / number
    middle = (share + square / 2) / (1 + square)
    half = Z * sqrt(share * (1 - share) / number + square / (4 * number)) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def effective(whole: float, squares: float) -> float:
    """How many samples of equal weight tell as much, after L. Kish, Survey Sampling (1965); see ScriptSums.squares."""
    return whole * whole / squares if squares else 0.0


def summed(parts: Iterable[tuple[_K, Sampled]]) -> dict[_K, Sampled]:
    """Sum the samples that share a key, in the order in which keys first appear."""
    found: dict[_K, Sampled] = {}
    for key, sampled in parts:
        found[key] = found.get(key, NOTHING) + sampled
    return found


def _emulated(rows: Iterable[TrafficRow], metric: Metric) -> dict[str, float]:
    """Each field's share of what is compared in a guest: HITM of loads and atomic operations, or all misses."""
    taken = metric == "taken"
    kept = (row for row in rows if not row.neighbour and row.owner != UNNAMED and not (taken and row.kind == "store"))
    amounts = {name: counts.hitm if taken else counts.misses for name, counts in totals(kept, field_name).items()}
    whole = sum(amounts.values())
    return {name: amount / whole for name, amount in amounts.items() if amount}


@dataclass(frozen=True)
class ComparedField:
    """A field: its share of the samples, with the 95 % interval, and of the counts."""

    name: str
    measured: float
    low: float
    high: float
    emulated: float
    agrees: bool


def compare(measured: MeasuredDocument, emulated: TrafficResult) -> tuple[ComparedField, ...]:
    """Both sides by field, the most samples first; SchedlineError if they have no object in common."""
    metric = measured.metric
    owners = {row.owner for each in emulated.quanta for row in each.rows if not row.neighbour} - {UNNAMED}
    sampled = summed(
        (field_name(row), row.sampled) for row in measured.rows if row.owner in owners and not row.neighbour
    )
    part = sum(each.amount(metric) for each in sampled.values())
    if not part:
        raise SchedlineError(
            f"no sample lies in what was emulated ({', '.join(sorted(owners)[:5])})",
            "emulate more: schedline c2c --objects all; or import with --map, which finds allocated objects",
        )
    number = measured.effective * part / measured.kernel.amount(metric)
    tables = [_emulated(each.rows, metric) for each in emulated.quanta]
    fields = []
    for name in set(sampled).union(*tables):
        share = sampled.get(name, NOTHING).amount(metric) / part
        counted = sorted(table.get(name, 0.0) for table in tables)
        low, high = wilson(share, number)
        agrees = low <= counted[-1] and counted[0] <= high
        fields.append(ComparedField(name, share, low, high, counted[len(counted) // 2], agrees))
    return tuple(sorted(fields, key=lambda each: (-each.measured, each.name)))


def brief(found: Sequence[ComparedField]) -> Iterator[str]:
    """The fields with the most samples, in 70 columns."""
    agree = sum(each.agrees for each in found)
    yield f"measured on a machine: {agree} of {len(found)} fields agree"
    yield f"{'':{_NAME}}measured   from     to  emulated"
    for each in found[:_BRIEF]:
        if len(each.name) >= _NAME:
            yield each.name
        name = each.name if len(each.name) < _NAME else ""
        yield f"{name:{_NAME}}{each.measured:8.1%} {each.low:6.1%} {each.high:6.1%}  {each.emulated:8.1%}"
