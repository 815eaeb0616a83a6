# SPDX-License-Identifier: GPL-2.0
"""Room on guarded lines: counted by hand on small structures, and used up by a new member."""

from __future__ import annotations

from dataclasses import replace

import pytest
import toys
from toys import clause, layout, rules_of, structure, toy

from schedlib.formats.contract_file import ANY_LINE, ClauseKind
from schedlib.layout.headroom import free_bytes, guarded_lines, lines_with_less_room

pytestmark = pytest.mark.tools

KEPT = clause(ClauseKind.ON_LINE, "a b", ANY_LINE)
RULES = rules_of(KEPT)
PLACES = (("a", 64, 8), ("b", 80, 8), ("c", 100, 4))


def test_guarded_line() -> None:
    (row,) = guarded_lines(RULES, layout(structure("rq", 256, *PLACES)))
    assert (row.rules, row.type, row.line, row.members) == (("x.R1",), "rq", 1, ("a", "b"))
    assert (row.left, row.free, row.pointer, row.is_full) == (128 - 88, 64 - 20, 8, False)


def test_full_line() -> None:
    (full,) = guarded_lines(RULES, layout(structure("rq", 256, ("a", 64, 8), ("b", 113, 8))))
    (room,) = guarded_lines(RULES, layout(structure("rq", 256, ("a", 64, 8), ("b", 112, 8))))
    assert (full.left, full.is_full) == (7, True)
    assert (room.left, room.is_full) == (8, False)


def test_pointer_of_a_32_bit_kernel_is_shorter() -> None:
    where = layout(structure("rq", 256, ("a", 64, 8), ("b", 113, 8)))
    (row,) = guarded_lines(RULES, replace(where, holds=frozenset()))
    assert (row.pointer, row.is_full) == (4, False)


def test_only_lines_that_a_rule_keeps() -> None:
    where = layout(structure("rq", 256, *PLACES))
    assert guarded_lines(rules_of(clause(ClauseKind.ON_LINE, "a", ANY_LINE)), where) == ()
    assert guarded_lines(rules_of(clause(ClauseKind.APART, "a b")), where) == ()
    assert guarded_lines(rules_of(replace(KEPT, needs=frozenset({"CONFIG_SMP"}))), where) == ()
    assert guarded_lines(RULES, layout(structure("rq", 256, ("a", 64, 8), ("b", 128, 8)))) == ()
    assert len(guarded_lines(RULES, where)) == 1


def test_rules_with_the_same_members_are_one() -> None:
    two = replace(
        RULES, rules=(*RULES.rules, replace(RULES.rules[0], id="x.R2")), clauses=(KEPT, replace(KEPT, rule="x.R2"))
    )
    (row,) = guarded_lines(two, layout(structure("rq", 256, *PLACES)))
    assert row.rules == ("x.R1", "x.R2")


def test_free_bytes() -> None:
    where = layout(structure("rq", 80, ("a", 0, 4), ("same", 0, 8), ("across", 60, 8), ("empty", 70, 0)))
    assert free_bytes(where, "rq", 0) == 64 - 8 - 4
    assert free_bytes(where, "rq", 1) == 16 - 4
    assert free_bytes(where, "cpupri", 0) == 0


def test_lines_with_less_room() -> None:
    before = guarded_lines(RULES, layout(structure("rq", 256, *PLACES)))
    later = guarded_lines(RULES, layout(structure("rq", 256, *PLACES, ("new", 104, 4))))
    assert lines_with_less_room(before, before) == []
    assert [(old.free, new.free) for old, new in lines_with_less_room(before, later)] == [(44, 40)]
    assert lines_with_less_room(later, before) == []
    assert lines_with_less_room(before, ()) == []
    moved = guarded_lines(RULES, layout(structure("rq", 256, ("a", 64, 8), ("b", 88, 8), ("c", 100, 4))))
    assert [(old.left, new.left) for old, new in lines_with_less_room(before, moved)] == [(40, 32)]


def test_toy_kernel() -> None:
    rows = {row.rules: row for row in guarded_lines(toys.real_rules(), toy())}
    first = rows["rq-order.Q1",]
    assert (first.line, first.members[0], first.members[-1], first.left, first.free) == (
        0,
        "nr_running",
        "idle",
        24,
        24,
    )
    narrow = {row.rules: row for row in guarded_lines(toys.real_rules(), toy("NARROW"))}
    assert narrow["rq-order.Q1",].left == 8
    assert ("rq-order.Q1",) not in {row.rules for row in guarded_lines(toys.real_rules(), toy("WIDE"))}
    assert {name for names in rows for name in names} == {
        "rq-order.Q1",
        "rq-order.Q3",
        "rq-readers.Q10",
        "rq-order.Q4",
        "rd-lines.R2",
        "rd-lines.R3",
        "rd-lines.R5",
        "rd-lines.R7",
    }
