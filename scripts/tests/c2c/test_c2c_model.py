# SPDX-License-Identifier: GPL-2.0
"""The cache model against its definition. What can be computed by hand, a guest counts: see test_c2c_guest.py."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import structs
from replayed import Replay

from schedlib.formats.c2c_document import DISTANCES, Counts

pytestmark = pytest.mark.tools

ROUNDS = 50


def alternate(first: str, second: str, rounds: int = ROUNDS) -> list[str]:
    """Two CPUs in turn, `rounds` times each."""
    return [f"0 {first}", f"1 {second}"] * rounds


def test_edges_of_what_is_watched(replay: Replay) -> None:
    # Half of the access lies on an unwatched line.
    assert [(r.address, r.size) for r in replay.records(["0 store ffc 8"])] == [(0x1000, 4)]
    assert [(r.address, r.size) for r in replay.records(["0 store 1ffc 8"])] == [(0x1FFC, 4)]
    assert replay.records(["0 store fe0 8", "0 store 2000 8"]) == []
    # An access that straddles lines is two.
    assert [(r.address, r.size) for r in replay.records(["0 store 103c 8"])] == [(0x103C, 4), (0x1040, 4)]
    assert replay.counts(["0 store 1038 8"]).accesses == 1


SHAPE: dict[str, Any] = {"cpus": 16, "cluster": 2, "llc": 4, "node": 8}
Access = tuple[int, str, int, int]
"""CPU, kind, offset and size."""


class Line:
    """A line in the definition: who holds it, and what Dubois (1993) knows of each byte and CPU."""

    def __init__(self) -> None:
        self.holders: set[int] = set()
        self.modified = False
        self.seen: set[int] = set()
        self.fetched: dict[int, str] = {}
        self.useful: dict[int, bool] = {}
        self.news: dict[int, set[int]] = {cpu: set() for cpu in range(SHAPE["cpus"])}


def nearest(cpu: int, holders: set[int], shape: dict[str, Any]) -> str:
    """The distance of the holder from which a CPU gets a line."""
    near = (name for name in DISTANCES[:-1] if any(cpu // shape[name] == other // shape[name] for other in holders))
    return next(near, "remote")


def simulated(
    trace: Iterable[Access], size_of_line: int, shape: dict[str, Any], *, pairs: bool = False
) -> dict[str, Counter[str]]:
    """The counts of the definition, by kind of access."""
    lines: dict[int, Line] = defaultdict(Line)
    want: dict[str, Counter[str]] = {kind: Counter() for kind in ("load", "store", "rmw")}

    def lost(line: Line, cpus: Iterable[int]) -> None:
        for cpu in cpus:
            want[line.fetched[cpu]]["essential" if line.useful[cpu] else "false_shared"] += 1

    for cpu, kind, start, size in trace:
        line, counts, used = lines[start // size_of_line], want[kind], set(range(start, start + size))
        others, held = line.holders - {cpu}, cpu in line.holders
        counts["accesses"] += 1
        if not held:
            counts[f"{'hitm' if line.modified else 'clean'}_{nearest(cpu, others, shape)}" if others else "cold"] += 1
            line.useful[cpu], line.fetched[cpu] = cpu not in line.seen, kind
            if line.useful[cpu]:
                line.news[cpu].clear()
            line.seen.add(cpu)
            if pairs:
                lines[start // size_of_line ^ 1].holders.add(cpu)
        elif kind != "load" and others:
            counts["upgrades"] += 1
        else:
            counts["hits"] += 1
        if not pairs and used & line.news[cpu]:
            line.useful[cpu] = True
            line.news[cpu].clear()
        line.modified = kind != "load" or (line.modified and held)
        line.holders.add(cpu)
        if kind != "load":
            counts["invalidated"] += len(others)
            for other in line.news.keys() - {cpu}:
                line.news[other] |= used
            if not pairs:
                lost(line, others)
            line.holders = {cpu}
    for line in () if pairs else lines.values():
        lost(line, line.holders)
    return want


def random_trace(seed: int) -> list[Access]:
    """Accesses to the first 512 bytes."""
    draw = random.Random(seed)  # noqa: S311
    sizes = draw.choices((1, 2, 4, 8), k=6000)
    return [
        (draw.randrange(16), draw.choice(("load", "load", "store", "rmw")), size * draw.randrange(512 // size), size)
        for size in sizes
    ]


def words_of(trace: Iterable[Access]) -> list[str]:
    return [f"{cpu} {kind} {0x1000 + start:x} {size}" for cpu, kind, start, size in trace]


@pytest.mark.parametrize(("line", "cluster"), [(64, 2), (128, 2), (256, 1)])
def test_counts_are_those_of_the_definition(replay: Replay, line: int, cluster: int) -> None:
    """Each counter equals that of a simulation in Python: who holds a line, and false sharing as Dubois defines it."""
    trace, shape = random_trace(13), SHAPE | {"cluster": cluster}
    records = replay.records(words_of(trace), line=line, **shape)
    for kind, want in simulated(trace, line, shape).items():
        counts = Counts.sum(each.counts for each in records if each.kind == kind)
        assert {name: number for name, number in structs.asdict(counts).items() if number} == want
        assert min(number for name, number in want.items() if name != "cold") > 20


def test_pairs_are_those_of_the_definition(replay: Replay) -> None:
    trace = random_trace(5)
    want = sum(simulated(trace, 64, SHAPE, pairs=True).values(), Counter[str]())
    total, plain = (replay.counts(words_of(trace), pairs=pairs, **SHAPE) for pairs in (True, False))
    names = ("accesses", "hits", "upgrades")
    assert [getattr(total, name) for name in names] == [want[name] for name in names]
    assert plain.hits != total.hits and want["upgrades"] > 100


def test_memory_that_is_used_again_is_counted_apart(replay: Replay) -> None:
    trace = alternate("store 1000 8", "store 1008 8")
    gone, back = "unwatch 1000 8", "watch 1000 8 2"
    records = replay.records([*trace, gone, back, *trace, gone, *trace])
    by_place = {(record.address, record.epoch): record.counts for record in records}
    # The line keeps its history: the second user's first fetch is not cold, and the neighbour stays in its epoch.
    assert by_place[0x1000, 1].cold == 1
    assert (by_place[0x1000, 2].cold, by_place[0x1000, 2].accesses) == (0, ROUNDS)
    assert (by_place[0x1000, 0].accesses, by_place[0x1008, 1].accesses) == (ROUNDS, 3 * ROUNDS)
    assert Counts.sum(by_place.values()).false_shared == replay.counts([*trace, *trace, *trace]).false_shared


def test_a_line_without_an_object_is_not_watched(replay: Replay) -> None:
    trace = ["0 store 1000 8", "1 store 1008 8"]
    records = replay.records(["unwatch 1000 64", *trace, "watch 1000 8 2", *trace])
    assert [(record.address, record.epoch, record.counts.accesses) for record in records] == [
        (0x1000, 2, 1),
        (0x1008, 0, 1),
    ]
    # The contents of the caches are forgotten, but the counts are not.
    again = replay.counts([*trace, "unwatch 1000 64", "watch 1000 64 2", *trace])
    assert again == Counts.sum([replay.counts(trace)] * 2)
