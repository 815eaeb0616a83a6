# SPDX-License-Identifier: GPL-2.0
"""The search separates what is written from what is read, with the costs of the model, in structures inside of others.

Those are named in the objects around them, moved with them, and refused with the reason if they are nowhere.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import toy_results
from elftools.elf.elffile import ELFFile
from msgspec import structs
from replayed import Replay, compile_checked

from golden import Golden
from schedlib.c2c import plugin_guest
from schedlib.c2c.c2c_options import SuggestOptions
from schedlib.c2c.kernel_map import Units
from schedlib.c2c.moved_layout import StructureLayout
from schedlib.c2c.objects import Watch
from schedlib.c2c.observed import Observed, ObservedGuest, read_record
from schedlib.c2c.plugin_guest import COUNT_LINES
from schedlib.contracts.contract_rules import Clause, our_rules
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import MappedField, MappedStructure
from schedlib.formats.contract_file import ClauseKind
from schedlib.layout.members import Member, Structure, Type, read_members
from schedlib.layout.rule_judge import Layout
from schedlib.suggest import search as search_module
from schedlib.suggest import suggest_job
from schedlib.suggest.layout_costs import (
    Embedded,
    embedded,
    places_in,
    refuse_absent,
    replayed,
)
from schedlib.suggest.member_text import body_of
from schedlib.suggest.movable import Arrangement, Movable, movable
from schedlib.suggest.search import LineCosts, Search
from schedlib.suggest.suggest_job import Held, measurement_of, with_others
from schedlib.suggest.suggest_report import (
    LayoutCosts,
    SuggestDocument,
    SuggestedMove,
    harmed,
    message,
    report_lines,
    status_of,
)
from schedlib.tree.source import Presence

pytestmark = pytest.mark.tools

NAMES = [f"m{number}" for number in range(12)]
AT = 0x10000


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """scripts/c2c/lines.c."""
    return compile_checked(tmp_path_factory.mktemp("lines") / "lines", COUNT_LINES)


def toy() -> Movable:
    """Twelve members of 8 bytes: a line and a half."""
    members = tuple(Member(name, "long", 8 * at, 8) for at, name in enumerate(NAMES))
    fields = [MappedField(each.offset, 8, each.name, "") for each in members]
    text = "struct root_domain {\n" + "".join(f"\tlong {name};\n" for name in NAMES) + "};\n"
    structure = Structure(Type("root_domain", 96, None), members)
    return movable(structure, fields, body_of(text, "root_domain", "toy.h"), 64, ())


def observed(place: Path, accesses: list[str], objects: int = 1, *, everything: bool = False) -> Observed:
    """A guest with these accesses, and objects every 4096 bytes."""
    fields = tuple(MappedField(8 * at, 8, name, "") for at, name in enumerate(NAMES))
    at = [AT + 4096 * number for number in range(objects)]
    return toy_results.observed(place, accesses, size=96, fields=fields, at=at, everything=everything)


def guests(seen: Observed) -> list[tuple[ObservedGuest, list[int]]]:
    """The guest of the middle quantum, and where its objects begin."""
    return [(seen.middle, [each.address for each in seen.middle.instances])]


def mixed(seed: int, objects: int) -> list[str]:
    draw = random.Random(seed)  # noqa: S311
    return [
        f"{draw.randrange(4)} {draw.choice(('load', 'load', 'store', 'rmw'))} "
        f"{AT + 4096 * draw.randrange(objects) + 4 * draw.randrange(24):x} {draw.choice((1, 2, 4, 8, 16))}"
        for _ in range(2000)
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("line", [64, 128, 256])
def test_the_sum_over_lines_is_what_the_model_counts(
    program: Path, replay: Replay, tmp_path: Path, seed: int, line: int
) -> None:
    accesses = [each for each in mixed(seed, 3) if int(each.split()[2], 16) % 4096 + int(each.split()[3]) <= 96]
    seen = observed(tmp_path, accesses, 3)
    with LineCosts(program, guests(seen), toy(), tmp_path) as costs:
        search = Search(toy(), costs, 96, weights={line: 1.0}, price=0)
        (found,) = search.misses(toy().start, line)
    watched = [f"watch {AT + 4096 * at:x} 96 1" for at in range(3)]
    rows = replay.lines([*watched, *accesses], (4, line, 1, 4, 4, "one", "some"), "-")
    records = [read_record(row.split()[1:]) for row in rows if row.startswith("record")]
    assert found == sum(each.counts.misses for each in records) > 0


def ping(*rounds: str) -> list[str]:
    return [*rounds] * 50


def at(name: str) -> str:
    return f"{AT + 8 * NAMES.index(name):x} 8"


def searched(
    program: Path,
    place: Path,
    seen: Observed,
    *,
    most: int = 192,
    check: Callable[[Arrangement, Search], None] = lambda *_: None,
    **more: Any,
) -> tuple[Arrangement, list[int], list[int]]:
    """The order that is found, its misses, and those of today."""
    with LineCosts(program, guests(seen), toy(), place) as costs:
        search = Search(toy(), costs, most, weights={64: 1.0}, **{"price": 0.5, **more})
        found = search.best(2, 1, lambda _: None)
        check(found, search)
        return found, search.misses(found, 64), search.misses(toy().start, 64)


WRITTEN_BESIDE_READ = ping(f"0 load {at('m0')}", f"0 load {at('m1')}", f"1 store {at('m2')}")
TRUE_SHARING = ping(f"0 rmw {at('m2')}", f"1 rmw {at('m2')}")


def test_what_is_written_leaves_the_line_of_what_is_read(program: Path, tmp_path: Path) -> None:
    found, after, before = searched(program, tmp_path, observed(tmp_path, WRITTEN_BESIDE_READ))
    first, second, written = (toy().members(found, 64)[name] // 64 for name in ("m0", "m1", "m2"))
    assert first == second != written
    assert (after < before, found.changes(toy().start)) == (True, 1)


@pytest.mark.parametrize(("accesses", "price"), [(WRITTEN_BESIDE_READ, 100.0), (TRUE_SHARING, 0.5)])
def test_what_brings_less_than_its_price_stays(
    program: Path, tmp_path: Path, accesses: list[str], price: float
) -> None:
    assert searched(program, tmp_path, observed(tmp_path, accesses), price=price)[0] == toy().start


def test_a_seed_gives_one_answer(program: Path, tmp_path: Path) -> None:
    seen = observed(tmp_path, mixed(7, 1))
    assert searched(program, tmp_path, seen) == searched(program, tmp_path, seen)


def test_a_promise_and_the_size_are_kept(program: Path, tmp_path: Path) -> None:
    seen = observed(tmp_path, ping(f"0 load {at('m0')}", f"1 store {at('m2')}"))

    def allowed(each: Arrangement) -> bool:
        return toy().members(each, 64)["m2"] == 16

    found, after, before = searched(program, tmp_path, seen, allowed=allowed, most=96)
    assert allowed(found)
    assert (toy().size(found), after < before) == (96, True)


def test_the_promises_of_a_contract_are_asked_of_each_order(monkeypatch: pytest.MonkeyPatch) -> None:
    members = tuple(Member(name, "long", 8 * at, 8) for at, name in enumerate(NAMES))
    structures = {"root_domain": Structure(Type("root_domain", 96, 64), members)}
    layout = Layout("toy", 64, "", frozenset(), frozenset(), structures)
    known = our_rules()
    clause = Clause(known.rules[0].id, ClauseKind.ALIGNED, frozenset(), False, 0, "root_domain", ("m0",))
    monkeypatch.setattr(suggest_job, "layout_of_built", lambda _vmlinux, _rules: layout)
    monkeypatch.setattr(suggest_job, "rules_about", lambda _tag: replace(known, clauses=(clause,)))
    monkeypatch.setattr(suggest_job, "presence_of", lambda *_: (Presence.PRESENT, ()))
    held = Held(Path("vmlinux"), toy())
    assert (len(held.clauses), held.allow(toy().start)) == (1, True)
    assert not held.allow(replace(toy().start, order=toy().start.order[::-1]))


def test_where_objects_begin_on_a_line_decides_what_shares_one(program: Path, tmp_path: Path) -> None:
    """m3 and m4 share a line only if objects begin at byte 0 of one: at byte 32, m4 is the first of the next."""
    seen = observed(tmp_path, ping(f"0 load {at('m3')}", f"1 store {at('m4')}"))
    with LineCosts(program, guests(seen), toy(), tmp_path) as costs:

        def misses(begins: dict[int, int], order: Arrangement) -> list[int]:
            return Search(toy(), costs, 192, begins=begins).misses(order, 64)

        start, aligned = toy().start, Arrangement(toy().start.order, frozenset({3}))
        assert misses({64: 32}, start) < misses({}, start)
        # An attribute puts all objects at the start of a line again.
        assert misses({64: 32}, aligned) == misses({}, aligned)


@pytest.mark.parametrize("wide", [10_000, 0])
def test_no_neighbour_of_the_answer_is_better(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: int
) -> None:
    """Also where the places of one unit are tried at a time, as in structures with very many members."""
    monkeypatch.setattr(search_module, "_WIDE", wide)

    def check(found: Arrangement, search: Search) -> None:
        score, today = search.scores([found, toy().start])
        around = list(search.neighbours(found, search.hot_units))
        assert len(around) > 100
        assert min(search.scores([each for each in around if toy().size(each) <= 192])) > score - 1e-6
        assert score < today

    read, written = (f"0 load {at(name)}" for name in ("m0", "m9")), (f"1 store {at(name)}" for name in ("m2", "m10"))
    searched(program, tmp_path, observed(tmp_path, ping(*read, *written)), price=0, check=check)


def test_a_damaged_tape_is_refused(program: Path, tmp_path: Path) -> None:
    seen = observed(tmp_path, WRITTEN_BESIDE_READ)
    tape = seen.middle.tape
    assert tape is not None
    tape.write_bytes(tape.read_bytes()[:-3])
    with pytest.raises(SchedlineError, match="a trace cannot be read: c2c: the trace is cut off"):
        LineCosts(program, guests(seen), toy(), tmp_path)


@pytest.mark.parametrize("everything", [False, True])
def test_a_replay_with_the_found_order_has_the_costs_that_were_searched(
    program: Path, replay: Replay, tmp_path: Path, everything: bool
) -> None:
    """In a trace of all memory, objects get their names afterwards."""
    # Both lines are used by two CPUs: what only one has used is left out where all memory is watched.
    accesses = ping(f"0 load {at('m0')}", f"2 load {at('m0')}", f"1 store {at('m2')}", f"3 load {at('m2')}")
    seen = observed(tmp_path, accesses, everything=everything)
    found, after, before = searched(program, tmp_path, seen)
    layouts = {line: toy().layout(found, line) for line in (64, 128, 256)}
    where = Embedded("root_domain", 96, {})
    counts, _ = replayed(replay.program, seen, where, layouts, tmp_path)
    assert [each.misses for each in counts] == after < before


def cost(layout: str, misses: tuple[int, ...], workload: str = "rt", **more: Any) -> LayoutCosts:
    facts = {"held_out": False, "measured": False, "longer_lines": {"128": 5}, **more}
    return LayoutCosts(layout=layout, workload=workload, misses=misses, upgrades=(0,), false_shared=(0,), **facts)


TODAY, BETTER = cost("today", (10, 11)), cost("suggested", (5, 6))
HELD_OUT: dict[str, Any] = {"workload": "wakeup", "held_out": True}
OTHER = cost("today", (10, 11), **HELD_OUT)
UNSEEN = "no gain in a workload that the search did not see"
WORSE = "no gain: it costs misses in the held-out workload wakeup"


@pytest.mark.parametrize(
    ("held_out", "ran", "status"),
    [
        ((9, 10), None, "gain"),
        ((9, 12), None, WORSE),
        ((10, 11), None, UNSEEN),
        ((9, 10), (9, 10), "gain"),
        ((9, 10), (11, 9), WORSE),
    ],
)
def test_a_gain_has_to_be_in_each_quantum_of_each_workload(
    held_out: tuple[int, int], ran: tuple[int, int] | None, status: str
) -> None:
    costs = [TODAY, BETTER, OTHER, cost("suggested", held_out, **HELD_OUT)]
    if ran:
        costs += [cost("suggested", (5, 6), measured=True), cost("suggested", ran, **HELD_OUT, measured=True)]
    assert status_of(costs, has_measured=bool(ran)) == status
    assert status_of([TODAY, BETTER], has_measured=False) == UNSEEN
    assert status_of([TODAY, cost("suggested", (10, 11))], has_measured=False) == "no gain"
    assert harmed([TODAY, BETTER]) == []
    (line,) = harmed([TODAY, cost("suggested", (5, 6), longer_lines={"128": 6})])
    assert line == "lines of 128 bytes, rt: 5 misses become 6"


def test_a_kernel_is_measured_as_its_trace_was(tmp_path: Path) -> None:
    """Also with the clock of the trace: waiters spin longer where an instruction takes less time."""
    seen = observed(tmp_path, WRITTEN_BESIDE_READ)
    seen = replace(seen, parameters=structs.replace(seen.parameters, shift=0, line=128, config=("c2c-memcg",)))
    asked = measurement_of(seen, SuggestOptions(struct="root_domain", trace=()))
    assert asked.parameters == seen.parameters
    words = plugin_guest.argv(asked, 97, tmp_path, tmp_path, None, tmp_path, tmp_path)
    assert "shift=0,sleep=off" in words


def test_what_this_kernel_lacks_stays_behind_what_does_not_move() -> None:
    # Pieces 2 and 5 have no members here; 1 and 4 have moved.
    assert with_others([0, 3, 6, 1, 4], [2, 5]) == [0, 2, 3, 5, 6, 1, 4]
    assert with_others([1, 2], [0]) == [0, 1, 2]


# ---- structures inside of others ----

INODE = tuple(MappedField(8 * at, 8, f"i_{name}", "") for at, name in enumerate("abcdefghijkl"))
"""Twelve members of 8 bytes."""

BEGIN = 40
SHELL = MappedStructure(
    144,
    (
        MappedField(0, 8, "lock", ""),
        *(MappedField(BEGIN + each.offset, 8, f"inode.{each.path}", "") for each in INODE),
        MappedField(136, 8, "last", ""),
    ),
)
WHERE = Embedded("inode", 96, {"shell": (("inode", BEGIN),)})
LIKE_TODAY = StructureLayout({each.path: each.offset for each in INODE}, 96, 8)


def shells(place: Path, *accesses: str) -> Observed:
    """A guest with all memory watched, in which a file system has two inodes inside of its own structure."""
    at = [AT, AT + 192]
    return toy_results.observed(
        place, accesses or (f"0 load {AT:x} 8",), size=144, tag="shell", fields=SHELL.fields, at=at, everything=True
    )


def test_objects_inside_of_others_are_found_there(tmp_path: Path) -> None:
    seen = shells(tmp_path)
    starts = [AT + BEGIN, AT + 192 + BEGIN]
    assert [*WHERE.objects(seen, seen.middle)] == [(start, 96) for start in starts]
    assert [*WHERE.fields(seen)] == [*INODE]
    assert [*Embedded("inode", 96, {}).objects(seen, seen.middle)] == []


def inode(name: str, number: int = 0) -> str:
    offset = 8 * "abcdefghijkl".index(name[-1])
    return f"{AT + 192 * number + BEGIN + offset:x} 8"


SHARED = 20 * [
    # i_a and i_c lie on the first line of each; i_l on the third, beside `last`.
    f"0 load {inode('i_a')}",
    f"1 store {inode('i_c')}",
    f"0 load {inode('i_a', 1)}",
    f"1 store {inode('i_c', 1)}",
    f"1 store {inode('i_l')}",
    f"0 load {AT + 136:x} 8",
]


def misses(replay: Replay, place: Path, layout: StructureLayout) -> int:
    layouts = dict.fromkeys((64, 128, 256), layout)
    return replayed(replay.program, shells(place, *SHARED), WHERE, layouts, place)[0][0].misses


def test_what_lies_beside_it_on_its_lines_is_counted_with_it(replay: Replay, tmp_path: Path) -> None:
    """CPU 0 loses the line with `last` of the structure around it by each write to i_l."""
    today = misses(replay, tmp_path, LIKE_TODAY)
    assert today >= 3 * 20
    # i_c goes to the second line, where nobody is. The misses of `last` are left.
    one = {**LIKE_TODAY.members, "i_c": 40, "i_f": 16}
    assert 20 <= misses(replay, tmp_path, StructureLayout(one, 96, 8)) <= today - 2 * 19
    both = {**one, "i_l": 32, "i_e": 88}
    assert misses(replay, tmp_path, StructureLayout(both, 96, 8)) < 20


TOY = """\
struct inode { int i_mode; long i_size; short i_bytes; %s };
struct shell { char lock; struct inode inode; int last; };
struct array { long head; struct inode all[2]; struct { struct shell shell; } deep; struct inode *other; };
struct array array;
"""


def built(place: Path, more: str) -> Path:
    (place / "toy.c").write_text(TOY % more)
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-o", "toy.so", "toy.c"], cwd=place, check=True)
    return place / "toy.so"


def mapped(binary: Path) -> dict[str, MappedStructure]:
    with binary.open("rb") as file:
        return Units(ELFFile(file), binary).structures("toy.c", frozenset({"inode", "shell", "array"}))


def test_it_is_found_at_any_depth_and_in_arrays(tmp_path: Path) -> None:
    binary = built(tmp_path, "")
    known, inner = mapped(binary), read_members(binary, ["inode", "shell"])
    found = list(places_in(known["array"], inner["inode"]))
    assert found == [("all[0]", 8), ("all[1]", 32), ("deep.shell.inode", 64)]
    assert list(places_in(known["shell"], inner["inode"])) == [("inode", 8)]
    assert list(places_in(known["inode"], inner["shell"])) == list(places_in(known["inode"], inner["inode"])) == []
    # Members of these names elsewhere are not it.
    fields = [MappedField(8 + each.offset, each.size, f"other.{each.name}", "") for each in inner["inode"].members]
    assert list(places_in(MappedStructure(64, tuple(fields)), inner["inode"])) == [("other", 8)]
    for wrong in (fields[:-1], [*fields[:-1], structs.replace(fields[-1], offset=40)]):
        assert list(places_in(MappedStructure(64, tuple(wrong)), inner["inode"])) == []
    seen = shells(tmp_path)
    seen = replace(seen, known=replace(seen.known, structures=known))
    assert embedded(inner["inode"], [seen]) == Embedded("inode", 24, {"shell": (("inode", 8),)})


@pytest.mark.parametrize("more", ["long i_new;", "long i_new __attribute__((__aligned__(64)));"])
def test_a_compiler_moves_the_structures_around_as_far(more: str, tmp_path: Path) -> None:
    """With a member more, and with one that starts a line."""
    before, after = built(tmp_path, ""), tmp_path / "after"
    after.mkdir()
    inner, grown = read_members(before, ["inode"])["inode"], read_members(built(after, more), ["inode"])["inode"]
    seen = shells(tmp_path)
    seen = replace(seen, known=replace(seen.known, structures=mapped(before)))
    names = {each.name for each in inner.members}
    layout = StructureLayout(
        {each.name: each.offset for each in grown.members if each.name in names},
        grown.type.size,
        max(grown.type.align or 8, 8),
    )
    layouts, there = Embedded("inode", 24, {"shell": (("inode", 8),)}).moved(seen, layout)
    moved = read_members(after / "toy.so", ["shell"])["shell"]
    start = next(each.offset for each in moved.members if each.name == "inode")
    assert there.places == {"shell": (("inode", start),)}
    assert layouts["shell"].size == moved.type.size
    wanted = {each.name: each.offset for each in moved.members if each.name != "inode"}
    wanted |= {f"inode.{name}": start + offset for name, offset in layout.members.items()}
    assert layouts["shell"].members == wanted


def test_what_a_trace_does_not_have_is_refused_with_the_reason(tmp_path: Path) -> None:
    seen = shells(tmp_path)
    refuse_absent(seen, WHERE)
    slab = Watch("slab x:64", "slab x", "", 0, 64, "", per_cpu=False, address=0, hops=(0,), optional=True)
    with pytest.raises(SchedlineError, match="no two CPUs used a line of the same file; they shared shell, slab x"):
        refuse_absent(replace(seen, watches=(*seen.watches, slab)), Embedded("file", 8, {}))


def test_the_text_and_the_message_of_the_patch(golden: Golden) -> None:
    harm = cost("suggested", (5, 6), longer_lines={"128": 6})
    measured = cost("suggested", (6, 7), **HELD_OUT, measured=True)
    costs = (TODAY, harm, OTHER, cost("suggested", (4, 5), **HELD_OUT), measured)
    found = SuggestDocument(
        schema="suggest-1",
        tool="schedline 1",
        started=datetime(2026, 11, 29, tzinfo=UTC),
        fingerprint={},
        struct="toy",
        file="toy.h",
        status="gain",
        seed=1,
        tried=1234,
        seconds=5.4,
        size=128,
        new_size=192,
        moved=(SuggestedMove("calls", 0, 64, "yes"), SuggestedMove("busy", 64, 8, "no longer")),
        costs=costs,
    )
    nothing = structs.replace(found, moved=(), new_size=128, status="no gain", costs=())
    parts = ("\n".join(report_lines(found)), "\n".join(report_lines(nothing)), message(found, "8 CPUs"))
    golden("suggest.txt", "\n\n".join(parts))
