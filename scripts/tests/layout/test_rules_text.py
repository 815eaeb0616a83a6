# SPDX-License-Identifier: GPL-2.0
"""`schedline layout rules`: every contract is told under the directory that declares its structure, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest
from layout_command import run

from schedlib.contracts.contract_rules import CONTRACTS, pack_rules
from schedlib.errors import SchedlineError
from schedlib.layout.queries import rules_text
from schedlib.names import pack_names
from schedlib.verdict import Verdict


def test_every_rule_is_told_where_its_structure_is() -> None:
    rules = pack_rules((CONTRACTS.name, *pack_names()))
    for tag, file in rules.files.items():
        text = rules_text(file.partition("/")[0])
        assert f"## struct {tag} (" in text
        for clause in rules.clauses:
            if clause.type == tag and clause.rule in {rule.id for rule in rules.rules}:
                assert f"- {clause.rule}: " in text


def test_a_directory_has_its_own_structures(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("layout", "rules", "--for", "kernel/sched/") is Verdict.PASS
    text = capsys.readouterr().out
    assert "## struct rq (" in text and "mm_struct" not in text.replace("struct mm_struct", "")
    assert "nr_running" in text and "update_sg_lb_stats" in text
    assert "written by the owner, read often by others" in text


def test_a_header_has_the_structures_that_it_declares() -> None:
    text = rules_text("kernel/sched/cpupri.h")
    assert "## struct cpupri_vec (kernel/sched/cpupri.h)" in text and "struct root_domain (" not in text
    assert "(only with cpupri-split, which is in no kernel)" in text and "cpupri-lines, which" not in text


def test_nothing_is_downloaded_to_explain_a_rule(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("layout", "explain", "q3") is Verdict.PASS
    text = capsys.readouterr().out
    assert "rq-order.Q3: waiters write" in text and "--series 7.3, which is downloaded" in text
    assert not (cache / "trees").exists()


def test_a_directory_without_contracts() -> None:
    with pytest.raises(SchedlineError, match="no structure of drivers/usb has a contract"):
        rules_text("drivers/usb")
    with pytest.raises(SchedlineError):
        rules_text("kernel/sch")
