# SPDX-License-Identifier: GPL-2.0
"""The objects of one structure out of a trace of everything: a replay counts the same for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import toy_trace
from msgspec import structs
from replayed import compile_checked, compile_replay, tape_of

from schedlib.c2c.objects import Watch
from schedlib.c2c.observed import Observed, ObservedGuest, result_of
from schedlib.c2c.picked import picked
from schedlib.c2c.player import Player, played
from schedlib.c2c.plugin_guest import PICK
from schedlib.c2c.raw import Raw
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import Counts
from schedlib.formats.c2c_trace_document import Instance

pytestmark = pytest.mark.tools

OTHER = Watch("kmalloc:64", "kmalloc", "", 0, 64, "", per_cpu=False, address=0, hops=(0,), optional=True)
FAR, BESIDE = 0x20000, 0x10040
ACCESSES = [
    *toy_trace.ACCESSES,
    f"0 load {FAR:x} 8",
    f"1 store {FAR:x} 8",
    f"0 load {BESIDE:x} 8",
    f"1 store {BESIDE:x} 8",
    # This one begins before the object, and ends on its line.
    "1 load fffc 8",
]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """scripts/c2c/pick.c."""
    return compile_checked(tmp_path_factory.mktemp("pick") / "pick", PICK)


@pytest.fixture(scope="session")
def replayer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_replay(tmp_path_factory.mktemp("replay"))


def everything(place: Path, *instances: Instance) -> Observed:
    """A guest in which everything was watched, with objects that have their names at the end."""
    seen = toy_trace.observed(place)
    tape = place / "all.tape"
    tape.write_bytes(tape_of(ACCESSES * toy_trace.ROUNDS))
    objects = (Instance("root_domain+0", 0, 0x10000, 64, 0), *instances)
    guest = ObservedGuest(100, 1, Raw(objects, {}, (), 0), tape)
    parameters = structs.replace(seen.parameters, objects=("all",))
    return replace(seen, watches=(*seen.watches, OTHER), guests=(guest,), parameters=parameters)


def counts(program: Path, seen: Observed, line: int) -> dict[str, Counts]:
    """What is counted on each object."""
    found: dict[str, list[Counts]] = {}
    for row in result_of(played(Player(program, seen.parameters), seen, line)).quanta[0].rows:
        found.setdefault("beside" if row.neighbour else row.owner, []).append(row.counts)
    return {name: Counts.sum(rows) for name, rows in found.items()}


@pytest.mark.parametrize("line", [64, 128, 256])
def test_the_counts_of_the_objects_stay(tmp_path: Path, program: Path, replayer: Path, line: int) -> None:
    whole = everything(tmp_path, Instance(OTHER.key, 0, FAR, 64, 0), Instance(OTHER.key, 0, BESIDE, 64, 0))
    few = picked(program, whole, "root_domain", tmp_path)
    assert few.guests[0].tape and whole.guests[0].tape
    assert few.guests[0].tape.stat().st_size < whole.guests[0].tape.stat().st_size
    before, after = counts(replayer, whole, line), counts(replayer, few, line)
    assert before["root_domain"] == after["root_domain"] and after["root_domain"].misses > toy_trace.ROUNDS / 2
    # Of the others, what shares the longest of lines with them is there, too, and nothing else.
    assert [each.address for each in few.guests[0].raw.instances] == [0x10000, BESIDE]


def test_of_what_holds_a_watched_object_the_object_is_kept(tmp_path: Path, program: Path) -> None:
    around = Instance(OTHER.key, 0, 0x10000, 64, 0)
    whole = everything(tmp_path, around)
    [guest] = whole.guests
    watched = replace(guest.raw, instances=(Instance("root_domain+0", 0, 0x10000, 64, 1), around))
    few = picked(program, replace(whole, guests=(replace(guest, raw=watched),)), "root_domain", tmp_path)
    assert [each.key for each in few.guests[0].raw.instances] == ["root_domain+0"]


def test_what_is_not_named_is_refused(tmp_path: Path, program: Path) -> None:
    with pytest.raises(SchedlineError, match="names no dentry"):
        picked(program, everything(tmp_path), "dentry", tmp_path)


def test_a_damaged_tape_is_refused(tmp_path: Path, program: Path) -> None:
    whole = everything(tmp_path)
    assert whole.guests[0].tape
    whole.guests[0].tape.write_bytes(whole.guests[0].tape.read_bytes()[:-3])
    with pytest.raises(SchedlineError, match="cut off"):
        picked(program, whole, "root_domain", tmp_path)
