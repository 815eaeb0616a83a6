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
from schedlib.paths import PATCHES
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


CLOSED = 'keep = "closed"'
CLOSED_WHEN = f'{CLOSED}\nwhen = ["line >= 64"]'
MEMBERS = '"b"]\n\n[[group.promise]]'
RULE = 'id = "rq-order.Q1"\nwhy'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            f'{MEMBERS}\nid = "rq-order.Q2"\n{CLOSED}',
            '"v[0].b"]\n\n[[group.promise]]\nid = "rq-order.Q2"\nkeep = "starts a line"',
        ),
        (CLOSED, 'keep = "on one line"\nof = ["a"]'),
        (CLOSED_WHEN, 'keep = "headroom"\nbytes = 63\nwhen = ["line >= 64", "line <= 64"]'),
    ],
)
def test_what_contracts_may_say(old: str, new: str, tmp_path: Path) -> None:
    assert GOOD.count(old) == 1
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
        (CLOSED, 'keep = "close"', r"rq.toml:19: group.promise.keep is 'close'"),
        ('"line >= 64"', '"line > 64"', r"rq.toml:20: group.promise.when is"),
        ('["c|d"]', '["c|a"]', r"rq.toml:25: group.members 'a' is in the groups read and written"),
        ('name = "written"', 'name = "read"', r"rq.toml:23: group.name 'read' is there twice"),
        ('apart = "rq-order.Q1"', 'apart = "rq-order.Q9"', r"rq.toml:14: group.apart names the rule 'rq-order.Q9'"),
        ('[[type]]\nid = "rq-order.Q2"', '[[type]]\nid = "rq-order.Q3"', r"rq.toml:28: type.id names the rule"),
        (f'id = "rq-order.Q2"\n{CLOSED}', f'id = "x-y.Q1"\n{CLOSED}', r"toml:18: group.promise.id names"),
        (CLOSED, 'keep = "closed"\nof = ["c"]', r"names 'c', which is not in its group"),
        (CLOSED, 'keep = "closed"\nothers = ["a"]', r"others has 'a', which is named already"),
        (CLOSED, 'keep = "closed"\nof = ["a", "a"]', r"of has 'a', which is named already"),
        (CLOSED, 'keep = "closed"\nothers = ["e|b"]', r"others has 'b', which is named already"),
        (CLOSED, 'keep = "unbroken"\nof = ["a"]', r"keeps 'unbroken' of one member"),
        (CLOSED, 'keep = "same offset"\nof = ["a"]', r"keeps 'same offset' of one member"),
        (CLOSED, 'keep = "closed"\nothers = ["v[0].e"]', r"'v\[0\].e', and only the first element"),
        (MEMBERS, '"v[0].b"]\n\n[[group.promise]]', r"'v\[0\].b', and only the first element"),
        (MEMBERS, '"v.b"]\n\n[[group.promise]]', r"'v.b', which lies inside of another member"),
        ('keep = "aligned"', 'keep = "at most"\nbytes = 8\nwithout = ["v[0].e"]', r"only the first element"),
        (CLOSED, 'keep = "apart"', r"keeps 'apart' and names no others"),
        (CLOSED, 'keep = "closed"\nline = 1', r"line means nothing for 'closed'"),
        (CLOSED, 'keep = "closed"\nbytes = 8', r"keeps 'closed'"),
        (CLOSED, 'keep = "headroom"', r"keeps 'headroom'"),
        (CLOSED, 'keep = "headroom"\nbytes = 256', r"bytes is 256"),
        (CLOSED_WHEN, 'keep = "headroom"\nbytes = 64\nwhen = ["line == 64"]', r"bytes is 64"),
        (CLOSED, 'keep = "unbroken"\nothers = ["c"]', r"others means nothing for 'unbroken'"),
        ('keep = "aligned"', 'keep = "at most"', r"keeps 'at most'"),
        ('keep = "aligned"', 'keep = "aligned"\nbytes = 8', r"keeps 'aligned'"),
        ('struct = "rq"', 'struct = "rq"\nstructure = "rq"', r"rq.toml:2: structure is unknown"),
        (RULE, 'id = "rd-order.Q1"\nwhy', r"'rd-order.Q1' is of no known change"),
        ('id = "rq-order.Q2"\nwhy', RULE, r"'rq-order.Q1' is there twice"),
        ('why = "it hurts"', 'why = ""', r"rq.toml:5: rule.why is ''"),
        ('why = "it hurts"', 'why = "it\\nhurts"', r"rq.toml:5: rule.why is"),
        ('struct = "rq"', 'struct = "struct rq"', r"rq.toml:1: struct is 'struct rq'"),
        ('["c|d"]', '["c d"]', r"rq.toml:25: group.members is 'c d'"),
        (RULE, 'id = "rq-order"\nwhy', r"rq.toml:4: rule.id is 'rq-order'"),
        (RULE, 'id = "cluster-scan.Q1"\nwhy', r"'cluster-scan.Q1' is of no known change"),
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


SIGN = '\n[[sign]]\nchange = "rq-order"\nkeep = "behind"\n'
SIGN_OF_NO_CHANGE = f'{SIGN.replace("rq-order", "rq-ordre")}of = ["a"]\nothers = ["b"]\n'
RARE = '\n[[group]]\nname = "rare"\nclass = "cold"\nmembers = ["e"]\n'
AGAIN = '[[exception]]\ngroup = "read"\nwith = ["written"]\nwhy = "x"'


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (EXCEPTION.replace('with = ["read"]', 'with = ["rest"]'), r"exception.with names the group 'rest'"),
        (EXCEPTION.replace('group = "written"', 'group = "rest"'), r"exception.group names the group 'rest'"),
        (EXCEPTION.replace('group = "written"', 'group = "read"'), "exception.with names a group twice"),
        (EXCEPTION.replace('with = ["read"]', "with = []"), r"exception.with is"),
        (EXCEPTION.replace('with = ["read"]', 'with = ["read", "read"]'), r"exception.with names a group twice"),
        (f"{EXCEPTION}{AGAIN}", r"again"),
        (EXCEPTION, r"rq.toml:4: rule.id 'rq-order.Q1' keeps nothing"),
        (RARE + EXCEPTION.replace('["read"]', '["rare"]'), "shared and cold may share a line anyway"),
        (SIGN, "sign keeps 'behind'"),
        (SIGN_OF_NO_CHANGE, r"(?s)sign.change names 'rq-ordre'.*rq-order"),
    ],
)
def test_wrong_exceptions_and_signs(more: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SchedlineError, match=message):
        rules_of((written(tmp_path, GOOD + more),))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("line >= 64", "line > 64", "write it like one of these: 64bit, line >= 64,"),
        # `give one of them apart` was written as a promise, which is another thing.
        ('apart = "rq-order.Q1"\n', "", '`apart = "rq-order.Q1"`'),
    ],
)
def test_how_to_write_it_is_told(old: str, new: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(SchedlineError) as error:
        rules_of((written(tmp_path, GOOD.replace(old, new)),))
    assert told in error.value.next_step and "regex" not in error.value.next_step


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


def test_our_rules() -> None:
    rules = our_rules()
    owners = {rule.id for rule in rules.rules} | set(rules.changes())
    assert {clause.rule for clause in rules.clauses} == owners
    assert not rules.of("rq-order.Q0")
    assert rules.changes() == ("rq-order", "rd-lines", "cpupri-lines", "cpupri-split", "rq-readers")
    assert rules.rule("rd-lines.R3").change == "rd-lines"
    assert rules.rule("cpupri.S1").change == "cpupri-lines"
    with pytest.raises(SchedlineError, match=r"(?s)no rule 'rd-lines.R99'.*rd-lines.R1"):
        rules.rule("rd-lines.R99")


def test_each_rule_has_a_source() -> None:
    assert [rule.id for rule in our_rules().rules if not rule.source] == []


@pytest.mark.parametrize("path", sorted(CONTRACTS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_schema_for_outsiders_accepts_our_contracts(path: Path) -> None:
    contract = tomllib.loads(path.read_text())
    assert contract["struct"] == path.stem
    check = validator("contract")
    check.validate(contract)
    contract["strukt"] = contract.pop("struct")
    with pytest.raises(ValidationError):
        check.validate(contract)
