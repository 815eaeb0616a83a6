# SPDX-License-Identifier: GPL-2.0
"""A rule is one file: what a contract says is judged by `layout`, and expected of the kernel's own tests."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import toys
from layout_command import document

from schedlib.console.expected import expected_tests
from schedlib.contracts import contract_rules
from schedlib.contracts.c_tables import rule_table
from schedlib.contracts.contract_rules import our_rules, rules_of
from schedlib.contracts.struct_source import read_source
from schedlib.formats.contract_file import (
    ChangeSign,
    Contract,
    Exemption,
    MemberGroup,
    Promise,
    RuleRow,
    TypePromise,
)
from schedlib.names import pack_names
from schedlib.paths import CONFIGS

TEMPLATE = CONFIGS / "contracts/template.toml"
HEADER = "kernel/sched/cpudeadline.h"
ITEM = f"""\
struct = "cpudl_item"
header = "{HEADER}"

[[rule]]
id = "rd-lines.D1"
why = "they are written together"

[[promise]]
id = "rd-lines.D1"
keep = "on one line"
of = ["dl", "cpu"]
"""
RULE = """
[[rule]]
id = "rd-lines.R10"
why = "they are read together"

[[promise]]
id = "rd-lines.R10"
keep = "unbroken"
of = ["overloaded", "overutilized"]
"""
PACKED = """\
struct = "waiter"
file = "include/linux/waiter.h"

[[rule]]
id = "waiter.W1"
why = "they are read together"
source = "a mail"

[[promise]]
id = "waiter.W1"
keep = "unbroken"
of = ["task", "lock"]
"""
FILES = {
    HEADER: "#pragma once\nstruct cpudl_item {\n\tint dl, cpu;\n};\n",
    "kernel/sched/sched.h": f'#include "cpudeadline.h"\n{toys.SCHED_H}',
    "include/linux/waiter.h": "struct waiter {\n\tint task, lock;\n};\n",
}


@pytest.fixture
def contracts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The contracts of a copy of configs/, which is read instead of ours."""
    shutil.copytree(CONFIGS, tmp_path / "configs")
    monkeypatch.setattr("schedlib.names.CONFIGS", tmp_path / "configs")
    monkeypatch.setattr(contract_rules, "CONTRACTS", tmp_path / "configs/contracts/sched")
    our_rules.cache_clear()
    yield tmp_path / "configs/contracts"
    our_rules.cache_clear()


def test_a_rule_is_one_file(contracts: Path, cache: Path) -> None:
    before = set(expected_tests(8, None))
    root_domain = contracts / "sched/root_domain.toml"
    root_domain.write_text(root_domain.read_text() + RULE)
    (contracts / "sched/cpudl_item.toml").write_text(ITEM)
    (contracts / "futex/waiter.toml").write_text(PACKED)
    our_rules.cache_clear()
    new = {"sched_layout:rd_lines:rd-lines.R10", "sched_layout:rd_lines:rd-lines.D1"}
    assert set(expected_tests(8, None)) - before == new
    listed = expected_tests(8, None)
    assert listed.index("sched_layout:rd_lines:rd-lines.R9") + 1 == listed.index("sched_layout:rd_lines:rd-lines.R10")
    assert new <= set(expected_tests(8, None, changes=["rd-lines"]))  # of the exported series
    assert new.isdisjoint(expected_tests(8, None, changes=["rq-order"]))
    table = rule_table(our_rules(), read_source(FILES.get))
    for name, kept in {"rd-lines.R10": "UNBROKEN, root_domain", "rd-lines.D1": "ON_LINE, cpudl_item"}.items():
        assert re.search(rf'RULE\("{name}", .*\n.*KEEP\({kept}', table)
    tree = toys.toy_tree(cache / "toy", FILES)
    for more, names in (
        (("--require", "R10,D1"), {"rd-lines.R10", "rd-lines.D1"}),
        (("--pack", "futex"), {"waiter.W1"}),
    ):
        found = document(cache / "x.json", "layout", "--kdir", str(tree), *more)
        assert names <= {row["id"] for row in found["columns"][0]["rules"] if row["outcome"] == "pass"}
        assert found["status"] == "PASS"


def test_the_template_is_a_contract_with_every_key() -> None:
    rules_of((TEMPLATE,))
    text = TEMPLATE.read_text()
    records = (Contract, RuleRow, ChangeSign, MemberGroup, Promise, Exemption, TypePromise)
    keys = {key for record in records for key in record.__struct_encode_fields__}
    assert keys == set(re.findall(r"^(?:# (?=\w+ = )|\[\[(?:\w+\.)?)?(\w+)(?: = |]]$)", text, re.M))


def test_the_template_is_no_contract() -> None:
    assert "template" not in {*pack_names(), *our_rules().types()}
