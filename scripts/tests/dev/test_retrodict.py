# SPDX-License-Identifier: GPL-2.0
"""The layout incidents of configs/incidents/, and the contract that is derived from a layout before."""

from __future__ import annotations

import re
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
from schedlib.formats.retrodict_document import (
    Alarm,
    CountedRow,
    QuietRow,
    ReplayFacts,
    RetrodictDocument,
    RetrodictRow,
    TraceRow,
)
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


def test_an_incident_with_both_is_refused(tmp_path: Path) -> None:
    text = (INCIDENTS / "qdisc-state.toml").read_text()
    (tmp_path / "x.toml").write_text(f'{text}\n[play]\nworkload = "rt"\n')
    with pytest.raises(SchedlineError, match="both"):
        read_incidents(tmp_path)
    (tmp_path / "x.toml").write_text(re.sub("not_played = .*\n", "", text))
    with pytest.raises(SchedlineError, match="neither"):
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
            not_played="",
            counted=None,
        )
        for number, each in enumerate(known)
    )
    ours = msgspec.structs.replace(rows[0], own=True)
    quiet = tuple(quiet_row(*each) for each in QUIET)
    found = RetrodictDocument(
        schema="retrodict-1",
        tree="7.3",
        compiler="gcc",
        rules="2026-11-25",
        incidents=(*rows, ours),
        quiet=quiet,
        replay=None,
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
    assert "| caught by the derived contract | 1 of 2: 50.0 % (9.5 to 90.5) |" in text
    assert f"- `{known[1].name}`: no rule breaks." in text and f"- `{known[0].name}`" not in text


def counted(caught: bool, suggested: tuple[int, ...] = (), after: str = "") -> CountedRow:
    return CountedRow(
        workload="rt",
        good=(10, 11),
        bad=(20, 21),
        costs_more=True,
        better=True,
        first=("toy.a",),
        rank=1 if caught else 4,
        caught=caught,
        after=after,
        suggested=suggested,
        why="" if caught else "the right member is number 4",
        no_suggestion="" if suggested else "the search finds no better order",
        seconds=(12.0, 3.0),
    )


def test_the_page_has_the_counts_as_a_second_means() -> None:
    known = read_incidents()[:5]
    plain = [
        RetrodictRow(
            name=each.name,
            struct=each.struct,
            kind=each.kind,
            blind=True,
            own=False,
            commit=each.commit,
            right=each.right,
            after="",
            caught=number == 0,
            silent=True,
            said=(),
            packs=(),
            why="" if number == 0 else "no rule breaks",
            seconds=(1.0, 2.0),
            not_played="no card" if number == 3 else "",
            counted=None,
        )
        for number, each in enumerate(known)
    ]
    # Caught by both; by counts alone, in one that the contract caught only later; by none; not played; only later.
    rows = (
        msgspec.structs.replace(plain[0], counted=counted(True, (10, 11))),
        msgspec.structs.replace(plain[1], counted=counted(True, (10, 12)), caught=True, after="it was mended"),
        msgspec.structs.replace(plain[2], counted=counted(False)),
        plain[3],
        msgspec.structs.replace(plain[4], counted=counted(True, after="a workload was written")),
    )
    trace = TraceRow("rt", 40, 2_000_000, 33.0, 1.5)
    older = TraceRow("tcp", 60, 1_000_000, 9.0, 0.0)
    facts = ReplayFacts("2026-11-25", 8, (97, 100), "c2c", "gcc", "QEMU 7.2", (trace, older))
    found = RetrodictDocument(
        schema="retrodict-1", tree="7.3", compiler="gcc", rules="2026-11-25", incidents=rows, quiet=(), replay=facts
    )
    text = "\n".join(page(found, known, "2026-11-25"))
    for row in (
        "caught by the derived contract | 1 of 5: 20.0 % (3.6 to 62.4)",
        "caught by counts | 2 of 5: 40.0 % (11.8 to 76.9)",
        "caught by the contract or by counts | 2 of 5: 40.0 % (11.8 to 76.9)",
        "incidents that a built-in workload can count | 3 of 5",
        "counted only after something was added, and not in the numbers | 1 |\n| of these, caught by counts | 1",
        "caught by counts, of those counted | 2 of 3: 66.7 % (20.8 to 93.9)",
        "the fix has fewer misses in each quantum, of those counted | 3 of 3",
        "`suggest` is as good as the fix, of those with a suggestion | 1 of 2",
        "seconds for the counts, with kept traces, middle and most | 12.0, 12.0",
        "rt | 40 | 2.0 | 33.0 | 1.5",
        "tcp | 60 | 1.0 | 9.0 | not known",
    ):
        assert f"| {row} |" in text
    assert "Other work kept the machine busy" not in text
    assert "No traffic was counted" not in text and "No quiet changes were tried." in text
    assert f"- `{known[2].name}`: the right member is number 4." in text
    assert f"- `{known[3].name}`: no card." in text
    assert f"| {known[1].name} | rt | 11 (10..11) | 21 (20..21) | yes | `toy.a` | 1 | yes | 12 (10..12) |" in text
    # Without them, nothing of it.
    plain_text = "\n".join(
        page(msgspec.structs.replace(found, replay=None, incidents=tuple(plain)), known, "2026-11-25")
    )
    assert "by counts" not in plain_text and "No traffic was counted and no quiet changes were tried." in plain_text
