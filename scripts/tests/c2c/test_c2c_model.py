# SPDX-License-Identifier: GPL-2.0
"""The cache model against counts that can be computed by hand. Each case has a twin that must give another result."""

from __future__ import annotations

import random
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


TURNS = 2 * ROUNDS
TRUE = Counts(accesses=TURNS, hitm_llc=TURNS - 1, cold=1, invalidated=TURNS - 1, essential=TURNS)
# Two misses are essential: CPU 0's first (cold) and CPU 1's first on the line. No other miss fetches a used byte.
FALSE = structs.replace(TRUE, essential=2, false_shared=TURNS - 2)
LOADS = Counts(accesses=TURNS, hitm_llc=TURNS - 1, cold=1, essential=TURNS)
# CPU 0's first store finds the line exclusive.
STORES = Counts(accesses=TURNS, hits=1, upgrades=TURNS - 1, invalidated=TURNS - 1)


@pytest.mark.parametrize(
    ("trace", "counts"),
    [
        (alternate("store 1000 8", "store 1008 8"), {"store": FALSE}),
        (
            alternate("store 1000 8", "store 1040 8"),
            {"store": Counts(accesses=TURNS, hits=TURNS - 2, cold=2, essential=2)},
        ),
        (alternate("rmw 1000 4", "rmw 1000 4"), {"rmw": TRUE}),
        (
            [f"{cpu} {kind} 1000 4" for _ in range(ROUNDS) for cpu in (0, 1) for kind in ("load", "store")],
            {"load": LOADS, "store": STORES},
        ),
    ],
    ids=["packed", "padded", "atomic", "a load and a store apart"],
)
def test_counters(replay: Replay, trace: list[str], counts: dict[str, Counts]) -> None:
    records = replay.records(trace)
    kinds = sorted({record.kind for record in records})
    assert {kind: Counts.sum(each.counts for each in records if each.kind == kind) for kind in kinds} == counts


def test_accesses_that_straddle_lines_are_two(replay: Replay) -> None:
    records = replay.records(["0 store 103c 8"])
    assert [(record.address, record.size) for record in records] == [(0x103C, 4), (0x1040, 4)]
    assert replay.counts(["0 store 1038 8"]).accesses == 1
    total = replay.counts(alternate("store 103c 8", "store 103c 8"))
    assert (total.accesses, total.hitm, total.cold) == (4 * ROUNDS, 2 * (2 * ROUNDS - 1), 2)


def test_edges_of_what_is_watched(replay: Replay) -> None:
    # Half of the access lies on an unwatched line.
    assert [(r.address, r.size) for r in replay.records(["0 store ffc 8"])] == [(0x1000, 4)]
    assert [(r.address, r.size) for r in replay.records(["0 store 1ffc 8"])] == [(0x1FFC, 4)]
    assert replay.records(["0 store fe0 8", "0 store 2000 8"]) == []


SHAPE: dict[str, Any] = {"cpus": 16, "cluster": 2, "llc": 4, "node": 8}


def test_distances_are_those_of_the_definition(replay: Replay) -> None:
    """The counts equal those of a Python simulation of which CPUs hold the line."""
    draw = random.Random(13)  # noqa: S311
    trace = [(draw.randrange(16), draw.choice(("load", "load", "store"))) for _ in range(3000)]
    want = dict.fromkeys((f"{kind}_{name}" for kind in ("hitm", "clean") for name in DISTANCES), 0)
    holders: set[int] = set()
    modified = False
    for cpu, kind in trace:
        if cpu not in holders and holders:
            near = [
                next(
                    (n for n, name in enumerate(("cluster", "llc", "node")) if cpu // SHAPE[name] == o // SHAPE[name]),
                    3,
                )
                for o in holders
            ]
            want[f"{'hitm' if modified else 'clean'}_{DISTANCES[min(near)]}"] += 1
        modified = kind == "store" or (modified and cpu in holders)
        holders = {cpu} if kind == "store" else holders | {cpu}
    total = replay.counts([f"{cpu} {kind} 1000 8" for cpu, kind in trace], **SHAPE)
    assert {name: getattr(total, name) for name in want} == want
    assert min(want.values()) > 50


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


def test_sums_hold_for_any_trace(replay: Replay) -> None:
    draw = random.Random(7)  # noqa: S311
    trace = [
        f"{draw.randrange(8)} {draw.choice(('load', 'load', 'store', 'rmw'))} {0x1000 + draw.randrange(300):x} "
        f"{draw.choice((1, 2, 4, 8))}"
        for _ in range(5000)
    ]
    for line in (64, 128, 256):
        for record in replay.records(trace, cpus=8, line=line, cluster=1, llc=2, node=4):
            counts = record.counts
            assert counts.misses == sum(counts.fetched(name) for name in DISTANCES) + counts.cold
            assert counts.fetched("cluster") == 0
            assert counts.accesses == counts.hits + counts.misses + counts.upgrades
            assert record.kind != "load" or counts.upgrades == counts.invalidated == 0
        assert replay.counts(trace, cpus=8, line=line).misses > 0


@pytest.mark.parametrize("line", [64, 128, 256])
def test_false_sharing_is_what_dubois_defines(replay: Replay, line: int) -> None:
    """The counts equal those of the definition, simulated byte by byte in Python, for the bytes of two lines."""
    draw = random.Random(11)  # noqa: S311
    trace = [
        (draw.randrange(4), draw.choice(("load", "store")), size * draw.randrange(2 * line // size), size)
        for size in draw.choices((1, 2, 4, 8), k=6000)
    ]
    essential = false = 0
    for number in (0, 1):
        holders: set[int] = set()
        seen: set[int] = set()
        useful: dict[int, bool] = {}
        news: dict[int, set[int]] = {cpu: set() for cpu in range(4)}
        for cpu, kind, start, size in trace:
            if start // line != number:
                continue
            used = set(range(start, start + size))
            if cpu not in holders:
                useful[cpu] = cpu not in seen
                if useful[cpu]:
                    news[cpu].clear()
                seen.add(cpu)
                holders.add(cpu)
            if used & news[cpu]:
                useful[cpu] = True
                news[cpu].clear()
            if kind == "store":
                for other in set(range(4)) - {cpu}:
                    news[other] |= used
                for other in holders - {cpu}:
                    essential, false = essential + useful[other], false + (not useful[other])
                holders = {cpu}
        for other in holders:
            essential, false = essential + useful[other], false + (not useful[other])
    words = [f"{cpu} {kind} {0x1000 + start:x} {size}" for cpu, kind, start, size in trace]
    total = replay.counts(words, line=line)
    assert (total.essential, total.false_shared) == (essential, false)
    assert min(essential, false) > 100


def test_pairs_are_those_of_the_definition(replay: Replay) -> None:
    """The counts equal those of a Python simulation of which CPUs hold which line."""
    draw = random.Random(5)  # noqa: S311
    trace = [(draw.randrange(4), draw.choice(("load", "load", "store")), draw.randrange(4)) for _ in range(3000)]
    holders: list[set[int]] = [set() for _ in range(4)]
    misses = upgrades = 0
    for cpu, kind, line in trace:
        if cpu not in holders[line]:
            misses += 1
            holders[line ^ 1].add(cpu)
        elif kind == "store" and holders[line] != {cpu}:
            upgrades += 1
        holders[line] = {cpu} if kind == "store" else holders[line] | {cpu}
    words = [f"{cpu} {kind} {0x1000 + 64 * line:x} 8" for cpu, kind, line in trace]
    total = replay.counts(words, pairs=True)
    assert (total.misses, total.upgrades) == (misses, upgrades)
    assert replay.counts(words).misses != misses
    assert min(misses, upgrades) > 100
