# SPDX-License-Identifier: GPL-2.0
"""`schedline layout drift`: what became of all contracts from one kernel to the next."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Moment, Positive, Strict, Word
from schedlib.verdict import Verdict


class DriftKind(Enum):
    """What is found between two kernels."""

    BROKEN = "broken"
    """A rule that held in an older kernel does not hold in the newer one."""
    INTRUDER = "intruder"
    """A rule was broken before; now a further member of another class is on its lines."""
    NEVER_HELD = "never held"
    """A rule that could not be judged before can be judged now, and does not hold."""
    FULL = "full"
    """A guarded or closed line lost its last bytes."""
    JOINED = "joined"
    """A member that no contract names came to lie on a line that a contract speaks of."""
    READ = "read"
    """A function that a contract names as reader began to touch a member off the lines of its groups."""
    GONE = "gone"
    """A member that a contract names is no longer there."""
    WENT = "went"
    """A rule could be judged before and no longer can."""
    CAME = "came"
    """A rule could not be judged before, and holds now."""
    MENDED = "mended"
    """A rule was broken before, and holds now."""

    @property
    def is_red(self) -> bool:
        """Whether it makes the verdict FAIL."""
        return self in (DriftKind.BROKEN, DriftKind.INTRUDER)

    @property
    def is_amber(self) -> bool:
        """Whether somebody should look at it."""
        return not self.is_red and self not in (DriftKind.CAME, DriftKind.MENDED)


class DriftKernel(Strict, frozen=True):
    """One of the kernels, in order of time.

    Attributes:
        name: as it was given.
        origin: package and version, or the path.
        commit: what was compiled; empty for a kernel that was built already.
        notes: what could not be compared.
    """

    name: Word
    origin: Word
    commit: str
    notes: tuple[str, ...]


class DriftCell(Strict, frozen=True):
    """A contract on a kernel and a column.

    Attributes:
        contract: tag of the structure.
        column: architecture and configuration.
        line: bytes in a cache line.
        size: of the structure; null if the kernel does not have it.
        passed, failed, not_judged: ids of the rules.
    """

    contract: Word
    column: Word
    kernel: Word
    line: Positive
    size: Count | None
    passed: tuple[Word, ...]
    failed: tuple[Word, ...]
    not_judged: tuple[Word, ...]


class DriftFinding(Strict, frozen=True):
    """Something between two kernels that follow each other.

    Attributes:
        before, after: names of the kernels.
        columns: where it is so.
        rules: ids.
        members: those that it is about.
        readers: functions that the contract names as readers of the lines' members; of a read the function.
        text: in words.
        hunk: the part of the declaration, or of the function, that differs; empty if there is no source.
    """

    kind: DriftKind
    contract: Word
    before: Word
    after: Word
    columns: tuple[Word, ...]
    rules: tuple[Word, ...]
    members: tuple[Word, ...]
    readers: tuple[Word, ...]
    text: Word
    hunk: str


class DriftMove(Strict, frozen=True):
    """A member that begins on another line; null if a kernel does not have it. named: whether the contract names it."""

    contract: Word
    before: Word
    after: Word
    columns: tuple[Word, ...]
    member: Word
    old: Count | None
    new: Count | None
    named: bool


class LayoutDriftDocument(Document, frozen=True, kw_only=True):
    """schedline layout drift: what became of all contracts from one kernel to the next.

    Attributes:
        tool: name and version of what wrote this file.
        started: with time zone.
        command: what makes it again.
        fingerprint: machine, compilers.
        kernels: in order of time.
    """

    schema: Literal["layout-drift-1"]
    tool: Word
    started: Moment
    command: Word
    fingerprint: dict[str, str]
    status: Verdict
    kernels: tuple[DriftKernel, ...]
    cells: tuple[DriftCell, ...]
    findings: tuple[DriftFinding, ...]
    moves: tuple[DriftMove, ...]
