# SPDX-License-Identifier: GPL-2.0
"""`schedline layout rules` and `explain`: contracts under the directory of their structure, authors as in patches."""

from __future__ import annotations

from pathlib import Path

import pytest
from layout_command import said

from schedlib.contracts.contract_rules import CONTRACTS, pack_rules
from schedlib.errors import SchedlineError
from schedlib.layout.queries import rules_text
from schedlib.names import pack_names
from schedlib.paths import PATCHES
from schedlib.tree.changes import change_table
from schedlib.verdict import Verdict


def test_every_rule_is_told_where_its_structure_is() -> None:
    rules = pack_rules((CONTRACTS.name, *pack_names()))
    ids = {rule.id for rule in rules.rules}
    texts = {place: rules_text(place) for place in {file.partition("/")[0] for file in rules.files.values()}}
    for tag, file in rules.files.items():
        told = texts[file.partition("/")[0]]
        assert f"## struct {tag} (" in told
        assert all(f"- {each.rule}: " in told for each in rules.clauses if each.type == tag and each.rule in ids)


def test_a_directory_has_its_own_structures() -> None:
    verdict, told = said("layout", "rules", "--for", "kernel/sched/")
    assert (
        verdict is Verdict.PASS and "## struct rq (" in told and "mm_struct" not in told.replace("struct mm_struct", "")
    )
    assert "nr_running" in told and "update_sg_lb_stats" in told
    assert "written by the owner, read often by others" in told


def test_a_header_has_the_structures_that_it_declares() -> None:
    told = rules_text("kernel/sched/cpupri.h")
    assert "## struct cpupri_vec (kernel/sched/cpupri.h)" in told and "struct root_domain (" not in told
    assert "(only with cpupri-split, which is in no kernel)" in told and "cpupri-lines, which" not in told


@pytest.mark.parametrize("place", ["drivers/usb", "kernel/sch"])
def test_a_directory_without_contracts(place: str) -> None:
    with pytest.raises(SchedlineError, match=f"no structure of {place} has a contract"):
        rules_text(place)


def test_nothing_is_downloaded_to_explain_a_rule(cache: Path) -> None:
    verdict, told = said("layout", "explain", "q3")
    assert (
        verdict is Verdict.PASS and "rq-order.Q3: waiters write" in told and "--series 7.3, which is downloaded" in told
    )
    assert not (cache / "trees").exists()


@pytest.mark.parametrize("change", ["rq-order", "rd-lines", "cpupri-lines"])
def test_author_and_gain_are_those_of_the_patch(change: str) -> None:
    row = change_table()[change]
    patch = (PATCHES / "6.12" / f"{change}.patch").read_text()
    assert f"\nFrom: {row.author}\n" in patch and row.gain in " ".join(patch.split())
    assert change_table()["cluster-scan"].gain == "not measured"
