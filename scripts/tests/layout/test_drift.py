# SPDX-License-Identifier: GPL-2.0
"""What is found between two kernels, on small structures; and every finding's negative twin."""

from __future__ import annotations

from dataclasses import replace as changed
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from toys import clause, layout, structure

from schedlib.contracts.contract_rules import Clause, Rule, Rules
from schedlib.formats.contract_file import ANY_LINE, AccessClass, ClauseKind, MemberGroup
from schedlib.layout.drift import (
    DriftCell,
    DriftFinding,
    DriftKernel,
    DriftKind,
    DriftMove,
    DriftStep,
    LayoutDriftDocument,
    judge_kernels,
)
from schedlib.layout.drift_job import rows, text
from schedlib.layout.rule_judge import Layout
from schedlib.verdict import Verdict

TOGETHER = clause(ClauseKind.ON_LINE, "a b", ANY_LINE, rule="s.G1", tag="s")
CLOSED = clause(ClauseKind.ALONE, "a b", rule="s.G2", tag="s")
APART = clause(ClauseKind.APART, "a", rule="s.G3", tag="s", others="w v")

BASE = (("a", 0, 8), ("b", 8, 8), ("w", 64, 8), ("v", 72, 8), ("c", 128, 8))


def rules_of(*clauses: Clause, members: str = "", readers: str = "") -> Rules:
    rules = tuple(Rule(name, "", "it is hot", "here") for name in dict.fromkeys(each.rule for each in clauses))
    named = tuple(("s", tuple(name.split("|")), frozenset[str]()) for name in members.split())
    groups = (("s", MemberGroup("g", AccessClass.READ_MOSTLY, ("a", "b"), readers=tuple(readers.split()))),)
    return Rules(rules, clauses, members=named, files={"s": "include/linux/s.h"}, groups=groups)


def shape(*members: tuple[str, int, int], size: int = 256) -> Layout:
    return layout(structure("s", size, *members))


def moved(**places: tuple[int, int] | None) -> Layout:
    """The base with some members elsewhere, gone (None), or added."""
    rows = {name: (at, size) for name, at, size in BASE} | places
    return shape(*sorted(((name, *row) for name, row in rows.items() if row), key=lambda each: each[1]))


def between(rules: Rules, *layouts: Layout) -> list[DriftFinding]:
    """What is found between the last two of some kernels."""
    judged = judge_kernels(rules, [(str(at), each) for at, each in enumerate(layouts)])
    held = {name for each in judged[:-1] for name, row in each.results.items() if row.outcome.value == "pass"}
    return list(DriftStep(rules, judged[-2], judged[-1]).findings(held))


def moves_of(rules: Rules, *layouts: Layout) -> list[DriftMove]:
    before, after = judge_kernels(rules, [(str(at), each) for at, each in enumerate(layouts)])
    return list(DriftStep(rules, before, after).moves())


@pytest.mark.parametrize("kept", [TOGETHER, CLOSED, APART])
def test_nothing_is_found_where_nothing_changed(kept: Clause) -> None:
    assert between(rules_of(kept, members="a b w"), moved(), moved()) == []
    assert moves_of(rules_of(kept), moved(), moved()) == []


@pytest.mark.parametrize(
    ("kept", "places", "members", "text"),
    [
        (TOGETHER, {"b": (64, 8)}, ("b",), "b (line 1) not on line 0 with a"),
        (CLOSED, {"new": (16, 8)}, ("new",), "new on line 0, kept for a, b"),
        (APART, {"w": (16, 8)}, ("a", "w"), "a on a line with w"),
    ],
)
def test_broken(kept: Clause, places: dict[str, tuple[int, int]], members: tuple[str, ...], text: str) -> None:
    rules = rules_of(kept, readers="look")
    (found,) = between(rules, moved(), moved(**places))
    assert (found.kind, found.contract, found.members) == (DriftKind.BROKEN, "s", members)
    assert text in found.text and "Why: it is hot" in found.text and found.readers == ("look",)
    # The other way round it is mended; and what never held is not broken.
    (found,) = between(rules, moved(**places), moved())
    assert found.kind is DriftKind.MENDED
    assert between(rules, moved(**places), moved(**places)) == []


WITHOUT = shape(("a", 0, 8), ("c", 128, 8))


@pytest.mark.parametrize(
    ("layouts", "kind"),
    [
        # Between them is a kernel of which the rule says nothing.
        ((moved(), WITHOUT, moved(b=(64, 8))), DriftKind.BROKEN),
        ((WITHOUT, moved(b=(64, 8))), DriftKind.NEVER_HELD),
        ((WITHOUT, moved()), DriftKind.CAME),
        ((moved(), WITHOUT), DriftKind.WENT),
    ],
)
def test_rules_that_come_and_go(layouts: tuple[Layout, ...], kind: DriftKind) -> None:
    (found,) = between(rules_of(TOGETHER), *layouts)
    assert found.kind is kind and found.kind.is_red is (kind is DriftKind.BROKEN)
    assert found.kind.is_amber is (kind in (DriftKind.NEVER_HELD, DriftKind.WENT))
    assert ("nothing to compare with" in found.text) is (kind is DriftKind.WENT)


def test_a_further_member_on_the_lines_of_a_broken_rule() -> None:
    rules = rules_of(APART)
    (found,) = between(rules, moved(w=(16, 8)), moved(w=(16, 8), v=(24, 8)))
    assert (found.kind, found.members) == (DriftKind.INTRUDER, ("a", "v"))
    assert between(rules, moved(w=(16, 8), v=(24, 8)), moved(w=(16, 8))) == []
    (found,) = between(rules_of(CLOSED), moved(x=(16, 8)), moved(x=(16, 8), y=(24, 8)))
    assert (found.kind, found.members) == (DriftKind.INTRUDER, ("y",))
    # What lies between scattered members says nothing of lines: 6.1 has none of the groups that 7.3 keeps together.
    unbroken = rules_of(clause(ClauseKind.UNBROKEN, "a c", rule="s.G4", tag="s"))
    assert between(unbroken, moved(), moved(x=(96, 8))) == []
    # Members that are apart from their group are not a member that joins.
    assert between(rules_of(TOGETHER), moved(b=(64, 8)), moved(b=(128, 8))) == []


def test_an_absent_change_is_a_broken_rule_once_a_kernel_had_it() -> None:
    sign = Clause("x", ClauseKind.FOLLOWS, frozenset(), True, 0, "s", ("w",), ("a",))
    rules = changed(rules_of(TOGETHER, sign), rules=(Rule("s.G1", "x", "it is hot", "here"),))
    absent = moved(a=(80, 8), b=(88, 8))
    (found,) = between(rules, moved(), absent)
    assert found.kind is DriftKind.BROKEN and "x is not in this tree" in found.text
    assert between(rules, absent, absent) == []


def test_a_line_that_is_full() -> None:
    room, full = moved(c=(16, 40)), moved(c=(16, 48))
    (found,) = between(rules_of(TOGETHER), room, full)
    assert found.kind is DriftKind.FULL and "line 0: the last 8 free bytes are taken" in found.text
    assert found.rules == ("s.G1",)
    assert between(rules_of(TOGETHER), full, full) == []
    assert between(rules_of(TOGETHER), full, room) == []
    # Bytes that are free but cannot be used by the group: its last member ends the line.
    last = moved(a=(40, 8), b=(48, 8)), moved(a=(40, 8), b=(56, 8))
    (found,) = between(rules_of(TOGETHER), *last)
    assert "0 bytes are left behind b, there were 8" in found.text


def test_a_member_without_a_contract_joins() -> None:
    rules = rules_of(APART, members="a b w v", readers="look")
    (found,) = between(rules, moved(), moved(c=(24, 8)))
    assert (found.kind, found.members, found.readers) == (DriftKind.JOINED, ("c",), ("look",))
    assert "c came to a line of a (s.G3)" in found.text
    assert between(rules, moved(c=(24, 8)), moved(c=(24, 8))) == []
    assert between(rules, moved(c=(24, 8)), moved()) == []
    # What the contract names is a matter of its rules, and a marker has no bytes.
    assert between(rules_of(APART, members="a b w v c"), moved(), moved(c=(24, 8))) == []
    assert between(rules, moved(), moved(mark=(24, 0))) == []
    # So is a second name for the bytes of a member that it names.
    assert between(rules, moved(), moved(alias=(0, 8))) == []


def test_a_member_that_is_gone() -> None:
    rules = rules_of(APART, members="a b|old w v")
    (found,) = between(rules, moved(), moved(v=None))
    assert (found.kind, found.members) == (DriftKind.GONE, ("v",))
    assert between(rules, moved(), moved(b=None, old=(8, 8))) == []
    assert between(rules, moved(v=None), moved()) == []


def test_members_that_begin_on_another_line() -> None:
    marker = "__cacheline_group_begin__fast"
    found = moves_of(rules_of(TOGETHER, members="w"), moved(v=None), moved(w=(128, 8), **{marker: (136, 0)}))
    assert found == [DriftMove("s", "0", "1", (), "w", 1, 2, True), DriftMove("s", "0", "1", (), "v", None, 1, False)]
    assert moves_of(rules_of(TOGETHER), layout(structure("t", 8)), moved()) == []


def drifted() -> LayoutDriftDocument:
    """Something of every kind."""
    columns, kernels = ("x86_64", "arm64"), ("6.12", "7.3")

    def finding(kind: DriftKind, *columns: str) -> DriftFinding:
        members = ("sk_backlog", "sk_drops", "sk_rcvbuf", "sk_filter")
        words = "all lie entirely on one line; not so sk_backlog (line 5). Why: each packet takes them"
        return DriftFinding(kind, "sock", *kernels, columns, ("sock.G1",), members, ("tcp_recvmsg",), words)

    every = [(name, column, kernel) for name in ("quiet", "file") for column in columns for kernel in kernels]
    cells = [cell(*where, 3) for where in every]
    cells += [cell("sock", "x86_64", "6.12", 3), cell("sock", "x86_64", "7.3", 2, 1)]
    cells += [cell("sock", "arm64", kernel, 3) for kernel in kernels]
    return LayoutDriftDocument(
        schema="layout-drift-2",
        tool="schedline",
        started=datetime(2026, 11, 24, tzinfo=UTC),
        command="schedline layout drift 6.12 7.3 --arch x86_64,arm64",
        fingerprint={"machine": "x86_64", "compiler x86_64": "gcc 12"},
        status=Verdict.FAIL,
        kernels=tuple(DriftKernel(name, f"source {name}", "0" * 40, (f"note {name}",)) for name in kernels),
        cells=tuple(cells),
        findings=(finding(DriftKind.BROKEN, "x86_64"), *(finding(kind, *columns) for kind in list(DriftKind)[2:])),
        moves=(DriftMove("sock", *kernels, columns, "sk_backlog", 3, 5, True),),
    )


def cell(contract: str, column: str, kernel: str, passed: int, failed: int = 0) -> DriftCell:
    ids = [f"{contract}.G{number}" for number in range(1, 9)]
    return DriftCell(contract, column, kernel, 64, 760, tuple(ids[failed : failed + passed]), tuple(ids[:failed]), ())


def test_rows() -> None:
    """Columns that show the same share a row; a contract of which nothing has to be looked at has none."""
    shown = [["sock", "x86_64", "3 pass", "FAIL G1, 2 pass"], ["sock", "arm64", "3 pass", "3 pass"]]
    assert rows(drifted()) == (shown, ["quiet", "file"])
    full = replace(drifted().findings[2], kind=DriftKind.FULL)
    cells = (*drifted().cells[-2:], *(cell("sock", "x86_64", kernel, 3) for kernel in ("6.12", "7.3")))
    both = replace(drifted(), findings=(full,), cells=cells)
    assert rows(both)[0] == [["sock", "all", "3 pass", "3 pass"]]


def test_text_has_100_columns() -> None:
    lines = list(text(drifted()))
    assert max(map(len, lines)) <= 100 and lines[-1] == "verdict: FAIL"
    assert "nothing to look at in 2 contracts: quiet, file" in lines
    assert "FAIL: a rule that held is broken" in lines and "a broken rule holds again" in lines
