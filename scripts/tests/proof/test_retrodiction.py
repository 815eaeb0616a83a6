# SPDX-License-Identifier: GPL-2.0
"""The layout incidents, and what was recorded of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.retrodiction import CLASSES, INCIDENTS, open_findings, read_incidents, recorded, table
from schedlib.contracts.contract_rules import OpenFinding, Rules
from schedlib.errors import SchedlineError
from schedlib.layout.members import Member, Structure, Type
from schedlib.layout.rule_judge import Layout
from schedlib.paths import PROJECT


def test_the_incidents() -> None:
    found = read_incidents()
    assert len(found) == 15 and sum(each.blind for each in found) >= 6
    for each in found:
        assert (each.bad or each.fix) and each.right and each.kind in ("latent", "regression"), each.name
        assert each.access or each.counted, each.name
        assert all((access.reads, access.writes) in CLASSES for access in (*each.access, *each.counted))


def test_a_wrong_incident_is_refused(tmp_path: Path) -> None:
    text = (INCIDENTS / "dst-refcnt.toml").read_text()
    (tmp_path / "x.toml").write_text(text.replace("right = ", "wrong = "))
    with pytest.raises(SchedlineError, match="right"):
        read_incidents(tmp_path)


def layout(offset: int) -> Layout:
    members = (Member("a", "long", 0, 8), Member("b", "long", 8, 8), Member("lock", "spinlock_t", offset, 4))
    structures = {"toy": Structure(Type("toy", 256, 64), members)}
    return Layout("x", 64, "", frozenset(), frozenset(), structures)


def test_findings_are_about_members_that_share_a_line() -> None:
    rules = Rules((), (), (OpenFinding("toy", ("a", "b"), ("lock", "gone"), "why"),))
    assert open_findings(rules, layout(16)) == [("a", "lock", "b")]
    assert open_findings(rules, layout(64)) == []


def test_the_page_has_what_was_recorded() -> None:
    assert [row.name for row in recorded()] == [each.name for each in read_incidents()]
    page = (PROJECT / "docs/results/catches.md").read_text()
    assert all(line in page for line in table(recorded()))
