# SPDX-License-Identifier: GPL-2.0
"""`schedline layout rules`: every contract is told under the directory that declares its structure, and only there."""

from __future__ import annotations

import pytest
from layout_command import run

from schedlib.contracts.contract_rules import CONTRACTS, all_rules
from schedlib.errors import SchedlineError
from schedlib.layout.queries import rules_text
from schedlib.names import pack_names
from schedlib.verdict import Verdict


def test_every_rule_is_told_where_its_structure_is() -> None:
    rules = all_rules((CONTRACTS.name, *pack_names()))
    for tag, file in rules.files.items():
        text = rules_text(file)
        assert f"## struct {tag} ({file})" in text
        for clause in rules.clauses:
            if clause.type == tag and clause.rule in {rule.id for rule in rules.rules}:
                assert f"- {clause.rule}: " in text


def test_a_directory_has_its_own_structures(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("layout", "rules", "--for", "kernel/sched/") is Verdict.PASS
    text = capsys.readouterr().out
    assert "## struct rq (" in text and "mm_struct" not in text.replace("struct mm_struct", "")
    assert "nr_running" in text and "update_sg_lb_stats" in text
    assert "written by the owner, read often by others" in text


def test_a_directory_without_contracts() -> None:
    with pytest.raises(SchedlineError, match="no structure of drivers/usb has a contract"):
        rules_text("drivers/usb")
    with pytest.raises(SchedlineError):
        rules_text("kernel/sch")
