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
from schedlib.contracts.contract_rules import Clause, OpenFinding, Rules
from schedlib.formats.contract_file import ClauseKind
from schedlib.layout.layout_job import (
    JudgedColumn,
    failures,
    judge_column,
    layout_document,
    notes,
    open_findings,
    table,
    verdict_of,
)
from schedlib.layout.rule_judge import Layout, RuleOutcome, RuleResult
from schedlib.verdict import Verdict

pytestmark = pytest.mark.tools

VALIDATOR = validator("layout-1")


def column(name: str, where: Layout, *expected: str) -> JudgedColumn:
    """A column of the project's rules."""
    return judge_column(toys.real_rules(), name, where, frozenset(expected))


def outcomes(*words: str) -> JudgedColumn:
    """A column with the outcomes of rules r0, r1, ..."""
    rows = tuple(RuleResult(f"r{number}", RuleOutcome(word), ()) for number, word in enumerate(words))
    return JudgedColumn("x", layout(), rows)


DROPPED = JudgedColumn("arm+up", None, absent="CONFIG_SMP=n was dropped")


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


def test_column() -> None:
    judged = column("toy", toy("OLD_RQ"))
    assert judged.presence == {
        "rq-order": "absent",
        "rd-lines": "present",
        "cpupri-lines": "present",
        "cpupri-split": "n/a",
        "rq-readers": "absent",
    }
    assert judged.outcome("rq-order.Q1") is RuleOutcome.NA
    assert judged.outcome("rd-lines.R1") is RuleOutcome.PASS
    assert column("toy", toy("OLD_RQ"), "rq-order").outcome("rq-order.Q1") is RuleOutcome.FAIL
    assert judged.outcome("unheard-of") is RuleOutcome.NA


def test_table() -> None:
    head, *rows = table(toys.real_rules(), [column("good", toy()), column("wide", toy("WIDE")), DROPPED])
    assert head.split() == ["line", *(rule.id.rpartition(".")[2] for rule in toys.real_rules().rules)]
    assert [row.split()[:4] for row in rows] == [["good", "64", "pass", "pass"], ["wide", "64", "FAIL", "FAIL"]]
    assert {len(row.split()) for row in rows} == {len(head.split()) + 1}
    assert len({row.index("64") for row in rows} | {head.index("line")}) == 1
    assert rows[0].count("FAIL") == 0


def told(rules: Rules, *columns: JudgedColumn) -> list[str]:
    return list(notes(rules, columns))


def test_notes_say_why_something_is_na() -> None:
    lines = told(toys.real_rules(), column("one", toy()), column("two", toy("-CONFIG_NUMA_BALANCING")), DROPPED)
    assert {line for line in lines if not line.endswith(": rq-readers.Q10, rq-readers.Q11")} == {
        "no column arm+up: CONFIG_SMP=n was dropped",
        "n/a, needs CONFIG_SMP=n: cpupri-lines.C5",
        "n/a, needs CONFIG_SCHED_CPUPRI_SPLIT: cpupri-split.L1, cpupri-split.L3",
        "n/a, needs CONFIG_SCHED_CPUPRI_SBM: cpupri-split.L4",
        "n/a, no struct cpupri_leaf in this configuration: cpupri-split.L2",
        "n/a, no rq.numa_migrate_on in this configuration: rq-order.Q6 (two)",
    }
    assert len(lines) == 7
    (line,) = (line for line in told(toys.real_rules(), column("old", toy("OLD_RD"))) if "rd-lines is not" in line)
    assert line.startswith("n/a, rd-lines is not in this tree (unmet: struct root_domain: ")
    assert line.endswith(": " + ", ".join(f"rd-lines.R{number}" for number in range(1, 10)))


def test_notes_say_what_is_assumed() -> None:
    assumed = replace(toy(), assumed="lines of 64 bytes are assumed")
    assert "note: theirs: lines of 64 bytes are assumed" in told(toys.real_rules(), column("theirs", assumed))
    assert not [line for line in told(toys.real_rules(), column("toy", toy())) if line.startswith("note")]


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
    assert told(rules, judged) == ([expected] if expected else [])


def test_failures() -> None:
    rules = toys.real_rules()
    assert list(failures(rules, [column("good", toy()), DROPPED])) == []
    (text,) = failures(rules, [column("one", toy("STRANGER")), column("two", toy("STRANGER"))])
    lines = text.split("\n")
    assert lines[0].startswith("FAIL rq-order.Q2, struct rq: no other member is on the lines of these: nr_running ")
    assert lines[0].endswith(", is broken (one, two)")
    assert f"    why: {rules.rule('rq-order.Q2').reason}" in lines
    assert f"    source: {rules.rule('rq-order.Q2').source}, observed" in lines
    assert "    there now: stranger" in lines
    assert ["40", "4", "stranger"] in [line.split() for line in lines]
    assert any(line.lstrip().startswith(">") and line.endswith(" idle") for line in lines)


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
    wide = (column("wide", toy("WIDE"), "x"), DROPPED)
    for columns in ((column("good", toy()),), wide, (column("k", unaligned),), ()):
        VALIDATOR.validate(made(*columns))


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
