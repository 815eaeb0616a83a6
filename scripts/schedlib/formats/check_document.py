# SPDX-License-Identifier: GPL-2.0
"""`schedline check` and `judge`: the results of one or more judged boots."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Count, Moment, Strict, Word
from schedlib.verdict import Verdict

SaidPresence = Literal["present", "partial", "absent", "n/a", "unknown"]


class CheckTree(Strict, frozen=True):
    """Where the kernel's source came from. dirty: files that are modified or untracked."""

    origin: Word
    base: str
    dirty: Count


class CheckChange(Strict, frozen=True):
    """One change.

    Attributes:
        present: whether the running kernel says that it has the change; unknown when it says nothing.
        state: its state in the composed tree.
    """

    id: Word
    expected: bool
    present: SaidPresence
    state: str
    verdict: Verdict


class CheckTest(Strict, frozen=True):
    """One test.

    Attributes:
        name: suite:case or suite:case:parameter.
        line: line of the log, 0 if the log does not have it.
    """

    name: Word
    outcome: Literal["PASS", "FAIL", "SKIP", "MISSING", "CRASHED"]
    reason: str
    duration_s: Amount | None
    diagnostics: tuple[str, ...]
    line: Count


class CheckProblem(Strict, frozen=True):
    """A problem of the log as a whole.

    Attributes:
        verdict: PASS for a remark.
        test: the test that was running, or was the next to end.
    """

    kind: Annotated[str, Meta(pattern="^[a-z-]+$")]
    line: Count
    text: str
    verdict: Verdict
    test: str


class CheckBoot(Strict, frozen=True):
    """One guest, or one saved log."""

    name: Word
    command: tuple[str, ...]
    ending: Literal["exited", "timed out", "killed", "died", "unknown"]
    log: str
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None
    seconds: Amount | None
    verdict: Verdict
    tests: tuple[CheckTest, ...]
    problems: tuple[CheckProblem, ...]


class CheckDocument(Document, frozen=True, kw_only=True):
    """schedline check: the results of one or more judged boots.

    Attributes:
        tool: name and version of what wrote this file.
        started: with time zone.
        fingerprint: machine, kernel, build-id, configuration, command line, boot ids, tool versions.
    """

    schema: Literal["check-1"]
    tool: Word
    started: Moment
    fingerprint: dict[str, str]
    status: Verdict
    tree: CheckTree | None
    changes: tuple[CheckChange, ...]
    boots: tuple[CheckBoot, ...]
