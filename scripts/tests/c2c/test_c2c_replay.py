# SPDX-License-Identifier: GPL-2.0
"""Traces: what is cut off or damaged is refused, an unchanged layout changes nothing, and a moved field does."""

from __future__ import annotations

import gzip
import random
from dataclasses import replace
from pathlib import Path

import pytest
import toy_results
from msgspec import structs
from replayed import Replay, tape_of

from golden import Golden
from schedlib.c2c.blame import blame
from schedlib.c2c.moved_layout import relaid
from schedlib.c2c.observed import Observed, Player, keep_trace, played, result_of, traced
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import C2C_FILE, BlamedField, TrafficResult, read_result
from schedlib.main import main

pytestmark = pytest.mark.tools

MACHINE = (4, 64, 1, 4, 4, "one", "some")
ROUNDS = toy_results.ROUNDS


@pytest.fixture
def observed(tmp_path: Path) -> Observed:
    return toy_results.observed(tmp_path)


@pytest.fixture
def player(replay: Replay, observed: Observed) -> Player:
    return Player(replay.program, observed.parameters)


@pytest.fixture
def trace(tmp_path: Path, observed: Observed) -> Path:
    """A trace of the two guests."""
    keep_trace(tmp_path / "toy.trace", observed)
    return tmp_path / "toy.trace"


def random_trace(seed: int, *, cpus: int = 4, end: int = 256) -> list[str]:
    """Accesses to the first bytes from 0x1000."""
    draw = random.Random(seed)  # noqa: S311
    return [
        f"{draw.randrange(cpus)} {draw.choice(('load', 'load', 'store', 'rmw'))} "
        f"{0x1000 + draw.randrange(end // 8) * 8:x} {draw.choice((1, 2, 4, 8))} {draw.randrange(1 << 40):x}"
        for _ in range(3000)
    ]


def layout_of(place: Path, text: str) -> Path:
    (place / "layout.toml").write_text(text)
    return place / "layout.toml"


def test_a_tape_that_is_cut_off_is_refused(replay: Replay) -> None:
    tape = tape_of(["watch 1000 64 1", *random_trace(1)[:20]])
    assert replay.run(tape, MACHINE, "-").returncode == 0
    for length in range(len(tape)):
        done = replay.run(tape[:length], MACHINE, "-")
        assert (done.returncode, "end" in done.stdout) == (1, False)
        assert "the trace is cut off" in done.stderr
    # An entry less: a head, and two differences that are 0.
    tape = tape_of(["watch 1000 64 1", "0 load 1000 8", "0 load 1000 8"])
    done = replay.run(tape[:-5] + tape[-2:], MACHINE, "-")
    assert (done.returncode, "entries are missing" in done.stderr) == (1, True)


@pytest.mark.parametrize("line", [64, 128, 256])
def test_objects_that_only_go_elsewhere_count_the_same(replay: Replay, tmp_path: Path, line: int) -> None:
    trace = [*random_trace(2), "unwatch 1000 64", *random_trace(3), "watch 1000 64 2", *random_trace(4)]
    (tmp_path / "moves").write_text("object 0 1000 64 50000 64\npiece 0 0 32 0\npiece 0 32 32 32\n")
    here = replay.records(trace, line=line, size=64)
    there = replay.records(trace, line=line, size=64, moves=tmp_path / "moves")
    assert [replace(each, address=each.address + 0x4F000) for each in here] == there
    # The twin: with one field elsewhere, the counts differ.
    (tmp_path / "moves").write_text("object 0 1000 64 50000 320\npiece 0 0 32 256\npiece 0 32 32 32\n")
    apart = replay.counts(trace, line=line, size=64, moves=tmp_path / "moves")
    assert apart.misses != sum(each.counts.misses for each in here)


def test_an_access_across_members_is_split(replay: Replay, tmp_path: Path) -> None:
    (tmp_path / "moves").write_text("object 0 1000 64 50000 128\npiece 0 0 4 64\npiece 0 4 4 4\npiece 0 12 4 12\n")
    trace = ["0 load 1000 8", "0 store 1008 8", "0 load 1000 4"]
    found = replay.records(trace, size=64, moves=tmp_path / "moves")
    # The bytes from 8 to 12 are in no piece.
    assert [(each.address - 0x50000, each.size, each.kind, each.counts.accesses) for each in found] == [
        (4, 4, "load", 1),
        (12, 4, "store", 1),
        (64, 4, "load", 2),
    ]


@pytest.mark.parametrize(("line", "pairs"), [(64, False), (128, False), (256, False), (64, True)])
def test_blame_is_what_a_move_brings(replay: Replay, tmp_path: Path, line: int, pairs: bool) -> None:
    """Two ways to the same number: the lines of one field played apart, and the whole trace with the field moved."""
    block = 2 * line if pairs else line
    trace = ["watch 1000 512 1", *random_trace(6, end=512)]
    machine = (4, line, 1, 4, 4, "pair" if pairs else "one", "some")
    fields = "".join(f"block {0x1000 + start:x} 1\n" for start in range(0, 512, block))
    (tmp_path / "fields").write_text(f"field 0 72 8 1\n{fields}")
    group, end = replay.lines(trace, machine, "-", tmp_path / "fields")
    assert end == "end 0"
    words = [int(word) for word in group.split()[2:]]
    text = "object 0 1000 512 50000 768\npiece 0 0 72 0\npiece 0 72 8 512\npiece 0 80 432 80\n"
    (tmp_path / "moves").write_text(text)
    before = replay.counts(trace[1:], size=512, line=line, llc=4, node=4, pairs=pairs)
    after = replay.counts(trace[1:], size=512, line=line, llc=4, node=4, pairs=pairs, moves=tmp_path / "moves")
    assert before != after
    assert words[0] - words[1] - words[2] == before.misses - after.misses
    assert words[3] - words[4] - words[5] == before.upgrades - after.upgrades
    # The block that has the field is only a part of the object.
    assert 0 < words[2] < words[0]


def test_when_everything_is_watched(replay: Replay, tmp_path: Path) -> None:
    """Lines of one CPU are left out, and objects that are named afterwards can be blamed."""
    machine, high = (*MACHINE[:-1], "all"), 0xFFFFFFFF81000000
    trace = [
        "watch 1000 8 1",
        "0 store 1000 8",
        *["0 store 2000 8"] * 5,
        f"1 load {high:x} 8 7",
        f"0 load {high + 8:x} 8",
    ]
    rows = replay.lines(trace, machine, "-")
    assert "private 1 5 1" in rows
    found = [row.split()[1:3] for row in rows if row.startswith("record")]
    assert found == [["1000", "1"], [f"{high:x}", "0"], [f"{high + 8:x}", "0"]]
    assert not [row for row in replay.lines(trace, MACHINE, "-") if row.startswith(("private", "record f"))]
    (tmp_path / "fields").write_text("object 5 1000 16\nfield 5 0 8 1\nblock 1000 1\n")
    trace = ["0 load 1008 8", "1 store 1000 8"] * ROUNDS
    words = replay.lines(trace, machine, "-", tmp_path / "fields")[0].split()[2:]
    assert [int(word) for word in words] == [ROUNDS + 1, 1, 1, ROUNDS - 1, 0, 0, 0]


def test_blame_follows_objects_that_come_and_go(replay: Replay, tmp_path: Path) -> None:
    trace = ["watch 1000 64 1", *random_trace(7, end=64)]
    again = [*trace, "unwatch 1000 64", *trace, "unwatch 1000 64", *trace]
    (tmp_path / "fields").write_text("field 0 8 8 1\nblock 1000 1\n")
    once, thrice = (
        [int(word) for word in replay.lines(each, MACHINE, "-", tmp_path / "fields")[0].split()[2:]]
        for each in (trace, again)
    )
    assert thrice == [3 * number for number in once]


def test_a_replay_of_a_trace_is_what_was_counted(tmp_path: Path, player: Player, trace: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    result = result_of(played(player, traced(trace, again), 64))
    assert result == result_of(played(player, toy_results.observed(tmp_path), 64))
    reads = next(row for row in result.quanta[0].rows if row.path == "right")
    assert (reads.counts.misses, reads.counts.false_shared, reads.function) == (ROUNDS, ROUNDS - 1, "reader")
    pages = (0xFFFF888000005000,)
    observed = traced(trace, again)
    keep_trace(tmp_path / "again.trace", observed)
    assert (tmp_path / "again.trace").read_bytes() == trace.read_bytes()
    guests = tuple(replace(guest, again=pages) for guest in observed.guests)
    keep_trace(tmp_path / "again.trace", replace(observed, guests=guests))
    assert {guest.again for guest in traced(tmp_path / "again.trace", again).guests} == {pages}


def test_a_damaged_trace_is_refused(tmp_path: Path, trace: Path) -> None:
    plain, bad = gzip.decompress(trace.read_bytes()), tmp_path / "bad.trace"
    packed = bytearray(trace.read_bytes())
    packed[len(packed) // 2] ^= 4
    others = {
        "is no c2c-trace-1": bytes(packed),
        "more follows": gzip.compress(plain + b"x"),
        "schema is 'c2c-trace-9'; another version": gzip.compress(plain.replace(b"c2c-trace-1", b"c2c-trace-9")),
        "Not a gzipped file": plain,
        "cut off": gzip.compress(plain[:-1]),
        "is no c2c-trace-1: ": trace.read_bytes()[: len(packed) // 2],
    }
    for said, content in others.items():
        bad.write_bytes(content)
        with pytest.raises(SchedlineError, match=said):
            traced(bad, tmp_path)


UNCHANGED = "[structure.root_domain]\nmembers = { left = 0, quiet = 24 }\n"
MOVED = "[structure.root_domain]\nmembers = { left = 64 }\nalign = 64\n"


def counted(player: Player, observed: Observed, layout: Path | None = None, line: int = 64) -> TrafficResult:
    """What a replay counts, with another layout."""
    place = observed.middle.tape
    assert place
    return result_of(played(player, relaid(observed, layout, place.parent) if layout else observed, line))


def test_a_field_that_is_moved_away_also_by_the_layout_of_a_result(
    tmp_path: Path, player: Player, observed: Observed
) -> None:
    result = counted(player, observed, layout_of(tmp_path, MOVED))
    total = {row.path: row for row in result.quanta[0].rows}
    assert (total["right"].counts.misses, total["left"].counts.misses) == (1, 1)
    assert (total["left"].offset, total["left"].line, total["right"].offset) == (64, 1, 8)
    assert (result.watched[0].size, result.fingerprint["layout"].split()[0]) == (128, "layout.toml")
    document.write(tmp_path / C2C_FILE, result)
    for place in (tmp_path, tmp_path / C2C_FILE):
        predicted = counted(player, observed, place)
        assert (predicted.quanta, predicted.watched) == (result.quanta, result.watched)


def test_objects_on_one_line_move_together(tmp_path: Path, player: Player, observed: Observed) -> None:
    watches = (structs.replace(observed.watches[0], size=32), structs.replace(observed.watches[0], key="next", size=32))
    guest = observed.guests[0]
    instances = tuple(
        structs.replace(guest.instances[0], key=watch.key, address=0x10000 + 32 * number, size=32)
        for number, watch in enumerate(watches)
    )
    structure = structs.replace(observed.known.structures["root_domain"], size=32)
    tape = tmp_path / "two.tape"
    tape.write_bytes(tape_of(["watch 10000 32 1 0", "watch 10020 32 1 1", "0 store 10000 8", "1 store 10020 8"] * 9))
    both = replace(
        observed,
        watches=watches,
        known=replace(observed.known, structures={"root_domain": structure}),
        guests=(replace(guest, instances=instances, tape=tape),),
    )
    plain = counted(player, both)
    assert counted(player, both, layout_of(tmp_path, UNCHANGED)).quanta == plain.quanta
    assert sum(row.counts.misses for row in plain.quanta[0].rows) == 18
    grown = "[structure.root_domain]\nsize = 64\nmembers = {}\n"
    apart = counted(player, both, layout_of(tmp_path, grown))
    assert sum(row.counts.misses for row in apart.quanta[0].rows) == 2


WRONG = {
    "has no member lefft": "[structure.root_domain]\nmembers = { lefft = 64 }\n",
    "rq is no structure of this trace": "[structure.rq]\nmembers = { left = 64 }\n",
    "left and root_domain.right would both|right and root_domain.left would both": (
        "[structure.root_domain]\nmembers = { left = 8 }\n"
    ),
    "shares its memory with another member": "[structure.root_domain]\nmembers = { one = 64 }\n",
    "cannot have 64 bytes: its members need 72": "[structure.root_domain]\nsize = 64\nmembers = { left = 64 }\n",
    "build-id bb, the trace is of aa": 'build_id = "bb"\n[structure.root_domain]\nmembers = { left = 64 }\n',
    "sise is unknown": "[structure.root_domain]\nsise = 64\nmembers = { left = 64 }\n",
    "is no TOML": "[structure.root_domain\n",
}


@pytest.mark.parametrize(("said", "text"), WRONG.items())
def test_a_layout_that_does_not_fit_is_refused(tmp_path: Path, observed: Observed, said: str, text: str) -> None:
    with pytest.raises(SchedlineError, match=said):
        relaid(observed, layout_of(tmp_path, text), tmp_path)


def test_a_union_moves_as_a_whole(tmp_path: Path, observed: Observed) -> None:
    text = "[structure.root_domain]\nmembers = { one = 64, other = 64 }\n"
    moved = relaid(observed, layout_of(tmp_path, text), tmp_path)
    offsets = {field.path: field.offset for field in moved.known.structures["root_domain"].fields}
    assert offsets == {"left": 0, "right": 8, "quiet": 24, "one": 64, "other": 64}


def blamed(player: Player, observed: Observed, place: Path) -> tuple[BlamedField, ...]:
    observed = played(player, observed, 64)
    return blame(player, observed, result_of(observed), place)


def test_the_written_field_is_to_blame(tmp_path: Path, player: Player, observed: Observed) -> None:
    found = blamed(player, observed, tmp_path)
    first = found[0]
    # Without `left` on it, CPU 0 fetches the line once; `left` is then fetched once.
    assert (first.field, first.saved) == ("root_domain.left", (ROUNDS - 1, ROUNDS))
    assert (first.alone, first.bytes, first.objects) == ((1, 1), 64, 1)
    assert (first.readers, first.writers) == ((), ("writer",))
    # On a longer line, the access beside the object misses once more.
    assert first.elsewhere == {"128": ROUNDS + 1, "256": ROUNDS + 1, "pairs": ROUNDS}
    gains = {each.field: each.saved for each in found}
    # A second read of the same line is a hit, so moving one of the two that are read saves nothing: it costs one.
    assert gains["root_domain.right"] == gains["root_domain.quiet"] == (-1, -1)
    # The prediction is what the replay with that layout counts.
    before, after = (counted(player, observed, each).quanta for each in (None, layout_of(tmp_path, MOVED)))
    misses = [[sum(row.counts.misses for row in each.rows) for each in quanta] for quanta in (before, after)]
    assert tuple(one - other for one, other in zip(*misses, strict=True)) == first.saved


@pytest.mark.parametrize(
    ("accesses", "inside"),
    [
        # True sharing is nobody's fault.
        (["0 rmw 10000 8 200", "1 rmw 10000 8 200"], 0),
        # False sharing inside of a field, which no place of it saves.
        (["0 store 10000 4 200", "1 store 10004 4 200"], 2 * ROUNDS - 2),
    ],
)
def test_what_no_place_saves(tmp_path: Path, replay: Replay, accesses: list[str], inside: int) -> None:
    observed = toy_results.observed(tmp_path, accesses * ROUNDS)
    (only,) = blamed(Player(replay.program, observed.parameters), observed, tmp_path)
    assert (only.field, only.saved, only.alone, only.inside) == ("root_domain.left", (0,), (2 * ROUNDS,), (inside,))


def test_the_verb(tmp_path: Path, trace: Path, capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    for name in ("one", "two"):
        assert main(["c2c", "replay", str(trace), "--out", str(tmp_path / name)]) == 0
    assert "1. move root_domain.left off its line" in capsys.readouterr().out
    assert (tmp_path / "one" / C2C_FILE).read_bytes() == (tmp_path / "two" / C2C_FILE).read_bytes()
    assert read_result(tmp_path / "one").parameters.line == 64
    layout = layout_of(tmp_path, WRONG["has no member lefft"])
    words = ["c2c", "replay", str(trace), "--layout", str(layout), "--out", str(tmp_path / "three")]
    with pytest.raises(SchedlineError, match="did you mean left"):
        main(words)
    assert not (tmp_path / "three" / C2C_FILE).exists()
    layout_of(tmp_path, MOVED)
    assert main([*words[:-1], str(tmp_path / "four"), "--line", "128"]) == 0
    golden("replay.txt", capsys.readouterr().out)
    assert read_result(tmp_path / "four").parameters.line == 128
    assert main(["c2c", "diff", str(tmp_path / "one"), str(tmp_path / "two")]) == 0
