# SPDX-License-Identifier: GPL-2.0
"""Attacks: each place and each move is tried, what it does is told by offsets, and misses are found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import toys
from toys import clause, layout, rules_of, structure

from proof.attacks import (
    ADDED,
    NEW,
    Attacked,
    AttackKind,
    Victim,
    attacks,
    declarations,
    judge_attack,
    passing_clauses,
    read_variants,
    table,
    unit,
    verdict_on,
)
from schedlib.formats.contract_file import ClauseKind, read_contract
from schedlib.layout.rule_judge import Layout
from schedlib.verdict import Verdict


def test_every_place_and_every_move() -> None:
    body = ("long a;", "long b;", "long c;")
    found = list(attacks(body, frozenset({"a", "c"})))
    added = [each for each in found if each.added]
    assert len(added) == len(ADDED) * 4
    assert added[1].declarations == ("long a;", f"atomic_t {NEW};", "long b;", "long c;")
    moved = [each for each in found if not each.added]
    assert [each.text for each in moved] == ["a behind b", "a behind c", "c first", "c behind a"]
    assert moved[2].declarations == ("long c;", "long a;", "long b;")


CONTRACT = """\
struct = "rq"

[[rule]]
id = "rq-order.Q1"
why = "it hurts"

[[group]]
name = "read"
class = "read-mostly"
apart = "rq-order.Q1"
members = ["a"]

[[group]]
name = "written"
class = "shared"
members = ["b"]

[[group]]
name = "rare"
class = "shared"
members = ["c"]

[[exception]]
group = "rare"
with = ["read"]
why = "it is rare"
"""
BASE = layout(structure("rq", 256, ("a", 0, 8), ("b", 64, 8), ("c", 128, 8), ("cold", 192, 8)))
CLOSED = clause(ClauseKind.ALONE, "a")
APART = clause(ClauseKind.APART, "a b")


def judged(directory: Path, changed: Layout, *, moved: bool) -> Attacked:
    """The result of an attack that gives a layout."""
    path = directory / "rq.toml"
    path.write_text(CONTRACT)
    rules = rules_of(CLOSED, APART)
    attack = next(each for each in attacks(("long a;", "long b;"), frozenset("a")) if bool(each.added) is not moved)
    passing = passing_clauses(rules, "rq", BASE)
    assert passing == (CLOSED, APART)
    return judge_attack(rules, Victim(read_contract(path), BASE, passing), attack, changed)


@pytest.mark.parametrize(
    ("members", "kind", "complains"),
    [
        ((("a", 0, 8), ("b", 64, 8), ("c", 128, 8), ("cold", 192, 8), (NEW, 8, 4)), AttackKind.CLOSED, True),
        ((("a", 0, 8), ("b", 64, 8), ("c", 128, 8), ("cold", 192, 8), (NEW, 72, 4)), AttackKind.BESIDE, False),
        ((("a", 0, 8), ("b", 64, 8), ("c", 128, 8), ("cold", 192, 8), (NEW, 200, 4)), AttackKind.OPEN, False),
        ((("a", 0, 8), ("b", 8, 8), ("c", 128, 8), ("cold", 192, 8)), AttackKind.CHANGED, True),
        ((("a", 128, 8), ("b", 64, 8), ("c", 136, 8), ("cold", 192, 8)), AttackKind.EXEMPT, True),
        ((("a", 128, 8), ("b", 64, 8), ("c", 0, 8), ("cold", 192, 8)), AttackKind.SAME, False),
    ],
)
def test_what_an_attack_did(
    members: tuple[tuple[str, int, int], ...], kind: AttackKind, complains: bool, tmp_path: Path
) -> None:
    new = any(name == NEW for name, _, _ in members)
    found = judged(tmp_path, layout(structure("rq", 256, *members)), moved=not new)
    assert (found.kind, bool(found.complaints)) == (kind, complains)
    assert not found.is_miss


@pytest.mark.parametrize(
    ("kind", "complaints", "is_miss"),
    [
        (AttackKind.CLOSED, (), True),
        (AttackKind.CLOSED, ("x.R1",), False),
        (AttackKind.CHANGED, (), True),
        (AttackKind.OPEN, ("x.R1",), True),
        (AttackKind.OPEN, (), False),
        (AttackKind.EXEMPT, (), False),
        (AttackKind.BESIDE, ("x.R1",), False),
    ],
)
def test_misses(kind: AttackKind, complaints: tuple[str, ...], is_miss: bool) -> None:
    row = Attacked("rq", "a behind b", kind, complaints)
    assert row.is_miss is is_miss
    lines = list(table({"x86_64": [row], "arm": []}))
    assert lines[2] == f"| `rq` | {kind.value} | {len(complaints)} of 1 | - |"
    assert any(line.startswith(f"Misses: {int(is_miss)}") for line in lines)
    assert any(line.startswith("Not attacked") and "`root_domain`" in line and "`rq`" not in line for line in lines)
    assert any("a behind b" in line and line.endswith("(x86_64)") for line in lines) is is_miss
    assert verdict_on({"x86_64": [row]}) is (Verdict.FAIL if is_miss else Verdict.PASS)


def test_one_missed_move_of_twenty_is_allowed() -> None:
    caught, missed = (Attacked("rq", "a behind b", AttackKind.CHANGED, said) for said in (("x.R1",), ()))
    assert verdict_on({"arm": [missed, *[caught] * 19]}) is Verdict.PASS
    assert verdict_on({"arm": [missed, *[caught] * 18], "x86_64": [caught] * 100}) is Verdict.FAIL
    assert verdict_on({}) is Verdict.INCONCLUSIVE


@pytest.mark.tools
def test_variants_are_compiled_and_read(tmp_path: Path) -> None:
    base = toys.toy()
    body = declarations(toys.SCHED_H.split("struct rq {")[0] + "struct rq { u32 nr_running; void *idle; };", "rq")
    small = replace(base, structures={"rq": structure("rq", 16, ("nr_running", 0, 4), ("idle", 8, 8))})
    tried = list(attacks(body, frozenset({"idle"})))
    source = tmp_path / "unit.c"
    source.write_text(unit("rq", tried).replace("../sched.h", str(toys.workshop() / "sched.h")))
    assert toys.gcc(source, source.with_suffix(".o"), "-g", *toys.defines()).returncode == 0
    found = list(read_variants(source.with_suffix(".o"), "rq", tried, small))
    placed = [{member.name: member.offset for member in each.structures["rq"].members} for each in found]
    by_text = dict(zip((each.text for each in tried), placed, strict=True))
    assert by_text["new written member first"] == {NEW: 0, "nr_running": 4, "idle": 8}
    assert by_text["new read member behind nr_running"] == {"nr_running": 0, NEW: 8, "idle": 16}
    assert by_text["idle first"] == {"idle": 0, "nr_running": 8}
    assert found[-1].types["rq"].size == 16
