# SPDX-License-Identifier: GPL-2.0
"""The test in the kernel, as a program for user space, fails where it has to, and judges as rule_judge.py does."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache as once
from pathlib import Path

import pytest
import toys
from kernel_judge import ONE_CHANGE, judged, program

from schedlib.contracts.c_tables import kind_in_c, rule_table
from schedlib.contracts.contract_rules import ABOUT_TYPE, COMPARED, Clause, Rule, Rules, rules_of
from schedlib.contracts.struct_source import read_source
from schedlib.formats.contract_file import ANY_LINE, LAST_LINE, ClauseKind
from schedlib.layout.rule_judge import Layout, judge_rule

pytestmark = pytest.mark.tools

CHANGES = ("rq-order", "rd-lines", "cpupri-lines", "cpupri-split")


def outside(rules: Rules, where: Layout, expected: tuple[str, ...] = ()) -> dict[str, str]:
    """Outcome of each rule, by rule_judge.py."""
    return {rule.id: judge_rule(rules, rule.id, where, frozenset(expected)).outcome.value for rule in rules.rules}


def outcomes(found: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Outcome of each rule, by the kernel's test. Here nothing may be left unjudged."""
    assert not [rule for rule, (_, text) in found.items() if "not judged" in text]
    return {rule: outcome for rule, (outcome, _) in found.items()}


@once
def of_our_rules(names: tuple[str, ...], line: int) -> Path:
    """The kernel's test with the rules of the project, for one toy kernel."""
    directory = toys.workshop() / f"judge-{line}-{'-'.join(names)}"
    directory.mkdir()
    return program(directory, toys.real_rules(), rule_table(toys.real_rules(), toys.toy_source()), *names, line=line)


@pytest.mark.parametrize("expected", [(), CHANGES, ("rd-lines",)], ids=["unexpected", "expected", "some"])
@pytest.mark.parametrize(
    ("names", "line"),
    [
        *(((), line) for line in (64, 32, 128, 256)),
        *(((name,), 64) for name in ("STRANGER", "NARROW", "NARROWER", "WIDE", "LOOPS_APART", "OLD_RQ", "OLD_RD")),
        *(((name,), 64) for name in ("TOGETHER", "-CONFIG_SMP", "-CONFIG_NUMA_BALANCING", "-HAVE_RT_PUSH_IPI")),
        *(((f"CONFIG_{name}",), 64) for name in ("SCHED_PROXY_EXEC", "DEBUG_SPINLOCK", "SCHED_CPUPRI_SPLIT")),
        (("WIDE",), 128),
        (("OLD_RD",), 256),
        (("OLD_RQ", "OLD_RD", "TOGETHER"), 64),
        (("-CONFIG_SMP", "OLD_RQ"), 32),
    ],
    ids=lambda value: "+".join(value) or "usual" if isinstance(value, tuple) else None,
)
def test_both_readers_agree(names: tuple[str, ...], line: int, expected: tuple[str, ...]) -> None:
    judge = of_our_rules(names, line)
    where = toys.read_types(judge.with_name("types.o"), toys.real_rules())
    assert outcomes(judged(judge, expected)) == outside(toys.real_rules(), where, expected)


def test_the_kernels_test_can_fail() -> None:
    assert set(outcomes(judged(of_our_rules((), 64))).values()) == {"pass", "n/a"}
    outcome, text = judged(of_our_rules(("STRANGER",), 64))["rq-order.Q2"]
    assert (outcome, "stranger" in text) == ("fail", True)
    assert judged(of_our_rules(("OLD_RQ",), 64))["rq-order.Q1"] == ("n/a", "rq-order is not in this tree")
    outcome, text = judged(of_our_rules(("OLD_RQ",), 64), ("rq-order",))["rq-order.Q1"]
    assert (outcome, "rq-order is expected, and not in this tree" in text) == ("fail", True)


@pytest.mark.parametrize("name", ["-CONFIG_DEBUG_INFO_BTF", "NO_BTF"])
def test_without_btf_no_rule_is_said_to_hold(name: str) -> None:
    """A rule whose conditions the kernel does not meet is n/a all the same."""
    judge = of_our_rules((name,), 64)
    where = outside(toys.real_rules(), toys.read_types(judge.with_name("types.o"), toys.real_rules()), CHANGES)
    for rule, (outcome, text) in judged(judge, CHANGES).items():
        assert outcome == "n/a"
        assert (text == "not judged: needs CONFIG_DEBUG_INFO_BTF") or where[rule] == "n/a", (rule, text)
    assert judged(judge)["rd-lines.R1"] == ("n/a", "not judged: only BTF tells whether rd-lines is in this tree")


def with_text(tmp_path: Path, old: str, new: str) -> dict[str, tuple[str, str]]:
    """What the kernel's test says when somebody edits sched.h and leaves the table as it was."""
    assert toys.SCHED_H.count(old) == 1
    text = toys.SCHED_H.replace(old, new)
    table = rule_table(toys.real_rules(), toys.toy_source())
    return judged(program(tmp_path, toys.real_rules(), table, sched_h=text))


def test_a_named_member_that_is_gone_fails_by_name(tmp_path: Path) -> None:
    found = with_text(tmp_path, "last_seen_need_resched_ns;", "last_seen_ns;")
    wrong = {rule: text for rule, (outcome, text) in found.items() if outcome == "fail"}
    assert wrong
    assert all("it has no member last_seen_need_resched_ns: renamed, or removed?" in text for text in wrong.values())


def test_a_renamed_member_that_no_rule_names_changes_nothing(tmp_path: Path) -> None:
    named = {name for clause in toys.real_rules().clauses for name in clause.named}
    assert "prev_mm" not in named
    assert with_text(tmp_path, "*prev_mm;", "*last_mm;") == judged(of_our_rules((), 64))


@pytest.mark.parametrize(
    ("old", "new", "rule", "member"),
    [
        ("cpumask_var_t rto_mask;\n\tint overloaded", "cpumask_var_t rto_mask;\n\tint added;\n\tint overloaded", 2, ""),
        ("void *pd ____cacheline_aligned;", "void *pd ____cacheline_aligned; struct { union { int added; }; };", 2, ""),
        ("void *pd ____cacheline_aligned;", "void *pd ____cacheline_aligned; u32 added : 3;", 2, ""),
        (", overutilized;\n#endif\n};", ", overutilized;\n\tu8 added;\n#endif\n};", 3, "overloaded"),
    ],
    ids=["last", "unnamed", "bit field", "flag"],
)
def test_whatever_joins_a_closed_line_is_named(tmp_path: Path, old: str, new: str, rule: int, member: str) -> None:
    """The counter behind pd was reported as ok where the compiler cannot tell where the padding is."""
    outcome, text = with_text(tmp_path, old, new)[f"rd-lines.R{rule}"]
    assert (outcome, " and added (" in text, member in text) == ("fail", True, True), text


SPELLINGS = """\
struct = "root_domain"

[[rule]]
id = "rd-lines.R1"
why = "one member, in two spellings"

[[rule]]
id = "rd-lines.R2"
why = "two members, of which no kernel has the second"

[[promise]]
id = "rd-lines.R1"
keep = "on one line"
of = ["visit_gen|visit_cookie"]

[[promise]]
id = "rd-lines.R2"
keep = "on one line"
of = ["visit_gen|visit_cookie", "gone|lost"]
"""


def of_one_change(rules: Rules, directory: Path, text: str = toys.SCHED_H) -> tuple[dict[str, str], dict[str, str]]:
    """Outcomes of some rules inside and outside. The rules are taken for those of rq-order, whose they need not be."""
    taken = tuple(Rule(rule.id, "rq-order", rule.reason, rule.source) for rule in rules.rules)
    rules = Rules(taken, rules.clauses, groups=rules.groups)
    table = rule_table(rules, read_source({"kernel/sched/sched.h": text}.get))
    judge = program(directory, rules, table, *ONE_CHANGE, sched_h=text)
    return outcomes(judged(judge)), outside(rules, toys.read_types(judge.with_name("types.o"), rules))


def test_both_readers_count_spellings_of_one_member_once(tmp_path: Path) -> None:
    path = tmp_path / "root_domain.toml"
    path.write_text(SPELLINGS)
    inside, host = of_one_change(rules_of((path,)), tmp_path)
    assert inside == host == {"rd-lines.R1": "pass", "rd-lines.R2": "n/a"}


LINE = "____cacheline_aligned"
KINDS: Sequence[tuple[ClauseKind, int, str, str, str, str]] = (
    (ClauseKind.ALIGNED, 0, "a b", "", f"int a {LINE}; int b {LINE};", f"int a {LINE}; int b;"),
    (ClauseKind.ON_LINE, 1, "a b", "", "char p[64]; int a, b;", "char p[60]; int a, b;"),
    (ClauseKind.ON_LINE, ANY_LINE, "a b", "", "char p[64]; int a, b;", "char p[60]; int a, b;"),
    (ClauseKind.ON_LINE, LAST_LINE, "a", "", "char p[64]; int a;", "int a; char p[64];"),
    (ClauseKind.ON_LINE, 0, "a", "", "char p[60]; char a[4];", "char p[61]; char a[4];"),
    (ClauseKind.STARTS_ON, 0, "a b", "", "int a; char b[100];", "char b[100]; int a;"),
    (ClauseKind.STARTS_ON, ANY_LINE, "a b", "", "int a; char b[100];", "char b[100]; int a;"),
    (ClauseKind.APART, 0, "a", "b", f"int a; int b {LINE};", "int a, b;"),
    (ClauseKind.APART, 0, "a", "b", "char p[4], a[60]; int b;", "char a[61]; u8 b;"),
    (ClauseKind.ALONE, 0, "a", "b", f"int a {LINE}, b; int c {LINE};", f"int a {LINE}, b, c;"),
    (ClauseKind.ALONE, 0, "a", "", f"int a {LINE}; int c {LINE};", f"int a {LINE}; struct {{ union {{ u8 c; }}; }};"),
    (ClauseKind.ALONE, 0, "a", "", f"int a {LINE}; int d {LINE}; u32 c : 3;", f"int a {LINE}; u32 c : 3;"),
    (ClauseKind.UNBROKEN, 0, "a b", "", "int a, b, c;", "int a, c, b;"),
    (ClauseKind.FOLLOWS, 0, "a", "b", "int b, a;", "int a, b;"),
    (ClauseKind.SAME_OFFSET, 0, "a b", "", "union { int a, b; };", "int a, b;"),
    (ClauseKind.OWN_OFFSET, 0, "a", "b", "int a, b;", "union { int a, b; };"),
    (ClauseKind.HEADROOM, 12, "a", "", "char p[48]; int a;", "char p[49]; char a[4];"),
    (ClauseKind.TYPE_ALIGNED, 0, "", "", f"int a {LINE};", "char a[64];"),
    (ClauseKind.TYPE_PADDED, 0, "", "", "char a[64];", "char a[65];"),
    (ClauseKind.TYPE_SMALL, 0, "", "", "char a[63];", "char a[64];"),
    (ClauseKind.TYPE_MOST, 8, "a", "", "char b[8], a[10];", "char b[9], a[10];"),
    (ClauseKind.TYPE_MOST, 59, "a", "", f"int a {LINE};", f"int a {LINE}, b;"),
    (ClauseKind.TYPE_GAPS, 4, "", "", "int a; u64 b;", "int a; u64 b; int c;"),
    (ClauseKind.TYPE_MOST, 0, "a b", "", f"union {{ int a; u64 b; }} {LINE};", "int c; union { int a; u64 b; };"),
)
"""Kind, argument, members, others, a structure of which the clause is true, and one of which it is not."""


def test_each_kind_of_clause_holds_and_fails_where_it_should(tmp_path: Path) -> None:
    assert {row[0] for row in KINDS} == set(ClauseKind)
    rules, clauses, text, wanted = [], [], toys.SCHED_H, {}
    for number, (kind, arg, members, others, good, bad) in enumerate(KINDS):
        for body, outcome in ((good, "pass"), (bad, "fail")):
            name = f"{kind_in_c(kind)}.{number}{outcome}"
            text += f"\nstruct toy_{number}_{outcome} {{\n\t{body}\n}};\n"
            rules.append(Rule(name, "rq-order", "it hurts", "here"))
            clauses.append(toys.clause(kind, members, arg, rule=name, tag=f"toy_{number}_{outcome}", others=others))
            wanted[name] = outcome
    inside, host = of_one_change(Rules(tuple(rules), tuple(clauses)), tmp_path, text)
    assert inside == wanted
    assert host == wanted


def random_members(chance: random.Random) -> Iterator[str]:
    """The declarations of a structure. The last three are named by no clause."""
    names = [*"abcdef", "x", "y", "z"]
    chance.shuffle(names)
    sizes, aligned = chance.choice([((1, 2, 4), 0.0), ((1, 4, 8, 12, 30, 60, 64, 100), 0.2)])
    while names:
        name = names.pop()
        attribute = f" {LINE}" if chance.random() < aligned else ""
        size = chance.choice(sizes)
        declared = chance.choice([f"u8 {name}[{size}]", f"u32 {name}[{size // 4 + 1}]", f"void *{name}"]) + attribute
        if names and chance.random() < 0.15:
            declared = f"union {{ {declared}; u64 {names.pop()}; }}"
        elif names and chance.random() < 0.1:
            declared = f"struct {{ {declared}; u16 {names.pop()}; }}"
        elif names and name in "xyz" and chance.random() < 0.3:
            declared = f"u32 {name} : {chance.randint(1, 32)}"
        yield f"\t{declared};\n"


def random_clause(chance: random.Random, tag: str, rule: str) -> Clause:
    """A clause about members that may be anywhere."""
    kind = chance.choice(list(ClauseKind))
    named = chance.sample("abcdef", chance.randint(2, 5))
    arg = {
        ClauseKind.ON_LINE: chance.choice([0, 1, ANY_LINE, LAST_LINE]),
        ClauseKind.STARTS_ON: chance.choice([0, 1, ANY_LINE, LAST_LINE]),
        ClauseKind.HEADROOM: chance.choice([0, 4, 16, 40]),
        ClauseKind.TYPE_MOST: chance.choice([64, 128, 200, 300]),
        ClauseKind.TYPE_GAPS: chance.choice([0, 8, 60, 100]),
    }.get(kind, 0)
    members, others = (named[:1], named[1:]) if chance.random() < 0.5 else (named, [])
    if kind in COMPARED:
        members, others = named[:1], named[1:]
    elif kind is not ClauseKind.ALONE:
        others = []
    if kind in ABOUT_TYPE and kind is not ClauseKind.TYPE_MOST:
        members = []
    return toys.clause(kind, " ".join(members), arg, rule=rule, tag=tag, others=" ".join(others))


def test_both_readers_agree_on_structures_that_nobody_chose(tmp_path: Path) -> None:
    chance = random.Random("the same each time")  # noqa: S311  nothing is kept secret
    rules, clauses, text = [], [], toys.SCHED_H
    for number in range(60):
        tag = f"toy_{number}"
        text += f"\nstruct {tag} {{\n{''.join(random_members(chance))}}};\n"
        for each in range(20):
            name = f"{tag}.{each}"
            made = random_clause(chance, tag, name)
            # Outside, a bit field has all bytes of its type.
            if made.kind is ClauseKind.TYPE_GAPS and " : " in text.rpartition("struct toy_")[2]:
                continue
            rules.append(Rule(name, "rq-order", "it hurts", "here"))
            clauses.append(made)
    inside, host = of_one_change(Rules(tuple(rules), tuple(clauses)), tmp_path, text)
    assert [(inside[clause.rule], clause) for clause in clauses if inside[clause.rule] != host[clause.rule]] == []
    found = {(clause.kind, inside[clause.rule]) for clause in clauses}
    assert found == {(kind, outcome) for kind in ClauseKind for outcome in ("pass", "fail")}
