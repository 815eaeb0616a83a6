# SPDX-License-Identifier: GPL-2.0
"""A contract that is wrong is refused with file, line and key. Nothing is judged by half of one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from jsonschema import ValidationError

from by_schema import validator
from schedlib.contracts.contract_rules import CONTRACTS, our_rules, rules_of
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import AccessClass, ChangeSign, ClauseKind, Promise, TypePromise, may_share
from schedlib.git import git
from schedlib.paths import KUNIT, PATCHES
from schedlib.tree.kernel_tree import Tree

GOOD = """\
struct = "rq"

[[rule]]
id = "rq-order.Q1"
why = "it hurts"

[[rule]]
id = "rq-order.Q2"
why = "it hurts, too"

[[group]]
name = "read"
class = "read-mostly"
apart = "rq-order.Q1"
members = ["a", "b"]

[[group.promise]]
id = "rq-order.Q2"
keep = "closed"
when = ["line >= 64"]

[[group]]
name = "written"
class = "shared"
members = ["c|d"]

[[type]]
id = "rq-order.Q2"
keep = "aligned"
"""


def written(directory: Path, text: str) -> Path:
    """A contract in a file."""
    path = directory / "rq.toml"
    path.write_text(text)
    return path


def test_promises_and_what_the_classes_forbid(tmp_path: Path) -> None:
    rules = rules_of((written(tmp_path, GOOD),))
    assert [(rule.id, rule.change) for rule in rules.rules] == [
        ("rq-order.Q1", "rq-order"),
        ("rq-order.Q2", "rq-order"),
    ]
    apart, closed, aligned = rules.clauses
    assert (apart.kind, apart.members, apart.others) == (ClauseKind.APART, ("a", "b"), ("c", "d"))
    assert (closed.kind, closed.members, closed.needs) == (ClauseKind.ALONE, ("a", "b"), frozenset({"line >= 64"}))
    assert (aligned.kind, aligned.members) == (ClauseKind.TYPE_ALIGNED, ())
    assert ("rq", ("c", "d"), frozenset({"rq-order"})) in rules.members
    assert rules.findings == ()


def test_what_a_condition_looks_like_is_told(tmp_path: Path) -> None:
    with pytest.raises(SchedlineError) as error:
        rules_of((written(tmp_path, GOOD.replace("line >= 64", "line > 64")),))
    assert error.value.next_step.startswith("write it like one of these: 64bit, line >= 64,")
    assert "regex" not in error.value.next_step


def test_what_contracts_may_say(tmp_path: Path) -> None:
    for old, new in (
        (
            '"b"]\n\n[[group.promise]]\nid = "rq-order.Q2"\nkeep = "closed"',
            '"v[0].b"]\n\n[[group.promise]]\nid = "rq-order.Q2"\nkeep = "starts a line"',
        ),
        ('keep = "closed"', 'keep = "on one line"\nof = ["a"]'),
        (
            'keep = "closed"\nwhen = ["line >= 64"]',
            'keep = "headroom"\nbytes = 63\nwhen = ["line >= 64", "line <= 64"]',
        ),
    ):
        assert GOOD.count(old) == 1, old
        assert rules_of((written(tmp_path, GOOD.replace(old, new)),)).clauses


EXCEPTION = """
[[exception]]
group = "written"
with = ["read"]
why = "rare"
"""


@pytest.mark.parametrize(
    ("more", "kept", "open_"),
    [
        ("", None, 0),
        ("open = true\n", None, 1),
        ('apart_when = ["64bit"]\n', frozenset({"64bit"}), 0),
        ('apart_when = ["64bit"]\nopen = true\n', frozenset({"64bit"}), 1),
    ],
)
def test_exceptions(more: str, kept: frozenset[str] | None, open_: int, tmp_path: Path) -> None:
    promise = '\n[[promise]]\nid = "rq-order.Q1"\nkeep = "behind"\nof = ["a"]\nothers = ["b"]\n'
    rules = rules_of((written(tmp_path, GOOD + EXCEPTION + more + promise),))
    assert [clause.needs for clause in rules.clauses if clause.kind is ClauseKind.APART] == [kept] * (kept is not None)
    assert len(rules.findings) == open_


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('class = "shared"', 'class = "shard"', r"rq.toml:24: group.class is 'shard'"),
        ('keep = "closed"', 'keep = "close"', r"rq.toml:19: group.promise.keep is 'close'"),
        ('"line >= 64"', '"line > 64"', r"rq.toml:20: group.promise.when is"),
        ('["c|d"]', '["c|a"]', r"rq.toml:25: group.members 'a' is in the groups read and written"),
        ('name = "written"', 'name = "read"', r"rq.toml:23: group.name 'read' is there twice"),
        ('apart = "rq-order.Q1"', 'apart = "rq-order.Q9"', r"rq.toml:14: group.apart names the rule 'rq-order.Q9'"),
        ('[[type]]\nid = "rq-order.Q2"', '[[type]]\nid = "rq-order.Q3"', r"rq.toml:28: type.id names the rule"),
        (
            'id = "rq-order.Q2"\nkeep = "closed"',
            'id = "x-y.Q1"\nkeep = "closed"',
            r"toml:18: group.promise.id names",
        ),
        ('keep = "closed"', 'keep = "closed"\nof = ["c"]', r"names 'c', which is not in its group"),
        ('keep = "closed"', 'keep = "closed"\nothers = ["a"]', r"others has 'a', which is named already"),
        ('keep = "closed"', 'keep = "closed"\nof = ["a", "a"]', r"of has 'a', which is named already"),
        ('keep = "closed"', 'keep = "closed"\nothers = ["e|b"]', r"others has 'b', which is named already"),
        ('keep = "closed"', 'keep = "unbroken"\nof = ["a"]', r"keeps 'unbroken' of one member"),
        ('keep = "closed"', 'keep = "same offset"\nof = ["a"]', r"keeps 'same offset' of one member"),
        ('keep = "closed"', 'keep = "closed"\nothers = ["v[0].e"]', r"'v\[0\].e', and only the first element"),
        ('"b"]\n\n[[group.promise]]', '"v[0].b"]\n\n[[group.promise]]', r"'v\[0\].b', and only the first element"),
        ('"b"]\n\n[[group.promise]]', '"v.b"]\n\n[[group.promise]]', r"'v.b', which lies inside of another member"),
        ('keep = "aligned"', 'keep = "at most"\nbytes = 8\nwithout = ["v[0].e"]', r"only the first element"),
        ('keep = "closed"', 'keep = "apart"', r"keeps 'apart' and names no others"),
        ('keep = "closed"', 'keep = "closed"\nline = 1', r"line means nothing for 'closed'"),
        ('keep = "closed"', 'keep = "closed"\nbytes = 8', r"keeps 'closed'"),
        ('keep = "closed"', 'keep = "headroom"', r"keeps 'headroom'"),
        ('keep = "closed"', 'keep = "headroom"\nbytes = 256', r"bytes is 256"),
        (
            'keep = "closed"\nwhen = ["line >= 64"]',
            'keep = "headroom"\nbytes = 64\nwhen = ["line == 64"]',
            r"bytes is 64",
        ),
        ('keep = "closed"', 'keep = "unbroken"\nothers = ["c"]', r"others means nothing for 'unbroken'"),
        ('keep = "aligned"', 'keep = "at most"', r"keeps 'at most'"),
        ('keep = "aligned"', 'keep = "aligned"\nbytes = 8', r"keeps 'aligned'"),
        ('struct = "rq"', 'struct = "rq"\nstructure = "rq"', r"rq.toml:2: structure is unknown"),
        ('id = "rq-order.Q1"\nwhy', 'id = "rd-order.Q1"\nwhy', r"'rd-order.Q1' is of no known change"),
        ('id = "rq-order.Q2"\nwhy', 'id = "rq-order.Q1"\nwhy', r"'rq-order.Q1' is there twice"),
        ('why = "it hurts"', 'why = ""', r"rq.toml:5: rule.why is ''"),
        ('why = "it hurts"', 'why = "it\\nhurts"', r"rq.toml:5: rule.why is"),
        ('struct = "rq"', 'struct = "struct rq"', r"rq.toml:1: struct is 'struct rq'"),
        ('["c|d"]', '["c d"]', r"rq.toml:25: group.members is 'c d'"),
        ('id = "rq-order.Q1"\nwhy', 'id = "rq-order"\nwhy', r"rq.toml:4: rule.id is 'rq-order'"),
        ('id = "rq-order.Q1"\nwhy', 'id = "cluster-scan.Q1"\nwhy', r"'cluster-scan.Q1' is of no known change"),
        ('["line >= 64"]', '["CONFIG_SMP", "!CONFIG_SMP"]', r"which no kernel meets"),
        ('["line >= 64"]', '["line == 64", "line == 128"]', r"which no kernel meets"),
        ('["line >= 64"]', '["line >= 128", "line == 64"]', r"at least 128 and at most 64 bytes"),
        ('["line >= 64"]', '["line >= 128", "line <= 64"]', r"at least 128 and at most 64 bytes"),
        ('["line >= 64"]', '["locks plain", "locks debugged"]', r"plain and debugged"),
        ('["line >= 64"]', '["64bit\\n"]', r"group.promise.when is"),
        ('apart = "rq-order.Q1"\n', "", r"'read' and 'written' may not share a line, and neither has a rule"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert GOOD.count(old) == 1, old
    with pytest.raises(SchedlineError, match=message) as error:
        rules_of((written(tmp_path, GOOD.replace(old, new)),))
    assert error.value.next_step


def test_the_line_that_two_groups_lack_is_told(tmp_path: Path) -> None:
    """`give one of them apart` was written as a promise, which is another thing."""
    line = 'apart = "rq-order.Q1"'
    with pytest.raises(SchedlineError) as error:
        rules_of((written(tmp_path, GOOD.replace(f"{line}\n", "")),))
    assert f"`{line}`" in str(error.value.next_step)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('with = ["read"]', 'with = ["rest"]', r"exception.with names the group 'rest'"),
        ('group = "written"', 'group = "rest"', r"exception.group names the group 'rest'"),
        ('group = "written"', 'group = "read"', "exception.with names a group twice"),
        ('with = ["read"]', "with = []", r"exception.with is"),
        ('with = ["read"]', 'with = ["read", "read"]', r"exception.with names a group twice"),
        ('why = "rare"', 'why = "rare"\n[[exception]]\ngroup = "read"\nwith = ["written"]\nwhy = "x"', r"again"),
    ],
)
def test_wrong_exceptions(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SchedlineError, match=message):
        rules_of((written(tmp_path, GOOD + EXCEPTION.replace(old, new)),))


def test_a_rule_that_keeps_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchedlineError, match=r"rq.toml:4: rule.id 'rq-order.Q1' keeps nothing"):
        rules_of((written(tmp_path, GOOD + EXCEPTION),))


def test_an_exception_for_what_is_allowed_anyway(tmp_path: Path) -> None:
    more = '\n[[group]]\nname = "rare"\nclass = "cold"\nmembers = ["e"]\n'
    with pytest.raises(SchedlineError, match="shared and cold may share a line anyway"):
        rules_of((written(tmp_path, GOOD + more + EXCEPTION.replace('["read"]', '["rare"]')),))


@pytest.mark.tools
def test_options_of_our_contracts_are_those_of_the_kernel(series: Tree) -> None:
    """A misspelt CONFIG_ is never set, so the rule would never be judged."""
    named = {text.lstrip("!") for text in our_rules().conditions() if "CONFIG_" in text}
    assert named
    known = git(series.src, "grep", "-hE", r"^\s*(menu)?config [A-Z0-9_]+$", series.base, "--", "*Kconfig*").split()
    added = set(re.findall(r"^\+config ([A-Z0-9_]+)$", (PATCHES / "7.3/cpupri-split.patch").read_text(), re.M))
    assert named <= {f"CONFIG_{word}" for word in (*known, *added)}


def test_two_contracts_for_one_structure(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(GOOD.replace("rq-order.Q", "rq-order.Z"))
    with pytest.raises(SchedlineError, match=r"struct is 'rq', which has a contract already"):
        rules_of((written(tmp_path, GOOD), tmp_path / "other.toml"))


def test_a_sign_says_what_it_is_about(tmp_path: Path) -> None:
    sign = '\n[[sign]]\nchange = "rq-order"\nkeep = "behind"\n'
    with pytest.raises(SchedlineError, match="sign keeps 'behind'"):
        rules_of((written(tmp_path, GOOD + sign),))
    wrong = sign.replace("rq-order", "rq-ordre") + 'of = ["a"]\nothers = ["b"]\n'
    with pytest.raises(SchedlineError, match=r"sign.change names 'rq-ordre'") as error:
        rules_of((written(tmp_path, GOOD + wrong),))
    assert "rq-order" in error.value.next_step


def test_classes() -> None:
    for each in AccessClass:
        assert may_share(each, AccessClass.COLD)
        assert may_share(AccessClass.COLD, each)
        assert may_share(each, each) is (each in (AccessClass.READ_MOSTLY, AccessClass.OWNER, AccessClass.COLD)), each
    assert not may_share(AccessClass.READ_MOSTLY, AccessClass.OWNER)


def test_the_words_of_promises_are_those_of_kinds() -> None:
    hints = [get_type_hints(kind)["keep"] for kind in (Promise, TypePromise, ChangeSign)]
    members, whole, signs = (set(get_args(hint)) for hint in hints)
    assert members | whole == {kind.value for kind in ClauseKind}
    assert not members & whole
    assert signs <= members | whole


def test_each_file_is_named_after_its_structure() -> None:
    paths = sorted(CONTRACTS.glob("*.toml"))
    assert len(paths) == 7
    for path in paths:
        assert f'struct = "{path.stem}"' in path.read_text()


def test_our_rules() -> None:
    rules = our_rules()
    owners = {rule.id for rule in rules.rules} | set(rules.changes())
    assert {clause.rule for clause in rules.clauses} == owners
    assert not rules.of("rq-order.Q0")
    assert rules.changes() == ("rq-order", "rd-lines", "cpupri-lines", "cpupri-split", "rq-readers")
    assert rules.rule("rd-lines.R3").change == "rd-lines"
    assert rules.rule("cpupri.S1").change == "cpupri-lines"
    assert [rule.id for rule in rules.rules if rule.change == "rd-lines"] == [f"rd-lines.R{n}" for n in range(1, 10)]
    with pytest.raises(SchedlineError, match=r"(?s)no rule 'rd-lines.R99'.*rd-lines.R1"):
        rules.rule("rd-lines.R99")


def test_every_rule_has_its_source() -> None:
    assert [rule.id for rule in our_rules().rules if not rule.source] == []


def test_each_rule_is_a_known_test_and_the_other_way_round() -> None:
    named = re.findall(r"^sched_layout:\w+:([\w-]+\.[A-Z]\d+)$", (KUNIT / "tests.txt").read_text(), re.M)
    assert sorted(named) == sorted(rule.id for rule in our_rules().rules)


@pytest.mark.parametrize("path", sorted(CONTRACTS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_schema_for_outsiders_accepts_our_contracts(path: Path) -> None:
    contract = tomllib.loads(path.read_text())
    check = validator("contract")
    check.validate(contract)
    contract["strukt"] = contract.pop("struct")
    with pytest.raises(ValidationError):
        check.validate(contract)
