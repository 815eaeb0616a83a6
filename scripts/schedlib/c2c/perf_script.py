# SPDX-License-Identifier: GPL-2.0
"""Reads the text of `perf script`, of any length: samples are summed up while they are read.

A line is, from left to right: command, process, CPU, time, period, event, address, data source, weight, instruction,
function. Which of them are there depends on -F. See process_event() in tools/perf/builtin-script.c.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import pairwise
from operator import add
from pathlib import Path

from schedlib.c2c.samples import NOTHING, Sampled
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import AccessKind, Place

_LOAD, _STORE = 0x2, 0x4
_LEVEL, _SNOOP, _LOCK, _REMOTE, _SNOOPX, _HOPS = 5, 19, 24, 37, 38, 43
_REMOTE_CACHE = 0x400 | 0x800
_HITM, _PEER, _LOCKED = 0x10, 0x2, 0x2

FIELDS = "comm,tid,cpu,time,period,event,addr,data_src,weight,ip,sym"
COMMAND = f"perf script -F {FIELDS}"
PIECE = 1 << 24
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
_MOST_NAMED = 1 << 17
_ONE = Sampled(1, 0, 0, 0, 0, 0)
Key = tuple[Place, AccessKind, str]


def data_source(value: int) -> tuple[AccessKind, bool, bool] | None:
    """What the number of `union perf_mem_data_src` says; None if it is neither a load nor a store.

    perf prints the number before its own words for it. The words differ between versions and are cut off at 100
    characters, so the number is read. See include/uapi/linux/perf_event.h.

    Returns:
        The kind, where a load of a locked instruction is an rmw; whether the line came from a cache that had modified
        it, or from a peer; and whether it then came from another node.
    """
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


@cache
def _source(number: bytes) -> tuple[AccessKind, bool, bool] | None:
    try:
        return data_source(int(number, 16))
    except ValueError:
        return None


class ScriptSums:
    """Sums of samples.

    Args:
        names: names an address of the kernel: the object and field there, or the reason why it has no name. It is
            asked once for an address, unless there are very many.

    Attributes:
        rows: by place, kind and function.
        unresolved: by reason.
        repeated: samples that tell of the same access as another one.
        squares: of the periods (or of 1, if there are none), of all samples of the kernel's memory and of those taken.
    """

    def __init__(self, names: Callable[[int], Place | str]) -> None:
        self.rows: dict[Key, Sampled] = {}
        self.unresolved: dict[str, Sampled] = {}
        self.user = NOTHING
        self.repeated = 0
        self.squares = self.taken_squares = 0
        self.events: set[str] = set()
        self._place = lru_cache(_MOST_NAMED)(lambda address: names(int(address, 16)))

    def read(self, path: Path, *, piece: int = PIECE) -> None:
        """Add a whole file; SchedlineError if it is not the text of perf script, or all samples are repetitions."""
        used, repeated, size = False, self.repeated, path.stat().st_size
        with path.open("rb") as file:
            while text := file.read(piece):
                # A piece ends before a sample.
                while (line := file.readline()) and (not text.endswith(b"\n") or _SIGN not in line):
                    text += line
                file.seek(-len(line), os.SEEK_CUR)
                used |= self.add(text, last=file.tell() >= size)
        if self.repeated > repeated and not used:
            raise SchedlineError(
                f"{path}: all samples are of events such as l1d-access, which Arm SPE repeats for each access",
                "make the text with --itrace=M, and a perf that makes the event `memory` of Arm SPE (5.13 or later)",
            )
        if not used:
            raise SchedlineError(f"{path} has no sample with a data source", f"make it again: {COMMAND}")

    def add(self, text: bytes, *, last: bool = True) -> bool:
        """Add a piece that begins with a line; whether it has a sample that is no repetition.

        `last`: nothing follows this piece. Then a line without an end is cut off.
        """
        found: dict[tuple[bytes, bytes, bytes, bytes], list[int]] = {}
        failed: list[str] = []
        if last and not text.endswith(b"\n") and text:
            text = text[: text.rfind(b"\n") + 1]
            failed.append("the last line is cut off")
        lines = text.split(b"\n")
        for line, below in zip(lines, [*lines[1:], b""], strict=True):
            at = line.find(_SIGN)
            if at < 0:
                if b"[" in line[:64] and b": " in line and not line.startswith(b"#"):
                    failed.append("the sample has no data source")
                continue
            before = line[:at].rsplit(None, 4)
            if before and len(before[-1]) > 16:
                # Two columns of 16 digits have no space between them.
                before[-1:] = [before[-1][:-16], before[-1][-16:]]
            if len(before) < 3 or not before[-3].endswith(b":"):
                failed.append("the sample has no address")
                continue
            event, address, source = before[-3:]
            period = int(before[-4]) if len(before) > 3 and before[-4].isdigit() else 0
            # With call chains, the instruction is on the line below.
            chain = below.split(None, 2)[1:2] if _SIGN not in below else []
            function, weight = (chain or [b""])[0], -1
            words = line[line.rfind(b"|") :].split(None, 9)
            for number, word in enumerate(words):
                if word.isdigit() and len(word) < 12:
                    weight = int(word) if weight < 0 else weight
                elif len(word) == 16 and word[0] >= _FIRST_OF_KERNEL:
                    function = words[number + 1] if number + 1 < len(words) else b""
                    break
            numbers = [1, period, period * period, max(weight, 0)]
            there = found.setdefault((event, address, source, function), numbers)
            if there is not numbers:
                there[:] = map(add, there, numbers)
        for why in failed:
            self._fail(why, _ONE)
        used = [self._name(words, numbers) for words, numbers in found.items()]
        return bool(failed) or any(used)

    def _name(self, words: tuple[bytes, bytes, bytes, bytes], numbers: list[int]) -> bool:
        """Add equal samples: their address becomes a place, the number of the source what it means."""
        (event, address, number, function), (samples, period, squares, cycles) = words, numbers
        if event in _REPEATED:
            self.repeated += samples
            return False
        source = _source(number)
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
        """Add samples that have no field."""
        self.unresolved[why] = self.unresolved.get(why, NOTHING) + sampled


def _is_kernel(address: bytes) -> bool:
    """Whether it is in the upper half of all addresses."""
    return len(address) == 16 and address[:1] in b"89abcdef" and not address.strip(b"0123456789abcdef")


def _function(word: bytes) -> str:
    name = word.partition(b"+0x")[0].decode(errors="replace")
    return name if name and name[0] not in "[(" else _UNKNOWN


def refuse_other(path: Path) -> None:
    """SchedlineError if a file does not begin as the text of perf script does, with data sources."""
    if not path.is_file():
        raise SchedlineError(f"{path} is no file", "name the text that perf has printed")
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
