# SPDX-License-Identifier: GPL-2.0
"""All of the kernel's memory: counts that are known for each kind of it, and a field that is put wrong on purpose."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from guest_programs import use_programs_of_tests

from schedlib.c2c.blame import blame
from schedlib.c2c.c2c_job import built, observe, source
from schedlib.c2c.c2c_options import ALL
from schedlib.c2c.observed import Observed, Player, result_of
from schedlib.c2c.plugin_guest import Measurement, parameters_of, replayer
from schedlib.cache import cache_dir, scratch
from schedlib.formats.c2c_document import BlamedField, Counts
from schedlib.kernel.topology import flat
from schedlib.tree.compose import compose, hooked
from schedlib.tree.kernel_tree import Tree, apply_diff, put_files

pytestmark = [pytest.mark.guest, pytest.mark.long]

HERE = Path(__file__).parent
MAKEFILE = "kernel/Makefile"
ROUNDS = 30
"""Of known_memory.c."""


def asked_for(cpus: int, **others: Any) -> Measurement:
    """One guest in which all memory is watched."""
    return Measurement(parameters_of(flat(cpus), objects=(ALL,), **others), flat(cpus), (100,), 240.0)


def counted(tree: Tree, commit: str, asked: Measurement, place: Path) -> tuple[Observed, tuple[BlamedField, ...]]:
    """What a kernel built from a commit does, and its fields to blame."""
    cache = cache_dir()
    planned = source(tree, asked, replace(compose(tree), commit=commit))
    with scratch(cache) as scratched:
        observed = observe(cache, built(cache, planned, scratched / "kernel"), asked, place, place, taped=True)
    player = Player(replayer(cache), observed.parameters)
    return observed, blame(player, observed, result_of(observed), place)


def test_each_kind_of_memory_has_known_answers(series: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_programs_of_tests(tmp_path, monkeypatch)
    commit = compose(series).commit
    files = {
        "kernel/known_memory.c": (HERE / "known_memory.c").read_bytes(),
        MAKEFILE: hooked(series.read(MAKEFILE, commit) or "", "obj-y += known_memory.o\n", None, MAKEFILE).encode(),
    }
    commit = put_files(series, commit, files, "Add memory whose every use is known\n")
    asked = asked_for(2, workload="known-memory", rounds=ROUNDS)
    observed, blamed = counted(series, commit, asked, tmp_path)
    log = (tmp_path / "quantum-100.log").read_text()
    found = re.search(r"known-memory:((?: [0-9a-f]{16}){5})", log)
    assert found
    kinds = ("known_global", "per-CPU known_per_cpu", "slab known_memory", "stacks", "slab kmalloc-192")
    starts = dict(zip(kinds, found.group(1).split(), strict=True))
    resolver, n = observed.resolver(observed.guests[0], 64), ROUNDS
    turns = Counts(accesses=2 * n, hitm_llc=2 * n - 1, cold=1, invalidated=2 * n - 1, essential=2 * n)
    expected: Mapping[tuple[int, str], Counts] = {
        # Two counters on one line: all misses but the first of each CPU are false sharing.
        (0, "store"): Counts(accesses=n, hitm_llc=n - 1, cold=1, invalidated=n - 1, essential=1, false_shared=n - 1),
        (8, "store"): Counts(accesses=n, hitm_llc=n, invalidated=n, essential=1, false_shared=n - 1),
        # True sharing.
        (64, "rmw"): turns,
        # A read-mostly field beside a written one.
        (128, "load"): Counts(accesses=n, hitm_llc=n - 1, cold=1, essential=1, false_shared=n - 1),
        (136, "store"): Counts(accesses=n, clean_llc=1, upgrades=n - 1, invalidated=n, essential=1),
    }
    for name, word in starts.items():
        start = int(word, 16)
        records = [each for each in observed.guests[0].raw.records if start <= each.address < start + 192]
        got: dict[tuple[int, str], Counts] = {}
        for each in records:
            key = (each.address - start, each.kind)
            got[key] = Counts.sum([got.get(key, Counts()), each.counts])
        assert got == expected, name
        assert {resolver.place(each.address, each.epoch).owner for each in records} == {name}
        # The objects of other kernel code are in the same slab.
        if name not in ("stacks", "slab kmalloc-192"):
            # All of an object without fields moves, and nothing is gained.
            [one] = [each for each in blamed if each.field == name]
            assert (one.saved, one.alone, one.inside) == ((0,), (5 * n + 1,), (3 * n - 3,))


def test_a_field_that_is_put_wrong_on_purpose_is_named_first(
    series: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count of wake-ups on the line of a futex bucket, and the same count on a line of its own."""
    use_programs_of_tests(tmp_path, monkeypatch)
    asked = asked_for(4, workload="futex", rounds=10)
    spoiled, moved = (
        apply_diff(series, compose(series).commit, (HERE / "spoiled" / name).read_bytes(), f"{name}\n")
        for name in ("futex.diff", "futex-moved.diff")
    )
    assert spoiled
    assert moved
    places = [tmp_path / name for name in ("spoiled", "moved")]
    for place in places:
        place.mkdir()
    before, blamed = counted(series, spoiled, asked, places[0])
    assert blamed[0].field == "futex_hash_bucket.wakes"
    assert blamed[0].writers == ("futex_wake",)
    after, not_blamed = counted(series, moved, asked, places[1])
    assert "futex_hash_bucket.wakes" not in {each.field for each in not_blamed if each.saved[0] > 0}
    misses = [
        sum(row.counts.misses for row in result_of(each).quanta[0].rows if row.owner == "futex_hash_bucket")
        for each in (before, after)
    ]
    # The rebuilt kernel runs in another order: so few rounds are far from the prediction.
    assert misses[0] - misses[1] == pytest.approx(blamed[0].saved[0], rel=0.3)
