# SPDX-License-Identifier: GPL-2.0
"""An incident by counts, with traces that are made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import toy_trace
from msgspec import structs
from replayed import compile_checked, compile_replay, tape_of

from schedlib.c2c import plugin_guest
from schedlib.c2c.counting import Wanted
from schedlib.c2c.observed import Observed
from schedlib.c2c.plugin_guest import COUNT_LINES, PICK
from schedlib.c2c.raw import Raw
from schedlib.dev import incident_traces
from schedlib.dev.incident_counts import (
    BlamedMembers,
    CountPrograms,
    IncidentTrace,
    costs_more,
    counted_or_why,
    is_caught,
    judged,
    why_missed,
)
from schedlib.dev.incident_offsets import IncidentLayouts, PlacedState
from schedlib.dev.incident_traces import IncidentTraces
from schedlib.dev.retrodict_counts_page import is_as_good
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import BlamedField
from schedlib.formats.incident_file import Incident, Played, read_incident_rules, read_incidents
from schedlib.formats.retrodict_document import CountedRow
from schedlib.layout.members import Member, Structure
from schedlib.layout.tables import Type

RULES = read_incident_rules().replay
TAG = "root_domain"
PLACES = {"left": (0, 8), "right": (8, 8), "one": (16, 4), "other": (16, 2), "quiet": (24, 8)}
"""The members of the traced object. Another CPU writes `left`, and `right` and `quiet` are read."""

TEXT = """\
struct root_domain {
	long left;
	long right;
	union {
		int one;
		short other;
	};
	long quiet;
};
"""


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> CountPrograms:
    place = tmp_path_factory.mktemp("programs")
    lines, pick = (compile_checked(place / name[0].removesuffix(".c"), name) for name in (COUNT_LINES, PICK))
    return CountPrograms(compile_replay(place), lines, pick)


def state(size: int = 32, **moved: int) -> PlacedState:
    """The object with some members at other offsets."""
    members = [Member(name, "long", moved.get(name, at), bytes_) for name, (at, bytes_) in PLACES.items()]
    members.sort(key=lambda member: member.offset)
    return PlacedState(TEXT, {TAG: Structure(Type(TAG, size, None), tuple(members))})


def named_later(seen: Observed) -> Observed:
    """The same guests, as with `--objects all`: the objects have their names at the end."""
    guests = []
    for number, guest in enumerate(seen.guests):
        assert guest.tape
        guest.tape.write_bytes(tape_of([*toy_trace.ACCESSES * (toy_trace.ROUNDS + number), toy_trace.BESIDE]))
        instances = tuple(structs.replace(each, epoch=0) for each in guest.raw.instances)
        guests.append(replace(guest, raw=Raw(instances, {}, (), 0)))
    parameters = structs.replace(seen.parameters, objects=("all",))
    return replace(seen, parameters=parameters, guests=tuple(guests))


def toy_incident(*right: str) -> Incident:
    return msgspec.structs.replace(read_incidents()[0], name="toy", struct=TAG, change="", right=right)


def count(
    place: Path, programs: CountPrograms, fix: PlacedState, *right: str, later: bool = False, inside: str = ""
) -> CountedRow:
    """What the counts say if 7.3 has the bad layout."""
    seen = toy_trace.observed(place)
    seen = named_later(seen) if later else seen
    layouts = IncidentLayouts(TAG, inside, "toy.h", state(), state(), fix)
    return IncidentTrace.of(seen, layouts, programs, RULES, place).counted(toy_incident(*right), Played("rt"))


APART = state(128, left=64)
"""What is written has its own line."""


@pytest.mark.tools
@pytest.mark.parametrize("later", [False, True])
def test_a_layout_that_costs_more_is_caught_by_its_member(tmp_path: Path, programs: CountPrograms, later: bool) -> None:
    row = count(tmp_path, programs, APART, "left", later=later)
    assert row.caught and row.costs_more and row.better and not row.why
    assert row.rank == 1 and row.first[0] == "root_domain.left"
    # In each round the reader misses; with the fix each CPU misses once. The writer keeps its line.
    assert row.bad == tuple(toy_trace.ROUNDS + 1 + number for number in range(2))
    assert row.good == (2, 2)
    # The search separates them, too.
    assert row.suggested and is_as_good(row)


@pytest.mark.tools
def test_a_layout_that_costs_the_same_is_not_caught(tmp_path: Path, programs: CountPrograms) -> None:
    row = count(tmp_path, programs, state(128, one=64, other=64), "left")
    assert not row.caught and not row.costs_more and not row.better and row.rank == 1
    assert row.why == "the bad layout has no more misses in this workload"


@pytest.mark.tools
def test_layouts_with_the_same_lines_are_not_played(tmp_path: Path, programs: CountPrograms) -> None:
    row = counted_or_why(Played("rt"), lambda: count(tmp_path, programs, state(64, quiet=40), "left"))
    assert not row.caught and not row.bad and "the same members share lines" in row.why


@pytest.mark.tools
def test_another_member_is_not_caught(tmp_path: Path, programs: CountPrograms) -> None:
    row = count(tmp_path, programs, APART, "quiet")
    assert row.costs_more and not row.caught and row.rank == 0 and row.why == "another member is named"


@pytest.mark.tools
def test_a_new_member_is_not_played(tmp_path: Path, programs: CountPrograms) -> None:
    new = state(128)
    more = (*new.structures[TAG].members, Member("priv", "long", 64, 8))
    new = replace(new, structures={TAG: replace(new.structures[TAG], members=more)})
    row = counted_or_why(Played("rt"), lambda: count(tmp_path, programs, new, "left"))
    assert not row.caught and not row.bad
    assert row.why == "not played: it cannot be played: the accesses of priv are not in the trace"


def test_the_spread_of_the_quanta() -> None:
    assert costs_more((100, 101, 102), (103, 105, 104))
    # The middle has two more, but the quanta differ by two.
    assert not costs_more((100, 101, 102), (103, 103, 103))
    assert not costs_more((100, 100, 100), (100, 140, 180))
    assert not costs_more((100, 101, 102), (90, 91, 92))


def blamed(*names: str, saved: int = 10) -> list[BlamedField]:
    return [
        BlamedField(
            field=name,
            saved=(saved, saved, saved),
            saved_upgrades=(0, 0, 0),
            alone=(0, 0, 0),
            inside=(0, 0, 0),
            elsewhere={},
            bytes=64,
            objects=1,
            readers=(),
            writers=(),
        )
        for name in names
    ]


FIELDS = blamed("rq.x", "toy.a", "toy.*mask", "toy.b.x", "toy.vec[].count", "toy.c")


@pytest.mark.parametrize(
    ("right", "inside", "rank"),
    [
        (("a",), "", 1),
        (("b",), "", 2),
        (("count",), "vec[0]", 3),
        (("c",), "", 4),
        # The start of a name is another name; what a pointer leads to is no member; another object has its own.
        (("coun",), "vec[0]", 0),
        (("*mask",), "", 0),
        (("x",), "", 0),
    ],
)
def test_the_place_of_the_right_member(right: Sequence[str], inside: str, rank: int) -> None:
    found = judged(FIELDS, ("toy",), right, inside)
    assert found.rank == rank
    # The fourth is not among the first three.
    costly, cheap = ((10, 10, 10), (99, 99, 99)), ((99, 99, 99), (99, 99, 99))
    assert is_caught(*costly, found, RULES.first) is (1 <= rank <= 3)
    assert not is_caught(*cheap, found, RULES.first)


def test_fields_that_save_nothing_do_not_count() -> None:
    assert judged(blamed("toy.a", saved=0), ("toy",), ("a",), "") == BlamedMembers((), 0)


def test_why_it_was_missed() -> None:
    fourth = BlamedMembers(("toy.x", "toy.y", "toy.z", "toy.a"), 4)
    assert why_missed((1, 1), (9, 9), fourth, 3) == "the right member is number 4"
    assert "within the spread" in why_missed((1, 9), (5, 12), fourth, 3)
    assert "too few misses" in why_missed((1, 1), (9, 9), BlamedMembers((), 0), 3)


def test_each_workload_has_rounds() -> None:
    played = {each.play.workload for each in read_incidents() if each.play}
    assert played <= {each.workload for each in RULES.trace}
    with pytest.raises(SchedlineError, match="no rounds for ping"):
        RULES.rounds_of("ping")


def test_missing_traces_are_taken_and_a_failure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def observe(cache: Path, made: object, wanted: Wanted, place: Path, *more: object, taped: bool) -> Observed:
        ran.append(wanted.workload)
        if wanted.workload == "mmap":
            raise SchedlineError("the guest's kernel panicked", "see its log")
        return replace(toy_trace.observed(place), guests=())

    traces = IncidentTraces(tmp_path, None, None, RULES)  # type: ignore[arg-type]
    monkeypatch.setattr(IncidentTraces, "path", lambda self, name: tmp_path / "traces" / f"{name}.trace")
    monkeypatch.setattr(IncidentTraces, "plan", None)
    monkeypatch.setattr(incident_traces, "built", lambda *words: None)
    monkeypatch.setattr(incident_traces, "observe", observe)
    monkeypatch.setattr(incident_traces, "pcs_of", lambda *words: ())
    monkeypatch.setattr(incident_traces, "keep_trace", lambda path, *words: path.write_text(""))
    monkeypatch.setattr(plugin_guest, "replayer", lambda cache: cache)
    traces.take(["files", "mmap", "rt"])
    assert ran == ["files", "mmap", "rt"] and traces.failed == {"mmap": "the guest's kernel panicked"}
    traces.take(["files", "mmap", "rt"])
    assert ran == ["files", "mmap", "rt", "mmap"]
