# SPDX-License-Identifier: GPL-2.0
"""The tables match the C source, for an object of any architecture. A damaged object is reported, never trusted."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import toys
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlib.errors import SchedlineError
from schedlib.layout.compile import host_rules
from schedlib.layout.emit import read_guards
from schedlib.layout.tables import (
    ANY_LINE,
    LAST_LINE,
    VERSION,
    ClauseKind,
    Compiled,
    Condition,
    read_fields,
    read_object,
    read_rules,
)
from schedlib.paths import KUNIT

pytestmark = pytest.mark.tools

HEADER = (KUNIT / "layout_rules.h").read_text()
SOURCE = (KUNIT / "layout_rules.c").read_text()
LINES = {"LAYOUT_ANY_LINE": ANY_LINE, "LAYOUT_LAST_LINE": LAST_LINE}
PLAIN = re.sub(r"/\*.*?\*/", "", SOURCE, flags=re.S)


def enum(name: str) -> list[str]:
    """The names in a C enum, without the prefix and the count at the end."""
    match = re.search(rf"^enum {name} \{{(.*?)^\}};", HEADER, re.M | re.S)
    assert match
    return re.findall(r"^\tLAYOUT_(?!NR_)(\w+),", match.group(1), re.M)


def section(text: str, start: str) -> str:
    """The text of one initialiser."""
    begin = text.index(start)
    return text[begin : text.index("\n};", begin)]


def test_kinds_are_those_of_the_header() -> None:
    assert [kind.name for kind in sorted(ClauseKind)] == enum("sched_layout_kind")
    assert sorted(ClauseKind) == list(range(len(ClauseKind)))


def test_conditions_are_those_of_the_header() -> None:
    ours = ["64BIT" if condition is Condition.BITS_64 else condition.name for condition in sorted(Condition)]
    assert ours == enum("sched_layout_condition")
    assert sorted(Condition) == list(range(len(Condition)))


def test_version_and_lines_are_those_of_the_header() -> None:
    assert f"SCHED_LAYOUT_VERSION\t{VERSION}\n" in HEADER
    assert (ANY_LINE, LAST_LINE) == (2**31 - 1, -1)


def test_rules_are_those_of_the_text() -> None:
    rows = re.findall(r'\{ "([\w.-]+)", "([\w-]+)",\s+"([^"]+)",\s+(\w+) \}', section(PLAIN, "sched_layout_rules = {"))
    sources = dict(re.findall(r'^#define ([A-Z_]+_(?:ORDER|LINES|SPLIT))\t+"(.*)"$', SOURCE, re.M))
    expected = [(name, change, reason, sources[word].replace('\\"', '"')) for name, change, reason, word in rows]
    assert len(expected) > 20
    assert [(rule.id, rule.change, rule.reason, rule.source) for rule in toys.real_rules().rules] == expected


def test_clauses_are_those_of_the_text() -> None:
    lists = {
        name: "".join(re.findall(r'"([^"]*)"', text))
        for name, text in re.findall(r"^#define (RQ_\w+) \\\n((?:.*\\\n)*.*)$", SOURCE, re.M)
    } | dict(re.findall(r'^#define (RTO_LOOP)\t"(.*)"$', SOURCE, re.M))
    body = section(PLAIN, "sched_layout_clauses[] = {")
    rows = re.findall(
        r'\{ "([\w.-]+)", LAYOUT_(\w+),\s*(.+?), ([01]), ([\w-]+),\s*"(\w+)", ((?:"[^"]*"|\w+)(?: \w+)?) \}', body
    )
    assert len(rows) == body.count('{ "')
    described = re.search(r"^#define AS_DESCRIBED\t(.+)$", SOURCE, re.M)
    assert described
    for clause, (rule, kind, needs, forced, arg, tag, members) in zip(toys.real_rules().clauses, rows, strict=True):
        conditions = re.findall(r"NEEDS\((\w+)\)", needs.replace("AS_DESCRIBED", described.group(1)))
        assert clause.rule == rule
        assert clause.kind.name == kind
        assert {"64BIT" if c is Condition.BITS_64 else c.name for c in clause.needs} == set(conditions), clause
        assert clause.forced is (forced == "1")
        assert clause.arg == (LINES[arg] if arg in LINES else int(arg))
        assert clause.type == tag
        parts = re.findall(r'"([^"]*)"|(\w+)', members)
        assert clause.members == tuple("".join(text + lists.get(name, "") for text, name in parts).split()), clause


def test_each_rule_is_a_known_test_and_the_other_way_round() -> None:
    named = re.findall(
        r"^sched_layout:\w+:((?:rq-order|rd-lines|cpupri-lines|cpupri-split|cpupri)\.\w+)$",
        (KUNIT / "tests.txt").read_text(),
        re.M,
    )
    assert sorted(named) == sorted(rule.id for rule in toys.real_rules().rules)


def test_each_clause_belongs_to_something() -> None:
    rules = toys.real_rules()
    owners = {rule.id for rule in rules.rules} | set(rules.changes())
    assert {clause.rule for clause in rules.clauses} == owners
    assert all(rules.of(owner) for owner in owners)
    assert not rules.of("rq-order.Q0")


def test_first_member_of_a_clause_is_never_optional() -> None:
    assert [c for c in toys.real_rules().clauses if c.members and c.members[0].endswith("?")] == []


def test_words_are_there_for_each_kind_and_condition() -> None:
    rules = toys.real_rules()
    assert len(rules.kinds) == len(ClauseKind)
    assert len(rules.conditions) == len(Condition)
    assert all(rules.kinds) and all(rules.conditions)
    assert rules.kinds[ClauseKind.TYPE_SMALL] == "the type is smaller than a line"
    assert rules.conditions[Condition.UP] == "CONFIG_SMP=n"


def test_rule_by_its_id() -> None:
    assert toys.real_rules().rule("rd-lines.R3").change == "rd-lines"
    with pytest.raises(SchedlineError, match=r"(?s)no rule 'rd-lines.R99'.*rd-lines.R1"):
        toys.real_rules().rule("rd-lines.R99")


def test_rules_are_compiled_once(tmp_path: Path) -> None:
    assert host_rules(tmp_path) == toys.real_rules()
    kept = list((tmp_path / "layout").iterdir())
    assert [path.suffix for path in kept] == [".o"]
    kept[0].write_bytes(b"damaged")
    with pytest.raises(SchedlineError, match="no object file"):
        host_rules(tmp_path)


def fields(*names: str, line: int = 64, compiler: str = toys.GCC) -> Compiled:
    """The tables of a toy kernel."""
    return read_fields(toys.fields_object(*names, line=line, compiler=compiler).read_bytes(), "toy.o")


@pytest.mark.parametrize("compiler", [toys.ARM64, toys.S390X])
def test_tables_of_other_architectures_are_the_same(compiler: str) -> None:
    toys.needs(compiler)
    assert fields(compiler=compiler) == fields()
    assert read_rules(toys.rules_object(compiler).read_bytes(), "r.o") == toys.real_rules()


def test_big_endian_object_is_one() -> None:
    toys.needs(toys.S390X)
    assert toys.fields_object(compiler=toys.S390X).read_bytes()[5] == 2
    assert toys.fields_object().read_bytes()[5] == 1


@pytest.mark.parametrize("line", [32, 64, 256])
def test_environment(line: int) -> None:
    read = fields(line=line)
    assert (read.line, read.mask) == (line, 8)
    assert (Condition.LINE_64 in read.holds) is (line == 64)
    assert (Condition.LINE_MIN_64 in read.holds) is (line >= 64)
    assert (Condition.LINE_MAX_128 in read.holds) is (line <= 128)
    assert {Condition.SMP, Condition.BITS_64, Condition.PLAIN_LOCKS, Condition.NO_PROXY_EXEC} <= read.holds
    assert read.holds.isdisjoint({Condition.UP, Condition.DEBUG_LOCKS, Condition.PROXY_EXEC})


def test_environment_of_another_configuration() -> None:
    read = fields("-CONFIG_SMP", "CONFIG_DEBUG_SPINLOCK", "CONFIG_SCHED_PROXY_EXEC")
    assert {Condition.UP, Condition.DEBUG_LOCKS, Condition.PROXY_EXEC} <= read.holds
    assert read.holds.isdisjoint({Condition.SMP, Condition.PLAIN_LOCKS, Condition.NO_PROXY_EXEC})
    assert "root_domain" not in {kind.name for kind in read.types}


def test_types_and_fields() -> None:
    read = fields()
    types = {kind.name: kind for kind in read.types}
    assert (types["cpupri_vec"].size, types["cpupri_vec"].align) == (128, 64)
    assert types["cpupri"].size == 101 * 128 + 64
    by_name = {(field.type, field.member): field for field in read.fields}
    inside = by_name["root_domain", "cpupri.pri_to_cpu[0].mask"]
    assert (inside.size, inside.count, inside.stride) == (8, 101, 128)
    assert inside.offset == by_name["root_domain", "cpupri"].offset + 64
    assert by_name["rq", "donor"].offset == by_name["rq", "curr"].offset
    assert (by_name["rq", "idle"].count, by_name["rq", "idle"].stride) == (1, 0)
    assert by_name["rq", "idle"].last == by_name["rq", "idle"].offset + 7


def test_configuration_decides_which_members_are_listed() -> None:
    listed = {(field.type, field.member) for field in fields().fields}
    less = {(field.type, field.member) for field in fields("-HAVE_RT_PUSH_IPI", "-CONFIG_NUMA_BALANCING").fields}
    assert listed - less == {
        *(("root_domain", f"rto_{name}") for name in ("push_work", "lock", "loop", "cpu", "loop_next", "loop_start")),
        *(("rq", name) for name in ("nr_numa_running", "nr_preferred_running", "numa_migrate_on")),
    }
    assert listed <= set(read_guards().members)


def test_every_member_of_a_clause_is_listed() -> None:
    guards = read_guards()
    named = {(clause.type, name.removesuffix("?")) for clause in toys.real_rules().clauses for name in clause.members}
    assert named <= set(guards.members)
    assert {clause.type for clause in toys.real_rules().clauses} <= set(guards.types)


TOY = """\
typedef unsigned int u32;
struct type {{ char name[16]; u32 size, align; }};
struct field {{ char type[16], member[32]; u32 offset, size, count, stride; }};
struct env {{ u32 version, type_size, nr_types, field_size, nr_fields, line, mask, holds; }};
const struct type sched_layout_types[] = {{ {{ "rq", 128, 64 }}, {{ "cpupri", 4, 4 }} }};
const struct field sched_layout_fields[] = {{ {{ "rq", "idle", 64, 8, 1, 0 }} }};
const struct env sched_layout_env = {{ {version}, {size}, {types}, sizeof(struct field), 1, {line}, 8, 0x401 }};
"""


def three_tables(directory: Path, compiler: str = toys.GCC, text: str = TOY, **values: object) -> bytes:
    """An object that has only the three tables."""
    source, target = directory / "three.c", directory / "three.o"
    source.write_text(text.format(**{"version": 1, "size": "sizeof(struct type)", "types": 2, "line": 64} | values))
    assert toys.gcc(source, target, compiler=compiler).returncode == 0
    return target.read_bytes()


@pytest.mark.parametrize("compiler", [toys.GCC, toys.ARM64, toys.S390X])
def test_three_tables_are_enough(tmp_path: Path, compiler: str) -> None:
    toys.needs(compiler)
    read = read_fields(three_tables(tmp_path, compiler), "three.o")
    assert (read.line, read.mask, read.holds) == (64, 8, frozenset({Condition.SMP, Condition.UP}))
    assert [(kind.name, kind.size, kind.align) for kind in read.types] == [("rq", 128, 64), ("cpupri", 4, 4)]
    assert [(field.type, field.member, field.offset, field.size) for field in read.fields] == [("rq", "idle", 64, 8)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"version": 2}, "tables of version 2, known is 1"),
        ({"size": "20"}, "sched_layout_types .*another shape"),
        ({"types": 3}, "sched_layout_types .*another shape"),
        ({"line": 0}, "a line has 0 bytes"),
        ({"line": 48}, "a line has 48 bytes"),
        ({"text": TOY.replace("sched_layout_fields", "other_fields")}, "no table sched_layout_fields"),
        ({"text": TOY.replace("sched_layout_env", "other_env")}, "no table sched_layout_env"),
        ({"text": TOY.replace("holds; }", "holds, more; }")}, "sched_layout_env .*has 36 bytes"),
        (
            {
                "text": TOY.replace(
                    "const struct type sched_layout_types[]",
                    "extern const int sched_layout_types[2];"
                    "const void *user(void) {{ return sched_layout_types; }} const struct type other[]",
                )
            },
            "sched_layout_types",
        ),
    ],
)
def test_what_is_wrong_is_refused(tmp_path: Path, values: dict[str, object], message: str) -> None:
    with pytest.raises(SchedlineError, match=message):
        read_fields(three_tables(tmp_path, **values), "three.o")  # type: ignore[arg-type]


def test_rules_of_another_version_are_refused() -> None:
    data = toys.rules_object().read_bytes()
    assert read_rules(data, "r.o") == toys.real_rules()
    with pytest.raises(SchedlineError, match="sched_layout_index"):
        read_rules(toys.fields_object().read_bytes(), "f.o")
    # The kind of the first clause follows its name.
    place = data.index(b"rq-order\0" + bytes(15) + bytes([ClauseKind.FOLLOWS])) + 24
    with pytest.raises(SchedlineError, match="unknown kind 99"):
        read_rules(data[:place] + bytes([99]) + data[place + 1 :], "r.o")


def test_stripped_object_has_no_tables(tmp_path: Path) -> None:
    toys.needs("strip")
    target = tmp_path / "stripped.o"
    subprocess.run(["strip", "-s", "-o", str(target), str(toys.fields_object())], check=True)
    with pytest.raises(SchedlineError, match="no symbol table"):
        read_fields(target.read_bytes(), "stripped.o")


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"text\n" * 100, b"\x7fELF\x02\x01\x01" + bytes(57)])
def test_no_object_at_all(data: bytes) -> None:
    for read in (read_rules, read_fields):
        with pytest.raises(SchedlineError, match="no object file"):
            read(data, "x.o")


def test_object_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.o").write_bytes(b"a")
    assert read_object(tmp_path / "a.o") == b"a"
    with pytest.raises(SchedlineError, match="No such file"):
        read_object(tmp_path / "b.o")
    with pytest.raises(SchedlineError, match="directory"):
        read_object(tmp_path)


@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=0, max_value=1 << 20))
def test_truncated_object_is_refused(length: int) -> None:
    data = toys.fields_object().read_bytes()
    with pytest.raises(SchedlineError):
        read_fields(data[: length % len(data)], "toy.o")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_is_refused_or_read_and_nothing_else(data: st.DataObject) -> None:
    which = data.draw(st.sampled_from(["rules", "fields"]))
    whole = (toys.rules_object() if which == "rules" else toys.fields_object()).read_bytes()
    # The headers are at both ends of the file.
    places = st.one_of(st.integers(0, 63), st.integers(-1600, -1), st.integers(0, len(whole) - 1))
    broken = bytearray(whole)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=6)):
        broken[place] = value
    try:
        if which == "rules":
            read_rules(bytes(broken), "x.o")
        else:
            read_fields(bytes(broken), "x.o")
    except SchedlineError as error:
        assert error.next_step
