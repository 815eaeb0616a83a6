# SPDX-License-Identifier: GPL-2.0
"""configs/incidents/: layout incidents of the kernel, and the rules that judge what would have been said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import AccessClass
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Count, Positive, Strict, Word, Wrong
from schedlib.paths import CONFIGS

INCIDENTS = CONFIGS / "incidents"
_RULES = CONFIGS / "incidents-rules.toml"

Often = Literal["many", "owner", "rare", "spin"]
"""By all CPUs, by the one that owns the object, or hardly ever; `spin`: in a loop by all that wait."""


class IncidentAccess(Strict, frozen=True):
    """Who read and wrote some members before the fix: how often, and in which functions or on which occasion."""

    members: tuple[Word, ...]
    reads: Often
    writes: Often
    who: Word


class Played(Strict, frozen=True):
    """What has accesses to the structure.

    Attributes:
        workload: of `schedline c2c`.
        object: the structure that a trace has; empty: that of the incident.
        inside: the path to the incident's structure in it; `a[0]` is each element of a.
        after: what was added after the first counts, so that it can be played; then it does not count as caught.
    """

    workload: Word
    object: str = ""
    inside: str = ""
    after: str = ""


class Incident(Strict, frozen=True):
    """A layout that cost something; see configs/incidents-rules.toml.

    Attributes:
        name: of its file.
        file: what declares the structure; empty: it is looked for.
        kind: bad from its first day, or as in the fix before.
        blind: written before the contracts were looked at.
        commit: that of the fix; empty if it was not merged or is not known.
        date: year and month of the fix.
        measured: what was measured then.
        machine: on what machine.
        read: what was read of it.
        right: the members of which one has to be named.
        bad, fix: diffs; empty: Linux 7.3 as it is.
        change: one of the changes under test; then `bad` is 7.3 without it, and `fix` 7.3 with it. It counts apart.
        play: how its accesses are counted.
        not_played: why they are not.
    """

    name: Word
    title: Word
    struct: Word
    kind: Literal["latent", "regression"]
    blind: bool
    commit: str
    date: Word
    measured: Word
    machine: Word
    read: Word
    right: tuple[Word, ...]
    access: tuple[IncidentAccess, ...]
    file: str = ""
    thread: str = ""
    change: str = ""
    bad: str = ""
    fix: str = ""
    play: Played | None = None
    not_played: str = ""

    def __post_init__(self) -> None:
        if (self.play is None) != bool(self.not_played):
            raise Wrong("has both [play] and not_played, or neither", "name a workload, or say why there is none")


class ClassOf(Strict, frozen=True, rename={"is_": "is"}):
    """The class of members that are read and written so."""

    reads: Often
    writes: Often
    is_: AccessClass


class MendedLater(Strict, frozen=True):
    """An incident that was missed in the first run, and what was mended since."""

    name: Word
    what: Word


class QuietKernels(Strict, frozen=True):
    """The kernels whose differences are quiet changes, the oldest first, and when the rules about them were fixed."""

    date: Word
    kernels: tuple[Word, ...]


class WorkloadRounds(Strict, frozen=True):
    """A workload that is traced, and the rounds of each of its threads."""

    workload: Word
    rounds: Positive


class ReplayRules(Strict, frozen=True):
    """How counts are made: the guests, and what has to be true of the counts.

    Attributes:
        date: when this was fixed.
        first: so many fields to blame count.
        restarts: of the search for another order.
        config: fragments of configs/kernel/ on top of those of `schedline c2c`.
    """

    date: Word
    cpus: Positive
    quanta: Annotated[tuple[Positive, ...], msgspec.Meta(min_length=2)]
    first: Positive
    restarts: Count
    config: tuple[Word, ...]
    trace: tuple[WorkloadRounds, ...]

    def rounds_of(self, workload: str) -> int:
        """The rounds of each thread; SchedlineError if this workload is not traced."""
        for row in self.trace:
            if row.workload == workload:
                return row.rounds
        raise SchedlineError(f"configs/incidents-rules.toml has no rounds for {workload}", "add [[replay.trace]]")


class IncidentRules(Strict, frozen=True, rename={"class_": "class"}):
    """When they were fixed, the most open findings that count, the classes, and what was mended after the first run.

    Attributes:
        replay: those for counts.
    """

    date: Word
    most_findings: Positive
    class_: tuple[ClassOf, ...]
    quiet: QuietKernels
    replay: ReplayRules
    after: tuple[MendedLater, ...] = ()

    def class_of(self, access: IncidentAccess) -> AccessClass:
        """The class of an access; ValueError if there is none."""
        for row in self.class_:
            if (row.reads, row.writes) == (access.reads, access.writes):
                return row.is_
        raise ValueError(f"no class for reads {access.reads}, writes {access.writes}")


def read_incidents(directory: Path = INCIDENTS) -> tuple[Incident, ...]:
    """All incidents, by date; SchedlineError if a file is wrong."""
    found = (read_toml(path, Incident, stem="name") for path in directory.glob("*.toml"))
    return tuple(sorted(found, key=lambda each: (each.date, each.name)))


def read_incident_rules(path: Path = _RULES) -> IncidentRules:
    """The rules; SchedlineError if the file is wrong."""
    return read_toml(path, IncidentRules)
