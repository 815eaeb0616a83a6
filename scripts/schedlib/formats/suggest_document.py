# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c suggest`: an order of the members of a structure, and what it does to the misses of workloads."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Count, Moment, Positive, Strict, Whole, Word

Mark = Literal["yes", "no", "no longer"]


class SuggestedMove(Strict, frozen=True):
    """A member at another place.

    Attributes:
        before, after: its offset, in bytes.
        aligned: whether an attribute makes it start a line; `no longer` if that attribute goes.
    """

    name: Word
    before: Count
    after: Count
    aligned: Mark


class LayoutCosts(Strict, frozen=True):
    """What a layout costs in one workload.

    Attributes:
        layout: `today`, `suggested`, or another one that was counted, too.
        held_out: whether the search did not see this workload.
        measured: whether a kernel with this layout ran; else its trace was played again.
        misses, upgrades, false_shared: of the structure, with the kernel's lines, one number for each quantum.
        longer_lines: misses of the middle quantum with other lines, by their size.
    """

    layout: Word
    workload: Word
    held_out: bool
    measured: bool
    misses: tuple[Count, ...]
    upgrades: tuple[Count, ...]
    false_shared: tuple[Count, ...]
    longer_lines: dict[str, Count]


class SuggestDocument(Document, frozen=True, kw_only=True):
    """schedline c2c suggest: an order of members, and its evidence.

    Attributes:
        tool: name and version of what wrote this file.
        fingerprint: of the kernel of the traces.
        struct: the structure.
        file: the file that declares it.
        status: `gain` if every workload has fewer misses in every quantum, one that the search did not see among
            them; else why there is no gain.
        seed: of the search.
        tried: orders whose misses were counted.
        seconds: of the search.
        size, new_size: of the structure, in bytes.
        moved: the members that move.
    """

    schema: Literal["suggest-1"]
    tool: Word
    started: Moment
    fingerprint: dict[str, str]
    struct: Word
    file: Word
    status: Word
    seed: Whole
    tried: Count
    seconds: Amount
    size: Positive
    new_size: Positive
    moved: tuple[SuggestedMove, ...]
    costs: tuple[LayoutCosts, ...]
