# SPDX-License-Identifier: GPL-2.0
"""The layout incidents of configs/incidents/, and the contract that is derived from a layout before."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from schedlib.contracts.contract_rules import OpenFinding, Rules
from schedlib.contracts.first_contract import Declaration, DocumentedAccess, first_contract
from schedlib.dev.retrodict import open_findings
from schedlib.dev.retrodict_page import page
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import AccessClass
from schedlib.formats.incident_file import INCIDENTS, read_incident_rules, read_incidents
from schedlib.formats.retrodict_document import Alarm, QuietRow, RetrodictDocument, RetrodictRow
from schedlib.layout.members import Member, Structure
from schedlib.layout.rule_judge import Layout
from schedlib.layout.tables import Type

NAMES = ("a", "b", "lock")


def test_the_incidents() -> None:
    found, rules = read_incidents(), read_incident_rules()
    assert len(found) >= 20 and sum(each.blind for each in found) >= 10
    for each in found:
        assert bool(each.bad or each.fix) != bool(each.change) and each.right and each.access, each.name
        assert bool(each.change) == each.name.startswith("own-")
        assert all(rules.class_of(access) for access in each.access)
        if each.kind == "regression":
            # What was wrong with an incident is mended openly.
            assert each.bad and (not each.fix or each.name in {row.name for row in rules.after})


def test_a_wrong_incident_is_refused(tmp_path: Path) -> None:
    text = (INCIDENTS / "dst-refcnt.toml").read_text()
    (tmp_path / "x.toml").write_text(text.replace('kind = "latent"', 'kind = "new"'))
    with pytest.raises(SchedlineError, match="kind"):
        read_incidents(tmp_path)


def contract(*known: DocumentedAccess, shares: bool, together: bool = False) -> str:
    declared = Declaration(
        "toy",
        "include/linux/toy.h",
        NAMES,
        has=lambda name: name in NAMES,
        shares=lambda one, other: shares,
        on_one_line=lambda names: together,
    )
    return first_contract(declared, known=known)


READ = DocumentedAccess(("a", "b", "gone"), AccessClass.READ_MOSTLY, "each lookup")
WRITTEN = DocumentedAccess(("lock",), AccessClass.LOCK, "each change")


def test_accesses_that_do_not_fit_are_apart_or_a_finding() -> None:
    assert "[[exception]]" not in contract(READ, WRITTEN, shares=False)
    assert "apart = " in contract(READ, WRITTEN, shares=False)
    text = contract(READ, WRITTEN, shares=True)
    assert "[[exception]]" in text and "open = true" in text and "apart = " not in text
    assert "gone" not in text


def test_what_is_on_one_line_has_to_stay_there() -> None:
    assert 'keep = "on one line"' in contract(READ, shares=False, together=True)
    assert "keep = " not in contract(READ, shares=False)
    assert "keep = " not in contract(WRITTEN, shares=False, together=True)


def strict(*names: str, anywhere: bool = False, in_a_row: bool = True, class_: AccessClass = AccessClass.SHARED) -> str:
    declared = Declaration(
        "toy",
        "include/linux/toy.h",
        NAMES,
        has=lambda name: name in NAMES,
        on_one_line=lambda names: True,
        in_a_row=lambda names: in_a_row,
        may_begin_anywhere=anywhere,
    )
    return first_contract(declared, known=[DocumentedAccess(names, class_, "all")], strict=True)


def test_stricter_rules() -> None:
    assert 'keep = "closed"' in strict(*NAMES)
    assert 'keep = "closed"' not in strict("a", "b")
    assert 'keep = "closed"' not in strict(*NAMES, class_=AccessClass.READ_MOSTLY)
    assert 'keep = "unbroken"' in strict("a", "b", anywhere=True)
    assert 'keep = "unbroken"' not in strict("a", "b") + strict("a", "b", anywhere=True, in_a_row=False)
    # Without `strict` nothing of it.
    assert "closed" not in contract(DocumentedAccess(NAMES, AccessClass.SHARED, "all"), shares=False, together=True)


def layout(offset: int) -> Layout:
    members = (Member("a", "long", 0, 8), Member("b", "long", 8, 8), Member("lock", "spinlock_t", offset, 4))
    structures = {"toy": Structure(Type("toy", 256, 64), members)}
    return Layout("x", 64, "", frozenset(), frozenset(), {}, {}, structures)


def test_findings_are_about_members_that_share_a_line() -> None:
    rules = Rules((), (), (OpenFinding("toy", ("a", "b"), ("lock", "gone"), "why"),))
    assert open_findings(rules, layout(16)) == [("a", "lock", "b")]
    assert open_findings(rules, layout(64)) == []


QUIET: tuple[tuple[str, Literal["applied", "undone", "no"], int, str], ...] = (
    ("6.1", "applied", 2, "mended"),
    ("6.1", "applied", 1, ""),
    ("6.1", "applied", 0, ""),
    ("7.2", "undone", 1, ""),
    ("7.2", "applied", 1, "false"),
    ("7.2", "no", 0, ""),
)


def quiet_row(older: str, tried: Literal["applied", "undone", "no"], judged: int, is_: str) -> QuietRow:
    alarm = Alarm(rule="toy.G1", names=("a",), why="why", source="s", is_="mended", holds_later=False)
    alarm = msgspec.structs.replace(alarm, is_=is_)
    newer = {"6.1": "6.12", "7.2": "7.3"}[older]
    alarms = (alarm,) if is_ else ()
    return QuietRow("toy", older, newer, ("+int a;",), tried, judged, alarms, ())


def test_the_page_counts_and_tells_the_misses() -> None:
    known = read_incidents()[:2]
    rows = tuple(
        RetrodictRow(
            name=each.name,
            struct=each.struct,
            kind=each.kind,
            blind=True,
            own=False,
            commit=each.commit,
            right=each.right,
            after="",
            caught=not number,
            silent=True,
            said=(),
            packs=(),
            why="no rule breaks" if number else "",
            seconds=(1.0, 2.0),
        )
        for number, each in enumerate(known)
    )
    ours = msgspec.structs.replace(rows[0], own=True)
    quiet = tuple(quiet_row(*each) for each in QUIET)
    found = RetrodictDocument(
        schema="retrodict-1", tree="7.3", compiler="gcc", rules="2026-11-25", incidents=(*rows, ours), quiet=quiet
    )
    text = "\n".join(page(found, known, "2026-11-25"))
    assert "| our own changes, apart | 1 of 1 |" in text
    assert "| false alarms of today's contracts, of quiet changes | 1 of 4: 25.0 % (4.6 to 69.9) |" in text
    for row in ("pieces | 3 | 3 | 6", "no rule held before | 1 | 0 | 1", "compile neither way | 0 | 1 | 1"):
        assert f"| {row} |" in text
    assert "| counted | 2 | 2 | 4 |" in text and "| alarms | 1 | 1 | 2 |" in text
    assert "| `toy` | 6.1, 6.12 | `+int a;` | toy.G1 | a | no | finding: mended later | why |" in text
    # What could not alarm does not make the share smaller.
    assert "so the 1 pieces that were undone there could not alarm.\nWithout them: 1 of 3:" in text
    without = msgspec.structs.replace(found, quiet=())
    assert "alarms" not in "\n".join(page(without, known, "2026-11-25"))
    assert "| caught by the derived contract | 1 of 2 |" in text
    assert f"- `{known[1].name}`: no rule breaks." in text and f"- `{known[0].name}`" not in text
