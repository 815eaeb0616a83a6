# SPDX-License-Identifier: GPL-2.0
"""`schedline dev retrodict`: what a contract would have said of layout incidents."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Count, Strict, Word


class CountedRow(Strict, frozen=True):
    """What a trace says of an incident, when it is played with each layout.

    Attributes:
        good, bad: misses on the objects of the structure, for each quantum; empty if it cannot be played.
        costs_more: whether the bad layout has more by more than the spread of the quanta.
        better: whether the fix has fewer in each quantum.
        first: the fields to blame in the bad layout, the first ones.
        rank: of the first field of `right` among the fields of these objects; 0 if it saves nothing, or is not there.
        caught: by the rules.
        after: what was added after the first counts, so that it can be played; then it does not count as caught.
        suggested: misses with the order that the search found; empty if there is none.
        why: why it was not caught, or not played.
        no_suggestion: why there is none.
        seconds: to play and judge the layouts, and to search.
    """

    workload: Word
    good: tuple[Count, ...]
    bad: tuple[Count, ...]
    costs_more: bool
    better: bool
    first: tuple[str, ...]
    rank: Count
    caught: bool
    after: str
    suggested: tuple[Count, ...]
    why: str
    no_suggestion: str
    seconds: tuple[Amount, Amount]


class TraceRow(Strict, frozen=True):
    """A trace that was played.

    Attributes:
        rounds: of each thread.
        bytes: of its file.
        seconds: for all its guests; 0 if that is not known.
        load: the machine's load average when it ended; 0 if that is not known.
    """

    workload: Word
    rounds: Count
    bytes: Count
    seconds: Amount
    load: Amount


class ReplayFacts(Strict, frozen=True):
    """What counted.

    Attributes:
        rules: their date.
        configuration: the names of its fragments.
    """

    rules: Word
    cpus: Count
    quanta: tuple[Count, ...]
    configuration: Word
    compiler: Word
    emulator: Word
    traces: tuple[TraceRow, ...]


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
        not_played: why no workload can count it.
        counted: what the counts say; None if they were not asked for, or it is not played.
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
    not_played: str
    counted: CountedRow | None


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
    """schedline dev retrodict: what a contract and counts would have said.

    Attributes:
        tree: where it came from.
        rules: the date of those for contracts.
        replay: what counted; None if nothing was counted.
    """

    schema: Literal["retrodict-1"]
    tree: Word
    compiler: Word
    rules: Word
    incidents: tuple[RetrodictRow, ...]
    quiet: tuple[QuietRow, ...]
    replay: ReplayFacts | None
