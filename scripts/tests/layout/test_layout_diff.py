# SPDX-License-Identifier: GPL-2.0
"""Two layouts are compared: what moved, which rules changed, and exact figures."""

from __future__ import annotations

from dataclasses import replace

import pytest
import toys
from msgspec import to_builtins
from toys import clause, layout, rules_of, structure, toy

from schedlib.formats.contract_file import ClauseKind
from schedlib.layout.layout_diff import ChangedRule, LayoutDiffDocument, MovedMember, compare, text
from schedlib.layout.rule_judge import RuleOutcome

pytestmark = pytest.mark.tools

RULES = rules_of(clause(ClauseKind.APART, "a b"))
BEFORE = layout(structure("rq", 120, ("a", 0, 8), ("b", 64, 8), ("gone", 72, 8)))
AFTER = layout(structure("rq", 200, ("a", 0, 8), ("b", 56, 8), ("new", 128, 8)))


def metrics(difference: LayoutDiffDocument) -> dict[str, tuple[int | None, int | None]]:
    """The figures by name."""
    return {metric.name: (metric.before, metric.value) for metric in difference.metrics}


def test_difference() -> None:
    found = compare(RULES, BEFORE, AFTER)
    assert found.moved == (MovedMember("rq.b", 1, 0), MovedMember("rq.gone", 1, None), MovedMember("rq.new", None, 2))
    assert found.rules == (ChangedRule("x.R1", RuleOutcome.PASS, RuleOutcome.FAIL),)
    figures = metrics(found)
    assert figures["rq size"] == (120, 200)
    assert figures["rq lines"] == (2, 4)
    assert figures["rq holes"] == (120 - 24, 200 - 24)
    assert figures["cpupri size"] == figures["cpupri holes"] == (None, None)


def test_no_difference() -> None:
    found = compare(RULES, BEFORE, BEFORE)
    assert (found.moved, found.rules) == ((), ())
    assert all(before == after for before, after in metrics(found).values())
    assert list(text(found, BEFORE, BEFORE))[-1] == "no member begins on another line, no rule changes"


def test_move_within_a_line_is_none() -> None:
    shifted = layout(structure("rq", 120, ("a", 8, 8), ("b", 96, 8), ("gone", 72, 8)))
    assert compare(RULES, BEFORE, shifted).moved == ()
    assert compare(RULES, BEFORE, replace(shifted, line=32)).moved != ()


def test_text() -> None:
    lines = list(text(compare(RULES, BEFORE, AFTER), BEFORE, replace(AFTER, name="after", line=128)))
    assert lines[:2] == ["before: toy, lines of 64 bytes", "after:  after, lines of 128 bytes"]
    assert "rq size:                     120 -> 200 bytes" in lines
    assert "rule x.R1: pass -> fail" in lines
    assert f"  {'rq.gone:':40} line 1 -> absent" in lines
    assert f"  {'rq.new:':40} absent -> line 2" in lines
    assert not [line for line in lines if line.startswith("cpupri ")]
    assert "no member begins" not in lines[-1]


def test_figures_for_the_gate() -> None:
    assert to_builtins(compare(RULES, BEFORE, AFTER).metrics[0]) == {
        "name": "rq size",
        "unit": "bytes",
        "direction": "lower",
        "kind": "exact",
        "n": 1,
        "before": 120,
        "value": 200,
    }


def test_toy_kernel_before_and_after_a_change() -> None:
    found = compare(toys.real_rules(), toy("OLD_RD"), toy())
    moved = {each.member for each in found.moved}
    assert {"root_domain.rto_mask", "root_domain.overloaded"} <= moved
    assert {"root_domain.refcount", "rq.idle"}.isdisjoint(moved)
    assert {each.id for each in found.rules} == {f"rd-lines.R{number}" for number in range(1, 10)}
    assert {(each.before, each.after) for each in found.rules} == {(RuleOutcome.NA, RuleOutcome.PASS)}
    assert metrics(compare(toys.real_rules(), toy(), toy("WIDE")))["load-balance lines touched"] == (1, 2)
