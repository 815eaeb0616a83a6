# SPDX-License-Identifier: GPL-2.0
"""The C tables say what the rules say, for the members that a tree has; and conditions what a kernel meets."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import pytest
import toys

from schedlib.contracts.c_tables import in_table, kind_in_c, require_members, rule_table
from schedlib.contracts.contract_rules import (
    CONTRACTS,
    WORDS,
    Facts,
    Rules,
    in_c,
    in_words,
    is_met,
    our_rules,
    rules_of,
)
from schedlib.contracts.struct_source import read_source
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import ANY_LINE, LAST_LINE, ClauseKind
from schedlib.paths import KUNIT

RULES = rule_table(our_rules(), toys.toy_source())
ENGINE = (KUNIT / "sched_layout_kunit.c").read_text()
LINES = {"ANY_LINE": ANY_LINE, "LAST_LINE": LAST_LINE}


def texts(c: str) -> str:
    """What a literal, or several in a row, say; macros are replaced by their text."""
    macros = dict(re.findall(r'^#define (\w+) (".*")$', RULES, re.M))
    for name, text in macros.items():
        c = re.sub(rf"\b{name}\b", lambda _, text=text: text, c)  # type: ignore[misc]
    return "".join(re.findall(r'"((?:\\.|[^"\\])*)"', c)).replace('\\"', '"')


def inside(text: str, start: int) -> str:
    """What is between the bracket at `start` and its end, outside of strings."""
    depth = 0
    for match in re.finditer(r'"(?:\\.|[^"\\])*"|[()]', text[start:]):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return text[start + 1 : start + match.start()]
    raise AssertionError(text[start : start + 80])


def calls(text: str, macro: str) -> list[str]:
    """The arguments of each call of a macro."""
    return [" ".join(inside(text, match.end() - 1).split()) for match in re.finditer(rf"\b{macro}\(", text)]


def test_rules_are_those_of_the_contracts() -> None:
    found = [re.match(r'"([^"]+)", ("(?:\\.|[^"\\])*")', row) for row in calls(RULES, "RULE")]
    assert [(row[1], texts(row[2])) for row in found if row] == [(rule.id, rule.reason) for rule in our_rules().rules]
    for change in our_rules().changes():
        table = RULES.split(f"static const struct layout_rule {change.replace('-', '_')}_rules[] = {{")[1]
        assert len(calls(table.split("\n};")[0], "RULE")) == sum(rule.change == change for rule in our_rules().rules)
    assert '/* rq-order: 89951fc1f820 ("sched: Reorder some fields in struct rq") */' in RULES


def test_clauses_are_those_of_the_contracts() -> None:
    """Each that a tree has in some configuration: its kind, structure, members, argument and conditions."""
    source = toys.toy_source()
    rows = iter(calls(RULES, "KEEP"))
    left_out = 0
    # Rules come first, then the signs of changes.
    ordered = [clause for rule in our_rules().rules for clause in our_rules().of(rule.id)]
    ordered += [clause for change in our_rules().changes() for clause in our_rules().of(change)]
    assert len(ordered) == len(our_rules().clauses)
    for clause in ordered:
        members, others = (
            [name for name in names if source.find(clause.type, name)] for names in (clause.members, clause.others)
        )
        if clause.members and (len(members) < max(clause.least, 1) or (clause.others and not others)):
            left_out += 1
            continue
        row = next(rows)
        assert row.startswith(f"{kind_in_c(clause.kind)}, {clause.type}"), row
        of, other = (calls(row, name) for name in ("OF", "OTHERS"))
        assert texts(of[0] if of else "").split() == members
        assert texts(other[0] if other else "").split() == others
        arg = (calls(row, "LINE_NR") + calls(row, "BYTES") or ["0"])[0]
        assert LINES.get(arg, None if arg in LINES else int(arg) if arg.isdigit() else None) == clause.arg
        assert [texts(name) for name in calls(row, "HAS")] == list(clause.requires)
        assert calls(row, "WHEN") == ([" && ".join(map(in_table, sorted(clause.needs)))] if clause.needs else [])
    assert next(rows, None) is None
    assert 0 < left_out < 20


@pytest.mark.parametrize("condition", our_rules().conditions())
def test_the_macros_of_the_table_stand_for_the_conditions(condition: str) -> None:
    text = in_table(condition)
    for name, value in re.findall(r"^#define (LINE|MASK|PLAIN_LOCKS)\t+(.+)$", ENGINE, re.M):
        text = re.sub(rf"\b{name}\b", value, text)
    usual = text.replace("!(sizeof(raw_spinlock_t) ==", "(sizeof(raw_spinlock_t) >")
    assert usual.removeprefix("(").removesuffix(")" if usual.startswith("(") else "") == in_c(condition)


def test_no_string_is_split() -> None:
    """checkpatch warns of it, and grep does not find it."""
    assert not re.search(r'"\s*\n\s*"', RULES)
    macros = re.findall(r"^#define (\w+) ", RULES, re.M)
    assert len(set(macros)) == len(macros)
    assert all(len(re.findall(rf"\b{name}\b", RULES)) > 1 for name in macros)


def test_the_kernels_test_has_the_same_kinds() -> None:
    match = re.search(r"^enum layout_kind \{(.*?)^\};", ENGINE, re.M | re.S)
    assert match
    assert re.findall(r"^\t(\w+)(?: = 1)?,", match[1], re.M) == [kind_in_c(kind) for kind in ClauseKind]
    assert set(WORDS) == set(ClauseKind)
    assert all(re.search(rf"#define {name}\t\({value}\)", ENGINE) for name, value in LINES.items())


def test_a_structure_that_the_tree_does_not_have_is_left_out() -> None:
    made = rule_table(our_rules(), read_source(lambda _: None))
    assert "sizeof(" not in made and "OF(" not in made


def absent() -> dict[str, str]:
    """The members in absent_members[], each with the #if around it."""
    table = RULES.split("absent_members[] = {\n")[1].split("\tNULL")[0]
    found, condition = {}, ""
    for row in table.splitlines():
        if name := re.fullmatch(r'\t"(.+)",', row):
            found[name[1]] = condition
        else:
            condition = "" if row == "#endif" else row
    return found


def test_a_member_that_only_some_configurations_have_may_be_absent_in_the_others_alone() -> None:
    found = absent()
    assert found["rq.nr_numa_running"] == "#ifndef CONFIG_NUMA_BALANCING"
    assert found["root_domain.rto_loop"] == "#ifndef HAVE_RT_PUSH_IPI"
    assert {"rq.nr_running", "root_domain.pd"}.isdisjoint(found)
    assert all(condition for name, condition in found.items() if toys.toy_source().find(*name.split(".")))


PROMISE = """\
struct = "root_domain"

[[rule]]
id = "rd-lines.R1"
why = "it hurts"

[[promise]]
id = "rd-lines.R1"
keep = "apart"
of = ["{}"]
others = ["{}"]
"""


def test_a_member_inside_of_another_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root_domain.toml").write_text(PROMISE.format("cpupri.cpu_to_pri", "online"))
    with pytest.raises(SchedlineError, match=r"rd-lines\.R1 is about a member inside of another") as error:
        rule_table(rules_of((tmp_path / "root_domain.toml",)), toys.toy_source())
    assert "own structure" in error.value.next_step


def of_the_toy() -> Rules:
    """The rules of the structures that the toy kernel has."""
    return rules_of(tuple(path for path in sorted(CONTRACTS.glob("*.toml")) if path.stem in toys.toy_source().structs))


@pytest.mark.parametrize(
    ("old", "new", "member", "message"),
    [
        ("void *rd, *sd", "void *rdd, *sd", "rq.rd", "this tree has no rq.rd in any"),
        ("_need_resched_ns", "_ns", "rq.last_seen_need_resched_ns", "no rq.last_seen_need_resched_ns in any"),
        (
            "u32 ttwu_pending;",
            "u32 ttwu_pending : 1;",
            "rq.ttwu_pending",
            "rq.ttwu_pending is a bit field in this tree",
        ),
        ("raw_spinlock_t __lock;", "raw_spinlock_t ___lock;", "rq.__lock", "this tree has no rq.__lock in any"),
        ("refcount, rto_count", "references, rto_count", "root_domain.refcount", "no root_domain.refcount in any"),
        (" rto_cpu", " rto_processor", "root_domain.rto_cpu", "rto_cpu in any configuration; the rules of rd-lines"),
        # One of two spellings is enough.
        (
            " visit_cookie",
            " visited",
            "root_domain.visit_cookie",
            "no root_domain.visit_cookie and no visit_gen in any",
        ),
    ],
)
def test_no_member_of_a_contract_may_get_lost(old: str, new: str, member: str, message: str) -> None:
    tag, _, name = member.partition(".")
    assert toys.toy_source().find(*member.split(".")) and toys.toy_source().find("root_domain", "visit_gen") is None
    source = read_source({"kernel/sched/sched.h": toys.SCHED_H.replace(old, new)}.get)
    with pytest.raises(SchedlineError, match=message) as error:
        require_members(of_the_toy(), source, {"rq-order", "rd-lines"})
    place = re.search(r"configs/contracts/sched/(\w+\.toml):(\d+)", error.value.next_step)
    assert place and name in (CONTRACTS / place[1]).read_text().splitlines()[int(place[2]) - 1]
    require_members(of_the_toy(), source, {"rq-order"} if tag == "root_domain" else set())


def test_all_that_is_lost_is_told() -> None:
    """The first alone was, and not that the other rules can be judged."""
    text = toys.SCHED_H.replace(" rto_cpu", " rto_processor").replace(" refcount", " references")
    with pytest.raises(SchedlineError, match="`schedline layout` judges the other rules") as error:
        require_members(of_the_toy(), read_source({"kernel/sched/sched.h": text}.get), {"rd-lines"})
    assert all(f"no root_domain.{name} in any" in error.value.observed for name in ("rto_cpu", "refcount"))


@pytest.mark.parametrize(
    ("other", "required", "message"),
    [
        ("visit_gen|visit_cookie", "online", ""),
        ("visit_gen|visited", "online", r"no root_domain.visit_gen and no visited in any configuration"),
        ("visit_cookie", "offline", r"no root_domain.offline in any configuration"),
    ],
)
def test_one_of_two_spellings_is_enough_for_what_no_group_has(
    other: str, required: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "root_domain.toml"
    path.write_text(PROMISE.format("span", other) + f'when = ["has {required}"]\n')
    with pytest.raises(SchedlineError, match=message) if message else nullcontext():
        require_members(rules_of((path,)), toys.toy_source(), {"rd-lines"})


def test_only_our_own_builds_get_the_signs_of_changes() -> None:
    listed = RULES.split("layout_changes[] = {\n")[1]
    assert re.findall(r'^\t\{ "(.+)", CLAUSES', listed, re.M) == list(our_rules().changes())
    assert "layout_changes" not in rule_table(our_rules().only({"rd-lines"}), toys.toy_source())


KNOWN = Facts(64, 8, 8, 4, {"CONFIG_SMP": True, "CONFIG_X": False, "CONFIG_Y": None})
LOCKS = "spinlocks with"
UNKNOWN = Facts(128, None, None, None, {})


@pytest.mark.parametrize(
    ("condition", "words", "expression", "met", "elsewhere"),
    [
        ("line == 64", "lines of 64 bytes", "SMP_CACHE_BYTES == 64", True, False),
        ("line >= 64", "lines of at least 64 bytes", "SMP_CACHE_BYTES >= 64", True, True),
        ("line <= 64", "lines of at most 64 bytes", "SMP_CACHE_BYTES <= 64", True, False),
        ("mask == 8", "a cpumask_var_t of 8 bytes", "sizeof(cpumask_var_t) == 8", True, None),
        ("mask == 64", "a cpumask_var_t of 64 bytes", "sizeof(cpumask_var_t) == 64", False, None),
        ("locks plain", f"{LOCKS}out debugging", "sizeof(raw_spinlock_t) == sizeof(arch_spinlock_t)", True, None),
        ("locks debugged", f"{LOCKS} debugging", "sizeof(raw_spinlock_t) > sizeof(arch_spinlock_t)", False, None),
        ("64bit", "CONFIG_64BIT", "IS_ENABLED(CONFIG_64BIT)", True, None),
        ("CONFIG_SMP", "CONFIG_SMP", "IS_ENABLED(CONFIG_SMP)", True, None),
        ("!CONFIG_SMP", "CONFIG_SMP=n", "!IS_ENABLED(CONFIG_SMP)", False, None),
        ("!CONFIG_X", "CONFIG_X=n", "!IS_ENABLED(CONFIG_X)", True, None),
        ("CONFIG_Y", "CONFIG_Y", "IS_ENABLED(CONFIG_Y)", None, None),
    ],
)
def test_condition(condition: str, words: str, expression: str, met: bool | None, elsewhere: bool | None) -> None:
    assert in_words(condition) == words
    assert in_c(condition) == expression
    assert is_met(condition, KNOWN) is met
    assert is_met(condition, UNKNOWN) is elsewhere
