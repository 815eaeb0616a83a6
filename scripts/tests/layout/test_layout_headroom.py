# SPDX-License-Identifier: GPL-2.0
"""Room on guarded lines: counted by hand on small structures, and used up by a new member."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toys import clause, layout, rules_of, structure

from schedlib.contracts.contract_rules import Rules
from schedlib.formats.contract_file import ANY_LINE, ClauseKind
from schedlib.layout.headroom import Guarded, free_bytes, guarded_lines, lines_with_less_room

pytestmark = pytest.mark.tools

KEPT = clause(ClauseKind.ON_LINE, "a b", ANY_LINE)
RULES = rules_of(KEPT)
PLACES = (("a", 64, 8), ("b", 80, 8), ("c", 100, 4))


def rows(*places: tuple[str, int, int], rules: Rules = RULES, bits: int = 64) -> tuple[Guarded, ...]:
    where = layout(structure("rq", 256, *places))
    return guarded_lines(rules, where if bits == 64 else replace(where, holds=frozenset()))


@pytest.mark.parametrize(
    ("at", "bits", "left", "is_full"),
    [(80, 64, 40, False), (113, 64, 7, True), (112, 64, 8, False), (113, 32, 7, False)],
)
def test_guarded_line(at: int, bits: int, left: int, is_full: bool) -> None:
    (row,) = rows(("a", 64, 8), ("b", at, 8), bits=bits)
    assert (row.rules, row.type, row.line, row.members) == (("x.R1",), "rq", 1, ("a", "b"))
    assert (row.left, row.free, row.pointer, row.is_full) == (left, 64 - 16, bits // 8, is_full)


def test_only_lines_that_a_rule_keeps() -> None:
    for no_line in (
        clause(ClauseKind.ON_LINE, "a", ANY_LINE),
        clause(ClauseKind.APART, "a b"),
        replace(KEPT, needs=frozenset({"CONFIG_SMP"})),
    ):
        assert rows(*PLACES, rules=rules_of(no_line)) == ()
    assert rows(("a", 64, 8), ("b", 128, 8)) == () and len(rows(*PLACES)) == 1


def test_rules_with_the_same_members_are_one() -> None:
    two = replace(
        RULES, rules=(*RULES.rules, replace(RULES.rules[0], id="x.R2")), clauses=(KEPT, replace(KEPT, rule="x.R2"))
    )
    (row,) = rows(*PLACES, rules=two)
    assert row.rules == ("x.R1", "x.R2")


def test_free_bytes() -> None:
    where = layout(structure("rq", 80, ("a", 0, 4), ("same", 0, 8), ("across", 60, 8), ("empty", 70, 0)))
    assert free_bytes(where, "rq", 0) == 64 - 8 - 4
    assert free_bytes(where, "rq", 1) == 16 - 4
    assert free_bytes(where, "cpupri", 0) == 0


def test_lines_with_less_room() -> None:
    before, later = rows(*PLACES), rows(*PLACES, ("new", 104, 4))
    assert lines_with_less_room(before, before) == []
    assert [(old.free, new.free) for old, new in lines_with_less_room(before, later)] == [(44, 40)]
    assert lines_with_less_room(later, before) == []
    assert lines_with_less_room(before, ()) == []
    moved = rows(("a", 64, 8), ("b", 88, 8), ("c", 100, 4))
    assert [(old.left, new.left) for old, new in lines_with_less_room(before, moved)] == [(40, 32)]
