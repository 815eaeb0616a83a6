# SPDX-License-Identifier: GPL-2.0
"""The data that a premerge keeps so that others can judge it again: offsets, consoles with lists of tests, runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from schedlib.cache import read_regular
from schedlib.check.check_boots import CheckPlan
from schedlib.check.check_results import JudgedBoot, judged_boot
from schedlib.console.expected import expected_tests
from schedlib.console.judge import judge
from schedlib.console.known_races import explained
from schedlib.contracts.contract_rules import Rules, our_rules, pack_rules
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.document import Document, Refused
from schedlib.formats.strict import Positive, Strict, Word
from schedlib.guest.boot import LOG_LIMIT, Ending, GuestRun
from schedlib.layout.members import Structure
from schedlib.layout.rule_judge import Layout
from schedlib.names import pack_names
from schedlib.premerge.premerge_verb import GUESTS, LAYOUTS
from schedlib.verdict import Verdict, worst

_AGAIN = "make it again: schedline premerge"


class KeptLayout(Strict, frozen=True):
    """What the rules are judged on: whether each condition of the contracts holds, and structures with all members."""

    line: Positive
    holds: dict[Word, bool]
    structures: dict[Word, Structure]

    def layout(self, name: str) -> Layout:
        holds = frozenset(condition for condition, value in self.holds.items() if value)
        return Layout(name, self.line, "", holds, frozenset(), self.structures)


def judged_rules() -> tuple[Rules, Rules]:
    """The rules of the changes, and those of packs."""
    return our_rules(), pack_rules(pack_names())


def _conditions() -> frozenset[str]:
    return frozenset(condition for rules in judged_rules() for condition in rules.conditions())


class GuestRow(Strict, frozen=True):
    """One guest, whose console is NAME.log: how it ended, and its verdict, as the program that booted it saw them."""

    name: Annotated[str, Meta(pattern="^[^/]+$")]
    cpus: Positive
    ending: Ending
    seen: Verdict


class GuestsDocument(Document, frozen=True, kw_only=True):
    """What each guest had to run: not the suites that cannot be built in the tree, and all of the expected changes."""

    no_control_chars = True

    schema: Literal["guests-1"]
    target: Word
    left_out: dict[str, str]
    expected: tuple[str, ...]
    guests: Annotated[tuple[GuestRow, ...], Meta(min_length=1)]


Guests = tuple[GuestsDocument, tuple[JudgedBoot, ...]]


class OffsetsDocument(Document, frozen=True, kw_only=True):
    """The layouts of base and head; null for a column that the tree cannot have.

    `seen`: the verdict of the premerge, which has the sources, too; `said`: what only these show.
    """

    no_control_chars = True

    schema: Literal["offsets-5"]
    columns: dict[str, tuple[KeptLayout, KeptLayout] | None]
    seen: Verdict
    said: tuple[str, ...]


def write_layouts(
    out: Path, pairs: Mapping[str, tuple[Layout, Layout] | None], seen: Verdict, said: Sequence[str] = ()
) -> None:
    conditions = sorted(_conditions())

    def kept(layout: Layout) -> KeptLayout:
        holds = {condition: condition in layout.holds for condition in conditions}
        return KeptLayout(layout.line, holds, dict(layout.structures))

    columns = {name: pair and (kept(pair[0]), kept(pair[1])) for name, pair in pairs.items()}
    document.write(out / LAYOUTS, OffsetsDocument(schema="offsets-5", columns=columns, seen=seen, said=tuple(said)))


def read_layouts(out: Path) -> OffsetsDocument | None:
    """The layouts; None if the layout part did not run."""
    if not os.path.lexists(out / LAYOUTS):
        return None
    found = document.read(out / LAYOUTS, OffsetsDocument, _AGAIN)
    for name, pair in found.columns.items():
        for kept in pair or ():
            if other := set(kept.holds) ^ _conditions():
                why = f"holds for {name} knows the conditions of other contracts: {', '.join(sorted(other))}"
                raise Refused(out / LAYOUTS, OffsetsDocument, why, _AGAIN)
    return found


def write_guests(place: Path, plan: CheckPlan, boots: tuple[JudgedBoot, ...]) -> Guests:
    """Record what each guest had to run, how it ended, and its verdict. Written last."""
    found = GuestsDocument(
        schema="guests-1",
        target=plan.target.name,
        left_out={suite.name: suite.why for suite in plan.left_out},
        expected=tuple(sorted(plan.expected)),
        guests=tuple(
            GuestRow(boot.name, cpus, boot.ending, boot.verdict) for cpus, boot in zip(plan.classes, boots, strict=True)
        ),
    )
    document.write(place / GUESTS, found)
    return found, boots


def read_guests(place: Path) -> Guests | None:
    """The record, and its consoles, judged again: never better than the record has it. None if nothing was booted."""
    if not os.path.lexists(place / GUESTS):
        return None
    record = document.read(place / GUESTS, GuestsDocument, _AGAIN)
    boots: list[JudgedBoot] = []
    for row in record.guests:
        log = place / f"{row.name}.log"
        try:
            console = read_regular(log, LOG_LIMIT)
        except OSError as error:
            raise SchedlineError(f"{log}, which {GUESTS} names, cannot be read: {error.strerror}", _AGAIN) from error
        expected = expected_tests(row.cpus, None, list(record.left_out))
        judgement = judge(console, expected, ending=row.ending, known_races=explained)
        judgement = replace(judgement, verdict=worst([judgement.verdict, row.seen]))
        boots.append(judged_boot(row.name, GuestRun((), log, row.ending), judgement))
    return record, tuple(boots)
