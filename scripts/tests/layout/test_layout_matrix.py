# SPDX-License-Identifier: GPL-2.0
"""The matrix shows what was judged, no verdict is better than it, and the JSON follows its schema."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import toys
from toys import clause, layout, rules_of, structure, toy

from by_schema import validator
from golden import Golden
from schedlib.contracts.contract_rules import Clause, OpenFinding
from schedlib.formats.contract_file import ClauseKind
from schedlib.layout.layout_job import (
    failures,
    layout_document,
    notes,
    open_findings,
    table,
    verdict_of,
)
from schedlib.layout.rule_judge import JudgedColumn, Layout, RuleOutcome, RuleResult, judge_column
from schedlib.verdict import Verdict

pytestmark = pytest.mark.tools


def column(name: str, where: Layout, *expected: str) -> JudgedColumn:
    """A column of the project's rules."""
    return judge_column(toys.real_rules(), name, where, frozenset(expected))


def outcomes(*words: str) -> JudgedColumn:
    """A column with the outcomes of rules r0, r1, ..."""
    rows = (RuleResult(f"r{number}", RuleOutcome(word), ()) for number, word in enumerate(words))
    return JudgedColumn("x", layout(), {each.rule: each for each in rows})


DROPPED = JudgedColumn("arm+up", Layout("arm+up"), absent="CONFIG_SMP=n was dropped")


@pytest.mark.parametrize(
    ("columns", "require", "verdict"),
    [
        ([outcomes("pass", "n/a")], [], Verdict.PASS),
        ([outcomes("pass", "fail")], [], Verdict.FAIL),
        ([outcomes("pass", "pass"), outcomes("n/a", "fail")], [], Verdict.FAIL),
        ([outcomes("n/a", "n/a")], [], Verdict.INCONCLUSIVE),
        ([DROPPED], [], Verdict.INCONCLUSIVE),
        ([], [], Verdict.INCONCLUSIVE),
        ([outcomes("pass", "n/a")], ["r0"], Verdict.PASS),
        ([outcomes("pass", "n/a")], ["r1"], Verdict.ERROR),
        ([outcomes("pass", "n/a"), outcomes("n/a", "pass")], ["r0", "r1"], Verdict.PASS),
        ([outcomes("pass"), DROPPED], ["r0"], Verdict.PASS),
        ([DROPPED], ["r0"], Verdict.ERROR),
        ([outcomes("fail", "n/a")], ["r1"], Verdict.FAIL),
        ([outcomes("pass")], ["unheard-of"], Verdict.ERROR),
    ],
)
def test_verdict(columns: list[JudgedColumn], require: list[str], verdict: Verdict) -> None:
    assert verdict_of(columns, require) is verdict


def test_the_text(golden: Golden) -> None:
    """What is n/a, what is assumed, and what is broken where: the notes and failures of some columns."""
    columns = [
        column("one", toy()),
        column("two", replace(toy("STRANGER", "-CONFIG_NUMA_BALANCING"), assumed="lines of 64 bytes are assumed")),
        column("three", toy("STRANGER")),
        column("old", toy("OLD_RD")),
        DROPPED,
    ]
    rules = toys.real_rules()
    parts = (*failures(rules, columns), *table(rules, columns), *notes(rules, columns))
    golden("notes.txt", "\n".join([*parts, ""]))


A_B = (("a", 0, 8), ("b", 64, 8))


@pytest.mark.parametrize(
    ("more", "where", "expected"),
    [
        (
            clause(ClauseKind.TYPE_ALIGNED),
            layout(structure("rq", 128, *A_B, align=None)),
            "not judged, the alignment of a type is not recorded there: "
            "x.R1, struct rq: the type is aligned to a line (k)",
        ),
        (clause(ClauseKind.TYPE_ALIGNED), layout(structure("rq", 128, *A_B)), ""),
        (
            clause(ClauseKind.ALONE, "a", needs=("CONFIG_SMP",)),
            layout(structure("rq", 128, *A_B, ("stranger", 8, 4)), unknown=frozenset({"CONFIG_SMP"})),
            "not judged, whether it has CONFIG_SMP is not known without its configuration: "
            "x.R1, struct rq: no other member is on the lines of these: a (k)",
        ),
    ],
)
def test_notes_say_that_a_pass_is_half_a_pass(more: Clause, where: Layout, expected: str) -> None:
    rules = rules_of(clause(ClauseKind.FOLLOWS, "b a", rule="x"), clause(ClauseKind.APART, "a b"), more)
    judged = judge_column(rules, "k", where, frozenset())
    assert judged.outcome("x.R1") is RuleOutcome.PASS
    assert list(notes(rules, [judged])) == ([expected] if expected else [])


def test_failures_of_an_expected_change_show_each_clause() -> None:
    rules = rules_of(
        clause(ClauseKind.FOLLOWS, "b a", rule="x"), clause(ClauseKind.APART, "a b"), clause(ClauseKind.ALIGNED, "a")
    )
    where = layout(structure("rq", 128, ("b", 0, 8), ("a", 64, 8)))
    assert list(failures(rules, [judge_column(rules, "k", where, frozenset())])) == []
    texts = list(failures(rules, [judge_column(rules, "k", where, frozenset({"x"}))]))
    assert len(texts) == 2
    assert all("holds by accident" in text and "x is not in this tree" in text for text in texts)


def made(*columns: JudgedColumn) -> Any:
    """The JSON document, parsed."""
    return json.loads(
        msgspec.json.encode(layout_document(datetime.now(UTC), {"machine": "x"}, verdict_of(columns), columns))
    )


def test_document_follows_the_schema() -> None:
    unaligned = layout(structure("rq", 128, ("a", 0, 8), align=None))
    for columns in (
        (column("good", toy()),),
        (column("wide", toy("WIDE"), "x"), DROPPED),
        (column("k", unaligned),),
        (),
    ):
        validator("layout-1").validate(made(*columns))


def test_document_holds_what_was_judged() -> None:
    read = made(column("wide", toy("WIDE")), DROPPED)
    assert (read["schema"], read["status"], read["fingerprint"]) == ("layout-1", "FAIL", {"machine": "x"})
    wide, dropped = read["columns"]
    assert {rule["id"]: rule["outcome"] for rule in wide["rules"]}["rq-order.Q1"] == "fail"
    assert wide["line"] == 64 and wide["presence"]["rq-order"] == "present"
    assert wide["types"]["cpupri_vec"] == {"size": 128, "align": 64}
    assert {"type": "rq", "member": "nr_running", "offset": 0, "size": 4} in wide["fields"]
    assert (dropped["line"], dropped["absent"], dropped["rules"]) == (None, "CONFIG_SMP=n was dropped", [])


def test_open_findings_are_told_where_members_share_a_line() -> None:
    rules = replace(rules_of(), findings=(OpenFinding("rq", ("a", "b"), ("c", "d"), "it costs"),))
    near = layout(structure("rq", 256, ("a", 0, 8), ("b", 64, 8), ("c", 8, 8), ("d", 128, 8)))
    far = layout(structure("rq", 256, ("a", 0, 8), ("b", 8, 8), ("c", 64, 8), ("d", 128, 8)))
    columns = [judge_column(rules, each.name, each, frozenset()) for each in (near, replace(far, name="far"))]
    assert list(open_findings(rules, columns)) == ["open finding, struct rq: a on a line with c: it costs (toy)"]
    assert list(open_findings(rules, columns[:1])) == ["open finding, struct rq: a on a line with c: it costs"]
    assert list(open_findings(rules, [columns[1], DROPPED])) == []
