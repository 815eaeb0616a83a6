# SPDX-License-Identifier: GPL-2.0
"""`schedline dev retrodict`: what a contract would have said of layout incidents."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Count, Strict, Word


class RetrodictRow(Strict, frozen=True):
    """An incident.

    Attributes:
        own: whether it is one of the changes under test, which count apart.
        commit: that of the fix.
        right: the members of which one has to be named.
        after: what was mended after the first run; then it does not count as caught.
        caught: whether the derived contract names one of them.
        silent: whether it says nothing of the fix.
        said: what it says of the bad layout.
        packs: the rules of today's contracts that the bad layout breaks and that name one of `right`.
        why: why it was not caught.
        seconds: for deriving the contract and judging it, and for today's contracts.
    """

    name: Word
    struct: Word
    kind: Literal["latent", "regression"]
    blind: bool
    own: bool
    commit: str
    right: tuple[Word, ...]
    after: str
    caught: bool
    silent: bool
    said: tuple[str, ...]
    packs: tuple[str, ...]
    why: str
    seconds: tuple[Amount, Amount]


class Alarm(Strict, frozen=True, rename={"is_": "is"}):
    """A rule that a quiet change breaks.

    Attributes:
        names: the members that the complaint names.
        why, source: of the rule.
        is_: a finding if somebody has mended it since, or an incident is about it; else a false alarm.
        holds_later: whether the rule holds in the newer kernel, which has all pieces.
    """

    rule: Word
    names: tuple[str, ...]
    why: str
    source: str
    is_: Literal["false", "mended", "incident"]
    holds_later: bool


class QuietRow(Strict, frozen=True):
    """A piece of the difference between two kernels in a structure that has a contract.

    Attributes:
        lines: those that it removes, with `-`, and adds, with `+`.
        tried: applied to the older kernel, undone in the newer one, or neither compiles.
        judged: how many rules held before.
        alarms: the rules that hold no longer.
        asks: the rules that can no longer be judged, because a member is gone.
    """

    struct: Word
    older: Word
    newer: Word
    lines: tuple[str, ...]
    tried: Literal["applied", "undone", "no"]
    judged: Count
    alarms: tuple[Alarm, ...]
    asks: tuple[str, ...]


class RetrodictDocument(Document, frozen=True, kw_only=True):
    """schedline dev retrodict: what a contract would have said. rules: their date; tree: where it came from."""

    schema: Literal["retrodict-1"]
    tree: Word
    compiler: Word
    rules: Word
    incidents: tuple[RetrodictRow, ...]
    quiet: tuple[QuietRow, ...]
