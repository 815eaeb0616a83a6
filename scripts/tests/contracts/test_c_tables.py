# SPDX-License-Identifier: GPL-2.0
"""The C tables say what the rules say, for the members that a tree has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import toys

from schedlib.contracts.c_tables import CLOSED, FIELDS, HEADER, RULES, require_members, tables
from schedlib.contracts.contract_rules import CONTRACTS, UNLISTED, WORDS, our_rules, rules_of
from schedlib.contracts.struct_source import read_source
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import ANY_LINE, LAST_LINE, ClauseKind
from schedlib.paths import KUNIT

MADE = tables(our_rules(), toys.toy_source())
LINES = {"LAYOUT_ANY_LINE": ANY_LINE, "LAYOUT_LAST_LINE": LAST_LINE}


def records(text: str, start: str) -> list[dict[str, str]]:
    """The records of one table, by the names of their initialisers."""
    begin = text.index(start)
    body = text[begin : text.index("\n};", begin)]
    return [
        {name: " ".join(value.split()) for name, value in re.findall(r"\.(\w+)\t=\s+((?:.*\|\n)*.*),$", record, re.M)}
        for record in re.findall(r"\{\n(\t+\.(?:id|rule)\t.*?)\n\t+\},", body, re.S)
    ]


def test_rules_are_those_of_the_contracts() -> None:
    rows = records(MADE[RULES], "sched_layout_rules = {")
    assert [(row["id"], row["change"]) for row in rows] == [(f'"{r.id}"', f'"{r.change}"') for r in our_rules().rules]
    assert [row["reason"] for row in rows] == [f'"{rule.reason}"' for rule in our_rules().rules]
    assert rows[0]["source"] == '"89951fc1f820 (\\"sched: Reorder some fields in struct rq\\")"'


def test_clauses_are_those_of_the_contracts() -> None:
    rows = records(MADE[RULES], "sched_layout_clauses[] = {")
    assert len(rows) == len(our_rules().clauses)
    for row, clause in zip(rows, our_rules().clauses, strict=True):
        assert row["rule"] == f'"{clause.rule}"'
        assert row["kind"] == f"LAYOUT_{clause.kind.name}"
        assert len(re.findall(r"BIT\(", row.get("needs", ""))) == len(clause.needs)
        assert ("forced" in row) is clause.forced
        assert int(row.get("least", 0)) == clause.least
        arg = row.get("arg", "0")
        assert LINES.get(arg, arg if arg in LINES else int(arg) if arg.isdigit() else None) == (
            clause.arg if "arg" in row else 0
        )
        assert row.get("requires", '""').strip('"').split() == list(clause.requires)
        for name in ("members", "others"):
            wanted = [each for each in getattr(clause, name) if toys.toy_source().find(clause.type, each)]
            assert row.get(name, '""').strip('"').split() == wanted


def test_the_kernels_enum_has_the_same_kinds_in_words() -> None:
    header = (KUNIT / "layout_rules.h").read_text()
    match = re.search(r"^enum sched_layout_kind \{(.*?)^\};", header, re.M | re.S)
    assert match
    known = re.findall(r"^\tLAYOUT_(?!NR_)(\w+),", match[1], re.M)
    assert known == [kind.name for kind in ClauseKind]
    assert set(WORDS) == set(ClauseKind)


def test_lines_are_those_of_the_header() -> None:
    header = (KUNIT / "layout_rules.h").read_text()
    assert re.search(rf"LAYOUT_ANY_LINE\t\t\({ANY_LINE}\)", header)
    assert re.search(rf"LAYOUT_LAST_LINE\t\({LAST_LINE}\)", header)


def test_every_member_of_a_clause_that_the_tree_has_is_listed() -> None:
    listed = set(re.findall(r"MEMBER\((\w+), (\w+)\)", MADE[FIELDS]))
    listed |= set(re.findall(r'^\t\t"(\w+)", "(\S+)",$', MADE[FIELDS], re.M))
    for clause in our_rules().clauses:
        for name in clause.named:
            assert ((clause.type, name) in listed) is bool(toys.toy_source().find(clause.type, name))


def test_a_name_may_be_of_any_length() -> None:
    name = "a_member_with_a_name_that_is_longer_than_any_that_the_kernel_has_had_so_far"
    text = toys.SCHED_H.replace("u32 nr_running;", f"u32 nr_running;\n\tu32 {name};")
    made = tables(our_rules(), read_source({"kernel/sched/sched.h": text}.get))
    room = re.search(r"LAYOUT_MEMBER_LEN\t(\d+)", made[HEADER])
    assert room and len(name) < int(room[1]) <= len(name) + 4


def test_a_structure_that_the_tree_does_not_have_is_left_out() -> None:
    made = tables(our_rules(), read_source(lambda _: None))
    assert "MEMBER(rq" not in made[FIELDS]
    assert 'type\t= "rq"' in made[RULES]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("void *rd, *sd", "void *rdd, *sd", "this tree has no rq.rd in any"),
        ("last_seen_need_resched_ns", "last_seen_ns", "this tree has no rq.last_seen_need_resched_ns in any"),
        ("u32 ttwu_pending;", "u32 ttwu_pending : 1;", "rq.ttwu_pending is a bit field in this tree"),
        ("raw_spinlock_t __lock;", "raw_spinlock_t ___lock;", "this tree has no rq.__lock in any"),
        ("refcount, rto_count", "references, rto_count", "this tree has no root_domain.refcount in any"),
    ],
)
def test_no_member_of_a_contract_may_get_lost(old: str, new: str, message: str) -> None:
    assert old in toys.SCHED_H
    source = read_source({"kernel/sched/sched.h": toys.SCHED_H.replace(old, new)}.get)
    with pytest.raises(SchedlineError, match=message) as error:
        require_members(our_rules(), source, {"rq-order", "rd-lines"})
    place = re.search(r"configs/contracts/sched/(\w+\.toml):(\d+),", error.value.next_step)
    assert place
    member = message.partition(" in ")[0].partition(" is ")[0].rpartition(".")[2]
    assert f'"{member}"' in (CONTRACTS / place[1]).read_text().splitlines()[int(place[2]) - 1]
    require_members(our_rules(), source, set())


def renamed(old: str, new: str) -> None:
    """Ask for the members of a toy kernel in which one has another name."""
    text = toys.SCHED_H.replace(f" {old}", f" {new}")
    assert text != toys.SCHED_H
    require_members(our_rules(), read_source({"kernel/sched/sched.h": text}.get), {"rd-lines", "rq-order"})


def test_a_member_that_no_configuration_has_is_an_error() -> None:
    with pytest.raises(SchedlineError, match=r"no root_domain.rto_cpu in any configuration; the rules of rd-lines"):
        renamed("rto_cpu", "rto_processor")
    source = read_source({"kernel/sched/sched.h": toys.SCHED_H.replace(" rto_cpu", " gone")}.get)
    require_members(our_rules(), source, {"rq-order"})


def test_one_of_two_spellings_is_enough() -> None:
    assert toys.toy_source().find("root_domain", "visit_gen") is None
    with pytest.raises(SchedlineError, match=r"no root_domain.visit_cookie and no visit_gen in any configuration"):
        renamed("visit_cookie", "visited")


PROMISE = """\
struct = "root_domain"

[[rule]]
id = "rd-lines.R1"
why = "it hurts"

[[promise]]
id = "rd-lines.R1"
keep = "apart"
of = ["span"]
others = ["{}"]
when = ["has {}"]
"""


def test_one_of_two_spellings_is_enough_for_what_no_group_has(tmp_path: Path) -> None:
    path = tmp_path / "root_domain.toml"
    path.write_text(PROMISE.format("visit_gen|visit_cookie", "online"))
    require_members(rules_of((path,)), toys.toy_source(), {"rd-lines"})
    path.write_text(PROMISE.format("visit_gen|visited", "online"))
    with pytest.raises(SchedlineError, match=r"no root_domain.visit_gen and no visited in any configuration"):
        require_members(rules_of((path,)), toys.toy_source(), {"rd-lines"})
    path.write_text(PROMISE.format("visit_cookie", "offline"))
    with pytest.raises(SchedlineError, match=r"no root_domain.offline in any configuration"):
        require_members(rules_of((path,)), toys.toy_source(), {"rd-lines"})


def test_the_kernels_reader_gets_each_structure_of_which_it_needs_all_members() -> None:
    rows = re.findall(r"^(?:#ifdef (\w+)\n)?CLOSED\((\w+)\)$", MADE[CLOSED], re.M)
    assert {tag for _, tag in rows} == {clause.type for clause in our_rules().clauses if clause.kind in UNLISTED}
    assert {("", "rq"), ("CONFIG_SMP", "root_domain"), ("CONFIG_SCHED_CPUPRI_SPLIT", "cpupri_leaf")} <= set(rows)


def test_only_our_own_builds_get_the_list_of_changes() -> None:
    listed = re.search(r"sched_layout_changes\[\] = \{\n(.*?)\tNULL\n\};", MADE[RULES], re.S)
    assert listed and re.findall(r'"(.+)"', listed[1]) == list(our_rules().changes())
    assert "sched_layout_changes" not in tables(our_rules().only({"rd-lines"}), toys.toy_source())[RULES]
